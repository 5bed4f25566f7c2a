"""Whether the variant computes under `torch.compile` what it computes without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch._dynamo.utils import counters
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, Verdict, decide
from patchgen.verify.checks.numbers import require_scenario
from patchgen.verify.compare.differences import differences, worst
from patchgen.verify.compare.tolerance import REFORMULATED, REORDERED, Bound
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.part_check import Observation

# Inductor writes its own kernels, with its own formulas for norms and exponentials.  The other
# backends run torch's kernels.
WRITE_KERNELS = frozenset({"inductor"})


def check_compiled(context: CheckContext) -> Verdict:
    """Compare the compiled variant with the uncompiled one, with the backend of the case's detail.

    FAIL where nothing was compiled, since the variant would be held against itself, and where a
    graph ends for a reason that ends none of the parent's.
    """
    pair, scenario, route = context.pair, context.case.scenario, context.pair.routes[0]
    require_scenario(pair, scenario)
    inputs = pair.inputs(scenario, torch.float32)
    parent, variant = pair.models(route, torch.float32, fresh=True)
    reference = observe_step(variant, inputs, scenario)
    with _compiling(variant, context.case.detail) as compiled:
        observed = observe_step(variant, inputs, scenario)
    if not compiled.graphs:
        return Verdict("FAIL", f"{context.case.detail} was given no graph: nothing was compiled")
    if compiled.breaks:
        with _compiling(parent, "eager") as parents:
            checkpoints = parent.supports_gradient_checkpointing
            observe_step(parent, inputs, scenario, checkpointing=checkpoints)
        documented = {reason for check in pair.part_checks for reason in check.ends_graphs}
        if more := compiled.breaks - parents.breaks - documented:
            listed = "; ".join(sorted(more))
            return Verdict("FAIL", f"graphs end where the parent's do not: {listed}")
    compared = {name: t for name, t in observed.items() if not name.startswith("attentions")}
    found = differences(reference, compared)
    bound = REORDERED
    if context.case.detail in WRITE_KERNELS and worst(found) > bound.at(torch.float32):
        bound = of_kernels(roundings_of(pair, reference, context))
    verdict = decide(context, found, replace(route, bound=bound), "itself uncompiled")
    return replace(verdict, note=f"{verdict.note}; {compiled}")


@dataclass(slots=True)
class _Graphs:
    """What torch.compile did."""

    graphs: int = 0
    operations: int = 0
    breaks: frozenset[str] = frozenset()  # the reasons of graph breaks, without names

    def __str__(self) -> str:
        return f"{self.graphs} graphs of {self.operations} operations"


@contextmanager
def _compiling(model: PreTrainedModel, backend: str) -> Iterator[_Graphs]:
    """A context in which `model` is compiled.  It yields a record that is filled at its end."""
    found = _Graphs()
    torch._dynamo.reset()
    counters.clear()
    model.compile(backend=backend, dynamic=False)
    try:
        yield found
    finally:
        found.graphs = counters["stats"]["unique_graphs"]
        found.operations = counters["stats"]["calls_captured"]
        # The first line is the kind; the lines below name the function, the model and a remedy.
        found.breaks = frozenset(reason.partition("\n")[0] for reason in counters["graph_break"])
        torch._dynamo.reset()


def of_kernels(own: float) -> Bound:
    """The bound for another compiler's kernels if float32 alone moves the model by `own` roundings.

    Two computations in float32 are each that far from the truth, in any direction.  The bound is
    never looser than that of another formula.

    Measured on a CPU: gradients of tiny Llama, BERT and GPT-2 are 8 to 26 roundings from those in
    float64, those of T5 336. T5 does not divide its scores by the root of the head size, so random
    weights spread them widely: if it divided its queries so, it would be 19; without the position
    bias it stays 311. So the 308 roundings that inductor's T5 was apart show no error in the bias
    or in a fused kernel.
    """
    return replace(
        REFORMULATED, roundings=min(REFORMULATED.roundings, max(REORDERED.roundings, 2 * own))
    )


def roundings_of(pair: Pair, narrow: Observation, context: CheckContext) -> float:
    """How many float32 roundings the uncompiled variant is from itself in float64."""
    route, scenario = pair.routes[0], context.case.scenario
    try:
        _, wide = pair.models(route, torch.float64)
        found = differences(
            observe_step(wide, pair.inputs(scenario, torch.float64), scenario), narrow
        )
    except (CannotBuild, RuntimeError):  # XLNet's positions are float32 whatever the model is
        return 0.0
    return worst(found) / torch.finfo(torch.float32).eps

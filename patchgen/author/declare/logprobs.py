"""The logprobs part: heads over words that give log-probabilities of tokens instead of logits.

What a head does between its states and its loss becomes a method, `logits_of`, which runs on a
chunk of tokens:

    logits = self.lm_head(hidden_states)        def logits_of(self, hidden_states):
    logits = logits * self.logit_scale    ->        logits = self.lm_head(hidden_states)
    loss = None                                     logits = logits * self.logit_scale
                                                    return logits
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchgen.author.anatomy.code import called, names, stored
from patchgen.author.anatomy.module import Module, Unfit
from patchgen.author.declare.edits import code, edit, indented
from patchgen.author.declare.loss import Head, heads
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "`model(..., log_probs_of=tokens, temperature=1.0)` gives `log_probs` and `entropy` of each "
    "place, and computes no logits but those of a chunk. See `patchgen.parts.logprobs`."
)
STATES = "hidden_states"


@refusing
def logprobs(module: Module) -> Contribution:
    """What the part declares for `module`."""
    declared: dict[str, Declared] = {}
    missing = []
    for head in heads(module):
        try:
            declared[head.owner.name] = _head(module, head)
        except Unfit as unfit:
            at = module.at(unfit.node or head.loss)
            missing.append(Missing(at, f"{head.owner.name}: {unfit.why}"))
    if not declared:
        reason = missing[0].what if missing else "no head over words takes a loss here"
        raise Unfit(None, reason)
    return Contribution("logprobs", SAYS, tuple(declared.values()), tuple(missing))


def _head(module: Module, head: Head) -> Declared:
    """The head with its own way from states to logits.  Raises Unfit if it has no such steps."""
    method = head.method
    body = method.body
    if method.args.kwarg is None:
        raise Unfit(method, "its forward takes no further arguments")
    first, states = _first(body)
    texts = [ast.unparse(node) for node in body]
    last = texts.index("loss = None") if "loss = None" in texts else 0
    if not 0 < first < last:
        raise Unfit(head.loss, "its logits are not made between its states and `loss = None`")
    steps = [copy.deepcopy(step) for step in body[first:last]]
    first_call = steps[0].value  # type: ignore[attr-defined]
    first_call.args = [ast.Name(STATES, ast.Load())]
    bound = {*parameters(method), *stored(body)} - {"self", "logits", STATES}
    reads = names(steps) & bound
    if reads:
        raise Unfit(body[first], f"its logits depend on `{min(reads)}` too")
    rest = method.args.kwarg.arg
    outputs = _outputs(body[:first])
    arguments = f"self, {ast.unparse(states)}, {outputs}, **{rest}"
    test = f"if {rest}.get('log_probs_of') is not None:"
    given = f"{test}\n    return log_probs_output({arguments})"
    old = code(module, method, texts[first - 1])
    change = edit("give_log_probs", method, [old], [old, given])
    lines = [code(module, method, step, [STATES]) for step in steps]
    lines.append("return logits")
    logits_of = f"def logits_of(self, {STATES}):\n{indented(lines)}"
    return Declared(head.owner.name, members=(change, logits_of))


def _first(body: Sequence[ast.stmt]) -> tuple[int, ast.expr]:
    """Which statement is `logits = self.HEAD(STATES)`, and the states."""
    for number, node in enumerate(body):
        match node:
            case ast.Assign(
                targets=[ast.Name(id="logits")], value=ast.Call(args=[states], keywords=[]) as call
            ) if called(call).startswith("self."):
                return number, states
    return 0, ast.Constant(None)


def _outputs(body: Sequence[ast.stmt]) -> str:
    """The name of what the model below the head returns."""
    for node in body:
        if called(getattr(node, "value", None)).startswith("self."):
            target = getattr(node, "target", None) or node.targets[0]  # type: ignore[attr-defined]
            return dotted(target)
    raise Unfit(body[0], "the outputs of its model are not found")


def check() -> PartCheck:
    from patchgen.verifying.parts.logprobs import LOGPROBS

    return LOGPROBS


PART = Part("logprobs", check, "log-probabilities and entropy of tokens without logits", logprobs)

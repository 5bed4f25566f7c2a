"""Check that the plans a model carries match its modules and parameters.

A model of transformers carries plans by name: which layers are split over processes and how
(`_tp_plan`, `_ep_plan`, `_fsdp_plan`, `_pp_plan`), which modules stay on one device, which weights
are tied or kept in float32, how checkpoints are converted.  transformers skips a name that matches
nothing, with a warning at most; the layer is then whole on every process.  Here each name is
compared with the modules and parameters of a model, which may be on the meta device, and with those
of its parent.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import nn
from transformers import PreTrainedConfig

from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals
from patchgen.verify.plans.declared import declared_findings, declared_names, lost_conversions
from patchgen.verify.plans.finding import Finding
from patchgen.verify.plans.parent import parent_on_meta
from patchgen.verify.plans.styles import SPLITTING, known_styles, unfit_module, unfit_parameter

Kind = Literal["tp", "ep", "pp", "fsdp"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CALLED = {
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
    "pp": "pipeline parallelism",
    "fsdp": "FSDP by transformers' plan",
}
FSDP_STYLES = ("free_full_weight", "keep_full_weight")
# An attribute of a model: for a kind of plan the reason for which a part has no plan for it.
REFUSALS = "_plans_refused"
MOST_NAMED = 4  # findings in one message


def generic(name: str) -> str:
    """`name` with `*` for numbers of layers, as rules of plans name modules and parameters."""
    # As transformers.distributed.parallel_utils.replace_layer_number_by_wildcard, 5.23.
    return re.sub(r"\.\d+(\.|$)", lambda match: f".*{match.group(1)}", name)


def plan_of(model: Any, kind: Kind) -> dict[str, Any]:
    """The model's plan of one kind: its own, its configuration's and those of the models inside it.

    The default FSDP plan that every configuration has does not count if nothing matches it.
    """
    plan = dict(getattr(model, f"_{kind}_plan", None) or {})
    return _without_default(model, plan) if kind == "fsdp" else plan


def _without_default(model: Any, plan: dict[str, Any]) -> dict[str, Any]:
    default = getattr(PreTrainedConfig, "base_model_fsdp_plan", None) or {}
    names = {generic(name) for name, _ in model.named_modules()}
    dead = {
        rule
        for rule in plan.keys() - names
        if any(f".{rule}".endswith(f".{each}") for each in default)
    }
    return {rule: style for rule, style in plan.items() if rule not in dead}


def refusal_of(model: Any, kind: Kind) -> str:
    """Why a part of the model has no plan of that kind; empty if none says so."""
    refusals = (getattr(each, REFUSALS, None) or {} for each in model.modules())
    return next((reasons[kind] for reasons in refusals if kind in reasons), "")


# --- every rule of a plan


@dataclass(frozen=True)
class Places:
    """Where rules can point to in one model, by the names with `*`."""

    modules: Mapping[str, tuple[nn.Module, ...]]
    parameters: Mapping[str, tuple[tuple[nn.Module, str], ...]]  # the owner, and the name in it


def places_of(model: nn.Module) -> Places:
    """Every module and parameter of `model`, several of one name together."""
    modules: dict[str, list[nn.Module]] = {}
    parameters: dict[str, list[tuple[nn.Module, str]]] = {}
    for path, module in model.named_modules():
        modules.setdefault(generic(path), []).append(module)
        for name, _ in module.named_parameters(recurse=False):
            parameters.setdefault(generic(f"{path}.{name}" if path else name), []).append(
                (module, name)
            )
    return Places(
        {k: tuple(v) for k, v in modules.items()}, {k: tuple(v) for k, v in parameters.items()}
    )


def find_plan_faults(model: Any) -> tuple[Finding, ...]:
    """Everything that the model carries by name, and that is not right of it."""
    places = places_of(model)
    return (
        *(one for kind in ("tp", "ep") for one in _rule_findings(model, kind, places)),
        *_fsdp_findings(model, places),
        *_pipeline_findings(model),
        *declared_findings(model),
    )


def plan_problems(model: Any) -> tuple[Problem, ...]:
    """`find_plan_faults` as problems at the model's class."""
    return tuple(one.at(type(model).__name__) for one in find_plan_faults(model))


def _rule_findings(model: Any, kind: Kind, places: Places) -> Iterator[Finding]:
    plan, styles = plan_of(model, kind), known_styles()
    for rule, style in plan.items():
        if styles and style not in styles:
            yield Finding(kind, rule, "PG841", f"there is no style {style}")
        elif rule not in places.modules and rule not in places.parameters:
            yield Finding(kind, rule, "PG840", "no module and no parameter is called so")
        elif unfit := _unfit(rule, style, plan, places):
            yield Finding(kind, rule, "PG841", unfit)


def _unfit(rule: str, style: str, plan: Mapping[str, str], places: Places) -> str:
    own = {
        path.removeprefix(f"{rule}."): value
        for path, value in plan.items()
        if path.startswith(f"{rule}.")
    }
    of_modules = (unfit_module(style, module, own) for module in places.modules.get(rule, ()))
    of_parameters = (unfit_parameter(style, *place) for place in places.parameters.get(rule, ()))
    return next((each for found in (of_modules, of_parameters) for each in found if each), "")


def _fsdp_findings(model: Any, places: Places) -> Iterator[Finding]:
    for rule, style in plan_of(model, "fsdp").items():
        if style not in FSDP_STYLES:
            yield Finding("fsdp", rule, "PG841", f"there is no style {style}")
        elif rule not in places.modules:
            yield Finding("fsdp", rule, "PG840", "no module is called so")


def _pipeline_findings(model: Any) -> Iterator[Finding]:
    names = {name for name, _ in model.named_modules()}
    for rule, stage in plan_of(model, "pp").items():
        if rule not in names:
            yield Finding("pp", rule, "PG840", "no module is called so")
        elif not (
            len(stage) == 2 and all(isinstance(each, list | tuple) and each for each in stage)
        ):
            yield Finding("pp", rule, "PG841", "it names no inputs and outputs")
        else:
            known = _names_in(model, rule.rpartition(".")[0])
            for name in sorted({name for each in stage for name in each} - known):
                yield Finding(
                    "pp", f"{rule}: {name}", "PG840", "the class around it has nothing of this name"
                )


def _names_in(model: Any, owner: str) -> set[str]:
    """Every name in the class of `owner`, keywords included: its forward may call other methods."""
    found: set[str] = set()
    for node in ast.walk(
        ast.parse(textwrap.dedent(inspect.getsource(type(model.get_submodule(owner)))))
    ):
        match node:
            case (
                ast.Name(id=name)
                | ast.arg(arg=name)
                | ast.keyword(arg=str(name))
                | ast.Attribute(attr=name)
            ):
                found.add(name)
    return found


# --- beside the model that it was made from


def splits(model: nn.Module, plan: Mapping[str, Any]) -> dict[str, str]:
    """The style that splits each parameter, by full name, without those that stay whole."""
    # As transformers: a parameter's own rule, else its module's (`_get_parameter_plan`, 5.23).
    found = {}
    for name, _ in model.named_parameters():
        own = generic(name)
        style = plan.get(own, plan.get(own.rpartition(".")[0]))
        if style in SPLITTING:
            found[name] = style
    return found


def lost_findings(model: Any, parent: Any) -> Iterator[Finding]:
    """What the parent's plans split, wrap or name, and this model's do not."""
    for kind in ("tp", "ep"):
        if not refusal_of(model, kind):
            yield from _whole_here(model, parent, kind)
    wrapped = {generic(name) for name, _ in model.named_modules()} & plan_of(model, "fsdp").keys()
    theirs = {generic(name) for name, _ in parent.named_modules()} & plan_of(parent, "fsdp").keys()
    for rule in sorted(theirs - wrapped):
        yield Finding("fsdp", rule, "PG843", "is wrapped in the parent, and not here")
    if not refusal_of(model, "pp"):
        for rule in sorted(plan_of(parent, "pp").keys() - plan_of(model, "pp").keys()):
            yield Finding("pp", rule, "PG843", "is a stage in the parent, and not here")
    yield from lost_conversions(model, parent)


def _whole_here(model: Any, parent: Any, kind: Kind) -> Iterator[Finding]:
    """Matrices that are split in the parent and whole in this model, whatever their names here."""
    theirs, ours = splits(parent, plan_of(parent, kind)), splits(model, plan_of(model, kind))
    sizes = {name: each.numel() for name, each in parent.named_parameters() if each.dim() > 1}
    own = {name: each.numel() for name, each in model.named_parameters()}
    new = [name for name in own if name not in dict(parent.named_parameters())]
    modules = {name for name, _ in model.named_modules()}
    reported: set[str] = set()
    for name in (name for name in theirs if name in sizes):
        near = [name] if name in own else _under(_nearest(name, modules), new)
        # What is as large stands in its place: a router beside experts does not.
        for each in (each for each in near if each not in ours and own[each] >= sizes[name]):
            rule = generic(each)
            if rule not in reported:
                reported.add(rule)
                where = "" if name in own else f", where the parent has {generic(name)}"
                yield Finding(kind, rule, "PG843", f"is whole on every process{where}")
        if not near and (rule := generic(name)) not in reported:
            reported.add(rule)
            yield Finding(
                kind, rule, "PG843", "is split in the parent, and nothing stands in its place"
            )


def _nearest(name: str, modules: set[str]) -> str:
    """The innermost module around `name` that is there."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _under(module: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if not module or name.startswith(f"{module}.")]


@dataclass(frozen=True, slots=True)
class Compared:
    """What is wrong of a model's plans by its own doing, and what its parent has wrong as well."""

    wrong: tuple[Finding, ...]
    inherited: tuple[Finding, ...]
    checked: int  # rules and names that were looked up
    refused: tuple[str, ...]  # engines that a part has no plan for, each with the reason


def compared(model: Any, parent: Any) -> Compared:
    """The plans of `model` beside those of the model that it was made from, of equal sizes."""
    theirs = {(one.kind, one.rule, one.code) for one in find_plan_faults(parent)}
    found = find_plan_faults(model)
    inherited = tuple(one for one in found if (one.kind, one.rule, one.code) in theirs)
    wrong = (*(one for one in found if one not in inherited), *lost_findings(model, parent))
    refused = tuple(f"{CALLED[each]}: {why}" for each in KINDS if (why := refusal_of(model, each)))
    return Compared(wrong, inherited, checked_names(model), refused)


def checked_names(model: Any) -> int:
    """How many rules and names of its plans a model carries."""
    return sum(len(plan_of(model, kind)) for kind in KINDS) + len(declared_names(model))


# --- before a run


def require_plans(model: Any, which: Kind, parent: Any = None) -> tuple[Finding, ...]:
    """Refuse a model with a wrong plan for `which`, before anything is split.

    A generated model is compared with its `parent` of equal sizes, which is built if it is not
    given.  A rule that matches nothing in the parent either is no reason to refuse; a layer that
    the parent splits must be split.  In a model of transformers itself, rules that match nothing
    are an error only if all do: some are for other sizes.

    Returns the faults that were let pass.  Raises PatchgenError: PG842 for a model without a plan
    or with one that a part refuses, PG840 for a rule that matches nothing, PG841 for one that does
    not fit, PG843 for a layer that stays whole.
    """
    name = type(model).__name__
    if reason := refusal_of(model, which):
        raise PatchgenError("PG842", Location(name), f"has no plan for {CALLED[which]}: {reason}")
    if not plan_of(model, which):
        hint = "run the same model on one process, or under FSDP2, which needs no plan"
        raise PatchgenError("PG842", Location(name), f"has no plan for {CALLED[which]}", hint)
    found = [one for one in find_plan_faults(model) if one.kind == which]
    parent = parent_on_meta(model) if parent is None else parent
    if parent is not None:
        theirs = {(one.kind, one.rule, one.code) for one in find_plan_faults(parent)}
        passed = [one for one in found if (one.kind, one.rule, one.code) in theirs]
        wrong = [one for one in found if one not in passed]
        wrong += [one for one in lost_findings(model, parent) if one.kind == which]
    else:
        passed = [one for one in found if one.code == "PG840"]
        wrong = [one for one in found if one not in passed]
    if len(passed) >= len(plan_of(model, which)):
        wrong, passed = [*wrong, *passed], []
    if wrong:
        raise Refusals(one.at(name) for one in wrong)
    return tuple(passed)

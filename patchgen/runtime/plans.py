"""Check that the plans a model carries match its modules and parameters.

A model of transformers says by name which layers are split over processes and how (`_tp_plan`,
`_ep_plan`), and which stay on one device (`_no_split_modules`).  transformers skips a name that
matches nothing.  Here each is compared with a model, on the meta device too, and with its parent.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import torch
from torch import nn

from patchgen import disk
from patchgen.compiler.flat import is_generated
from patchgen.runtime.variants import Variant
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals

BASE = "PreTrainedModel"
# Of a configuration, what is of its own class and not of its parent's.
OWN = ("model_type", "architectures", "transformers_version")

COLUMNS = ("colwise", "colwise_rep", "colwise_gather_output")
ROWS = ("rowwise", "rowwise_rep", "rowwise_split_input")
EMBEDDINGS = ("embedding_rowwise", "embedding_colwise")
# Styles that split a parameter.  The others only change the inputs and outputs of a module.
SPLITTING = (*COLUMNS, *ROWS, *EMBEDDINGS, "packed_colwise", "packed_rowwise", "grouped_gemm")


def unfit_module(style: str, module: nn.Module, rules: Mapping[str, str]) -> str:
    """What is wrong with a module under `style`; `rules` are those of its parameters."""
    kind = type(module).__name__
    wanted = ""
    if style in COLUMNS:
        wanted = "out_features"
    elif style in ROWS:
        wanted = "in_features"
    if wanted and not hasattr(module, wanted):
        return f"{style} is for linear layers, and {kind} has no {wanted}"
    if style in EMBEDDINGS and not isinstance(module, nn.Embedding):
        return f"{style} is for embeddings, and this is a {kind}"
    if style not in ("moe_tp_experts", "ep_dispatch_experts"):
        return ""
    parameters = (name for name, _ in module.named_parameters(recurse=False))
    whole = [name for name in parameters if rules.get(name) not in SPLITTING]
    listed = ", ".join(whole[:3])
    if len(whole) > 3:
        listed += f" and {len(whole) - 3} more"
    if style == "moe_tp_experts":
        # What each rank adds whole is in the sum of all ranks as many times as there are ranks.
        return f"each rank would add its {listed}, and outputs are summed" if whole else ""
    if not isinstance(getattr(module, "num_experts", None), int):
        return f"{kind} does not say num_experts"
    if whole:
        return f"its {listed} would not be split by expert"
    given = inspect.signature(module.forward).parameters.values()
    taken = sum(each.default is each.empty for each in given)
    called = "is not called with tokens, their experts and gates"
    return "" if taken == 3 else f"{kind} {called}, but takes {taken} arguments"


def unfit_parameter(style: str, owner: nn.Module, name: str) -> str:
    size = tuple(owner.get_parameter(name).shape)
    experts = getattr(owner, "num_experts", None)
    of_experts = experts is not None
    if style == "grouped_gemm" and of_experts and size[0] != experts:
        return f"its first axis, {size[0]}, is not that of the {experts} experts"
    by_columns = style in ("packed_colwise", *COLUMNS)
    if by_columns and of_experts and len(size) == 2:
        return f"{style} would split a matrix {size} of experts by expert"
    if style == "packed_colwise" and len(size) > 1 and size[-2] % 2:
        return f"{size[-2]} rows are not two halves"
    return ""


# --- each name of a model

Kind = Literal["tp", "ep"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CALLED = {"tp": "tensor parallelism", "ep": "expert parallelism"}
# An attribute of a model: for a kind of plan the reason for which a part has no plan for it.
REFUSALS = "_plans_refused"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A fault of `rule` in the plan or list `kind`; `code` is a code of the error catalogue."""

    kind: str  # "tp", "no_split"
    rule: str  # "layers.*.mlp.gate_proj", "LlamaDecoderLayer"
    code: str
    what: str

    def at(self, owner: str) -> Problem:
        """The problem of a model of class `owner`."""
        return Problem(Location(owner), self.code, str(self))

    def __str__(self) -> str:
        return f"{self.kind} {self.rule}: {self.what}"


def generic(name: str) -> str:
    """`name` with `*` for numbers of layers, as rules of plans name modules and parameters."""
    # As transformers.distributed.parallel_utils.replace_layer_number_by_wildcard, 5.23.
    return re.sub(r"\.\d+(\.|$)", lambda match: f".*{match.group(1)}", name)


def plan_of(model: Any, kind: Kind) -> dict[str, str]:
    """The model's plan: its own, its configuration's and those of the models inside it."""
    return dict(getattr(model, f"_{kind}_plan", None) or {})


def refusal_of(model: Any, kind: Kind) -> str:
    """Why a part of the model has no plan of that kind; empty if none says so."""
    refusals = (getattr(each, REFUSALS, None) or {} for each in model.modules())
    return next((reasons[kind] for reasons in refusals if kind in reasons), "")


def find_plan_faults(model: Any) -> tuple[Finding, ...]:
    """Everything that the model carries by name, and that is not right of it."""
    modules: dict[str, list[nn.Module]] = {}
    owners: dict[str, list[tuple[nn.Module, str]]] = {}  # of a parameter, and its name in it
    for path, module in model.named_modules():
        modules.setdefault(generic(path), []).append(module)
        for name, _ in module.named_parameters(recurse=False):
            parameter = generic(f"{path}.{name}".lstrip("."))
            owners.setdefault(parameter, []).append((module, name))
    faults = list[Finding]()
    try:
        from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES as styles
    except ImportError:  # then none is known
        styles = {}
    for kind in KINDS:
        plan = plan_of(model, kind)
        for rule, style in plan.items():
            if styles and style not in styles:
                faults.append(Finding(kind, rule, "PG841", f"there is no style {style}"))
            elif rule not in modules and rule not in owners:
                what = "no module and no parameter is called so"
                faults.append(Finding(kind, rule, "PG840", what))
            else:
                paths = [path for path in plan if path.startswith(f"{rule}.")]
                inner = {path.removeprefix(f"{rule}."): plan[path] for path in paths}
                unfit = [unfit_module(style, each, inner) for each in modules.get(rule, ())]
                unfit += [unfit_parameter(style, *each) for each in owners.get(rule, ())]
                what = next(filter(None, unfit), "")
                if what:
                    faults.append(Finding(kind, rule, "PG841", what))
    classes = {type(module).__name__ for module in model.modules()}
    for name in sorted({*_undivided(model)} - classes):
        faults.append(Finding("no_split", name, "PG844", "no module is of this class"))
    return tuple(faults)


def _undivided(model: Any) -> Iterable[str]:
    return getattr(model, "_no_split_modules", None) or ()


# --- beside the model that it was made from


def splits(model: nn.Module, plan: Mapping[str, Any]) -> dict[str, str]:
    # As transformers: a parameter's own rule, else its module's (`_get_parameter_plan`, 5.23).
    styles = {}
    for name, _ in model.named_parameters():
        rule = generic(name)
        style = plan.get(rule, plan.get(rule.rpartition(".")[0]))
        if style in SPLITTING:
            styles[name] = style
    return styles


def lost_findings(model: Any, parent: Any, kind: Kind) -> Iterator[Finding]:
    """Matrices that are split in the parent and whole in this model, whatever their names here."""
    if refusal_of(model, kind):
        return
    split_here = splits(model, plan_of(model, kind))
    weights = dict(model.named_parameters())
    parent_weights = dict(parent.named_parameters())
    modules = dict(model.named_modules())
    lost: dict[str, str] = {}
    for name in splits(parent, plan_of(parent, kind)):
        if parent_weights[name].dim() < 2:
            continue
        standing_in = [name]
        whole = "is whole on every process"
        if name not in weights:
            around = name
            while around and around not in modules:
                around = around.rpartition(".")[0]
            within = f"{around}." if around else ""
            own = [each for each in weights if each not in parent_weights]
            standing_in = [each for each in own if each.startswith(within)]
            whole += f", where the parent has {generic(name)}"
        for each in standing_in:
            # What is as large stands in its place: a router beside experts does not.
            is_as_large = weights[each].numel() >= parent_weights[name].numel()
            if is_as_large and each not in split_here:
                lost.setdefault(generic(each), whole)
        if not standing_in:
            what = "is split in the parent, and nothing stands in its place"
            lost.setdefault(generic(name), what)
    for rule, what in lost.items():
        yield Finding(kind, rule, "PG843", what)


@dataclass(frozen=True, slots=True)
class Compared:
    """What is wrong of a model's plans by its own doing, and what its parent has wrong as well."""

    wrong: tuple[Finding, ...]
    inherited: tuple[Finding, ...]
    checked: int  # rules and names that were looked up
    refused: tuple[str, ...]  # engines that a part has no plan for, each with the reason


def compared(model: Any, parent: Any) -> Compared:
    """The plans of `model` beside those of the model that it was made from, of equal sizes."""
    wrong, inherited = _own_faults(find_plan_faults(model), parent)
    checked = len({*_undivided(model)})
    refused = []
    for kind in KINDS:
        wrong += lost_findings(model, parent, kind)
        checked += len(plan_of(model, kind))
        if reason := refusal_of(model, kind):
            refused.append(f"{CALLED[kind]}: {reason}")
    return Compared(tuple(wrong), tuple(inherited), checked, tuple(refused))


def _own_faults(faults: Iterable[Finding], parent: Any) -> tuple[list[Finding], list[Finding]]:
    """Those of `faults` that the parent does not have, and those that it has."""
    theirs = {(fault.kind, fault.rule, fault.code) for fault in find_plan_faults(parent)}
    own = list[Finding]()
    inherited = list[Finding]()
    for fault in faults:
        (inherited if (fault.kind, fault.rule, fault.code) in theirs else own).append(fault)
    return own, inherited


# --- before a run


def require_plans(model: Any, which: Kind, parent: Any = None) -> tuple[Finding, ...]:
    """Refuse a model with a wrong plan for `which`, before anything is split.

    A rule that matches nothing in the parent either is no reason to refuse; a layer that the
    parent splits must be split.  In a model of transformers, rules that match nothing are an error
    only if all do: some are for other sizes.  Returns the faults that were let pass.

    Raises PatchgenError: PG842 for a model without a plan, PG840 for a rule that matches nothing,
    PG841 for one that does not fit, PG843 for a layer that stays whole.
    """
    name = type(model).__name__
    plan = plan_of(model, which)
    if (reason := refusal_of(model, which)) or not plan:
        hint = "run the same model on one process, or under FSDP2, which needs no plan"
        what = f"has no plan for {CALLED[which]}{': ' if reason else ''}{reason}"
        raise PatchgenError("PG842", Location(name), what, "" if reason else hint)
    faults = [fault for fault in find_plan_faults(model) if fault.kind == which]
    parent = parent_on_meta(model) if parent is None else parent
    if parent is not None:
        wrong, passed = _own_faults(faults, parent)
        wrong += lost_findings(model, parent, which)
    else:
        passed = [fault for fault in faults if fault.code == "PG840"]
        wrong = [fault for fault in faults if fault not in passed]
    if len(passed) >= len(plan):
        wrong = [*wrong, *passed]
        passed = []
    if wrong:
        raise Refusals(fault.at(name) for fault in wrong)
    return tuple(passed)


def parent_on_meta(model: Any) -> Any | None:
    """The parent of `model` on the meta device; None for a model that is not generated."""
    kind = parent_class(type(model))
    if kind is None:
        return None
    values = {name: value for name, value in model.config.to_dict().items() if name not in OWN}
    config = kind.config_class.from_dict(values)
    with torch.device("meta"):
        return kind(config)


def parent_class(kind: type) -> Any | None:
    """The parent's class that a generated one stands for, by the file's banner; else None."""
    path = Path(inspect.getsourcefile(kind) or "")
    if not (path.is_file() and is_generated(disk.text_of(path))):
        return None
    variant = Variant(path.stem, kind.__module__, path, path.parent)
    try:
        parent = importlib.import_module(variant.parent)
    except ValueError:
        return None
    own = _prefix(sys.modules[kind.__module__])
    theirs = _prefix(parent)
    names = (kind.__name__, theirs + kind.__name__.removeprefix(own))
    return next((getattr(parent, name) for name in names if hasattr(parent, name)), None)


def _prefix(module: ModuleType) -> str:
    """What the names of a model's classes begin with: "Llama" of LlamaPreTrainedModel."""
    names = [name for name in vars(module) if name.endswith(BASE) and name != BASE]
    return min(names, key=len, default=BASE).removesuffix(BASE)

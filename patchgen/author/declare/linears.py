"""The linears part: experts as modules of `nn.Linear` in the place of stacked weights."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchgen.author.anatomy.code import called, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import Mixin, mixin, mixins
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "Each expert has Linears, `gate_linear`, `up_linear` and `down_linear`, for LoRA and four "
    "bits; checkpoints are the parent's, both ways. See `patchgen.parts.linears`."
)
STACKED = ("gate_up_proj", "up_proj", "down_proj")
# By the mixin of experts that of the model, which leaves them to the rule for Linears.
BEGINS = {
    "GateAndUp": "InitializedAsLinears",
    "GateUpTogether": "InitializedAsLinears",
    "UpAlone": "UngatedInitializedAsLinears",
}


@refusing
def linears(module: Module) -> Contribution:
    """What the part declares for `module`."""
    _refuse_other_names(module)
    experts: dict[Class, str] = {}  # with the mixins that fit them
    strange: dict[Class, ast.stmt] = {}
    for owner in filter(_has_stacked_weights, module.classes.values()):
        if found := [name for name in BEGINS if mixin("linears", name).fits(owner.own)]:
            experts[owner] = found[0]
        else:
            strange[owner] = _strange_statement(owner)
    if not experts and not strange:
        raise Unfit(None, "no class here has the weights of experts in stacked parameters")
    missing = []
    for owner, statement in strange.items():
        what = f"`{ast.unparse(statement)}` is not as experts are made or run elsewhere"
        missing.append(Missing(module.at(statement), f"{owner.name}: {what}", not experts))
    declared = [Declared(owner.name, (name,)) for owner, name in experts.items()]
    begin = {BEGINS[name] for name in experts.values()}
    for owner in module.classes.values() if experts else ():
        bases = [name for name in begin if mixin("linears", name).fits(owner.own)]
        if owner in module.pretrained:
            bases.insert(0, "ModelOfLinears")
        if bases:
            declared.append(Declared(owner.name, tuple(bases)))
    return Contribution("linears", SAYS, tuple(declared), tuple(missing))


def _has_stacked_weights(owner: Class) -> bool:
    """Whether parameters under the names of experts' weights have three axes."""
    values = [value for name in STACKED for value in owner.attributes.get(name, ())]
    sizes = [call for call in walk(values, ast.Call) if called(call) == "torch.empty"]
    return any(len(call.args) == 3 or isinstance(call.args[0], ast.Tuple) for call in sizes)


def _refuse_other_names(module: Module) -> None:
    """Raises Unfit where a class ties stacked weights by their names."""
    for owner in module.classes.values():
        for text in walk([*owner.settings.values()], ast.Constant):
            if isinstance(text.value, str) and "gate_up_proj" in text.value:
                what = f"{owner.name} names stacked weights of experts: {text.value}"
                raise Unfit(text, what)


def _strange_statement(owner: Class) -> ast.stmt:
    """The first with a stacked weight, in the first method of the class that no mixin fits."""
    making = [Mixin(each.name, each.patterns[:1]) for each in mixins("linears")]
    is_made = any(mixin.fits(owner.own) for mixin in making)
    method = owner.own.get("forward" if is_made else "__init__", owner.node)
    for statement in walk(method.body, ast.Assign):
        if any(node.attr in STACKED for node in walk(statement, ast.Attribute)):
            return statement
    return owner.node


def check() -> PartCheck:
    from patchgen.verifying.parts.linears import LINEARS

    return LINEARS


PART = Part("linears", check, "experts as modules of nn.Linear, for LoRA and four bits", linears)

"""The fused part: one matrix product for linear layers with one input, and GELU in one operation.

The linear layers are those of attentions and of gated FFNs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, constant, dotted, last, names, stored, walk
from patchgen.author.anatomy.conversions import find_configurations
from patchgen.author.anatomy.ffn import form_of
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.projections import (
    Projection,
    Shared,
    is_one_already,
    read_elsewhere,
    shared_inputs,
)
from patchgen.author.anatomy.torch_calls import torch_calls
from patchgen.author.declare.edits import code, edit, imports_for, local_names
from patchgen.author.declare.fitting import Mixin, mixins
from patchgen.author.declare.parallel_plan import declare_models
from patchgen.author.declare.variant import Contribution, Declared, Missing

SAYS = (
    "Linear layers of one input are one matrix product; checkpoints are the parent's, read and "
    "written. See `patchgen.parts.fused` for what is refused."
)
GELU = (
    "The tanh form of GELU, which the configuration names, is one operation. See "
    "`patchgen.parts.fused`."
)
REDUNDANT = "{name} computes queries, keys and values by one product already"
TANH_GELUS = ("gelu_new", "gelu_accurate", "gelu_python_tanh")
MOST = 8  # statements in one edit
HINT = (
    "write it by `FusedLinear` of patchgen.parts.fused where you know that nobody reads the layer"
)


def fused(module: Module) -> Contribution:
    """What the part declares for `module`."""
    attending = _attending(module)
    options = _tanh_gelus(module)
    gelu = [owner for owner in module.classes.values() if _takes(owner, options)]
    writers: list[_Fusion] = []
    missing: list[Missing] = []
    for owner in module.classes.values():
        if form_of(owner) != "gated" and owner not in attending:
            continue
        for group in shared_inputs(owner):
            reason = read_elsewhere(module, group)
            if reason is not None:
                missing.append(Missing(module.at(reason.node), reason.what, hint=HINT))
                continue
            one = _Fusion(module, group)
            if one.unfit:
                at = module.at(group.layers[0].call)
                missing.append(Missing(at, f"{owner.name}: {one.unfit}"))
            else:
                writers.append(one)
    if not writers and not gelu:
        return _nothing(module, attending, missing)
    if writers and not module.pretrained:
        nowhere = Missing(
            module.at(module.tree), "no class of this file stands below PreTrainedModel", True
        )
        return Contribution("fused", missing=(nowhere,))
    declared = [one.declared() for one in writers]
    declared += [Declared(owner.name, mixins=("FusedGelu",)) for owner in gelu]
    if writers:
        declared += declare_models(module, [(one.name, one.group) for one in writers])
    says = " ".join([SAYS] * bool(writers) + [GELU] * bool(gelu))
    return Contribution("fused", says, tuple(declared), _imports(declared), tuple(missing))


def _nothing(
    module: Module, attending: Sequence[Class], missing: Sequence[Missing]
) -> Contribution:
    if missing:
        return Contribution("fused", missing=tuple(replace(one, fatal=True) for one in missing))
    fixed = Missing(
        module.at(module.tree),
        "no two linear layers of an attention or FFN are given the same input",
        True,
    )
    one = next((owner for owner in attending if is_one_already(owner)), None)
    return Contribution(
        "fused", redundant=REDUNDANT.format(name=one.name) if one else "", missing=(fixed,)
    )


def _attending(module: Module) -> tuple[Class, ...]:
    """The classes that compute attention."""
    found = Attentions(module)
    owners = [*(one.owner for one in found.interfaces), *(one.owner for one in found.chains)]
    owners += [one.owner for one in found.missed if one.attention] + [
        one.owner for one in torch_calls(module)
    ]
    return tuple(dict.fromkeys(owners))


@dataclass(frozen=True, eq=False)
class _Fusion:
    """Makes a group of layers one layer: by a mixin of the part that fits, else by edits."""

    module: Module
    group: Shared

    def declared(self) -> Declared:
        owner = self.group.owner
        if self._mixin is not None:
            return Declared(owner.name, mixins=(self._mixin.name,))
        return Declared(owner.name, members=(*self._making(), *self._calling()))

    @cached_property
    def _mixin(self) -> Mixin | None:
        owner, method = self.group.owner, self.group.method
        value = dotted(self.group.layers[0].call.args[0])
        # A mixin may compute the layers before the statements that bind the value again.
        if method.name != "forward" or value in stored(method.body):
            return None
        if any(self._output(one, "x") != "x" for one in self.group.layers):
            return None
        for mixin in _mixins():
            if {*_made(mixin)} != {*self.group.names}:
                continue
            if mixin.name == "FusedQKV" and "num_key_value_groups" not in owner.attributes:
                continue
            if mixin.fits({"__init__": self.group.init, "forward": method}):
                return mixin
        return None

    @property
    def name(self) -> str:
        """The name of the one layer: `qkv_proj`, `gate_up_proj`, `query_key_value`."""
        names = _made(self._mixin) if self._mixin is not None else self.group.names
        end = "_proj" if all(one.endswith("_proj") for one in names) else ""
        stems = [one.removesuffix(end) for one in names]
        short = "" if all(len(one) == 1 for one in stems) else "_"
        name = f"{short.join(stems)}{end}"
        return name if name not in self.group.owner.attributes else f"fused_{name}"

    def _making(self) -> Iterator[str]:
        """The edits of `__init__`: one layer replaces all."""
        init, first = self.group.init, self.group.layers[0]
        parts = ", ".join(
            f'"{one.name}": {self._code(init, one.outputs)}' for one in self.group.layers
        )
        bias = "" if first.bias == "True" else f", bias={self._code(init, first.bias)}"
        new = f"self.{self.name} = FusedLinear({self._code(init, first.inputs)}, {{{parts}}}{bias})"
        made = sorted((one.made for one in self.group.layers), key=init.body.index)
        places = [init.body.index(one) for one in made]
        old = [self._code(init, one) for one in made]
        if places == list(range(places[0], places[0] + len(made))):
            yield edit(f"make_{self.name}", init, old, [new])
            return
        # The last one has all that the layers are created from before it.
        for one in old[:-1]:
            yield edit(f"make_no_{_attribute(one)}", init, [one], ["pass"])
        yield edit(f"make_{self.name}", init, old[-1:], [new])

    def _calling(self) -> Iterator[str]:
        """The edits of the method: all parts are computed before the first that needs one."""
        method, layers = self.group.method, self.group.layers
        local = self._locals()
        split = self._split(
            self._code(method, f"self.{self.name}({ast.unparse(layers[0].call.args[0])})")
        )
        whole = self.group.run if self._in_one_edit else self.group.run[:1]
        old = [self._code(method, one) for one in whole]
        text = "\n".join(old)
        for one in layers:
            text = text.replace(self._code(method, one.call), self._output(one, local[one.name]))
        yield edit(
            f"project_{self.name}", method, old, [f"{', '.join(local.values())} = {split}", text]
        )
        for one in layers:
            if one.statement not in whole:
                taken = self._output(one, local[one.name])
                yield edit(f"take_{one.name}", method, [self._code(method, one.call)], [taken])

    def _output(self, layer: Projection, name: str) -> str:
        """The output of a layer, which `name` is; a copy if the method changes it in place.

        Autograd refuses that for one of several views.
        """
        is_changed = _name(layer.statement) in _changed_in_place(self.group.method)
        return f"{name}.clone()" if is_changed else name

    @property
    def _in_one_edit(self) -> bool:
        simple = all(
            isinstance(one, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
            for one in self.group.run
        )
        return simple and len(self.group.run) <= MOST

    def _locals(self) -> dict[str, str]:
        """A name for the output of each layer; the one in the method if several edits read it."""
        if self._in_one_edit:
            return {one.name: self._free(one) for one in self.group.layers}
        return {one.name: _name(one.statement) for one in self.group.layers if _name(one.statement)}

    @property
    def unfit(self) -> str:
        """Why there are no edits; "" if there are."""
        if changed := self._changed():
            return f"`{changed}` is bound between the layers, which would be created together"
        if self._mixin is not None or self._in_one_edit:
            return ""
        found, run = self._locals(), self.group.run
        far = "layers of one input are called far from each other, without a name for each result"
        if len(set(found.values())) != len(self.group.layers):
            return far
        for one in self.group.layers:
            before = run[: run.index(one.statement)]
            if found[one.name] in names(before) | stored(before):
                return far
        return ""

    def _changed(self) -> str:
        """A name that sizes depend on and that is bound again before the last layer is created."""
        places = sorted(self.group.init.body.index(one.made) for one in self.group.layers)
        between = self.group.init.body[places[0] : places[-1]]
        bound = stored(between)
        for node in walk(between, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                bound.add(dotted(node))
        first = min(self.group.layers, key=lambda one: self.group.init.body.index(one.made))
        sizes = [ast.parse(first.inputs), ast.parse(first.outputs)]
        read = {dotted(node) for node in walk(sizes, ast.expr)}
        return min(bound & read, default="")

    def _split(self, parts: str) -> str:
        outputs = [one.outputs for one in self.group.layers]
        if len(set(outputs)) == 1:
            return f"{parts}.chunk({len(outputs)}, dim=-1)"
        return f"{parts}.split(list(self.{self.name}.parts.values()), dim=-1)"

    def _free(self, layer: Projection) -> str:
        taken = local_names(self.group.method) | names(self.group.method.body)
        return layer.name if layer.name not in taken else f"own_{layer.name}"

    def _code(self, method: ast.FunctionDef, node: ast.AST | str) -> str:
        return code(self.module, method, node)


def _name(statement: ast.stmt) -> str:
    """The one name that a statement binds."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _changed_in_place(method: ast.FunctionDef) -> set[str]:
    """The names in `x /= 2`, `x[0] = 2` and `x.div_(2)`."""
    found = {dotted(node.target) for node in walk(method.body, ast.AugAssign)}
    for node in walk(method.body, ast.Subscript):
        if isinstance(node.ctx, ast.Store):
            found.add(dotted(node.value))
    for call in walk(method.body, ast.Call):
        owner, _, name = called(call).rpartition(".")
        if name.endswith("_") and not name.endswith("__"):
            found.add(owner)
    return found


def _made(mixin: Mixin) -> tuple[str, ...]:
    """The layers that its edits of `__init__` take away."""
    statements = [one for made in mixin.patterns if made.method == "__init__" for one in made.old]
    assigned = [one for one in statements if isinstance(one, ast.Assign)]
    return tuple(last(dotted(one.targets[0])) for one in assigned)


def _attribute(assignment: str) -> str:
    return assignment.partition(" =")[0].removeprefix("self.")


@cache
def _mixins() -> tuple[Mixin, ...]:
    return tuple(one for one in mixins("fused") if one.patterns and one.name != "FusedGelu")


def _tanh_gelus(module: Module) -> frozenset[str]:
    """The options of the configuration whose default is the tanh form of GELU."""
    found: set[str] = set()
    for path in find_configurations(module):
        for node in walk(ast.parse(path.read_text(encoding="utf-8")), ast.AnnAssign):
            if isinstance(node.target, ast.Name) and constant(node.value) in TANH_GELUS:
                found.add(node.target.id)
    return frozenset(found)


def _takes(owner: Class, names: frozenset[str]) -> bool:
    """Whether the class creates one activation, and by such an option."""
    init = owner.own.get("__init__")
    if init is None:
        return False
    lookups = [node for node in walk(init.body, ast.Subscript) if dotted(node.value) == "ACT2FN"]
    return len(lookups) == 1 and last(dotted(lookups[0].slice)) in names


def _imports(declared: Sequence[Declared]) -> tuple[str, ...]:
    texts = [member for one in declared for member in one.members]
    used = {name for one in declared for name in one.mixins}
    used |= {"FusedLinear"} if any("FusedLinear(" in text for text in texts) else set()
    edited = any(text.startswith("@edit") for text in texts)
    lines = ["from patchgen.edits import edit, new, old"] if edited else []
    return (
        *lines,
        f"from patchgen.parts.fused import {', '.join(sorted(used))}",
        *imports_for(texts),
    )

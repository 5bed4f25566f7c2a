"""The checkpoint part: layers become `GradientCheckpointingLayer`s, and models get the flag for it.

The parent needs an edit if a layer gets its states by keyword or a cache under another name, if a
layer returns a list, and if it has a router, for which there is also a mixin.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, last, method_of, walk
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import CHECKPOINTED, Layers, is_true
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.facts.modules import CACHES

FLAG, SWITCH = "supports_gradient_checkpointing", "_set_gradient_checkpointing"
SAYS = "Activation checkpointing: `model.activation_checkpointing_enable()`."
SAYS_ONCE = (
    "Under activation checkpointing a recompute takes the experts that the forward pass chose; see "
    "`patchgen.parts.checkpoint`."
)
SAYS_STATISTICS = (
    "A recompute moves the running statistics of batch norms a second time: their momentum counts "
    "twice."
)
REDUNDANT = (
    "transformers checkpoints the layers of {alias} already:\n"
    "    model.activation_checkpointing_enable()\n"
    "Products and attention are kept, and the rest is computed again, by\n"
    "    from patchgen.runtime.checkpointing import keep_products\n"
    '    model.activation_checkpointing_enable({{"context_fn": keep_products}})'
)
EVERY_CACHE = CACHES | {"layer_past", "layer_state", "past_key_value", "cache_params"}
FLAGS = ("output_", "use_", "return_")


def checkpoint(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = Layers(module, Attentions(module))
    missing = tuple(_missing(module, found))
    if missing:
        return Contribution("checkpoint", missing=missing)
    layers = _layers(found)
    plain = [one for one in layers if one.name not in found.checkpointed_or_held]
    silent = [owner for owner in module.pretrained if not is_true(owner, FLAG)]
    routers = choices(module, layers)
    if not plain and not silent and not routers:
        declared = tuple(Declared(owner.name) for owner in module.pretrained)
        return Contribution(
            "checkpoint", declared=declared, redundant=REDUNDANT.format(alias=module.alias)
        )
    edits = tuple(_edits(module, plain, routers))
    declared = (
        *(Declared(layer.name, behind=(CHECKPOINTED,)) for layer in _topmost(plain)),
        *(Declared(owner.name, members=_says_that_it_can(owner)) for owner in silent),
        *(Declared(owner.name, mixins=("ChooseOnce",)) for owner in module.pretrained if routers),
        *edits,
    )
    imports = _imports(bool(plain), bool(edits), bool(routers))
    return Contribution(
        "checkpoint", " ".join(_says(module, plain, silent, routers)), declared, imports
    )


def _says_that_it_can(owner: Class) -> tuple[str, ...]:
    """The flag; and the removal of an old method for switching it on, which reaches no layer."""
    switch = owner.own.get(SWITCH)
    if switch is None or "value" not in {arg.arg for arg in switch.args.args}:
        return (f"{FLAG} = True",)
    return f"{FLAG} = True", f"def {SWITCH}(self):\n    raise AttributeError"


def _imports(layers: bool, edits: bool, routers: bool) -> tuple[str, ...]:
    lines = {
        f"from transformers.modeling_layers import {CHECKPOINTED}": layers,
        "from patchgen.edits import edit, new, old": edits,
        "from patchgen.parts.checkpoint import ChooseOnce": routers,
    }
    return tuple(line for line, needed in lines.items() if needed)


def _says(
    module: Module, plain: Sequence[Class], silent: Sequence[Class], routers: Sequence[Choice]
) -> Iterator[str]:
    if plain or silent:
        yield SAYS
    if routers:
        yield SAYS_ONCE
    calls = (call for one in inside(module, plain) for call in walk(one.node, ast.Call))
    if any(last(ast.unparse(call.func)).startswith("BatchNorm") for call in calls):
        yield SAYS_STATISTICS


def _edits(module: Module, plain: Sequence[Class], routers: Iterable[Choice]) -> Iterator[Declared]:
    earlier: list[tuple[str, str]] = []
    for call in layer_calls(module, plain):
        # One edit changes all places of a method with the same code.
        if (key := (call.method.name + call.owner.name, ast.dump(call.call))) not in earlier:
            yield from _call(module, call, sum(key[0] == each for each, _ in earlier))
            earlier.append(key)
    for layer in plain:
        yield from _tuple(module, layer)
    for router in routers:
        yield from _choice(module, router)


def _call(module: Module, found: LayerCall, before: int) -> Iterator[Declared]:
    """Pass states by position, and no cache to a layer that is recomputed.

    `before` other calls of the method have edits already.

    Before: `layer(states=x, cache=cache)`.
    After: `layer(x, cache=None if layer.gradient_checkpointing and self.training else cache)`.
    """
    by_place, caches = found.keywords_to_give_by_place(), found.caches()
    if not by_place and not caches:
        return
    call = found.call
    layer = ast.unparse(call.func)
    without = {
        value: ast.parse(
            f"None if {layer}.gradient_checkpointing and self.training else {ast.unparse(value)}",
            mode="eval",
        ).body
        for value in caches
    }
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    changed = copy.copy(call)
    changed.args = [
        without.get(arg, arg) for arg in [*(given[name] for name in by_place), *call.args]
    ]
    changed.keywords = [
        ast.keyword(keyword.arg, without.get(keyword.value, keyword.value))
        for keyword in call.keywords
        if keyword.arg not in by_place
    ]
    name = "take_no_cache_twice" if caches else "give_states_by_place"
    name += f"_{before + 1}" if before else ""
    yield _edited(module, found.owner, found.method, name, call, changed)


def _tuple(module: Module, layer: Class) -> Iterator[Declared]:
    """`outputs = [states] + rest` becomes `outputs = (states, *rest)`.

    A reentrant checkpoint does not look into a list.
    """
    statement = returned_list(layer)
    if statement is None:
        return
    match statement.value:
        case ast.BinOp(left=ast.List(elts=first), right=rest):
            items = [*first, ast.Starred(rest, ast.Load())]
        case ast.List(elts=first):
            items = list(first)
        case _:
            return
    changed = ast.Assign(statement.targets, ast.Tuple(items, ast.Load()), lineno=statement.lineno)
    yield _edited(module, layer, layer.own["forward"], "return_a_tuple", statement, changed)


def _choice(module: Module, router: Choice) -> Iterator[Declared]:
    """`values /= total` becomes `values = values / total`: results of `topk` are saved."""
    for index, statement in enumerate(router.changes):
        target = statement.target
        value = ast.BinOp(
            ast.Name(getattr(target, "id", ""), ast.Load()), statement.op, statement.value
        )
        changed = ast.Assign([target], value, lineno=statement.lineno)
        name = "leave_what_topk_gave" + (f"_{index + 1}" if index else "")
        yield _edited(module, router.owner, router.method, name, statement, changed)


def _edited(
    module: Module,
    owner: Class,
    method: ast.FunctionDef,
    name: str,
    before: ast.AST,
    after: ast.AST,
) -> Declared:
    """An edit of every place in `method` with the code of `before`."""
    same = [node for node in walk(method.body, type(before)) if ast.dump(node) == ast.dump(before)]
    old, new = code(module, method, before), code(module, method, ast.fix_missing_locations(after))
    return Declared(owner.name, members=(edit(name, method, [old], [new], count=len(same)),))


def _topmost(layers: Sequence[Class]) -> list[Class]:
    """The layers that do not inherit from another of them."""
    return [
        layer
        for layer in layers
        if not any(layer is not one and _inherits(layer, one) for one in layers)
    ]


def _inherits(layer: Class, other: Class) -> bool:
    return any(parent is other or _inherits(parent, other) for parent in layer.parents)


def _layers(found: Layers) -> tuple[Class, ...]:
    """What is recomputed as one: layers, or attentions and FFNs if a model holds those in lists."""
    return found.classes or found.checkpointed or found.pieces


def _missing(module: Module, found: Layers) -> Iterator[Missing]:
    if not module.pretrained:
        yield Missing(
            module.at(module.tree), "no class of this file stands below PreTrainedModel", True
        )
    if not _layers(found):
        yield Missing(
            module.at(module.tree),
            "no list of layers that attend is gone through in this file",
            True,
        )


@dataclass(frozen=True, eq=False)
class LayerCall:
    """`call` in `method` of `owner` runs a layer of class `layer`.

    `removed` are the keywords of caches that `GradientCheckpointingLayer` removes by itself.
    """

    owner: Class
    method: ast.FunctionDef
    call: ast.Call
    layer: Class
    removed: frozenset[str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the forward of the layer, without `self`."""
        forward = self.layer.method("forward")
        return tuple(arg.arg for arg in forward.args.args[1:]) if forward is not None else ()

    def keywords_to_give_by_place(self) -> tuple[str, ...]:
        """The leading parameters that are passed by keyword, if no argument is positional.

        They must be positional: torch saves the random state of the devices of positional arguments
        only, and `use_reentrant=True` computes gradients of nothing else.
        """
        if any(not isinstance(arg, ast.Constant) for arg in self.call.args):
            return ()
        given = {keyword.arg for keyword in self.call.keywords}
        leading: list[str] = []
        for name in self.parameters:
            if name not in given or name.startswith(FLAGS) or "mask" in name:
                break
            leading.append(name)
        return tuple(leading)

    def caches(self) -> frozenset[ast.expr]:
        """The arguments that are a cache, to which a recompute would add everything twice."""
        by_place = zip(self.parameters, self.call.args, strict=False)
        found = [value for name, value in by_place if name in EVERY_CACHE]
        kept = EVERY_CACHE - self.removed
        found += [keyword.value for keyword in self.call.keywords if keyword.arg in kept]
        return frozenset(value for value in found if not isinstance(value, ast.Constant))


def layer_calls(module: Module, layers: Sequence[Class]) -> Iterator[LayerCall]:
    """Every call of a layer: in a loop over its list, by its index or by its own name."""
    by_name = {layer.name: layer for layer in layers}
    removed = _removed_caches(module)
    for owner in module.classes.values():
        holding: dict[str, Class] = {}
        for attribute in owner.attributes:
            for name in held(owner, attribute):
                if name in by_name:
                    holding[attribute] = by_name[name]
        if not holding:
            continue
        for method in owner.own.values():
            variables = _loop_variables(method, holding)
            for call in walk(method.body, ast.Call):
                layer = _layer_of(call.func, variables, holding)
                if layer is not None:
                    yield LayerCall(owner, method, call, layer, removed)


def _removed_caches(module: Module) -> frozenset[str]:
    """What `GradientCheckpointingLayer` sets to None among the keywords of a layer.

    It is read from transformers, which has changed the names.
    """
    file = module.folder.parents[1] / "modeling_layers.py" if module.folder is not None else None
    return _read_removed(file) if file is not None and file.is_file() else CACHES


@functools.lru_cache(maxsize=2)  # Every model of a release asks.
def _read_removed(file: Path) -> frozenset[str]:
    found = set()
    for node in walk(ast.parse(file.read_text(encoding="utf-8")), ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(str(name)))],
                value=ast.Constant(None),
            ):
                found.add(name)
    return frozenset(found)


def _loop_variables(method: ast.FunctionDef, holding: dict[str, Class]) -> dict[str, Class]:
    """The loop variables that hold a layer: `for index, layer in enumerate(self.layers)`."""
    found: dict[str, Class] = {}
    for loop in walk(method.body, ast.For):
        lists = [node.attr for node in walk(loop.iter, ast.Attribute) if node.attr in holding]
        if lists:
            names = [node.id for node in walk(loop.target, ast.Name)]
            found |= dict.fromkeys(names, holding[lists[0]])
    return found


def _layer_of(
    function: ast.expr, variables: dict[str, Class], holding: dict[str, Class]
) -> Class | None:
    match function:
        case ast.Name(id=name):
            return variables.get(name)
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return holding.get(attribute)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
            return holding.get(attribute)
        case _:
            return None


def returned_list(layer: Class) -> ast.Assign | None:
    """The assignment that makes the result of the layer a list: `outputs = [states] + rest`."""
    forward = layer.own.get("forward")
    if forward is None:
        return None
    returned = {_name(node.value) for node in walk(forward.body, ast.Return)} - {""}
    made = [node for node in walk(forward.body, ast.Assign) if _name(node.targets[0]) in returned]
    return made[0] if len(made) == 1 and _is_list(made[0].value) else None


def _is_list(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.BinOp(left=ast.List(), op=ast.Add()):
            return True
        case _:
            return False


@dataclass(frozen=True, eq=False)
class Choice:
    """`method` of `owner` chooses by `topk`, and `changes` modify its result in place."""

    owner: Class
    method: ast.FunctionDef
    changes: tuple[ast.AugAssign, ...]


def choices(module: Module, layers: Sequence[Class]) -> tuple[Choice, ...]:
    """The routers inside the layers."""
    found = []
    for owner in inside(module, layers):
        for method in owner.own.values():
            chosen = _chosen(method)
            if chosen is None:
                continue
            updates = walk(method.body, ast.AugAssign)
            changes = tuple(node for node in updates if _name(node.target) in chosen)
            found.append(Choice(owner, method, changes))
    return tuple(found)


def inside(module: Module, layers: Sequence[Class]) -> tuple[Class, ...]:
    """The layers, every class of the module that they hold at any depth, and the bases of all."""
    seen: dict[str, Class] = {}
    todo = list(layers)
    while todo:
        one = todo.pop()
        if one.name in seen:
            continue
        seen[one.name] = one
        names = [name for attribute in one.attributes for name in held(one, attribute)]
        todo += [module.classes[name] for name in names if name in module.classes]
        todo += one.parents
    return tuple(one for name, one in module.classes.items() if name in seen)


def _chosen(method: ast.FunctionDef) -> frozenset[str] | None:
    """The names that hold results of `topk` in `method`; None if it is not called."""
    calls = [call for call in walk(method.body, ast.Call) if _is_choice(call)]
    if not calls:
        return None
    names: set[str] = set()
    for node in walk(method.body, ast.Assign):
        has_call = any(call in calls for call in walk(node.value, ast.Call))
        # Arithmetic creates a new value, which may be modified.
        is_result = has_call and not isinstance(node.value, ast.BinOp)
        if is_result or _name(node.value) in names:
            names |= {name.id for name in walk(node.targets, ast.Name)}
    return frozenset(names)


def _is_choice(call: ast.Call) -> bool:
    return last(called(call)) == "topk" or method_of(call) == "topk"


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""

"""The checkpoint part: layers become `GradientCheckpointingLayer`s, and models get the flag for it.

A layer is refused, with the place, if its call or its result would make a recompute wrong: states
by keyword, a cache that the recompute would fill again, a list.  A router gets a mixin, and an edit
where it changes in place what `topk` gave.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import last, walk
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
    layers = found.classes or found.checkpointed
    plain = [one for one in layers if one.name not in found.checkpointed_or_held]
    if unfit := tuple(_unfit(module, plain)):
        return Contribution("checkpoint", missing=unfit)
    silent = [owner for owner in module.pretrained if not is_true(owner, FLAG)]
    routers = choices(found.inside(layers))
    if not plain and not silent and not routers:
        declared = tuple(Declared(owner.name) for owner in module.pretrained)
        return Contribution(
            "checkpoint", declared=declared, redundant=REDUNDANT.format(alias=module.alias)
        )
    edits = tuple(edit for router in routers for edit in _choice(module, router))
    declared = (
        *(Declared(layer.name, behind=(CHECKPOINTED,)) for layer in _topmost(plain)),
        *(Declared(owner.name, members=_says_that_it_can(owner)) for owner in silent),
        *(Declared(owner.name, mixins=("ChooseOnce",)) for owner in module.pretrained if routers),
        *edits,
    )
    imports = _imports(bool(plain), bool(edits), bool(routers))
    return Contribution(
        "checkpoint", " ".join(_says(found, plain, silent, routers)), declared, imports
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
    found: Layers, plain: Sequence[Class], silent: Sequence[Class], routers: Sequence[Choice]
) -> Iterator[str]:
    if plain or silent:
        yield SAYS
    if routers:
        yield SAYS_ONCE
    calls = (call for one in found.inside(plain) for call in walk(one.node, ast.Call))
    if any(last(ast.unparse(call.func)).startswith("BatchNorm") for call in calls):
        yield SAYS_STATISTICS


def _choice(module: Module, router: Choice) -> Iterator[Declared]:
    """`values /= total` becomes `values = values / total`: results of `topk` are saved."""
    for index, statement in enumerate(router.changes):
        target = statement.target
        value = ast.BinOp(
            ast.Name(getattr(target, "id", ""), ast.Load()), statement.op, statement.value
        )
        changed = ast.Assign([target], value, lineno=statement.lineno)
        name = "leave_what_topk_gave" + (f"_{index + 1}" if index else "")
        old, new = (
            code(module, router.method, ast.fix_missing_locations(node))
            for node in (statement, changed)
        )
        member = edit(name, router.method, [old], [new])
        yield Declared(router.owner.name, members=(member,))


def _topmost(layers: Sequence[Class]) -> list[Class]:
    """The layers that do not inherit from another of them."""
    return [
        layer
        for layer in layers
        if not any(layer is not one and _inherits(layer, one) for one in layers)
    ]


def _inherits(layer: Class, other: Class) -> bool:
    return any(parent is other or _inherits(parent, other) for parent in layer.parents)


def _missing(module: Module, found: Layers) -> Iterator[Missing]:
    if not module.pretrained:
        yield Missing(
            module.at(module.tree), "no class of this file stands below PreTrainedModel", True
        )
    if not (found.classes or found.checkpointed):
        yield Missing(
            module.at(module.tree),
            "no list of layers that attend is gone through in this file",
            True,
        )


BY_KEYWORD = (
    "`{what}` is given its states by keyword: torch keeps the random state of the devices of "
    "positional arguments only"
)
FILLED_TWICE = "`{what}` is given a cache, which a recompute would fill a second time"
IN_A_LIST = "the result of {what} is a list, into which a reentrant checkpoint does not look"
HINTS = {
    BY_KEYWORD: "give the states by place in an edit of this method",
    FILLED_TWICE: "give None where `layer.gradient_checkpointing and self.training`, in an edit",
    IN_A_LIST: "make it a tuple in an edit: modular/openai/modular_openai_checkpoint.py does so",
}


def _unfit(module: Module, layers: Sequence[Class]) -> Iterator[Missing]:
    """Why layers cannot be recomputed as they are called, or with what they return."""
    nodes: list[tuple[ast.AST, str, str]] = []
    for call, layer in layer_calls(module, layers):
        if why := unfit_call(call, layer, _removed_caches(module)):
            nodes.append((call, why, ast.unparse(call.func)))
    for layer in layers:
        if (statement := returned_list(layer)) is not None:
            nodes.append((statement, IN_A_LIST, layer.name))
    for node, why, what in nodes:
        yield Missing(module.at(node), why.format(what=what), True, HINTS[why])


def unfit_call(call: ast.Call, layer: Class, removed: frozenset[str]) -> str:
    """Why a recompute of `layer` would go wrong as `call` runs it; "" if it does not.

    `removed` are the keywords of caches that `GradientCheckpointingLayer` removes by itself.
    """
    forward = layer.method("forward")
    names = [arg.arg for arg in forward.args.args[1:]] if forward is not None else []
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    # A list of layers may hold other arguments behind a star.
    leading = names[0] if names and not call.args else ""
    if leading in given and not leading.startswith(FLAGS) and "mask" not in leading:
        return BY_KEYWORD
    by_place = dict(zip(names, call.args, strict=False))
    caches = [by_place.get(name) for name in EVERY_CACHE]
    caches += [given.get(name) for name in EVERY_CACHE - removed]
    return FILLED_TWICE if any(not isinstance(one, ast.Constant | None) for one in caches) else ""


def layer_calls(module: Module, layers: Sequence[Class]) -> Iterator[tuple[ast.Call, Class]]:
    """Every call of a layer: in a loop over its list, by its index or by its own name."""
    by_name = {layer.name: layer for layer in layers}
    for owner in module.classes.values():
        holding: dict[str, Class] = {}
        for attribute in owner.attributes:
            for name in held(owner, attribute):
                if name in by_name:
                    holding[attribute] = by_name[name]
        for method in owner.own.values() if holding else ():
            variables = _loop_variables(method, holding)
            for call in walk(method.body, ast.Call):
                layer = _layer_of(call.func, variables, holding)
                if layer is not None:
                    yield call, layer


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
    body = forward.body if forward is not None else []
    returned = {_name(node.value) for node in walk(body, ast.Return)} - {""}
    for node in walk(body, ast.Assign):
        first = node.value.left if isinstance(node.value, ast.BinOp) else node.value
        if _name(node.targets[0]) in returned and isinstance(first, ast.List):
            return node
    return None


@dataclass(frozen=True, eq=False)
class Choice:
    """`method` of `owner` chooses by `topk`, and `changes` modify its result in place."""

    owner: Class
    method: ast.FunctionDef
    changes: tuple[ast.AugAssign, ...]


def choices(owners: Iterable[Class]) -> tuple[Choice, ...]:
    """The routers among the classes."""
    found = []
    for owner in owners:
        for method in owner.own.values():
            chosen = _chosen(method)
            if chosen is None:
                continue
            updates = walk(method.body, ast.AugAssign)
            changes = tuple(node for node in updates if _name(node.target) in chosen)
            found.append(Choice(owner, method, changes))
    return tuple(found)


def _chosen(method: ast.FunctionDef) -> frozenset[str] | None:
    """The names that hold results of `topk` in `method`; None if it is not called."""
    calls = [one for one in walk(method.body, ast.Call) if last(ast.unparse(one.func)) == "topk"]
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


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""

"""The checkpoint part: layers become `GradientCheckpointingLayer`s, and models get the flag for it.

The parent needs an edit if a layer gets its states by keyword or a cache under another name, if a
layer returns a list, and if it has a router, for which there is also a mixin.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import last, walk
from patchgen.author.anatomy.layers import CHECKPOINTED, Layers, is_true
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.recompute import (
    Choice,
    LayerCall,
    choices,
    inside,
    layer_calls,
    returned_list,
)
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.variant import Contribution, Declared, Missing

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

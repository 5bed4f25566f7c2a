"""The checkpoint part: layers become `GradientCheckpointingLayer`s, and models get the flag for it.

A layer is refused, with the place, if its call or its result would make a recompute wrong: states
by keyword, a cache that the recompute would fill again, a list.  A router gets a mixin, and an edit
where it changes in place what `topk` gave.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, constant, dotted, last, stored, walk
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import CHECKPOINTED, Layers
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
    layers = found.classes or found.checkpointed
    plain = [one for one in layers if one.name not in found.checkpointed_or_held]
    if missing := tuple(_missing(module, layers)) or tuple(_unfit(module, plain)):
        return Contribution("checkpoint", missing=missing)
    silent = [
        owner for owner in module.pretrained if constant(owner.settings.get(FLAG)) is not True
    ]
    routers = [*_routers(found.inside(layers))]
    if not plain and not silent and not routers:
        declared = tuple(Declared(owner.name) for owner in module.pretrained)
        return Contribution(
            "checkpoint", declared=declared, redundant=REDUNDANT.format(alias=module.alias)
        )
    edits = tuple(edit for router in routers for edit in _choice(module, *router))
    topmost = [one for one in plain if not any(one.descends(other.name) for other in plain)]
    declared = (
        *(Declared(layer.name, behind=(CHECKPOINTED,)) for layer in topmost),
        *(Declared(owner.name, members=_says_that_it_can(owner)) for owner in silent),
        *(Declared(owner.name, mixins=("ChooseOnce",)) for owner in module.pretrained if routers),
        *edits,
    )
    calls = [call for one in found.inside(plain) for call in walk(one.node, ast.Call)]
    statistics = any(last(called(call)).startswith("BatchNorm") for call in calls)
    says = {SAYS: plain or silent, SAYS_ONCE: routers, SAYS_STATISTICS: statistics}
    return Contribution(
        "checkpoint",
        " ".join(text for text, needed in says.items() if needed),
        declared,
    )


def _says_that_it_can(owner: Class) -> tuple[str, ...]:
    """The flag; and the removal of an old method for switching it on, which reaches no layer."""
    switch = owner.own.get(SWITCH)
    if switch is None or "value" not in {arg.arg for arg in switch.args.args}:
        return (f"{FLAG} = True",)
    return f"{FLAG} = True", f"def {SWITCH}(self):\n    raise AttributeError"


def _missing(module: Module, layers: Sequence[Class]) -> Iterator[Missing]:
    for there, what in (
        (module.pretrained, "no class of this file stands below PreTrainedModel"),
        (layers, "no list of layers that attend is gone through in this file"),
    ):
        if not there:
            yield Missing(module.at(module.tree), what, True)


BY_KEYWORD = (
    "`{what}` is given its states by keyword: torch keeps the random state of the devices of "
    "positional arguments only"
)
FILLED_TWICE = "`{what}` is given a cache, which a recompute would fill a second time"
IN_A_LIST = "the result of {what} is a list, into which a reentrant checkpoint does not look"
HINTS = {
    IN_A_LIST: "make it a tuple in an edit: modular/openai/modular_openai_checkpoint.py does so",
    BY_KEYWORD: "give the states by place in an edit of this method",
    FILLED_TWICE: "give None where `layer.gradient_checkpointing and self.training`, in an edit",
}


def _unfit(module: Module, layers: Sequence[Class]) -> Iterator[Missing]:
    """The calls and results of layers that a recompute would get wrong."""
    by_name = {layer.name: layer for layer in layers}
    for layer in layers:
        body = layer.own["forward"].body if "forward" in layer.own else []
        returned = {dotted(node.value) for node in walk(body, ast.Return)} - {""}
        for node in walk(body, ast.Assign):  # outputs = [states] + rest
            first = node.value.left if isinstance(node.value, ast.BinOp) else node.value
            if isinstance(first, ast.List) and dotted(node.targets[0]) in returned:
                what = IN_A_LIST.format(what=layer.name)
                yield Missing(module.at(node), what, True, HINTS[IN_A_LIST])
    for owner in module.classes.values():
        holding = {
            f"self.{attribute}": by_name[name]
            for attribute in owner.attributes
            for name in held(owner, attribute)
            if name in by_name
        }
        for method in owner.own.values() if holding else ():
            called_by = dict(holding)
            for loop in walk(method.body, ast.For):  # for index, layer in enumerate(self.layers)
                for iterated in walk(loop.iter, ast.Attribute):
                    if dotted(iterated) in holding:
                        names = {name.id for name in walk(loop.target, ast.Name)}
                        called_by |= dict.fromkeys(names, holding[dotted(iterated)])
            for call in walk(method.body, ast.Call):
                function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
                run = called_by.get(dotted(function))
                why = _unfit_call(call, run, _removed_caches(module)) if run else ""
                if why:
                    what = why.format(what=ast.unparse(call.func))
                    yield Missing(module.at(call), what, True, HINTS[why])


def _unfit_call(call: ast.Call, layer: Class, removed: frozenset[str]) -> str:
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


def _removed_caches(module: Module) -> frozenset[str]:
    """What `GradientCheckpointingLayer` sets to None; transformers has changed the names."""
    file = module.folder.parents[1] / "modeling_layers.py" if module.folder is not None else None
    return _read_removed(file) if file is not None and file.is_file() else CACHES


@functools.lru_cache(maxsize=2)  # Every model of a release asks.
def _read_removed(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r'kwargs\["(\w+)"\] = None', file.read_text(encoding="utf-8")))


def _routers(owners: Iterable[Class]) -> Iterator[tuple[Class, ast.FunctionDef]]:
    """The methods that choose by `topk`."""
    for owner in owners:
        for method in owner.own.values():
            if any(last(ast.unparse(one.func)) == "topk" for one in walk(method.body, ast.Call)):
                yield owner, method


def _choice(module: Module, owner: Class, method: ast.FunctionDef) -> Iterator[Declared]:
    """`values /= total` becomes `values = values / total`: results of `topk` are saved."""
    chosen: set[str] = set()
    for node in walk(method.body, ast.Assign):
        # Arithmetic creates a new value, which may be modified.
        if "topk(" in ast.unparse(node.value) and not isinstance(node.value, ast.BinOp):
            chosen |= stored(node)
    changes = [one for one in walk(method.body, ast.AugAssign) if dotted(one.target) in chosen]
    for index, statement in enumerate(changes):
        name = "leave_what_topk_gave" + (f"_{index + 1}" if index else "")
        target, value = ast.Name(dotted(statement.target)), statement.value
        changed = ast.Assign([target], ast.BinOp(target, statement.op, value), lineno=0)
        old, new = (
            code(module, method, ast.fix_missing_locations(node)) for node in (statement, changed)
        )
        yield Declared(owner.name, members=(edit(name, method, [old], [new]),))

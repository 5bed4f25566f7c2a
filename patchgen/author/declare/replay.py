"""The replay part: routers that take the experts of another forward pass.

A router is a class that chooses `top_k` of its scores.  Its layers hand it the experts, which the
model gives them among further arguments: it is refused if the model gives them none.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import Layers
from patchgen.author.anatomy.code import called, keywords, last, method_of, stored, walk
from patchgen.author.anatomy.module import LISTS, Class, Module, Unfit
from patchgen.author.declare.edits import code, edit, init_lines
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "Routing is recorded by `with model.record_routing()` and replayed by the argument "
    "`routed_experts` of a forward pass, also in recomputation. See `patchgen.parts.replay`."
)
# How many are chosen: experts, or in the same method groups of experts before, by two of each.
NUMBERS = ("self.top_k", "self.config.top_k_experts")
OF_GROUPS = ("self.topk_group", "2")
ROUTES = ("router", "gate", "gating", "moe", "ffn")


@refusing
def replay(module: Module) -> Contribution:
    """What the part declares for `module`."""
    routers: dict[Class, Declared] = {}
    for owner, method in module.methods:
        if edits := list(_choices(module, owner, method)):
            routers[owner] = Declared(owner.name, ("ReplayingRouter",), members=tuple(edits))
    if not routers:
        raise Unfit(None, "no router chooses experts here")
    layers = _layers_with(module, routers.keys())
    for layer in layers:
        _refuse_without_arguments(module, layer)
    declared = [*routers.values(), *map(_layer, layers)]
    declared += [Declared(owner.name, ("RecordsRouting",)) for owner in module.pretrained]
    return Contribution("replay", SAYS, tuple(declared))


def _choices(module: Module, owner: Class, method: ast.FunctionDef) -> Iterator[str]:
    """The edits of a method by which it takes the experts that it is given."""
    if not any(word in owner.name.lower() for word in ROUTES):
        return
    counts: dict[tuple[str, str], int] = {}
    for node in walk(method.body, ast.Assign):
        match node.value:
            case ast.Subscript(value=ast.Call() as call) | ast.Attribute(value=ast.Call() as call):
                index = "[1]"  # the numbers alone
            case ast.Call() as call:
                index = ""
            case _:
                continue
        chosen = _chosen(call)
        if chosen is None:
            continue
        drops_scores = index or ast.unparse(node.targets[0]).startswith("(_,")
        if not drops_scores and _is_masked(dotted(chosen.args[0]), method):
            what = "weights are read behind a mask of groups, which may leave out what is replayed"
            raise Unfit(node, what)
        texts = ast.unparse(node.value), f"{ast.unparse(chosen)}{index}"
        counts[texts] = counts.get(texts, 0) + 1
    for place, (texts, count) in enumerate(counts.items()):
        name = "take_what_is_given" + (f"_{place + 1}" if place else "")
        old, new = (code(module, method, text) for text in texts)
        yield edit(name, method, [old], [new], count=count)


def _chosen(call: ast.Call) -> ast.Call | None:
    """`self.choose(scores, k, ...)` for a `topk` of experts; None for other calls."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "topk":
        return None
    arguments = call.args
    if called(call) != "torch.topk":
        arguments = [call.func.value, *arguments]
    number = ast.unparse(keywords(call).get("k") or arguments[1])
    if number in OF_GROUPS:
        return None
    if number not in NUMBERS:
        raise Unfit(call, f"experts are chosen in several steps: {number} of something")
    return ast.Call(ast.Name("self.choose"), arguments, call.keywords)


def _is_masked(scores: str, method: ast.FunctionDef) -> bool:
    """Whether some of the scores are replaced in this method, as those of groups that lose."""
    values = [node.value for node in walk(method.body, ast.Assign) if scores in stored(node)]
    return any(method_of(call) == "masked_fill" for call in walk(values, ast.Call))


def _layers_with(module: Module, routers: Collection[Class]) -> list[Class]:
    """The classes in lists that hold a router.  Raises Unfit for a router that none holds."""
    inside = Layers(module).inside
    listed: dict[Class, None] = {}
    for owner in module.classes.values():
        for attribute, values in owner.attributes.items():
            if any(last(called(value)) in LISTS for value in values):
                listed |= dict.fromkeys(module.held(owner, attribute))
    layers = [each for each in listed if not set(routers).isdisjoint(inside([each]))]
    held = inside(layers)
    for router in routers:
        if router not in held:
            raise Unfit(router.node, f"no layer is found that holds {router.name}")
    for layer in layers:
        places: list[str] = []
        for owner in inside([layer]):
            for attribute in owner.attributes:
                if not set(routers).isdisjoint(module.held(owner, attribute)):
                    places.append(attribute)
        if len(places) > 1:
            raise Unfit(layer.node, f"{layer.name} has several routers: {', '.join(places)}")
    return layers


def _layer(layer: Class) -> Declared:
    """The layer, which knows its index and hands on what it is given."""
    init = layer.method("__init__")
    if "layer_idx" in layer.attributes:
        return Declared(layer.name, ("ReplayingLayer",))
    if init is None or "layer_idx" not in parameters(init):
        raise Unfit(init or layer.node, f"{layer.name} is not told its index")
    lines = [*init_lines(init), "    self.layer_idx = layer_idx"]
    return Declared(layer.name, ("ReplayingLayer",), members=("\n".join(lines),))


def _refuse_without_arguments(module: Module, layer: Class) -> None:
    """Raises Unfit where a method that runs `layer` does not give it further arguments."""
    for owner, method in module.methods:
        for loop in walk(method.body, ast.For):
            lists = [last(dotted(node)) for node in walk(loop.iter, ast.Attribute)]
            if layer not in module.held(owner, *lists or [""]):
                continue
            variables = stored(loop.target)
            for call in walk(loop, ast.Call):
                is_layer = dotted(call.func) in variables
                if is_layer and None not in keywords(call):
                    raise Unfit(call, f"{layer.name} gets no further arguments, such as experts")


def check() -> PartCheck:
    from patchgen.verifying.parts.mixture import REPLAY

    return REPLAY


PART = Part("replay", check, "routing of experts is recorded and replayed", replay)

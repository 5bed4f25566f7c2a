"""The checkpoint part: layers become `GradientCheckpointingLayer`s, and models get the flag for it.

A layer is refused, with the place, if its call or its result would make a recompute wrong: states
by keyword, a cache that the recompute would fill again, a list.  A router gets a mixin, and an edit
where it changes in place what `topk` gave.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import Layers
from patchgen.author.anatomy.code import called, keywords, last, stored, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.facts.modules import CACHES, CHECKPOINTED
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from patchgen.verifying.observe.evidence import Evidence
    from patchgen.verifying.parts.part_check import PairFacts, PartCheck, Route

FLAG, SWITCH = "supports_gradient_checkpointing", "_set_gradient_checkpointing"
# An old method for switching it on, which reaches no layer, is removed.
FLAGGED = f"{FLAG} = True"
NO_SWITCH = f"def {SWITCH}(self):\n    raise AttributeError"
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
REMOVED = CACHES | {"layer_past"}  # keywords that `GradientCheckpointingLayer` sets to None
EVERY_CACHE = REMOVED | {"layer_state", "past_key_value", "cache_params"}
FLAGS = ("output_", "use_", "return_")


@refusing
def checkpoint(module: Module) -> Contribution:
    """What the part declares for `module`."""
    known = Layers(module)
    able = [owner for owner in module.classes.values() if owner.descends(CHECKPOINTED)]
    layers = known.classes or able
    models = module.pretrained
    if not models:
        raise Unfit(None, "no class of this file stands below PreTrainedModel")
    if not layers:
        raise Unfit(None, "no list of layers that attend is gone through in this file")
    # A `T5Block` is checkpointed, and holds its attentions and FFN in a list of layers.
    checkpointed = known.inside(able)
    plain = [layer for layer in layers if layer not in checkpointed]
    if missing := tuple(_unfit(module, plain)):
        return Contribution("checkpoint", missing=missing)
    silent = [owner for owner in models if not owner.says(FLAG)]
    routers = [*_find_routers(known.inside(layers))]
    if not (plain or silent or routers):
        redundant = REDUNDANT.format(alias=module.alias)
        every = tuple(Declared(owner.name) for owner in models)
        return Contribution("checkpoint", declared=every, redundant=redundant)
    topmost = [layer for layer in plain if not any(layer.descends(other.name) for other in plain)]
    declared = [Declared(layer.name, behind=(CHECKPOINTED,)) for layer in topmost]
    for owner in silent:
        members = (FLAGGED, NO_SWITCH) if SWITCH in owner.own else (FLAGGED,)
        declared.append(Declared(owner.name, members=members))
    if routers:
        declared += [Declared(owner.name, mixins=("ChooseOnce",)) for owner in models]
    for owner, method in routers:
        declared += _choice(module, owner, method)
    for owner, method in module.methods:
        declared += _embedding(module, owner, method)
    calls = walk((layer.node for layer in known.inside(plain)), ast.Call)
    statistics = any(last(called(call)).startswith("BatchNorm") for call in calls)
    says = {SAYS: plain or silent, SAYS_ONCE: routers, SAYS_STATISTICS: statistics}
    text = " ".join(text for text, needed in says.items() if needed)
    return Contribution("checkpoint", text, tuple(declared))


def _find_routers(classes: Iterable[Class]) -> Iterator[tuple[Class, ast.FunctionDef]]:
    """The methods that choose experts, with their classes."""
    for owner in classes:
        for method in owner.own.values():
            functions = [last(ast.unparse(call.func)) for call in walk(method.body, ast.Call)]
            if "topk" in functions:
                yield owner, method


BY_KEYWORD = (
    "`{what}` is given its states by keyword: torch keeps the random state of the devices of "
    "positional arguments only"
)
FILLED_TWICE = "`{what}` is given a cache, which a recompute would fill a second time"
IN_A_LIST = "the result of {what} is no tuple: a reentrant checkpoint does not look into it"
HINTS = {
    IN_A_LIST: "make it a tuple in an edit: modular/openai/modular_openai_checkpoint.py does so",
    BY_KEYWORD: "give the states by place in an edit of this method",
    FILLED_TWICE: "give None where `layer.gradient_checkpointing and self.training`, in an edit",
}


def _unfit(module: Module, layers: Sequence[Class]) -> Iterator[Missing]:
    """The calls and results of layers that a recompute would get wrong."""
    whys: list[tuple[ast.AST, str, str]] = []
    for layer in layers:
        results = [node.value for node in walk(layer.forward(), ast.Return)]
        returned = {dotted(value) for value in results} - {""}
        for node in walk(layer.forward(), ast.Assign):
            if dotted(node.targets[0]) in returned:
                results.append(node.value)
        for value in results:
            first = value.left if isinstance(value, ast.BinOp) else value  # [states] + rest
            if isinstance(first, ast.List | ast.Dict):
                whys.append((first, layer.name, IN_A_LIST))
    for owner, method in module.methods:
        run: dict[str, Class] = {}  # the layers by the names under which the method has them
        for attribute in owner.attributes:
            for layer in module.held(owner, attribute):
                if layer in layers:
                    run[f"self.{attribute}"] = layer
        for loop in walk(method.body, ast.For):  # for index, layer in enumerate(self.layers)
            for iterated in map(dotted, walk(loop.iter, ast.Attribute)):
                if iterated in run:
                    run |= dict.fromkeys(stored(loop.target), run[iterated])
        for call in walk(method.body, ast.Call):
            function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
            called_layer = run.get(dotted(function))
            why = _unfit_call(call, called_layer) if called_layer else ""
            if why:
                whys.append((call, ast.unparse(call.func), why))
    for place, what, why in whys:
        yield Missing(module.at(place), why.format(what=what), True, HINTS[why])


def _unfit_call(call: ast.Call, layer: Class) -> str:
    """Why a recompute of `layer` would go wrong as `call` runs it; "" if it does not."""
    forward = layer.method("forward")
    names = [arg.arg for arg in forward.args.args[1:]] if forward is not None else []
    given = keywords(call)
    # A list of layers may hold other arguments behind a star.
    leading = names[0] if names and not call.args else ""
    is_option = leading.startswith(FLAGS) or "mask" in leading
    if leading in given and not is_option:
        return BY_KEYWORD
    by_place = dict(zip(names, call.args, strict=False))
    for name in EVERY_CACHE:
        cache = by_place.get(name)
        if cache is None and name not in REMOVED:
            cache = given.get(name)
        if not isinstance(cache, ast.Constant | None):
            return FILLED_TWICE
    return ""


def _choice(module: Module, owner: Class, method: ast.FunctionDef) -> Iterator[Declared]:
    """`values /= total` becomes `values = values / total`: results of `topk` are saved."""
    chosen: set[str] = set()
    for node in walk(method.body, ast.Assign):
        # Arithmetic creates a new value, which may be modified.
        if "topk(" in ast.unparse(node.value) and not isinstance(node.value, ast.BinOp):
            chosen |= stored(node)
    yield from _out_of_place(module, owner, method, chosen, "leave_what_topk_gave")


def _embedding(module: Module, owner: Class, method: ast.FunctionDef) -> Iterator[Declared]:
    """`embeddings += positions` becomes `embeddings = embeddings + positions`.

    With frozen weights, as under LoRA, PEFT makes what an embedding gives a leaf with a gradient.
    """
    embedded: set[str] = set()
    for node in walk(method.body, ast.Assign):
        layer = called(node.value).removeprefix("self.")
        kinds = {last(called(value)) for value in owner.attributes.get(layer, ())}
        if "Embedding" in kinds or dotted(node.value) in embedded:
            embedded |= stored(node)
    yield from _out_of_place(module, owner, method, embedded, "leave_embeddings")


def _out_of_place(
    module: Module, owner: Class, method: ast.FunctionDef, names: set[str], edit_name: str
) -> Iterator[Declared]:
    """Edits for the statements of a method that change one of `names` in place."""
    number = 0
    for statement in walk(method.body, ast.AugAssign):
        target = dotted(statement.target)
        if target not in names:
            continue
        number += 1
        name = edit_name
        if number > 1:
            name = f"{name}_{number}"
        value = ast.BinOp(ast.Name(target), statement.op, statement.value)
        old = code(module, method, statement)
        new = code(module, method, f"{target} = {ast.unparse(value)}")
        yield Declared(owner.name, members=(edit(name, method, [old], [new]),))


# --- what `verify` checks, wherever a diff turns checkpointing on


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """Bit for bit what the parent computes without checkpointing, with its default attention."""
    from patchgen.verifying.differences import EQUAL, REORDERED
    from patchgen.verifying.parts.part_check import Route

    # No attention is named: a model with SDPA can have a backbone without, and refuses the name.
    # XLM computes with an empty cache that it makes itself; a layer that is run again gets none.
    makes_a_cache = "cache" in inspect.signature(parent_class.forward).parameters
    same = Route("its own attention", REORDERED if makes_a_cache else EQUAL)
    eager = Route("eager", REORDERED, {"attn_implementation": "eager"})
    return (same, eager) if parent_class._supports_sdpa else (same,)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Every attention of a layer ran twice, and fewer bytes were saved."""
    from transformers import modeling_layers

    checkpointed = getattr(modeling_layers, CHECKPOINTED)
    modules = {path[-1] for path in variant.paths}
    layers = sum(isinstance(module, checkpointed) for module in modules)
    more = len(variant.paths) - len(parent.paths)
    once = _attentions_in(parent)
    again = _attentions_in(variant) - once
    # AIMv2 pools by an attention outside of its layers; Bamba has layers without one.
    if again < min(once, layers) or more <= 0:
        yield f"{again} of {once} attentions in {layers} layers ran again, and {more} modules"
    yield from variant.saves_less_than(parent)


def _attentions_in(evidence: Evidence) -> int:
    """How many attentions ran, and softmaxes of routers, recomputation included.

    By kernels: what Python calls in the backward pass is not traced.  SDPA takes a softmax where a
    mask has a gradient, which the bias of T5 has under checkpointing alone.
    """
    softmaxes = ("aten._softmax", "aten._safe_softmax")
    return sum(
        count
        for name, count in evidence.kernels.items()
        if name in softmaxes or ("backward" not in name and "_scaled_dot_product_" in name)
    )


def check() -> PartCheck:
    from patchgen.runtime.checkpointing import keep_products
    from patchgen.verifying.parts.part_check import PartCheck, Scenario

    return PartCheck(
        part="checkpoint",
        routes=routes,
        effect=effect,
        effect_scenario=Scenario(train=True, checkpointing={}),
        checkpointing=({}, {"context_fn": keep_products}, {"use_reentrant": True}),
    )


PART = Part(
    "checkpoint",
    check,
    "activation checkpointing",
    checkpoint,
    counted=("checkpointing",),
    mark=rf"class .*\b{CHECKPOINTED}\b|supports_gradient_checkpointing = True",
)

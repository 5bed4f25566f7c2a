"""The packed part: recurrent layers that keep the texts of a row apart.

Each call of a layer that reads a text from left to right, a state space or a causal convolution,
is made by `run_texts_apart`:

    hidden_states = self.mamba(hidden_states, cache_params=cache, **kwargs)
    hidden_states = run_texts_apart(self.mamba, hidden_states, cache_params=cache, **kwargs)
"""

from __future__ import annotations

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from patchgen.author.anatomy.code import called, keywords, last, names, stored, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import code, edit, mixin
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing
from patchgen.facts.modules import CACHES, CAUSAL
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "Texts in one row are kept apart in recurrent layers too, by the collator's `cu_seq_lens_q` or "
    "where `position_ids` restart. See `patchgen.parts.packed`."
)
# Names in a layer that reads a text from left to right.
LOOKS_BACK = re.compile(r"causal_conv1d.*|.*delta_rule|.*(conv|ssm|recurrent)_states?")
MASKS = {"attention_mask", "conv_mask"}
# What a recurrent layer may be given: one value for each token, a mask, a cache and what else.
GIVEN = {"hidden_states", "cache_params", None} | CACHES | MASKS
RUN = "run_texts_apart"


@refusing
def packed(module: Module) -> Contribution:
    """What the part declares for `module`."""
    recurrent = [owner for owner in module.classes.values() if _looks_back(owner)]
    if not recurrent:
        raise Unfit(None, "no layer here reads a text from left to right by a state")
    models: dict[Class, str] = {}
    for owner in module.classes.values():
        mixin = _tells(owner)
        if mixin:
            models[owner] = mixin
    if not models:
        raise Unfit(None, "no base model here makes its cache after its embeddings")
    reached: set[Class] = set()
    edits: dict[Class, list[str]] = defaultdict(list)
    for owner, method in module.methods:
        calls = list(_calls(module, owner, method, recurrent))
        for call in calls:
            reached.update(_held(module, owner, called(call)))
        edits[owner] += _run_apart(module, method, calls)
    for layer in recurrent:
        if layer not in reached:
            what = f"{layer.name} is not called with a mask and a cache, as recurrent layers are"
            raise Unfit(layer.node, what)
    told = {*models, *(owner for owner, members in edits.items() if members)}
    for owner, method in module.methods:
        edits[owner] += _hand_on(module, owner, method, told)
        if owner in models and method.name == "forward":
            edits[owner] += _tell_masks(module, method)
    declared = []
    for owner in module.classes.values():
        if owner in models or edits[owner]:
            mixins = (models[owner],) if owner in models else ()
            declared.append(Declared(owner.name, mixins, members=tuple(edits[owner])))
    return Contribution("packed", SAYS, tuple(declared))


def _looks_back(owner: Class) -> bool:
    if owner.descends("PreTrainedModel"):
        return False
    read = names(owner.node) | {node.attr for node in walk(owner.node.body, ast.Attribute)}
    return any(map(LOOKS_BACK.fullmatch, read))


def _held(module: Module, owner: Class, attribute: str) -> list[Class]:
    """The classes that `self.ATTRIBUTE` may hold, also by a table of classes."""
    name = attribute.removeprefix("self.")
    held = module.held(owner, name)
    for value in owner.attributes.get(name, ()):
        for table in names(value) & module.tables.keys():
            held += [module.classes[each] for each in module.tables[table].values()]
    return held


def _calls(
    module: Module, owner: Class, method: ast.FunctionDef, recurrent: Collection[Class]
) -> Iterator[ast.Call]:
    """The calls of a recurrent layer.  What gives a tuple is attention under the same name."""
    for node in walk(method.body, ast.Assign):
        if not isinstance(node.targets[0], ast.Name):
            continue
        for call in walk(node.value, ast.Call):
            name = called(call)
            given = keywords(call).keys()
            if given.isdisjoint(MASKS) or set(recurrent).isdisjoint(_held(module, owner, name)):
                continue
            if more := given - GIVEN:
                raise Unfit(call, f"{name} is given `{min(map(str, more))}` of each token too")
            if len(call.args) + ("hidden_states" in given) != 1:
                raise Unfit(call, f"{name} is given more than one value of each token")
            yield call


def _run_apart(module: Module, method: ast.FunctionDef, calls: Sequence[ast.Call]) -> Iterator[str]:
    name = RUN
    for number, call in enumerate(calls, 1):
        if number > 1:
            name = f"{RUN}_{number}"
        apart = _with_lengths(method, call)
        apart.args.insert(0, call.func)
        apart.func = ast.Name(RUN)
        old = code(module, method, call)
        new = code(module, method, apart, [RUN])
        yield edit(name, method, [old], [new])


def _with_lengths(method: ast.FunctionDef, call: ast.Call) -> ast.Call:
    """The call with the further arguments of its method, where the lengths of texts are."""
    longer = copy.deepcopy(call)
    if None not in keywords(call):
        if method.args.kwarg is None:
            raise Unfit(method, "it gets no further arguments, such as lengths of texts")
        longer.keywords.append(ast.keyword(None, ast.Name(method.args.kwarg.arg)))
    return longer


def _hand_on(
    module: Module, owner: Class, method: ast.FunctionDef, told: Collection[Class]
) -> Iterator[str]:
    """Edits of the calls that give no further arguments to a class that is told lengths."""
    layers: dict[str, str] = {}  # names of loops, and the lists that they go through
    for loop in walk(method.body, ast.For):
        for iterated in map(dotted, walk(loop.iter, ast.Attribute)):
            if iterated:
                layers |= dict.fromkeys(stored(loop.target), iterated)
    for call in walk(method.body, ast.Call):
        name = called(call)
        held = _held(module, owner, layers.get(name, name))
        if None in keywords(call) or set(told).isdisjoint(held):
            continue
        old = code(module, method, call)
        new = code(module, method, _with_lengths(method, call))
        yield edit(f"hand_on_to_{last(name)}", method, [old], [new])


def _tell_masks(module: Module, method: ast.FunctionDef) -> Iterator[str]:
    """Edits of the masks that are told no positions, and so keep no texts apart in attention."""
    strings = {node.value for node in walk(method.body, ast.Constant)}
    for call in walk(method.body, ast.Call):
        maker = called(call)
        if maker not in CAUSAL:
            continue
        if "position_ids" in keywords(call) or "position_ids" in strings:
            continue
        longer = copy.deepcopy(call)
        longer.keywords.append(ast.keyword("position_ids", ast.Name("position_ids")))
        old = code(module, method, call)
        new = code(module, method, longer)
        yield edit(f"tell_{maker}", method, [old], [new])


def _tells(owner: Class) -> str:
    """The mixin of a base model by which its layers are told where texts end; "" for others."""
    forward = owner.own.get("forward")
    if forward is None or not {"attention_mask", "kwargs"} <= {*parameters(forward)}:
        return ""
    name = "TellsTexts" if "position_ids" in parameters(forward) else "TellsTextsOfKwargs"
    fits = mixin("packed", name).fits(owner.own) and "inputs_embeds" in names(forward)
    return name if fits else ""


def check() -> PartCheck:
    from patchgen.verifying.parts.packed import PACKED

    return PACKED


PART = Part("packed", check, "texts in one row stay apart in recurrent layers", packed)

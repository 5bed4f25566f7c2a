"""Find the parameters and buffers that `from_pretrained` leaves unset.

    class LlamaMLP(nn.Module):
        def __init__(self, config):
            ...
            self.gain = nn.Parameter(torch.ones(8))      PG421: the parent has no such parameter

transformers builds a model without memory and loads the checkpoint.  What the checkpoint lacks, and
all buffers that no checkpoint has, it gives memory as it is, and calls `_init_weights` for every
module.  So what a constructor computed is lost, and what neither the checkpoint nor `_init_weights`
fills is whatever the memory holds.

The model is built here as `models` builds it, once from the output and once from the parent: a
checkpoint of the parent has what stands at the same place in both.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.facts.modules import CHECKPOINTED, GENERIC_HEADS, MODELING_UTILS
from patchgen.syntax.blocks import index
from patchgen.syntax.errors import Location
from patchgen.syntax.kept import per_object
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import make_source
from patchgen.weights.machine import Machine, TooLongError
from patchgen.weights.values import (
    ANY,
    Call,
    Class,
    Home,
    Kind,
    Object,
    Steps,
    Tensor,
    list_tensors,
    path_of,
)

# A line that may make a module or a tensor: what it calls has a class's name, copies or registers.
_REGISTER = r"register_(?!\w*hook\b)\w+"
_CALL = rf"(?:\b(?:[A-Z]\w*|cls|deepcopy|{_REGISTER}|add_module|setattr)|\btype\(.*\))\("
# A class with other bases may have other tensors; a record has none, nor has a tensor or this base.
_CLASS = rf"class \w+\((?!(?:{CHECKPOINTED}|NamedTuple|(?:torch\.)?Tensor)\)|tuple\b)[^:]*"
# What any function gives to `self` may be one too.
_GIVEN = r"self\.\w+(?:: [^=]*)? = .*\("
_MAKING = re.compile(rf"^ +(?! |raise )(?:{_GIVEN}|.*{_CALL}).*$|^{_CLASS}", re.MULTILINE)
_FILLING = re.compile(r"^    def _init_weights\(.*?(?=^ {0,4}\S|\Z)", re.MULTILINE | re.DOTALL)
# No constructor calls it.
_FORWARD = re.compile(r"^    def forward\(.*?(?=^ {0,4}[^\s)]|\Z)", re.MULTILINE | re.DOTALL)
# By the names of classes, the modules and names of those that they stand for.
Origins = Mapping[str, tuple[str, str]]
# The name of a tensor in a model, and whether checkpoints have it.
Place = tuple[str, bool]
# Releases that build every model without memory.
_WITHOUT_MEMORY = "init_contexts = [no_init_weights(), init_empty_weights()]"


def find_unset(
    text: str,
    base: str | None,
    origins: Origins,
    is_own: Callable[[int], bool],
    env: Environment,
    resolve: Callable[[str], str],
) -> Iterator[tuple[int, str, str]]:
    """The unset tensors of the output `text`: line or 0, meaning, and what to do.

    The text follows `base`, or is a new model; `origins` says which upstream class each of its
    classes stands for.  The line is one that the modular file wrote, as `is_own` says: where the
    tensor is made, else the module that has it, and so on.  Without what to do, it is a note: the
    code is too long to be followed.  `resolve` is the machine's.
    """
    if base is not None and not _may_leave_unset(text, base, env):
        return
    if env.path(MODELING_UTILS) is None or not _builds_without_memory(env):
        return
    machine = Machine(env, resolve)
    try:
        unset = _collect_unset(text, base, origins, is_own, machine)
    except TooLongError:
        yield (
            0,
            "the constructors are too long to be followed: no tensor that is unset is named",
            "",
        )
        return
    for (line, owner), places in unset.items():
        # What a class inherits is set with that of its parent.
        parents = machine.line_of(owner)[1:]
        inherited = set[str]()
        for parent in parents:
            inherited.update(unset.get((line, parent), ()))
        own = {place: tensor for place, tensor in places.items() if place not in inherited}
        if own:
            yield line, *_explain(owner.name.rpartition(".")[2], own)


def _may_leave_unset(text: str, base: str, env: Environment) -> bool:
    """Whether an output makes or fills something that its parent does not: most do neither."""
    # Most definitions are the same in both, and nothing is looked for in these.
    definitions = Counter(text.split("\n\n\n"))
    parents = Counter(base.split("\n\n\n"))
    own = "\n".join((definitions - parents).elements())
    gone = "\n".join((parents - definitions).elements())
    if _FILLING.findall(own) != _FILLING.findall(gone):
        return True
    made = _count_making(own) - _count_making(gone)
    # The heads that a file takes from there are written out where its models differ.
    if made and env.path(GENERIC_HEADS) is not None:
        heads = env.source(GENERIC_HEADS, Location(""))
        made -= _count_making(heads.text)
    return any("._from_config(" not in line for line in made)


def _count_making(text: str) -> Counter[str]:
    return Counter(_MAKING.findall(_FORWARD.sub("", text)))


_Unset = dict[tuple[int, Kind], dict[str, Tensor]]  # by line and class, then by place


def _collect_unset(
    text: str,
    base: str | None,
    origins: Origins,
    is_own: Callable[[int], bool],
    machine: Machine,
) -> _Unset:
    """The unset tensors of all models of a text, by their line and the class that has them."""
    home = Home("", index(make_source(text, "")))
    theirs = None if base is None else Home("", index(make_source(base, "")))
    checkpoints = _Checkpoints(theirs, origins, machine)
    unset: _Unset = defaultdict(dict)
    for name in _select_roots(home, theirs, machine):
        for root in _make_model(home, name, machine):
            known = set(checkpoints.list_places(root))
            for tensor, steps in _find_unfilled(root, known, machine):
                owner, place = _find_owner(steps)
                lines = [tensor.line, *(made.line for made, _ in reversed(steps))]
                line = next((line for line in lines if line and is_own(line)), 0)
                unset[line, owner].setdefault(place, tensor)
    return unset


def _select_roots(home: Home, base: Home | None, machine: Machine) -> Sequence[str]:
    """The classes of a text that make or fill what the parent's do not, at any depth.

    Not through other models, which are asked by themselves: most heads are as they were.
    """
    if base is None:
        return home.index.classes
    changed: set[str] = set()
    for name in home.index.names:
        text = _text_of(name, home)
        known = _text_of(name, base)
        if text != known and _may_leave_unset(text, known, machine.env):
            changed.add(name)
    return [name for name in home.index.classes if changed & {*_list_used(name, home, machine)}]


def _text_of(name: str, home: Home) -> str:
    block = home.index.definition(name)
    return "" if block is None else block.text


def _list_used(name: str, home: Home, machine: Machine) -> Sequence[str]:
    """A class and what of its text it uses, but for the models within it."""
    used = [name]
    # The list grows while it is walked.
    for each in used:
        block = home.index.definition(each)
        if block is not None:
            for other in sorted(block.uses.difference(used)):
                if other in block.bases or not any(_find_model(home, other, machine)):
                    used.append(other)
    return used


def _find_model(home: Home, name: str, machine: Machine) -> Iterator[Class]:
    """The model `name` of a text; nothing where the class is no model."""
    if not home.find(name):
        return
    for kind in machine.find(home, name):
        if isinstance(kind, Class) and machine.is_model(kind):
            yield kind


def _make_model(home: Home, name: str, machine: Machine) -> Iterator[Object]:
    for kind in _find_model(home, name, machine):
        yield machine.make(kind, Call(0))


def _builds_without_memory(env: Environment) -> bool:
    return env.spells(MODELING_UTILS, 'torch.device("meta"), init') or env.spells(
        MODELING_UTILS, _WITHOUT_MEMORY
    )


@dataclass(frozen=True, eq=False)
class _Checkpoints:
    """The checkpoints of the parents: of `base`, and of the classes that `origins` names."""

    base: Home | None
    origins: Origins
    machine: Machine

    def list_places(self, owner: Object, path: str = "") -> Iterator[Place]:
        """The tensors of a model that checkpoints have, and those that the parent leaves unset."""
        if self.machine.is_model(owner.kind):
            for place, is_saved in self._read(owner.kind.name.rpartition(".")[2]):
                yield path + place, is_saved
        for name, values in owner.slots.items():
            for value in values:
                if isinstance(value, Object):
                    yield from self.list_places(value, f"{path}{name}.")

    @per_object  # each head of a model has the same ones within
    def _read(self, name: str) -> list[Place]:
        """The same of the parent's model for the class `name` of the output alone."""
        home = self.base
        if name in self.origins and (home is None or home.find(name) is None):
            module, name = self.origins[name]
            home = self.machine.read_module(module)
        places: list[Place] = []
        if home is None:
            return places
        for model in _make_model(home, name, self.machine):
            for tensor, steps in list_tensors(model):
                if tensor.is_saved:
                    places.append((path_of(steps), True))
            for tensor, steps in _find_unfilled(model, set(places), self.machine):
                places.append((path_of(steps), tensor.is_saved))
        return places


def _find_unfilled(
    root: Object, known: set[Place], machine: Machine
) -> Iterator[tuple[Tensor, Steps]]:
    """The tensors of a model that are not `known` and that no `_init_weights` fills."""
    tensors = list(list_tensors(root))
    # One tensor may have several names.
    loaded = {id(tensor) for tensor, steps in tensors if _is_known(tensor, steps, known)}
    unknown = [(tensor, steps) for tensor, steps in tensors if id(tensor) not in loaded]
    # What fills a tensor gets the module that has it, or one around it.
    calls: dict[int, tuple[int, Object, Object]] = {}
    for _, steps in unknown:
        model = root
        for depth, (module, _) in enumerate(steps):
            if machine.is_model(module.kind):
                model = module
            calls[id(module)] = (depth, model, module)
    machine.is_filling = True
    for _, model, module in sorted(calls.values(), key=lambda call: -call[0]):
        for method in machine.find_member(model.kind, "_init_weights", [model], None):
            machine.apply(method, Call(0, None, [[module]]))
    machine.is_filling = False
    for tensor, steps in unknown:
        if not tensor.is_filled:
            yield tensor, steps


def _is_known(tensor: Tensor, steps: Steps, known: set[Place]) -> bool:
    path = path_of(steps)
    counted = re.sub(r"\b\d+\b", ANY, path)
    return not known.isdisjoint([(path, tensor.is_saved), (counted, tensor.is_saved)])


def _find_owner(steps: Steps) -> tuple[Kind, str]:
    """The innermost module with a text, and the way from it to a tensor."""
    place: list[str] = []
    for owner, name in reversed(steps):
        place.insert(0, name)
        if isinstance(owner.kind, Class):
            return owner.kind, ".".join(place)
    raise ValueError("a model has a text")


def _explain(owner: str, places: Mapping[str, Tensor]) -> tuple[str, str]:
    """What is wrong with tensors of a class, and what to write."""
    are, them = ("is", "it") if len(places) == 1 else ("are", "them")
    setters = [_write_setter(place, tensor) for place, tensor in places.items()]
    what = (
        f"{owner}.{', '.join(places)} {are} in no checkpoint of the parent, and no "
        f"_init_weights sets {them}: from_pretrained leaves there what the memory holds"
    )
    hint = (
        "in `_init_weights` of the base model, below `super()._init_weights(module)`: "
        f"`if isinstance(module, {owner}): {'; '.join(setters)}`, with "
        "`from transformers import initialization as init`"
    )
    return what, hint


def _write_setter(place: str, tensor: Tensor) -> str:
    """The statement that fills a tensor as its constructor meant it, as far as that shows."""
    value = "" if tensor.value is None else ast.unparse(tensor.value)
    constant = re.search(r"\btorch\.(ones|zeros)\b", value)
    target = f"module.{place}"
    loop = ""
    if f".{ANY}" in target:
        listed, _, rest = target.partition(f".{ANY}")
        target = f"item{rest}"
        loop = f"for item in {listed}: "
    target = re.sub(r"\.(\d+)\b", r"[\1]", target)
    if constant:
        return f"{loop}init.{constant[1]}_({target})"
    if tensor.is_parameter:
        return f"{loop}init.normal_({target})"
    return f"{loop}init.copy_({target}, ...)"

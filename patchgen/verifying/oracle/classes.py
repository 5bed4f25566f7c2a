"""Classes of a flat file beside what the modular file means: bases, members, signatures, values.

Both sides are put into the flat file's names.  A class that was merged has its parent's members,
and neither the parent nor the mixins stand in its order any more.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from collections.abc import Collection, Iterator
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

from torch import nn

from patchgen.edits import Edit
from patchgen.facts.decorators import SET_BY_EXPERTS
from patchgen.verifying.oracle.running import Meaning

# Of one side alone: a parent's method that stays under a name of its own, what tells transformers
# to treat the class as one of its own, and what transformers notes of a class that it has built.
_OWN_OF_FLAT = re.compile(r"_\w+_of_\w+|is_custom_code|_\w+_cached_value")
_KEPT_PARENT = re.compile(r"_(\w+)Parent")
_SILENT = frozenset(
    "__dict__ __weakref__ __module__ __annotations__ __doc__ __static_attributes__ __orig_bases__"
    " __firstlineno__ __annotate__ __annotate_func__ __annotations_cache__ __parameters__"
    " __match_args__ __abstractmethods__ _abc_impl __subclasshook__ __dataclass_fields__"
    " __dataclass_params__ __type_validators__ __validators__ __class_validators__"
    " _backward_cls".split()
)


def lacked(meaning: Meaning, flats: Collection[ModuleType]) -> list[str]:
    """What the modular file exports and none of its flat files has."""
    wanted = meaning.exported() | meaning.own_values().keys()
    for flat in flats:
        wanted -= vars(flat).keys()
    return [
        f"{name}: the modular file defines it, and no flat file has it" for name in sorted(wanted)
    ]


def value_differences(meaning: Meaning, flat: ModuleType) -> Iterator[str]:
    """What differs between the values that the modular file binds and those of a flat file."""
    for name, meant in meaning.own_values().items():
        if hasattr(flat, name):
            for what in _differs(meaning, meant, getattr(flat, name)):
                yield f"{name}{what}"


def class_differences(meaning: Meaning, flat: ModuleType) -> Iterator[str]:
    """What differs between the classes and functions of a flat file and the modular file's."""
    for name, ours in list(vars(flat).items()):
        if getattr(ours, "__module__", None) != flat.__name__ or ours.__name__ != name:
            continue
        differences = []
        for meant in meaning.values_of(name):
            # Nothing is known of a helper, such as a parent that stays.
            if meaning.name_of(meant) is not None:
                differences.append([*_definition_differences(meaning, meant, ours)])
        for what in min(differences, key=len, default=[]):
            yield f"{name}{what}"


def _definition_differences(meaning: Meaning, meant: Any, ours: Any) -> Iterator[str]:
    if isinstance(ours, type) and isinstance(meant, type):
        yield from _class_differences(meaning, meant, ours)
    elif inspect.isfunction(ours) and inspect.isfunction(meant):
        yield from _differs(meaning, meant, ours)


def _class_differences(meaning: Meaning, meant: type, flat: type) -> Iterator[str]:
    wanted = _order(meaning, meant, flat)
    order = _flat_order(flat)
    if order != wanted:
        yield f" has the order {' '.join(order)}, not {' '.join(wanted)}"
    bases = {_plain(each.__name__) for each in flat.__bases__}
    lost = [each for each in _bases(meaning, meant, flat) if each not in bases]
    if lost:
        yield f" lacks the base {', '.join(lost)}"
    theirs = _members(meant)
    ours = _members(flat)
    for name in sorted(theirs.keys() - ours.keys()):
        # What a decorator gave the class goes where the decorator does.
        home = getattr(theirs[name], "__module__", None) or ""
        if name not in SET_BY_EXPERTS or not home.startswith("transformers.integrations"):
            yield f" lacks {name}"
    for name in sorted(ours.keys() - theirs.keys()):
        yield f" has {name}, which is not meant"
    for name in sorted(theirs.keys() & ours.keys()):
        if theirs[name] is not ours[name]:
            for what in _differs(meaning, theirs[name], ours[name]):
                yield f".{name}{what}"


def _members(cls: type) -> dict[str, Any]:
    members = {}
    for name in dir(cls):
        try:
            value = inspect.getattr_static(cls, name)
        except AttributeError:
            continue
        is_edit = callable(value) and isinstance(inspect.unwrap(value), Edit)
        if not (name in _SILENT or _OWN_OF_FLAT.fullmatch(name) or is_edit):
            members[name] = value
    return members


# --- the order of bases


def _order(meaning: Meaning, cls: type, flat: type) -> list[str]:
    """Names of the classes in a method's order, without those that are merged."""
    kept = {_plain(each.__name__) for each in flat.__mro__}
    names = []
    for each in cls.__mro__:
        # A helper may have got another name than its parent says.
        name = _plain(flat.__name__) if each is cls else meaning.name_of(each) or each.__name__
        is_merged = meaning.is_own(each) and name not in kept
        if not is_merged and name not in names:
            names.append(name)
    return names


def _flat_order(flat: type) -> list[str]:
    return list(dict.fromkeys(_plain(each.__name__) for each in flat.__mro__))


def _bases(meaning: Meaning, cls: type, flat: type) -> list[str]:
    """The bases that somebody wrote and that are not merged; none that another of them inherits."""
    written: dict[type, str] = {}
    inherited = {_plain(base.__name__) for base in flat.__mro__[1:]}
    inherited.discard(_plain(flat.__name__))
    waiting = list(cls.__bases__)
    while waiting:
        base = waiting.pop(0)
        name = meaning.name_of(base) or base.__name__
        if meaning.is_own(base) and name not in inherited:
            waiting[:0] = base.__bases__
        elif base not in (object, nn.Module):  # which every other base inherits
            written[base] = name
    names = []
    for base, name in written.items():
        heirs = [other for other in written if other is not base and issubclass(other, base)]
        if not heirs:
            names.append(name)
    return names


def _plain(name: str) -> str:
    kept = _KEPT_PARENT.fullmatch(name)
    return kept[1] if kept else name


# --- values


def _differs(meaning: Meaning, meant: Any, flat: Any) -> Iterator[str]:
    """How a member or a function differs, in words."""
    for kind in (classmethod, staticmethod):
        if isinstance(meant, kind) and isinstance(flat, kind):
            meant = meant.__func__
            flat = flat.__func__
    if isinstance(meant, property) and isinstance(flat, property):
        wanted = _accessors(meant)
        own = _accessors(flat)
        if own != wanted:
            yield f" is a property with {own}, not {wanted}"
    elif isinstance(meant, FunctionType) and isinstance(flat, FunctionType):
        wanted = _signature(meaning, meant)
        own = _signature(meaning, flat)
        if own != wanted:
            yield f" takes ({own}), not ({wanted})"
    else:
        value = _described(meaning, meant)
        own_value = _described(meaning, flat)
        if own_value != value:
            yield f" is {_short(own_value)}, not {_short(value)}"


def _accessors(member: property) -> str:
    return " ".join(name for name in ("fget", "fset", "fdel") if getattr(member, name))


def _signature(meaning: Meaning, function: FunctionType) -> str:
    """Each parameter: its kind, name and default."""
    parameters = []
    for each in inspect.signature(function).parameters.values():
        default = "" if each.default is each.empty else f"={_described(meaning, each.default)}"
        parameters.append(f"{_STARS.get(each.kind, '')}{each.name}{default}")
    return ", ".join(parameters)


_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.KEYWORD_ONLY: "*, ",
}


def _described(meaning: Meaning, value: Any) -> Any:
    """A value in the flat file's names, so that both sides can be compared."""
    match value:
        case type() | FunctionType():
            # Of two with one new name, one keeps its parent's.
            return meaning.renamed_in(_plain(meaning.name_of(value) or value.__name__))
        case str():
            return meaning.renamed_in(value)
        case dict() | MappingProxyType():
            items = [(_described(meaning, k), _described(meaning, v)) for k, v in value.items()]
            return ("dict", *sorted(items, key=str))
        case list() | tuple():
            return (type(value).__name__, *(_described(meaning, each) for each in value))
        case set() | frozenset():
            return ("set", *sorted(str(_described(meaning, each)) for each in value))
        case logging.Logger():  # is called by its module
            return ("Logger", value.level)
        case None | bool() | int() | float() | complex() | bytes():
            return repr(value)
    kind = type(value).__name__
    if dataclasses.is_dataclass(value):
        return (kind, _described(meaning, dict(vars(value))))
    if " at 0x" in repr(value):
        return kind
    return (kind, meaning.renamed_in(repr(value)))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."

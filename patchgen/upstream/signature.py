"""Merge the parameters and the decorators of a method with those of the method it overrides.

In: the pieces of both methods.  Out: text.  `**super_kwargs` stands for the parent's parameters
(llava_next_video).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchgen.upstream.brackets import Item, items, joined

SUPER_KWARGS = "super_kwargs"
NO_INHERIT = "@no_inherit_decorator"
RENAMED = "@deprecate_kwarg("
_NAME = re.compile(r"\**\s*([^\W\d]\w*)?")


def merged_parameters(child: str, parent: str) -> str:
    """The child's parameters.

    With `**super_kwargs`, the parent's, changed and followed by the child's own.
    """
    # Nearly all methods: their parameters need not be split.
    if SUPER_KWARGS not in child:
        return child
    own, inherited = _Parameters(child), _Parameters(parent)
    # It may be in a default or in a longer name.
    if _name(own.star_kwarg) != SUPER_KWARGS:
        return child
    # The first parameter is `self`, whether it is written or not.
    changed = {_name(item): item for item in own.plain[1:]}
    plain = [changed.pop(_name(item), item) for item in inherited.plain]
    return joined([*plain, *changed.values(), *own.starred, *inherited.star_kwargs])


class _Parameters:
    """A parameter list in its parts: ordinary ones, those from `*` on, and `**kwargs`."""

    def __init__(self, text: str) -> None:
        entries = items(text)
        stars = [place for place, item in enumerate(entries) if item.text.startswith("*")]
        double = [place for place in stars if entries[place].text.startswith("**")]
        end = double[0] if double else len(entries)
        star = min([*stars, end])
        self.plain: Sequence[Item] = entries[:star]
        self.starred: Sequence[Item] = entries[star:end]
        self.star_kwargs: Sequence[Item] = entries[end:]

    @property
    def star_kwarg(self) -> Item:
        return self.star_kwargs[0] if self.star_kwargs else Item("")


def _name(item: Item) -> str:
    found = _NAME.match(item.text)
    return (found.group(1) or "") if found else ""


def merged_decorators(child: str, parent: str) -> str:
    """The child's decorators, or else the parent's.

    A single `@no_inherit_decorator` asks for none.  A child that only names old parameters, by
    `@deprecate_kwarg(...)`, keeps the parent's other decorators above its own.
    """
    if not child:
        return parent
    if all(map(_names_old_parameters, _each(child))):
        kept = [one for one in _each(parent) if not _names_old_parameters(one)]
        return "".join([*kept, child])
    return "" if child.strip() == NO_INHERIT else child


def _each(decorators: str) -> list[str]:
    """The text of each decorator, with its line end."""
    return [one for one in re.split(r"^(?=[ \t]*@)", decorators, flags=re.MULTILINE) if one]


def _names_old_parameters(decorator: str) -> bool:
    return decorator.lstrip().startswith(RENAMED)


def is_misused(decorators: str) -> bool:
    """Whether `@no_inherit_decorator` stands beside other decorators."""
    return NO_INHERIT in decorators.split() and decorators.strip() != NO_INHERIT

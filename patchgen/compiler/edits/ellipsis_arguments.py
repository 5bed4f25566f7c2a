"""Write a call whose `...` becomes the arguments that the `...` of the pattern matched.

new: self.gate(x, ..., bias=b)  and  scale=2, *more
becomes self.gate(x, *more, scale=2, bias=b)
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from patchgen.compiler.edits.syntax import is_ellipsis, is_positional

_NOTHING = cst.SimpleWhitespace("")


def insert_rest(call: cst.Call, old: cst.Call, rest: tuple[cst.Arg, ...]) -> cst.Call:
    """`call` with `rest`, arguments of `old`, in the place of its `...`.

    They keep their order and their line breaks.  Arguments by position come before those by name,
    and `**` is last, unless `rest` has arguments by name behind it.

        old:  f(a, *more, scale=2)      where the pattern spells out `a`
        call: g(x, ..., bias=b)
        gives g(x, *more, scale=2, bias=b)
    """
    place = next(number for number, argument in enumerate(call.args) if is_ellipsis(argument))
    before, dots, behind = call.args[:place], call.args[place], call.args[place + 1 :]
    # The sort is stable, so that arguments of one kind keep their order.
    stars_are_last = list(rest) == sorted(rest, key=_rank)
    rank = _rank if stars_are_last else _rank_by_position
    every = sorted((*before, *rest, *behind), key=rank)
    if not every:
        return call.with_changes(args=())
    *others, final = every
    spaced = []
    for argument in others:
        was_last = argument is old.args[-1]
        spaced.append(_drop_space(argument) if was_last else argument)
    # An argument from the middle of a call ends in a comma, which may not stand here.
    was_final = any(final is argument for argument in (*behind, *old.args[-1:]))
    if not was_final:
        final = final.with_changes(comma=dots.comma, whitespace_after_arg=_NOTHING)
    return call.with_changes(args=[*spaced, final])


def find_repeated(call: cst.Call, rest: tuple[cst.Arg, ...]) -> tuple[str, ...]:
    """The keywords that are both in `rest` and in `call`."""
    given = _list_keywords(call.args)
    return tuple(name for name in _list_keywords(rest) if name in given)


def _list_keywords(arguments: Sequence[cst.Arg]) -> list[str]:
    """The names of the arguments that are given by name."""
    return [argument.keyword.value for argument in arguments if argument.keyword]


def _rank(argument: cst.Arg) -> int:
    """The place of an argument: by position, then by name, then `**`."""
    if is_positional(argument):
        return 0
    return 2 if argument.star == "**" else 1


def _rank_by_position(argument: cst.Arg) -> int:
    """The same, where `**` may stand before arguments by name."""
    return min(_rank(argument), 1)


def _drop_space(argument: cst.Arg) -> cst.Arg:
    """An argument that was the last and is not any more."""
    if isinstance(argument.comma, cst.Comma):
        return argument
    if not isinstance(argument.whitespace_after_arg, cst.SimpleWhitespace):
        return argument
    return argument.with_changes(whitespace_after_arg=_NOTHING)

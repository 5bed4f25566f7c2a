"""Collect the definitions of an output in order: dependencies before the class that needs them.

In: names of definitions, and the graphs that know them.  Out: names in order, and the `Body` that
collects their texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from patchgen.upstream.graph import Graph
from patchgen.upstream.uses import NamedText

# Whatever needs them, these stand at the top, in this order.
_FIRST = ("logger", "_CHECKPOINT_FOR_DOC", "_CONFIG_FOR_DOC")


class Body:
    """The definitions of one output.

    Placing a name again gives it the new piece and the later place.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, NamedText] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._pieces

    def place(self, name: str, piece: NamedText) -> None:
        """Put `name` at the end."""
        # A dictionary keeps the place of a key that is set again.
        self._pieces.pop(name, None)
        self._pieces[name] = piece

    @property
    def names(self) -> tuple[str, ...]:
        """The definitions in the order of the output."""
        return (
            *(name for name in _FIRST if name in self),
            *(name for name in self._pieces if name not in _FIRST),
        )

    @property
    def pieces(self) -> tuple[NamedText, ...]:
        """The definitions in the order of the output."""
        return tuple(self._pieces[name] for name in self.names)

    @property
    def text(self) -> str:
        """All definitions."""
        return "".join(piece.text for piece in self.pieces)


def own_order(names: Set[str], modular: Graph) -> list[str]:
    """The order of what a class without a parent in another model needs.

    First come definitions from other files, file by file, in the alphabetical order of the files'
    first names.
    """
    origins = modular.origins
    # Sorted names, because the order of a set differs from run to run.
    sources = list(dict.fromkeys(origins[name] for name in sorted(names) if name in origins))

    def rank(name: str) -> tuple[float, float, str]:
        source = origins.get(name)
        group = len(sources) if source is None else sources.index(source)
        return (group, *_place(name, source or modular))

    return sorted(names, key=rank)


def inherited_order(
    names: Set[str], parent: Graph, modular: Graph, needs: Callable[[str], Set[str]]
) -> list[str]:
    """The order of what a class needs of its parent's file.

    Classes with their dependencies come first, then the rest.
    """
    classes = [name for name in names if parent.nodes[name].is_class]
    listed: dict[str, None] = {}
    for name in sorted(classes, key=lambda name: _place(name, parent)):
        required = needs(name) & (names - listed.keys())
        theirs = {one for one in required if one in parent.positions}
        # Places in two files cannot be compared: the parent's definitions come first.
        first = sorted(theirs, key=lambda one: _place(one, parent))
        then = sorted(required - theirs, key=lambda one: _place(one, modular))
        listed |= dict.fromkeys((*first, *then))
        listed[name] = None
    rest = names - listed.keys()
    others = [name for name in rest if name not in modular.positions]
    ours = rest - set(others)
    # Names that the parent file has from elsewhere come in reverse alphabetical order, which is how
    # it happens to be.
    by_name = sorted(others, reverse=True)
    return [
        *listed,
        *sorted(by_name, key=lambda name: _place(name, parent)[0]),
        *sorted(ours, key=lambda n: _place(n, modular)),
    ]


def _place(name: str, graph: Graph) -> tuple[float, str]:
    # What the file does not define comes behind all that it does, by name.
    return (graph.positions.get(name, float("inf")), name)


def reached(
    start: Iterable[str], parent: Graph, needs: Callable[[str], Set[str]], body: Body
) -> set[str]:
    """`start` and everything that its classes need, directly or not, without what `body` has."""
    found: set[str] = set()
    left = list(start)
    while left:
        name = left.pop()
        if name in found or name in body:
            continue
        found.add(name)
        # What functions and values need is in `needs` already.
        if parent.nodes[name].is_class:
            left.extend(needs(name))
    return found

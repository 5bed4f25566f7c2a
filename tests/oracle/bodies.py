"""Random function bodies and signatures over integers, for grammar that nobody thinks of.

Parent and child draw their local names from one small pool, so that clashes are the rule.  A body
reads only names that are surely bound, ends, and does nothing but integer arithmetic, calls of
module functions and traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.oracle.case import Draw, indented

POOL = ("x", "y", "t", "out", "i", "scale", "kwargs")
"""Local names; `scale` is a function of the parent module and `kwargs` a favourite parameter."""


def expression(draw: Draw, names: Sequence[str], depth: int = 2, function: str = "shift") -> str:
    """An integer expression over `names`, `self.n` and names of the module; may call `function`."""
    leaf = draw.choice([draw.number(), "self.n", "FACTOR", *names, *names])
    if depth == 0 or draw.chance(0.4):
        return leaf
    left, right = (expression(draw, names, depth - 1, function) for _ in range(2))
    return draw.choice(
        [
            f"({left} + {right})",
            f"({left} - {right})",
            f"{leaf} * 2",
            f"{function}({left})",
            f"(1 if {left} > {right} else {right})",
            f"max({left}, {right})",
            f"len(self.items) + {right}",
            f"note('n', {left})",
            f"self.hook({left})",
            f"int(f'{{{leaf}}}')",
        ]
    )


@dataclass
class Body:
    """Statements being written, with the names that are surely bound after them."""

    draw: Draw
    names: list[str]
    tag: str
    early: bool = True  # whether an early return may be drawn
    function: str = "shift"  # the module function that it calls, which it therefore does not bind
    kept: tuple[str, ...] = ()  # more names that it does not bind
    lines: list[str] = field(default_factory=list)

    def write(self, count: int, depth: int = 1) -> Body:
        """`count` more statements."""
        for _ in range(count):
            self._statement(depth)
        return self

    def text(self) -> str:
        """The statements as text; a body is never empty."""
        return "\n".join(self.lines) or "pass"

    def value(self, depth: int = 2) -> str:
        """An expression over what is bound here."""
        return expression(self.draw, self.names, depth, self.function)

    def target(self) -> str:
        """A local name to bind; it counts as bound from the next statement on."""
        return self.draw.choice([name for name in POOL if name not in (self.function, *self.kept)])

    def _inner(self, count: int = 1) -> str:
        return (
            Body(self.draw, list(self.names), self.tag, self.early, self.function, self.kept)
            .write(count, 0)
            .text()
        )

    def _statement(self, depth: int) -> None:
        draw, name = self.draw, self.target()
        if self.early and depth and draw.chance(0.12):
            self.lines.append(
                f"if {self.value(1)} > {draw.randrange(6, 14)}:\n    return {self.value(1)}"
            )
            return
        compound, binding = depth > 0 and draw.chance(0.4), draw.chance(0.6)
        if compound:
            makers = self._binding_compound(name) if binding else self._compound(name)
        else:
            makers = self._binding(name) if binding else self._plain(name)
        self.lines.append(draw.choice(makers)())
        if binding and name not in self.names:
            self.names.append(name)

    def _plain(self, name: str) -> list[Callable[[], str]]:
        value = self.value
        return [
            lambda: f"self.n += {value(1)}",
            lambda: f"self.items.append({value(1)})",
            lambda: f"note({self.tag!r}, {value(1)})",
        ]

    def _binding(self, name: str) -> list[Callable[[], str]]:
        draw, value = self.draw, self.value
        return [
            lambda: f"{name} = {value()}",
            lambda: f"{name} = {value()}",
            lambda: f"{name}: int = {value()}",
            lambda: f"self.last = {name} = {value(1)}",
            lambda: f"{name} = sum({name} * 2 for {name} in range({draw.number()}))",
            lambda: f"{name} = [{name} + 1 for {name} in (1, 2)][0]",
            lambda: f"{name} = (lambda {name}: {name} + 1)({value(1)})",
            lambda: f"{name}, self.second = {value(1)}, {value(1)}",
            lambda: f"from math import floor as {name}; {name} = {name}({draw.number()}.5)",
        ]

    def _compound(self, name: str) -> list[Callable[[], str]]:
        value = self.value
        return [
            lambda: (
                f"if {value(1)} > {value(1)}:\n{indented(self._inner())}\n"
                f"else:\n{indented(self._inner())}"
            ),
            lambda: f"for _ in range(2):\n{indented(self._inner())}",
            lambda: (
                f"try:\n{indented(self._inner())}\nfinally:\n    note({self.tag + ' finally'!r})"
            ),
        ]

    def _binding_compound(self, name: str) -> list[Callable[[], str]]:
        value = self.value
        return [
            lambda: (
                f"for {name} in range(3):\n{indented(self._loop(name))}\n"
                f"else:\n    {name} = {value(1)}"
            ),
            lambda: (
                f"try:\n    {name} = 1 // ({value(1)} - {value(1)})\n"
                f"except ZeroDivisionError as error:\n    {name} = len(str(error))"
            ),
            lambda: f"with tracked({value(1)}) as {name}:\n{indented(self._inner())}",
            lambda: (
                f"def inner({name}):\n    return {name} + {value(1)}\n{name} = inner({value(1)})"
            ),
            lambda: f"if ({name} := {value(1)}) > 3:\n    note({self.tag!r}, {name})",
            lambda: (
                f"match {value(1)} % 3:\n    case 0:\n        {name} = 5\n"
                f"    case {name} if {name} > 1:\n        note('m', {name})\n"
                f"    case _:\n        {name} = 7"
            ),
        ]

    def _loop(self, name: str) -> str:
        inner = Body(
            self.draw, [*self.names, name], self.tag, self.early, self.function, self.kept
        ).write(1, 0)
        if self.draw.chance(0.5):
            text, limit = inner.text(), self.draw.randrange(1, 5)
            jump = self.draw.pick("continue", "pass")
            return f"{text}\nif {name} > {limit}:\n    {jump}"
        return inner.text()


@dataclass(frozen=True)
class Signature:
    """A child's signature over a parent's, the call that binds them, and calls from outside."""

    parent: str
    child: str
    forward: str  # the arguments of `super().m(...)`, over the child's parameters
    names: tuple[str, ...]  # integer parameters of the child
    parent_names: tuple[str, ...]
    calls: tuple[str, ...]  # argument lists


SIGNATURES = {
    "same": Signature(
        "a, b=2", "a, b=2", "a, b", ("a", "b"), ("a", "b"), ("1", "9, 4", "b=5, a=3")
    ),
    "none": Signature("", "", "", (), (), ("",)),
    "one": Signature("x", "x", "x", ("x",), ("x",), ("1", "12", "x=-3")),
    "keyword": Signature(
        "a, b=2", "a, b=3", "a, b=b", ("a", "b"), ("a", "b"), ("1", "8, 1", "a=2, b=7")
    ),
    "swapped keywords": Signature(
        "a, b=2", "a, b=3", "b=a, a=b", ("a", "b"), ("a", "b"), ("1", "8, 1")
    ),
    "renamed": Signature(
        "a, b=2", "x, y=5", "x, y", ("x", "y"), ("a", "b"), ("1", "x=4", "4, y=11")
    ),
    "reordered": Signature("a, b", "b, a", "a, b", ("a", "b"), ("a", "b"), ("1, 6", "a=9, b=2")),
    "swapped": Signature("a, b", "a, b", "b, a", ("a", "b"), ("a", "b"), ("1, 6", "9, 2")),
    "star": Signature("a, b=2", "*args", "*args", (), ("a", "b"), ("1", "7, 3", "12, 0")),
    "star kwargs": Signature(
        "a, b=2, *, c=1",
        "*args, **kwargs",
        "*args, **kwargs",
        (),
        ("a", "b", "c"),
        ("1", "7, c=3", "a=2, b=4"),
    ),
    "kwargs": Signature(
        "a, b=2", "a, **kwargs", "a, **kwargs", ("a",), ("a", "b"), ("1", "7, b=3", "a=2, b=14")
    ),
    "parent star": Signature("*args", "a, b=2", "a, b", ("a", "b"), (), ("1", "7, 3")),
    "parent kwargs": Signature(
        "a, **kwargs", "a, b=2", "a, b=b", ("a", "b"), ("a",), ("1", "7, 3")
    ),
    "keyword only": Signature(
        "a, *, b=2", "a, *, b=4", "a, b=b", ("a", "b"), ("a", "b"), ("1", "7, b=3")
    ),
    "positional only": Signature(
        "a, /, b=2", "a, /, b=3", "a, b", ("a", "b"), ("a", "b"), ("1", "7, 3", "8, b=1")
    ),
    "other defaults": Signature(
        "a=1, b=2", "a=6, b=7", "a", ("a", "b"), ("a", "b"), ("", "1", "b=9")
    ),
    "default left out": Signature("a, b=FACTOR", "a", "a", ("a",), ("a", "b"), ("1", "9")),
    "extra": Signature("a", "a, b=3", "a + b", ("a", "b"), ("a",), ("1", "5, 5")),
    "constant": Signature("a, b=2", "a", "a, 7", ("a",), ("a", "b"), ("1", "10")),
    "expression": Signature(
        "a, b=2", "x", "note('arg', x), shift(x)", ("x",), ("a", "b"), ("1", "5")
    ),
    "order of arguments": Signature(
        "a, b", "a", "b=note('first', a), a=note('second', 2)", ("a",), ("a", "b"), ("1", "9")
    ),
    "mutable default": Signature("a, seen=[]", "a", "a", ("a",), ("a",), ("1", "2")),
    "starred literal": Signature("a, b=2", "a", "*(a, 4)", ("a",), ("a", "b"), ("1", "10")),
    "double starred literal": Signature(
        "a, b=2", "a", "a, **{'b': a}", ("a",), ("a", "b"), ("1", "10")
    ),
    "annotated": Signature(
        "a: int, b: 'int | None' = 2",
        "a: int, b: int = 3",
        "a, b",
        ("a", "b"),
        ("a", "b"),
        ("1", "4, 4"),
    ),
}
EASY = ("same", "one", "keyword", "none")

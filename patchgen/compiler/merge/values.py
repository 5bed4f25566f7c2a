"""Write out the class attributes that are made of a parent's.

In: the bodies of a chain.  Out: the same, where `Parent.name` in a class body has become the value
that Python finds there, if that is a literal.  Lists and tables are joined:

    class Parent:                               class Flat:
        names = ["Layer"]                           names = ["Layer", "Mixer"]
        plan = {"up": "colwise"}                    plan = {"up": "colwise", "down": "rowwise"}
    class Child(Parent):
        names = Parent.names + ["Mixer"]
        plan = {**Parent.plan, "down": "rowwise"}

What is no literal stays as it is, and is refused later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.merge.text import INDENT, Splice, splice
from patchgen.compiler.merge.uses import is_written_at, marker_index
from patchgen.compiler.plan.model import ClassPlan
from patchgen.syntax.bound import names_in
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.trees import Function, children, names_within, walk

_COMMENT = re.compile(r"#[^\n]*")
_BRACKETS = {"list": "[]", "tuple": "()", "set": "{}", "dict": "{}"}
_INNER = 2 * INDENT
# What gives the same value wherever it stands in its file.
_PLAIN: tuple[type[ast.AST], ...] = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp),
    *(ast.Name, ast.Attribute, ast.Subscript),
)
# Where an operation needs no brackets.
_ALONE = ast.stmt | ast.arguments | ast.Call | ast.List | ast.Tuple | ast.Set | ast.Dict
_COPIES = frozenset({"copy.copy", "copy.deepcopy"})


def write_out_values(plan: ClassPlan, bodies: Sequence[ClassBody]) -> tuple[ClassBody, ...]:
    """The bodies with the values of parents in the places where code asks for them."""
    done = list(bodies)
    # What a parent takes from its own parents is written out first.
    for level, body in reversed(list(enumerate(bodies))):
        statements = []
        for statement in body.statements:
            if "__parent_" in statement.text:
                statement = _Writer(plan, done, statement).write()
            statements.append(statement)
        done[level] = replace(body, statements=tuple(statements))
    return tuple(done)


@dataclass(frozen=True, slots=True)
class _Item:
    """An element of a list, or `key: value`, with the comments above it and behind it."""

    text: str
    key: str = ""
    above: str = ""
    behind: str = ""


@dataclass(frozen=True, slots=True)
class _Display:
    """A list, tuple, set or dictionary that is written out."""

    kind: str
    items: tuple[_Item, ...]

    @property
    def text(self) -> str:
        brackets = _BRACKETS[self.kind]
        if self.kind == "set" and not self.items:
            return "set()"
        parts = [f"{item.above}{item.text},{item.behind}" for item in self.items]
        inner = " ".join(parts)
        is_needed = self.kind == "tuple" and len(self.items) == 1
        # A comma at the end would keep the formatter from joining the lines.
        if not is_needed:
            inner = inner.removesuffix(",")
        return f"{brackets[0]}{inner}{brackets[1]}"

    def with_comment(self, gap: str) -> _Display:
        """The display with the comment behind its last item, if `gap` begins with one."""
        comment = _COMMENT.search(gap.partition("\n")[0])
        if comment is None or not self.items:
            return self
        last = replace(self.items[-1], behind=f"  {comment[0]}\n{_INNER}")
        return replace(self, items=(*self.items[:-1], last))

    def keys(self, kind: str) -> _Display | None:
        """A list of the keys of a table, or another `kind`, if all of them are known."""
        if not all(item.key for item in self.items):
            return None
        return _Display(kind, tuple(_Item(item.key) for item in self.items))

    def joined(self, other: _Display, comments: str = "") -> _Display:
        """Both, with the values of `other` for keys that both have."""
        items = list(self.items)
        places = {item.key: place for place, item in enumerate(items) if item.key}
        for item in other.items:
            if item.key in places:
                place = places[item.key]
                items[place] = replace(items[place], text=item.text)
                continue
            items.append(replace(item, above=comments + item.above))
            comments = ""
        return replace(self, items=tuple(items))


class _Writer:
    """Writes out the values in one statement of a class body."""

    def __init__(self, plan: ClassPlan, bodies: Sequence[ClassBody], statement: Statement) -> None:
        self._plan = plan
        self._bodies = bodies
        self._statement = statement

    def write(self) -> Statement:
        statement = self._statement
        roots: list[ast.AST] = [statement.node]
        if isinstance(statement.node, Function):
            # What a method asks for, it finds when it is called.
            roots = [*statement.node.decorator_list, statement.node.args]
        changes = chain.from_iterable(map(self._changes, roots))
        return statement.with_text(splice(statement.text, changes))

    def _changes(self, node: ast.AST, is_alone: bool = True) -> Iterator[Splice]:
        code = self._statement.fragment
        if not any(marker_index(name) is not None for name in names_within(node)):
            return
        if isinstance(node, ast.expr):
            display = self._read_display(node, code)
            if display is not None:
                yield Splice(*code.span(node), display.text)
                return
        if isinstance(node, ast.Attribute) and marker_index(node.value) is not None:
            yield from self._write_value(node, code, is_alone)
            return
        for child in children(node):
            yield from self._changes(child, isinstance(node, _ALONE))

    def _write_value(self, node: ast.Attribute, code: Fragment, is_alone: bool) -> Iterator[Splice]:
        """A number or a string of the parent, or the base that stays and has it."""
        # Inside f-strings, Python before 3.12 gives wrong positions.
        if not is_written_at(code, node):
            return
        found = self._find_value(node)
        if isinstance(found, str):
            yield Splice(*code.span(node.value), found)
        elif found is not None:
            value, owner = found
            text = owner.source(value)
            if isinstance(value, ast.BinOp | ast.UnaryOp) and not is_alone:
                text = f"({text})"
            yield Splice(*code.span(node), text)

    def _find_value(self, node: ast.Attribute) -> tuple[ast.expr, Fragment] | str | None:
        """The literal that `Parent.name` stands for, or the base where Python goes on."""
        level = marker_index(node.value)
        assert level is not None
        inside, base = self._plan.searches[level]
        for place in inside:
            body = self._bodies[place]
            if node.attr in body.members:
                (statement, *others) = body.binders(node.attr)
                if others or statement.removes:
                    return None
                return self._read_literal(statement)
        return base if base in self._plan.bases else None

    def _read_literal(self, statement: Statement) -> tuple[ast.expr, Fragment] | None:
        """The value of `name = value`, if it is the same wherever it is written."""
        match statement.node:
            case ast.Assign(targets=[ast.Name()], value=ast.expr() as value):
                pass
            case ast.AnnAssign(value=ast.expr() as value):
                pass
            case _:
                return None
        # Its calls run once: in the place of the attribute that they made.
        is_replaced = statement.names == self._statement.names
        if isinstance(value, ast.Call) or not _is_literal(value, with_calls=is_replaced):
            return None
        hidden = set[str]().union(*(body.names for body in self._bodies))
        node = self._statement.node
        read = {name.id for name in names_within(node) if isinstance(name.ctx, ast.Load)}
        hidden |= names_in([node]) - read
        if any(name.id in hidden for name in names_within(value)):
            return None
        return value, statement.fragment

    # Lists and tables

    def _read_display(self, node: ast.expr, code: Fragment) -> _Display | None:
        """What an expression makes, if it is a list, a tuple, a set or a table."""
        match node:
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
                return self._read_items(node, code)
            case ast.Attribute() if marker_index(node.value) is not None:
                found = self._find_value(node)
                return (
                    None if found is None or isinstance(found, str) else self._read_display(*found)
                )
            case ast.BinOp(left=left, right=right):
                first = self._read_display(left, code)
                second = self._read_display(right, code)
                if first is None or second is None or first.kind != second.kind:
                    return None
                is_sum = isinstance(node.op, ast.Add) and first.kind in ("list", "tuple")
                is_union = isinstance(node.op, ast.BitOr) and first.kind in ("set", "dict")
                return first.joined(second) if is_sum or is_union else None
            case ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[], keywords=[]):
                return self._read_display(value, code)
            case ast.Call(args=[value]):
                return self._read_call(node, value, code)
        return None

    def _read_call(self, call: ast.Call, value: ast.expr, code: Fragment) -> _Display | None:
        """`list(names)`, `dict(plan, up="rowwise")`, `copy.deepcopy(plan)`."""
        display = self._read_display(value, code)
        name = ast.unparse(call.func)
        if display is None or (call.keywords and name != "dict"):
            return None
        root, _, attribute = name.partition(".")
        known = self._plan.chain[self._statement.origin].dependencies.get(root)
        if known is not None:
            meant = f"{known}.{attribute}".strip(".")
            return display if meant in _COPIES else None
        is_table = display.kind == "dict"
        if is_table and name in _BRACKETS and name != "dict":
            return display.keys(name)
        if name not in _BRACKETS or (name == "dict") != is_table:
            return None
        given: list[_Item] = []
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            value_text = self._text_of(keyword.value, code)
            given.append(_Item(f'"{keyword.arg}": {value_text}', key=repr(keyword.arg)))
        return replace(display, kind=name).joined(_Display(name, tuple(given)))

    def _read_items(
        self, node: ast.List | ast.Tuple | ast.Set | ast.Dict, code: Fragment
    ) -> _Display:
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            keys = node.keys
            values = node.values
        else:
            values = node.elts
        display = _Display(type(node).__name__.lower(), ())
        end, closing = code.span(node)
        for key, value in zip_longest(keys, values):
            gap = code.text[end : code.span(key or value)[0]]
            end = code.span(value)[1]
            display = display.with_comment(gap)
            spread = self._read_spread(key, value, display.kind, code)
            if spread is None:
                spread = _Display(display.kind, (self._read_item(key, value, display.kind, code),))
            display = display.joined(spread, _find_comments(gap.partition("\n")[2]))
        return display.with_comment(code.text[end:closing])

    def _read_spread(
        self, key: ast.expr | None, value: ast.expr, kind: str, code: Fragment
    ) -> _Display | None:
        """What `*names` or `**plan` brings, if that is known."""
        if isinstance(value, ast.Starred):
            display = self._read_display(value.value, code)
            if display is not None and display.kind == "dict":
                return display.keys(kind)
            return display if display and display.kind in ("list", "tuple") else None
        if kind == "dict" and key is None:
            display = self._read_display(value, code)
            return display if display and display.kind == "dict" else None
        return None

    def _read_item(self, key: ast.expr | None, value: ast.expr, kind: str, code: Fragment) -> _Item:
        text = self._text_of(value, code)
        if key is not None:
            return _Item(f"{self._text_of(key, code)}: {text}", ast.unparse(key))
        return _Item(f"**{text}" if kind == "dict" else text)

    def _text_of(self, node: ast.expr, code: Fragment) -> str:
        changes = self._changes(node) if code is self._statement.fragment else ()
        return splice(code.text, changes, *code.span(node))


def _find_comments(text: str) -> str:
    """The comments in `text`, on lines of their own."""
    return "".join(f"\n{_INNER}{comment}\n{_INNER}" for comment in _COMMENT.findall(text))


def _is_literal(node: ast.expr, *, with_calls: bool) -> bool:
    """Whether an expression gives the same value wherever it stands in its file."""
    kinds = _PLAIN
    if with_calls:
        kinds = (*kinds, ast.Call, ast.keyword)
    return all(isinstance(part, kinds) and marker_index(part) is None for part in walk(node))

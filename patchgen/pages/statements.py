"""Find statements of one file in another by what they say, not by how they are formatted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.syntax.blocks import first_line

_Key = tuple[str, str]
_TELLING = 150  # characters of `ast.dump`: a call with an argument or two


@dataclass(frozen=True, slots=True)
class StatementLines:
    """A statement, or a part of one that stands on lines of its own.

    `owner` is the name of the definition around it, and `says` what it says: equal for two
    statements that differ in white space and comments only.
    """

    first: int
    last: int
    owner: str
    says: str
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a file.

    `definitions` are the lines of its functions and classes, the innermost first, and `classes` the
    heads of its classes by name.
    """

    places: tuple[StatementLines, ...]
    definitions: tuple[tuple[int, int], ...]
    classes: dict[str, StatementLines]
    by_owner: dict[_Key, StatementLines]
    by_text: dict[str, StatementLines]

    def find(self, place: StatementLines, by_owner: bool) -> StatementLines | None:
        """The statement that says what `place` says; within its owner if `by_owner`."""
        if by_owner:
            return self.by_owner.get((place.owner, place.says))
        return self.by_text.get(place.says)


def read_statements(text: str) -> Statements:
    """The statements of `text`, which is Python."""
    tree = ast.parse(text)
    places = tuple(_places(tree, ""))
    by_owner: dict[_Key, StatementLines] = {}
    by_text: dict[str, StatementLines] = {}
    often = Counter(place.says for place in places)
    for place in places:
        by_owner.setdefault((place.owner, place.says), place)
        # A statement in several places says nothing about where a line came from, nor does what
        # any class may have: `def __init__(self, config):`, `@auto_docstring`, `x = None`.
        is_telling = not place.owner or (not place.is_head and len(place.says) > _TELLING)
        if is_telling and often[place.says] == 1:
            by_text[place.says] = place
    definitions = [
        (first_line(node), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    definitions.sort(key=lambda lines: lines[1] - lines[0])
    classes = {
        node.name: StatementLines(node.lineno, node.lineno, "", "")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    return Statements(places, tuple(definitions), classes, by_owner, by_text)


def _places(node: ast.AST, owner: str) -> Iterator[StatementLines]:
    """The statements below `node`, the parts of each before what it holds."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from _imports(child, owner)
        elif isinstance(child, ast.stmt):
            name = getattr(child, "name", "")
            inner = f"{owner}.{name}" if name else owner
            yield from _parts(child, inner)
            yield from _places(child, inner)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _places(child, owner)


def _imports(node: ast.Import | ast.ImportFrom, owner: str) -> Iterator[StatementLines]:
    """Each name that is imported: modules are spelled absolutely in one file and not in another.

    The first and the last line of an import in brackets belong to its first and its last name.
    """
    for alias in node.names:
        first = node.lineno if alias is node.names[0] else alias.lineno
        last = node.end_lineno if alias is node.names[-1] else alias.end_lineno
        bound = alias.asname or alias.name
        yield StatementLines(first, last or first, owner, f"import {bound}")


def _parts(node: ast.stmt, owner: str) -> Iterator[StatementLines]:
    """The decorators and the head of a definition, or the whole of another statement."""
    for decorator in getattr(node, "decorator_list", []):
        last = decorator.end_lineno or decorator.lineno
        yield StatementLines(decorator.lineno, last, owner, f"@{ast.dump(decorator)}", True)
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body:
        yield StatementLines(node.lineno, node.end_lineno or node.lineno, owner, ast.dump(node))
        return
    last = max(node.lineno, first_line(body[0]) - 1)
    yield StatementLines(node.lineno, last, owner, _head(node), True)


def _head(node: ast.stmt) -> str:
    """What a compound statement says without what it holds."""
    suites = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")
    fields = [
        ast.dump(value) if isinstance(value, ast.AST) else _dump_all(value)
        for name, value in ast.iter_fields(node)
        if name not in suites
    ]
    return f"{type(node).__name__} {fields}"


def _dump_all(value: object) -> str:
    if isinstance(value, list):
        return str([ast.dump(each) if isinstance(each, ast.AST) else each for each in value])
    return str(value)


def owner_of(text: str) -> dict[int, str]:
    """The name of the innermost definition around each line of `text` that stands in one."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = above
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{above}.{child.name}" if above else child.name
                lines = range(first_line(child), (child.end_lineno or child.lineno) + 1)
                found.update(dict.fromkeys(lines, inner))
            visit(child, inner)

    visit(ast.parse(text), "")
    return found

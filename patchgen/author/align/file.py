"""A file as definitions (classes with members, functions, constants), and cuts of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from patchgen.syntax.bound import bound_by
from patchgen.syntax.reads import Reference
from patchgen.syntax.same import only_function, plain_texts
from patchgen.syntax.scopes import references
from patchgen.syntax.text import Source, make_source, parse
from patchgen.syntax.trees import Function

_RELATIVE = re.compile(r"from\s+\.+[\w.]*\s+import")


@dataclass(frozen=True)
class Member:
    """One member of a class.

    It is a method (several statements for a property with a setter) or an attribute.
    """

    name: str
    nodes: tuple[ast.stmt, ...]

    @property
    def says(self) -> list[str]:
        """What it says, without what only documents."""
        return plain_texts(self.nodes)

    @property
    def method(self) -> Function | None:
        """The one function that the member is."""
        return only_function(self.nodes)


@dataclass(frozen=True)
class Definition:
    """A class, function or constant at the top level of a file.

    `nodes` are all statements that bind it.
    """

    name: str
    kind: str
    nodes: tuple[ast.stmt, ...]

    @property
    def node(self) -> ast.stmt:
        return self.nodes[-1]

    @cached_property
    def members(self) -> Mapping[str, Member]:
        """The members of a class by name, in order."""
        assert isinstance(self.node, ast.ClassDef)
        by_name: dict[str, list[ast.stmt]] = {}
        for node in self.node.body:
            for name in member_names(node):
                by_name.setdefault(name, []).append(node)
        return {name: Member(name, tuple(nodes)) for name, nodes in by_name.items()}

    @cached_property
    def loose(self) -> tuple[ast.stmt, ...]:
        """Statements of a class body that are no members: `if`, `with`, calls."""
        assert isinstance(self.node, ast.ClassDef)
        loose = []
        for node in self.node.body:
            match node:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
            if not member_names(node):
                loose.append(node)
        return tuple(loose)


# An import, and what of it binds a name.
Imported = tuple[ast.Import | ast.ImportFrom, ast.alias]


@dataclass(frozen=True)
class File:
    """A source with its tree, and what stands at its top level.

    `left` are statements that its text does not have any more.
    """

    source: Source
    tree: ast.Module
    left: tuple[ast.stmt, ...] = ()

    @cached_property
    def definitions(self) -> Mapping[str, Definition]:
        """What the file defines, by name, in order."""
        by_name: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            for name in defined_names(node):
                by_name.setdefault(name, []).append(node)
        return {name: _definition(name, nodes) for name, nodes in by_name.items()}

    @cached_property
    def classes_and_functions(self) -> Mapping[str, Definition]:
        """What the file defines by `class` and `def`, by name, in order."""
        definitions = self.definitions
        return {name: d for name, d in definitions.items() if d.kind in ("class", "def")}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in order."""
        return tuple(d.name for d in self.definitions.values() if d.kind == "class")

    @cached_property
    def imports(self) -> Mapping[str, Imported]:
        """What plain imports at the top bind, by name."""
        bound = {}
        for node in self.tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                name = bound_by(alias)
                # `import torch` says more of `torch` than `import torch.utils.checkpoint` does.
                says_less = "." in alias.name and not alias.asname
                if name not in bound or not says_less:
                    bound[name] = (node, alias)
        return bound

    @cached_property
    def guarded(self) -> Mapping[str, ast.stmt]:
        """What imports below `if` and `try` bind, by name, with the statement at the top level."""
        bound: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.If | ast.Try):
                bound |= dict.fromkeys(imported_names(node), node)
        return bound

    @cached_property
    def reads(self) -> tuple[Reference, ...]:
        """Every read of a global name."""
        return references(self.tree.body)

    @cached_property
    def plain_reads(self) -> tuple[Reference, ...]:
        """Every read of a global name outside strings."""
        return tuple(reference for reference in self.reads if not reference.quoted)

    def names_read(self, first: int, last: int) -> set[str]:
        """The global names that the lines from `first` to `last` read."""
        return {read.name for read in self.plain_reads if first <= read.line <= last}

    @cached_property
    def inside_strings(self) -> frozenset[int]:
        """The lines that begin inside a string: their leading blanks are part of it."""
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.JoinedStr() | ast.Constant(value=str() | bytes()):
                    lines.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
        return frozenset(lines)

    @cached_property
    def globals_read(self) -> frozenset[tuple[int, int]]:
        """Where global names are read: line and byte column, strings left out."""
        return frozenset((r.line, r.column) for r in self.plain_reads)


def read_file(source: Source) -> File:
    """The file whose text `source` is; raises PatchgenError PG006 where it is not Python."""
    return File(source, parse(source))


def absolute_module(node: ast.ImportFrom, module: str) -> str:
    """The module that an import names in the file of `module`."""
    above = module.split(".")[: -node.level] if node.level else []
    return ".".join(filter(None, [*above, node.module]))


def imports_in(tree: ast.AST, module: str) -> dict[str, tuple[str, str]]:
    """What imports anywhere in the file of `module` bind: a module, and a name in it or ""."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = absolute_module(node, module)
            for alias in node.names:
                bound[bound_by(alias)] = source, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds a, `import a.b as c` binds a.b.
                bound[bound_by(alias)] = alias.name if alias.asname else bound_by(alias), ""
    return bound


def imported_names(tree: ast.AST) -> set[str]:
    """The names that imports bind, wherever they stand."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound.update(map(bound_by, node.names))
    return bound


def import_of(node: ast.Import | ast.ImportFrom, alias: ast.alias, module: str) -> str:
    """The import of one name, which stands in the file of `module`."""
    package = "" if isinstance(node, ast.Import) else f"from {absolute_module(node, module)} "
    return f"{package}import {ast.unparse(alias)}"


def with_whole_names(
    file: File, is_meant: Callable[[ast.ImportFrom], bool] = lambda node: True
) -> File:
    """The file with absolute imports, as outputs have them; of those that `is_meant`, absolute.

    from ...activations import ACT2FN    ->    from transformers.activations import ACT2FN
    """
    lines = list(file.source.lines)
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        module = absolute_module(node, file.source.module)
        absolute = ast.ImportFrom(module, node.names, 0)
        if is_meant(ast.copy_location(absolute, node)):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = _RELATIVE.sub(f"from {module} import", line, count=1)
    return read_file(make_source("".join(lines), file.source.path, file.source.module))


def member_names(node: ast.stmt) -> tuple[str, ...]:
    """What a statement of a class body binds, where it is plain which."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
            return tuple(t.id for t in targets if isinstance(t, ast.Name))
        case _:
            return ()


def defined_names(node: ast.stmt) -> tuple[str, ...]:
    """What a statement at the top level defines.

    These are classes, functions and constants, under conditions too.
    """
    match node:
        case ast.If() | ast.Try():
            inner = [*node.body, *node.orelse]
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    inner += handler.body
            return tuple(dict.fromkeys(name for n in inner for name in defined_names(n)))
        case ast.AugAssign(target=ast.Name(id=name)):
            return (name,)
        case _:
            return member_names(node)


def _definition(name: str, nodes: list[ast.stmt]) -> Definition:
    # What binds a class again, under a condition, is a statement beside it.
    blocks = [node for node in nodes if isinstance(node, ast.ClassDef | Function)]
    if blocks:
        kind = "class" if isinstance(blocks[-1], ast.ClassDef) else "def"
        return Definition(name, kind, (blocks[-1],))
    is_plain = len(nodes) == 1 and isinstance(nodes[0], ast.Assign | ast.AnnAssign)
    return Definition(name, "assign" if is_plain else "other", tuple(nodes))


def plain_definition(definition: Definition) -> str:
    """A definition as text, without documentation."""
    if definition.kind != "class":
        return "\n".join(plain_texts(definition.nodes))
    (node,) = definition.nodes
    assert isinstance(node, ast.ClassDef)
    head = ast.ClassDef(node.name, node.bases, node.keywords, [], node.decorator_list)
    statements: list[ast.stmt] = [head]
    # In which order members stand says nothing; what binds several names belongs to the first.
    for name, member in sorted(definition.members.items()):
        for statement in member.nodes:
            is_annotation = isinstance(statement, ast.AnnAssign) and statement.value is None
            if not is_annotation and member_names(statement)[0] == name:
                statements.append(statement)
    return "\n".join(plain_texts([*statements, *definition.loose]))


# Other texts in places of a text

Place = tuple[int, int]  # a line, and a column in bytes


class Cut(NamedTuple):
    """The text from one place to another becomes `text`."""

    start: Place
    stop: Place
    text: str

    @property
    def order(self) -> tuple[Place, Place, int]:
        """Where it goes.  At one place, what ends a block comes before what follows the block."""
        text = self.text.lstrip("\n")
        return self.start, self.stop, len(text.lstrip(" ")) - len(text)


def of_lines(first: int, last: int, lines: Iterable[str]) -> Cut:
    """The cut that puts lines in the place of those from `first` to `last`.

    None are replaced if `last` is before `first`: then the new ones go before line `first`.
    """
    return Cut((first, 0), (last + 1, 0), "".join(f"{line}\n" for line in lines))


def replacing(node: ast.expr | ast.arg | ast.stmt, text: str) -> Cut:
    """The cut that puts `text` in the place of a node."""
    end = node.end_lineno or 0, node.end_col_offset or 0
    return Cut((node.lineno, node.col_offset), end, text)


def with_cuts(text: str, cuts: Iterable[Cut]) -> str:
    """A text with other texts in places that do not overlap."""
    lines = text.encode().split(b"\n")
    # From the end, so that the places before stay true.
    backwards = sorted(dict.fromkeys(cuts), key=lambda cut: cut.order, reverse=True)
    for cut in backwards:
        first, left = cut.start
        last, right = cut.stop
        top = first - 1
        before = lines[top][:left]
        behind = lines[last - 1][right:]
        changed = before + cut.text.encode() + behind
        lines[top:last] = changed.split(b"\n")
    return b"\n".join(lines).decode()


def renaming(lines: Sequence[str], reads: Iterable[tuple[Reference, str]]) -> Iterator[Cut]:
    """The cuts that give what is read in these lines other names."""
    for read, name in reads:
        line = lines[read.line - 1].encode()
        end = read.column + len(read.name.encode())
        # In an f-string, Python 3.11 does not say where a name stands.
        if name != read.name and line[read.column : end] == read.name.encode():
            yield Cut(read.position, (read.line, end), name)

"""A modular file with some of its declarations written anew.

@edit("forward")                         @edit("forward")
def cap(self, x):                        def cap(self, x):
    with old: self.act(x)          ->        with old: self.act(x, scale=1)
    with new: self.act(cap(x))               with new: self.act(cap(x), scale=1)

What is left to a person is told in comments above the declaration that it is about.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.align.file import File, absolute_module
from patchgen.author.align.suites import Aligned, align_methods, differing, key
from patchgen.author.rebase.code import Code, Cut, cut_out
from patchgen.author.rebase.declared import Declared, resolve
from patchgen.author.rebase.names import Renames
from patchgen.compiler.edits.pattern import find
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import local_names
from patchgen.syntax.same import Function, is_docstring
from patchgen.syntax.scopes import references

MARK = "# rebase:"
_WORD = re.compile(r"\w+")
_Nodes = tuple[ast.stmt, ...] | ast.expr


@dataclass(frozen=True)
class Rewritten:
    """The new lines of a declared change, at the margin of a class, and the imports for them."""

    lines: tuple[str, ...]
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Writer:
    """Writes declarations of a modular file anew."""

    modular: File
    settings: Settings

    def renamed(self, change: Declared, renames: Renames) -> Rewritten | None:
        """Edits by the new names of variables; None if they have none of the old ones."""
        lines: list[str] = []
        for node in change.nodes:
            code = cut_out(self.modular, [node])
            holes = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg) and _is_hole(a)}
            variables = {k: v for k, v in renames.variables.items() if k not in holes}
            lines += (
                Renames(variables, renames.keywords).made_in(code).member.rstrip("\n").split("\n")
            )
            lines.append("")
        before = [line for node in change.nodes for line in (*self._lines(node), "")]
        return Rewritten(tuple(self._formatted(lines[:-1]))) if lines != before else None

    def override(self, change: Declared, merged: Code, files: tuple[File, File]) -> Rewritten:
        """A member as an override; `files` are the output on the old release and the new parent."""
        code = self._spelled(change, merged, files)
        lines = code.member.rstrip("\n").split("\n")
        if change.owner:
            lines = self._formatted(lines)
        return Rewritten(tuple(lines), tuple(self._imports(change, code.nodes, code, files)))

    def edits(
        self, change: Declared, theirs: Code, merged: Code, files: tuple[File, File]
    ) -> Rewritten | None:
        """Edits that give the merged method; None where it is not clear which one changes what."""
        there, wanted = (self._spelled(change, code, files) for code in (theirs, merged))
        if there.function is None or wanted.function is None:
            return None
        hunks = list(_hunks(align_methods(there.function, wanted.function)))
        waiting: list[tuple[Function, ast.With, ast.With]] = []
        for function in (n for n in change.nodes if isinstance(n, Function)):
            for old, new in _pairs(function):
                places = find(old.body, there.function, _holes(function))
                if len(places) != _count(function):
                    waiting.append((function, old, new))
                    continue
                matched = {line for one in places for n in one.nodes for line in _span(n)}
                hunks = [hunk for hunk in hunks if not hunk.touches(matched)]
        if len(waiting) != len(hunks) or not hunks:
            return None
        cuts: dict[Function, list[Cut]] = {n: [] for n in change.nodes if isinstance(n, Function)}
        used: dict[Function, list[ast.AST]] = {function: [] for function in cuts}
        for (function, old, new), hunk in zip(waiting, hunks, strict=True):
            pieces = _declared(hunk, (old, new), there, wanted)
            if pieces is None:
                return None
            for part, (text, nodes) in zip((old, new), pieces, strict=True):
                first, last = first_line(part.body[0]), part.body[-1].end_lineno or 0
                top = first_line(function) - 2  # lines of the function alone begin at 2
                margin = " " * part.body[0].col_offset
                body = "".join(f"{margin}{line}\n" if line else "\n" for line in text)
                cuts[function].append(Cut((first - top, 0), (last + 1 - top, 0), body))
                used[function] += nodes
        lines: list[str] = []
        for function, its_cuts in cuts.items():
            code = cut_out(self.modular, [function])
            if its_cuts:
                code = code.changed([*its_cuts, _parameters(code, used[function], there)])
            lines += [*code.member.rstrip("\n").split("\n"), ""]
        nodes = [n for some in used.values() for n in some]
        imports = self._imports(change, nodes, wanted, files)
        return Rewritten(tuple(self._formatted(lines[:-1])), tuple(imports))

    def _lines(self, node: ast.stmt) -> list[str]:
        lines = self.modular.source.lines[first_line(node) - 1 : node.end_lineno or 0]
        return [line.rstrip("\n") for line in lines]

    def _formatted(self, lines: Sequence[str]) -> list[str]:
        """Members of a class, formatted."""
        text = "class _:\n" + "\n".join(lines) + "\n"
        made = format_texts({"member.py": text}, self.settings)["member.py"]
        return made.rstrip("\n").split("\n")[1:]

    # Names

    def _spelled(self, change: Declared, code: Code, files: tuple[File, File]) -> Code:
        """Code in the names of the modular file: what the parent defines is `llama.LlamaMLP`."""
        alias = self._alias(change.module)
        cuts = []
        for reference in references(ast.parse(code.text).body):
            name, theirs = reference.name, files[1].definitions
            if reference.quoted or name not in theirs or name in self.modular.definitions:
                continue
            if resolve(self.modular, ast.Name(name)) == (change.module, name):
                continue
            start = reference.line, reference.column
            end = start[0], start[1] + len(name.encode())
            line = code.lines(start[0], start[0])[0].encode()
            # In an f-string, Python 3.11 does not say where a name stands.
            if line[start[1] : end[1]] == name.encode():
                cuts.append(Cut(start, end, f"{alias}.{name}"))
        return code.changed(cuts)

    def _alias(self, module: str) -> str:
        """What the modular file calls the parent's module, or may call it."""
        for name, (node, imported) in self.modular.imports.items():
            if isinstance(node, ast.ImportFrom):
                if f"{absolute_module(node, self.modular.source.module)}.{imported.name}" == module:
                    return name
            elif imported.name == module and imported.asname:
                return name
        return module.rpartition(".")[2]

    def _imports(
        self, change: Declared, nodes: Iterable[ast.AST], code: Code, files: tuple[File, File]
    ) -> Iterator[str]:
        """Imports of what new code reads and the modular file does not have."""
        modular, alias = self.modular, self._alias(change.module)
        local = local_names(code.function) if code.function is not None else frozenset()
        names = {n.id for one in nodes for n in ast.walk(one) if isinstance(n, ast.Name)} - local
        for name in sorted(names - modular.imports.keys() - modular.definitions.keys()):
            file = next((one for one in files if name in one.imports), None)
            if name == alias:
                package, _, module = change.module.rpartition(".")
                yield f"from {package} import {module}"
            elif file is not None and name not in modular.guarded:
                node, imported = file.imports[name]
                as_name = f" as {imported.asname}" if imported.asname else ""
                head = (
                    f"from {absolute_module(node, file.source.module)} "
                    if isinstance(node, ast.ImportFrom)
                    else ""
                )
                yield f"{head}import {imported.name}{as_name}"


# Which code an edit has to change


@dataclass(frozen=True)
class _Hunk:
    """Code of the new parent and what is wanted in its place, with the statements around it."""

    old: _Nodes
    new: _Nodes
    before: ast.stmt | None = None
    behind: ast.stmt | None = None

    def touches(self, lines: set[int]) -> bool:
        """Whether an edit that matches these lines of the parent gives the change."""
        nodes = [self.old] if isinstance(self.old, ast.expr) else list(self.old)
        nodes = nodes or [one for one in (self.before, self.behind) if one is not None]
        return any(line in lines for node in nodes for line in _span(node))


def _hunks(aligned: Aligned) -> Iterator[_Hunk]:
    rows = aligned.rows
    for place, row in enumerate(rows):
        for old, new in row.heads:
            yield _Hunk(old, new)
        for inner in row.inside:
            yield from _hunks(inner)
        if row.state == "changed":
            before = rows[place - 1].old[-1:] if place else ()
            behind = rows[place + 1].old[:1] if place + 1 < len(rows) else ()
            yield _Hunk(row.old, row.new, *(one[0] if one else None for one in (before, behind)))


def _span(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def _pairs(function: Function) -> list[tuple[ast.With, ast.With]]:
    withs = [n for n in ast.walk(function) if isinstance(n, ast.With) and _word(n)]
    withs.sort(key=lambda node: node.lineno)
    return list(zip(withs[::2], withs[1::2], strict=False))


def _word(node: ast.With) -> str:
    name = node.items[0].context_expr
    word = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    return word if word in ("old", "new", "before", "after") else ""


def _count(function: Function) -> int:
    keywords = getattr(function.decorator_list[0], "keywords", ())
    return next((ast.literal_eval(keyword.value) for keyword in keywords), 1)


def _is_hole(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation).endswith("Hole")


def _holes(function: Function) -> frozenset[str]:
    return frozenset(a.arg for a in function.args.args + function.args.kwonlyargs if _is_hole(a))


_Piece = tuple[list[str], list[ast.AST]]


def _declared(
    hunk: _Hunk, blocks: tuple[ast.With, ast.With], there: Code, wanted: Code
) -> tuple[_Piece, _Piece] | None:
    """The lines of `with old:` and of the block below it, with the nodes that they say."""
    old, new = hunk.old, hunk.new
    is_expression = isinstance(blocks[0].body[0], ast.Expr) and len(blocks[0].body) == 1
    if (
        isinstance(old, tuple)
        and isinstance(new, tuple)
        and len(old) == len(new) == 1
        and is_expression
    ):
        before = blocks[0].body[0]
        assert isinstance(before, ast.Expr) and there.function is not None
        every = [key(n) for n in ast.walk(there.function) if isinstance(n, ast.expr)]
        for one, other in differing(old[0], new[0]):
            is_like = type(one) is type(before.value) and _called(one) == _called(before.value)
            if is_like and every.count(key(one)) == 1:
                old, new = one, other
                break
    if isinstance(old, ast.expr) or isinstance(new, ast.expr):
        assert isinstance(old, ast.expr) and isinstance(new, ast.expr)
        return _piece(there, (old,)), _piece(wanted, (new,))
    word = _word(blocks[1])
    if old:
        if word in ("before", "after"):
            return None
        return _piece(there, old), _piece(wanted, new) if new else (["pass"], [])
    # An insertion stands beside the statement that it stood beside.
    first = word == "after" or (word == "new" and key(blocks[1].body[0]) == key(blocks[0].body[0]))
    anchor = hunk.before if first or hunk.behind is None else hunk.behind
    first = anchor is hunk.before
    if anchor is None or (word in ("before", "after") and first != (word == "after")):
        return None
    beside, inserted = _piece(there, (anchor,)), _piece(wanted, new)
    if word != "new":
        return beside, inserted
    parts = (beside, inserted) if first else (inserted, beside)
    return beside, ([*parts[0][0], *parts[1][0]], [*parts[0][1], *parts[1][1]])


def _called(node: ast.expr) -> str:
    return key(node.func) if isinstance(node, ast.Call) else ""


def _piece(code: Code, nodes: tuple[ast.stmt | ast.expr, ...]) -> _Piece:
    """Code at the margin."""
    margin = nodes[0].col_offset if isinstance(nodes[0], ast.stmt) else 0
    lines = code.code(*nodes).split("\n")
    lines = [lines[0], *(line[min(margin, len(line) - len(line.lstrip())) :] for line in lines[1:])]
    if isinstance(nodes[0], ast.stmt):
        lines = [*(line.strip() for line in code.comments(nodes[0])), *lines]
    return lines, list(nodes)


def _parameters(code: Code, used: Sequence[ast.AST], there: Code) -> Cut:
    """The head of an edit, with the variables of the method that its new blocks read."""
    function = code.function
    assert function is not None and there.function is not None
    names = [n for one in used for n in ast.walk(one) if isinstance(n, ast.Name)]
    every = {n.id for n in names} | {"self"}
    args = copy.deepcopy(function.args)
    plain = args.args[: len(args.args) - len(args.defaults)]
    kept = [a for a in plain if a.arg in every or not (a.annotation is None or _is_hole(a))]
    known = {a.arg for a in (*args.args, *args.kwonlyargs)} | {"self"}
    read = dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Load))
    local = local_names(there.function) - known
    kept += [ast.arg(name) for name in read if name in local]
    args.args = [*kept, *args.args[len(plain) :]]
    margin = " " * function.col_offset
    head = f"{margin}def {function.name}({ast.unparse(args)}):\n"
    return Cut((function.lineno, 0), (_body_line(code, function), 0), head)


def _body_line(code: Code, function: Function) -> int:
    """The line behind the head of a function."""
    line = first_line(function.body[0])
    while not code.lines(line - 1, line - 1)[0].partition("#")[0].rstrip().endswith(":"):
        line -= 1
    return line


# The file


def replaced(
    modular: File,
    changes: Mapping[Declared, Rewritten | None],
    comments: Mapping[Declared, Sequence[str]] | None = None,
) -> str:
    """The modular file with other lines for some changes; None takes a change out of it."""
    lines = [line.rstrip("\n") for line in modular.source.lines]
    cuts: list[tuple[int, int, list[str]]] = []
    removed = {id(n) for change, made in changes.items() if made is None for n in change.nodes}
    for change, made in changes.items():
        for number, node in enumerate(change.nodes):
            new = list(made.lines) if made is not None and number == 0 else []
            first = first_line(node)
            while not new and not lines[first - 2].strip():
                first -= 1
            cuts.append((first, node.end_lineno or 0, new))
    for change, told in (comments or {}).items():
        first, margin = first_line(change.nodes[0]), " " * change.nodes[0].col_offset
        cuts.append((first, first - 1, [f"{margin}{MARK} {line}".rstrip() for line in told]))
    for node in (n for n in modular.tree.body if isinstance(n, ast.ClassDef)):
        if all(id(one) in removed or is_docstring(one) for one in node.body):
            end = node.end_lineno or 0
            cuts.append((end + 1, end, ["    pass"]))
    for first, last, new in sorted(cuts, key=lambda cut: cut[:2], reverse=True):
        lines[first - 1 : last] = new
    wanted = {i for made in changes.values() if made is not None for i in made.imports}
    tops = [n for n in modular.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    # Imports stand above the first class, whose lines may have moved; those above have not.
    place = tops[-1].end_lineno or 0 if tops else 0
    return "\n".join([*lines[:place], *sorted(wanted), *lines[place:]]) + "\n"


def without_comments(text: str) -> str:
    """A modular file without what an earlier rebase told a person in it."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(MARK))

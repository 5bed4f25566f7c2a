"""Choose the imports of one output, and write them.

In: the pool (the imports of the modular file, then those of every parent file, in order) and the
body of the output.  Out: text, exact before the linter sees it.

One name too many would change the output: isort splits a line that is too long, F401 then removes
the name, and the comma that is left keeps the line split (sam2_video, deformable_detr).
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchgen.syntax.text import parse_text
from patchgen.upstream.facts import ImportText
from patchgen.upstream.uses import NamedText, used_names

# The kinds whose files must load without torch.
_WITHOUT_TORCH = frozenset({"image_processing_pil", "feature_extraction"})
_OPTIONAL = ("torch", "torchvision")
_STATEMENT = re.compile(r"(?:from\s+(\S+)\s+)?import\b(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: `module` is empty for `import a, b`; a name is what is imported and its
    alias or "".

    `comment` stands behind the statement.
    """

    leading: str
    module: str
    names: tuple[tuple[str, str], ...]
    comment: str = ""

    @property
    def text(self) -> str:
        """The statement on one line, without a comma at the end that would explode it."""
        names = ", ".join(f"{name} as {alias}" if alias else name for name, alias in self.names)
        line = f"from {self.module} import {names}" if self.module else f"import {names}"
        return f"{line}{self.comment}\n"


@dataclass(frozen=True, slots=True)
class Guarded:
    """`if test:` over imports.

    `rest` is the text of its `else`, whose imports are never looked at.  `read` are the names that
    the statement itself reads.
    """

    leading: str
    test: str
    imports: tuple[Import, ...]
    rest: str = ""
    read: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The statement with each import on a line."""
        inner = "".join(f"{_indented(one.leading)}    {one.text}" for one in self.imports)
        return f"if {self.test}:\n{inner}{self.rest}"


Statement = Import | Guarded


def select_imports(
    pool: Sequence[ImportText], pieces: Sequence[NamedText], kind: str, defined: frozenset[str]
) -> str:
    """The imports that `pieces` use and do not define, plain ones first, then those under an `if`.

    A name comes from the first statement of the pool that has it.
    """
    statements = [read_guard(text) if text.guard else read_import(text) for text in pool]
    kept = _select(statements, _used(statements, pieces, defined))
    if kind in _WITHOUT_TORCH:
        kept = guard_optional(kept)
    # The sort is stable: within both groups, the order of the pool stays.
    ordered = sorted(kept, key=lambda one: isinstance(one, Guarded))
    return "".join(f"{one.leading}{one.text}" for one in ordered)


def _used(
    statements: Iterable[Statement], pieces: Sequence[NamedText], defined: frozenset[str]
) -> frozenset[str]:
    """The names of `statements` that the pieces read, or that the test of a guarded import reads.

    The latter count even if that import is then left out: sam2_video has two such names, which only
    the linter removes.
    """
    statements = list(statements)
    bound = {_bound(name) for one in statements for name in _names(one)}
    read = {name for one in statements if isinstance(one, Guarded) for name in one.read}
    return used_names(pieces, bound - defined) | (bound & read - defined)


def _names(statement: Statement) -> Iterable[tuple[str, str]]:
    imports = [statement] if isinstance(statement, Import) else statement.imports
    return [name for one in imports for name in one.names]


def _bound(name: tuple[str, str]) -> str:
    """What an import of `name` binds; `import a.b` binds a."""
    return name[1] or name[0].partition(".")[0]


def _select(statements: Iterable[Statement], used: frozenset[str]) -> list[Statement]:
    """The statements with the names that are used, each name once."""
    # `provided` goes through all statements in order, so that the first one of a name counts.
    provided: set[str] = set()
    kept: list[Statement] = []
    for one in statements:
        if isinstance(one, Guarded):
            parts = [_filtered(each, used, provided) for each in one.imports]
            inner = tuple(part for part in parts if part.names)
            if inner:
                kept.append(replace(one, imports=inner))
        else:
            part = _filtered(one, used, provided)
            if part.names:
                kept.append(part)
    return kept


def _filtered(statement: Import, used: frozenset[str], provided: set[str]) -> Import:
    """`statement` with the names that are used and not yet in `provided`, which is extended."""
    names = []
    for name in statement.names:
        # `import a.b` and `import a.c` bind one name, and both are wanted.
        key = name[1] or name[0]
        if _bound(name) in used and key not in provided:
            provided.add(key)
            names.append(name)
    return replace(statement, names=tuple(names))


def guard_optional(statements: Sequence[Statement]) -> list[Statement]:
    """`statements` with every import of torch, and of torchvision, gathered under one `if
    is_torch_available():`.
    """
    rest = list(statements)
    for package in _OPTIONAL:
        test = f"is_{package}_available()"
        gathered = [one for statement in rest for one in _of(statement, package, test)]
        if gathered:
            rest = [one for one in rest if not _of(one, package, test)]
            rest = _importing(rest, f"is_{package}_available")
            # Without the comments and blank lines above them, as in the shipped files.
            bare = tuple(replace(one, leading="") for one in gathered)
            rest.append(Guarded("", test, bare))
    return rest


def _of(statement: Statement, package: str, test: str) -> tuple[Import, ...]:
    """The imports of `statement` that belong under `test`."""
    if isinstance(statement, Guarded):
        # With an `else`, the statement stays as it is.
        if statement.test != test or statement.rest:
            return ()
        return statement.imports
    modules = [name for name, _ in statement.names]
    if statement.module:
        modules = [statement.module]
    for module in modules:
        if module.partition(".")[0] == package:
            return (statement,)
    return ()


def _importing(statements: Sequence[Statement], name: str) -> list[Statement]:
    """Add `name` to the first import of `statements` from a module called utils.

    Where there is none, or it has the name already, a statement of its own comes first.  isort
    joins the two, but the former first statement loses the blank line above it (neucodec,
    moss_transcribe_diarize).
    """
    for at, one in enumerate(statements):
        if isinstance(one, Import) and one.module.rpartition(".")[2] == "utils":
            if (name, "") in one.names:
                break
            return [
                *statements[:at],
                replace(one, names=(*one.names, (name, ""))),
                *statements[at + 1 :],
            ]
    return [Import("", "...utils", ((name, ""),)), *statements]


def read_import(text: ImportText) -> Import:
    """The statement in `text`."""
    module, names, comment = _parsed(text.text)
    return Import(text.leading, module, names, comment)


@functools.lru_cache(maxsize=4096)  # Most files import the same from the same place.
def _parsed(text: str) -> tuple[str, tuple[tuple[str, str], ...], str]:
    """Module, names and comment of an import statement, without a parser."""
    found = _STATEMENT.match(text.strip())
    assert found, text
    module, tail = found.groups(default="")
    listed, closing, behind = tail.partition(")")
    # Without brackets, the statement ends at its comment.
    if not closing:
        listed, mark, behind = tail.partition("#")
        behind = mark + behind
    # The names are written on one line: comments between them are lost, as in the shipped files.
    bare = re.sub(r"#[^\n]*|[()\\\n]", " ", listed)
    pairs = [part.split() for part in bare.split(",") if part.strip()]
    # Three words are `name as alias`.
    names = tuple((pair[0], pair[-1] if len(pair) == 3 else "") for pair in pairs)
    comment = behind.strip()
    return module, names, f"  {comment}" if comment else ""


def read_guard(text: ImportText) -> Guarded:
    """The `if` in `text`; all but imports of its first branch is left out."""
    return replace(_parsed_guard(text.text), leading=text.leading)


@functools.lru_cache(maxsize=1024)
def _parsed_guard(text: str) -> Guarded:
    """An `if` over imports, without the lines above it."""
    node = parse_text(text, "guard").body[0]
    assert isinstance(node, ast.If)
    lines = text.splitlines(keepends=True)
    # As it stands there, because `ast.unparse` has quotes and brackets of its own.
    test = ast.get_source_segment(text, node.test) or ast.unparse(node.test)
    imports = []
    for inner in node.body:
        if isinstance(inner, ast.Import | ast.ImportFrom):
            source = "".join(lines[inner.lineno - 1 : inner.end_lineno])
            imports.append(read_import(ImportText("", source, False)))
    rest = "".join(lines[node.body[-1].end_lineno or 1 :]) if node.orelse else ""
    read = frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return Guarded("", test, tuple(imports), rest, read)


def _indented(leading: str) -> str:
    """The comments above an import, one level deeper."""
    indented = []
    for line in leading.splitlines(keepends=True):
        # A blank line gets no blanks, which the linter would report.
        indented.append(f"    {line}" if line.strip() else line)
    return "".join(indented)

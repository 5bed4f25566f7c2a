"""Choose the imports of one output by the names that it uses, and write them.

In: the pool (the imports of the modular file, then those of every parent file, in order) and the
body of the output.  Out: text, exact before the linter sees it.  Words decide about most names.  A
syntax tree is made only of a piece that also binds the name (a parameter `pad`, a local `resize`)
or has it in a string that may be an annotation.

One name too many would change the output: isort splits a line that is too long, F401 then removes
the name, and the comma that is left keeps the line split (sam2_video, deformable_detr).
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from patchgen.syntax.scopes import references
from patchgen.syntax.text import parse_text
from patchgen.syntax.trees import names_within
from patchgen.upstream.facts import ImportText
from patchgen.upstream.tokens import Words, words

# The kinds whose files must load without torch.
_WITHOUT_TORCH = frozenset({"image_processing_pil", "feature_extraction"})
_OPTIONAL = ("torch", "torchvision")
_STATEMENT = re.compile(r"(?:from\s+(\S+)\s+)?import\b(.*)", re.DOTALL)
# A string that may be a quoted annotation: after `:`, `->`, `|`, or inside brackets, on one line.
_MAY_BE_ANNOTATION = re.compile(r"[>:|\[,][ \t\n]*+(?:\"([^\"\n\\]++)\"|'([^'\n\\]++)')")
# What may be a type in it: a class, or a module with what is taken from it.
_NAMED = re.compile(r"(?<![\w.])(?:_*[A-Z]\w*+|[^\W\d]\w*+(?=\.))")
# What stands before and behind a name that may be bound there rather than read.
_STATEMENT_BEFORE = re.compile(r"\b(?:def|for|as|import|del|global)[ \t]+\(?\Z")
_BEHIND_TARGET = re.compile(r"[ \t]*(?:=(?!=)|[:,)\]]|in\b)")
_CLASS = re.compile(r"^class ", re.MULTILINE)


@dataclass(frozen=True)
class NamedText:
    """A definition of an output: its text with the lines above it, and the names in it."""

    text: str
    words: Words

    def may_bind(self, name: str) -> bool:
        """Whether `name` may be a parameter or a local name somewhere in it.

        Only names in lower case may.
        """
        if not name.lstrip("_")[:1].islower():
            return False
        for match in _occurrences(name).finditer(self.text):
            if _binds(self.text, match.start(), match.end()):
                # The name of a method hides it from no other method.
                is_inside = self.text.endswith("\n    def ", 0, match.start())
                if not (is_inside and _CLASS.search(self.text)):
                    return True
        return False

    @functools.cached_property
    def globals_read(self) -> frozenset[str]:
        """What Python's scope rules say that it reads.

        A local import of a name counts as a use of it.
        """
        tree = parse_text(self.text, "output")
        names = {reference.name for reference in references(tree.body)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names.update(alias.asname or alias.name for alias in node.names)
        return frozenset(names)


def make_named_text(text: str) -> NamedText:
    """`text` with the names in it."""
    return NamedText(text, words(text))


def used_names(pieces: Sequence[NamedText], candidates: Set[str]) -> frozenset[str]:
    """Those of `candidates` that `pieces` read as globals, in code and in quoted annotations."""
    # In three steps, from what costs least: most names are gone before a tree is made.
    left = set(candidates)
    suspects: list[tuple[NamedText, str]] = []
    for piece in pieces:
        for name in left & piece.words.read:
            if piece.may_bind(name):
                suspects.append((piece, name))
            else:
                left.discard(name)
    for piece, name in suspects:
        if name in left and name in piece.globals_read:
            left.discard(name)
    for piece in pieces:
        if any(name in piece.text for name in left):
            quoted = _MAY_BE_ANNOTATION.findall(piece.text)
            strings = " ".join(double or single for double, single in quoted)
            if not left.isdisjoint(_NAMED.findall(strings)):
                left -= piece.globals_read
    return frozenset(candidates - left)


@functools.lru_cache(maxsize=4096)
def _occurrences(name: str) -> re.Pattern[str]:
    # The boundary before the name last: a pattern that begins with letters is found at the speed of
    # str.find.
    return re.compile(rf"{re.escape(name)}(?<!\w{re.escape(name)})\b")


def _binds(text: str, start: int, end: int) -> bool:
    """Whether the name at `start` is bound there.

    It may be a parameter, a target or an import.
    """
    if _STATEMENT_BEFORE.search(text, max(start - 12, 0), start):
        return True
    before = start
    while before and text[before - 1] in " \t":
        before -= 1
    # A parameter or a target stands at the start of a statement or of an entry.
    may_begin = not before or text[before - 1] in "(,*[;\n"
    return may_begin and _BEHIND_TARGET.match(text, end) is not None


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
        imports = "".join(f"{statement.leading}{statement.text}" for statement in self.imports)
        return f"if {self.test}:\n{textwrap.indent(imports, '    ')}{self.rest}"


Statement = Import | Guarded


def select_imports(
    pool: Sequence[ImportText], pieces: Sequence[NamedText], kind: str, defined: frozenset[str]
) -> str:
    """The imports that `pieces` use and do not define, plain ones first, then those under an `if`.

    A name comes from the first statement of the pool that has it.
    """
    statements: list[Statement] = []
    for text in pool:
        # All but the imports of the first branch of an `if` is left out.
        statement = _parsed_guard(text.text) if text.guard else _parsed(text.text)
        statements.append(replace(statement, leading=text.leading))
    bound: set[str] = set()
    for statement in statements:
        for part in _imports(statement):
            bound.update(map(_bound, part.names))
    # What the test of a guarded import reads counts even if that import is then left out:
    # sam2_video has two such names, which only the linter removes.
    read: set[str] = set()
    for statement in statements:
        if isinstance(statement, Guarded):
            read |= statement.read & bound
    kept = _select(statements, used_names(pieces, bound - defined) | (read - defined))
    if kind in _WITHOUT_TORCH:
        kept = _guard_optional(kept)
    # The sort is stable: within both groups, the order of the pool stays.
    ordered = sorted(kept, key=lambda statement: isinstance(statement, Guarded))
    return "".join(f"{statement.leading}{statement.text}" for statement in ordered)


def _imports(statement: Statement) -> tuple[Import, ...]:
    return statement.imports if isinstance(statement, Guarded) else (statement,)


def _bound(name: tuple[str, str]) -> str:
    """What an import of `name` binds; `import a.b` binds a."""
    return name[1] or name[0].partition(".")[0]


def _select(statements: Iterable[Statement], used: frozenset[str]) -> list[Statement]:
    """The statements with the names that are used, each name once."""
    # It goes through all statements in order, so that the first one of a name counts.
    provided: set[str] = set()
    kept: list[Statement] = []
    for statement in statements:
        parts = []
        for part in _imports(statement):
            # `import a.b` and `import a.c` bind one name, and both are wanted.
            names = {name[1] or name[0]: name for name in part.names if _bound(name) in used}
            fresh = tuple(name for key, name in names.items() if key not in provided)
            provided |= names.keys()
            if fresh:
                parts.append(replace(part, names=fresh))
        if parts and isinstance(statement, Guarded):
            kept.append(replace(statement, imports=tuple(parts)))
        else:
            kept += parts
    return kept


def _guard_optional(statements: Sequence[Statement]) -> list[Statement]:
    """`statements` with every import of torch, and of torchvision, gathered under one `if
    is_torch_available():`.
    """
    rest = list(statements)
    for package in _OPTIONAL:
        check = f"is_{package}_available"
        guarded = [statement for statement in rest if _is_of(statement, package)]
        if guarded:
            rest = [statement for statement in rest if not _is_of(statement, package)]
            rest = _importing(rest, check)
            # Without the comments and blank lines above them, as in the shipped files.
            bare = []
            for whole in guarded:
                for part in _imports(whole):
                    bare.append(replace(part, leading=""))
            rest.append(Guarded("", f"{check}()", tuple(bare)))
    return rest


def _is_of(statement: Statement, package: str) -> bool:
    """Whether `statement` belongs under the test for `package`."""
    if isinstance(statement, Guarded):
        # With an `else`, the statement stays as it is.
        return statement.test == f"is_{package}_available()" and not statement.rest
    modules = [statement.module] if statement.module else [name for name, _ in statement.names]
    return any(module.partition(".")[0] == package for module in modules)


def _importing(statements: list[Statement], name: str) -> list[Statement]:
    """Add `name` to the first import of `statements` from a module called utils.

    Where there is none, or it has the name already, a statement of its own comes first.  isort
    joins the two, but the former first statement loses the blank line above it (neucodec,
    moss_transcribe_diarize).
    """
    added = (name, "")
    for index, statement in enumerate(statements):
        if isinstance(statement, Import) and statement.module.rpartition(".")[2] == "utils":
            if added in statement.names:
                break
            statements[index] = replace(statement, names=(*statement.names, added))
            return statements
    return [Import("", "...utils", (added,)), *statements]


@functools.lru_cache(maxsize=4096)  # Most files import the same from the same place.
def _parsed(text: str) -> Import:
    """An import statement, without a parser and without the lines above it."""
    match = _STATEMENT.match(text.strip())
    assert match, text
    module, tail = match.groups(default="")
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
    if comment:
        comment = f"  {comment}"
    return Import("", module, names, comment)


@functools.lru_cache(maxsize=1024)
def _parsed_guard(text: str) -> Guarded:
    """An `if` over imports, without the lines above it."""
    node = parse_text(text, "guard").body[0]
    assert isinstance(node, ast.If)
    lines = text.splitlines(keepends=True)
    imports = []
    for inner in node.body:
        if isinstance(inner, ast.Import | ast.ImportFrom):
            imports.append(_parsed("".join(lines[inner.lineno - 1 : inner.end_lineno])))
    # As it stands there, because `ast.unparse` has quotes and brackets of its own.
    test = ast.get_source_segment(text, node.test) or ast.unparse(node.test)
    rest = ""
    if node.orelse:
        rest = "".join(lines[node.body[-1].end_lineno or 1 :])
    read = frozenset(inner.id for inner in names_within(node))
    return Guarded("", test, tuple(imports), rest, read)

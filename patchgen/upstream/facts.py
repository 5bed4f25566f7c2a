"""Read what a file, modular or parent, defines at its top level.

In: its text.  Out: `FileFacts`: definitions, imports and exports as pieces of text.

The syntax tree is dropped at once, because the garbage collector makes kept trees the largest cost
of a run.  Names are found on demand.  In a parent file, only classes and functions that are merged
are parsed.  As in transformers, docstrings, expressions, annotated assignments, `try`, loops and
other `if`s are dropped without a message.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.text import Source, make_source, parse_text
from patchgen.upstream.names import KIND_OF_FILE
from patchgen.upstream.tokens import Words, strip_bodies, words

# Tables of names, and no parents.
_EXEMPT = ("auto.modeling_auto", "auto.configuration_auto")


class What(Enum):
    """The kinds of definitions that other definitions can need."""

    CLASS = "class"
    FUNCTION = "function"
    ASSIGNMENT = "assignment"


@dataclass(frozen=True)
class Block:
    """A definition.

    `leading` holds the blank and comment lines above it, `position` its rank in its file; `text`
    begins on `first_line`, with its first decorator, and its `def` or `class` stands on `line`.
    """

    what: What
    name: str
    leading: str
    text: str
    first_line: int
    line: int
    position: int
    bases: tuple[str, ...] = ()

    @functools.cached_property
    def words(self) -> Words:
        """The names in its code."""
        return words(self.text)


@dataclass(frozen=True, slots=True)
class ImportText:
    """A top-level import statement, or an `if` that guards imports (`guard`).

    `leading` holds the blank lines and comments above it; `text` is exact and ends with a newline.
    """

    leading: str
    text: str
    guard: bool


@dataclass(frozen=True, slots=True)
class ModelImport:
    """`name` comes from the file `module` of another model: `("llama", "modeling_llama")`."""

    name: str
    module: tuple[str, ...]
    line: int


@dataclass(slots=True)
class FileFacts:
    """A file in pieces.

    `siblings` are the names that it imports from files beside it.  `followers` are the blocks that
    assign to an item or attribute of a name, by that name: they are called by their whole target
    (doge).  `exports` and `deprecated` are the assignments to `__all__` and `__getattr__`.
    """

    path: str
    text: str = field(repr=False)
    header: str = ""
    blocks: dict[str, Block] = field(default_factory=dict)
    imports: tuple[ImportText, ...] = ()
    model_imports: tuple[ModelImport, ...] = ()
    siblings: tuple[str, ...] = ()
    followers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exports: ImportText | None = None
    deprecated: ImportText | None = None


@functools.lru_cache(maxsize=1024)
def read_facts(text: str, path: str) -> FileFacts:
    """The facts of the file at `path`; cached, because hundreds of modular files share parents.

    Raises PatchgenError PG006 for what is not Python, PG601 and PG602 for imports that no output
    could have.
    """
    source = make_source(text, path)
    facts = FileFacts(path, text)
    for statement, leading, code in _statements(source):
        # Licence and coding line are no comments on the first statement.
        if leading is None:
            facts.header = source.slice(1, first_line(statement) - 1)
        _take(facts, source, statement, leading or "", code)
    return facts


def _is_modular(source: Source) -> bool:
    return source.path.rpartition("/")[2].startswith("modular_")


def _statements(source: Source) -> Iterator[tuple[ast.stmt, str | None, str]]:
    """Each top-level statement with the lines above it and its own lines, whatever is indented
    below included.  None stands above the first.
    """
    body, ends = _parsed(source)
    lines = source.lines
    done = 0
    for index, statement in enumerate(body):
        first = first_line(statement)
        if first <= done:
            continue  # It shares a line with the one before, whose text has it.
        last = ends.get(statement.lineno, statement.end_lineno or first)
        following = first_line(body[index + 1]) if index + 1 < len(body) else len(lines) + 1
        # Indented comments end a block; one at column 0 belongs to what follows.
        if hasattr(statement, "body"):
            for number in range(last + 1, following):
                bare = lines[number - 1].strip()
                if lines[number - 1].startswith("#") or (bare and not bare.startswith("#")):
                    break
                # A blank line is part of it only if an indented comment follows.
                last = number if bare else last
        leading = source.slice(done + 1, first - 1) if index else None
        code = source.slice(first, last)
        # Statements are joined as they are: the last line of the file may have no end.
        yield statement, leading, code if code.endswith("\n") else f"{code}\n"
        done = last


def _parsed(source: Source) -> tuple[list[ast.stmt], Mapping[int, int]]:
    """The statements, and the last lines of those whose bodies were not parsed."""
    if not _is_modular(source):
        text, ends = strip_bodies(source.text)
        # What no formatter has seen may look like something else: it is parsed as a whole.
        with contextlib.suppress(PatchgenError):
            return parse_text(text, source.path).body, ends
    return parse_text(source.text, source.path).body, {}


def _take(facts: FileFacts, source: Source, statement: ast.stmt, leading: str, code: str) -> None:
    """Record one statement, or drop it."""
    bases: tuple[str, ...] = ()
    match statement:
        case ast.ClassDef(name=name):
            what = What.CLASS
            bases = tuple(map(ast.unparse, statement.bases))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            what = What.FUNCTION
        case ast.Assign(targets=[ast.Name("__all__")]):
            facts.exports = ImportText(leading, code, guard=False)
            return
        case ast.Assign(targets=[ast.Name("__getattr__")]):
            facts.deprecated = ImportText(leading, code, guard=False)
            return
        case ast.Assign(targets=[ast.Name(name)]):
            what = What.ASSIGNMENT
        case ast.Assign(
            targets=[ast.Subscript(ast.Name(owner)) | ast.Attribute(ast.Name(owner)), *_]
        ):
            what = What.ASSIGNMENT
            name = ast.unparse(statement.targets[0])
            facts.followers[owner] = (*facts.followers.get(owner, ()), name)
        case ast.ImportFrom() if _note_names(facts, source, statement):
            return
        case ast.Import() | ast.ImportFrom():
            facts.imports += (ImportText(leading, code, guard=False),)
            return
        case ast.If(body=body) if any(isinstance(n, ast.Import | ast.ImportFrom) for n in body):
            # `if is_vision_available():` is copied as a whole, and may import a parent too.
            for inner in body:
                if isinstance(inner, ast.ImportFrom):
                    _note_names(facts, source, inner)
            facts.imports += (ImportText(leading, code, guard=True),)
            return
        case _:
            return
    # Defined again, a name keeps its first place and gets the last text.
    earlier = facts.blocks.get(name)
    position = earlier.position if earlier else len(facts.blocks)
    line = statement.lineno
    first = first_line(statement)
    facts.blocks[name] = Block(what, name, leading, code, first, line, position, bases)


def _note_names(facts: FileFacts, source: Source, statement: ast.ImportFrom) -> bool:
    """Whether `statement` imports from another model; its names are then recorded."""
    if statement.level == 1 and statement.module and KIND_OF_FILE.match(statement.module):
        facts.siblings += tuple(alias.asname or alias.name for alias in statement.names)
    module = _below_models(statement.level, statement.module or "")
    if _is_modular(source):
        _refuse_import(statement, module, source.at_node(statement))
    if not module or module in _EXEMPT:
        return False
    facts.model_imports += tuple(
        ModelImport(alias.name, tuple(module.split(".")), statement.lineno)
        for alias in statement.names
    )
    return True


def _below_models(level: int, module: str) -> str:
    """The name of an imported module below `models`: absolute, from the package, or from a sibling.

    Empty where that is no model's file.
    """
    match level:
        # Four dots are the folder that holds the package, which a file of 5.17 names.
        case 0 | 4 if module.startswith("transformers.models."):
            return module.removeprefix("transformers.models.")
        case 3 if module.startswith("models."):
            return module.removeprefix("models.")
        # `modeling_llama` in another folder, and not `utils` or `cache_utils`.
        case 2 if "." in module and KIND_OF_FILE.match(module.partition(".")[2]):
            return module
        case _:
            return ""


def _refuse_import(statement: ast.ImportFrom, module: str, at: Location) -> None:
    """Raise PatchgenError for an import that would be wrong in every output."""
    # Its `__init__.py` loads modules on demand: it says nothing of where a name comes from.
    if statement.level == 0 and statement.module == "transformers":
        names = ", ".join(alias.name for alias in statement.names)
        what = "imports from `transformers` as a whole, of which the file is a part"
        raise PatchgenError("PG602", at, what, f"name the module: `from ...module import {names}`")
    # A configuration that modeling files re-export would be renamed with the wrong file.
    file = module.rpartition(".")[2]
    for alias in statement.names:
        if file.startswith("modeling_") and module not in _EXEMPT and "Config" in alias.name:
            what = f"imports the configuration `{alias.name}` from {file}"
            hint = f"import it from {file.replace('modeling_', 'configuration_', 1)}"
            raise PatchgenError("PG601", at, what, hint)

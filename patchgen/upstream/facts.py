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
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.text import Source, make_source, parse_text
from patchgen.upstream.kinds import KINDS
from patchgen.upstream.model import ImportText
from patchgen.upstream.strip_bodies import strip_bodies
from patchgen.upstream.tokens import Words, words

# `modeling_llama` in another folder, and not `utils` or `cache_utils`.
_FOREIGN_FILE = re.compile(rf"(?:{'|'.join(KINDS)})_")
_EXEMPT = ("auto.modeling_auto", "auto.configuration_auto")


class What(Enum):
    """The kinds of definitions that other definitions can need."""

    CLASS = "class"
    FUNCTION = "function"
    ASSIGNMENT = "assignment"


@dataclass(frozen=True)
class Block:
    """A definition.

    `leading` holds the blank and comment lines above it, `position` its rank in its file.
    """

    what: What
    name: str
    leading: str
    text: str
    line: int
    position: int
    bases: tuple[str, ...] = ()
    decorator_lines: int = 0

    @property
    def first_line(self) -> int:
        """The line of its first decorator, with which `text` begins."""
        return self.line - self.decorator_lines

    @functools.cached_property
    def words(self) -> Words:
        """The names in its code."""
        return words(self.text)


@dataclass(frozen=True, slots=True)
class ModelImport:
    """`name` comes from the file `module` of another model: `("llama", "modeling_llama")`."""

    name: str
    module: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file in pieces.

    `siblings` are the names that it imports from files beside it.  `followers` are the blocks that
    assign to an item or attribute of a name, by that name: they are called by their whole target
    (doge).
    """

    path: str
    text: str = field(repr=False)
    header: str = ""
    blocks: Mapping[str, Block] = field(default_factory=dict)
    imports: tuple[ImportText, ...] = ()
    model_imports: tuple[ModelImport, ...] = ()
    siblings: tuple[str, ...] = ()
    followers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exports: Block | None = None
    deprecated: Block | None = None


@functools.lru_cache(maxsize=1024)
def read_facts(text: str, path: str) -> FileFacts:
    """The facts of the file at `path`; cached, because hundreds of modular files share parents.

    Raises PatchgenError PG006 for what is not Python, PG601 and PG602 for imports that no output
    could have.
    """
    reader = _Reader(make_source(text, path))
    for statement, leading, code in reader.statements():
        reader.take(statement, leading, code)
    return reader.facts()


class _Reader:
    """Collects the facts of one file while its tree lives."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.is_modular = source.path.rpartition("/")[2].startswith("modular_")
        self.header = ""
        self.blocks: dict[str, Block] = {}
        self.imports: list[ImportText] = []
        self.model_imports: list[ModelImport] = []
        self.siblings: list[str] = []
        self.followers: dict[str, tuple[str, ...]] = {}
        self.special: dict[str, Block] = {}

    def facts(self) -> FileFacts:
        """Everything that was taken."""
        return FileFacts(
            self.source.path,
            self.source.text,
            self.header,
            self.blocks,
            tuple(self.imports),
            tuple(self.model_imports),
            tuple(self.siblings),
            self.followers,
            self.special.get("__all__"),
            self.special.get("__getattr__"),
        )

    def statements(self) -> Iterator[tuple[ast.stmt, str, str]]:
        """Each top-level statement with the lines above it and its own lines, whatever is indented
        below included.
        """
        body, ends = self._parsed()
        done = 0
        for index, statement in enumerate(body):
            first = _first_line(statement)
            if first <= done:
                continue  # It shares a line with the one before, whose text has it.
            last = ends.get(statement.lineno, statement.end_lineno or first)
            following = len(self.source.lines) + 1
            if index + 1 < len(body):
                following = _first_line(body[index + 1])
            if _is_compound(statement):
                last = self._with_footer(last, following)
            leading = self.source.slice(done + 1, first - 1)
            # Licence and coding line are no comments on the first statement.
            if not index:
                self.header, leading = leading, ""
            code = self.source.slice(first, last)
            # Statements are joined as they are: the last line of the file may have no end.
            if not code.endswith("\n"):
                code += "\n"
            yield statement, leading, code
            done = last

    def _parsed(self) -> tuple[list[ast.stmt], Mapping[int, int]]:
        """The statements, and the last lines of those whose bodies were not parsed."""
        if not self.is_modular:
            text, ends = strip_bodies(self.source.text)
            # What no formatter has seen may look like something else: it is parsed as a whole.
            with contextlib.suppress(PatchgenError):
                return parse_text(text, self.source.path).body, ends
        return parse_text(self.source.text, self.source.path).body, {}

    def _with_footer(self, last: int, following: int) -> int:
        """The last line with the indented comments that end a block.

        A comment at column 0 belongs to what follows.
        """
        end = last
        for line in range(last + 1, following):
            text = self.source.lines[line - 1]
            stripped = text.strip()
            is_code = bool(stripped) and not stripped.startswith("#")
            if is_code or text.startswith("#"):
                break
            # A blank line is part of it only if an indented comment follows.
            if stripped:
                end = line
        return end

    def take(self, statement: ast.stmt, leading: str, code: str) -> None:
        """Record one statement, or drop it."""
        match statement:
            case ast.ClassDef(name=name):
                bases = tuple(ast.unparse(base) for base in statement.bases)
                self._define(What.CLASS, name, leading, code, statement, bases)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._define(What.FUNCTION, name, leading, code, statement)
            case ast.Assign(targets=[ast.Name(("__all__" | "__getattr__") as name)]):
                self.special[name] = Block(
                    What.ASSIGNMENT, name, leading, code, statement.lineno, 0
                )
            case ast.Assign(targets=[ast.Name(name)]):
                self._define(What.ASSIGNMENT, name, leading, code, statement)
            case ast.Assign(
                targets=[ast.Subscript(ast.Name(name)) | ast.Attribute(ast.Name(name)), *_]
            ):
                target = ast.unparse(statement.targets[0])
                self.followers[name] = (*self.followers.get(name, ()), target)
                self._define(What.ASSIGNMENT, target, leading, code, statement)
            case ast.ImportFrom():
                self._import_from(statement, leading, code)
            case ast.Import():
                self.imports.append(ImportText(leading, code, guard=False))
            case ast.If() if any(
                isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body
            ):
                # `if is_vision_available():` is copied as a whole, and may import a parent too.
                for inner in statement.body:
                    if isinstance(inner, ast.ImportFrom):
                        self._note_names(inner)
                self.imports.append(ImportText(leading, code, guard=True))

    def _define(
        self,
        what: What,
        name: str,
        leading: str,
        code: str,
        statement: ast.stmt,
        bases: tuple[str, ...] = (),
    ) -> None:
        """Record a definition under its name."""
        first = _first_line(statement)
        earlier = self.blocks.get(name)
        # Defined again, a name keeps its first place and gets the last text.
        position = earlier.position if earlier else len(self.blocks)
        self.blocks[name] = Block(
            what, name, leading, code, statement.lineno, position, bases, statement.lineno - first
        )

    def _import_from(self, statement: ast.ImportFrom, leading: str, code: str) -> None:
        if not self._note_names(statement):
            self.imports.append(ImportText(leading, code, guard=False))

    def _note_names(self, statement: ast.ImportFrom) -> bool:
        """Whether `statement` imports from another model; its names are then recorded."""
        if statement.level == 1 and statement.module and _FOREIGN_FILE.match(statement.module):
            self.siblings += (alias.asname or alias.name for alias in statement.names)
        module = model_module(statement)
        if self.is_modular:
            _refuse_import(statement, module, self.source.at_node(statement))
        if not module:
            return False
        self.model_imports += (
            ModelImport(alias.name, module, statement.lineno) for alias in statement.names
        )
        return True


def model_module(statement: ast.ImportFrom) -> tuple[str, ...]:
    """Below `models`, the parts of the module that `statement` imports from.

    Empty where that is no model's file.
    """
    below = _find_below_models(statement.level, statement.module or "")
    # The auto classes are tables of names, and no parents.
    if not below or below in _EXEMPT:
        return ()
    return tuple(below.split("."))


def _find_below_models(level: int, module: str) -> str:
    """The name of the module below `models`: absolute, from the package, or from a sibling."""
    match level:
        case 0 if module.startswith("transformers.models."):
            return module.removeprefix("transformers.models.")
        case 3 if module.startswith("models."):
            return module.removeprefix("models.")
        case 2 if "." in module and _FOREIGN_FILE.match(module.partition(".")[2]):
            return module
        case _:
            return ""


def _refuse_import(statement: ast.ImportFrom, module: tuple[str, ...], at: Location) -> None:
    """Raise PatchgenError for an import that would be wrong in every output."""
    # Its `__init__.py` loads modules on demand: it says nothing of where a name comes from.
    if statement.level == 0 and statement.module == "transformers":
        names = ", ".join(alias.name for alias in statement.names)
        what = "imports from `transformers` as a whole, of which the file is a part"
        raise PatchgenError("PG602", at, what, f"name the module: `from ...module import {names}`")
    # A configuration that modeling files re-export would be renamed with the wrong file.
    if not module or not module[-1].startswith("modeling_"):
        return
    for alias in statement.names:
        if "Config" in alias.name:
            what = f"imports the configuration `{alias.name}` from {module[-1]}"
            hint = f"import it from {module[-1].replace('modeling_', 'configuration_', 1)}"
            raise PatchgenError("PG601", at, what, hint)


def _first_line(statement: ast.stmt) -> int:
    # `lineno` of a definition is the line of its `def` or `class`.
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _is_compound(statement: ast.stmt) -> bool:
    return hasattr(statement, "body")

"""A block rewritten from the names of its own module into those of the flat file.

In: a block, its module, and a `Naming`.  Out: a `RewrittenBlock`.  Text is replaced at the
positions that `ast` gives; every line keeps its place, so that positions can be translated back.
What is not a name of the module stays byte for byte.
"""

from __future__ import annotations

import ast
import builtins
import functools
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen.compiler.link.module_state import refuse_module_state
from patchgen.compiler.link.strings import data_strings, looks_up_names_of_classes, naming_strings
from patchgen.compiler.plan.indentation import normalize_indentation
from patchgen.compiler.plan.model import DataString, Edit, RewrittenBlock, Symbol
from patchgen.compiler.plan.naming import Naming, Resolution
from patchgen.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.defined import defined_name
from patchgen.syntax.scopes import Reference
from patchgen.syntax.text import parse

_BUILTINS = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "__package__",
    "__spec__",
    "__class__",
}
_RELATIVE_IMPORT = re.compile(r"from\s*(\.[.\s]*)(?!import\b)([\w.]*)|from\s*(\.+)")


@dataclass(frozen=True, slots=True)
class _Change:
    """A replacement in byte columns of a line, as `ast` counts them."""

    line: int
    start: int
    end: int
    new: str


def qualify_names(
    module: ModuleIndex, block: Block, key: Symbol, naming: Naming, chain: tuple[Symbol, ...] = ()
) -> RewrittenBlock:
    """`block`, which defines `key`, in the names of the flat file.

    `chain` are the classes that are merged with it: an explicit `Parent.method(self)` of one of them is marked
    `__parent_<index>__.method(self)` for the rewriting of `super()`.
    Raises PatchgenError PG103 for `module.Name` that does not exist, PG113 for a flattened module used as a value, and
    what `elsewhere` refuses.
    """
    refuse_module_state(module, block, naming)
    work = _Localiser(module, block, key, naming, chain)
    return normalize_indentation(work.piece())


class _Localiser:
    def __init__(
        self,
        module: ModuleIndex,
        block: Block,
        key: Symbol,
        naming: Naming,
        chain: tuple[Symbol, ...],
    ):
        self._module, self._block, self._key = module, block, key
        self._naming, self._chain = naming, chain
        self._lines = tuple(block.text.split("\n"))
        self._needs: dict[str, Symbol] = {}
        # Modular files name new classes as they will be; only parents' strings follow their classes.
        self._declares = module.source.module in {
            layer.source.module for layer in naming.plan.layers
        }
        self._has_stars = any(item.name == "*" for each in module.blocks for item in each.imports)
        self._renamed: dict[str, str] = (
            {} if self._declares else dict(naming.renamed_classes(module))
        )
        self._changes: set[_Change] = set()

    def piece(self) -> RewrittenBlock:
        block = self._block
        for reference in block.references:
            self._refer(reference)
        tree = ast.parse(block.text)
        name = self._define(tree)
        self._absolute_imports(tree)
        data: tuple[DataString, ...] = ()
        if self._renamed:
            self._rename_strings(tree)
            data = tuple(self._data_strings(tree))
        text, edits = _apply(self._lines, self._changes)
        defines = tuple(self._renamed.get(defined, defined) for defined in block.defines)
        leading = _rename_words(block.leading, self._renamed)
        source = self._module.source
        return RewrittenBlock(
            self._key,
            block.kind,
            name,
            leading,
            text,
            source,
            block.first,
            defines,
            dict(self._needs),
            edits,
            data,
        )

    def _at(self, line: int, column: int) -> Location:
        return self._module.source.at(self._block.first + line - 1, column)

    def _refer(self, reference: Reference) -> None:
        at = self._at(reference.line, reference.column)
        imported = any(item.bound == reference.name for item in self._block.imports)
        if self._key.name == reference.name and not reference.attributes and not imported:
            symbol: Symbol | None = self._key
        else:
            symbol = self._naming.bindings.meaning(self._module, reference.name)
        if self._has_stars:
            self._refuse_star(reference.name)
        if symbol is None:
            if reference.name not in _BUILTINS:
                self._refuse_unbound(reference, at)
                self._needs.setdefault(reference.name, Symbol("", reference.name))
            return
        used = 0
        while (
            not symbol.name and used < len(reference.attributes) and self._flattens(symbol.module)
        ):
            symbol = self._member(symbol, reference.attributes[used], at)
            used += 1
        if (
            not symbol.name
            and self._flattens(symbol.module)
            and self._naming.bindings.env.path(symbol.module)
        ):
            hint = f"write {reference.name}.<name> for what is needed of it"
            raise PatchgenError(
                "PG113", at, f"the flattened module {symbol.module} is used as a value", hint
            )
        if (
            symbol.name
            and self._flattens(symbol.module)
            and self._naming.bindings.env.path(symbol.module)
        ):
            self._naming.bindings.require(symbol, at)
        place = self._place(symbol, reference)
        if place.key is None:
            self._keep_import(reference, symbol, used)
            return
        self._refuse_replaced(reference, symbol, place, used)
        if place.name in reference.hidden:
            what = f"{reference.name} is {place.name} in the flat file, but a local name here hides that"
            raise PatchgenError("PG120", at, what, f"give the local {place.name} another name")
        parent = self._parent_index(symbol)
        explicit = len(reference.attributes) > used or self._inside_super(reference)
        new = f"__parent_{parent}__" if parent and explicit else place.name
        if not new.startswith("__parent_"):
            self._needs[place.name] = place.key
        if place.name != symbol.name and place.name != self._naming.aside(symbol):
            self._renamed[symbol.name] = place.name
        self._replace(reference, used, new)

    def _place(self, symbol: Symbol, reference: Reference) -> Resolution:
        """Where the flat file has what `reference` reads.

        A parent that its subclass has taken the place of is still meant where its own module looks for what it
        inherits, or gives it further attributes below the class.
        """
        place = self._naming.resolve(symbol, self._module.source.module)
        aside = self._naming.aside(symbol) if place.key and place.key != symbol else None
        own = symbol == self._key and self._inside_super(reference)
        if aside is not None and (own or (reference.eager and self._changes_attributes)):
            return Resolution(symbol, aside, place.kind)
        return place

    @functools.cached_property
    def _changes_attributes(self) -> bool:
        """Whether the block only assigns or deletes attributes."""
        if self._block.defines and self._block.kind != "guard":
            return False
        return any(map(_changes_attribute, ast.walk(ast.parse(self._block.text))))

    def _refuse_replaced(
        self, reference: Reference, symbol: Symbol, place: Resolution, used: int
    ) -> None:
        """Raises PG117: a modular file that calls the parent's own version of what it replaces would call itself."""
        source = self._module.source
        layers = {layer.source.module for layer in self._naming.plan.layers}
        if (
            source.module not in layers
            or symbol.module in layers
            or place.key == symbol
            or place.key is None
        ):
            return
        block = self._naming.bindings.require(symbol, self._at(reference.line, reference.column))
        if block.kind == "class" and not self._is_called(reference, used):
            return  # a base, an annotation, isinstance: the flat class is what the parent's name means there
        at = self._at(reference.line, reference.column)
        what = f"{symbol} is used here, but in the flat file {place.name} is the one that this modular file declares"
        raise PatchgenError(
            "PG117",
            at,
            what,
            f"write {place.name} for the new one, or give the new one another name",
        )

    def _is_called(self, reference: Reference, used: int) -> bool:
        if len(reference.attributes) > used or reference.quoted:
            return False
        line, end = (
            reference.ends[used - 1]
            if used
            else (reference.line, reference.column + len(reference.name))
        )
        return self._lines[line - 1].encode()[end:].lstrip().startswith(b"(")

    def _keep_import(self, reference: Reference, symbol: Symbol, used: int) -> None:
        if used:
            # `mistral.MistralMLP` of a module that is not a parent: the module alias stays imported.
            module = self._naming.bindings.meaning(self._module, reference.name)
            self._needs[reference.name] = module or symbol
        else:
            self._needs[reference.name] = symbol

    def _member(self, module: Symbol, attribute: str, at: Location) -> Symbol:
        bindings = self._naming.bindings
        symbol = bindings.canonical(Symbol(module.module, attribute), at)
        if symbol.name and symbol.module == module.module and bindings.env.path(module.module):
            bindings.require(symbol, at)
        return symbol

    def _flattens(self, module: str) -> bool:
        return self._naming.bindings.flatten_scope.flattens(module)

    def _parent_index(self, symbol: Symbol) -> int:
        """The place of `symbol` in the chain behind this block's own class; 0 when it is not there."""
        if symbol not in self._chain or self._key not in self._chain:
            return 0
        index = self._chain.index(symbol)
        return index if index > self._chain.index(self._key) else 0

    def _inside_super(self, reference: Reference) -> bool:
        before = (
            self._lines[reference.line - 1].encode()[: reference.column].decode(errors="ignore")
        )
        return before.rstrip().endswith("super(")

    def _refuse_star(self, name: str) -> None:
        """What `from x import *` brings from outside, or under a condition, is known at run time only."""
        binders = self._module.binders(name)
        for block in self._module.blocks:
            if binders and block.first < binders[-1].first:
                continue
            for item in (item for item in block.imports if item.name == "*"):
                at = self._module.source.at(item.line, item.column)
                target = self._naming.bindings.absolute(self._module, item.module, item.level, at)
                if block.is_guarded or self._may_bring(target, name):
                    what = f"{name} may come from this star import"
                    raise PatchgenError("PG116", at, what, f"import {name} by its name")

    def _may_bring(self, target: str, name: str) -> bool:
        """Whether a module that is not carried may have `name`: one that cannot be read, or that spells it."""
        bindings = self._naming.bindings
        if bindings.flatten_scope.looks_into(target) and bindings.env.path(target):
            return False
        if bindings.env.path(target) is None:
            return True
        return name in bindings.env.index(target, Location(target)).source.text

    def _refuse_unbound(self, reference: Reference, at: Location) -> None:
        """In the flat file, a parent's definition of that name would be found by chance."""
        stated = (
            n
            for b in self._module.blocks
            for n in ast.walk(ast.parse(b.text))
            if isinstance(n, ast.Global)
        )
        if (
            self._declares
            and not reference.quoted
            and not any(reference.name in node.names for node in stated)
        ):
            hint = did_you_mean(reference.name, self._module.names) or "import or define it"
            if self._stands_in_edit(reference):
                hint = f"list {reference.name} among the edit's parameters if it is a name of the method; else {hint}"
            raise PatchgenError("PG402", at, f"the name {reference.name} is bound by nothing", hint)

    def _stands_in_edit(self, reference: Reference) -> bool:
        """Whether `reference` stands in a function that `@edit` decorates."""
        bindings = self._naming.bindings
        for node in ast.walk(ast.parse(self._block.text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                called = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
                meant = [
                    bindings.meaning(self._module, ast.unparse(callee).partition(".")[0])
                    for callee in called
                ]
                is_inside = node.lineno <= reference.line <= (node.end_lineno or node.lineno)
                if is_inside and any(
                    symbol and symbol.module == "patchgen.edits" for symbol in meant
                ):
                    return True
        return False

    def _replace(self, reference: Reference, used: int, new: str) -> None:
        old = ".".join([reference.name, *reference.attributes[:used]])
        if new == old or reference.quoted:
            if reference.quoted and new != old:
                self._renamed[old] = new
            return
        line = self._lines[reference.line - 1].encode()
        end_line, end = (
            reference.ends[used - 1]
            if used
            else (reference.line, _end_of_name(line, reference.column))
        )
        written = line[reference.column : end].decode(errors="ignore")
        if end_line != reference.line or unicodedata.normalize("NFKC", written) != old:
            # Python before 3.12 gives wrong positions inside f-strings.
            found = [m.start() for m in re.finditer(rf"\b{re.escape(old)}\b".encode(), line)]
            if len(found) != 1:
                at = self._at(reference.line, reference.column)
                raise PatchgenError(
                    "PG114",
                    at,
                    f"{old} cannot be renamed here",
                    "bind it to a name on a line before",
                )
            self._changes.add(_Change(reference.line, found[0], found[0] + len(old.encode()), new))
            return
        self._changes.add(_Change(reference.line, reference.column, end, new))

    def _define(self, tree: ast.Module) -> str:
        """The flat name of the definition, its statement renamed."""
        name = (
            self._naming.resolve(self._key, self._module.source.module).name
            if self._key.name
            else ""
        )
        own = self._key.name
        if name == own or not name:
            return name
        self._renamed[own] = name
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name == own
            ):
                written = defined_name(self._lines, node)
                line = self._lines[written.line - 1]
                start, end = (len(line[:place].encode()) for place in (written.start, written.end))
                self._changes.add(_Change(written.line, start, end, name))
        return name

    def _absolute_imports(self, tree: ast.Module) -> None:
        """Make the relative imports inside the block absolute: the flat file lies elsewhere."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            at = self._at(node.lineno, node.col_offset)
            target = self._naming.bindings.absolute(self._module, node.module or "", node.level, at)
            for alias in node.names:
                self._refuse_local_import(node, Symbol(target, alias.name), at)
            if not node.level:
                continue
            line = self._lines[node.lineno - 1].encode().decode("latin-1")  # one character a byte
            found = _RELATIVE_IMPORT.match(line, node.col_offset)
            if found is None:
                raise PatchgenError(
                    "PG114", at, "this import cannot be made absolute", "write it on one line"
                )
            start = found.start(1) if found[1] else found.start(3)
            end = found.end(2) if found[1] else found.end(3)
            self._changes.add(_Change(node.lineno, start, end, target))

    def _refuse_local_import(self, node: ast.ImportFrom, symbol: Symbol, at: Location) -> None:
        """An import inside a function would bring the parent's own definition of what the flat file changes."""
        if self._block.kind == "import":
            return
        symbol = self._naming.bindings.canonical(symbol, at)
        place = self._naming.resolve(symbol, self._module.source.module)
        if place.key is not None and place.key != symbol:
            what = (
                f"{symbol} is imported inside a block, but the flat file has its own {place.name}"
            )
            raise PatchgenError("PG115", at, what, "import it at the top of the file")

    def _rename_strings(self, tree: ast.Module) -> None:
        """Rename whole identifiers in comments, and in strings that name classes."""
        taken = {(change.line, change.start) for change in self._changes}
        spans = [
            ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
            for node in naming_strings(tree)
        ]
        for line, start, word, is_comment in _words_in_text(self._block.text, self._renamed):
            place = (line, start)
            named = is_comment or any(first <= place < last for first, last in spans)
            if named and place not in taken:
                self._changes.add(
                    _Change(line, start, start + len(word.encode()), self._renamed[word])
                )

    def _data_strings(self, tree: ast.Module) -> Iterator[DataString]:
        found = tuple(data_strings(tree, self._renamed))
        is_risky = bool(found) and looks_up_names_of_classes(parse(self._module.source))
        for node in found:
            at = self._at(node.lineno, node.col_offset)
            yield DataString(node.value, at, self._renamed[node.value], is_risky)


def _end_of_name(line: bytes, start: int) -> int:
    """Where the name that begins at `start` ends, in bytes; it may be spelled in more characters than it has."""
    found = re.match(r"\w+", line[start:].decode(errors="ignore"))
    return start + len(found.group().encode()) if found else start


def _changes_attribute(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Name(id="setattr" | "delattr")):
            return True
        case _:
            return False


def _words_in_text(text: str, renamed: Mapping[str, str]) -> Iterator[tuple[int, int, str, bool]]:
    """(line, byte column, word, in a comment) of each renamed identifier in strings and comments of `text`."""
    pattern = _word_pattern(renamed)
    kinds = {
        tokenize.STRING,
        tokenize.COMMENT,
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in kinds:
            continue
        row, column = token.start
        for offset, line in enumerate(token.string.split("\n")):
            before = token.line.split("\n")[0][:column] if not offset else ""
            base = len(before.encode())
            for found in pattern.finditer(line):
                place = base + len(line[: found.start()].encode())
                yield row + offset, place, found.group(), token.type == tokenize.COMMENT


def _word_pattern(renamed: Mapping[str, str]) -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in sorted(renamed, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?:{words})(?!\w)")


def _rename_words(text: str, renamed: Mapping[str, str]) -> str:
    if not renamed or not text.strip():
        return text
    return _word_pattern(renamed).sub(lambda found: renamed[found.group()], text)


def _apply(lines: tuple[str, ...], changes: set[_Change]) -> tuple[str, tuple[Edit, ...]]:
    """The text with all changes made, and the same changes in characters, for positions."""
    done = list(lines)
    edits = []
    for change in sorted(changes, key=lambda c: (c.line, c.start), reverse=True):
        raw = done[change.line - 1].encode()
        old = raw[change.start : change.end].decode()
        column = len(raw[: change.start].decode())
        edits.append(Edit(change.line, column, old, change.new))
        done[change.line - 1] = (
            raw[: change.start] + change.new.encode() + raw[change.end :]
        ).decode()
    return "\n".join(done), tuple(reversed(edits))

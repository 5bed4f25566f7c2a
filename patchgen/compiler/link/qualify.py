"""Replace the names of a block by those of the flat file.

    from .modeling_llama import LlamaMLP as MLP      # the flat file calls LlamaMLP TinyMLP

    class TinyLayer(nn.Module):                      class TinyLayer(nn.Module):
        def __init__(self, config):            ->        def __init__(self, config):
            self.mlp = MLP(config)                           self.mlp = TinyMLP(config)

In: a block, its module, and a `Naming`.  Out: a `RewrittenBlock`.  Names are replaced at the
positions that `ast` gives, and every line keeps its number, so that a position in the rewritten
block can be translated back.  All other text stays byte for byte.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import unicodedata
from collections.abc import Iterator

from patchgen.compiler.link.strings import TextChange, apply_changes, rename_in_text, rename_words
from patchgen.compiler.plan.bindings import is_marked
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.compiler.plan.naming import NameClash, Naming, Resolution
from patchgen.compiler.plan.same import is_same_definition
from patchgen.compiler.plan.types import find_types
from patchgen.compiler.plan.words import is_edit
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.reads import Reference
from patchgen.syntax.statements import changed_names
from patchgen.syntax.trees import (
    find_name,
    global_names,
    parse_once,
    sets_attributes,
    statements_within,
)

_RELATIVE_IMPORT = re.compile(r"from\s+\.[.\w]*\s+import\b")
# What Python itself gives each class: `Parent.__dict__["f"]` is about Parent, and no member of it.
_OF_CLASS_OBJECT = frozenset("__annotations__ __dict__ __doc__ __module__ __name__".split())
_BUILTINS = {*dir(builtins), "__file__", "__class__"}  # `builtins` has `__name__` and the like


def qualify_names(
    module: ModuleIndex, block: Block, key: Symbol, naming: Naming, chain: tuple[Symbol, ...] = ()
) -> RewrittenBlock:
    """Return `block`, which defines `key`, in the names of the flat file.

    `chain` holds the classes that are merged with it.  An explicit `Parent.method(self)` of one of
    them becomes `__parent_<index>__.method(self)`, which the resolution of `super()` reads.

    Raises PatchgenError PG103 for a `module.Name` that does not exist, PG113 for a flattened module
    that is used as a value, PG117 for a parent's definition that the flat file replaces, PG402 for
    a name of a modular file that nothing binds, and PG114 and PG120 where the text cannot say what
    is meant.
    """
    return _Qualifier(module, block, key, naming, chain).make_rewritten_block()


class _Qualifier:
    """Collects the changes of one block."""

    def __init__(
        self,
        module: ModuleIndex,
        block: Block,
        key: Symbol,
        naming: Naming,
        chain: tuple[Symbol, ...],
    ):
        self._module = module
        self._block = block
        self._key = key
        self._naming = naming
        self._chain = chain
        self._bindings = naming.bindings
        self._lines = tuple(block.text.split("\n"))
        self._needs: dict[str, Symbol] = {}
        self._changes: set[TextChange] = set()
        self._is_modular = module.source.module in naming.plan.modules
        # A modular file names its new classes as they will be called.  Only in the strings of
        # parents do the names of classes have to change.
        self._renamed = {} if self._is_modular else dict(naming.renamed_classes(module))

    def make_rewritten_block(self) -> RewrittenBlock:
        block = self._block
        for reference in block.references:
            self._qualify(reference)
        name = self._rename_definition()
        # The search spares the parse of nearly every block.
        if "import" in block.text:
            self._changes.update(self._make_imports_absolute())
        if self._renamed:
            taken = {(change.line, change.start) for change in self._changes}
            self._changes |= set(
                rename_in_text(
                    block.text, self._tree, self._renamed, taken, with_prose=not self._is_modular
                )
            )
        text, edits = apply_changes(self._lines, self._changes)
        leading = block.leading
        # An author who names a class of transformers in a comment means that class.
        if not self._is_modular:
            leading = rename_words(leading, self._renamed)
        return RewrittenBlock(
            symbol=self._key,
            kind=block.kind,
            name=name,
            leading=leading,
            text=text,
            source=self._module.source,
            first=block.first,
            defines=tuple(self._renamed.get(defined, defined) for defined in block.defines),
            dependencies=dict(self._needs),
            edits=edits,
        )

    @functools.cached_property
    def _tree(self) -> ast.Module:
        # Parsed when something has to be renamed: most blocks of a variant keep their names.
        return parse_once(self._block.text)

    def _locate(self, reference: Reference) -> Location:
        # A line may have to be decoded for it, so it is asked for where a problem is possible.
        return self._module.source.at(self._block.first + reference.line - 1, reference.column)

    def _qualify(self, reference: Reference) -> None:
        """Give one name its name in the flat file, and record what it stands for."""
        symbol = self._resolve_name(reference)
        if symbol is None:
            if reference.name not in _BUILTINS:
                self._record_unbound(reference)
            return
        symbol, used = self._follow_attributes(symbol, reference)
        flattens = self._bindings.flatten_scope.flattens(symbol.module)
        if flattens and self._bindings.env.path(symbol.module) is not None:
            if not symbol.name:
                hint = f"write {reference.name}.<name> for what is needed of it"
                what = f"the flattened module {symbol.module} is used as a value"
                raise PatchgenError("PG113", self._locate(reference), what, hint)
            self._bindings.require(symbol, self._locate(reference))
        resolution = self._find_definition(symbol, reference)
        name = resolution.name
        if resolution.key is None:
            imported = self._name_in_parent(reference, symbol, used)
            if symbol in self._naming.apart:
                imported = name
            if imported is not None:
                self._need(imported, symbol, reference)
                self._replace(reference, used, imported)
            else:
                # In `mistral.MistralMLP`, of a module that is no parent, the module stays imported.
                module = self._bindings.meaning(self._module, reference.name) if used else None
                self._need(reference.name, module or symbol, reference)
            return
        self._refuse_replaced(symbol, resolution, reference, used)
        if name in reference.hidden:
            written = ".".join([reference.name, *reference.attributes[:used]])
            what = f"{written} is {name} in the flat file, but a local name here hides that"
            hint = f"give the local {name} another name"
            raise PatchgenError("PG120", self._locate(reference), what, hint)
        # Strings may name the class too; of two things of one name, they mean the other.
        names = (symbol.name, self._naming.aside(symbol))
        if name not in names and symbol not in self._naming.apart:
            self._renamed[symbol.name] = name
        marked = self._mark_parent(symbol, reference, used)
        if marked is None:
            self._need(name, resolution.key, reference)
        self._replace(reference, used, marked or name)

    def _need(self, name: str, symbol: Symbol, reference: Reference) -> None:
        """Record what `name` stands for in the flat file; raises NameClash for a second thing."""
        known = self._needs.setdefault(name, symbol)
        if not is_same_definition(known, symbol, self._naming):
            what = f"{name} is both {known} and {symbol} in the flat file"
            lesser = self._naming.lesser(known, symbol)
            hint = f"give one of them another name in {self._module.source.path}"
            raise NameClash(lesser, self._locate(reference), what, hint)

    def _resolve_name(self, reference: Reference) -> Symbol | None:
        """The symbol that the name stands for; None where nothing at module level binds it."""
        name = reference.name
        is_imported = any(item.bound == name for item in self._block.imports)
        if self._key.name == name and not reference.attributes and not is_imported:
            return self._key
        replaced = self._naming.replaced_imports(self._module).get(name)
        return replaced or self._bindings.meaning(self._module, name)

    def _record_unbound(self, reference: Reference) -> None:
        """Record a name that nothing binds; raises PG402 for one in a modular file."""
        # An annotation in quotes is a string, and means what the flat file has under the name.
        if reference.quoted:
            return
        name = reference.name
        if self._is_modular and not is_marked(self._block.text, reference.line):
            hint = did_you_mean(name, self._module.names) or "import or define it"
            for item in self._module.imports:
                parent = f"{item.module}.{item.name}"
                if parent in self._naming.plan.parents:
                    at = self._locate(reference)
                    if self._bindings.env.index(parent, at).definition(name) is not None:
                        hint = f"write {item.bound}.{name}"
            if self._stands_in_edit(reference.line):
                parameter = f"list {name} among the edit's parameters if it is a name of the method"
                hint = f"{parameter}; else {hint}"
            raise PatchgenError(
                "PG402", self._locate(reference), f"the name {name} is bound by nothing", hint
            )
        self._needs.setdefault(name, Symbol("", name))

    def _stands_in_edit(self, line: int) -> bool:
        for node in statements_within(self._tree):
            if isinstance(node, ast.FunctionDef):
                is_around = node.lineno <= line <= (node.end_lineno or 0)
                if is_around and is_edit(self._module, node, self._bindings):
                    return True
        return False

    def _follow_attributes(self, symbol: Symbol, reference: Reference) -> tuple[Symbol, int]:
        """Follow `llama.LlamaMLP` into flattened modules.

        Returns the symbol that it stands for, and how many attributes were followed.  Raises PG103
        where one does not exist.
        """
        used = 0
        for attribute in reference.attributes:
            if symbol.name or not self._bindings.flatten_scope.flattens(symbol.module):
                break
            at = self._locate(reference)
            module = symbol.module
            symbol = self._bindings.canonical(Symbol(module, attribute), at)
            if symbol.name and symbol.module == module and self._bindings.env.path(module):
                self._bindings.require(symbol, at)
            used += 1
        return symbol, used

    def _find_definition(self, symbol: Symbol, reference: Reference) -> Resolution:
        """Where the flat file defines what `reference` reads.

        Where a subclass took the name of its parent, code means the subclass.  Two kinds of code
        mean the parent: its own `super(Parent, self)`, and what sets or reads its attributes when
        the module is imported.  What changes a table there means the parent's.
        """
        resolution = self._naming.resolve(symbol, self._module.source.module)
        aside = None if resolution.key in (None, symbol) else self._naming.aside(symbol)
        if aside is None:
            return resolution
        in_own_super = symbol == self._key and self._is_in_super(reference)
        is_class = self._naming.plan.subclass_of(symbol) is not None
        calls_itself = symbol == self._key and not is_class
        if is_class:
            acts_on_it = bool(reference.attributes) or self._changes_attributes
        else:
            acts_on_it = reference.name in changed_names(self._block.text)
        if calls_itself or in_own_super or (reference.eager and acts_on_it):
            return Resolution(symbol, aside, resolution.kind)
        return resolution

    def _is_in_super(self, reference: Reference) -> bool:
        before = self._lines[reference.line - 1].encode()[: reference.column].rstrip()
        return before.endswith(b"super(")

    def _refuse_replaced(
        self, symbol: Symbol, resolution: Resolution, reference: Reference, used: int
    ) -> None:
        """Raise PG117 where a modular file uses the definition of a parent that it replaces.

            class LlamaMLP(llama.LlamaMLP): ...
            old = llama.LlamaMLP()          # LlamaMLP is the new class in the flat file

        A class that is used as a base, as an annotation or in `isinstance` means the new class.
        """
        is_own = symbol.module == self._module.source.module
        if not self._is_modular or is_own or resolution.key == symbol:
            return
        at = self._locate(reference)
        if self._bindings.require(symbol, at).kind != "class":
            # Of modular files that are combined, one may define a function of another again.
            if symbol.module in self._naming.plan.modules:
                return
        elif reference.quoted or self._means_heir(symbol, reference, used):
            return
        what = f"{symbol} is used here, but in the flat file {resolution.name} is the one "
        what += "that this modular file declares"
        hint = f"write {resolution.name} for the new one, or give the new one another name"
        raise PatchgenError("PG117", at, what, hint)

    def _means_heir(self, symbol: Symbol, reference: Reference, used: int) -> bool:
        """Whether a read of the class `symbol` means the same once it is merged into its heir.

        Parent.method(self)         yes, in a class below it
        super(Parent, self)         yes, there too
        Parent.__dict__             no
        """
        heirs = self._naming.plan.heirs_of(symbol)
        behind = reference.attributes[used:]
        is_of_object = not behind or behind[0] in _OF_CLASS_OBJECT
        if self._key in heirs and (not is_of_object or self._is_in_super(reference)):
            return True
        # Every object of the parent is one of its only heir.
        return reference.position in find_types(self._tree, with_checks=len(heirs) < 2)

    @functools.cached_property
    def _changes_attributes(self) -> bool:
        """Whether the block does nothing but assign or delete attributes."""
        if self._block.defines and self._block.kind != "guard":
            return False
        return sets_attributes(self._tree)

    def _name_in_parent(self, reference: Reference, symbol: Symbol, used: int) -> str | None:
        """The name of what a parent's module imports: `ACT2FN` for a modular file's `llama.ACT2FN`.

        None where the flat file may mean something else by it.
        """
        if not self._is_modular or not used:
            return None
        name = reference.attributes[used - 1]
        # Other code may read the builtin of that name.
        if name in reference.hidden or name in _BUILTINS:
            return None
        meanings = {self._bindings.meaning(self._module, name)}
        for parent in self._naming.plan.parents:
            index = self._bindings.env.index(parent, Location(parent))
            meanings.add(self._bindings.meaning(index, name))
        is_imported = symbol in meanings and meanings <= {None, symbol}
        return name if is_imported else None

    def _mark_parent(self, symbol: Symbol, reference: Reference, used: int) -> str | None:
        """`__parent_<index>__` for a merged parent in `Parent.method(self)`, else None."""
        has_method = len(reference.attributes) > used or self._is_in_super(reference)
        if not has_method or symbol not in self._chain or self._key not in self._chain:
            return None
        index = self._chain.index(symbol)
        # Python would search from there on; a class before it is no parent.
        return f"__parent_{index}__" if index > self._chain.index(self._key) else None

    def _replace(self, reference: Reference, used: int, new: str) -> None:
        """Write `new` for the name and the first `used` of its attributes."""
        old = ".".join([reference.name, *reference.attributes[:used]])
        if new == old:
            return
        if reference.quoted:
            self._renamed[old] = new  # `rename_in_text` does it
            return
        span = self._find_span(reference, used, old)
        # `global` would still say the old name.
        if "global " in self._block.text and old in global_names(self._tree):
            span = None
        if span is None:
            at = self._locate(reference)
            hint = "bind it to a name on a line before"
            raise PatchgenError("PG114", at, f"{old} cannot be renamed here", hint)
        self._changes.add(TextChange(reference.line, *span, new))

    # What is written around a name; columns count bytes, as those of `ast` do

    def _find_span(self, reference: Reference, used: int, old: str) -> tuple[int, int] | None:
        """The bytes of the name and the first `used` of its attributes, which are spelled `old`.

        None where the text there is another one and `old` does not stand on the line once.
        """
        line = self._lines[reference.line - 1].encode()
        start = reference.column
        end_line, end = self._find_end(reference, used)
        # Python reads `ﬁeld` as `field`.
        written = line[start:end].decode(errors="ignore")
        is_there = unicodedata.normalize("NFKC", written) == old
        if is_there and end_line == reference.line:
            return start, end
        # Python before 3.12 gives wrong positions inside f-strings.
        word = rf"\b{re.escape(old)}\b".encode()
        places = [match.span() for match in re.finditer(word, line)]
        if len(places) != 1:
            return None
        return places[0]

    def _find_end(self, reference: Reference, used: int) -> tuple[int, int]:
        """The line and the byte behind the name and the first `used` of its attributes."""
        if used:
            return reference.ends[used - 1]
        line = self._lines[reference.line - 1].encode()
        # Decoded, as `\w` of bytes knows ASCII alone.
        (name,) = re.findall(r"^\w*", line[reference.column :].decode(errors="ignore"))
        return reference.line, reference.column + len(name.encode())

    def _make_imports_absolute(self) -> Iterator[TextChange]:
        """The changes that make relative imports absolute: the flat file lies in another folder.

        Raises PG114 for one that cannot be changed.
        """
        for node in statements_within(self._tree):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            number = self._block.first + node.lineno - 1
            at = self._module.source.at(number, node.col_offset)
            target = self._bindings.absolute(self._module, node.module or "", node.level, at)
            # Latin-1 has one character for each byte, so that columns of both are the same.
            line = self._lines[node.lineno - 1].encode().decode("latin-1")
            written = _RELATIVE_IMPORT.match(line, node.col_offset)
            if written is None:
                what = "this import cannot be made absolute"
                hint = "write it on one line, as `from ..module import name`"
                raise PatchgenError("PG114", at, what, hint)
            yield TextChange(node.lineno, *written.span(), f"from {target} import")

    def _rename_definition(self) -> str:
        own = self._key.name
        if not own:
            return ""
        name = self._naming.aside(self._key)
        if name is None:
            name = self._naming.resolve(self._key, self._module.source.module).name
        if name == own or not name:
            return name
        self._renamed[own] = name
        for node in self._tree.body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if (
                    node.name == own
                ):
                    number, *span = find_name(self._lines, node)
                    start, end = (len(self._lines[number - 1][:at].encode()) for at in span)
                    self._changes.add(TextChange(number, start, end, name))
                case (
                    ast.Assign(targets=[ast.Name(id=target) as bound])
                    | ast.AnnAssign(target=ast.Name(id=target) as bound)
                ) if target == own:
                    start = bound.col_offset
                    end = bound.end_col_offset or 0
                    self._changes.add(TextChange(bound.lineno, start, end, name))
        return name

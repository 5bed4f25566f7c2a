"""Names that a file imports from transformers: which stay, which moved, and which are copied.

A name of transformers' general modules stays if the newest release has it there, is imported from
where it is now if it moved, and is copied with all that it reads if it is gone.  A name of a
model's own file stays only if its code is the same: a file is ported for what it computed.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from patchgen import disk
from patchgen.author.align.file import imported_names, of_lines, with_cuts
from patchgen.rescuing.rewrite import Note
from patchgen.rescuing.sources import PACKAGE, Module, Sources, names_read
from patchgen.syntax.bound import bound_by
from patchgen.syntax.same import plain_text

# General names that are there and mean something else: the old ones are copied.
CHANGED = (
    "transformers.modeling_attn_mask_utils.",
    "transformers.modeling_rope_utils.",
    "transformers.pytorch_utils.softmax_backward_data",
    "transformers.modeling_outputs.MoECausalLMOutputWithPast",
)


@dataclass(frozen=True)
class Copied:
    """One definition that was copied: its name, its module in the old release, and its text."""

    name: str
    module: str
    text: str


@dataclass
class Names:
    """What became of the imported names of one file."""

    imports: dict[str, None] = field(default_factory=dict)  # lines, in order
    copied: dict[str, Copied] = field(default_factory=dict)
    configurations: dict[str, None] = field(default_factory=dict)  # old modules to write as files
    left: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


@functools.cache
def is_there(module: str, name: str) -> bool:
    """Whether the running transformers has `name` in `module`."""
    try:
        imported_module = importlib.import_module(module)
        return hasattr(imported_module, name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


class Resolver:
    """Decide for names, with the old release's text and the running transformers."""

    def __init__(self, old: Sources, new: Sources, clean: Callable[[str], str]) -> None:
        self.old = old
        self.new = new
        self.clean = clean
        self.own_code: dict[str, str] = {}  # of the file that is ported
        self.defaults: list[str] = []  # lines of configurations
        text = disk.text_of(Path(__file__).with_name("support.py"))
        self.support = Module("patchgen.rescuing.support", text, False)

    def is_same(self, module: str, name: str) -> bool:
        """Whether a model's definition, and all that it reads of its module, is as it was."""
        before = self.old.find(module, name)
        after = self.new.find(module, name)
        if before is None or after is None:
            return before is after
        seen = [name]
        for read_name in seen:
            mine = before[0].bindings.get(read_name)
            if mine is None:
                continue
            theirs = after[0].bindings.get(read_name)
            if theirs is None or plain_text(mine) != plain_text(theirs):
                return False
            seen += sorted(names_read(mine).difference(seen, ["logger"]))
        return True

    def decide(
        self, names: Names, module: str, name: str, bound: str, defined: set[str]
    ) -> str | None:
        """The import line for `bound`, or None where it is copied or goes."""
        imported = f"import {aliased(name, bound)}"
        line = f"from {module} {imported}"
        at = self.old.find(module, name)
        home = at[0].name if module == PACKAGE and at is not None else module
        is_code = all(part not in home for part in (".auto", ".tokenization_", "processing_"))
        is_model = home.startswith("transformers.models.") and is_code
        if is_model:
            if is_there(module, name) and self.is_same(module, name):
                return line
        elif not f"{module}.{name}".startswith(CHANGED):
            if is_there(module, name):
                return line
            if moved := self.new.general_module(name):
                return f"from {moved} {imported}"
        if at is None:
            names.left.append(f"`{name}` of {module}: neither release has it")
            return line
        old = at[0]
        last = old.name.rpartition(".")[2]
        if last.startswith("configuration_") and is_model:
            names.configurations[old.name] = None
            return f"from .{last} {imported}"
        self.copy(names, self.support if name in self.support.bindings else old, name, defined)
        if bound != name:
            names.copied.setdefault(bound, Copied(bound, old.name, f"{bound} = {name}\n"))
        return None

    def copy(self, names: Names, module: Module, name: str, defined: set[str]) -> None:
        """Copy the definition of `name` in `module`, those that it reads first."""
        is_support = module is self.support
        is_defined = name in defined
        is_taken = is_defined and not is_support
        if is_taken or name in names.copied:
            if is_defined and name != "logger":
                names.left.append(f"`{name}` of {module.name} would stand beside the file's own")
            return
        text = module.source(module.bindings[name])
        if not is_support:
            text = self.clean(absolute(module, text))
        names.copied[name] = Copied(name, module.name, text)  # a circle ends here
        self.follow(names, module, ast.parse(text), defined | {name})
        names.copied[name] = names.copied.pop(name)  # after what it reads

    def follow(self, names: Names, module: Module, tree: ast.AST, defined: set[str]) -> None:
        """Copy or import what a copied text reads of its module."""
        for read in sorted(names_read(tree) - imported_names(tree)):
            is_bound = read in module.bindings
            is_logger = read == "logger"
            if is_bound and read in self.own_code and not is_logger:
                code = plain_text(module.bindings[read])
                if self.own_code[read] != code:
                    what = f"copied code of {module.name} reads the file's own `{read}`"
                    names.left.append(f"{what}, another one")
            if read in names.copied or read in defined:
                continue
            if (is_bound and module is self.support) or is_logger:
                self.copy(names, module, read, defined)
            elif is_bound or read in module.imports:
                line = self.line(names, module, read, read, defined)
                if line:
                    names.imports[line] = None
            elif read in self.support.bindings:
                self.copy(names, self.support, read, defined)

    def line(
        self, names: Names, module: Module, name: str, bound: str, defined: set[str]
    ) -> str | None:
        """The import line for what a module of the old release binds or imports, if any."""
        source, inner = module.imports.get(name, ("", ""))
        if name in module.bindings:
            return self.decide(names, module.name, name, bound, defined)
        if not inner:
            return f"import {aliased(source, bound)}"
        if source.split(".")[0] == PACKAGE and module is not self.support:
            return self.decide(names, source, inner, bound, defined)
        line = f"from {source} import {aliased(inner, bound)}"
        for node in module.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom) and name in map(bound_by, node.names):
                return line
        # It stands under a condition: not everybody has the package.
        return f"try:\n    {line}\nexcept ImportError:\n    pass"

    def need(self, names: Names, tree: ast.Module, defined: set[str]) -> None:
        """Copy what the rewritten text reads of the support module."""
        for read in sorted(names_read(tree) - defined):
            if read in self.support.bindings and read not in names.copied:
                self.copy(names, self.support, read, set())
            elif read == "GenerationMixin":
                names.imports["from transformers.generation import GenerationMixin"] = None


def aliased(name: str, bound: str) -> str:
    """`name as bound`, as an import has it."""
    return name if bound == name.split(".")[0] else f"{name} as {bound}"


def absolute(module: Module, text: str) -> str:
    """The text of a definition of `module`, with the imports in it by absolute names."""
    cuts = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        named = ast.ImportFrom(module.absolute(node), node.names, 0)
        line = " " * node.col_offset + ast.unparse(named)
        last = node.end_lineno or 0
        cuts.append(of_lines(node.lineno, last, [line]))
    return with_cuts(text, cuts)

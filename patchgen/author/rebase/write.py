"""A modular file with some of its declarations written anew.

@edit("forward")                         @edit("forward")
def cap(self, x):                        def cap(self, x):
    with old: self.act(x)          ->        with old: self.act(x, scale=1)
    with new: self.act(cap(x))               with new: self.act(cap(x), scale=1)

What is left to a person is told in comments above the declaration that it is about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.adopt.classes import declare_edits, edit_words
from patchgen.author.adopt.words import Names, Words
from patchgen.author.align.file import Cut, File, Member, import_of, of_lines, read_file, with_cuts
from patchgen.author.rebase.code import Code, cut_out
from patchgen.author.rebase.merge import Renames
from patchgen.author.rebase.releases import Declared, Parent, Tree
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import is_docstring
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Function

MARK = "# rebase:"


@dataclass(frozen=True)
class Rewritten:
    """The new lines of a declared change, at the margin of a class, and the imports for them.

    `is_anew`: they say all that the merged member asks for, and have to give it.
    """

    lines: tuple[str, ...]
    imports: tuple[str, ...] = ()
    is_anew: bool = True


OUT = Rewritten(())  # a change that is taken out


@dataclass(frozen=True)
class Writer:
    """Writes declarations of a modular file anew."""

    modular: File
    settings: Settings
    tree: Tree  # the release that the file was written for

    def renamed(self, change: Declared, renames: Renames) -> Rewritten | None:
        """Edits by the new names of variables; None if they have none of the old ones."""
        lines: list[str] = []
        is_renamed = False
        for node in change.nodes:
            code = cut_out(self.modular, [node])
            holes = _holes_of(code)
            variables = {old: new for old, new in renames.variables.items() if old not in holes}
            of_edit = replace(renames, variables=variables, attributes={})
            renamed = of_edit.apply(code)
            is_renamed |= renamed.text != code.text
            lines += renamed.member.split("\n")
        if not is_renamed:
            return None
        return replace(self._formatted(lines, None, change.owner), is_anew=False)

    def wrapper(self, change: Declared, override: Code) -> Rewritten:
        """An override that calls its parent, as it reads now."""
        return self._formatted(override.member.split("\n"), None, change.owner)

    def override(self, change: Declared, merged: Code, parent: Parent) -> Rewritten:
        """A member as an override."""
        words, new = self._words(change, merged, parent)
        lines = words.statements(new.nodes, 4 if change.owner else 0)
        return self._formatted(lines, words, change.owner)

    def edits(self, change: Declared, merged: Code, parent: Parent) -> Rewritten | None:
        """One edit that gives the merged method; None where there is none that does.

        It has the name and the docstring of the first that was there.
        """
        words, new = self._words(change, merged, parent)
        first = change.nodes[0]
        old = parent.member(change.member).method
        if not isinstance(first, Function) or new.method is None or old is None:
            return None
        lines = declare_edits(new.method, old, words, set(), first.name)
        if not lines:
            return None
        docstring = first.body[0]
        if is_docstring(docstring):
            text = self.modular.source.slice(docstring.lineno, docstring.end_lineno or 0)
            described = text.rstrip("\n").split("\n")
            heads = [line for line in lines if "def " in line and line[4] != "@"]
            top = lines.index(heads[0]) + 1
            lines[top:top] = described
        return self._formatted(lines, words, change.owner)

    def _formatted(self, lines: Sequence[str], words: Words | None, owner: str) -> Rewritten:
        """The lines of members, formatted, with the imports of what they read."""
        head = "class _:\n" if owner else ""
        text = format_texts({"member.py": head + "\n".join(lines)}, self.settings)["member.py"]
        imports = tuple(self._imports(words, text)) if words is not None else ()
        formatted = text.removeprefix(head).rstrip("\n")
        return Rewritten(tuple(formatted.split("\n")), imports)

    # Names

    def _words(self, change: Declared, merged: Code, parent: Parent) -> tuple[Words, Member]:
        """The words of the modular file for the new parent with the merged member, and that."""
        file = parent.forked.parent
        module = change.module
        nodes = parent.member(change.member).nodes
        first = first_line(nodes[0])
        last = nodes[-1].end_lineno or 0
        lines = merged.member.rstrip("\n").split("\n")
        cut = of_lines(first, last, lines)
        with_member = with_cuts(file.source.text, [cut])
        source = make_source(with_member, file.source.path, module)
        fork = read_file(source)
        pairs = {name: name for name in file.definitions}
        pairs.update(parent.forked.pairs)
        forked = replace(parent.forked, fork=fork, pairs=pairs, alone=frozenset())
        said = set(self.modular.definitions)
        for name in pairs:
            meaning = self.tree.names.meaning(self.modular, ast.Name(name))
            if meaning == (module, name):
                said.add(name)
        names = Names(forked, frozenset(said), self._alias(module))
        return Words(names), parent.member(change.member, fork)

    def _alias(self, module: str) -> str:
        """What the modular file calls the parent's module, or may call it."""
        last = module.rpartition(".")[2]
        for name in self.modular.imports:
            if self.tree.names.meaning(self.modular, ast.Name(name)) == (module, ""):
                return name
        return last

    def _imports(self, words: Words, text: str) -> Iterator[str]:
        """Imports of what new code reads and the modular file does not have."""
        modular = self.modular
        forked = words.names.forked
        parent = forked.parent
        alias = words.names.alias
        if alias not in modular.imports and f"{alias}." in text:
            package, _, module = forked.module.rpartition(".")
            yield f"from {package} import {module}"
        for word in edit_words(text):
            if word not in modular.imports:
                yield f"from patchgen.edits import {word}"
        known = {*modular.imports, *modular.definitions, *modular.guarded}
        for name in sorted(words.read - known):
            if name in parent.imports and words.names.of_fork(name) == name:
                yield import_of(*parent.imports[name], forked.module)


# The file


def replaced(
    modular: File,
    changes: Mapping[Declared, Rewritten],
    comments: Mapping[Declared, Sequence[str]] = {},
) -> str:
    """The modular file with other lines for some changes, and comments above others."""
    cuts: list[Cut] = []
    removed: set[ast.AST] = set()
    wanted: set[str] = set()
    for change, rewritten in changes.items():
        wanted.update(rewritten.imports)
        if rewritten is OUT:
            removed.update(change.nodes)
        new = rewritten.lines
        for node in change.nodes:
            first = first_line(node)
            while not new and not modular.source.lines[first - 2].strip():
                first -= 1
            cuts.append(of_lines(first, node.end_lineno or 0, new))
            new = ()  # the first of them has all
    for change, told in comments.items():
        first = first_line(change.nodes[0])
        margin = " " * change.nodes[0].col_offset
        above = (f"{margin}{MARK} {line}".rstrip() for line in told)
        cuts.append(of_lines(first, first - 1, above))
    bottom = 0
    for node in modular.tree.body:
        end = node.end_lineno or 0
        if isinstance(node, ast.Import | ast.ImportFrom):
            bottom = end
        elif isinstance(node, ast.ClassDef):
            if all(one in removed or is_docstring(one) for one in node.body):
                cuts.append(of_lines(end + 1, end, ["    pass"]))
    cuts.append(of_lines(bottom + 1, bottom, sorted(wanted)))
    return with_cuts(modular.source.text.removesuffix("\n") + "\n", cuts)


def _holes_of(code: Code) -> set[str]:
    """The parameters of edits that are holes."""
    holes = set()
    for node in code.nodes:
        for arg in ast.walk(node):
            if isinstance(arg, ast.arg) and arg.annotation is not None:
                if ast.unparse(arg.annotation).endswith("Hole"):
                    holes.add(arg.arg)
    return holes


def without_comments(text: str) -> str:
    """A modular file without what an earlier rebase told a person in it."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(MARK))

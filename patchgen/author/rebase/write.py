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
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.align.drafts import drafts, is_made_up
from patchgen.author.align.file import Cut, File, absolute_module, of_lines, renaming, with_cuts
from patchgen.author.rebase.code import Code, cut_out, replacing
from patchgen.author.rebase.names import Renames
from patchgen.author.rebase.releases import Declared, resolve
from patchgen.author.rebase.statements import head_end
from patchgen.compiler.edits.pattern import find
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import local_names
from patchgen.syntax.same import Function, is_docstring
from patchgen.syntax.scopes import references

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

    def renamed(self, change: Declared, renames: Renames) -> Rewritten | None:
        """Edits by the new names of variables; None if they have none of the old ones."""
        codes = [cut_out(self.modular, [node]) for node in change.nodes]
        made: list[Code] = []
        for code in codes:
            inside = [n for node in code.nodes for n in ast.walk(node)]
            holes = {n.arg for n in inside if isinstance(n, ast.arg) and _is_hole(n)}
            variables = {k: v for k, v in renames.variables.items() if k not in holes}
            made.append(Renames(variables, renames.keywords).made_in(code))
        if [code.text for code in made] == [code.text for code in codes]:
            return None
        return Rewritten(self._formatted(made), (), is_anew=False)

    def override(self, change: Declared, merged: Code, files: tuple[File, File]) -> Rewritten:
        """A member as an override; `files` are the output on the old release and the new parent."""
        code = self._spelled(change, merged, files)
        imports = tuple(self._imports(change, code.nodes, code, files))
        return Rewritten(self._formatted([code]), imports)

    def edits(
        self, change: Declared, theirs: Code, merged: Code, files: tuple[File, File]
    ) -> Rewritten | None:
        """Edits that give the merged method; None where it is not clear which one changes what."""
        there, wanted = (self._spelled(change, code, files) for code in (theirs, merged))
        if there.function is None or wanted.function is None:
            return None
        functions = [n for n in change.nodes if isinstance(n, Function)]
        waiting: list[tuple[Function, ast.With, ast.With]] = []
        fitting: set[int] = set()
        for function in functions:
            holes = {
                n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg) and _is_hole(n)
            }
            for old, new in _pairs(function):
                lines_there = _lines_of(old.body, there.function, holes)
                if len(lines_there) == _count(function):
                    fitting.update(*lines_there)
                else:
                    waiting.append((function, old, new))
        # In full: where `...` stands for an argument, upstream's next change of it would be lost.
        every = drafts(there.function, wanted.function, is_brief=False) or ()
        made = [d for d in every if not fitting.intersection(*_lines_of(d.body, there.function))]
        if not made or [1] * len(made) != [_count(function) for function, _, _ in waiting]:
            return None
        cuts: dict[Function, list[Cut]] = {function: [] for function in functions}
        used: dict[Function, list[ast.AST]] = {function: [] for function in functions}
        imports: list[str] = []
        for (function, old, new), draft in zip(waiting, made, strict=True):
            top = first_line(function) - 2  # lines of the function alone begin at 2
            for block, part, code in ((old, draft.old, there), (new, draft.new, wanted)):
                first, last = first_line(block.body[0]), block.body[-1].end_lineno or 0
                text = textwrap.indent(_piece(code, part), " " * block.body[0].col_offset)
                cuts[function].append(of_lines(first - top, last - top, [text]))
                used[function] += part if isinstance(part, tuple) else (part,)
            if _word(new) != draft.word:
                word = new.items[0].context_expr
                cuts[function].append(replacing(word, draft.word, top))
                if draft.word not in self.modular.imports:
                    imports.append(f"from patchgen.edits import {draft.word}")
        codes: list[Code] = []
        for function, its_cuts in cuts.items():
            code = cut_out(self.modular, [function])
            head = [_parameters(code, used[function], there)] if its_cuts else []
            codes.append(code.changed([*its_cuts, *head]))
        nodes = [n for some in used.values() for n in some]
        imports += self._imports(change, nodes, wanted, files)
        return Rewritten(self._formatted(codes), tuple(imports))

    def _formatted(self, codes: Sequence[Code]) -> tuple[str, ...]:
        """The lines of members, formatted."""
        head = codes[0].text.removesuffix(codes[0].member)
        text = head + "\n".join(code.member for code in codes)
        made = format_texts({"member.py": text}, self.settings)["member.py"]
        return tuple(made.rstrip("\n").split("\n")[len(head) > 0 :])

    # Names

    def _spelled(self, change: Declared, code: Code, files: tuple[File, File]) -> Code:
        """Code in the names of the modular file: what the parent defines is `llama.LlamaMLP`."""
        theirs = files[1].definitions.keys() - self.modular.definitions.keys()
        reads = [
            (read, f"{self._alias(change.module)}.{read.name}")
            for read in references(ast.parse(code.text).body)
            if read.name in theirs and not read.quoted
            if resolve(self.modular, ast.Name(read.name)) != (change.module, read.name)
        ]
        return code.changed(renaming(code.text.split("\n"), reads))

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
                if isinstance(node, ast.ImportFrom):
                    module = absolute_module(node, file.source.module)
                    yield ast.unparse(ast.ImportFrom(module, [imported], 0))
                else:
                    yield ast.unparse(ast.Import([imported]))


# Which code an edit has to change


def _lines_of(
    pattern: Sequence[ast.stmt], method: Function, holes: Collection[str] = ()
) -> list[set[int]]:
    """The lines of each place that a pattern fits."""
    return [
        {line for n in match.nodes for line in range(n.lineno, (n.end_lineno or 0) + 1)}
        for match in find(pattern, method, holes)
    ]


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


def _piece(code: Code, part: tuple[ast.stmt, ...] | ast.expr) -> str:
    """Code at the margin, with the comments above it."""
    nodes = part if isinstance(part, tuple) else (part,)
    if not nodes:
        return "pass"
    # What has `...` for some of it is in no file.
    if any(is_made_up(node) or not hasattr(node, "lineno") for node in nodes):
        return "\n".join(map(ast.unparse, nodes))
    if not isinstance(nodes[0], ast.stmt):
        return ast.unparse(nodes[0])
    lines = code.lines(first_line(nodes[0]), nodes[-1].end_lineno or 0)
    return textwrap.dedent("\n".join([*code.comments(nodes[0]), *lines]))


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
    head = f"{' ' * function.col_offset}def {function.name}({ast.unparse(args)}):"
    return of_lines(function.lineno, head_end(code, function), [head])


# The file


def replaced(
    modular: File,
    changes: Mapping[Declared, Rewritten],
    comments: Mapping[Declared, Sequence[str]] = {},
) -> str:
    """The modular file with other lines for some changes, and comments above others."""
    cuts: list[Cut] = []
    removed = {id(n) for change, made in changes.items() if made is OUT for n in change.nodes}
    for change, made in changes.items():
        for number, node in enumerate(change.nodes):
            new = made.lines if number == 0 else ()
            first = first_line(node)
            while not new and not modular.source.lines[first - 2].strip():
                first -= 1
            cuts.append(of_lines(first, node.end_lineno or 0, new))
    for change, told in comments.items():
        first, margin = first_line(change.nodes[0]), " " * change.nodes[0].col_offset
        above = (f"{margin}{MARK} {line}".rstrip() for line in told)
        cuts.append(of_lines(first, first - 1, above))
    for node in (n for n in modular.tree.body if isinstance(n, ast.ClassDef)):
        if all(id(one) in removed or is_docstring(one) for one in node.body):
            end = node.end_lineno or 0
            cuts.append(of_lines(end + 1, end, ["    pass"]))
    wanted = {line for made in changes.values() for line in made.imports}
    tops = [n for n in modular.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    place = tops[-1].end_lineno or 0 if tops else 0
    cuts.append(of_lines(place + 1, place, sorted(wanted)))
    return with_cuts(modular.source.text.removesuffix("\n") + "\n", cuts)


def without_comments(text: str) -> str:
    """A modular file without what an earlier rebase told a person in it."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(MARK))

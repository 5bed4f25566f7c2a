"""Make the output files of a modular file: text, origins of lines, notes, overrides and summary.

In: the linked modules.  Out: `FlatFile`s, or what is wrong with them.  Each output that follows a
parent comes with the *diff base*: the parent linked and formatted in the same way with nothing
declared, so that their diff shows the variant and nothing else.  The caller has the texts formatted
in between, together with those of other files (`format`).

    modular_llama_loss.py     modeling_llama_loss.py    the output
                              modeling_llama_loss.diff  what it changes in transformers' file
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.emit.linemap import map_lines
from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import BANNER, FlatFile, Flattened, Note, Override, Summary, UsedSymbol
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.gather import gather_contents
from patchgen.compiler.link.header import find_origins
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.link.unused import find_ancestors, find_unused
from patchgen.compiler.plan.declare import Declaration, ModulePlan
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.plan.prefixes import output_name
from patchgen.compiler.plan.words import is_edit, removed_name
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import Request, Unformatted
from patchgen.syntax.blocks import Block, Import, ModuleIndex, first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.locate import display_module
from patchgen.syntax.same import is_docstring
from patchgen.syntax.text import require_compilable
from patchgen.syntax.trees import find_class, parse_class

# A line of a docstring that begins with `from` may add a word that is no package.
_IMPORTED_PACKAGE = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Unfinished:
    """The outputs of a modular file, with the texts of `request`: (file, module, diff base)."""

    request: Request
    outputs: tuple[tuple[str, FlatModule, FlatModule | None], ...]
    builder: Builder


def assemble_outputs(
    modules: tuple[FlatModule, ...], builder: Builder, settings: Settings
) -> Unfinished:
    """The texts of every module and of its diff base, below a notice of where they come from."""
    plan = builder.plan
    bindings = builder.bindings
    modular = plan.modular.source
    # A modular file without statements: what it gives differs from the parent's file in layout and
    # imports only, which the diff then leaves out.
    empty = ModuleIndex(modular, (), "")
    outputs: list[tuple[str, FlatModule, FlatModule | None]] = []
    texts: dict[str, Unformatted] = {}
    beside = "; what was changed stands in the diff beside this file"
    for module in modules:
        name = output_name(modular.path.rpartition("/")[2], module.kind)
        base = None
        # Versions are in `patchgen.lock`.
        how = "Do not edit: edit that file and run `patchgen convert`."
        head = f"# {BANNER} {modular.path}. {how}\n"
        for parent in _list_parents(module, plan):
            where = beside if parent == module.base else ""
            head += f"# Modified from {display_module(parent)}{where}.\n"
        texts[name] = Unformatted(head + module.opening, module.body)
        if module.base is not None:
            parent_plan = ModulePlan(empty, (empty,), (), {module.kind: module.base}, {})
            plain = Builder(Naming(parent_plan, bindings), builder.lineages, builder.merge)
            builder.lend_to(plain)
            (content,) = gather_contents(plain)
            base = link_module(content, plain)
            texts[f"base_{name}"] = Unformatted(head + base.opening, base.body)
        outputs.append((name, module, base))
    imported: set[str] = set()
    for text in texts.values():
        imported.update(_IMPORTED_PACKAGE.findall(text.opening))
    # isort's first party: the packages of the project.
    own = filter(bindings.env.holds, sorted(imported))
    return Unfinished(Request(texts, settings, tuple(own)), tuple(outputs), builder)


def finish_outputs(unfinished: Unfinished, formatted: Mapping[str, str]) -> Flattened:
    """Map and validate the formatted text of every output."""
    builder = unfinished.builder
    files: list[FlatFile] = []
    blocks: list[FlatBlock] = []
    findings: list[Problem] = []
    overrides = find_overrides(builder)
    for name, module, base in unfinished.outputs:
        blocks += module.blocks
        files.append(_make_file(name, module, base, formatted, builder))
    for number, (_, module, _) in enumerate(unfinished.outputs):
        file = files[number]
        beside = [other.text for other in files if other is not file]
        notes = [*file.notes]
        for problem in _validate_file(file, beside, module, overrides, builder):
            if problem.severity == "note":
                notes.append(Note(problem.at, problem.what))
            else:
                findings.append(problem)
        files[number] = replace(file, notes=tuple(notes))
    findings += find_unused(blocks, builder)
    problems = tuple(problem for problem in findings if problem.severity != "warning")
    if problems:
        return Flattened((), problems)
    # Warnings are about the modular file; they are reported once, with its first output.
    if files:
        files[0] = replace(files[0], warnings=tuple(findings))
    alone = tuple(override for override in overrides if override.passed is None)
    return Flattened(tuple(files), overrides=alone)


def _make_file(
    name: str,
    module: FlatModule,
    base: FlatModule | None,
    formatted: Mapping[str, str],
    builder: Builder,
) -> FlatFile:
    plan = builder.plan
    blocks = module.blocks
    notes: list[Note] = []
    for block in blocks:
        notes += _find_notes(block, builder)
    notes += _find_left_out(module, builder)
    diff_base = None
    if module.base is not None and base is not None:
        blocks += base.blocks
        diff_base = (builder.index(module.base).source.path, formatted[f"base_{name}"])
    # What the modular file itself writes.
    own = []
    for block in module.blocks:
        if block.kind == "class" and block.rewritten[0].source.path == plan.modular.source.path:
            own.append(block.name)
    return FlatFile(
        kind=module.kind,
        name=name,
        text=formatted[name],
        parents=_find_used_symbols(blocks, plan.modular.source.module),
        map_lines=functools.partial(map_lines, formatted[name], module.blocks),
        notes=tuple(notes),
        summary=Summary(tuple(own), _list_parents(module, plan)),
        diff_base=diff_base,
    )


def _validate_file(
    file: FlatFile,
    beside: Sequence[str],
    module: FlatModule,
    overrides: tuple[Override, ...],
    builder: Builder,
) -> tuple[Problem, ...]:
    """What is wrong with an output.

    Raises PatchgenError PG006 where it does not compile because a source does not.
    """
    env = builder.bindings.env
    plan = builder.plan
    source = plan.modular.source
    # Where the modular file begins to declare what is in it.  A class that only names its parent
    # adds no line, but it is what made the output.
    classes = [each.at for each in plan.declarations if each.kind == module.kind]
    firsts = [block.rewritten[0] for block in module.blocks]
    declared = min(
        [at for at in classes if at.path == source.path]
        or [first.at(1, 0) for first in firsts if first.source.path == source.path],
        default=Location(source.path),
    )
    places = {"": declared, **_list_places(builder)}
    origins = {}
    for block in module.blocks:
        if block.kind == "class":
            origins[block.name] = (block.origin.module, block.origin.name)
    problems = validate(file, overrides, env, places, origins, beside)
    # A parent that Python itself refuses is not patchgen's mistake.
    if any(problem.code == "PG404" for problem in problems):
        for block in module.blocks:
            for rewritten in block.rewritten:
                require_compilable(rewritten.source)
    return problems


def _list_places(builder: Builder) -> dict[str, Location]:
    """Where the modular file declares each definition and each member, and imports each name."""
    modular = builder.plan.modular
    source = modular.source
    places: dict[str, Location] = {}
    for item in modular.imports:
        places[f"{item.module} {item.name}"] = source.at(item.line, item.column)
    for block in modular.blocks:
        places |= dict.fromkeys(block.defines, source.at(block.first))
        if block.kind != "class":
            continue
        node = parse_class(block.text)
        places[node.name] = source.at(block.first + node.lineno - 1, node.col_offset)
        for member in node.body:
            at = source.at(block.first + member.lineno - 1, member.col_offset)
            for name in bound_names([member]):
                places[f"{node.name}.{name}"] = at
            for decorator in getattr(member, "decorator_list", []):
                match decorator:
                    case ast.Call(args=[ast.Constant(value=str(edited)), *_]):
                        places.setdefault(f"{node.name}.{edited}", at)
    return places


def _find_notes(block: FlatBlock, builder: Builder) -> Iterator[Note]:
    name = block.name
    at = block.place
    for note in block.notes:
        yield Note(at, note)
    for parent in block.parents:
        own = builder.plan.declaration(Symbol(builder.plan.modular.source.module, parent.name))
        if own is None or own.symbol in (block.symbol, *block.parents):
            continue
        if parent in own.parents:
            changed = f"what {parent.name} of this file changes"
            yield Note(
                at, f"{name} is made of {parent}, without {changed}: derive from that for it"
            )
    # A class of a parent's name is its variant, as everybody expects.
    if block.kind == "class" or block.block_id.module not in builder.layers:
        return
    for module in builder.plan.parents:
        index = builder.index(module)
        old = index.definition(name) or index.imported(name)
        if isinstance(old, Import) or (old is not None and old.text != block.text):
            yield Note(at, f"{name} takes the place of {module}.{name}")


def _find_left_out(module: FlatModule, builder: Builder) -> Iterator[Note]:
    followed = [builder.index(module.base)] if module.base else []
    for index in (*builder.plan.layers, *followed):
        for block in index.blocks:
            if block.kind == "main":
                what = '`if __name__ == "__main__":` is left out: an import does not run it'
                yield Note(index.source.at(block.first), what)


def _list_parents(module: FlatModule, plan: ModulePlan) -> tuple[str, ...]:
    """The modules that an output was made from, the followed one first."""
    # Also where nothing of it is left: the output is its variant all the same.
    followed = [module.base] if module.base is not None else []
    return tuple(dict.fromkeys([*followed, *find_origins(module.blocks, plan)]))


def _find_used_symbols(blocks: Iterable[FlatBlock], own: str) -> tuple[UsedSymbol, ...]:
    """The definitions of modules beside `own` in `blocks`, with the digests of their texts."""
    used = set()
    for block in blocks:
        for rewritten in block.rewritten:
            if rewritten.symbol.module != own:
                # As it stands in its file: the rewritten block has other names.
                last = rewritten.first + rewritten.text.count("\n") - 1
                original = rewritten.source.slice(rewritten.first, last)
                digest = hashlib.sha256(original.encode()).hexdigest()
                symbol = display_module(str(rewritten.symbol))
                used.add(UsedSymbol(symbol, digest, rewritten.source.path))
    return tuple(sorted(used))


# Overrides


def find_overrides(builder: Builder) -> tuple[Override, ...]:
    """What the modular file overrides, and the text that its parents have in that place.

        modular file                         parent                           override

        class LlamaMLP(llama.LlamaMLP):      class LlamaMLP(nn.Module):       LlamaMLP.forward
            def forward(self, x):                def forward(self, x):
                return 2 * x                         return x

    The output has nothing of such a text, so a new release can change it without an effect on the
    output; but where an override asks its parent by `super()`, it has the parent's code in it.
    Edits, whose `with old:` has to match, and removals are not listed.
    """
    overrides: dict[str, Override] = {}
    for block in builder.plan.modular.blocks:
        if block.kind in ("def", "assign", "class"):
            for override in _overrides_of(block, builder):
                overrides.setdefault(override.name, override)
    return tuple(overrides.values())


def _overrides_of(block: Block, builder: Builder) -> Iterator[Override]:
    plan = builder.plan
    declaration = plan.declaration(Symbol(plan.modular.source.module, block.name))
    ancestors: tuple[Symbol, ...] = ()
    if declaration is not None:
        ancestors = find_ancestors(declaration, builder)
        if declaration.bases:
            yield from _overrides_in_class(block, declaration, ancestors, builder)
    # A class that derives from the parent of its name takes no place: it is that parent, changed.
    namesakes = {Symbol(module, block.name) for module in plan.parents}
    if block.is_of_exports or not namesakes.isdisjoint(ancestors):
        return
    for name in block.defines:
        parent = ""
        text = ""
        # The first parent module that has a definition counts.
        for module in plan.parents:
            definition = builder.index(module).definition(name)
            if definition is not None:
                parent = f"{display_module(module)}.{name}"
                text = definition.text
                break
        yield Override(plan.modular.source.at(block.first), name, parent, text)


def _overrides_in_class(
    block: Block, declaration: Declaration, ancestors: Sequence[Symbol], builder: Builder
) -> Iterator[Override]:
    """The members that a class writes anew, each with the parent's if there is one."""
    modular = builder.plan.modular
    bases = frozenset(base.expression for base in declaration.bases)
    definitions = []
    for symbol in ancestors:
        # Nothing is known of the classes of torch.
        if builder.lineages.direct_bases(symbol, Location(symbol.module)) is not None:
            definition = builder.index(symbol.module).definition(symbol.name)
            if definition is not None:
                definitions.append((symbol, definition))
    node = parse_class(block.text)
    for statement in node.body:
        # An edit matches the parent's text, and a removal needs none of it.
        is_removal = isinstance(statement, ast.Delete) or removed_name(statement) is not None
        is_rewrite = is_removal or is_edit(modular, statement, builder.bindings)
        if is_rewrite or is_docstring(statement):
            continue
        at = modular.source.at(block.first + statement.lineno - 1, statement.col_offset)
        for name in dict.fromkeys(bound_names([statement])):
            passed = _find_passed(statement, name, bases)
            for symbol, definition in definitions:
                text = read_member(definition.text, symbol.name, name)
                if text:
                    # What the modular file overrides of its own is under the eyes of its author.
                    if symbol.module != modular.source.module:
                        parent = f"{display_module(str(symbol))}.{name}"
                        yield Override(at, f"{node.name}.{name}", parent, text, passed)
                    break
            else:
                yield Override(at, f"{node.name}.{name}", passed=passed)


def _find_passed(statement: ast.stmt, name: str, bases: Iterable[str]) -> tuple[str, ...] | None:
    """What `statement` gives `super().name` or `Parent.name` by position; None without these."""
    passed = None
    inherited = f"super().{name}"
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute() as called, args=[_, *_] as arguments):
                if ast.unparse(called) == inherited:
                    return tuple(map(ast.unparse, arguments))
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=asked):
                passed = () if asked == name else passed
            case ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=asked):
                passed = () if asked == name and ast.unparse(owner) in bases else passed
    return passed


@functools.lru_cache(maxsize=2048)  # The next modular file has the same parents.
def read_member(text: str, owner: str, name: str) -> str:
    """The text of the statements that bind `name` in the body of the class `owner`, or ""."""
    lines = text.split("\n")
    member = ""
    node = find_class(text, owner)
    # A property and its setter are one member, and so are the overloads of a method.
    for statement in node.body if node else ():
        if name in bound_names([statement]):
            own = lines[first_line(statement) - 1 : statement.end_lineno]
            member += textwrap.dedent("\n".join(own) + "\n")
    return member

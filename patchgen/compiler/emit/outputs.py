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
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.emit.format import IMPORTED_PACKAGE, Request, Unformatted
from patchgen.compiler.emit.linemap import map_lines
from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import BANNER, FlatFile, Flattened, Note, Override, Summary, UsedSymbol
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.header import find_origins
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.link.unused import find_ancestors, find_unused
from patchgen.compiler.plan.declare import Declaration, ModulePlan, is_edit, removed_name
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.plan.prefixes import output_name
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import Block, ModuleIndex, first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.locate import display_module
from patchgen.syntax.same import is_docstring
from patchgen.syntax.text import require_compilable
from patchgen.syntax.trees import parse_class, parse_once


@dataclass(frozen=True)
class _Output:
    """A module with the name of its file, and its diff base if it follows a parent."""

    name: str
    module: FlatModule
    base: FlatModule | None


@dataclass(frozen=True)
class Unfinished:
    """The outputs of a modular file, whose texts, those of `request`, are to be formatted."""

    request: Request
    outputs: tuple[_Output, ...]
    builder: Builder


def assemble_outputs(
    modules: tuple[FlatModule, ...], builder: Builder, settings: Settings
) -> Unfinished:
    """The texts of every module and of its diff base."""
    modular = builder.naming.plan.modular.source.path.rpartition("/")[2]
    outputs: list[_Output] = []
    texts: dict[str, Unformatted] = {}
    for module in modules:
        name = output_name(modular, module.kind)
        outputs.append(_Output(name, module, _make_diff_base(module, builder)))
        texts |= _assemble_texts(outputs[-1], builder)
    imported = {name for text in texts.values() for name in IMPORTED_PACKAGE.findall(text.opening)}
    # isort's first party: the packages of the project.
    own = filter(builder.naming.bindings.env.holds, sorted(imported))
    return Unfinished(Request(texts, settings, tuple(own)), tuple(outputs), builder)


def finish_outputs(unfinished: Unfinished, formatted: Mapping[str, str]) -> Flattened:
    """Map and validate the formatted text of every output."""
    builder = unfinished.builder
    files: list[FlatFile] = []
    findings: list[Problem] = []
    overrides = find_overrides(builder)
    for output in unfinished.outputs:
        file = _make_file(output, formatted, builder)
        files.append(file)
        findings += _validate_file(file, output, overrides, builder)
    blocks = [block for output in unfinished.outputs for block in output.module.blocks]
    findings += find_unused(blocks, builder)
    warnings = [problem for problem in findings if problem.severity == "warning"]
    if len(warnings) < len(findings):
        problems = [problem for problem in findings if problem.severity != "warning"]
        return Flattened((), tuple(problems))
    # Warnings are about the modular file; they are reported once, with its first output.
    if files:
        files[0] = replace(files[0], warnings=tuple(warnings))
    return Flattened(tuple(files), overrides=overrides)


def _make_diff_base(module: FlatModule, builder: Builder) -> FlatModule | None:
    """The followed parent, linked with nothing declared."""
    if module.base is None:
        return None
    bindings = builder.naming.bindings
    # A modular file without statements: what it gives differs from the parent's file in layout and
    # imports only, which the diff then leaves out.
    empty = ModuleIndex(builder.naming.plan.modular.source, (), "")
    plan = ModulePlan(empty, (empty,), (), {module.kind: module.base}, {})
    plain = Builder(Naming(plan, bindings), builder.lineages, builder.merge)
    return link_module(module.kind, (), plain)


def _assemble_texts(output: _Output, builder: Builder) -> dict[str, Unformatted]:
    """The texts of an output and of its diff base, by name, below a notice of where they come from.

    Versions are in `patchgen.lock`.
    """
    plan, module = builder.naming.plan, output.module
    made_by = f"{BANNER} {plan.modular.source.path}."
    head = f"# {made_by} Do not edit: edit that file and run `patchgen convert`.\n"
    for parent in _list_parents(module, plan):
        is_followed = parent == module.base
        where = "; what was changed stands in the diff beside this file." if is_followed else "."
        head += f"# Modified from {display_module(parent)}{where}\n"
    texts = {output.name: Unformatted(head + module.opening, module.body)}
    if output.base is not None:
        texts[f"base_{output.name}"] = Unformatted(head + output.base.opening, output.base.body)
    return texts


def _make_file(output: _Output, formatted: Mapping[str, str], builder: Builder) -> FlatFile:
    """The output with everything that is known of its text."""
    module, text, plan = output.module, formatted[output.name], builder.naming.plan
    notes = []
    for block in module.blocks:
        notes += [Note(block.rewritten[0].at(1, 0), note) for note in _find_notes(block, builder)]
    blocks = list(module.blocks)
    diff_base = None
    if module.base is not None and output.base is not None:
        blocks += output.base.blocks
        parent = builder.index(module.base).source.path
        diff_base = (parent, formatted[f"base_{output.name}"])
    # What the modular file itself writes.
    own = [
        block.name
        for block in module.blocks
        if block.kind == "class" and block.rewritten[0].source.path == plan.modular.source.path
    ]
    return FlatFile(
        kind=module.kind,
        name=output.name,
        text=text,
        parents=_find_used_symbols(blocks, builder),
        lines=map_lines(text, module.blocks),
        notes=tuple(notes),
        summary=Summary(tuple(own), _list_parents(module, plan)),
        diff_base=diff_base,
    )


def _validate_file(
    file: FlatFile, output: _Output, overrides: tuple[Override, ...], builder: Builder
) -> tuple[Problem, ...]:
    """What is wrong with an output.

    Raises PatchgenError PG006 where it does not compile because a source does not.
    """
    base = None
    if file.diff_base is not None:
        _, base = file.diff_base
    declared = _find_declaration(output.module, builder)
    env, modular = builder.naming.bindings.env, builder.naming.plan.modular
    imports = {
        (item.module, item.name): modular.source.at(item.line, item.column)
        for item in modular.imports
    }
    problems = validate(file.name, file.text, file.lines, declared, overrides, env, base, imports)
    # A parent that Python itself refuses is not patchgen's mistake.
    if any(problem.code == "PG404" for problem in problems):
        for block in output.module.blocks:
            for rewritten in block.rewritten:
                require_compilable(rewritten.source)
    return problems


def _find_declaration(module: FlatModule, builder: Builder) -> Location:
    """Where the modular file begins to declare what is in `module`, else the whole file."""
    plan = builder.naming.plan
    own = plan.modular.source.path
    # A class that only names its parent adds no line, but it is what made the output.
    places = [each.at for each in plan.declarations if each.kind == module.kind]
    declared = [at for at in places if at.path == own]
    if declared:
        return min(declared)
    carried: list[Location] = []
    for block in module.blocks:
        rewritten = block.rewritten[0]
        if rewritten.source.path == own:
            carried.append(rewritten.at(1, 0))
    return min(carried, default=Location(own))


def _find_notes(block: FlatBlock, builder: Builder) -> Iterator[str]:
    """What a reader should know of one block."""
    yield from block.notes
    # A class of a parent's name is its variant, as everybody expects.
    if block.kind != "class" and block.block_id.module in builder.layers:
        for module in builder.naming.plan.parents:
            old = builder.index(module).definition(block.name)
            if old is not None and old.text != block.text:
                yield f"{block.name} takes the place of {module}.{block.name}"


def _list_parents(module: FlatModule, plan: ModulePlan) -> tuple[str, ...]:
    """The modules that an output was made from, the followed one first."""
    origins = find_origins(module.blocks, plan)
    if module.base is None:
        return origins
    # Also where nothing of it is left: the output is its variant all the same.
    return tuple(dict.fromkeys([module.base, *origins]))


def _find_used_symbols(blocks: Iterable[FlatBlock], builder: Builder) -> tuple[UsedSymbol, ...]:
    """The definitions of other modules in `blocks`, with the digests of their texts."""
    own = builder.naming.plan.modular.source.module
    found = set()
    for block in blocks:
        for rewritten in block.rewritten:
            if rewritten.symbol.module == own:
                continue
            # As it stands in its file: the rewritten block has other names.
            last = rewritten.first + rewritten.text.count("\n") - 1
            original = rewritten.source.slice(rewritten.first, last)
            digest = hashlib.sha256(original.encode()).hexdigest()
            found.add(
                UsedSymbol(display_module(str(rewritten.symbol)), digest, rewritten.source.path)
            )
    return tuple(sorted(found))


# Overrides


def find_overrides(builder: Builder) -> tuple[Override, ...]:
    """What the modular file overrides, and the text that its parents have in that place.

        modular file                         parent                           override

        class LlamaMLP(llama.LlamaMLP):      class LlamaMLP(nn.Module):       LlamaMLP.forward
            def forward(self, x):                def forward(self, x):
                return 2 * x                         return x

    The output has nothing of such a text, so a new release can change it without an effect on the
    output.  An override that asks its parent by `super()` has the parent's code in it and is not
    listed; neither are edits, whose `with old:` has to match, and removals.
    """
    found: dict[str, Override] = {}
    for block in builder.naming.plan.modular.blocks:
        if block.kind in ("def", "assign", "class"):
            for override in _overrides_of(block, builder):
                found.setdefault(override.name, override)
    return tuple(found.values())


def _overrides_of(block: Block, builder: Builder) -> Iterator[Override]:
    """What one statement of the modular file overrides."""
    plan = builder.naming.plan
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
        parent, text = "", ""
        # The first parent module that has a definition counts.
        for module in plan.parents:
            definition = builder.index(module).definition(name)
            if definition is not None:
                parent, text = f"{display_module(module)}.{name}", definition.text
                break
        yield Override(plan.modular.source.at(block.first), name, parent, text)


def _overrides_in_class(
    block: Block, declaration: Declaration, ancestors: Sequence[Symbol], builder: Builder
) -> Iterator[Override]:
    """The members that a class writes anew, each with the parent's if there is one."""
    modular = builder.naming.plan.modular
    bases = frozenset(base.expression for base in declaration.bases)
    node = parse_class(block.text)
    for statement in node.body:
        # An edit matches the parent's text, and a removal needs none of it.
        is_removal = isinstance(statement, ast.Delete) or removed_name(statement) is not None
        is_rewrite = is_removal or is_edit(modular, statement, builder.naming.bindings)
        if is_rewrite or is_docstring(statement):
            continue
        at = modular.source.at(block.first + statement.lineno - 1, statement.col_offset)
        for name in dict.fromkeys(bound_names([statement])):
            if _asks_parent(statement, name, bases):
                continue
            owner, text = _find_member(name, ancestors, builder)
            if owner is None:
                yield Override(at, f"{node.name}.{name}")
            # What the modular file overrides of its own is under the eyes of its author.
            elif owner.module != modular.source.module:
                parent = f"{display_module(str(owner))}.{name}"
                yield Override(at, f"{node.name}.{name}", parent, text)


def _asks_parent(statement: ast.stmt, name: str, bases: Iterable[str]) -> bool:
    """Whether `super().name` or `Parent.name` stands anywhere in `statement`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute) or node.attr != name:
            continue
        match node.value:
            case ast.Call(func=ast.Name(id="super")):
                return True
            case ast.Name() | ast.Attribute() if ast.unparse(node.value) in bases:
                return True
    return False


def _find_member(
    name: str, ancestors: Sequence[Symbol], builder: Builder
) -> tuple[Symbol | None, str]:
    """The nearest class that has a member of that name, and the member's text."""
    for symbol in ancestors:
        # Nothing is known of the classes of torch.
        if builder.lineages.direct_bases(symbol, Location(symbol.module)) is None:
            continue
        definition = builder.index(symbol.module).definition(symbol.name)
        if definition is None:
            continue
        member = read_member(definition.text, symbol.name, name)
        if member:
            return symbol, member
    return None, ""


def read_member(text: str, owner: str, name: str) -> str:
    """The text of the statements that bind `name` in the body of the class `owner`, or ""."""
    lines = text.split("\n")
    # A property and its setter are one member, and so are the overloads of a method.
    found = ["\n".join(lines[each]) for each in _find_members(text, owner).get(name, ())]
    return "".join(textwrap.dedent(f"{statement}\n") for statement in found)


@functools.lru_cache(maxsize=512)  # The next modular file has the same parents.
def _find_members(text: str, owner: str) -> Mapping[str, Sequence[slice]]:
    """The lines of the statements of a class body by the names that they bind."""
    members: dict[str, list[slice]] = {}
    for node in parse_once(text).body:
        if not isinstance(node, ast.ClassDef) or node.name != owner:
            continue
        for statement in node.body:
            own = slice(first_line(statement) - 1, statement.end_lineno)
            for bound in dict.fromkeys(bound_names([statement])):
                members.setdefault(bound, []).append(own)
    return members

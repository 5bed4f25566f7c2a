"""Make the output files of a modular file: text, origins of lines, notes and summary.

In: the linked modules.  Out: `FlatFile`s, or what is wrong with them.  Each output that follows a
parent comes with the *diff base*: the parent linked and formatted in the same way with nothing
declared, so that their diff shows the variant and nothing else.  The caller has the texts formatted
in between, together with those of other files (`format`).

    modular_llama_loss.py     modeling_llama_loss.py    the output
                              modeling_llama_loss.diff  what it changes in transformers' file
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from patchgen.compiler.emit.banner import banner
from patchgen.compiler.emit.format import Request, Unformatted, imported_packages
from patchgen.compiler.emit.linemap import map_lines
from patchgen.compiler.emit.overrides import find_overrides
from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import FlatFile, Flattened, Note, Override, Summary, UsedSymbol
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.header import find_origins
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.link.unused import find_unused
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.compiler.plan.kinds import output_name
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.locate import display_module
from patchgen.syntax.text import require_compilable


@dataclass(frozen=True)
class _Output:
    """A module with the name of its file, and its diff base if it follows a parent."""

    name: str
    module: FlatModule
    base: FlatModule | None

    @property
    def base_name(self) -> str:
        """The name of the diff base for the formatter."""
        return f"base_{self.name}"


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
    own = _find_own_packages([text.opening for text in texts.values()], builder)
    return Unfinished(Request(texts, settings, own), tuple(outputs), builder)


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
    """The texts of an output and of its diff base, by name."""
    plan, module = builder.naming.plan, output.module
    parents = [display_module(parent) for parent in _list_parents(module, plan)]
    followed = display_module(module.base) if module.base else None
    head = banner(plan.modular.source.path, parents, followed)
    texts = {output.name: Unformatted(head + module.opening, module.body)}
    if output.base is not None:
        texts[output.base_name] = Unformatted(head + output.base.opening, output.base.body)
    return texts


def _find_own_packages(texts: Iterable[str], builder: Builder) -> tuple[str, ...]:
    """The top-level packages of the project that `texts` import: isort's first party."""
    packages: set[str] = set()
    for text in texts:
        packages |= imported_packages(text)
    env = builder.naming.bindings.env
    return tuple(sorted(package for package in packages if env.holds(package)))


def _make_file(output: _Output, formatted: Mapping[str, str], builder: Builder) -> FlatFile:
    """The output with everything that is known of its text."""
    module, text = output.module, formatted[output.name]
    notes = []
    for block in module.blocks:
        notes += [Note(block.rewritten[0].at(1, 0), note) for note in _find_notes(block, builder)]
    blocks = list(module.blocks)
    diff_base = None
    if module.base is not None and output.base is not None:
        blocks += output.base.blocks
        parent = builder.index(module.base).source.path
        diff_base = (parent, formatted[output.base_name])
    return FlatFile(
        kind=module.kind,
        name=output.name,
        text=text,
        parents=_find_used_symbols(blocks, builder),
        lines=map_lines(text, module.blocks),
        notes=tuple(notes),
        summary=_summarize(module, builder),
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
    yield from _note_replacement(block, builder)


def _note_replacement(block: FlatBlock, builder: Builder) -> Iterator[str]:
    """A note where a function or constant of a modular file replaces a parent's of its name."""
    is_declared = block.block_id.module in builder.layers
    # A class of a parent's name is its variant, as everybody expects.
    if block.kind == "class" or not is_declared:
        return
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


def _summarize(module: FlatModule, builder: Builder) -> Summary:
    """What the modular file changes in an output, and what it was made from."""
    plan = builder.naming.plan
    own = plan.modular.source.path
    changed = []
    classes = [block for block in module.blocks if block.kind == "class"]
    for block in classes:
        if block.rewritten[0].source.path == own:
            changed.append(block.name)
    return Summary(tuple(changed), _list_parents(module, plan))

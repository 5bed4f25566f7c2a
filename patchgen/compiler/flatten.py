"""The whole way of one modular file, on one page: index, plan, rewrite, link, emit.

Nothing is written and nothing is imported; `project` decides where the result goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.compiler.emit.banner import banner
from patchgen.compiler.emit.format import Unformatted, format_texts, imported_packages
from patchgen.compiler.emit.linemap import map_lines
from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import FlatFile, Flattened, Note, Section, Summary, UsedSymbol
from patchgen.compiler.link.conflicts import find_conflicts
from patchgen.compiler.link.flatblock import Builder, FlatBlock, Merge
from patchgen.compiler.link.future_annotations import has_annotations, has_future_annotations
from patchgen.compiler.link.gather import list_kinds
from patchgen.compiler.link.header import find_origins
from patchgen.compiler.link.identity import find_observed_merges
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.link.module_state import note_module_state
from patchgen.compiler.link.order import OrderError
from patchgen.compiler.link.unused import find_unused_classes
from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.declare import Declaration, ModulePlan, make_plan
from patchgen.compiler.plan.flatten_scope import FlattenScope
from patchgen.compiler.plan.kinds import output_name
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.loose import find_loose_statement
from patchgen.compiler.plan.model import ClassPlan, MergedClass, Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.settings import Settings
from patchgen.errors import Location, PatchgenError, Problem, Refusals, pointed_at, problems_of
from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.locate import Environment, shown_module
from patchgen.syntax.text import read_source, require_compilable

# Refusals of what no one class body can hold.  A subclass needs no one body.
ONLY_MERGED = frozenset(
    {"PG124", "PG201", "PG202", "PG210", "PG211", "PG212", "PG213", "PG214"}
    | {"PG220", "PG221", "PG222", "PG223", "PG224", "PG225", "PG240", "PG241"}
)


def flatten(path: Path, env: Environment, settings: Settings) -> Flattened:
    """The outputs of the modular file at `path`, or its problems."""
    try:
        with _lines_shown(path, env):
            linked = _linked(path, env, settings)
            return _emit(linked.modules, linked.builder, settings)
    except PatchgenError as error:
        return Flattened(problems=problems_of(error))


@contextmanager
def _lines_shown(path: Path, env: Environment) -> Iterator[None]:
    """What is not Python is shown with its line, in the modular file at `path` and in what it derives from."""
    try:
        yield
    except PatchgenError as error:
        problems = problems_of(error)
        if not any(map(_is_syntax, problems)):
            raise
        raise Refusals(
            _with_line(p, path, env) if _is_syntax(p) else p for p in problems
        ) from error


def _is_syntax(problem: Problem) -> bool:
    return problem.code == "PG006" and problem.what.startswith("is not valid Python")


def _with_line(problem: Problem, path: Path, env: Environment) -> Problem:
    own = env.shown(path.parent.resolve() / path.name) == problem.at.path
    places = [path] if own else [root / problem.at.path for root in env.roots]
    file = next((place for place in places if env.look("file", str(place))), None)
    if file is None:
        return problem
    lines = read_source(file, allow_bidi=env.allow_bidi).lines
    # An error at the end of the file has a line of its own.
    return pointed_at(
        problem, lines[problem.at.line - 1].rstrip("\n") if problem.at.line <= len(lines) else ""
    )


@dataclass(frozen=True)
class _Linked:
    """What linking a modular file gave; `texts` are those of its classes after each pass, by "CLASS: after PASS"."""

    builder: Builder
    modules: tuple[FlatModule, ...]
    texts: Mapping[str, str]


def _linked(path: Path, env: Environment, settings: Settings) -> _Linked:
    """The outputs of the modular file at `path`.

    Every class is merged with its parents first.  Those of which that turns out to be seen stay subclasses, and all
    is made again: what stands in the outputs depends on it.
    """
    kept: dict[Symbol, str] = {}
    while True:
        texts: dict[str, str] = {}
        builder = _builder(path, env, settings, _merging(settings, texts), kept)
        found = _merge_all(builder)
        if not found:
            try:
                builder, modules = _spelled(builder)
            except OrderError as error:
                found = _in_places_of_their_own(error, builder)
                if not found:
                    raise
            else:
                found = find_observed_merges(
                    [block for module in modules for block in module.blocks], builder
                )
                if not found:
                    return _Linked(builder, modules, texts)
        kept |= found


def _in_places_of_their_own(error: OrderError, builder: Builder) -> dict[Symbol, str]:
    """The merged classes for which no one place is right, if they can stay subclasses."""
    declarations = [builder.naming.plan.declaration(symbol) for symbol in error.merged]
    why = "no one place in the file is right for it and for its parent"
    return {d.symbol: why for d in declarations if d is not None and d.is_merged and not d.rewrites}


def _builder(
    path: Path, env: Environment, settings: Settings, merge: Merge, kept: Mapping[Symbol, str]
) -> Builder:
    path = path.parent.resolve() / path.name  # a link is called by its own name
    module = env.module_of(path)
    source = read_source(path, module, env.shown(path), allow_bidi=env.allow_bidi)
    modular = index(source)
    try:
        require_compilable(source)
    except PatchgenError as error:
        raise find_loose_statement(source) or error from error
    bindings = Bindings(env, FlattenScope(module.partition(".")[0], settings.flatten))
    plan = make_plan(modular, bindings, kept)
    return Builder(Naming(plan, bindings), Lineages(bindings), merge)


def _merging(settings: Settings, texts: dict[str, str]) -> Merge:
    """How a class is merged; `texts` gets what the class is after each pass; if it is merged twice, the last time."""

    def merged(plan: ClassPlan) -> MergedClass:
        from patchgen.compiler.merge.merge import merge_class  # loaded only where a class is merged

        def note(step: str, text: str) -> None:
            texts[f"{plan.name}: after {step}"] = text

        return merge_class(plan, note, settings.decorators)

    return merged


def _merge_all(builder: Builder) -> dict[Symbol, str]:
    """Merge every declared class; those that no one body can hold are given back, with the reason.

    Raises Refusals with what is wrong with each of the others, so that one run reports all of it.
    """
    problems: list[Problem] = list(find_conflicts(builder))
    separate: dict[Symbol, str] = {}
    for declaration in builder.naming.plan.declarations:
        for unit in builder.units(declaration.symbol):
            try:
                builder.block(unit)
            except PatchgenError as error:
                found = problems_of(error)
                others = [problem for problem in found if problem.code not in ONLY_MERGED]
                if others or not declaration.is_merged:
                    problems += others or found
                elif declaration.rewrites:
                    problems += [_unless_rewritten(problem, declaration) for problem in found]
                else:
                    separate.setdefault(declaration.symbol, found[0].what)
    if problems:
        raise Refusals(problems)
    return separate


def _unless_rewritten(problem: Problem, declaration: Declaration) -> Problem:
    """`problem`, which the class would not have if it could stay a subclass."""
    name = declaration.symbol.name
    way_out = f"{name} would stay a subclass if it did not edit or remove what it inherits"
    return replace(problem, hint=f"{problem.hint}; {way_out}" if problem.hint else way_out)


def _spelled(builder: Builder) -> tuple[Builder, tuple[FlatModule, ...]]:
    """Every module, and the builder that made them: annotations are the strings or values that they are at home."""
    modules = _link_all(builder)
    if any(_mixes_annotations(module, builder) for module in modules):
        builder = replace(builder, spells=True, _made={})
        modules = _link_all(builder)
    return builder, modules


def _mixes_annotations(module: FlatModule, builder: Builder) -> bool:
    """Whether `from __future__ import annotations` of one file would make strings of another file's annotations."""
    pieces = [piece for block in module.blocks for piece in block.pieces]
    eager = [
        piece for piece in pieces if not has_future_annotations(builder.index(piece.symbol.module))
    ]
    return len(eager) < len(pieces) and any(has_annotations(piece.text) for piece in eager)


def _link_all(builder: Builder) -> tuple[FlatModule, ...]:
    """The module of every kind that is declared, and of those that they import from in turn."""
    requested: dict[str, tuple[Symbol, ...]] = dict.fromkeys(list_kinds(builder), ())
    while True:
        modules = tuple(link_module(kind, symbols, builder) for kind, symbols in requested.items())
        wanted = dict(requested)
        for kind, symbol in (request for module in modules for request in module.requests):
            if symbol not in wanted.get(kind, ()):
                wanted[kind] = (*wanted.get(kind, ()), symbol)
        if wanted == requested:
            return modules
        requested = wanted


def _emit(modules: tuple[FlatModule, ...], builder: Builder, settings: Settings) -> Flattened:
    modular = builder.naming.plan.modular.source
    texts: dict[str, Unformatted] = {}
    comparable: dict[str, FlatModule] = {}
    for module in modules:
        name = output_name(modular.path.rpartition("/")[2], module.kind)
        parents = [shown_module(parent) for parent in _parents(module, builder.naming.plan)]
        head = banner(modular.path, parents, shown_module(module.base) if module.base else None)
        texts[name] = Unformatted(head + module.opening, module.body)
        if module.base is not None:
            plain = comparable[name] = _comparable(module, builder)
            texts[f"base_{name}"] = Unformatted(head + plain.opening, plain.body)
    formatted = format_texts(
        texts, settings, _own_packages([text.opening for text in texts.values()], builder)
    )
    warnings = tuple(
        find_unused_classes([block for module in modules for block in module.blocks], builder)
    )
    names = [name for name in texts if not name.startswith("base_")]
    files: list[FlatFile] = []
    problems: list[Problem] = []
    for module, name in zip(modules, names, strict=True):
        base = (comparable[name], formatted[f"base_{name}"]) if name in comparable else None
        file, found = _file(module, name, formatted[name], base, builder)
        files.append(file)
        problems += found
    files[:1] = [replace(file, warnings=warnings) for file in files[:1]]
    return Flattened(() if problems else tuple(files), tuple(problems))


def _own_packages(texts: Iterable[str], builder: Builder) -> list[str]:
    """The top-level packages that `texts` import and that the project holds: isort's first party."""
    tops = {top for text in texts for top in imported_packages(text)}
    return sorted(top for top in tops if builder.naming.bindings.env.holds(top))


def _file(
    module: FlatModule, name: str, text: str, base: tuple[FlatModule, str] | None, builder: Builder
) -> tuple[FlatFile, tuple[Problem, ...]]:
    """The output `name` and what is wrong with it; `base` is the parent made comparable, and its text formatted."""
    lines = map_lines(text, module.blocks)
    notes = tuple(
        Note(b.pieces[0].at(1, 0), note)
        for b in module.blocks
        for note in (*b.notes, *_replaces(b, builder), *_elsewhere(b, builder))
    )
    shown = builder.index(module.base).source.path if module.base else ""
    summary = _summary(module, builder)
    file = FlatFile(
        module.kind,
        name,
        text,
        _used([*module.blocks, *(base[0].blocks if base else ())], builder),
        lines,
        notes,
        summary,
        (shown, base[1]) if base else None,
    )
    problems = validate(name, text, lines, _declared_at(module, builder), base[1] if base else None)
    if any(problem.code == "PG404" for problem in problems):
        for source in {
            piece.source.path: piece.source for b in module.blocks for piece in b.pieces
        }.values():
            require_compilable(source)  # then it is no fault of ours
    return file, problems


def _declared_at(module: FlatModule, builder: Builder) -> Location:
    """Where the modular file begins to say what is in `module`; the whole file where it says nothing itself."""
    own = builder.naming.plan.modular.source.path
    # A class that only names its parent adds no line, but it is what made the output.
    declared = [
        d.at for d in builder.naming.plan.declarations if d.kind == module.kind and d.at.path == own
    ]
    carried = [b.pieces[0].at(1, 0) for b in module.blocks if b.pieces[0].source.path == own]
    return min(declared or carried, default=Location(own))


def _elsewhere(block: FlatBlock, builder: Builder) -> Iterator[str]:
    """Notes on code of transformers that reads its own file's path or names."""
    for piece in block.pieces:
        if piece.symbol.module.startswith("transformers."):
            blocks = (
                b for b in builder.index(piece.symbol.module).blocks if b.first == piece.first
            )
            yield from (note for source in blocks for note in note_module_state(source))


def _replaces(block: FlatBlock, builder: Builder) -> tuple[str, ...]:
    """A note where a function or constant of the modular file takes the place of a parent's of the same name."""
    plan = builder.naming.plan
    if block.kind == "class" or block.unit.module not in {
        layer.source.module for layer in plan.layers
    }:
        return ()
    replaced = [
        (m, old)
        for m in plan.parents
        if (old := builder.index(m).definition(block.name)) is not None
    ]
    return tuple(
        f"{block.name} takes the place of {m}.{block.name}"
        for m, old in replaced
        if old.text != block.text
    )


def _comparable(module: FlatModule, builder: Builder) -> FlatModule:
    """The followed parent through the same door with nothing declared."""
    assert module.base is not None
    bindings = builder.naming.bindings
    empty = ModuleIndex(builder.naming.plan.modular.source, (), "")
    plan = ModulePlan(empty, (empty,), (), {module.kind: module.base}, {})
    plain = Builder(Naming(plan, bindings), Lineages(bindings), builder.merge, builder.spells)
    return link_module(module.kind, (), plain)


def _parents(module: FlatModule, plan: ModulePlan) -> tuple[str, ...]:
    first = [module.base] if module.base else []
    return tuple(dict.fromkeys([*first, *find_origins(module.blocks, plan)]))


def _used(blocks: Iterable[FlatBlock], builder: Builder) -> tuple[UsedSymbol, ...]:
    """The parents' definitions in `blocks`: those of an output, and those that its diff compares it with."""
    own = builder.naming.plan.modular.source.module
    found = set()
    for block in blocks:
        for piece in block.pieces:
            if piece.symbol.module == own:
                continue
            original = piece.source.slice(piece.first, piece.first + piece.text.count("\n") - 1)
            digest = hashlib.sha256(original.encode()).hexdigest()
            found.add(UsedSymbol(shown_module(str(piece.symbol)), digest, piece.source.path))
    return tuple(sorted(found))


def _summary(module: FlatModule, builder: Builder) -> Summary:
    plan = builder.naming.plan
    own = plan.modular.source
    changed = [
        b.name for b in module.blocks if b.kind == "class" and b.pieces[0].source.path == own.path
    ]
    return Summary(tuple(changed), _parents(module, plan))


def explain(path: Path, env: Environment, settings: Settings) -> tuple[Section, ...]:
    """The plan of a modular file and the text of each class after each pass.

    Raises PatchgenError with what `flatten` would report.
    """
    with _lines_shown(path, env):
        linked = _linked(path, env, settings)
        passes = (Section(title, text) for title, text in linked.texts.items())
        outlines = (
            Section(f"{m.kind}: the blocks in order", _outline(m.blocks)) for m in linked.modules
        )
        return (Section("plan", _outline_plan(linked.builder.naming.plan)), *passes, *outlines)


def _outline_plan(plan: ModulePlan) -> str:
    lines = [f"{kind} follows {module}" for kind, module in plan.bases.items()]
    for module, prefix in plan.prefixes.items():
        lines.append(f"{module}: {prefix}" if prefix else f"{module}: names kept")
    for d in plan.declarations:
        bases = ", ".join(map(str, d.rest))
        if d.why:
            lines.append(f"class {d.symbol.name} stays a subclass of {bases}: {d.why}")
        else:
            lines.append(
                f"class {d.symbol.name} = {' + '.join(str(s) for s in d.chain)}; bases {bases}"
            )
    return "\n".join(lines) + "\n"


def _outline(blocks: tuple[FlatBlock, ...]) -> str:
    rows = [
        f"{b.kind:7} {b.name or '-':40} {' + '.join(dict.fromkeys(p.source.path for p in b.pieces))}"
        for b in blocks
    ]
    return "\n".join(rows) + "\n"

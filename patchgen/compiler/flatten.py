"""Flatten one modular file: the whole way on one page.

    read      the file and its imports               syntax
    plan      what it declares, and what it follows  plan
    merge     each class with its parents            merge
    link      blocks, imports and their order        link
    emit      formatted and validated text           emit

Nothing is written and nothing is imported; `project` decides where the result goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchgen.compiler.emit.format import Request, format_texts
from patchgen.compiler.emit.outputs import assemble_outputs, finish_outputs
from patchgen.compiler.flat import Flattened, Section
from patchgen.compiler.link.flatblock import Builder, FlatBlock, Merge
from patchgen.compiler.link.module import FlatModule, Kept, link_modules
from patchgen.compiler.plan.bindings import Bindings, FlattenScope
from patchgen.compiler.plan.declare import Declaration, ModulePlan, make_plan
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import ClassPlan, EditMatch, MergedClass
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import index
from patchgen.syntax.errors import PatchgenError, Problem, Refusals, point_at, problems_of
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import read_source, require_compilable


@dataclass(frozen=True)
class Draft:
    """A linked modular file: `finish` makes its outputs of the formatted texts of `request`.

    It raises PatchgenError where they cannot be.
    """

    request: Request
    finish: Callable[[Mapping[str, str]], Flattened]


def make_draft(path: Path, env: Environment, settings: Settings) -> Draft:
    """The draft of the modular file at `path`.

    Raises PatchgenError with its problems.
    """
    with _quote_syntax_errors(path, env):
        return _draft(_link(path, env, settings), path, env, settings)


def flatten(path: Path, env: Environment, settings: Settings) -> Flattened:
    """The outputs of the modular file at `path`, or its problems."""
    try:
        return _finish(make_draft(path, env, settings))
    except PatchgenError as error:
        return Flattened(problems=problems_of(error))


@dataclass(frozen=True)
class Traced:
    """The outputs of a modular file, and what each of its edits matched."""

    result: Flattened
    edits: tuple[EditMatch, ...] = ()


def trace(path: Path, env: Environment, settings: Settings) -> Traced:
    """What `flatten` gives, with what each edit matched."""
    try:
        with _quote_syntax_errors(path, env):
            steps = _link(path, env, settings)
            result = _finish(_draft(steps, path, env, settings))
    except PatchgenError as error:
        return Traced(Flattened(problems=problems_of(error)))
    matches = [match for each in steps.merged.values() for match in each.edits]
    return Traced(result, tuple(matches))


def _draft(steps: _Steps, path: Path, env: Environment, settings: Settings) -> Draft:
    unfinished = assemble_outputs(steps.modules, steps.builder, settings)

    def finish(formatted: Mapping[str, str]) -> Flattened:
        with _quote_syntax_errors(path, env):
            return finish_outputs(unfinished, formatted)

    return Draft(unfinished.request, finish)


def _finish(draft: Draft) -> Flattened:
    request = draft.request
    return draft.finish(format_texts(request.texts, request.settings, request.own))


def explain(path: Path, env: Environment, settings: Settings) -> tuple[Section, ...]:
    """The plan of a modular file, the text of each class after each pass, and the modules.

    Raises PatchgenError with what `flatten` would report.
    """
    with _quote_syntax_errors(path, env):
        steps = _link(path, env, settings)
    sections = [Section("plan", _outline_plan(steps.builder.naming.plan))]
    sections += [Section(title, text) for title, text in steps.texts.items()]
    for module in steps.modules:
        passes = "".join(f"{name:8} {left}\n" for name, left in module.passes)
        sections.append(Section(f"{module.kind}: after each pass", passes))
        blocks = _outline_blocks(module.blocks)
        sections.append(Section(f"{module.kind}: the blocks in order", blocks))
    return tuple(sections)


@dataclass(frozen=True)
class _Steps:
    """A linked modular file.

    `texts` are those of its classes, by "CLASS: after PASS", and `merged` its classes by name.
    """

    builder: Builder
    modules: tuple[FlatModule, ...]
    texts: Mapping[str, str]
    merged: Mapping[str, MergedClass]


def _link(path: Path, env: Environment, settings: Settings) -> _Steps:
    """Plan, merge and link the modular file at `path`."""
    texts: dict[str, str] = {}
    merged: dict[str, MergedClass] = {}

    def make_builder(kept: Kept) -> Builder:
        # Linking may start again with other classes kept; only the last texts count.
        texts.clear()
        merged.clear()
        return _make_builder(path, env, settings, _make_merge(settings, texts, merged), kept)

    linked = link_modules(make_builder)
    return _Steps(linked.builder, linked.modules, texts, merged)


def _make_builder(
    path: Path, env: Environment, settings: Settings, merge: Merge, kept: Kept
) -> Builder:
    """Read and plan the modular file; `kept` are the classes that stay subclasses."""
    path = path.parent.resolve() / path.name  # a link is called by its own name
    module = env.module_of(path)
    source = read_source(path, module, env.display_path(path), allow_bidi=env.allow_bidi)
    modular = index(source)
    try:
        require_compilable(source)
    except PatchgenError as error:
        raise _explain_edit(error) from error
    bindings = Bindings(env, FlattenScope(module.partition(".")[0], settings.flatten))
    plan = make_plan(modular, bindings, kept, [name for name, _ in settings.decorators])
    return Builder(Naming(plan, bindings), Lineages(bindings), merge)


def _explain_edit(error: PatchgenError) -> PatchgenError:
    """`error` with the way to write what an edit may only have inside a loop or a coroutine."""
    problem = error.problem
    hint = problem.hint
    if "loop" in problem.what:
        hint = "an edit has to include the loop; `while ...:` stands for any loop around its parts"
    elif "async" in problem.what:
        hint = "an edit that waits is an `async def`"
    return PatchgenError(problem.code, problem.at, problem.what, hint)


def _make_merge(settings: Settings, texts: dict[str, str], merged: dict[str, MergedClass]) -> Merge:
    """The function that merges a class.

    It stores the text after each pass in `texts`, and the class in `merged`.
    """

    def merge(plan: ClassPlan) -> MergedClass:
        from patchgen.compiler.merge.merge import merge_class  # loaded only where a class is merged

        def note(step: str, text: str) -> None:
            texts[f"{plan.name}: after {step}"] = text

        merged[plan.name] = merge_class(plan, note, settings.decorators)
        return merged[plan.name]

    return merge


# Errors of syntax


@contextmanager
def _quote_syntax_errors(path: Path, env: Environment) -> Iterator[None]:
    """Show what is not Python with its line, in the modular file and in what it derives from."""
    try:
        yield
    except PatchgenError as error:
        problems = problems_of(error)
        if not any(_is_syntax_error(problem) for problem in problems):
            raise
        quoted = [
            _quote_line(problem, path, env) if _is_syntax_error(problem) else problem
            for problem in problems
        ]
        raise Refusals(quoted) from error


def _is_syntax_error(problem: Problem) -> bool:
    """Whether a problem is an error of syntax, which has a line to show."""
    return problem.code == "PG006" and problem.what.startswith("is not valid Python")


def _quote_line(problem: Problem, path: Path, env: Environment) -> Problem:
    """`problem` with the line of the file that it is about, and a mark below it."""
    file = _find_file(problem, path, env)
    if file is None:
        return problem
    lines = read_source(file, allow_bidi=env.allow_bidi).lines
    number = problem.at.line
    line = ""
    # An error at the end of the file is reported on the line behind the last one.
    if number <= len(lines):
        line = lines[number - 1].rstrip("\n")
    return point_at(problem, line)


def _find_file(problem: Problem, path: Path, env: Environment) -> Path | None:
    """The file that a problem is about: the modular file at `path`, or one below a root."""
    is_own = env.display_path(path.parent.resolve() / path.name) == problem.at.path
    places = [path] if is_own else [root / problem.at.path for root in env.roots]
    for place in places:
        if env.look("file", str(place)):
            return place
    return None


# Outlines


def _outline_plan(plan: ModulePlan) -> str:
    """The decisions about a modular file, one a line, for `patchgen explain`."""
    lines = [f"{kind} follows {module}" for kind, module in plan.bases.items()]
    for module, prefix in plan.prefixes.items():
        renamed = str(prefix) if prefix else "names kept"
        lines.append(f"{module}: {renamed}")
    lines += [_outline_declaration(declaration) for declaration in plan.declarations]
    return "\n".join(lines) + "\n"


def _outline_declaration(declaration: Declaration) -> str:
    """What becomes of one class."""
    name = declaration.symbol.name
    bases = ", ".join(str(symbol) for symbol in declaration.rest)
    if declaration.why:
        return f"class {name} stays a subclass of {bases}: {declaration.why}"
    chain = " + ".join(str(symbol) for symbol in declaration.chain)
    return f"class {name} = {chain}; bases {bases}"


def _outline_blocks(blocks: tuple[FlatBlock, ...]) -> str:
    """The blocks with their kinds, names and files, one a line."""
    rows = []
    for block in blocks:
        paths = dict.fromkeys(rewritten.source.path for rewritten in block.rewritten)
        rows.append(f"{block.kind:7} {block.name or '-':40} {' + '.join(paths)}")
    return "\n".join(rows) + "\n"

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
from itertools import chain
from pathlib import Path

from patchgen.budget import OUTPUT, exceeded, is_unlimited, limit_work
from patchgen.compiler.emit.outputs import assemble_outputs, finish_outputs
from patchgen.compiler.flat import Flattened
from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.module import FlatModule, link_modules
from patchgen.compiler.plan.bindings import Bindings, FlattenScope
from patchgen.compiler.plan.declare import make_plan
from patchgen.compiler.plan.implied import drop_implied_bases
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import ClassPlan, EditMatch, MergedClass
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import Request, format_texts
from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, point_at, problems_of
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import read_source, require_compilable


@dataclass(frozen=True)
class Draft:
    """A linked modular file: `finish` makes outputs of the formatted texts of `request`."""

    request: Request
    finish: Callable[[Mapping[str, str]], Flattened]


def make_draft(path: Path, env: Environment, settings: Settings) -> Draft:
    """The draft of the modular file at `path`; raises PatchgenError with its problems."""
    return _make_draft(link_file(path, env, settings), path, env, settings)


def flatten(path: Path, env: Environment, settings: Settings) -> Flattened:
    """The outputs of the modular file at `path`, or its problems."""
    try:
        return _finish(make_draft(path, env, settings))
    except PatchgenError as error:
        return Flattened(problems=problems_of(error))


def _finish(draft: Draft) -> Flattened:
    request = draft.request
    return draft.finish(format_texts(request.texts, request.settings, request.own))


@dataclass(frozen=True)
class Traced:
    """The outputs of a modular file, and what each of its edits matched."""

    result: Flattened
    edits: tuple[EditMatch, ...] = ()


def trace(path: Path, env: Environment, settings: Settings) -> Traced:
    """What `flatten` gives, with what each edit matched."""
    try:
        steps = link_file(path, env, settings)
        result = _finish(_make_draft(steps, path, env, settings))
    except PatchgenError as error:
        return Traced(Flattened(problems=problems_of(error)))
    matches = chain.from_iterable(merged.edits for merged in steps.merged.values())
    return Traced(result, tuple(matches))


@dataclass(frozen=True)
class Steps:
    """A linked modular file; `texts` are those of its classes, by "CLASS: after PASS"."""

    builder: Builder
    modules: tuple[FlatModule, ...]
    texts: Mapping[str, str]
    merged: Mapping[str, MergedClass]


def link_file(path: Path, env: Environment, settings: Settings) -> Steps:
    """The linked modular file at `path`; raises PatchgenError with its problems."""
    with _quote_syntax_errors(path, env), limit_work(Location(env.display_path(path))):
        return _link(path, env, settings)


def _link(path: Path, env: Environment, settings: Settings) -> Steps:
    texts: dict[str, dict[str, str]] = {}
    merged: dict[str, MergedClass] = {}

    def merge(plan: ClassPlan) -> MergedClass:
        from patchgen.compiler.merge.merge import merge_class  # loaded only where a class is merged

        # A class may be merged again, under other names: only the last texts count.
        passes = texts[plan.name] = {}
        try:
            merged[plan.name] = merge_class(plan, passes.__setitem__, settings.decorators)
        except PatchgenError as error:
            declared = plan.chain[0].at(1, 0)
            raise Refusals(
                problem.carried_by(declared) for problem in problems_of(error)
            ) from error
        return merged[plan.name]

    modular = _read_modular(path, env)
    own = modular.source.module.partition(".")[0]
    bindings = Bindings(env, FlattenScope(own, settings.flatten))
    plan = make_plan(modular, bindings, [name for name, _ in settings.decorators])
    plan = drop_implied_bases(plan, bindings)
    builder, modules = link_modules(Builder(Naming(plan, bindings), Lineages(bindings), merge))
    named: dict[str, str] = {}
    for name, passes in texts.items():
        for step, text in passes.items():
            named[f"{name}: after {step}"] = text
    return Steps(builder, modules, named, merged)


def _read_modular(path: Path, env: Environment) -> ModuleIndex:
    resolved = path.parent.resolve() / path.name  # a link is called by its own name
    module = env.module_of(resolved)
    shown = env.display_path(resolved)
    source = read_source(resolved, module, shown, allow_bidi=env.allow_bidi)
    modular = index(source)
    try:
        require_compilable(source)
    except PatchgenError as error:
        raise _explain_edit(error) from error
    return modular


def _explain_edit(error: PatchgenError) -> PatchgenError:
    """`error` with the way to write what an edit may only have inside a loop or a coroutine."""
    problem = error.problem
    hint = problem.hint
    if "loop" in problem.what:
        hint = "an edit has to include the loop; `while ...:` stands for any loop around its parts"
    elif "async" in problem.what:
        hint = "an edit that waits is an `async def`"
    return PatchgenError(problem.code, problem.at, problem.what, hint)


def _make_draft(steps: Steps, path: Path, env: Environment, settings: Settings) -> Draft:
    at = Location(env.display_path(path))
    with limit_work(at):
        unfinished = assemble_outputs(steps.modules, steps.builder, settings)
    texts = unfinished.request.texts.values()
    letters = sum(len(text.opening) + len(text.body) for text in texts)
    if letters > OUTPUT and not is_unlimited():
        what = f"gives {letters:,} letters of code; the limit is {OUTPUT:,}"
        raise exceeded(at, what)

    def finish(formatted: Mapping[str, str]) -> Flattened:
        with _quote_syntax_errors(path, env), limit_work(at):
            return finish_outputs(unfinished, formatted)

    return Draft(unfinished.request, finish)


@contextmanager
def _quote_syntax_errors(path: Path, env: Environment) -> Iterator[None]:
    """Show what is not Python with its line, in the modular file and in what it derives from."""
    try:
        yield
    # Python 3.12 and newer parse deeper code than can be walked.
    except RecursionError as error:
        at = Location(env.display_path(path), 1, 1)
        what = "is nested too deeply, or a parent is"
        raise PatchgenError("PG006", at, what, "bind parts of it to names") from error
    except PatchgenError as error:
        problems = problems_of(error)
        quoted = [_name_import(_quote_line(each, path, env), path, env) for each in problems]
        if quoted == list(problems):
            raise
        raise Refusals(quoted) from error


def _name_import(problem: Problem, path: Path, env: Environment) -> Problem:
    """`problem` at the import by which the file at `path` brings the one that it is about."""
    shown = _show(path, env)
    if problem.at.path == shown or not problem.at.line:
        return problem
    stem = problem.at.path.rpartition("/")[2].removesuffix(".py")
    at = Location(shown, 1, 1)
    modular = index(read_source(path, "", shown, allow_bidi=env.allow_bidi))
    for item in modular.imports:
        file = item.module.rpartition(".")[2]
        if stem in (item.name, file):
            at = modular.source.at(item.line, item.column)
    return problem.carried_by(at)


def _quote_line(problem: Problem, path: Path, env: Environment) -> Problem:
    """`problem`, if it is one of syntax, with the line that it is about, and a mark below it."""
    if problem.code != "PG006" or not problem.what.startswith("is not valid Python"):
        return problem
    files = [root / problem.at.path for root in env.roots]
    if problem.at.path == _show(path, env):
        files = [path]
    for file in files:
        if env.look("file", str(file)):
            lines = read_source(file, allow_bidi=env.allow_bidi).lines
            number = problem.at.line
            # An error at the end of the file is reported on the line behind the last one.
            line = lines[number - 1].rstrip("\n") if number <= len(lines) else ""
            return point_at(problem, line)
    return problem


def _show(path: Path, env: Environment) -> str:
    """What messages call the file at `path`, which may be a link."""
    return env.display_path(path.parent.resolve() / path.name)

"""Validate a generated module: it compiles, its names are bound, its calls fit, it differs.

    modular file     class LlamaMLP(llama.LlamaMLP):
                         def __init__(self, config, scale): ...
    output           self.mlp = LlamaMLP(config)     PG406: misses the argument scale

What is wrong here is wrong in the modular file, or in patchgen; in both cases nothing is written.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import Any

from patchgen.compiler.emit.checks import (
    check_calls,
    find_unset,
    list_imports,
    passes_on,
    read_early,
    uses_argument,
)
from patchgen.compiler.emit.parsed import Parsed, parse_output, read_parts
from patchgen.compiler.emit.release import (
    explain_missing,
    find_base,
    list_members,
    may_be_missing,
)
from patchgen.compiler.flat import LineOrigin, Override
from patchgen.syntax.blocks import imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, Problem, did_you_mean
from patchgen.syntax.kept import recall
from patchgen.syntax.locate import Environment
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import global_names, parse_once, statements_within

_KNOWN = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "__package__",
    "__spec__",
    "__class__",
}
# Code that makes a model from a configuration, whose classes are not known.
_MAKES_MODELS = re.compile(r"\bAuto[A-Z]\w*|\bload_backbone\b")


@dataclass(frozen=True, slots=True)
class _Output:
    """A generated text with the origins of its lines; `base` is the text of its diff base.

    `imports` are the places of imports, as (module, name), in the modular file.
    """

    text: str
    lines: tuple[LineOrigin, ...]
    modular: str
    base: str | None
    imports: Mapping[tuple[str, str], Location]

    def locate(self, line: int) -> Location:
        """Where the generated `line` came from.

        A line that patchgen wrote came from the last one above it that has an origin.
        """
        above = [part for part in self.lines if part.first <= line]
        if not above:
            return Location(self.modular, 1, 1)
        part = max(above, key=lambda part: part.first)
        return Location(part.path, part.line + min(line, part.last) - part.first, 1)


def validate(
    name: str,
    text: str,
    lines: tuple[LineOrigin, ...],
    declared: Location,
    overrides: Sequence[Override],
    env: Environment,
    base: str | None = None,
    imports: Mapping[tuple[str, str], Location] = MappingProxyType({}),
) -> tuple[Problem, ...]:
    """What is wrong with the generated `text`, and warnings, at the lines that it came from.

    `declared` is where the modular file begins to declare what is in it: the place of problems of
    the whole.  What is as wrong in the diff base `base` is upstream's fault and not reported.  The
    release is asked through `env` for what the text takes from it; `imports` are the places of the
    modular file's, as (module, name).
    """
    # `dataclasses.astuple` copies each value, which takes ten times as long.
    origins = [(origin.first, origin.last, origin.path, origin.line) for origin in lines]
    place = (declared.path, declared.line, declared.column)
    parents = [(each.name, each.text, each.at.line) for each in overrides if each.text]
    kept = recall("valid", text, origins, place, base, parents)
    output = _Output(text, lines, declared.path, base, imports)
    # Only that nothing is wrong is kept, with what the release has to be asked: a problem is found
    # again, with all that it says.
    if kept.answer is not None:
        return tuple(_ask_release(kept.answer, output, env))
    problems = _validate(name, output, declared, overrides)
    if any(problem.code == "PG404" for problem in problems):
        return problems
    questions = _list_questions(output)
    if not problems:
        kept.keep(questions)
    return tuple(sorted({*problems, *_ask_release(questions, output, env)}))


def _validate(
    name: str, output: _Output, declared: Location, overrides: Sequence[Override]
) -> tuple[Problem, ...]:
    """What the text alone shows to be wrong."""
    text, base = output.text, output.base
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Which of its lines is wrong, only the whole text says.
            if not _compiles_by_parts(text):
                compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = output.locate(getattr(error, "lineno", 1) or 1)
        what = f"the generated module does not compile: {error}"
        return (Problem(at, "PG404", what, "please report this"),)
    parsed = parse_output(text)
    # A variant that changes nothing is a mistake: the parent itself would do.
    if base is not None and _equals(parsed, base):
        hint = "declare what the variant changes, or delete the modular file"
        return (Problem(declared, "PG408", "the generated code equals its parent's", hint),)
    found = {
        *_find_unbound(output),
        *_find_early(output),
        *_find_misfit_calls(output),
        *_find_swallowed(output, overrides),
        *_find_patchgen_imports(parsed, output),
        *_find_unknown_layers(parsed, output),
    }
    return tuple(sorted(found))


# What the release has to be asked about a text: imports as (module, name, line), and methods as
# (line, call, owner, name, bases as (module, name), members that have other names).  Warnings, as
# (line, code, what, hint), stand with them: they do not keep the text from being valid.
_Questions = list[list[Any]]


def _list_questions(output: _Output) -> _Questions:
    """What has to be asked about a text, in a form that can be kept."""
    parsed = parse_output(output.text)
    imports = [
        [item.module, item.name, line]
        for item, line in list_imports(parsed)
        if not item.level and may_be_missing(item.module)
    ]
    bound = {item.bound: item for item in imports_of(parsed.body)}
    methods = []
    for call in check_calls(output.text).unanswered:
        bases = [find_base(base, bound) for base in call.bases]
        # Nothing is known of what a call or a subscript derives from.
        if None not in bases:
            methods.append([call.line, call.call, call.owner, call.name, bases, call.near])
    return [imports, methods, list(_warn_of_unset(output))]


def _ask_release(questions: _Questions, output: _Output, env: Environment) -> Iterator[Problem]:
    """A problem for each name and each method that the release lacks, and not the parent too."""
    imports, methods, unset = questions
    for line, code, what, hint in unset:
        yield Problem(output.locate(line), code, what, hint, "warning")
    for module, name, line in imports:
        missing = explain_missing(module, name, env)
        if missing is not None and f"{module} {name}" not in _list_parents_uses(output.base):
            at = output.imports.get((module, name)) or output.locate(line)
            yield Problem(at, "PG411", *missing)
    for line, call, owner, name, bases, near in methods:
        inherited = [list_members(tuple(base), env) for base in bases]
        if None in inherited or any(name in members for members in inherited if members):
            continue
        if f"{owner} {call}" not in _list_parents_uses(output.base):
            what = f"{call}(...) finds no method: {owner} has no {name}"
            members = {*near, *(each for members in inherited for each in members or ())}
            hint = did_you_mean(name, members) or "define it, or call what the release has"
            yield Problem(output.locate(line), "PG412", what, hint)


@functools.lru_cache(maxsize=16)
def _list_parents_uses(base: str | None) -> frozenset[str]:
    """The imports and the methods that the diff base asks for, as it may by mistake."""
    if base is None:
        return frozenset()
    imports = {f"{item.module} {item.name}" for item, _ in list_imports(parse_output(base))}
    return frozenset(
        imports | {f"{each.owner} {each.call}" for each in check_calls(base).unanswered}
    )


def _compiles_by_parts(text: str) -> bool:
    """Whether each part of `text` compiles, and none decides how the others are compiled."""
    try:
        parsed = parse_output(text)
    except (SyntaxError, ValueError):
        return False
    # A future import changes the rules for what is below it, and must stand above all else.  After
    # `global x`, other rules hold for x.
    if "global" in text or any(map(_is_future_import, parsed.body)):
        return False
    return all(_compiles(part.text) for part in parsed.parts)


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


# Variants of one parent have most parts in common.
@functools.lru_cache(maxsize=4096)
def _compiles(text: str) -> bool:
    """Whether Python compiles `text`, which it parses, as a module of its own."""
    try:
        compile(parse_once(text), "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _equals(parsed: Parsed, base: str) -> bool:
    """Whether the code of `base` is that of `parsed`; no more of it is parsed than it takes."""
    theirs = (node for part in read_parts(base) for node in part.tree.body)
    for own, other in zip_longest(parsed.body, theirs):
        # Parts of one text share their trees.
        if own is other:
            continue
        if own is None or other is None or not is_same_code(own, other):
            return False
    return True


def _find_swallowed(output: _Output, overrides: Sequence[Override]) -> Iterator[Problem]:
    """A problem for each argument that a caller names and an override takes by `**kwargs` alone."""
    reported = set()
    for call in check_calls(output.text).swallowed:
        owner, _, method = call.callee.rpartition(".")
        for override in overrides:
            # The method, or its class that was written anew.
            is_meant = override.name in (call.callee, owner) and override.text
            key = (override.name, call.keyword)
            if not is_meant or key in reported:
                continue
            if not uses_argument(override.text, method, call.keyword):
                continue
            if not passes_on(call.function, call.keyword, output.text):
                reported.add(key)
                caller = output.locate(call.line)
                what = (
                    f"{call.callee} swallows {call.keyword}=, which its caller at {caller} passes "
                    f"and {override.parent} uses"
                )
                hint = f"give it the parameter {call.keyword}, if only to say that it is not used"
                yield Problem(override.at, "PG413", what, hint)


def _warn_of_unset(output: _Output) -> Iterator[list[Any]]:
    """The warning for each parameter that `from_pretrained` would leave as memory is."""
    if output.base is None:
        return
    for unset in find_unset(output.text, output.base):
        what = (
            f"{unset.owner}.{unset.attribute} is in no checkpoint of the parent, and no "
            "_init_weights sets it: from_pretrained leaves there what the memory holds"
        )
        target = f"module.{unset.attribute}"
        if unset.kind != "nn.Parameter":
            target += ".weight"
        hint = (
            f"in `_init_weights` of the base model, below `super()._init_weights(module)`: "
            f"`if isinstance(module, {unset.owner}): init.{unset.setter}({target})`, with "
            "`from transformers import initialization as init`"
        )
        yield [unset.line, "PG421", what, hint]


def _find_patchgen_imports(parsed: Parsed, output: _Output) -> Iterator[Problem]:
    """A problem for each import of patchgen, because generated files are used without it."""
    for node in chain.from_iterable(statements_within(part.tree) for part in parsed.parts):
        for name in _list_imported_modules(node):
            if name.partition(".")[0] == "patchgen":
                what = f"the generated module would import {name}"
                hint = (
                    "name what is needed of it: "
                    "classes and functions of patchgen.parts are carried into the file"
                )
                yield Problem(Location(output.modular), "PG407", what, hint)


def _list_imported_modules(node: ast.AST) -> list[str]:
    """The absolute modules that a statement names as imported from."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(name), level=0):
            return [name]
        case _:
            return []


def _find_unbound(output: _Output) -> Iterator[Problem]:
    """A problem for each unbound name that the parent does not have too."""
    unbound = _find_unbound_names(output.text)
    upstream = set()
    # The parent is asked only where there is something to excuse.
    if unbound and output.base is not None:
        upstream = {name for name, _ in _find_unbound_names(output.base)}
    for name, line in unbound:
        # transformers' own mistakes are not for the author of a variant to repair.
        if name in upstream:
            continue
        at = output.locate(line)
        hint = "import or define it"
        if at.path != output.modular:
            hint = (
                f"bind it at the top level of {at.path}, or override what reads it: "
                "what is bound while the program runs is not carried"
            )
        yield Problem(at, "PG402", f"the name {name} is bound by nothing", hint)


# Many variants of a run have one parent, whose text is asked about each time.
@functools.lru_cache(maxsize=64)
def _find_unbound_names(text: str) -> tuple[tuple[str, int], ...]:
    """The names that nothing binds, with their lines."""
    parsed = parse_output(text)
    bound = {*bound_names(parsed.body), *_KNOWN}
    # A function may bind a global name before another one reads it.
    for part in parsed.parts:
        if "global" in part.text:
            bound |= global_names(part.tree)
    if "*" in bound:
        return ()  # a star import may bind any name
    unbound: list[tuple[str, int]] = []
    for part in parsed.parts:
        for read in parsed.references(part):
            # Nothing evaluates a quoted annotation, which may be no type: `Float[Tensor, "batch"]`.
            if read.name not in bound and not read.quoted:
                unbound.append((read.name, part.locate(read.line)))
    return tuple(unbound)


def _find_early(output: _Output) -> Iterator[Problem]:
    """A problem for each name that is read at import before it is bound."""
    early = read_early(output.text)
    theirs = set()
    if early and output.base is not None:
        theirs = {name for name, _, _ in read_early(output.base)}
    for name, line, binder in early:
        if name not in theirs:
            at, bound = output.locate(line), output.locate(binder)
            what = f"{name} is read while the module is imported, above its definition at {bound}"
            hint = "read it inside a function, or do without one of the two"
            yield Problem(at, "PG410", what, hint)


def _find_misfit_calls(output: _Output) -> Iterator[Problem]:
    """A problem for each call that does not fit, unless the parent has it too."""
    misfits = check_calls(output.text).misfits
    upstream = set()
    if misfits and output.base is not None:
        upstream = {(misfit.call, misfit.why) for misfit in check_calls(output.base).misfits}
    for misfit in misfits:
        if (misfit.call, misfit.why) not in upstream:
            at = output.locate(misfit.line)
            what = f"the call {misfit.call} does not fit: {misfit.callee} {misfit.why}"
            hint = "change the call, or keep the parameters that it passes"
            subject = (misfit.caller, misfit.callee, misfit.why)
            yield Problem(at, "PG406", what, hint, subject=subject)


def _find_unknown_layers(parsed: Parsed, output: _Output) -> Iterator[Problem]:
    """A problem for each name in `_no_split_modules` that the flat file neither has nor imports.

    A model that is made from a configuration brings classes of its own; there nothing is checked.
    """
    if "_no_split_modules" not in output.text or _MAKES_MODELS.search(output.text):
        return
    bound = set(bound_names(parsed.body))
    # transformers looks for modules of these names: one that is unknown has no effect.
    for part in parsed.parts:
        for listed in _find_unsplit(part.tree):
            at, name = output.locate(part.locate(listed.lineno)), str(listed.value)
            # Upstream lists classes of other models too; transformers ignores them.
            is_declared = at.path == output.modular
            if is_declared and name not in bound:
                what = f"_no_split_modules names {name}, and the flat file has no such class"
                hint = did_you_mean(name, bound) or "name a class of it"
                yield Problem(at, "PG409", what, hint)


def _find_unsplit(tree: ast.Module) -> Iterator[ast.Constant]:
    """What the `_no_split_modules` of each class lists, where that is written out."""
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for node in owner.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id="_no_split_modules"), *_], value=listed)
                    | ast.AnnAssign(target=ast.Name(id="_no_split_modules"), value=listed)
                    | ast.AugAssign(target=ast.Name(id="_no_split_modules"), value=listed)
                ):
                    yield from _find_constants(listed)


def _find_constants(listed: ast.expr | None) -> Iterator[ast.Constant]:
    """The literals of a list, set or tuple that is written out."""
    if isinstance(listed, ast.List | ast.Set | ast.Tuple):
        for element in listed.elts:
            if isinstance(element, ast.Constant):
                yield element

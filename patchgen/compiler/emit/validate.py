"""Validate a generated module: it compiles, its names are bound, its calls fit, it differs.

    modular file     class LlamaMLP(llama.LlamaMLP):
                         def __init__(self, config, scale): ...
    output           self.mlp = LlamaMLP(config)     PG406: misses the argument scale

What is wrong here is wrong in the modular file, or in patchgen; in both cases nothing is written.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from patchgen.compiler.emit import checks
from patchgen.compiler.emit.parsed import Function, Parsed, imports_in, parse_output, read_parts
from patchgen.compiler.emit.release import Release, Transformers, explain_missing, find_home
from patchgen.compiler.flat import FlatFile, Override
from patchgen.compiler.link.unused import is_misspelt
from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.syntax.blocks import imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, Problem, did_you_mean
from patchgen.syntax.kept import recall
from patchgen.syntax.locate import Environment
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import list_parameters, statements_within
from patchgen.weights.unset import find_unset

# Code that makes a model from a configuration, whose classes are not known.
_MAKES_MODELS = re.compile(r"\bAuto[A-Z]\w*|\bload_backbone\b")
_LAYERS = re.compile("_no_split_modules")
_PATHS = re.compile(r"_tied_weights_keys|(?:base_model)?_[tpe]p_plan")
_WORD = re.compile(r"[^\W\d]\w*")
_FIELD = re.compile(r"\bconfig\.([a-z]\w*)\b(?!\()")
_LISTED = r"\b_no_split_modules\b[^\]]*[\"']{}[\"']"


@dataclass(frozen=True, slots=True)
class _Output:
    """An output of the file `modular`; `base` is the text of its diff base.

    `places` are those of what the modular file declares and imports, as in `validate`.
    """

    file: FlatFile
    modular: str
    text: str
    base: str | None
    places: Mapping[str, Location]

    def locate(self, line: int) -> Location:
        """Where the generated `line` came from.

        A line that patchgen wrote came from the last one above it that has an origin.
        """
        above = [origin for origin in self.file.lines if origin.first <= line]
        if not above:
            return Location(self.modular, 1, 1)
        origin = max(above, key=lambda origin: origin.first)
        return Location(origin.path, origin.line + min(line, origin.last) - origin.first, 1)

    def find_declaration(self, line: int, callee: str = "") -> tuple[str, Location]:
        """What of the modular file changes what the generated `line` does, and its place.

        That is what the line calls, or the method or class that it stands in.
        """
        owner, member = parse_output(self.text).enclosing(line)
        inside = f"{owner}.{member}"
        kept = checks.KEPT_NAME.search(inside)
        copied = kept["method"] if kept else member
        names = [callee, inside, f"{owner}.{copied}", f"{owner}.__{copied}__"]
        names += [callee.partition(".")[0], owner]
        for name in filter(None, names):
            if name in self.places:
                return name, self.places[name]
        return "", self.places[""]


def validate(
    file: FlatFile,
    overrides: Sequence[Override],
    env: Environment,
    places: Mapping[str, Location],
    origins: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> tuple[Problem, ...]:
    """What is wrong with the generated `file`, and warnings, at the lines that it came from.

    `places` are those of what the modular file declares, as "Class" or "Class.method", and imports,
    as "module name"; "" is where it begins to declare what is in `file`: the place of problems of
    the whole.  What is as wrong in the diff base, or in a file that lines came from, is upstream's
    fault and not reported.  The release is asked through `env` for what the text takes from it.
    `origins` says which upstream class, as (module, name), each class stands for.
    """
    declared = places[""]
    base = None if file.diff_base is None else file.diff_base[1]
    parents = [(override.name, override.text) for override in overrides if override.text]
    kept = recall("valid", file.text, declared.path, base, parents)
    output = _Output(file, declared.path, file.text, base, places)
    findings: list[checks.Finding] = []
    problems: list[Problem] = []
    # Only what the release has to be asked is kept, of a text in which nothing is wrong: problems
    # and warnings are found again, with the places that they have now.
    questions = kept.answer
    if questions is None:
        problem = _find_fault_of_the_whole(output, declared)
        if problem is not None:
            return (problem,)
        parsed, questions = parse_output(file.text), _list_questions(output)
        findings += checks.find_mistakes(file.text)
        problems += _find_patchgen_imports(parsed, output.modular)
        problems += _find_swallowed(parsed, output, overrides)
        unknown = (*_find_unknown_layers(parsed, output), *_find_misspelt(parsed, output, env))
        # What upstream has written so is not the modular file's.
        problems += [problem for problem in unknown if problem.at.path == output.modular]
        if file.kind == MODELING:
            problems += _find_unset(output, origins, env)
        if not findings and not problems:
            kept.keep(questions)
    findings += _ask_release(questions, env)
    upstream = _find_upstream(output, env) if findings else set()
    for finding in findings:
        if (finding.code, finding.detail) not in upstream:
            problems.append(_place(finding, output))
    return tuple(sorted(set(problems)))


def _list_questions(output: _Output) -> list[list[Any]]:
    """What the release is asked about an output; the answers about its parent are upstream's."""
    theirs = checks.list_questions(output.base) if output.base is not None else []
    known = {repr(question[1:]) for kind in theirs for question in kind}
    return [
        [question for question in kind if repr(question[1:]) not in known]
        for kind in checks.list_questions(output.text)
    ]


def _place(finding: checks.Finding, output: _Output) -> Problem:
    """The problem of a finding: first the line of the modular file, then that of its parent."""
    at, what, hint = output.locate(finding.line), finding.what, finding.hint
    if finding.code == "PG411":
        at = output.places.get(finding.detail, at)
    name, declared = output.find_declaration(finding.line, finding.callee)
    if finding.code == "PG402" and at.path != output.modular:
        if "." in name:
            hint = "bind it there: the parent's line that binds it is not in the output"
        else:
            hint = f"bind it at the top level of {at.path}, or override what reads it: "
            hint += "what is bound while the program runs is not carried"
    if finding.second:
        what += str(output.locate(finding.second))
    return Problem(at, finding.code, what, hint, finding.severity).carried_by(declared)


def _find_upstream(output: _Output, env: Environment) -> set[tuple[str, str]]:
    """What is as wrong, as (code, detail), in the texts that `output` was made from."""
    texts = {"": output.base} if output.base is not None else {}
    for path in {origin.path for origin in output.file.lines}:
        module = path.removesuffix(".py").replace("/", ".")
        is_own = path == output.modular or path.startswith("patchgen/")
        if not is_own and env.path(module) is not None:
            texts[module] = env.source(module, Location(path)).text
    pairs: set[tuple[str, str]] = set()
    for module, text in texts.items():
        asked = _ask_release(checks.list_questions(text, module.rpartition(".")[0]), env)
        for finding in (*checks.find_mistakes(text), *asked):
            # A name that nothing binds may be bound while that module runs, and so not here.
            if not module or finding.code != "PG402":
                pairs.add((finding.code, finding.detail))
    return pairs


def _ask_release(questions: list[list[Any]], env: Environment) -> Iterator[checks.Finding]:
    """The names and methods that the release lacks, of those that `list_questions` gives."""
    imports, calls = questions
    release = Release(Lineages(Bindings(env, Transformers(""))))
    for line, module, name in imports:
        missing = explain_missing(module, name, env)
        if missing is not None:
            what, hint = missing
            home = find_home(name, env) if name else ""
            hint = f"import it from {home}" if home else hint
            yield checks.Finding(line, "PG411", what, hint, f"{module} {name}")
    for line, spelled, bases, owner, name, near in calls:
        call = ast.parse(spelled, mode="eval").body
        assert isinstance(call, ast.Call)
        inherited = [release.list_members(tuple(base)) for base in bases if owner]
        if owner and None not in inherited:
            members = {*near, *(each for names in inherited for each in names or ())}
            if name not in members:
                what = f"{ast.unparse(call.func)}(...) finds no method: {owner} has no {name}"
                hint = did_you_mean(name, members) or "define it, or call what the release has"
                yield checks.Finding(line, "PG412", what, hint, name)
        found = [callee for base in bases if (callee := release.find_callee(tuple(base), name))]
        # Of several bases that have it, Python takes the first.
        if len(found) == 1:
            function, is_bound = found[0]
            why = checks.explain_misfit(call, function, is_bound=is_bound)
            if why:
                yield _describe_misfit(
                    line, spelled, ".".join([*bases[0], name][1:]), function, why
                )


def _describe_misfit(
    line: int, spelled: str, callee: str, function: ast.FunctionDef | ast.AsyncFunctionDef, why: str
) -> checks.Finding:
    """A call of what the release has, with arguments that it does not take."""
    callee = callee.rstrip(".")
    what = f"the call {spelled} does not fit: {callee} of this release {why}"
    parameters = [each.arg for each in list_parameters(function.args)]
    hint = f"it takes ({', '.join(parameters)})"
    return checks.Finding(line, "PG406", what, hint, f"{callee} {why}")


def _find_fault_of_the_whole(output: _Output, declared: Location) -> Problem | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(output.text, output.file.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = output.locate(getattr(error, "lineno", 1) or 1)
        what = f"the generated module does not compile: {error}"
        return Problem(at, "PG404", what, "please report this")
    if output.base is None:
        return None
    # No more of the base is parsed than it takes.
    theirs = (node for part in read_parts(output.base) for node in part.tree.body)
    for own, other in zip_longest(parse_output(output.text).body, theirs):
        # Parts of one text share their trees.
        if own is other:
            continue
        if own is None or other is None or not is_same_code(_without_footer(own), other):
            return None
    # A variant that changes nothing is a mistake: the parent itself would do.
    hint = "declare what the variant changes, or delete the modular file"
    return Problem(declared, "PG408", "the generated code equals its parent's", hint)


def _without_footer(node: ast.stmt) -> ast.stmt:
    """`node` without the method that patchgen itself writes into a model."""
    if not isinstance(node, ast.ClassDef):
        return node
    written = [member for member in node.body if "is_custom_code" not in bound_names([member])]
    bare = copy.copy(node)
    # What it was written in place of.
    bare.body = written or [ast.Expr(ast.Constant(...))]
    return bare


def _find_swallowed(
    parsed: Parsed, output: _Output, overrides: Sequence[Override]
) -> Iterator[Problem]:
    """A problem for each argument that a caller names and an override takes by `**kwargs` alone.

    It is an error where the override has a parameter that its parent does not have: upstream gave
    that one another name.  An override that never had it may mean to do without, and so may one
    whose caller stands in the modular file too.
    """
    reported: set[tuple[str, str]] = set()
    for problem, name, new in _find_renamed(parsed, output, overrides):
        reported.add((name, new))
        yield problem
    for call in checks.check_calls(output.text):
        if not isinstance(call, checks.Swallowed):
            continue
        owner, _, method = call.callee.rpartition(".")
        for override in overrides:
            # The method, or its class that was written anew.
            key = (override.name, call.keyword)
            if override.name not in (call.callee, owner) or key in reported:
                continue
            parents = checks.find_parameters(checks.find_method(override.text, method))
            is_used = parents.get(call.keyword, False)
            if not is_used or checks.passes_on(call.function, call.keyword, parsed):
                continue
            reported.add(key)
            own = {each.arg for each in (*call.function.args.args, *call.function.args.kwonlyargs)}
            caller = output.locate(call.line)
            is_renamed = own - parents.keys() and caller.path != output.modular
            severity = "error" if is_renamed else "warning"
            what = f"{call.callee} swallows {call.keyword}=, which its caller at "
            what += f"{caller} passes and {override.parent} uses"
            hint = f"give it the parameter {call.keyword}, if only to say that it is not used"
            yield Problem(override.at, "PG413", what, hint, severity)


def _find_renamed(
    parsed: Parsed, output: _Output, overrides: Sequence[Override]
) -> Iterator[tuple[Problem, str, str]]:
    """A problem for each parameter of an override that its parent calls otherwise by now.

        modular file                        release
        def forward(self, x, old=None,      @deprecate_kwarg("old", "5.40", new_name="cache")
                    **kwargs): ...          def forward(self, x, cache=None): ...

    Callers pass `cache=`, which only `**kwargs` takes.  It is a warning where the override does
    nothing with its `old` but pass it on: the `cache` in `kwargs` arrives there all the same.
    """
    for name, parent, called in _pair_with_parents(parsed, overrides):
        owner, _, method = name.rpartition(".")
        function = parsed.method(owner, method) if owner in parsed.classes else None
        if function is None:
            continue
        own = {each.arg for each in list_parameters(function.args)}
        own -= checks.find_old_names(function).keys()
        for old, new in checks.find_old_names(parent).items():
            if old not in own or new in own:
                continue
            arrives = checks.passes_on(function, new, parsed)
            is_harmless = arrives and not checks.reads_beside(function, old)
            severity = "warning" if is_harmless else "error"
            what = f"{name} takes {old}, which {called} calls {new}: its callers pass {new}="
            hint = f"call the parameter {new}, here and where it is passed on"
            at = output.places.get(name, output.places[""])
            yield Problem(at, "PG413", what, hint, severity), name, new


def _pair_with_parents(
    parsed: Parsed, overrides: Sequence[Override]
) -> Iterator[tuple[str, Function, str]]:
    """Each override, with its parent's method, and what that is called."""
    for override in overrides:
        parent = checks.find_method(override.text, override.name.rpartition(".")[2])
        if parent is not None:
            yield override.name, parent, override.parent
    # Those that ask their parent, whose method stands beside them.
    for owner, item in parsed.classes.items():
        for kept, copied in item.methods.items():
            match = checks.KEPT_NAME.search(f"{owner}.{kept}")
            for name in item.methods if match else ():
                if match and name.strip("_") == match["method"]:
                    yield f"{owner}.{name}", copied, f"the parent's {name}"


def _find_unset(
    output: _Output, origins: Mapping[str, tuple[str, str]], env: Environment
) -> Iterator[Problem]:
    """A warning for what nothing fills, at the line of the modular file that brings it."""

    def is_own(line: int) -> bool:
        return output.locate(line).path == output.modular

    for line, what, hint in find_unset(output.text, output.base, origins, is_own, env):
        at = output.locate(line) if line else output.places[""]
        yield Problem(at, "PG421", what, hint, "warning")


def _find_patchgen_imports(parsed: Parsed, modular: str) -> Iterator[Problem]:
    """A problem for each import of patchgen, because generated files are used without it."""
    for part in parsed.parts:
        for item, _ in imports_in(part.text) if "patchgen" in part.text else ():
            if item.level == 0 and item.module.partition(".")[0] == "patchgen":
                what = f"the generated module would import {item.module}"
                hint = "name what is needed of it: "
                hint += "classes and functions of patchgen.parts are carried into the file"
                yield Problem(Location(modular), "PG407", what, hint)


def _find_unknown_layers(parsed: Parsed, output: _Output) -> Iterator[Problem]:
    """A problem for each name in `_no_split_modules` that the flat file neither has nor imports.

    transformers looks for modules of these names: one that is unknown has no effect.  A model that
    is made from a configuration brings classes of its own; there nothing is checked.
    """
    for name, _, line in _list_table(parsed, _LAYERS):
        if name in parsed.bound or _MAKES_MODELS.search(output.text):
            continue
        # Upstream lists classes of other models too; transformers ignores them.
        what = f"_no_split_modules names {name}, and the flat file has no such class"
        hint = did_you_mean(name, parsed.bound) or "name a class of it"
        # A copy of upstream's list has upstream's mistakes.
        is_upstreams = re.search(_LISTED.format(re.escape(name)), output.base or "")
        severity = "warning" if is_upstreams else "error"
        yield Problem(output.locate(line), "PG409", what, hint, severity)


def _find_misspelt(parsed: Parsed, output: _Output, env: Environment) -> Iterator[Problem]:
    """Warnings of names in plans and tied keys, and of fields of a configuration.

        _tied_weights_keys = {"lm_haed.weight": ...}        no module, nearly `lm_head`
        self.width = config.hiden_size                      no field, nearly `hidden_size`

    Only what nothing else in the file and its parent names, but for a letter.
    """
    text, base = output.text, output.base or ""
    # A configuration has plans for modules that only another file has.
    has_modules = output.file.kind != "configuration" or base
    words = Counter(_WORD.findall(text))
    # What the modules of torch have, too.
    theirs = {*_WORD.findall(base), "weight", "bias"}
    for key, node, line in _list_table(parsed, _PATHS) if has_modules else ():
        for name in {*_WORD.findall(key)} - theirs:
            known = theirs.union(words - Counter(_WORD.findall(ast.unparse(node))))
            if name not in known and is_misspelt(name, known):
                what = f"{key} names no module: nothing is called {name}"
                at = output.locate(line)
                yield Problem(at, "PG426", what, did_you_mean(name, known), "warning")
    configurations = [item.module for item in imports_of(parsed.body) if "Config" in item.name]
    fields, theirs = Counter(_FIELD.findall(text)), {*_FIELD.findall(base)}
    for name in fields.keys() - theirs:
        # Elsewhere, too, it may be set.
        is_read_alone = words[name] == fields[name]
        known = theirs.union(fields) - {name}
        is_suspect = is_read_alone and is_misspelt(name, known)
        if is_suspect and not any(env.spells(module, name) for module in configurations):
            place = text.index(f"config.{name}")
            at = output.locate(text.count("\n", 0, place) + 1)
            what = f"config.{name} is no field of the configuration"
            yield Problem(at, "PG426", what, did_you_mean(name, known), "warning")


def _list_table(parsed: Parsed, tables: re.Pattern[str]) -> Iterator[tuple[str, ast.expr, int]]:
    """The strings in a table of the model, each with the table and its line."""
    for part in parsed.parts:
        for node in statements_within(part.tree) if tables.search(part.text) else ():
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    value = node.value
                case _:
                    continue
            if value is None or not tables.fullmatch(name):
                continue
            elements = [*getattr(value, "elts", ()), *getattr(value, "keys", ())]
            if name == "_tied_weights_keys":
                elements += getattr(value, "values", ())
            for element in elements:
                if isinstance(element, ast.Constant) and isinstance(element.value, str):
                    yield element.value, value, part.locate(element.lineno)

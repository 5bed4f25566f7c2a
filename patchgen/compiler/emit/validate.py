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
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import Any

from patchgen.compiler.emit import checks
from patchgen.compiler.emit.parsed import Parsed, imports_in, parse_output, read_parts
from patchgen.compiler.emit.release import Release, Transformers, explain_missing, find_home
from patchgen.compiler.flat import FlatFile, Override
from patchgen.compiler.plan.bindings import Bindings, is_marked
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.outside import Outside
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.facts.modules import CONFIGURATION
from patchgen.syntax.blocks import imports_of
from patchgen.syntax.bound import bound_names, parameters
from patchgen.syntax.errors import Location, Problem, did_you_mean, find_near
from patchgen.syntax.kept import recall
from patchgen.syntax.locate import Environment
from patchgen.syntax.same import is_same_code
from patchgen.syntax.text import count_words, parse_text
from patchgen.syntax.trees import Function, find_method
from patchgen.weights.unset import find_unset

# Code that makes a model from a configuration, whose classes are not known.
_MAKES_MODELS = re.compile(r"\bAuto[A-Z]\w*|\bload_backbone\b")
# A name that nothing binds, a call that does not fit, a method that is not there.
FAULTS = frozenset({"PG402", "PG406", "PG412"})
_LAYERS = re.compile("_no_split_modules")
_PATHS = re.compile(r"_tied_weights_keys|(?:base_model)?_[tpe]p_plan")
# A key whose steps are names: `layers.*.mlp.up_proj`; it may be a regular expression.
_KEY = re.compile(r"[\w.*]*[a-z_][\w.*]*")
_DECLARED = re.compile(r"(?:^    |\bself\.)(\w+)(?::| =)", re.MULTILINE)
# A pattern that begins with a word is looked for ten times faster.
_FIELD = re.compile(r"config(?<!\wconfig)\.([a-z]\w*)\b(?!\()")
_LISTED = r"\b_no_split_modules\b[^\]]*[\"']{}[\"']"


@dataclass(frozen=True, slots=True)
class _Output:
    """An output of the file `modular`; `base` is the text of its diff base.

    `places` are those of what the modular file declares and imports, and `beside` the texts of its
    other outputs, as in `validate`.
    """

    file: FlatFile
    modular: str
    text: str
    base: str | None
    places: Mapping[str, Location]
    beside: Sequence[str] = ()

    def locate(self, line: int) -> Location:
        """Where the generated `line` came from.

        A line that patchgen wrote came from the last one above it that has an origin.
        """
        above = [origin for origin in self.file.lines if origin.first <= line]
        if not above:
            return Location(self.modular, 1, 1)
        origin = max(above, key=lambda origin: origin.first)
        return Location(origin.path, origin.line + min(line, origin.last) - origin.first, 1)

    def find_written(self, line: int, member: str) -> Location | None:
        """Where the modular file wrote `line`, which stands in `member`, if it did."""
        at = self.locate(line)
        return at if at.path == self.modular else self.places.get(member)

    def find_declaration(self, line: int, callee: str = "") -> tuple[str, Location]:
        """What of the modular file changes what the generated `line` does, and its place.

        That is what the line calls, or the method or class that it stands in.
        """
        owner, member = parse_output(self.text).enclosing(line)
        inside = f"{owner}.{member}"
        kept = checks.KEPT_NAME.search(inside)
        copied = kept["method"] if kept else member
        called_class = callee.partition(".")[0]
        names = [callee, inside, f"{owner}.{copied}", f"{owner}.__{copied}__"]
        names += [called_class, owner]
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
    beside: Sequence[str] = (),
) -> tuple[Problem, ...]:
    """What is wrong with the generated `file`, warnings and notes, at the lines it came from.

    `places` are those of what the modular file declares, as "Class" or "Class.method", and imports,
    as "module name"; "" is where it begins to declare what is in `file`: the place of problems of
    the whole.  What is as wrong in the diff base, or in a file that lines came from, is upstream's
    fault and not reported.  The release is asked through `env` for what the text takes from it.
    `origins` says which upstream class, as (module, name), each class stands for, and `beside` are
    the texts of the other outputs.
    """
    declared = places[""]
    base = None if file.diff_base is None else file.diff_base[1]
    parents = [(each.name, each.text, each.passed) for each in overrides if each.text]
    kept = recall("valid", file.text, declared.path, base, parents, beside)
    output = _Output(file, declared.path, file.text, base, places, beside)
    findings: list[checks.Finding] = []
    problems: list[Problem] = []
    # Only what the release has to be asked is kept, of a text in which nothing is wrong: problems
    # and warnings are found again, with the places that they have now.
    questions = kept.answer
    if questions is None:
        problem = _find_fault_of_the_whole(output, declared)
        if problem is not None:
            return (problem,)
        parsed = parse_output(file.text)
        questions = checks.list_questions(file.text)
        findings += checks.find_mistakes(file.text)
        problems += _find_patchgen_imports(parsed, output.modular)
        problems += _find_swallowed(parsed, output, overrides)
        problems += _find_disordered(parsed, output, overrides)
        problems += _find_unknown_layers(parsed, output)
        problems += _find_unknown_modules(parsed, output)
        problems += _find_unknown_fields(parsed, output, env)
        if file.kind == MODELING:
            problems += _find_unset(output, origins, env)
        if not findings and not problems:
            kept.keep(questions)
    findings += _ask_release(questions, env)
    upstream = _find_upstream(output, env) if findings else set()
    for finding in findings:
        is_meant = finding.code in FAULTS and is_marked(file.text, finding.line)
        if not is_meant and (finding.code, finding.detail) not in upstream:
            problems.append(_place(finding, output))
    return tuple(sorted(set(problems)))


def _place(finding: checks.Finding, output: _Output) -> Problem:
    """The problem of a finding: first the line of the modular file, then that of its parent."""
    at = output.locate(finding.line)
    what = finding.what
    hint = finding.hint
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
    texts: dict[str, str] = {}
    if output.base is not None:
        texts[""] = output.base
    paths = {origin.path for origin in output.file.lines}
    for path in paths:
        module = path.removesuffix(".py").replace("/", ".")
        is_own = path == output.modular or path.startswith("patchgen/")
        if not is_own and env.path(module) is not None:
            texts[module] = env.source(module, Location(path)).text
    pairs: set[tuple[str, str]] = set()
    for module, text in texts.items():
        package = module.rpartition(".")[0]
        questions = checks.list_questions(text, package)
        asked = _ask_release(questions, env)
        for finding in (*checks.find_mistakes(text), *asked):
            # A name that nothing binds may be bound while that module runs, and so not here.
            if not module or finding.code != "PG402":
                pairs.add((finding.code, finding.detail))
    return pairs


def _ask_release(questions: list[list[Any]], env: Environment) -> Iterator[checks.Finding]:
    """The names and methods that the release lacks, of those that `list_questions` gives."""
    imports, calls = questions
    bindings = Bindings(env, Transformers(""))
    release = Release(Outside(Lineages(bindings)))
    for line, module, name in imports:
        missing = explain_missing(module, name, env)
        if missing is not None:
            what, hint = missing
            home = find_home(name, env) if name else ""
            if home:
                hint = f"import it from {home}"
            yield checks.Finding(line, "PG411", what, hint, f"{module} {name}")
    for line, written, bases, owner, name, near in calls:
        inherited = [release.list_members(tuple(base)) for base in bases if owner]
        if owner and None not in inherited:
            members = set(near)
            for names in inherited:
                members.update(names or ())
            if name not in members:
                called = ast.unparse(_read_call(written).func)
                what = f"{called}(...) finds no method: {owner} has no {name}"
                hint = did_you_mean(name, members) or "define it, or call what the release has"
                yield checks.Finding(line, "PG412", what, hint, name)
        callees = (release.find_callee(tuple(base), name) for base in bases)
        found = list(filter(None, callees))
        # Of several bases that have it, Python takes the first.
        if len(found) == 1:
            function, is_bound = found[0]
            call = _read_call(written)
            why = checks.explain_misfit(call, function, is_bound=is_bound)
            if why:
                yield _describe_misfit(line, call, ".".join([*bases[0], name][1:]), function, why)


def _read_call(written: str) -> ast.Call:
    # It may go over several lines.
    (statement,) = parse_text(f"({written})", "").body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return statement.value


def _describe_misfit(
    line: int, call: ast.Call, callee: str, function: Function, why: str
) -> checks.Finding:
    """A call of what the release has, with arguments that it does not take."""
    callee = callee.rstrip(".")
    what = f"the call {ast.unparse(call)} does not fit: {callee} of this release {why}"
    hint = f"it takes ({', '.join(parameters(function))})"
    return checks.Finding(line, "PG406", what, hint, f"{callee} {why}")


def _find_fault_of_the_whole(output: _Output, declared: Location) -> Problem | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for part in parse_output(output.text).parts:
                # What stands in the parent compiles there.
                if f"\n{part.text}" not in (output.base or ""):
                    text = "\n" * (part.first - 1) + part.text
                    compile(text, output.file.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = output.locate(getattr(error, "lineno", 1) or 1)
        what = f"the generated module does not compile: {error}"
        return Problem(at, "PG404", what, "please report this")
    if output.base is None:
        return None
    # No more of the base is parsed than it takes.
    theirs = chain.from_iterable(part.tree.body for part in read_parts(output.base))
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
            is_its = override.name in (call.callee, owner) and override.passed is None
            if not is_its or key in reported:
                continue
            parents = checks.find_parameters(find_method(override.text, method))
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
    for override in overrides:
        name = override.name
        function, parent = _find_both(parsed, override)
        if function is None or parent is None:
            continue
        own = {*parameters(function)}
        own -= checks.find_old_names(function).keys()
        for old, new in checks.find_old_names(parent).items():
            if old not in own or new in own:
                continue
            arrives = checks.passes_on(function, new, parsed)
            is_harmless = arrives and not checks.reads_beside(function, old)
            severity = "warning" if is_harmless else "error"
            what = (
                f"{name} takes {old}, which {override.parent} calls {new}: its callers pass {new}="
            )
            hint = f"call the parameter {new}, here and where it is passed on"
            at = output.places.get(name, output.places[""])
            yield Problem(at, "PG413", what, hint, severity), name, new


def _find_both(parsed: Parsed, override: Override) -> tuple[Function | None, Function | None]:
    """The function of an override, and the parent's that it takes the place of."""
    owner, _, name = override.name.rpartition(".")
    parent = find_method(override.text, name)
    if not owner:
        return parsed.functions.get(name), parent
    return parsed.method(owner, name) if owner in parsed.classes else None, parent


def _find_disordered(
    parsed: Parsed, output: _Output, overrides: Sequence[Override]
) -> Iterator[Problem]:
    """A problem for each argument that arrives by its position in another parameter of its name.

        modular file                                release
        def forward(self, mask, states):            def forward(self, states, mask): ...
            super().forward(mask, states)           self.layer(states, mask)

    It is a warning where the override itself passes them, which may mean it so.
    """
    ordered = [each for each in checks.check_calls(output.text) if isinstance(each, checks.Ordered)]
    for override in overrides:
        function, parent = _find_both(parsed, override)
        if function is None or parent is None:
            continue
        # The first parameter of a method is given.
        theirs = parameters(parent)[bool("." in override.name) :]
        for wrong, right in _find_misplaced(override.passed or (), theirs):
            what = f"{override.name} gives {wrong} to the parameter {right} of {override.parent}"
            yield Problem(override.at, "PG413", what, f"write {wrong}={wrong}", "warning")
        for call in ordered:
            caller = output.locate(call.line)
            if call.function is function and caller.path != output.modular:
                for wrong, right in _find_misplaced(call.parameters, theirs):
                    what = f"{override.name} takes {wrong} where its caller at {caller} passes "
                    what += f"{right}: the parameters of {override.parent} have another order"
                    hint = f"give {right} the place that it has there"
                    yield Problem(override.at, "PG413", what, hint)


def _find_misplaced(names: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The first of `names` that stands where another of `theirs` does, with that one."""
    for name, other in zip(names, theirs, strict=False):
        if name != other and name in theirs:
            place = theirs.index(name)
            # What is there as well is passed twice.
            if name not in names[place : place + 1]:
                yield name, other
                return


def _find_unset(
    output: _Output, origins: Mapping[str, tuple[str, str]], env: Environment
) -> Iterator[Problem]:
    """A warning for what nothing fills, at the line of the modular file that brings it."""

    def is_own(line: int) -> bool:
        return output.locate(line).path == output.modular

    resolve = Bindings(env, Transformers("")).follow
    unset = find_unset(output.text, output.base, origins, is_own, env, resolve)
    for line, what, hint in unset:
        at = output.locate(line) if line else output.places[""]
        severity = "warning" if hint else "note"
        yield Problem(at, "PG421", what, hint, severity)


def _find_patchgen_imports(parsed: Parsed, modular: str) -> Iterator[Problem]:
    """A problem for each import of patchgen, because generated files are used without it."""
    for part in parsed.parts:
        if "patchgen" not in part.text:
            continue
        for item, _ in imports_in(part.text):
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
    for name, line, table in _list_table(parsed, _LAYERS):
        if name in parsed.bound or _MAKES_MODELS.search(output.text):
            continue
        at = output.find_written(line, table)
        if at is None:
            continue
        # Upstream lists classes of other models too; transformers ignores them.
        what = f"_no_split_modules names {name}, and the flat file has no such class"
        hint = did_you_mean(name, parsed.bound) or "name a class of it"
        # A copy of upstream's list has upstream's mistakes.
        is_upstreams = re.search(_LISTED.format(re.escape(name)), output.base or "")
        yield Problem(at, "PG409", what, hint, "warning" if is_upstreams else "error")


def _find_unknown_modules(parsed: Parsed, output: _Output) -> Iterator[Problem]:
    """A warning for each key of a plan, or of tied weights, of which a step is no module.

    _tied_weights_keys = {"lm_haed.weight": ...}             LlamaForCausalLM has no lm_haed
    base_model_tp_plan = {"layers.*.mlp.q_proj": ...}        LlamaMLP has no q_proj
    """
    is_configuration = output.file.kind == "configuration"
    # A copy of upstream's table has upstream's mistakes.
    upstream = output.base or ""
    keys = [each for each in _list_table(parsed, _PATHS) if f'"{each[0]}"' not in upstream]
    models = parsed
    if is_configuration and keys:
        models = parse_output("\n".join(output.beside))
    for key, line, table in keys:
        at = output.find_written(line, table)
        owner = table.partition(".")[0]
        if at is None or not _KEY.fullmatch(key):
            continue
        steps = tuple("[]" if step == "*" else step for step in key.split("."))
        first = steps[0]
        roots = [owner]
        if is_configuration:
            roots = [name for name, item in models.classes.items() if first in item.stored]
        lacking = [models.find_lacking(root, steps) for root in roots]
        if not roots and models.text and not _MAKES_MODELS.search(models.text):
            stored: set[str] = set()
            for item in models.classes.values():
                stored.update(item.stored)
            lacking = [("the model", first, stored)]
        if lacking and None not in lacking:
            holder, name, members = lacking[0] or ("", "", ())
            what = f"{key} names no module: {holder} has no {name}"
            hint = did_you_mean(name, members) or "name a module that it has"
            yield Problem(at, "PG426", what, hint, "warning")


def _find_unknown_fields(parsed: Parsed, output: _Output, env: Environment) -> Iterator[Problem]:
    """A warning for each field that no configuration has, and that is nearly called like one.

    self.width = config.hiden_size          nearly `hidden_size`
    """
    text = output.text
    read = Counter(_FIELD.findall(text))
    theirs = {*_FIELD.findall(output.base or "")}
    unknown: list[str] = []
    for name in sorted(read.keys() - theirs):
        # What is set, or asked for by a string, stands there alone.
        if count_words(name, text) == read[name]:
            unknown.append(name)
    configurations = _read_configurations(parsed, output, env) if unknown else ""
    declared = {*_DECLARED.findall(configurations), *theirs, *read}
    for name in unknown:
        near = find_near(name, declared - {name})
        if not near or count_words(name, configurations):
            continue
        above, _, _ = text.partition(f"config.{name}")
        line = above.count("\n") + 1
        at = output.locate(line)
        owner, place = output.find_declaration(line)
        if owner or at.path == output.modular:
            what = f"config.{name} is no field of the configuration"
            at = at if at.path == output.modular else place
            yield Problem(at, "PG426", what, f"did you mean {near}?", "warning")


def _read_configurations(parsed: Parsed, output: _Output, env: Environment) -> str:
    """The texts that may declare fields: the other outputs, and what configurations come from."""
    modules = {item.module for item in imports_of(parsed.body) if "Config" in item.name}
    texts = [*output.beside]
    for module in sorted({*modules, CONFIGURATION}):
        if env.path(module) is not None:
            texts.append(env.source(module, Location(module)).text)
    return "\n".join(texts)


def _list_table(parsed: Parsed, tables: re.Pattern[str]) -> Iterator[tuple[str, int, str]]:
    """The strings in tables of classes, each with its line and its table."""
    for part, inside in parsed.contents:
        for item in inside.classes:
            # Most classes have no table.
            if any(map(tables.fullmatch, item.bound)):
                for name, string in _list_strings(item.node, tables):
                    line = part.locate(string.lineno)
                    yield str(string.value), line, f"{item.node.name}.{name}"


def _list_strings(
    owner: ast.ClassDef, tables: re.Pattern[str]
) -> Iterator[tuple[str, ast.Constant]]:
    """The strings in tables of a class, each below the name of its table."""
    for node in owner.body:
        name = next(bound_names([node]), "")
        if not tables.fullmatch(name):
            continue
        value = getattr(node, "value", None)
        elements = [*getattr(value, "elts", ()), *getattr(value, "keys", ())]
        if name == "_tied_weights_keys":
            elements += getattr(value, "values", ())
        for element in elements:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                yield name, element

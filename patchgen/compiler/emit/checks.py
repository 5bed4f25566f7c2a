"""Check what a generated text calls, reads at import, and imports.

    class LlamaMLP(nn.Module):
        def __init__(self, config, scale): ...       the variant adds `scale`

    self.mlp = LlamaMLP(config)                      misses the argument scale
    self.mlp.scael(x)                                LlamaMLP has no scael

Checked is what is certain from the text and the files of the release: functions and classes by
their names, methods and modules on `self`, where `self.mlp = LlamaMLP(...)` or `self.layers =
nn.ModuleList([...])` says which class a module has.  Where decorators, computed bases or `*args`
are in play, nothing is reported.  What the text takes from the release is only listed here:
`release` looks it up.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from patchgen.compiler.emit.parsed import (
    SUPER,
    Class,
    Contents,
    Parsed,
    Part,
    imports_in,
    parse_output,
)
from patchgen.compiler.emit.release import absolute, find_base, may_be_missing
from patchgen.compiler.plan.lineage import c3
from patchgen.facts.bases import SET_ON_MODULES
from patchgen.facts.decorators import KEEPING_CALLS, KEEPING_SIGNATURE, TAKING_NO_KEYWORDS
from patchgen.syntax import trees
from patchgen.syntax.blocks import imports_of, references_in
from patchgen.syntax.bound import bound_names, own_nodes, parameters
from patchgen.syntax.fragments import split_lines
from patchgen.syntax.trees import Function

# The name of a parent's method that is kept beside the one that calls it.
KEPT_NAME = re.compile(r"\._(?P<method>\w+?)_of_(?P<owner>\w+?)(?:_\d+)?$")
_DEFAULT = re.compile(r"\.get_interface\(|: Callable = \w+$", re.MULTILINE)
_COMPOUND = ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match
_BUILT_IN = frozenset(dir(builtins)) | {
    *("__name__", "__file__", "__doc__", "__package__", "__spec__", "__class__")
}
_ALWAYS_THERE = frozenset(dir(object)) | SET_ON_MODULES


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong on `line` of a text; `detail` is what it is about, whatever classes are called.

    `what` ends with the place of the line `second`, where there is one.  `callee` is the function,
    class or method that the line calls.
    """

    line: int
    code: str
    what: str
    hint: str
    detail: str
    second: int = 0
    callee: str = ""
    severity: str = "error"


class Swallowed(NamedTuple):
    """A call with a keyword that only the `**kwargs` of `function` takes."""

    line: int
    callee: str
    keyword: str
    function: Function


class Ordered(NamedTuple):
    """A call that gives the `function` the values of some parameters by position."""

    line: int
    function: Function
    parameters: Sequence[str]


class Unanswered(NamedTuple):
    """A call that only the release can answer: of what is imported, or of a method of a base.

    `written` is the call as it stands in the text.  Without a method, `bases` is what is called;
    else the bases of `owner` outside of the text, as spelled.  `members` are what `owner` does
    have; with none, it may be any base that lacks it.
    """

    line: int
    written: str
    bases: Sequence[str]
    owner: str = ""
    method: str = ""
    members: Sequence[str] = ()


Result = Finding | Swallowed | Ordered | Unanswered


@functools.lru_cache(maxsize=64)
def find_mistakes(text: str) -> tuple[Finding, ...]:
    """What the text alone shows to be wrong."""
    parsed = parse_output(text)
    misfits: list[Finding] = []
    for result in check_calls(text):
        if isinstance(result, Finding):
            misfits.append(result)
        elif isinstance(result, Swallowed):
            misfits += _find_twice(result, parsed)
    disordered = _find_disordered(parsed)
    return (*_find_unbound(parsed), *_find_early(parsed), *disordered, *misfits)


# Names


def _find_unbound(parsed: Parsed) -> Iterator[Finding]:
    """The names that nothing binds."""
    # A star import may bind any name.
    if "*" in parsed.bound:
        return
    bound = {*parsed.bound, *_BUILT_IN}
    # A function may bind a global name before another one reads it.
    for part in parsed.parts:
        if "global" in part.text:
            bound |= trees.global_names(part.tree)
    for part in parsed.parts:
        for read in references_in(part.text):
            # Nothing evaluates a quoted annotation, which may be no type: `Float[Tensor, "batch"]`.
            if read.name not in bound and not read.quoted:
                line = part.locate(read.line)
                what = f"the name {read.name} is bound by nothing"
                yield Finding(line, "PG402", what, "import or define it", read.name)


def _find_early(parsed: Parsed) -> Iterator[Finding]:
    binders: dict[str, int] = {}
    for part, inside in parsed.contents:
        for name in inside.bound:
            binders.setdefault(name, part.locate(part.tree.body[0].lineno))
    bound = set(_BUILT_IN)
    for part, inside in parsed.contents:
        body = part.tree.body
        # Of several statements, and in a compound one, which stands first is not looked at.
        is_plain = len(body) == 1 and not isinstance(body[0], _COMPOUND)
        if is_plain:
            for read in references_in(part.text):
                if read.eager and read.name not in bound and read.name in binders:
                    what = f"{read.name} is read at import, above its definition at "
                    line = part.locate(read.line)
                    hint = "read it inside a function"
                    yield Finding(line, "PG410", what, hint, read.name, second=binders[read.name])
        match body:
            # Bound for type checkers alone.
            case [
                ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")) as only
            ]:
                bound.update(bound_names(only.orelse))
            case _:
                bound.update(inside.bound)


# Bases


def _find_disordered(parsed: Parsed) -> Iterator[Finding]:
    """The classes whose bases Python cannot put in one order."""
    lines: dict[str, tuple[str, ...]] = {}
    for part, inside in parsed.contents:
        for item in inside.classes:
            name = item.node.name
            # A base from elsewhere stands for itself.
            rows = [lines.get(base, (base,)) for base in item.bases]
            merged = c3([*rows, item.bases])
            if merged is None:
                what = f"the bases {', '.join(item.bases)} of {name} have no consistent order "
                what += "in the flat file"
                hint = "leave out a base that another one derives from there"
                yield Finding(part.locate(item.node.lineno), "PG107", what, hint, name)
            lines[name] = (name, *(merged or ()))


# Calls


@functools.lru_cache(maxsize=64)
def check_calls(text: str) -> tuple[Result, ...]:
    """Every call of `text` that would raise TypeError or AttributeError, as far as it shows."""
    parsed = parse_output(text)
    results: list[Result] = []
    for part, inside in parsed.contents:
        results += _check_names(part, inside, parsed)
        for item in inside.classes:
            if parsed.classes.get(item.node.name) is item:
                results += _check_class(part, item, parsed)
    return tuple(results)


def _check_names(part: Part, inside: Contents, parsed: Parsed) -> Iterator[Result]:
    # The positions at which a name is the one of the module, and not a local one.
    certain = {read.position for read in references_in(part.text) if not read.quoted}
    defaults = _find_defaults(part) if _DEFAULT.search(part.text) else {}
    for call in inside.calls:
        # Of a dotted expression, the first name stands where it begins.
        is_certain = trees.position_of(call.func) in certain
        name = trees.dotted(call.func) if is_certain or defaults else ""
        default = defaults.get(name, "")
        if default in parsed.functions:
            yield from _check(part, call, parsed.functions[default], default)
        if not is_certain:
            continue
        if name in parsed.functions:
            yield from _check(part, call, parsed.functions[name], name)
        elif name in parsed.classes:
            init = _find_init(parsed.classes[name].node, parsed)
            if init is not None:
                yield from _check(part, call, init, f"{name}.__init__")
        elif parsed.bound[name.partition(".")[0]] == 1:
            yield _ask(part, call, [name])


def _find_defaults(part: Part) -> dict[str, str]:
    """The functions that local names stand for where the configuration names no other.

    attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
    attend: Callable = eager_attention_forward                          of older releases
    """
    found: dict[str, str] = {}
    for node in trees.statements_within(part.tree):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ):
                match value:
                    case (
                        ast.Call(
                            func=ast.Attribute(attr="get_interface"), args=[_, ast.Name(id=given)]
                        )
                        | ast.Name(id=given)
                    ):
                        # One of several is not known.
                        found[name] = given if found.get(name, given) == given else ""
    return found


def _find_init(node: ast.ClassDef, parsed: Parsed) -> Function | None:
    """The `__init__` that takes the arguments of a class that is called."""
    # Keywords name a metaclass, whose `__call__` decides; `__new__` has a signature of its own, and
    # a decorator may give another one.
    if node.keywords or not trees.written_decorators(node) <= KEEPING_SIGNATURE:
        return None
    if parsed.method(node.name, "__new__") is not None:
        return None
    return parsed.method(node.name, "__init__")


def _check_class(part: Part, item: Class, parsed: Parsed) -> Iterator[Result]:
    calling = item.node.name
    for call, method, path in item.calls:
        if not path and "classmethod" in trees.written_decorators(method):  # `cls(config)`
            init = _find_init(item.node, parsed)
            if init is not None:
                yield from _check(part, call, init, f"{calling}.__init__")
            continue
        # The class of the object, and the method that is called on it.
        owner, name = parsed.follow(calling, path)
        if not owner and path[0] == SUPER and len(path) == 2:
            base = parsed.find_outside(calling)
            yield _ask(part, call, [base], "", path[1])
        if not owner or (not name and parsed.method(owner, "__call__")):
            continue
        called = name or "forward"
        callee = parsed.method(owner, called)
        if callee is not None:
            receiver = method.args.args[0].arg
            spelled = f"{receiver}.{name}"
            yield from _check(part, call, callee, f"{owner}.{called}", item, spelled)
        elif path[0] == SUPER:
            base = parsed.find_outside(owner)
            yield _ask(part, call, [base], "", name)
        # `hasattr(self, "name")`, `setattr(self, "name", ...)`
        elif name and f'"{name}"' not in parsed.text and f"'{name}'" not in parsed.text:
            known = parsed.list_members(owner)
            if known is None:
                continue
            members, outside = known
            if name not in {*parsed.foreign, *_ALWAYS_THERE, *members}:
                yield _ask(part, call, outside, owner, name, sorted(members))


def _ask(
    part: Part,
    call: ast.Call,
    bases: Sequence[str],
    owner: str = "",
    method: str = "",
    members: Sequence[str] = (),
) -> Unanswered:
    # To spell the call as messages do takes long: that is left to what finds a fault.
    written = trees.slice_of(split_lines(part.text), call)
    return Unanswered(part.locate(call.lineno), written, bases, owner, method, members)


def _check(
    part: Part,
    call: ast.Call,
    callee: Function,
    name: str,
    owner: Class | None = None,
    method: str = "",
) -> Iterator[Result]:
    """Check one call of `callee`, which stands in the class `owner`, as a call of `method`."""
    line = part.locate(call.lineno)
    signature = callee.args
    is_bound = "." in name and "staticmethod" not in trees.written_decorators(callee)
    why = explain_misfit(call, callee, is_bound=is_bound)
    if why is None:
        return
    yield from _check_values(part, call, callee, name)
    if why:
        spelled, callee_name = _spell_as_super(ast.unparse(call), name, method, owner)
        what = f"the call {spelled} does not fit: {callee_name} {why}"
        hint = "change the call, or keep the parameters that it passes"
        yield Finding(line, "PG406", what, hint, why, callee=name)
        return
    if len(call.args) > 1:
        positional = [each.arg for each in trees.list_positional(signature)][is_bound:]
        yield Ordered(line, callee, positional[: len(call.args)])
    if signature.kwarg is not None:
        named = parameters(callee)
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in named:
                yield Swallowed(line, name, keyword.arg, callee)


def _check_values(part: Part, call: ast.Call, callee: Function, name: str) -> Iterator[Finding]:
    """A finding where a call is unpacked into more or fewer names than its callee returns values.

    hidden, weights = self.attend(hidden)       def attend(self, x): ...; return x, None, None
    """
    wanted = unpacked_in(part.text).get(trees.position_of(call))
    if wanted is None:
        return
    counts: set[int] = set()
    for node in own_nodes(callee.body):
        if isinstance(node, ast.Return):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [None]
            # What else is returned may have any number.
            if None in values or any(isinstance(value, ast.Starred) for value in values):
                return
            counts.add(len(values))
    if counts and wanted not in counts:
        returned = " or ".join(map(str, sorted(counts)))
        why = f"returns {returned} values, and its caller unpacks {wanted}"
        what = f"{name} {why}"
        hint = "return as many values, or change the caller as well"
        line = part.locate(call.lineno)
        yield Finding(line, "PG425", what, hint, why, callee=name, severity="warning")


@functools.lru_cache(maxsize=1024)
def unpacked_in(text: str) -> dict[trees.Position, int]:
    """How many names the value of each call in `text` is unpacked into."""
    counts: dict[trees.Position, int] = {}
    tree = trees.parse_once(text)
    for node in trees.statements_within(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
                if not any(isinstance(target, ast.Starred) for target in targets):
                    counts[trees.position_of(call)] = len(targets)
    return counts


def explain_misfit(call: ast.Call, callee: Function, *, is_bound: bool) -> str | None:
    """Why the arguments of `call` do not bind to `callee`, or ""; None where it is not known.

    `is_bound`: the first parameter is given, as that of a method.
    """
    # A decorator may give the function another signature, or take keywords of its own.
    decorators = trees.written_decorators(callee) - {"classmethod", "staticmethod"}
    if not decorators <= KEEPING_CALLS:
        return None
    signature = callee.args
    takes_any = not decorators <= TAKING_NO_KEYWORDS
    positional = [each.arg for each in trees.list_positional(signature)][is_bound:]
    filled = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    # These three are wrong whatever stands behind `*` and `**`.
    if len(filled) > len(positional) and signature.vararg is None:
        return f"takes {len(positional)} positional arguments and gets {len(filled)}"
    today = find_old_names(callee)
    keywords = [today.get(each.arg, each.arg) for each in call.keywords if each.arg]
    named = {parameter.arg for parameter in (*signature.args, *signature.kwonlyargs)}
    if signature.kwarg is None and not takes_any:
        for keyword in keywords:
            if keyword not in named:
                return f"has no parameter {keyword}"
    taken = positional[: len(_before_star(call))]
    for keyword in keywords:
        if keyword in taken:
            return f"gets {keyword} twice"
    # `*args` or `**kwargs` in the call may fill any parameter.
    if len(filled) < len(call.args) or len(keywords) < len(call.keywords):
        return ""
    # Defaults belong to the last of the positional parameters; some may be bound already.
    required = positional[: max(0, len(positional) - len(signature.defaults))]
    for parameter, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
        if default is None:
            required.append(parameter.arg)
    for name in required:
        if name not in {*taken, *keywords}:
            return f"misses the argument {name}"
    return ""


def _before_star(call: ast.Call) -> list[ast.expr]:
    """The arguments whose positions are known: what `*args` holds is not."""
    return list(itertools.takewhile(lambda each: not isinstance(each, ast.Starred), call.args))


def find_old_names(function: Function) -> dict[str, str]:
    """The names that parameters had before, with those that they have now.

    @deprecate_kwarg("past_key_values", version="5.40", new_name="cache")
    """
    names: dict[str, str] = {}
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="deprecate_kwarg"),
                args=[ast.Constant(value=str(old)), *_],
                keywords=keywords,
            ):
                for keyword in keywords:
                    if keyword.arg == "new_name":
                        names[old] = ast.literal_eval(keyword.value)
    return names


def _spell_as_super(call: str, callee: str, method: str, owner: Class | None) -> tuple[str, str]:
    """A call and what it calls as written: `self._f_of_Parent(x)` was `super().f(x)`."""
    kept = KEPT_NAME.search(method)
    if kept is not None and owner is not None:
        # `__init__` is kept as `_init_of_Parent`.
        for name in owner.methods:
            if name.strip("_") == kept["method"]:
                return call.replace(method, f"super().{name}", 1), f"{kept['owner']}.{name}"
    return call, callee


def _find_twice(swallowed: Swallowed, parsed: Parsed) -> Iterator[Finding]:
    """The calls that a method gives a keyword of its `**kwargs` beside the same by position.

    self.layer(x, cache=cache)
    def forward(self, x, old, **kwargs): return super().forward(x, old, **kwargs)
    """
    function = swallowed.function
    keyword = swallowed.keyword
    # A decorator may take the keyword away.
    if not trees.written_decorators(function) <= TAKING_NO_KEYWORDS:
        return
    owner = swallowed.callee.rpartition(".")[0]
    for part, inside in parsed.contents:
        for item in inside.classes:
            if item.node.name != owner:
                continue
            for call, method, path in item.calls:
                if method is not function or not _hands_on(call, function):
                    continue
                holder, name = parsed.follow(owner, path)
                name = name or "forward"
                callee = parsed.method(holder, name) if holder else None
                positional = callee.args.args[1:] if callee else []
                given = [each.arg for each in positional[: len(_before_star(call))]]
                given += [each.arg or "" for each in call.keywords]
                if callee is not None and keyword in given:
                    receiver = f"{method.args.args[0].arg}.{name}"
                    written = ast.unparse(call)
                    spelled, called = _spell_as_super(written, f"{holder}.{name}", receiver, item)
                    why = f"gets {keyword} twice"
                    what = f"the call {spelled} does not fit: {called} {why}, here and "
                    what += f"from the caller of {swallowed.callee}, which passes {keyword}="
                    hint = f"give {swallowed.callee} the parameter {keyword}"
                    at = part.locate(call.lineno)
                    yield Finding(at, "PG406", what, hint, why, callee=swallowed.callee)


def _hands_on(call: ast.Call, function: Function) -> bool:
    """Whether a call is given the `**kwargs` of `function`."""
    stars = [ast.unparse(item.value) for item in call.keywords if item.arg is None]
    return function.args.kwarg is not None and function.args.kwarg.arg in stars


def find_parameters(function: Function | None) -> dict[str, bool]:
    """The parameters of a parent's method, each with whether it is read."""
    if function is None:
        return {}
    nodes = trees.walk_all(function.body)
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    return {name: name in read for name in parameters(function)}


def reads_beside(function: Function, name: str) -> bool:
    """Whether `function` does more with its parameter than pass it on as `name=name`."""
    passed = 0
    for node in trees.walk(function):
        match node:
            case ast.keyword(arg=keyword, value=ast.Name(id=value)) if keyword == value == name:
                passed += 1
    return sum(node.id == name for node in trees.names_within(function)) > passed


def passes_on(function: Function, keyword: str, parsed: Parsed) -> bool:
    """Whether a function does something with a keyword that its `**kwargs` takes."""
    for node in trees.walk(function):
        match node:
            # `kwargs.pop("cache")`
            case ast.Constant(value=value) if value == keyword:
                return True
            case ast.Call(func=callee) if _hands_on(node, function):
                # What is called on an object may want it; a local function, such as the attention
                # that was looked up by its name, is handed everything and knows no such word.
                if not isinstance(callee, ast.Name):
                    return True
                called = parsed.functions.get(callee.id)
                if called and keyword in parameters(called):
                    return True
    return False


# What only the release can answer


def list_questions(text: str, package: str = "") -> list[list[Any]]:
    """What the release has to be asked about a text, in a form that can be kept.

    Imports as (line, module, name), and calls as `Unanswered`, with bases as (module, name).  Dots
    stand for `package`; without one, what is imported by them lies beside the output.
    """
    parsed = parse_output(text)
    imports = []
    for part in parsed.parts:
        if "import" not in part.text:
            continue
        for item, is_conditional in imports_in(part.text):
            module = absolute(item, package)
            if not is_conditional and may_be_missing(module):
                imports.append([part.locate(item.line), module, item.name])
    bound = {item.bound: item for item in imports_of(parsed.body)}
    calls = []
    for call in check_calls(text):
        if isinstance(call, Unanswered):
            found = [find_base(base, bound, package) for base in call.bases]
            bases = [base for base in found if base is not None]
            # Nothing is known of what a call or a subscript derives from.
            is_known = len(bases) == len(found)
            if is_known and (call.owner or may_be_missing(bases[0][0])):
                calls.append([call.line, call.written, bases, *call[3:]])
    return [imports, calls]

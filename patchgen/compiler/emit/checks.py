"""Check what a generated text calls, reads at import, imports and leaves unset.

    class LlamaMLP(nn.Module):
        def __init__(self, config, scale): ...       the variant adds `scale`

    self.mlp = LlamaMLP(config)                      misses the argument scale
    self.mlp.scael(x)                                LlamaMLP has no scael

Checked is what is certain from the text: functions and classes by their names, methods and modules
on `self`, where `self.mlp = LlamaMLP(...)` or `self.layers = nn.ModuleList([...])` says which class
a module has.  Where decorators, computed bases or `*args` are in play, nothing is reported.  What
the text takes from the release is only listed here: `release` looks it up.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from patchgen.compiler.emit.parsed import (
    Class,
    Classes,
    Function,
    Parsed,
    Part,
    parse_output,
    read_classes,
)
from patchgen.compiler.emit.release import absolute, find_base, may_be_missing
from patchgen.facts.bases import NOT_SET_BY_DEFAULT, SET_BY_DEFAULT, SET_ON_MODULES
from patchgen.facts.decorators import KEEPING_CALLS, KEEPING_SIGNATURE
from patchgen.syntax.blocks import Import, imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import (
    called_function,
    children,
    global_names,
    list_parameters,
    mentions,
    parse_once,
    position_of,
    walk,
)

# The name of a parent's method that is kept beside the one that calls it.
_KEPT_NAME = re.compile(r"\._(?P<method>\w+?)_of_(?P<owner>\w+?)(?:_\d+)?$")
_COMPOUND = ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match
_BUILT_IN = frozenset(dir(builtins)) | {
    *("__name__", "__file__", "__doc__", "__package__", "__spec__", "__class__")
}
_ALWAYS_THERE = frozenset(dir(object)) | SET_ON_MODULES


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong on `line` of a text; `detail` is what it is about, whatever classes are called.

    `what` ends with the place of the line `second`, where there is one.
    """

    line: int
    code: str
    what: str
    hint: str
    detail: str
    subject: tuple[str, ...] = ()
    second: int = 0


@dataclass(frozen=True, slots=True)
class Swallowed:
    """A call on `line` with a keyword that only the `**kwargs` of `function` takes."""

    line: int
    callee: str
    keyword: str
    function: Function


@dataclass(frozen=True, slots=True)
class Calls:
    """What the calls of a text come to; nobody changes the lists.

    `unanswered` are those of methods that no class of the text has: (line, call, owner, name, bases
    outside of the text as spelled, members that have other names).
    """

    misfits: list[Finding] = field(default_factory=list)
    swallowed: list[Swallowed] = field(default_factory=list)
    unanswered: list[tuple[int, str, str, str, list[str], list[str]]] = field(default_factory=list)


@functools.lru_cache(maxsize=64)
def find_mistakes(text: str) -> tuple[Finding, ...]:
    """What the text alone shows to be wrong."""
    return (*_find_unbound(text), *_find_early(text), *check_calls(text).misfits)


# Names


def _find_unbound(text: str) -> Iterator[Finding]:
    """The names that nothing binds."""
    parsed = parse_output(text)
    bound = {*bound_names(parsed.body), *_BUILT_IN}
    # A function may bind a global name before another one reads it.
    for part in parsed.parts:
        if "global" in part.text:
            bound |= global_names(part.tree)
    # A star import may bind any name.
    for part in parsed.parts if "*" not in bound else ():
        for read in parsed.references(part):
            # Nothing evaluates a quoted annotation, which may be no type: `Float[Tensor, "batch"]`.
            if read.name not in bound and not read.quoted:
                what = f"the name {read.name} is bound by nothing"
                line = part.locate(read.line)
                yield Finding(line, "PG402", what, "import or define it", read.name)


def _find_early(text: str) -> Iterator[Finding]:
    """The names that are read at import before they are bound."""
    parsed = parse_output(text)
    binders: dict[str, int] = {}
    for part in parsed.parts:
        for node in part.tree.body:
            for name in bound_names([node]):
                binders.setdefault(name, part.locate(node.lineno))
    bound = set(_BUILT_IN)
    for part in parsed.parts:
        own = {name for node in part.tree.body for name in _bound_at_import(node)}
        # Of several statements, and in a compound one, which stands first is not looked at.
        is_plain = len(part.tree.body) == 1 and not isinstance(part.tree.body[0], _COMPOUND)
        for read in parsed.references(part) if is_plain else ():
            if read.eager and read.name not in bound and read.name in binders:
                line, binder = part.locate(read.line), binders[read.name]
                what = f"{read.name} is read at import, above its definition at "
                hint = "read it inside a function"
                yield Finding(line, "PG410", what, hint, read.name, second=binder)
        bound |= own


def _bound_at_import(node: ast.stmt) -> Iterator[str]:
    """The names that a statement binds when it runs."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            yield from bound_names(node.orelse)
        case _:
            yield from bound_names([node])


# Calls


@functools.lru_cache(maxsize=64)
def check_calls(text: str) -> Calls:
    """Every call of `text` that would raise TypeError or AttributeError, as far as it shows."""
    parsed, classes = parse_output(text), read_classes(text)
    calls = Calls()
    for part, inside in classes.contents:
        for call, name, function in _resolve_names(part, parsed, inside.calls, classes):
            bound = int(name.endswith(".__init__"))
            _check(part, call, function, bound, name, calls)
        for item in inside.classes:
            if classes.classes.get(item.node.name) is item:
                _check_class(part, item, classes, calls)
    calls.misfits.sort(key=lambda misfit: (misfit.line, misfit.what))
    return calls


def _check_class(part: Part, item: Class, classes: Classes, calls: Calls) -> None:
    """Check the calls on `self`, and on the modules of one class."""
    for call, method, path in item.calls:
        # The class of the object, and the method that is called on it.
        owner, name = classes.follow(item.node.name, path)
        if not owner or (not name and classes.method(owner, "__call__")):
            continue
        callee = classes.method(owner, name or "forward")
        if callee is not None:
            spelled = f"{method.args.args[0].arg}.{name}"
            full_name = f"{owner}.{name or 'forward'}"
            _check(part, call, callee, 1, full_name, calls, item, spelled)
        elif name:
            _ask(part, call, owner, name, classes, calls)


def _resolve_names(
    part: Part, parsed: Parsed, calls: Iterable[ast.Call], classes: Classes
) -> Iterator[tuple[ast.Call, str, Function]]:
    """The calls of functions and classes by their names, each with the function that runs."""
    # The positions at which a name is the one of the module, and not a local one.
    certain = {read.position for read in parsed.references(part) if not read.quoted}
    for call in calls:
        if not isinstance(call.func, ast.Name) or position_of(call.func) not in certain:
            continue
        name = call.func.id
        if name in classes.functions:
            yield call, name, classes.functions[name]
        elif name in classes.classes:
            init = _find_constructor(name, classes)
            if init is not None:
                yield call, f"{name}.__init__", init


def _find_constructor(name: str, classes: Classes) -> Function | None:
    """The `__init__` that a call of the class runs, where that is certain."""
    node = classes.classes[name].node
    decorators = {ast.unparse(called_function(each)) for each in node.decorator_list}
    # Keywords name a metaclass, whose `__call__` decides; `__new__` has a signature of its own.
    if node.keywords or not decorators <= KEEPING_SIGNATURE:
        return None
    return None if classes.method(name, "__new__") else classes.method(name, "__init__")


def _ask(part: Part, call: ast.Call, owner: str, name: str, classes: Classes, calls: Calls) -> None:
    """Add the call of a member that no class of the text has which may be meant, if it is one."""
    family = [classes.classes[each] for each in sorted(classes.family(owner))]
    members = {member for each in family for member in (*each.bound, *each.stored)}
    if name in members | classes.foreign | _ALWAYS_THERE or any(each.is_open for each in family):
        return
    # `hasattr(self, "name")`, `setattr(self, "name", ...)`
    if f'"{name}"' not in classes.text and f"'{name}'" not in classes.text:
        bases = dict.fromkeys(base for each in family for base in each.bases)
        outside = [base for base in bases if base not in classes.classes]
        line, spelled = part.locate(call.lineno), ast.unparse(call.func)
        calls.unanswered.append((line, spelled, owner, name, outside, sorted(members)))


def _check(
    part: Part,
    call: ast.Call,
    callee: Function,
    bound: int,
    name: str,
    calls: Calls,
    owner: Class | None = None,
    method: str = "",
) -> None:
    """Check one call of `callee`, whose first `bound` parameters are filled already.

    It stands in the class `owner`, as a call of `method`.
    """
    # A decorator may give the function another signature.
    decorators = {ast.unparse(called_function(each)) for each in callee.decorator_list}
    if not decorators <= KEEPING_CALLS:
        return
    line, signature = part.locate(call.lineno), callee.args
    why = _explain_misfit(call, signature, bound, takes_any=bool(decorators))
    if why:
        spelled, callee_name, caller = _spell_as_super(ast.unparse(call), name, method, owner)
        what = f"the call {spelled} does not fit: {callee_name} {why}"
        hint = "change the call, or keep the parameters that it passes"
        calls.misfits.append(
            Finding(line, "PG406", what, hint, why, subject=(caller, callee_name, why))
        )
    elif signature.kwarg is not None:
        named = {parameter.arg for parameter in list_parameters(signature)}
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in named:
                calls.swallowed.append(Swallowed(line, name, keyword.arg, callee))


def _explain_misfit(
    call: ast.Call, signature: ast.arguments, bound: int, *, takes_any: bool
) -> str:
    """Why the arguments of `call` do not bind, or "".

    The first `bound` parameters are filled already: `self`.  `takes_any`: a decorator may take
    keywords for itself.
    """
    positional = [each.arg for each in (*signature.posonlyargs, *signature.args)][bound:]
    filled = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    # These two are wrong whatever stands behind `*` and `**`.
    if len(filled) > len(positional) and signature.vararg is None:
        return f"takes {len(positional)} positional arguments and gets {len(filled)}"
    keywords = [keyword.arg for keyword in call.keywords if keyword.arg]
    named = {parameter.arg for parameter in (*signature.args, *signature.kwonlyargs)}
    if signature.kwarg is None and not takes_any:
        for keyword in keywords:
            if keyword not in named:
                return f"has no parameter {keyword}"
    # `*args` or `**kwargs` in the call may fill any parameter.
    if len(filled) < len(call.args) or len(keywords) < len(call.keywords):
        return ""
    taken = positional[: len(filled)]
    for keyword in keywords:
        if keyword in taken:
            return f"gets {keyword} twice"
    # Defaults belong to the last of the positional parameters; some may be bound already.
    required = positional[: max(0, len(positional) - len(signature.defaults))]
    for parameter, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
        required += [parameter.arg] if default is None else []
    for name in required:
        if name not in {*taken, *keywords}:
            return f"misses the argument {name}"
    return ""


def _spell_as_super(
    call: str, callee: str, method: str, owner: Class | None
) -> tuple[str, str, str]:
    """A call and what it calls as its author wrote them, and the class where that is `super()`.

    `self._f_of_Parent(x)` was written as `super().f(x)`.
    """
    kept = _KEPT_NAME.search(method)
    if kept is not None and owner is not None:
        # `__init__` is kept as `_init_of_Parent`.
        for name in owner.methods:
            if name.strip("_") == kept["method"]:
                spelled = call.replace(method, f"super().{name}", 1)
                return spelled, f"{kept['owner']}.{name}", owner.node.name
    return call, callee, ""


def find_parameters(text: str, method: str) -> dict[str, bool]:
    """The parameters of the parent's `method` in `text`, each with whether it is read."""
    for node in walk(parse_once(text)):
        if isinstance(node, Function) and node.name == method:
            parameters = (each.arg for each in (*node.args.args, *node.args.kwonlyargs))
            return {name: any(mentions(line, name) for line in node.body) for name in parameters}
    return {}


def passes_on(function: Function, keyword: str, text: str) -> bool:
    """Whether a function does something with a keyword that its `**kwargs` takes."""
    assert function.args.kwarg is not None
    kwargs = function.args.kwarg.arg
    functions = read_classes(text).functions
    for node in walk(function):
        match node:
            # `kwargs.pop("cache")`
            case ast.Constant(value=value) if value == keyword:
                return True
            case ast.Call(func=callee, keywords=keywords):
                stars = [each.value for each in keywords if each.arg is None]
                if not any(isinstance(star, ast.Name) and star.id == kwargs for star in stars):
                    continue
                # What is called on an object may want it; a local function, such as the attention
                # that was looked up by its name, is handed everything and knows no such word.
                if not isinstance(callee, ast.Name):
                    return True
                called = functions.get(callee.id)
                if called and keyword in {each.arg for each in list_parameters(called.args)}:
                    return True
    return False


# What only the release can answer


def list_questions(text: str, package: str = "") -> list[list[Any]]:
    """What the release has to be asked about a text, in a form that can be kept.

    Imports as (line, module, name), and methods as (line, call, owner, name, bases as (module,
    name), members that have other names).  Dots stand for `package`; without one, what is imported
    by them lies beside the output.
    """
    parsed = parse_output(text)
    imports = []
    for item, line in _list_imports(parsed):
        module = absolute(item, package)
        if may_be_missing(module):
            imports.append([line, module, item.name])
    bound = {item.bound: item for item in imports_of(parsed.body)}
    methods = []
    for line, call, owner, name, spelled, near in check_calls(text).unanswered:
        bases = [find_base(base, bound, package) for base in spelled]
        # Nothing is known of what a call or a subscript derives from.
        if None not in bases:
            methods.append([line, call, owner, name, bases, near])
    return [imports, methods]


def _list_imports(parsed: Parsed) -> Iterator[tuple[Import, int]]:
    """What `parsed` imports without a condition, in functions too, with the lines."""
    for part in parsed.parts:
        if "import" in part.text:
            for item in _imports_in(part.text):
                yield item, part.locate(item.line)


@functools.lru_cache(maxsize=4096)
def _imports_in(text: str) -> tuple[Import, ...]:
    found: list[Import] = []
    waiting: list[ast.AST] = [parse_once(text)]
    while waiting:
        node = waiting.pop()
        # What is imported under a condition may be missing.
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += imports_of([node])
        elif not isinstance(node, ast.If | ast.Try | ast.expr):
            waiting += children(node)
    return tuple(found)


# Parameters that nothing sets


_MADE = re.compile(r"^ +self\.\w+ = (?:torch\.)?nn\.[A-Z]\w*\(.*$", re.MULTILINE)


def find_unset(text: str, base: str) -> Iterator[tuple[int, str, str]]:
    """The parameters of `text` that the parent `base` lacks and that no `_init_weights` sets.

    Each with its line, what it means, and what to do.
    """
    # Most variants have no such line that is new; then nothing is read.
    if set(_MADE.findall(text)) <= set(_MADE.findall(base)):
        return
    classes, parents = read_classes(text), read_classes(base).classes
    every = [each.methods.get("_init_weights") for each in classes.classes.values()]
    setting = "".join(ast.unparse(method) for method in every if method)
    is_generic = not setting or "._init_weights(" in setting
    for part, inside in classes.contents:
        for item in inside.classes:
            owner = item.node.name
            known = parents[owner].stored if owner in parents else ()
            for attribute in item.stored.keys() - known:
                for value in item.stored[attribute]:
                    kind = _find_kind(value)
                    if not kind or (is_generic and _sets_by_default(kind, attribute, owner)):
                        continue
                    word = attribute if kind == "Parameter" else kind
                    # A conversion of checkpoints that names it fills it.
                    named = re.search(rf"""["'](?:\S*\W)?{attribute}\b""", text)
                    if value and not named and not re.search(rf"\b{word}\b", setting):
                        yield part.locate(value.lineno), *_explain_unset(owner, attribute, value)


def _explain_unset(owner: str, attribute: str, value: ast.expr) -> tuple[str, str]:
    """What it means that nothing sets `self.attribute = value`, and what to do."""
    text = ast.unparse(value)
    target = attribute if "Parameter(" in text else f"{attribute}.weight"
    fill = re.search(r"\btorch\.(ones|zeros)\b", text)
    setter = f"init.{fill[1] if fill else 'normal'}_(module.{target})"
    what = (
        f"{owner}.{attribute} is in no checkpoint of the parent, and no _init_weights sets it: "
        "from_pretrained leaves there what the memory holds"
    )
    hint = (
        "in `_init_weights` of the base model, below `super()._init_weights(module)`: "
        f"`if isinstance(module, {owner}): {setter}`, with "
        "`from transformers import initialization as init`"
    )
    return what, hint


def _find_kind(value: ast.expr | None) -> str:
    """The class of `torch.nn` that a value with parameters has, else ""."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=kind)):
            has_parameters = kind in {"Parameter"} | SET_BY_DEFAULT | NOT_SET_BY_DEFAULT
            return kind if has_parameters and ast.unparse(owner) in ("nn", "torch.nn") else ""
    return ""


def _sets_by_default(kind: str, attribute: str, owner: str) -> bool:
    """Whether `PreTrainedModel._init_weights` sets it."""
    if kind == "Parameter":
        is_norm = "LayerNorm" in owner or "RMSNorm" in owner
        return is_norm and attribute in ("weight", "bias")
    return kind in SET_BY_DEFAULT

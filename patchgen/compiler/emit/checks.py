"""Check what a generated text calls, reads at import, and leaves unset.

    class LlamaMLP(nn.Module):
        def __init__(self, config, scale): ...       the variant adds `scale`

    self.mlp = LlamaMLP(config)                      misses the argument scale
    self.mlp.scael(x)                                LlamaMLP has no scael

Checked is what is certain from the text: functions and classes by their names, methods and modules
on `self`, where `self.mlp = LlamaMLP(...)` or `self.layers = nn.ModuleList([...])` says which class
a module has.  Where decorators, computed bases or `*args` are in play, nothing is reported.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchgen.compiler.emit.parsed import (
    Class,
    Classes,
    Function,
    Parsed,
    Part,
    parse_output,
    read_classes,
)
from patchgen.facts.bases import NOT_SET_BY_DEFAULT, SET_BY_DEFAULT, SET_ON_MODULES
from patchgen.facts.decorators import KEEPING_CALLS, KEEPING_SIGNATURE
from patchgen.syntax.blocks import Import, imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import (
    called_function,
    children,
    list_parameters,
    mentions,
    parse_once,
    position_of,
    walk,
)

# The name of a parent's method that is kept beside the one that calls it.
_KEPT_NAME = re.compile(r"\._(?P<method>\w+?)_of_(?P<owner>\w+?)(?:_\d+)?$")
_COMPOUND = ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match


_ALWAYS_THERE = frozenset(dir(object)) | SET_ON_MODULES


@dataclass(frozen=True, slots=True)
class Misfit:
    """A call on `line` of the generated text: `call` as written, and why it does not fit.

    `caller` is the class that holds the call, where its author wrote `super()`.
    """

    line: int
    call: str
    callee: str
    why: str
    caller: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A call of the method `name` that no class of the text has.

    `bases` are those outside of the text, as spelled, which may have it.
    """

    line: int
    call: str
    owner: str
    name: str
    bases: tuple[str, ...]
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Swallowed:
    """A call on `line` with a keyword that only the `**kwargs` of `function` takes."""

    line: int
    callee: str
    keyword: str
    function: Function


@dataclass(frozen=True, slots=True)
class Calls:
    """What the calls of a text come to; nobody changes the lists."""

    misfits: list[Misfit]
    swallowed: list[Swallowed]
    unanswered: list[Unanswered]


@functools.lru_cache(maxsize=64)
def check_calls(text: str) -> Calls:
    """Every call of `text` that would raise TypeError or AttributeError, as far as it shows."""
    parsed, classes = parse_output(text), read_classes(text)
    calls = Calls([], [], [])
    for part, inside in classes.contents:
        for call, name, function in _resolve_names(part, parsed, inside.calls, classes):
            bound = int(name.endswith(".__init__"))
            misfit = _check(part, call, function, bound, name, calls.swallowed)
            calls.misfits.extend([misfit] if misfit else [])
        for item in inside.classes:
            if classes.classes.get(item.node.name) is item:
                _check_class(part, item, classes, calls)
    calls.misfits.sort(key=lambda misfit: (misfit.line, misfit.call))
    return calls


def _check_class(part: Part, item: Class, classes: Classes, calls: Calls) -> None:
    """Add what is wrong with the calls on `self`, and on the modules of one class, to `calls`."""
    for call, method, path in item.calls:
        # The class of the object, and the method that is called on it.
        owner, name = classes.follow(item.node.name, path)
        if not owner or (not name and classes.method(owner, "__call__")):
            continue
        callee = classes.method(owner, name or "forward")
        if callee is None:
            missing = _find_missing(part, call, owner, name, classes) if name else None
            calls.unanswered.extend([missing] if missing else [])
            continue
        full_name = f"{owner}.{name or 'forward'}"
        misfit = _check(part, call, callee, 1, full_name, calls.swallowed)
        if misfit is not None:
            spelled = f"{method.args.args[0].arg}.{name}"
            calls.misfits.append(_spell_as_super(misfit, spelled, item))


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


def _find_missing(
    part: Part, call: ast.Call, owner: str, name: str, classes: Classes
) -> Unanswered | None:
    """The call of a member that no class of the text has which may be meant, if it is one."""
    family = [classes.classes[each] for each in sorted(classes.family(owner))]
    members = {member for each in family for member in (*each.bound, *each.stored)}
    if name in members | classes.foreign | _ALWAYS_THERE or any(each.is_open for each in family):
        return None
    # `hasattr(self, "name")`, `setattr(self, "name", ...)`
    if f'"{name}"' in classes.text or f"'{name}'" in classes.text:
        return None
    bases = dict.fromkeys(base for each in family for base in each.bases)
    outside = tuple(base for base in bases if base not in classes.classes)
    line, spelled = part.locate(call.lineno), ast.unparse(call.func)
    return Unanswered(line, spelled, owner, name, outside, tuple(sorted(members)))


def _check(
    part: Part,
    call: ast.Call,
    callee: Function,
    bound: int,
    name: str,
    swallowed: list[Swallowed],
) -> Misfit | None:
    """The misfit of one call, if it has one; the first `bound` parameters are filled already.

    Keywords that `**kwargs` takes are added to `swallowed`.
    """
    # A decorator may give the function another signature.
    decorators = {ast.unparse(called_function(each)) for each in callee.decorator_list}
    if not decorators <= KEEPING_CALLS:
        return None
    line, signature = part.locate(call.lineno), callee.args
    why = _explain_misfit(call, signature, bound, takes_any=bool(decorators))
    if why:
        return Misfit(line, ast.unparse(call), name, why)
    if signature.kwarg is not None:
        named = {parameter.arg for parameter in list_parameters(signature)}
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in named:
                swallowed.append(Swallowed(line, name, keyword.arg, callee))
    return None


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


def _spell_as_super(misfit: Misfit, callee: str, owner: Class) -> Misfit:
    """`misfit` as its author wrote it: `super().f(x)`, for `self._f_of_Parent(x)`."""
    kept = _KEPT_NAME.search(callee)
    if kept is None:
        return misfit
    # `__init__` is kept as `_init_of_Parent`.
    name = next((each for each in owner.methods if each.strip("_") == kept["method"]), None)
    if name is None:
        return misfit
    call = misfit.call.replace(callee, f"super().{name}", 1)
    return replace(misfit, call=call, callee=f"{kept['owner']}.{name}", caller=owner.node.name)


def uses_argument(text: str, method: str, name: str) -> bool:
    """Whether the parent's `method` in `text` has a parameter and reads it."""
    for node in walk(parse_once(text)):
        if isinstance(node, Function) and node.name == method:
            parameters = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
            return name in parameters and any(mentions(inner, name) for inner in node.body)
    return False


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


@dataclass(frozen=True, slots=True)
class Unset:
    """A parameter, or a module with some, that `from_pretrained` would leave as memory is."""

    line: int
    owner: str
    attribute: str
    kind: str  # "nn.Parameter", "nn.GRU"
    setter: str  # of `transformers.initialization`


def find_unset(text: str, base: str) -> Iterator[Unset]:
    """The parameters of `text` that the parent `base` lacks and that no `_init_weights` sets."""
    # Most variants have no such line that is new; then nothing is read.
    if set(_MADE.findall(text)) <= set(_MADE.findall(base)):
        return
    classes, parents = read_classes(text), read_classes(base).classes
    initializers = [
        ast.unparse(each.methods["_init_weights"])
        for each in classes.classes.values()
        if "_init_weights" in each.methods
    ]
    setting = "".join(initializers)
    for part, inside in classes.contents:
        for item in inside.classes:
            parent = parents.get(item.node.name)
            for attribute, values in item.stored.items():
                if parent is not None and attribute in parent.stored:
                    continue
                for value in values:
                    kind, setter = _find_kind(value)
                    is_generic = not initializers or "._init_weights(" in setting
                    sets_it = is_generic and _sets_by_default(kind, attribute, item.node.name)
                    word = attribute if kind == "Parameter" else kind
                    if not kind or sets_it or re.search(rf"\b{word}\b", setting):
                        continue
                    # A conversion of checkpoints that names it fills it.
                    if not re.search(rf"""["'](?:\S*\W)?{attribute}\b""", text):
                        line = part.locate(value.lineno if value else 1)
                        yield Unset(line, item.node.name, attribute, f"nn.{kind}", setter)


_MADE = re.compile(r"^ +self\.\w+ = (?:torch\.)?(?:nn\.)?[A-Z]\w*\(.*$", re.MULTILINE)


def _find_kind(value: ast.expr | None) -> tuple[str, str]:
    """Of which class of `torch.nn` a value with parameters is, else ""; and how one sets it."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=kind)) if (
            ast.unparse(owner) in ("nn", "torch.nn")
            and kind in {"Parameter"} | SET_BY_DEFAULT | NOT_SET_BY_DEFAULT
        ):
            fill = re.match(r"nn\.Parameter\(torch\.(ones|zeros)\b", ast.unparse(value))
            return kind, f"{fill[1]}_" if fill else "normal_"
        case _:
            return "", ""


def _sets_by_default(kind: str, attribute: str, owner: str) -> bool:
    """Whether `PreTrainedModel._init_weights` sets it."""
    if kind == "Parameter":
        is_norm = "LayerNorm" in owner or "RMSNorm" in owner
        return is_norm and attribute in ("weight", "bias")
    return kind in SET_BY_DEFAULT


def list_imports(parsed: Parsed) -> Iterator[tuple[Import, int]]:
    """What `parsed` imports without a condition, in functions too, with the lines."""
    for part in parsed.parts:
        if "import" in part.text:
            for item in _list_imports(part.text):
                yield item, part.locate(item.line)


@functools.lru_cache(maxsize=4096)
def _list_imports(text: str) -> tuple[Import, ...]:
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


@functools.lru_cache(maxsize=64)
def read_early(text: str) -> tuple[tuple[str, int, int], ...]:
    """Names that are read at import before they are bound: (name, line, line that binds it)."""
    parsed = parse_output(text)
    binders: dict[str, int] = {}
    for part in parsed.parts:
        for node in part.tree.body:
            for name in bound_names([node]):
                binders.setdefault(name, part.locate(node.lineno))
    found: list[tuple[str, int, int]] = []
    bound = set(dir(builtins))
    for part in parsed.parts:
        own = {name for node in part.tree.body for name in _bound_at_import(node)}
        # Of several statements, and in a compound one, which stands first is not looked at.
        is_plain = len(part.tree.body) == 1 and not isinstance(part.tree.body[0], _COMPOUND)
        for read in parsed.references(part) if is_plain else ():
            if read.eager and read.name not in bound and read.name in binders:
                found.append((read.name, part.locate(read.line), binders[read.name]))
        bound |= own
    return tuple(found)


def _bound_at_import(node: ast.stmt) -> Iterator[str]:
    """The names that a statement binds when it runs."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            yield from bound_names(node.orelse)
        case _:
            yield from bound_names([node])

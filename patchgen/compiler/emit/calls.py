"""Find calls inside a generated module that do not fit the signature of what they call.

    class LlamaMLP(nn.Module):
        def __init__(self, config, scale): ...       the variant adds `scale`

    self.mlp = LlamaMLP(config)                      misses the argument scale

Such a call would fail when the model is built.  Checked are calls whose callee is certain: a
function or class of the module by its name, and `self.method(...)` where the class or an ancestor
in the module defines a plain method.  Where decorators, `*args` or other bases are in play, nothing
is reported.
"""

from __future__ import annotations

import ast
import bisect
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.emit.parsed import Part, parse_output
from patchgen.facts.decorators import KEEPING_SIGNATURE
from patchgen.syntax.blocks import first_line
from patchgen.syntax.trees import (
    Position,
    called_function,
    decorator_names,
    parse_once,
    position_of,
    walk,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
# The name of a parent's method that is kept beside the one that calls it.
_KEPT_NAME = re.compile(r"\._(?P<method>\w+?)_of_(?P<owner>\w+?)(?:_\d+)?$")


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
class _Definitions:
    """The functions and classes of a module, and the part of its text that each class stands in.

    Of several classes with one name, the last counts.
    """

    functions: Mapping[str, Function]
    classes: Mapping[str, ast.ClassDef]
    homes: Mapping[str, Part]

    def classes_in(self, part: Part) -> list[ast.ClassDef]:
        """The classes of the module that stand in `part`."""
        names = dict.fromkeys(
            node.name for node in part.tree.body if isinstance(node, ast.ClassDef)
        )
        return [self.classes[name] for name in names if self.homes[name] is part]


# Many variants of a run have one parent, whose text is asked about each time.
@functools.lru_cache(maxsize=64)
def find_misfits(text: str) -> tuple[Misfit, ...]:
    """Every call of `text` that would raise TypeError for its arguments."""
    parsed = parse_output(text)
    definitions = _find_definitions(parsed.parts)
    found: list[Misfit] = []
    for part in parsed.parts:
        # The positions at which a name is the one of the module, and not a local one.
        certain = {read.position for read in parsed.references(part) if not read.quoted}
        for misfit in _check_part(part, certain, definitions):
            found.append(replace(misfit, line=part.locate(misfit.line)))
    return tuple(sorted(found, key=lambda misfit: (misfit.line, misfit.call)))


def _find_definitions(parts: Iterable[Part]) -> _Definitions:
    """What `parts` define."""
    functions: dict[str, Function] = {}
    classes: dict[str, ast.ClassDef] = {}
    homes: dict[str, Part] = {}
    for part in parts:
        for node in part.tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name], homes[node.name] = node, part
            elif isinstance(node, Function) and not node.decorator_list:
                functions[node.name] = node
    return _Definitions(functions, classes, homes)


def _check_part(part: Part, certain: set[Position], definitions: _Definitions) -> Iterator[Misfit]:
    """The misfits in one part of the text, by its own lines."""
    calls = _find_calls(part.text)
    yield from _check_names(calls, certain, definitions)
    for owner in definitions.classes_in(part):
        yield from _check_methods(calls, owner, definitions.classes)


@functools.lru_cache(maxsize=512)  # Variants of one parent have most parts in common.
def _find_calls(text: str) -> Sequence[ast.Call]:
    """The calls in a part of a text, by line, so that those of a method stand together."""
    calls = [node for node in walk(parse_once(text)) if isinstance(node, ast.Call)]
    return sorted(calls, key=_line_of)


def _line_of(call: ast.Call) -> int:
    return call.lineno


def _check_names(
    calls: Sequence[ast.Call], certain: set[Position], definitions: _Definitions
) -> Iterator[Misfit]:
    """Check the calls of functions and classes by their names."""
    functions, classes = definitions.functions, definitions.classes
    for call in calls:
        # A local variable may have the name of a function.
        if not isinstance(call.func, ast.Name) or position_of(call.func) not in certain:
            continue
        name = call.func.id
        if name in functions:
            yield from _check(call, functions[name], 0, name)
        elif name in classes:
            init = _find_constructor(classes[name], classes)
            if init is not None:
                yield from _check(call, init, 1, f"{name}.__init__")


def _check_methods(
    calls: Sequence[ast.Call], owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef]
) -> Iterator[Misfit]:
    """Check the calls of methods on `self`, or on `cls`, in the class `owner`."""
    for method in owner.body:
        if isinstance(method, Function):
            within = _find_calls_within(method, calls)
            yield from _check_calls_on_object(within, method, owner, classes)


def _find_calls_within(method: Function, calls: Sequence[ast.Call]) -> Sequence[ast.Call]:
    """Those of `calls`, in the order of their lines, that stand in `method`."""
    # No other statement shares a line with a method.
    start = bisect.bisect_left(calls, first_line(method), key=_line_of)
    stop = bisect.bisect_right(calls, method.end_lineno or method.lineno, key=_line_of)
    return calls[start:stop]


def _check_calls_on_object(
    calls: Sequence[ast.Call],
    method: Function,
    owner: ast.ClassDef,
    classes: Mapping[str, ast.ClassDef],
) -> Iterator[Misfit]:
    """Check what one method of the class `owner` calls on its first parameter.

    `calls` are all that stand in the method.
    """
    # What a static method is given first may be anything.
    if not method.args.args or "staticmethod" in decorator_names(method):
        return
    receiver = method.args.args[0].arg
    for call, attribute in _find_calls_on(receiver, calls):
        target = _find_method(owner, attribute, classes)
        # A decorator may give the method another signature.
        if target is None or target.decorator_list:
            continue
        for misfit in _check(call, target, 1, f"{owner.name}.{attribute}"):
            yield _spell_as_super(misfit, f"{receiver}.{attribute}", owner)


def _spell_as_super(misfit: Misfit, callee: str, owner: ast.ClassDef) -> Misfit:
    """`misfit` as its author wrote it: `super().f(x)`, for `self._f_of_Parent(x)`."""
    kept = _KEPT_NAME.search(callee)
    if kept is None:
        return misfit
    # `__init__` is kept as `_init_of_Parent`.
    methods = [node.name for node in owner.body if isinstance(node, Function)]
    name = next((each for each in methods if each.strip("_") == kept["method"]), None)
    if name is None:
        return misfit
    call = misfit.call.replace(callee, f"super().{name}", 1)
    return replace(misfit, call=call, callee=f"{kept['owner']}.{name}", caller=owner.name)


def _find_calls_on(receiver: str, calls: Iterable[ast.Call]) -> Iterator[tuple[ast.Call, str]]:
    """Those of `calls` that are `receiver.name(...)`, each with the name."""
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == receiver:
                yield call, attribute


def _find_constructor(owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Function | None:
    """The `__init__` that a call of `owner` runs, where that is certain."""
    for decorator in owner.decorator_list:
        if ast.unparse(called_function(decorator)) not in KEEPING_SIGNATURE:
            return None
    # Keywords name a metaclass, whose `__call__` decides.
    if owner.keywords:
        return None
    # `__new__` has a signature of its own.
    if _find_method(owner, "__new__", classes) is not None:
        return None
    init = _find_method(owner, "__init__", classes)
    # A decorator may give the method another signature.
    if init is None or init.decorator_list:
        return None
    return init


def _find_method(
    owner: ast.ClassDef, name: str, classes: Mapping[str, ast.ClassDef]
) -> Function | None:
    """The method that `owner` has under `name`, where its single bases in the module say so."""
    binders = [node for node in owner.body if name in _find_bound(node)]
    if len(binders) == 1 and isinstance(binders[0], Function):
        return binders[0]
    # Bound twice, or by something else: which value counts is not known.
    if binders:
        return None
    match owner.bases:
        case [ast.Name(id=base)] if base in classes and base != owner.name:
            return _find_method(classes[base], name, classes)
        case _:
            return None


def _find_bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a class body may bind."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    bound: set[str] = set()
    for inner in walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            bound.add(inner.id)
    return bound


def _check(call: ast.Call, callee: Function, bound: int, name: str) -> Iterator[Misfit]:
    """The misfit of one call, if it has one; the first `bound` parameters are filled already."""
    why = _explain_misfit(call, callee.args, bound)
    if why:
        yield Misfit(call.lineno, ast.unparse(call), name, why)


def _explain_misfit(call: ast.Call, signature: ast.arguments, bound: int) -> str:
    """Why the arguments of `call` do not bind, or "".

    The first `bound` parameters are filled already: `self`.
    """
    parameters = [*signature.posonlyargs, *signature.args]
    positional = [parameter.arg for parameter in parameters][bound:]
    given = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    # These two are wrong whatever stands behind `*` and `**`.
    has_too_many = len(given) > len(positional)
    if has_too_many and signature.vararg is None:
        return f"takes {len(positional)} positional arguments and gets {len(given)}"
    keywords = [keyword.arg for keyword in call.keywords if keyword.arg]
    unknown = _find_unknown(keywords, signature)
    if unknown is not None:
        return f"has no parameter {unknown}"
    # `*args` or `**kwargs` in the call may fill any parameter.
    has_starred = len(given) < len(call.args)
    has_double_starred = len(keywords) < len(call.keywords)
    if has_starred or has_double_starred:
        return ""
    filled = positional[: len(given)]
    return _explain_filling(filled, keywords, signature, positional)


def _explain_filling(
    filled: list[str], keywords: list[str], signature: ast.arguments, positional: list[str]
) -> str:
    """Why a call that spells all of its arguments out fills a parameter twice or not, or "".

    `filled` are the parameters that it gives by position.
    """
    for keyword in keywords:
        if keyword in filled:
            return f"gets {keyword} twice"
    given = {*filled, *keywords}
    for required in _find_required(signature, positional):
        if required not in given:
            return f"misses the argument {required}"
    return ""


def _find_unknown(keywords: list[str], signature: ast.arguments) -> str | None:
    """The first keyword that is no parameter and that no `**kwargs` takes."""
    if signature.kwarg is not None:
        return None
    known = {parameter.arg for parameter in [*signature.args, *signature.kwonlyargs]}
    for keyword in keywords:
        if keyword not in known:
            return keyword
    return None


def _find_required(signature: ast.arguments, positional: list[str]) -> Iterator[str]:
    """The parameters without a default."""
    # Defaults belong to the last of the positional parameters; some may be bound already.
    count = len(positional) - len(signature.defaults)
    yield from positional[: max(0, count)]
    for parameter, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
        if default is None:
            yield parameter.arg

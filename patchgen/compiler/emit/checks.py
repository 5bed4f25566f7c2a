"""Read a generated text once for the last checks: its classes, what they call, what it imports.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchgen.compiler.emit.parsed import Parsed, Part, parse_output
from patchgen.facts.bases import SET_ON_MODULES
from patchgen.facts.decorators import ADDING_NOTHING, KEEPING_CALLS, KEEPING_SIGNATURE
from patchgen.syntax.blocks import Import, imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import (
    called_function,
    children,
    decorator_names,
    list_parameters,
    parse_once,
    position_of,
    walk,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Path = tuple[str, ...]
# The name of a parent's method that is kept beside the one that calls it.
_KEPT_NAME = re.compile(r"\._(?P<method>\w+?)_of_(?P<owner>\w+?)(?:_\d+)?$")
_COMPOUND = ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match
_ELEMENT = "[]"  # the step of a path from a list to what is in it


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
class Calls:
    """What the calls of a text come to.

    `swallowed` are those with a keyword, the `why`, that only `**kwargs` of the callee takes.
    """

    misfits: tuple[Misfit, ...]
    swallowed: tuple[Misfit, ...]
    unanswered: tuple[Unanswered, ...]


@dataclass(frozen=True, slots=True)
class _Class:
    """A class of the text: its methods, and the values that they store on `self`.

    `calls` are those on `self` and what hangs on it, each with its method and the steps from `self`
    to what is called.  `is_open`: it may have members that nothing in the text shows.
    """

    node: ast.ClassDef
    bound: frozenset[str]
    methods: Mapping[str, Function]
    stored: Mapping[str, Sequence[ast.expr | None]]
    calls: Sequence[tuple[ast.Call, Function, Path]]
    is_open: bool


@dataclass(frozen=True, slots=True)
class _Contents:
    """What one part of a text has.  `foreign` are attributes that it stores on other objects."""

    classes: Sequence[_Class]
    functions: Sequence[Function]
    calls: Sequence[ast.Call]
    foreign: frozenset[str]


# Variants of one parent have most parts in common.
@functools.lru_cache(maxsize=1024)
def _read(text: str) -> _Contents:
    """Read the part `text`, each node once."""
    classes: list[_Class] = []
    functions: list[Function] = []
    calls: list[ast.Call] = []
    foreign: set[str] = set()
    for node in parse_once(text).body:
        if isinstance(node, Function) and not node.decorator_list:
            functions.append(node)
        if isinstance(node, ast.ClassDef):
            inner = [(statement, list(walk(statement))) for statement in node.body]
            classes.append(_read_class(node, inner))
            nodes = [each for _, within in inner for each in within]
            for head in (*node.decorator_list, *node.bases, *node.keywords):
                nodes += walk(head)
        else:
            nodes = list(walk(node))
        for each in nodes:
            if isinstance(each, ast.Call):
                calls.append(each)
            elif isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load):
                if not (isinstance(each.value, ast.Name) and each.value.id == "self"):
                    foreign.add(each.attr)
    return _Contents(classes, functions, calls, frozenset(foreign))


def _read_class(node: ast.ClassDef, inner: Sequence[tuple[ast.stmt, Sequence[ast.AST]]]) -> _Class:
    """Read a class; `inner` are its statements with all nodes in each."""
    binders: dict[str, list[ast.stmt]] = {}
    stored: dict[str, list[ast.expr | None]] = {}
    calls: list[tuple[ast.Call, Function, Path]] = []
    names = {ast.unparse(called_function(decorator)) for decorator in node.decorator_list}
    is_open = bool(node.keywords) or not names <= ADDING_NOTHING
    for statement, nodes in inner:
        for name in dict.fromkeys(bound_names([statement])):
            binders.setdefault(name, []).append(statement)
        is_open = is_open or any(map(_adds_unseen, nodes))
        # What a static method is given first may be anything.
        if (
            isinstance(statement, Function)
            and statement.args.args
            and "staticmethod" not in decorator_names(statement)
        ):
            _read_method(statement, nodes, stored, calls)
    # Bound twice, or by something else: which value counts is not known.
    methods = {
        name: found[0]
        for name, found in binders.items()
        if len(found) == 1 and isinstance(found[0], Function)
    }
    is_open = is_open or not {"__getattr__", "__getattribute__"}.isdisjoint(binders)
    return _Class(node, frozenset(binders), methods, stored, calls, is_open)


def _adds_unseen(node: ast.AST) -> bool:
    """Whether a node may give an object attributes whose names it does not write out."""
    match node:
        case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"), args=args):
            return not any(isinstance(each, ast.Constant) for each in args[:2])
        case ast.Attribute(attr="__dict__"):
            return True
    return False


def _read_method(
    method: Function,
    nodes: Sequence[ast.AST],
    stored: dict[str, list[ast.expr | None]],
    calls: list[tuple[ast.Call, Function, Path]],
) -> None:
    """Add what one method stores and calls on its first parameter."""
    receiver = method.args.args[0].arg
    values: dict[int, ast.expr | None] = {}
    bindings: dict[str, list[Path | None]] = {}
    sources: list[tuple[ast.expr, ast.expr]] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                values |= {id(target): value for target in targets}
                sources += [(target, value) for target in targets]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                values[id(target)] = value
            case (
                ast.For(target=target, iter=iterated)
                | ast.comprehension(target=target, iter=iterated)
            ):
                sources += _pair_elements(target, iterated)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                bindings.setdefault(name, []).append(None)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()) if (
                name == receiver
            ):
                stored.setdefault(attribute, []).append(values.get(id(node)))
            case ast.Call(
                func=ast.Attribute(attr=adds), args=[ast.Constant(value=str(name)), *_]
            ) if adds in ("register_buffer", "register_parameter", "add_module", "register_module"):
                stored.setdefault(name, []).append(None)
    # A nested function may have a `self` of its own.
    if len(bindings.get(receiver, ())) != 1:
        return
    paths: dict[str, Path] = {receiver: ()}
    for target, value in sources:
        # A name that is bound once is the same object wherever it is read.
        if isinstance(target, ast.Name) and len(bindings[target.id]) == 1:
            path = _find_path(value, paths)
            if path:
                paths[target.id] = path
    for node in nodes:
        if isinstance(node, ast.Call):
            path = _find_path(node.func, paths)
            if path is not None:
                calls.append((node, method, path))


def _pair_elements(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a loop, each with an expression for what it is bound to."""
    match target, iterated:
        case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[values, *_]):
            yield from _pair_elements(inner, values)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=several):
            for inner, values in zip(targets, several, strict=False):
                yield from _pair_elements(inner, values)
        case ast.Name(), _:
            yield target, ast.Subscript(iterated, ast.Constant(0), ast.Load())


def _find_path(node: ast.expr, paths: Mapping[str, Path]) -> Path | None:
    """The steps from `self` to the object that an expression means; `paths` are those of names."""
    match node:
        case ast.Name(id=name):
            return paths.get(name)
        case ast.Attribute(value=value, attr=step):
            pass
        # A slice of a list is a list.
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _find_path(value, paths)
        case ast.Subscript(value=value):
            step = _ELEMENT
        case _:
            return None
    path = _find_path(value, paths)
    return None if path is None else (*path, step)


@dataclass(frozen=True)
class _Text:
    """All classes and functions of a text, by their names."""

    classes: Mapping[str, _Class]
    functions: Mapping[str, Function]
    foreign: frozenset[str]
    _families: dict[str, frozenset[str]] = field(default_factory=dict)

    @functools.cached_property
    def _lines(self) -> list[list[str]]:
        """Each class with those of the text that it derives from."""
        lines = [[name] for name in self.classes]
        for line in lines:
            for each in line:
                bases = [
                    base.id for base in self.classes[each].node.bases if isinstance(base, ast.Name)
                ]
                line += [base for base in bases if base in self.classes and base not in line]
        return lines

    def family(self, name: str) -> frozenset[str]:
        """Every class that an object may be of, which a method of the class `name` has as `self`.

        With all that these derive from: a mixin calls what stands beside it.
        """
        if name not in self._families:
            related = [line for line in self._lines if name in line]
            self._families[name] = frozenset(each for line in related for each in line)
        return self._families[name]

    def bases_outside(self, names: Iterable[str]) -> tuple[str, ...]:
        """The bases of classes that are none of the text, as spelled."""
        spelled = []
        for name in sorted(names):
            for base in self.classes[name].node.bases:
                if not (isinstance(base, ast.Name) and base.id in self.classes):
                    spelled.append(ast.unparse(base))
        return tuple(dict.fromkeys(spelled))

    def method(self, owner: str, name: str) -> Function | None:
        """The method that `owner` has under `name`, where its single bases in the text say so."""
        seen = [owner]
        for each in seen:
            if name in self.classes[each].bound:
                return self.classes[each].methods.get(name)
            match self.classes[each].node.bases:
                case [ast.Name(id=base)] if base in self.classes and base not in seen:
                    seen.append(base)
        return None

    def step(self, owner: str, attribute: str) -> Path:
        """What `self.attribute` is: (CLASS,), or (CLASS, "[]") for a list of its objects; or ()."""
        family = self.family(owner)
        if attribute in self.foreign or any(attribute in self.classes[c].bound for c in family):
            return ()
        kinds: set[Path] = set()
        for name in family:
            for value in self.classes[name].stored.get(attribute, ()):
                kinds |= self._kinds(value)
        # Nothing can be called on None.
        kinds.discard(("None",))
        return kinds.pop() if len(kinds) == 1 else ()

    def _kinds(self, value: ast.expr | None) -> set[Path]:
        """What a value may be, as `step` says it."""
        match value:
            case ast.Constant(value=None):
                return {("None",)}
            case ast.IfExp(body=body, orelse=orelse):
                return self._kinds(body) | self._kinds(orelse)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return {(name,)}
            case ast.Call(
                func=ast.Attribute(attr="ModuleList") | ast.Name(id="ModuleList"), args=[listed]
            ):
                match listed:
                    case ast.ListComp(elt=made) | ast.GeneratorExp(elt=made):
                        elements = self._kinds(made)
                    case ast.List(elts=[_, *_] as several):
                        elements = set().union(*map(self._kinds, several))
                    case _:
                        return {()}
                return {(*kind, _ELEMENT) if len(kind) == 1 else () for kind in elements}
            case _:
                return {()}

    def follow(self, owner: str, path: Path) -> tuple[str, str]:
        """The class of the object at the end of `path`, and the attribute of it that is called.

        The attribute is "" where the object itself is called, and the class where it is unknown.
        """
        for number, step in enumerate(path):
            is_last = number == len(path) - 1
            if step == _ELEMENT:
                return "", ""
            kind = self.step(owner, step)
            follows_list = not is_last and path[number + 1] == _ELEMENT
            if follows_list:
                if len(kind) != 2:
                    return "", ""
                rest = path[number + 2 :]
                return self.follow(kind[0], rest) if rest else (kind[0], "")
            if is_last:
                return (kind[0], "") if len(kind) == 1 else (owner, step)
            if len(kind) != 1:
                return "", ""
            owner = kind[0]
        return owner, ""


@functools.lru_cache(maxsize=64)
def check_calls(text: str) -> Calls:
    """Every call of `text` that would raise TypeError or AttributeError, as far as it shows."""
    parsed = parse_output(text)
    contents = [(part, _read(part.text)) for part in parsed.parts]
    whole = _gather(parsed, [each for _, each in contents])
    misfits: list[Misfit] = []
    swallowed: list[Misfit] = []
    unanswered: list[Unanswered] = []
    for part, each in contents:
        for call, name, function in _resolve_names(part, parsed, each.calls, whole):
            bound = int(name.endswith(".__init__"))
            misfits += _check(part, call, function, bound, name, swallowed)
        for owner in each.classes:
            if whole.classes.get(owner.node.name) is not owner:
                continue
            for call, method, path in owner.calls:
                name, attribute = whole.follow(owner.node.name, path)
                target = whole.method(name, attribute or "forward") if name else None
                if target is None:
                    if name and attribute:
                        unanswered += _ask(part, call, name, attribute, whole, text)
                    continue
                if attribute == "" and whole.method(name, "__call__") is not None:
                    continue
                callee = f"{name}.{attribute or 'forward'}"
                for misfit in _check(part, call, target, 1, callee, swallowed):
                    receiver = method.args.args[0].arg
                    misfits.append(_spell_as_super(misfit, f"{receiver}.{attribute}", owner))
    misfits.sort(key=lambda misfit: (misfit.line, misfit.call))
    return Calls(tuple(misfits), tuple(swallowed), tuple(unanswered))


def _gather(parsed: Parsed, contents: Sequence[_Contents]) -> _Text:
    """The classes and functions of all parts; of several with one name, the last counts."""
    bound = list(bound_names(parsed.body))
    # What an assignment or an import binds as well may be anything.
    counts = {name: bound.count(name) for name in {*bound}} if len({*bound}) < len(bound) else {}
    classes: dict[str, _Class] = {}
    functions: dict[str, Function] = {}
    definitions: dict[str, int] = {}
    for part in parsed.parts:
        for node in part.tree.body:
            if isinstance(node, Function | ast.ClassDef):
                definitions[node.name] = definitions.get(node.name, 0) + 1
    for each in contents:
        classes |= {one.node.name: one for one in each.classes}
        functions |= {one.name: one for one in each.functions}
    unsure = {name for name, count in counts.items() if definitions.get(name, 0) != count}
    foreign = frozenset().union(*(each.foreign for each in contents))
    return _Text(
        {name: one for name, one in classes.items() if name not in unsure},
        {name: one for name, one in functions.items() if name not in unsure},
        foreign,
    )


def _resolve_names(
    part: Part, parsed: Parsed, calls: Iterable[ast.Call], whole: _Text
) -> Iterator[tuple[ast.Call, str, Function]]:
    """The calls of functions and classes by their names, each with the function that runs."""
    # The positions at which a name is the one of the module, and not a local one.
    certain = {read.position for read in parsed.references(part) if not read.quoted}
    for call in calls:
        if not isinstance(call.func, ast.Name) or position_of(call.func) not in certain:
            continue
        name = call.func.id
        if name in whole.functions:
            yield call, name, whole.functions[name]
        elif name in whole.classes:
            init = _find_constructor(name, whole)
            if init is not None:
                yield call, f"{name}.__init__", init


def _find_constructor(name: str, whole: _Text) -> Function | None:
    """The `__init__` that a call of the class runs, where that is certain."""
    node = whole.classes[name].node
    decorators = {ast.unparse(called_function(each)) for each in node.decorator_list}
    # Keywords name a metaclass, whose `__call__` decides; `__new__` has a signature of its own.
    if node.keywords or not decorators <= KEEPING_SIGNATURE:
        return None
    return None if whole.method(name, "__new__") else whole.method(name, "__init__")


def _ask(
    part: Part, call: ast.Call, owner: str, name: str, whole: _Text, text: str
) -> Iterator[Unanswered]:
    """The question who has the member `name`, if no class of the text that may be meant has it."""
    family = whole.family(owner)
    members: set[str] = set()
    for each in family:
        members |= whole.classes[each].bound | whole.classes[each].stored.keys()
    if name in members | whole.foreign | SET_ON_MODULES or any(
        whole.classes[c].is_open for c in family
    ):
        return
    # `hasattr(self, "name")`, `setattr(self, "name", ...)`
    if f'"{name}"' in text or f"'{name}'" in text:
        return
    bases = whole.bases_outside(family)
    line = part.locate(call.lineno)
    yield Unanswered(line, ast.unparse(call.func), owner, name, bases, tuple(sorted(members)))


def _check(
    part: Part,
    call: ast.Call,
    callee: Function,
    bound: int,
    name: str,
    swallowed: list[Misfit],
) -> Iterator[Misfit]:
    """The misfit of one call, if it has one; the first `bound` parameters are filled already.

    Keywords that `**kwargs` takes are added to `swallowed`.
    """
    # A decorator may give the function another signature.
    decorators = {ast.unparse(called_function(each)) for each in callee.decorator_list}
    if not decorators <= KEEPING_CALLS:
        return
    line, signature = part.locate(call.lineno), callee.args
    why = _explain_misfit(call, signature, bound, takes_any=bool(decorators))
    if why:
        yield Misfit(line, ast.unparse(call), name, why)
    elif signature.kwarg is not None:
        named = {parameter.arg for parameter in list_parameters(signature)}
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in named:
                swallowed.append(Misfit(line, ast.unparse(call), name, keyword.arg))


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


def _spell_as_super(misfit: Misfit, callee: str, owner: _Class) -> Misfit:
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

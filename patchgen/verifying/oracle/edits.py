"""Edits by the rules of `docs/edits.md`, on syntax trees: what `with old:` matches is replaced.

    class LlamaMLP(llama.LlamaMLP):
        @edit("forward")
        def clamp(self, gate: Hole):
            with old:
                self.act_fn(gate)
            with new:
                self.act_fn(gate.clamp(max=LIMIT))

gives the class a `forward` that is the parent's with the new code in it.  The parent's code keeps
the names of its module and its `super()`; the new code has those of the file with the edit, and so
reads `_names0["LIMIT"]`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import itertools
import linecache
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

from patchgen.edits import Edit
from patchgen.syntax.trees import Function

# The names of a module as its own text means them.
Originals = Callable[[str], Mapping[str, Any]]
_Suite = list[ast.stmt]
_NUMBERS = itertools.count()
_METHODS: dict[tuple[type, str], Method] = {}
_PLACES = ("new", "before", "after")


class DoesNotMatch(Exception):
    """An edit does not match, or not as often as it says."""


@dataclass(frozen=True)
class Method:
    """A method as text: its tree, the module and the class that it is of, and its names beside."""

    node: ast.FunctionDef
    module: str
    owner: type
    names: tuple[Names, ...] = ()

    def compiled(self) -> Any:
        """The method, with the decorators that it has."""
        parameters = ["__class__"]
        for number in range(len(self.names)):
            parameters.append(f"_names{number}")
        signature = ", ".join(parameters)
        tree: Any = ast.parse(f"def make({signature}): return {self.node.name}")
        tree.body[0].body.insert(0, self.node)
        text = ast.unparse(tree)
        module = sys.modules[self.module]
        # Beside the module's own file: transformers reads the model's name from its path.
        own = Path(str(module.__file__))
        file = str(own.with_name(f"{own.stem}_edited_{next(_NUMBERS)}.py"))
        lines = text.splitlines(keepends=True)
        linecache.cache[file] = (len(text), None, lines, file)
        made: dict[str, Any] = {}
        code = compile(text, file, "exec", dont_inherit=True)
        exec(code, vars(module), made)
        return made["make"](self.owner, *self.names)


class Names:
    """The globals of a file, as they are when they are read."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Any:
        return self.names[name] if name in self.names else getattr(builtins, name)


def make_edits(cls: type, originals: Originals) -> None:
    """Make the edits that `cls` and its bases have in the methods that are next in its order.

    Those of a base are made for this class alone: a class in front of the base has the result.
    """
    made: dict[tuple[type, str], Any] = {}
    for owner in reversed(cls.__mro__):
        callables = [inspect.unwrap(value) for value in vars(owner).values() if callable(value)]
        for declared in callables:
            if isinstance(declared, Edit):
                name = declared.method
                method = made.get((owner, name)) or _next(cls, owner, name, made)
                made[owner, name] = _edited(declared, method, originals)
    before: dict[type, dict[str, Method]] = defaultdict(dict)  # by the base that they stand before
    for (owner, name), method in made.items():
        if owner is cls:
            setattr(cls, name, method.compiled())
            _METHODS[cls, name] = method
            continue
        base = next(base for base in cls.__bases__ if issubclass(base, owner))
        order = base.__mro__
        between = order[: order.index(owner)]
        # An edited base of the file's own has it, as it was made.
        is_made = any(name in vars(each) for each in between)
        if not is_made:
            before[base][name] = method
    fronts: dict[type, type] = {}
    for base, methods in before.items():
        members = {name: method.compiled() for name, method in methods.items()}
        front = type(base.__name__, (base,), members)
        front.__module__ = base.__module__
        fronts[base] = front
        for name, method in methods.items():
            _METHODS[front, name] = method
    if fronts:
        bases = [fronts.get(base, base) for base in cls.__bases__]
        cls.__bases__ = tuple(bases)


def _next(cls: type, owner: type, name: str, made: Mapping[tuple[type, str], Method]) -> Method:
    """The method behind `owner` in the order of `cls`."""
    order = cls.__mro__
    for each in order[order.index(owner) + 1 :]:
        if (each, name) in made:
            return made[each, name]
        if (each, name) in _METHODS:
            return _METHODS[each, name]
        if name in vars(each):
            return _written(each, name)
    raise DoesNotMatch(f"no class behind {owner.__name__} has {name}")


def _written(cls: type, name: str) -> Method:
    """A method as its file has it."""
    file = sys.modules[cls.__module__].__file__
    text = "".join(linecache.getlines(str(file)))
    tree = ast.parse(text)
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
            continue
        for member in reversed(node.body):
            if isinstance(member, ast.FunctionDef) and member.name == name:
                return Method(member, cls.__module__, cls)
    raise DoesNotMatch(f"{cls.__name__}.{name} is not written in {file}")


# --- one edit


def _edited(declared: Edit, method: Method, originals: Originals) -> Method:
    function = inspect.unwrap(declared.declaration)
    assert isinstance(function, FunctionType)
    text = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(text).body[0]
    assert isinstance(node, Function)
    number = len(method.names)
    names = Names(function.__globals__)
    parent = originals(method.module)
    edit = _Edit(node, names, f"_names{number}", method.module, parent, method.node)
    changed = copy.deepcopy(method.node)
    edit.change(changed, declared.count)
    return Method(changed, method.module, method.owner, (*method.names, names))


@dataclass
class _Edit:
    """An edit that is being made in a method."""

    declared: Function
    names: Names
    table: str  # the name of `names` in the new code
    module: str  # that the method is of
    parent: Mapping[str, Any]  # and its names, before anything takes their place
    method: ast.FunctionDef
    holes: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)

    def change(self, method: ast.FunctionDef, times: int) -> None:
        """Make all of it in `method`."""
        self.read_names()
        self.change_signature(method)
        above: list[ast.expr] = []
        for decorator in self.declared.decorator_list:
            if "edit(" in ast.unparse(decorator):
                break
            above.append(self.carried(decorator))
        method.decorator_list[:0] = above
        replacements: list[tuple[Match, str, _Suite]] = []
        for old, place, new in self.pairs(self.declared.body):
            is_whole = place != "new" or not _alone(new)
            matches = list(self.matches(method, old, is_whole))
            if len(matches) != times:
                what = f"{self.declared.name} matches {len(matches)} times, not {times}"
                raise DoesNotMatch(f"{what}: {ast.unparse(ast.Module(old, []))[:80]}")
            for match in matches:
                replacements.append((match, place, new))
        for match, place, new in replacements:
            # As a module, since a statement may become several.
            code: ast.Module = self.carried(ast.Module(new, []), match)
            match.replace(method, place, code.body)
        method.body = method.body or [ast.Pass()]
        ast.fix_missing_locations(method)

    def read_names(self) -> None:
        """Which parameters are holes, and which names of the edit are variables of the method."""
        for argument in _arguments(self.declared.args):
            names = self.holes if _annotated(argument) == "Hole" else self.variables
            names.add(argument.arg)
        for statement in self.declared.body:
            for node in ast.walk(statement):
                match node:
                    case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                        self.variables.add(name)

    def pairs(self, body: _Suite) -> Iterator[tuple[_Suite, str, _Suite]]:
        """Each `with old:` with what follows it; they may stand under `while ...:`."""
        old: _Suite = []
        for node in body:
            match node:
                case ast.While(ast.Constant(value)) if value is ...:
                    yield from self.pairs(node.body)
                case ast.With([ast.withitem(ast.Name(name))]):
                    if name in _PLACES:
                        yield old, name, node.body
                    else:
                        old = node.body

    # --- the signature

    def change_signature(self, method: ast.FunctionDef) -> None:
        own = self.declared.args
        theirs = method.args
        plain = [*own.posonlyargs, *own.args]
        # Defaults belong to the last ones.
        required = len(plain) - len(own.defaults)
        defaults = [*[None] * required, *own.defaults]
        # `*rest: Hole` stands for the other parameters.
        is_placed = own.vararg is not None
        is_named = theirs.vararg is not None and not is_placed
        above: list[str] = []
        for argument, default in zip(plain, defaults, strict=True):
            place = _place_behind(above, theirs) if is_placed else None
            self.change_parameter(theirs, argument, default, is_named, place)
            above.append(argument.arg)
        for argument, default in zip(own.kwonlyargs, own.kw_defaults, strict=True):
            self.change_parameter(theirs, argument, default, is_named=True)
        if own.kwarg is not None:
            theirs.kwarg = ast.arg(own.kwarg.arg)
        # What stands in the place of another one is put behind it before that goes.
        for argument in _arguments(own):
            if _annotated(argument) == "Old":
                _remove_parameter(theirs, argument.arg)

    def change_parameter(
        self,
        theirs: ast.arguments,
        own: ast.arg,
        default: ast.expr | None,
        is_named: bool,
        place: int | None = None,
    ) -> None:
        kind = _annotated(own)
        value = self.carried(default) if default else None
        if kind == "New" and is_named:
            theirs.kwonlyargs.append(ast.arg(own.arg))
            theirs.kw_defaults.append(value)
        elif kind == "New":
            _add_parameter(theirs, own.arg, value, place)
        elif kind != "Old" and value is not None and not _is_dots(value):
            _set_default(theirs, own.arg, value)

    # --- matching

    def matches(self, method: ast.FunctionDef, old: _Suite, is_whole: bool) -> Iterator[Match]:
        """Every place of `method` that `old` matches."""
        if _alone(old) and not is_whole:
            pattern: Any = old[0]
            for node in ast.walk(ast.Module(method.body, [])):
                match = Match(node, [])
                if isinstance(node, ast.expr) and self.fits(pattern.value, node, match):
                    yield match
            return
        for body in _bodies(method):
            at = 0
            while at < len(body):
                match = Match(None, body)
                end = self.fits_run(old, body, at, match, is_open=True)
                if end is None or end == at:
                    at += 1
                    continue
                match.statements = body[at:end]
                yield match
                at = end

    def fits_run(
        self,
        old: _Suite,
        given: _Suite,
        at: int,
        match: Match,
        is_open: bool = False,
    ) -> int | None:
        """Where the statements end that `old` matches from `at` on; all must, unless it is open."""
        if not old:
            return at if is_open or at == len(given) else None
        if _is_dots(old[0]):
            for end in range(at, len(given) + 1):
                trial = match.copied()
                last = self.fits_run(old[1:], given, end, trial, is_open)
                if last is not None:
                    match.take(trial)
                    match.run = given[at:end]
                    return last
            return None
        if at == len(given):
            return None
        trial = match.copied()
        if not self.fits(old[0], given[at], trial):
            return None
        last = self.fits_run(old[1:], given, at + 1, trial, is_open)
        if last is not None:
            match.take(trial)
        return last

    def fits(self, old: Any, given: Any, match: Match) -> bool:
        """Whether the trees are one; notes what holes and `...` stand for."""
        if isinstance(old, ast.Name) and old.id in self.holes:
            if not isinstance(given, ast.expr):
                return False
            known = match.holes.setdefault(old.id, given)
            return ast.dump(known) == ast.dump(given)
        if isinstance(old, ast.Name | ast.Attribute) and self.root(old):
            return self.is_same_global(old, given)
        if isinstance(old, list):
            if old and isinstance(old[0], ast.stmt):
                return isinstance(given, list) and self.fits_run(old, given, 0, match) is not None
            same = isinstance(given, list) and len(old) == len(given)
            return same and all(self.fits(*pair, match) for pair in zip(old, given, strict=True))
        if type(old) is not type(given):
            return False
        if isinstance(old, ast.Call) and any(_is_dots(each) for each in old.args):
            return self.fits_call(old, given, match)
        if not isinstance(old, ast.AST):
            return bool(old == given)
        for name in old._fields:
            # What these say is in no code.
            if name in ("kind", "type_comment"):
                continue
            if not self.fits(getattr(old, name, None), getattr(given, name, None), match):
                return False
        return True

    def fits_call(self, old: ast.Call, given: ast.Call, match: Match) -> bool:
        """`f(x, ..., y=1)`: the other arguments are what `...` stands for."""
        before = list(itertools.takewhile(lambda argument: not _is_dots(argument), old.args))
        rest = given.args[len(before) :]
        if not self.fits(old.func, given.func, match):
            return False
        if not self.fits(before, given.args[: len(before)], match):
            return False
        others = {keyword.arg: keyword for keyword in given.keywords}
        for keyword in old.keywords:
            theirs = others.pop(keyword.arg, None)
            if theirs is None or not self.fits(keyword.value, theirs.value, match):
                return False
        match.arguments = (rest, list(others.values()))
        return True

    def root(self, node: ast.expr) -> str:
        """The global that a dotted name begins with; "" for a variable, or what is no such name."""
        name = _first_name(node)
        return "" if name in self.variables | self.holes else name

    def is_same_global(self, old: ast.expr, given: Any) -> bool:
        """Whether a dotted name of the edit means what one of the method does."""
        parameters = {node.arg for node in ast.walk(self.method) if isinstance(node, ast.arg)}
        first = _first_name(given)
        if not first or first in parameters:
            return False
        meant = _valued(old, self.names)
        if meant is _NOTHING:
            return False
        module = vars(sys.modules[self.module])
        return any(meant is _valued(given, Names(names)) for names in (self.parent, module))

    # --- the new code

    def carried(self, node: Any, match: Match | None = None) -> Any:
        """Code of the edit in the method: its globals are read from its own file."""
        return _Carry(self, match).visit(copy.deepcopy(node))


@dataclass
class Match:
    """A place that an edit matches: an expression, or statements of a body."""

    node: ast.AST | None
    body: _Suite
    statements: _Suite = field(default_factory=list)
    holes: dict[str, ast.expr] = field(default_factory=dict)
    arguments: tuple[list[ast.expr], list[ast.keyword]] = field(default_factory=lambda: ([], []))
    run: _Suite = field(default_factory=list)

    def copied(self) -> Match:
        return replace(self, holes=dict(self.holes))

    def take(self, other: Match) -> None:
        self.holes = other.holes
        self.arguments = other.arguments
        self.run = other.run

    def replace(self, method: ast.FunctionDef, place: str, code: _Suite) -> None:
        if self.node is not None:
            (new,) = code
            assert isinstance(new, ast.Expr)
            _Replace(self.node, new.value).visit(method)
            return
        first = self.body.index(self.statements[0])
        end = first + len(self.statements)
        if place == "before":
            end = first
        elif place == "after":
            first = end
        self.body[first:end] = [each for each in code if not isinstance(each, ast.Pass)]
        if not self.body:
            self.body.append(ast.Pass())


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self.old = old
        self.new = new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


class _Carry(ast.NodeTransformer):
    """Fill holes and `...`, and read globals from the file that the edit is in."""

    def __init__(self, edit: _Edit, match: Match | None = None) -> None:
        self.edit = edit
        self.match = match

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self.match and node.id in self.match.holes:
            return copy.deepcopy(self.match.holes[node.id])
        if self.edit.root(node) and node.id != "super":
            table = ast.Name(self.edit.table, ast.Load())
            return ast.Subscript(table, ast.Constant(node.id), ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        dots = [place for place, argument in enumerate(node.args) if _is_dots(argument)]
        self.generic_visit(node)
        if self.match and dots:
            rest, others = copy.deepcopy(self.match.arguments)
            node.args[dots[0] : dots[0] + 1] = rest
            for keyword in reversed(others):
                # What has a name comes first, and `**kwargs` last.
                place = 0 if keyword.arg else len(node.keywords)
                node.keywords.insert(place, keyword)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if self.match and _is_dots(node):
            return copy.deepcopy(self.match.run)
        return self.generic_visit(node)


# --- small things

_NOTHING = object()


def _first_name(node: Any) -> str:
    """The name that a dotted name begins with; "" for what is no such name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _valued(node: ast.expr, names: Names) -> Any:
    """What a dotted name means; modules and functions are compared as objects."""
    if isinstance(node, ast.Attribute):
        value = _valued(node.value, names)
        return value if value is _NOTHING else getattr(value, node.attr, _NOTHING)
    assert isinstance(node, ast.Name)
    try:
        return names[node.id]
    except (AttributeError, KeyError):
        return _NOTHING


def _arguments(given: ast.arguments) -> list[ast.arg]:
    extra = [each for each in (given.vararg, given.kwarg) if each]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


def _annotated(argument: ast.arg) -> str:
    """Hole, New or Old."""
    node = argument.annotation
    node = node.value if isinstance(node, ast.Subscript) else node
    return ast.unparse(node).rpartition(".")[2] if node else ""


def _remove_parameter(given: ast.arguments, name: str) -> None:
    for at, each in enumerate(given.kwonlyargs):
        if each.arg == name:
            del given.kwonlyargs[at], given.kw_defaults[at]
            return
    at = next(n for n, each in enumerate(given.args) if each.arg == name)
    from_end = len(given.args) - at
    if from_end <= len(given.defaults):
        del given.defaults[-from_end]
    del given.args[at]


def _place_behind(names: list[str], given: ast.arguments) -> int:
    """How many arguments by position stand up to the last of `names` that is one."""
    own = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    places = [own.index(name) + 1 for name in names if name in own]
    return places[-1] if places else 0


def _add_parameter(
    given: ast.arguments, name: str, value: ast.expr | None, place: int | None
) -> None:
    """Add one that is given by position, at a place or behind all."""
    count = len(given.posonlyargs)
    if place is None:
        place = count + len(given.args)
    required = count + len(given.args) - len(given.defaults)
    if value is not None:
        given.defaults.insert(max(0, place - required), value)
    if place < count:
        given.posonlyargs.insert(place, ast.arg(name))
    else:
        given.args.insert(place - count, ast.arg(name))


def _set_default(given: ast.arguments, name: str, value: ast.expr) -> None:
    for at, each in enumerate(given.kwonlyargs):
        if each.arg == name:
            given.kw_defaults[at] = value
            return
    from_end = next(len(given.args) - n for n, each in enumerate(given.args) if each.arg == name)
    if from_end == len(given.defaults) + 1:
        given.defaults.insert(0, value)
    else:
        given.defaults[-from_end] = value


def _is_dots(node: ast.AST) -> bool:
    node = node.value if isinstance(node, ast.Expr) else node
    return isinstance(node, ast.Constant) and node.value is ...


def _alone(body: _Suite) -> bool:
    """Whether it is one expression."""
    return len(body) == 1 and isinstance(body[0], ast.Expr) and not _is_dots(body[0])


def _bodies(node: ast.AST) -> Iterator[_Suite]:
    """Every list of statements below `node`."""
    for child in ast.iter_child_nodes(node):
        yield from _bodies(child)
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value

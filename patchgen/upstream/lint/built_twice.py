"""Find submodules that an `__init__` builds twice: in the parent's statement, then in the child's.

    self.mlp = LlamaMLP(config)         # from the parent: built, and thrown away
    self.norm = LlamaRMSNorm(...)
    self.mlp = Experts(config)          # PG740: an edit of `__init__` would replace the first

The rule reads the flat class, in which `super().__init__()` is the parent's statements, or a call
of the method that keeps them.  It reports nothing where an assignment is under a condition, where
the first value is read before it is replaced, or where the object is passed on in between.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen.compiler.flat import FlatFile
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.trees import names_within
from patchgen.upstream.lint.finding import finding

# They run at the end of an `__init__`, and read no submodule by its name.
_HARMLESS = frozenset({"post_init"})


@dataclass(frozen=True, slots=True)
class _Built:
    """`self.name = Class(...)`, a statement that always runs."""

    name: str
    node: ast.stmt


def built_twice(file: FlatFile, modular: str) -> Iterator[Problem]:
    """A finding for each value that an `__init__` builds and one of the file `modular` replaces."""
    # Where each line of the output came from: a finding is shown in the modular file.
    origins: dict[int, tuple[str, int]] = {}
    for origin in file.lines:
        for number in range(origin.last - origin.first + 1):
            origins[origin.first + number] = (origin.path, origin.line + number)
    for node in ast.parse(file.text).body:
        if isinstance(node, ast.ClassDef):
            methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
            yield from _in_class(methods, origins, modular)


def _in_class(
    methods: Mapping[str, ast.FunctionDef], origins: Mapping[int, tuple[str, int]], modular: str
) -> Iterator[Problem]:
    """The findings in the `__init__` of a flat class."""
    init = methods.get("__init__")
    if init is None or not init.args.args:
        return
    receiver = init.args.args[0].arg
    statements = tuple(_written_out(init, methods, receiver, frozenset()))
    for place, second in enumerate(statements):
        built = _built(second, receiver)
        path, line = origins.get(second.lineno, ("", 0))
        if built is None or path != modular:
            continue
        first = _last_built(statements[:place], built.name, receiver)
        # What the modular file builds twice itself is no matter of inheritance.
        if first is None or origins.get(first.lineno, (modular, 0))[0] == modular:
            continue
        between = statements[statements.index(first) + 1 : place]
        # The second statement may wrap the first value: `self.mlp = Wrapper(self.mlp)`.
        if not any(_may_read(node, built.name, receiver) for node in (*between, second)):
            at = Location(modular, line, 1)
            what = f"`{receiver}.{built.name}` is built twice"
            yield finding("PG740", at, what, "an edit of __init__ would replace it")


def _written_out(
    method: ast.FunctionDef,
    methods: Mapping[str, ast.FunctionDef],
    receiver: str,
    inside: frozenset[str],
) -> Iterator[ast.stmt]:
    """The statements of `method`, those of kept methods that it calls in their place."""
    for node in method.body:
        kept = methods.get(_called(node, receiver))
        # `inside` stops at a method that calls itself.
        if kept is None or kept.name in inside or not _is_copy(kept, receiver):
            yield node
        else:
            yield from _written_out(kept, methods, receiver, inside | {kept.name})


def _called(node: ast.stmt, receiver: str) -> str:
    """m of the statement `self.m(...)`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name))):
            return name if owner == receiver else ""
        case _:
            return ""


def _is_copy(method: ast.FunctionDef, receiver: str) -> bool:
    """Whether it is a parent's `__init__` under a private name, and runs to its end."""
    # Its statements can be read in place of the call only if they name the object alike.
    takes_it = bool(method.args.args) and method.args.args[0].arg == receiver
    returns = any(isinstance(node, ast.Return) for node in ast.walk(method))
    return method.name.startswith("_init_of_") and takes_it and not returns


def _built(node: ast.stmt, receiver: str) -> _Built | None:
    """What a statement builds for an attribute of `receiver`; None for all others."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)], value=value):
            pass
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=name), value=value):
            pass
        case _:
            return None
    return _Built(name, node) if owner == receiver and _makes_an_instance(value) else None


def _makes_an_instance(value: ast.expr | None) -> bool:
    """Whether `value` is the call of a class, as names of classes are written."""
    if not isinstance(value, ast.Call):
        return False
    parts = ast.unparse(value.func).split(".")
    is_class = parts[-1].lstrip("_")[:1].isupper()
    return is_class and all(part.isidentifier() for part in parts)


def _last_built(statements: tuple[ast.stmt, ...], name: str, receiver: str) -> ast.stmt | None:
    """The last of `statements` that names the attribute, where it builds a value for it."""
    for node in reversed(statements):
        built = _built(node, receiver)
        if built is not None and built.name == name:
            return node
        if _mentions(node, name):
            return None
    return None


def _mentions(node: ast.stmt, name: str) -> bool:
    return any(isinstance(child, ast.Attribute) and child.attr == name for child in ast.walk(node))


def _may_read(node: ast.stmt, name: str, receiver: str) -> bool:
    """Whether `node` reads the attribute, or hands the object to code that might."""
    # `ast` nodes do not know their parents: by identity, these say what stands around a name.
    held: dict[int, ast.Attribute] = {}
    called: set[int] = set()
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=value):
                held[id(value)] = child
            case ast.Call(func=func):
                called.add(id(func))
    for child in names_within(node):
        if child.id != receiver:
            continue
        attribute = held.get(id(child))
        # The object itself is passed on.
        if attribute is None:
            return True
        if attribute.attr == name and isinstance(attribute.ctx, ast.Load):
            return True
        # A method of its own may read any attribute.
        if id(attribute) in called and attribute.attr not in _HARMLESS:
            return True
    return False

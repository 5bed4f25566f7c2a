"""The text of live functions, classes and constants, with what they read.

    def clamp(x): return x.clamp(-LIMIT, LIMIT)     pieces: LIMIT = 7.0, then the function

What an installed module offers by its name is imported.  What stands in the user's own files is
copied, and what it reads comes along, the values of a closure too.  All else is `Unwritable`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import logging
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, partialmethod
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from patchgen import disk
from patchgen.author.align.file import imports_in
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import called_function
from patchgen.unpatching import SUPER
from patchgen.unpatching.capture import MODELING, Difference
from patchgen.unpatching.values import (
    contents_of,
    describe,
    fresh_module,
    is_of_user,
    is_same,
    place_of,
    root_of,
    source_of,
)


class Unwritable(Exception):
    """A value that no text says; the message is why."""


_Code = tuple[str, tuple[str, ...]]  # what binds a name, and which pieces it needs
_Imports = Mapping[str, tuple[str, str]]  # the module and the attribute that a name is of


@dataclass(frozen=True)
class Piece:
    """What binds `name`, and which other pieces have to stand above it."""

    name: str
    text: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Assigned:
    """A difference that can be written: `target = value`, with the pieces that it needs."""

    number: int
    path: str
    value: str
    needs: tuple[str, ...]


class Writer:
    """The pieces of all differences.  Each name stands for one value."""

    replaced: Difference  # what is being written

    def __init__(self) -> None:
        self.pieces: dict[str, Piece] = {}
        self.bound: dict[str, Any] = {}

    def assign(self, number: int, patch: Difference) -> Assigned:
        """How a difference is written.  Raises Unwritable."""
        path = f"{patch.module}.{patch.target}"
        kept = dict(self.pieces), dict(self.bound)
        literal = _literal(patch.value)
        if literal is not None:
            return Assigned(number, path, literal, ())
        if isinstance(patch.value, property | staticmethod | classmethod):
            raise Unwritable(f"a {type(patch.value).__name__}, which a patch file cannot assign")
        name = getattr(patch.value, "__name__", "")
        is_free = name.isidentifier() and self.bound.get(name, patch.value) is patch.value
        name = name if is_free else re.sub(r"\W", "_", f"{patch.target}_patched")
        self.replaced = patch
        try:
            return Assigned(number, path, name, (self._bind(name, patch.value, {}),))
        except Unwritable:
            self.pieces, self.bound = kept
            raise

    def _bind(self, name: str, value: Any, imports: _Imports) -> str:
        """Let a name of the patch file stand for a value."""
        if name in self.bound:
            if self.bound[name] is not value:
                raise Unwritable(f"two things are called {name}; give one another name")
            return name
        self.bound[name] = value
        text, needs = self._define(name, value, imports)
        self.pieces[name] = Piece(name, text, needs)
        return name

    def _define(self, name: str, value: Any, imports: _Imports) -> _Code:
        literal = _literal(value)
        where = _import_of(name, value, imports)
        if where is not None:
            module, attr = where
            said = f"from {module} import {attr}" if attr else f"import {module}"
            if name != (attr or module):
                said = f"{said} as {name}"
            return said, ()
        if literal is not None:
            return f"{name} = {literal}", ()
        if isinstance(value, torch.dtype):
            return f"{name} = {value}", (self._bind("torch", torch, {}),)
        if isinstance(value, logging.Logger):
            return f"from logging import getLogger\n{name} = getLogger({value.name!r})", ()
        if isinstance(value, logging.LoggerAdapter) and _literal(value.extra) is not None:
            # What `get_logger` of Accelerate gives, and of most trainers.
            adapter = self._bind(type(value).__name__, type(value), imports)
            logger = f"{adapter}(getLogger({value.logger.name!r}), {value.extra!r})"
            return f"from logging import getLogger\n{name} = {logger}", (adapter,)
        if isinstance(value, partial | partialmethod):
            return self._partial(name, value)
        if isinstance(value, FunctionType):
            return self._function(name, value)
        if isinstance(value, type):
            return self._class(name, value)
        what = f"a {describe(type(value))}".replace("a builtins.", "a ")
        if isinstance(value, ModuleType):
            what = "a module of yours"
        raise Unwritable(f"reads {name}, {what}, which only the running program has")

    def _partial(self, name: str, value: partial[Any] | partialmethod[Any]) -> _Code:
        args = _literal(value.args)
        keywords = _literal(value.keywords)
        if args is None or keywords is None:
            kind = type(value).__name__
            raise Unwritable(f"a functools.{kind} of values that only the running program has")
        inner = self._bind(f"{name}_whole", value.func, {})
        # A method gets its object first, then what was bound.
        first = "self, " if isinstance(value, partialmethod) else ""
        call = f"{inner}({first}*{args}, *args, **{{**{keywords}, **kwargs}})"
        text = f"def {name}({first}*args, **kwargs):\n    return {call}"
        return text, (inner,)

    def _function(self, name: str, value: FunctionType) -> _Code:
        inner = inspect.unwrap(value)
        if getattr(inner, "__globals__", {}).get(inner.__name__) is not value:
            inner = value  # The decorator does not stand above the function.
        code = inner.__code__
        if code.co_filename.startswith(root_of("torch")):
            raise Unwritable(f"made by {describe(value)} of torch while the program runs")
        if "__class__" in code.co_freevars:
            raise Unwritable("calls super(), so it belongs to a class")
        closed = dict(zip(code.co_freevars, contents_of(inner), strict=True))
        values = {**inner.__globals__, **closed}
        try:
            text = _definition(source_of(code), name)
        except (SyntaxError, OSError) as error:
            raise Unwritable("has no source that stands alone") from error
        if value is self.replaced.value:
            text = _calling_super(text, self.replaced, values)
        node = ast.parse(text).body[0]
        for inside in ast.walk(node):
            if isinstance(inside, ast.Nonlocal):
                raise Unwritable(f"a closure that changes {', '.join(inside.names)}")
        try:
            return text, self._reads(node, values)
        except Unwritable as error:
            if any(f"reads {key}," in str(error) for key in closed):
                raise Unwritable(f"a closure that {error}") from error
            raise

    def _class(self, name: str, value: type) -> _Code:
        module = sys.modules.get(value.__module__)
        begins = rf"(?m)^\s*class\s+{value.__name__}\b"
        try:
            places = re.findall(begins, disk.text_of(inspect.getfile(value)))
            text = textwrap.dedent(inspect.getsource(value))
        except (OSError, TypeError):
            places = []
        if module is None or len(places) != 1 or "." in value.__qualname__:
            raise Unwritable("a class that is made while the program runs")
        text = re.sub(begins, f"class {name}", text)
        node = ast.parse(text).body[0]
        return text, self._reads(node, vars(module))

    def _reads(self, node: ast.stmt, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Bind what a definition reads."""
        # What is made of the text of the model's file knows the names of that file.
        imports = _imports(self.replaced.module) | _imports(values.get("__name__", ""))
        needs: dict[str, None] = {}
        for read in references([node]):
            name = read.name
            if read.quoted or name == getattr(node, "name", ""):
                continue
            if name in values:
                if name != "__name__":
                    needs[self._bind(name, values[name], imports)] = None
            elif not hasattr(builtins, name):
                raise Unwritable(f"reads {name}, which nothing binds")
        return tuple(needs)


def _definition(text: str, name: str) -> str:
    """A function's text at the top level, under a name; a lambda becomes a function."""
    node = ast.parse(text).body[0]
    if isinstance(node, ast.FunctionDef):
        for decorator in node.decorator_list:
            function_name = ast.unparse(called_function(decorator))
            # It copies names and documentation alone, and what it copies from is not there.
            if function_name in ("functools.wraps", "wraps"):
                line = f"@{ast.get_source_segment(text, decorator)}\n"
                text = text.replace(line, "", 1)
        return re.sub(rf"(?m)^def\s+{node.name}\b", f"def {name}", text, count=1)
    lambdas = [n for n in ast.walk(node) if isinstance(n, ast.Lambda)]
    if len(lambdas) != 1:
        raise Unwritable("a lambda beside others" if lambdas else "is no plain function")
    [function] = lambdas
    head = f"def {name}({ast.unparse(function.args)}):"
    return f"{head}\n    return {ast.unparse(function.body)}\n"


def _calling_super(text: str, patch: Difference, values: Mapping[str, Any]) -> str:
    """A method that calls the one that it replaces, with `SUPER` in place of each call.

    The text stays as it is where the old method is more than called with the same object.
    """
    owner, _, attr = patch.target.partition(".")
    patched_class = getattr(fresh_module(patch.module), owner, None)
    old = getattr(patched_class, attr, None)
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    reads = []
    for read in references([node]):
        if is_same(old, values.get(read.name)):
            reads.append(read.name)
    if old is None or not reads:
        return text
    changed = text
    first = "self"
    if node.args.args:
        first = node.args.args[0].arg
    elif node.args.vararg is not None:
        rest = node.args.vararg.arg
        changed = re.sub(rf"\*{rest}\b", f"self, *{rest}", text)
        # Whatever else reads the arguments reads the object as one of them.
        if len(re.findall(rf"\b{rest}\b", text)) > len(reads) + 1:
            return text
    called = rf"\b({'|'.join(reads)})\(\s*{first}\b\s*(,\s*|(?=\)))"
    changed, count = re.subn(called, f"{first}.{SUPER}{attr}(", changed)
    return changed if count == len(reads) else text


def _literal(value: Any) -> str | None:
    """The text of a literal; None for all else."""
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, TypeError, RuntimeError, MemoryError):
        return None


def _imports(home: str) -> dict[str, tuple[str, str]]:
    """Which module and attribute each import in the file of a module binds a name to."""
    module = sys.modules.get(home)
    file = getattr(module, "__file__", None)
    if not file:
        return {}
    package = getattr(module, "__package__", None) or ""
    return imports_in(ast.parse(disk.text_of(file)), f"{package}.")


def _import_of(name: str, value: Any, imports: _Imports) -> tuple[str, str] | None:
    """The installed module that offers a value, and its name there."""
    if isinstance(value, ModuleType):
        return None if is_of_user(value) else (value.__name__, "")
    home = getattr(value, "__module__", None)
    called = getattr(value, "__qualname__", None)
    places = [imports[name]] if name in imports else []
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        places.append((str(home), str(called)))
        places.append(("torch", str(called)))
    for module, attr in places:
        there = sys.modules.get(module)
        if there is None or is_of_user(there) or not attr.isidentifier():
            continue
        fresh = value
        is_of_file = False
        if MODELING.fullmatch(module):
            # What a fresh import offers, not what the program has put there.
            fresh = getattr(fresh_module(module), attr, None)
            is_of_file = home == module and called == attr
        is_here = getattr(there, attr, None) is value and type(fresh) is type(value)
        if (is_here or is_of_file) and place_of(fresh) == place_of(value):
            return module, attr
    return None


def pieces_of(
    differences: list[Difference],
) -> tuple[list[Piece], list[Assigned], dict[int, str]]:
    """The text of all differences that can be written; for the others, why they cannot."""
    writer = Writer()
    assigned: list[Assigned] = []
    why_not: dict[int, str] = {}
    for number, patch in enumerate(differences):
        if patch.why_not or patch.dead:
            continue
        try:
            assigned.append(writer.assign(number, patch))
        except Unwritable as error:
            why_not[number] = str(error)
    return _ordered(writer.pieces), assigned, why_not


def _ordered(pieces: Mapping[str, Piece]) -> list[Piece]:
    """Pieces below those that they need."""
    done: dict[str, Piece] = {}

    def put(name: str, above: tuple[str, ...]) -> None:
        if name not in done and name not in above:
            for other in pieces[name].needs:
                put(other, (*above, name))
            done[name] = pieces[name]

    for name in pieces:
        put(name, ())
    return [*done.values()]

"""The calls between the classes of a module, and what they pass for a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.code import called, dotted, last, walk
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module


@dataclass(frozen=True, eq=False)
class Site:
    """A call of an instance of `callee` in `method` of `caller`.

    `attribute` holds the instance; it is "" for a call of another method of `self`.
    """

    caller: Class
    method: ast.FunctionDef
    call: ast.Call
    attribute: str
    callee: Class

    def passed(self, parameter: str, forward: ast.FunctionDef) -> ast.expr | None:
        """The argument for `parameter` of `forward`, the method that is called."""
        for keyword in self.call.keywords:
            if keyword.arg == parameter:
                return keyword.value
        parameters = (*forward.args.posonlyargs, *forward.args.args)[1:]  # without `self`
        for arg, value in zip(parameters, self.call.args, strict=False):
            if arg.arg == parameter:
                return None if isinstance(value, ast.Starred) else value
        return None


@dataclass(frozen=True, eq=False)
class Calls:
    """Every call between the classes of a module."""

    module: Module

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return tuple(self._sites())

    def of(self, callee: Class) -> tuple[Site, ...]:
        """The calls of instances of `callee`."""
        return tuple(site for site in self.sites if site.callee is callee)

    def _sites(self) -> Iterator[Site]:
        for owner in self.module.classes.values():
            for method in owner.own.values():
                local = held_names(method)
                for call in walk(method.body, ast.Call):
                    attribute = attribute_of(call.func, local)
                    for name in (*held(owner, attribute), *self._picked(owner, attribute)):
                        if callee := self.module.classes.get(name):
                            yield Site(owner, method, call, attribute, callee)
                    if attribute and owner.method(attribute) is not None:
                        yield Site(owner, method, call, "", owner)

    def _picked(self, owner: Class, attribute: str) -> Iterator[str]:
        """The classes that `TABLE[NAME](...)` may create for the attribute."""
        for value in owner.attributes.get(attribute, ()):
            match value:
                case ast.Call(func=ast.Subscript(value=ast.Name(id=table))):
                    yield from dict.fromkeys(self.module.tables.get(table, {}).values())


def attribute_of(node: ast.expr, local: Mapping[str, str]) -> str:
    """The attribute of `self` whose value, or an item of whose value, `node` is."""
    match node:
        case ast.Name(id=name):
            return local.get(name, "")
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return attr
        case ast.Subscript(value=value) | ast.Attribute(value=value, attr="forward"):
            return attribute_of(value, local)
        case _:
            return ""


def held_names(method: ast.FunctionDef) -> dict[str, str]:
    """The local names for items of an attribute of `self`: loop variables and subscripts."""
    found: dict[str, str] = {}
    for node in walk(method.body, ast.stmt):
        match node:
            case ast.For(target=target, iter=iterated):
                found |= _loop(target, iterated)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=value)):
                if dotted(value).startswith("self.") and dotted(value).count(".") == 1:
                    found[name] = last(dotted(value))
    return found


def _loop(target: ast.expr, iterated: ast.expr) -> dict[str, str]:
    if isinstance(iterated, ast.Subscript):
        iterated = iterated.value
    match target, iterated:
        case ast.Name(id=name), ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return {name: attr}
        case ast.Tuple(elts=[_, inner]), ast.Call(args=[what, *_]) if (
            called(iterated) == "enumerate"
        ):
            return _loop(inner, what)
        case ast.Tuple(elts=targets), ast.Call(args=iterables) if called(iterated) == "zip":
            pairs = zip(targets, iterables, strict=False)
            return {name: attr for one, what in pairs for name, attr in _loop(one, what).items()}
        case _:
            return {}

"""Calls inside a generated module that do not fit the signature of what they call.

A variant that changes `LlamaMLP.__init__` and not its callers fails when the model is built, on somebody's GPU.
Looked at are calls whose callee is sure: a function or class of the module by its name, and `self.method(...)` where
the class or an ancestor in the module defines a plain method.  What cannot be known (decorators, `*args`, other bases)
is passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen.syntax.scopes import references

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Decorators that leave the signature of the class's `__init__` as written.
_TRANSPARENT = frozenset({"auto_docstring", "use_kernelized_func", "use_kernel_forward_from_hub"})


@dataclass(frozen=True, slots=True)
class Misfit:
    """A call on `line` of the generated text: `call` as written, and why it does not fit `callee`."""

    line: int
    call: str
    callee: str
    why: str


def find_misfits(text: str) -> tuple[Misfit, ...]:
    """Every call of `text` that would raise TypeError for its arguments."""
    tree = ast.parse(text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, Function) and not node.decorator_list
    }
    sure = {(r.line, r.column) for r in references(tree.body) if not r.quoted}
    found = [*_by_name(tree, sure, functions, classes), *_by_self(classes)]
    return tuple(sorted(found, key=lambda misfit: (misfit.line, misfit.call)))


def _by_name(
    tree: ast.Module,
    sure: set[tuple[int, int]],
    functions: Mapping[str, Function],
    classes: Mapping[str, ast.ClassDef],
) -> Iterator[Misfit]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        name = call.func.id
        if (call.func.lineno, call.func.col_offset) not in sure:
            continue
        if name in functions:
            yield from _check(call, functions[name], 0, name)
        elif name in classes and (init := _constructor(classes[name], classes)) is not None:
            yield from _check(call, init, 1, f"{name}.__init__")


def _by_self(classes: Mapping[str, ast.ClassDef]) -> Iterator[Misfit]:
    for owner in classes.values():
        for method in owner.body:
            if not isinstance(method, Function) or not method.args.args or _is_static(method):
                continue
            first = method.args.args[0].arg
            for call in ast.walk(method):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                        name == first
                    ):
                        target = _method(owner, attr, classes)
                        if target is not None and not target.decorator_list:
                            yield from _check(call, target, 1, f"{owner.name}.{attr}")
                    case _:
                        pass


def _is_static(method: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)


def _constructor(owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Function | None:
    """The `__init__` that a call of `owner` runs, where that is sure."""
    names = {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in owner.decorator_list}
    if names - _TRANSPARENT or owner.keywords or _method(owner, "__new__", classes):
        return None
    init = _method(owner, "__init__", classes)
    return None if init is None or init.decorator_list else init


def _method(owner: ast.ClassDef, name: str, classes: Mapping[str, ast.ClassDef]) -> Function | None:
    """The method that `owner` has under `name`, if its own body or a first line of module classes settles it."""
    bound = [node for node in owner.body if name in _binds(node)]
    if bound:
        only = bound[0]
        return only if len(bound) == 1 and isinstance(only, Function) else None
    base = owner.bases[0] if len(owner.bases) == 1 else None
    if isinstance(base, ast.Name) and base.id in classes and base.id != owner.name:
        return _method(classes[base.id], name, classes)
    return None


def _binds(node: ast.stmt) -> set[str]:
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _check(call: ast.Call, callee: Function, bound: int, name: str) -> Iterator[Misfit]:
    why = _why_not(call, callee.args, bound)
    if why:
        yield Misfit(call.lineno, ast.unparse(call), name, why)


def _why_not(call: ast.Call, signature: ast.arguments, bound: int) -> str:
    """Why the arguments of `call` do not bind, or ""; `bound` parameters are filled already (`self`)."""
    positional = [*signature.posonlyargs, *signature.args][bound:]
    by_keyword = {a.arg for a in [*signature.args, *signature.kwonlyargs]}
    given = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    keywords = [keyword.arg for keyword in call.keywords if keyword.arg]
    open_ended = len(given) < len(call.args) or len(keywords) < len(call.keywords)
    if len(given) > len(positional) and signature.vararg is None:
        return f"takes {len(positional)} positional arguments and gets {len(given)}"
    unknown = [keyword for keyword in keywords if keyword not in by_keyword]
    if unknown and signature.kwarg is None:
        return f"has no parameter {unknown[0]}"
    filled = [a.arg for a in positional[: len(given)]]
    twice = [keyword for keyword in keywords if keyword in filled]
    if twice and not open_ended:
        return f"gets {twice[0]} twice"
    optional = len(signature.defaults)
    required = positional[: len(positional) - optional] if optional else positional
    needed = [a.arg for a in required]
    needed += [
        a.arg for a, d in zip(signature.kwonlyargs, signature.kw_defaults, strict=True) if d is None
    ]
    missing = [a for a in needed if a not in filled and a not in keywords]
    return f"misses the argument {missing[0]}" if missing and not open_ended else ""

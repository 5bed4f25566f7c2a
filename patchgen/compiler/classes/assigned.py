"""Find which attributes the code of a method sets on its own object.

self.scale = 2                          scale
self.register_buffer("mask", mask)      mask
setattr(self, "size", 3)                size
"""

from __future__ import annotations

import ast

_REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})


def find_assigned(node: ast.AST, receiver: str, *, deletions: bool = True) -> frozenset[str]:
    """The attributes of the object `receiver` that `node` assigns, registers, or deletes."""
    contexts = ast.Store | ast.Del if deletions else ast.Store
    found = set()
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=context):
                if owner == receiver and isinstance(context, contexts):
                    found.add(name)
            case ast.Call(func=called, args=[first, *rest]):
                found |= _set_by_call(called, first, rest, receiver)
            case _:
                pass
    return frozenset(found)


def registers_by_expression(call: ast.Call) -> bool:
    """Whether `call` registers a parameter, buffer or module under a name that is no literal."""
    is_register = isinstance(call.func, ast.Attribute) and call.func.attr in _REGISTERS
    is_literal = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return is_register and not is_literal


def _set_by_call(func: ast.expr, first: ast.expr, rest: list[ast.expr], receiver: str) -> set[str]:
    """The attribute that a call sets, if `first` and `rest` are its arguments."""
    match func, first, rest:
        case ast.Attribute(value=ast.Name(id=owner), attr=method), ast.Constant(value=str(name)), _:
            return {name} if owner == receiver and method in _REGISTERS else set()
        case ast.Name(id="setattr"), ast.Name(id=owner), [ast.Constant(value=str(name)), *_]:
            return {name} if owner == receiver else set()
        case _:
            return set()

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
    found = set()
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=context):
                is_counted = isinstance(context, ast.Store) or (
                    deletions and isinstance(context, ast.Del)
                )
            # `self.register_buffer("mask", mask)`
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr=method),
                args=[ast.Constant(value=str(name)), *_],
            ):
                is_counted = method in _REGISTERS
            # `setattr(self, "size", 3)`
            case ast.Call(
                func=ast.Name(id="setattr"),
                args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_],
            ):
                is_counted = True
            case _:
                continue
        if is_counted and owner == receiver:
            found.add(name)
    return frozenset(found)


def registers_by_expression(call: ast.Call) -> bool:
    """Whether `call` registers a parameter, buffer or module under a name that is no literal."""
    match call:
        case ast.Call(args=[ast.Constant(), *_]):
            return False
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in _REGISTERS
        case _:
            return False

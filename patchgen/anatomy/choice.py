"""Whether a class of experts is given one-hot rows: followed from its callers to the router that makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.anatomy.code import VIEWS, called, dotted, last, method_of, receiver, walk
from patchgen.anatomy.holding import held
from patchgen.anatomy.module import Class, Module


def one_hot_rows(module: Module, owner: Class, parameter: str) -> bool:
    """Whether every caller gives the forward of `owner`, as `parameter`, rows with a single one, or none."""
    forward = owner.method("forward")
    assert forward is not None
    place = [arg.arg for arg in forward.args.args[1:]].index(parameter)
    given = list(_given(module, owner, place))
    return bool(given) and all(_is_one_hot(module, caller, method, value) for caller, method, value in given)


def _given(module: Module, owner: Class, place: int) -> Iterator[tuple[Class, ast.FunctionDef, ast.expr | None]]:
    for caller in module.classes.values():
        for method in caller.own.values():
            for call in walk(method.body, ast.Call):
                name = called(call)
                if name.startswith("self.") and owner.name in held(caller, last(name)):
                    yield caller, method, call.args[place] if place < len(call.args) else None


def _is_one_hot(module: Module, owner: Class, method: ast.FunctionDef, value: ast.expr | None) -> bool:
    """Whether the local that `value` names in `method` is made by `one_hot`, and only masked behind that."""
    name, made = dotted(value), False
    for node in walk(method.body, ast.Assign):
        match node.targets:
            case [ast.Name(id=target)] if target == name:
                made = _stays_one_hot(node.value, name, made)
            case [ast.Tuple(elts=targets)] if name in map(dotted, targets):
                made = _comes_one_hot(module, owner, node.value, [dotted(one) for one in targets].index(name))
    return made


def _stays_one_hot(value: ast.expr, name: str, before: bool) -> bool:
    match value:
        case ast.Call() if last(called(value)) == "one_hot":
            return True
        case ast.Call() if method_of(value) in VIEWS:
            return before and dotted(receiver(value)) == name
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return before and name in (dotted(left), dotted(right))
        case _:
            return False


def _comes_one_hot(module: Module, owner: Class, value: ast.expr, place: int) -> bool:
    """Whether the router that is called gives it so."""
    if not called(value).startswith("self."):
        return False
    routers = [module.classes[name] for name in held(owner, last(called(value))) if name in module.classes]
    for router in routers:
        forward = router.method("forward")
        returned = [node.value for node in walk(forward.body, ast.Return)] if forward is not None else []
        for one in returned:
            elements = one.elts if isinstance(one, ast.Tuple) else []
            if forward is None or place >= len(elements) or not _is_one_hot(module, router, forward, elements[place]):
                return False
        if not returned:
            return False
    return bool(routers)

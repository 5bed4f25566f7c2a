"""Whether a head reads states at padding, or only each token alone or the first of each row."""

from __future__ import annotations

import ast
from collections.abc import Collection

from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.tokens import Tokens
from patchgen.facts.modules import CACHES

PASSED_ON = CACHES | {"attentions", "cross_attentions", "hidden_states", "pooler_output"}


def is_first(node: ast.Subscript) -> bool:
    """`states[:, 0]`, with further axes or not."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None), ast.Constant(value=0), *rest]):
            return all(isinstance(one, ast.Slice) for one in rest)
        case _:
            return False


def reads_padding(
    module: Module, tokens: Tokens, owner: Class, forward: ast.FunctionDef, holding: Collection[str]
) -> bool:
    """Whether a head reads states at padding.

    It does not if it reads each token alone, or the first of each row.
    """
    states = _states(forward, holding)
    if states is None:
        return True
    alone: set[int] = set()  # where each token is read alone
    for node in walk(forward.body, ast.stmt):
        if not isinstance(node, ast.Assign | ast.Return):
            continue
        for call in walk(node, ast.Call):
            given = [one for one in call.args if dotted(one) in states]
            if not given or not called(call).startswith("self.") or _is_loss(call):
                continue
            if _takes_first(module, tokens, owner, call):
                return False
            if tokens.unfit(owner, call) is not None:
                return True
            alone |= {id(one) for one in given}
            if isinstance(node, ast.Assign) and node.value is call:
                # The result has a state for each token as well.
                states |= {one.id for one in walk(node.targets, ast.Name)}
    # What is only passed on does not depend on the values at padding.
    alone |= {id(one) for one in _passed_on(forward)}
    for name in walk(forward.body, ast.Name):
        is_read = name.id in states and isinstance(name.ctx, ast.Load)
        if is_read and id(name) not in alone:
            return True
    return False


def _is_loss(call: ast.Call) -> bool:
    return last(called(call)).startswith("loss")


def _takes_first(module: Module, tokens: Tokens, owner: Class, call: ast.Call) -> bool:
    """Whether a head reads only the first position of each row."""
    for name in tokens.held(owner, last(called(call))):
        head = module.classes.get(name)
        inner = head.method("forward") if head is not None else None
        reads = list(walk(inner.body, ast.Subscript)) if inner is not None else []
        if len(reads) == 1 and is_first(reads[0]) and tokens.unfit(owner, call) is None:
            return True
    return False


def _passed_on(forward: ast.FunctionDef) -> list[ast.expr]:
    """Where values are passed to losses and outputs, or read by rows or for their shape."""
    found: list[ast.expr] = []
    for node in walk(forward.body, ast.AST):
        match node:
            case ast.Call() if (
                _is_loss(node) or "Output" in called(node) or called(node) == "slice_logits_to_keep"
            ):
                found += [*node.args, *(keyword.value for keyword in node.keywords)]
            case ast.Call(func=ast.Attribute(value=value, attr="view"), args=[first, _]) if (
                constant(first) == -1
            ):
                found.append(value)
            case ast.Tuple(elts=elements):
                found += elements
            case ast.Subscript(value=value, slice=index) if "slice_indices" in ast.unparse(index):
                found.append(value)
            case ast.Attribute(value=value, attr="shape" | "device" | "dtype"):
                found.append(value)
    return found


def _states(forward: ast.FunctionDef, holding: Collection[str]) -> set[str] | None:
    """The names of the states that `self.HOLDING` returns; None if they cannot be followed."""
    own = {f"self.{one}" for one in holding}
    calls = [call for call in walk(forward.body, ast.Call) if called(call) in own]
    if len(calls) != 1 or not (out := _bound(forward, calls[0])):
        return None
    states: set[str] = set()
    followed = 0
    for node in walk(forward.body, ast.Assign):
        match node.targets, node.value:
            case [ast.Name(id=name)], ast.Subscript(
                value=ast.Name(id=of), slice=ast.Constant(value=number)
            ) if of == out:
                states |= {name} if number == 0 else set()
                followed += 1
            case [ast.Name(id=name)], ast.Attribute(value=ast.Name(id=of), attr=attr) if of == out:
                states |= {name} if attr == "last_hidden_state" else set()
                followed += 1
            case [ast.Tuple(elts=[ast.Name(id=name), *_])], ast.Subscript(
                value=ast.Name(id=of)
            ) if of == out:
                states.add(name)
                followed += 1
    for attribute in walk(forward.body, ast.Attribute):
        if dotted(attribute.value) == out and attribute.attr in PASSED_ON:
            followed += 1
    reads = 0
    for one in walk(forward.body, ast.Name):
        if one.id == out and isinstance(one.ctx, ast.Load):
            reads += 1
    return states if followed == reads else None


def _bound(forward: ast.FunctionDef, call: ast.Call) -> str:
    """The name that is bound to the result of `call`."""
    for node in walk(forward.body, ast.stmt):
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=value)
            ) if value is call:
                return dotted(target)
    return ""

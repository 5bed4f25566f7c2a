"""Calls of torch's attention function that ask for weights, which SDPA does not compute."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, constant, walk
from patchgen.author.anatomy.module import Class, Module

FUNCTIONS = frozenset(f"{place}.multi_head_attention_forward" for place in ("F", "nn.functional"))


@dataclass(frozen=True, eq=False)
class TorchCall:
    """`call` in `method` with `need_weights=True`, also if nobody reads the weights."""

    owner: Class
    method: ast.FunctionDef
    call: ast.Call


def torch_calls(module: Module) -> tuple[TorchCall, ...]:
    """Every such call of `module`."""
    return tuple(
        TorchCall(owner, method, call)
        for owner in module.classes.values()
        for method in owner.own.values()
        for call in walk(method.body, ast.Call)
        if called(call) in FUNCTIONS and {"need_weights", "use_separate_proj_weight"} <= _set(call)
    )


def _set(call: ast.Call) -> set[str | None]:
    """The keywords that are True."""
    return {one.arg for one in call.keywords if constant(one.value) is True}

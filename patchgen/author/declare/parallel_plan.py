"""Choose the mixins of models with fused layers, by tensor-parallel plan and conversions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from patchgen.author.anatomy.code import constant, dotted, walk
from patchgen.author.anatomy.conversions import find_configurations, is_converted
from patchgen.author.anatomy.module import Module
from patchgen.author.anatomy.projections import (
    Shared,
)

# Styles of tensor parallelism that `gather_fused` of patchgen.parts.fused can replace.
SPLIT = {"colwise", "rowwise", "replicated_with_grad_allreduce"}


def choose_mixins(module: Module, groups: Sequence[Shared]) -> tuple[str, ...]:
    """The mixins of the models.

    They depend on the tensor-parallel plan in the configuration of the parent, and on whether
    transformers converts its checkpoints.
    """
    texts = [path.read_text(encoding="utf-8") for path in find_configurations(module)]
    known = ("KnownConversions",) if is_converted(module) else ()
    rules = dict(_rules(texts))
    fused_names = {name for group in groups for name in group.names}
    owners = set()  # the modules, by path, that have fused layers
    for path in rules:
        owner, _, name = path.rpartition(".")
        if name in fused_names:
            owners.add(owner)
    if not owners:
        return (*known, "FusedProjections")
    for path, style in rules.items():
        is_beside = any(path.startswith(f"{owner}.") for owner in owners)
        if is_beside and style not in SPLIT:
            return (*known, "WholeProjections")
    return (*known, "SplitProjections")


def _rules(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(path of a layer, style) of every tensor-parallel plan in the configurations."""
    for text in texts:
        for node in walk(ast.parse(text), ast.stmt):
            if _is_plan(node):
                for path, style in _entries(node.value):
                    yield path, str(style)


def _is_plan(node: ast.stmt) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    match node:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return dotted(target) == "base_model_tp_plan"
    return False


def _entries(value: ast.expr | None) -> Iterator[tuple[str, object]]:
    match value:
        case ast.Dict(keys=keys, values=styles):
            for key, style in zip(keys, styles, strict=True):
                if key is None:  # `**other`
                    yield from _entries(style)
                else:
                    yield _path(key), constant(style)
        case ast.DictComp(key=key, value=style):
            yield _path(key), constant(style)


def _path(key: ast.expr) -> str:
    """The text of `key`; of an f-string with the code of what is filled in."""
    if isinstance(key, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.FormattedValue) else part for part in key.values
        )
        return "".join(str(constant(part) or ast.unparse(part)) for part in parts)
    return str(constant(key))

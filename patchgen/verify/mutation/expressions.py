"""Find the small errors that an expression can have.

Before::

    scores = query @ key.transpose(-1, -2) * scaling

After, one of::

    scores = query @ key.transpose(-1, -2)              # a factor dropped
    scores = query @ key.transpose(-1, -2) / scaling    # * becomes /
    scores = query @ key * scaling                      # transpose dropped
    ...
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from patchgen.verify.mutation.calls import mutate_call
from patchgen.verify.mutation.operators import (
    mutate_binary,
    mutate_boolean,
    mutate_comparison,
    mutate_unary,
)
from patchgen.verify.mutation.sites import Mutation, Site
from patchgen.verify.mutation.values import (
    mutate_attribute,
    mutate_conditional,
    mutate_constant,
    mutate_slice,
)

# Arguments whose names contain one of these can usually be left out.
_OPTIONAL = ("mask", "bias", "scal", "dropout", "window", "softcap", "position", "weight")


# Calls that never return a tensor.
_NO_TENSORS = frozenset(
    "len int float bool str tuple list dict set frozenset range zip enumerate isinstance "
    "getattr hasattr any all super type id size dim numel item is_floating_point get items "
    "keys values partial replace sorted next iter min max detach cast arange classmethod "
    "staticmethod property namedtuple getLogger get_logger compile format join".split()
)


_MAKERS: dict[Any, Callable[[Any, Site], Iterator[Mutation]]] = {
    ast.BinOp: mutate_binary,
    ast.Compare: mutate_comparison,
    ast.BoolOp: mutate_boolean,
    ast.UnaryOp: mutate_unary,
    ast.Constant: mutate_constant,
    ast.Attribute: mutate_attribute,
    ast.Slice: mutate_slice,
    ast.IfExp: mutate_conditional,
    ast.Call: mutate_call,
}


def find_mutations(site: Site) -> Iterator[Mutation]:
    """The errors that the expression at `site` can have; none where it is stored into."""
    node = site.node
    if not isinstance(node, ast.expr) or isinstance(
        getattr(node, "ctx", None), ast.Store | ast.Del
    ):
        return
    for kind, make in _MAKERS.items():
        if isinstance(node, kind):
            yield from make(node, site)
    if _is_condition(site):
        yield from _mutate_condition(node)
    if _may_be_tensor(node) and isinstance(
        site.parent, ast.Assign | ast.Return | ast.AugAssign | ast.keyword
    ):
        yield "detached", ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])
    if isinstance(node, ast.Name | ast.Attribute | ast.Call) and _is_optional_argument(site):
        yield "argument is None", ast.Constant(None)


def _is_condition(site: Site) -> bool:
    if isinstance(site.parent, ast.If | ast.While | ast.IfExp):
        return site.field == "test"
    return isinstance(site.parent, ast.comprehension) and site.field == "ifs"


def _mutate_condition(node: ast.expr) -> Iterator[Mutation]:
    # A comparison or a `not` has its own negation.
    if not isinstance(node, ast.Compare | ast.UnaryOp):
        yield "condition negated", ast.UnaryOp(ast.Not(), node)
    yield "condition always true", ast.Constant(True)
    yield "condition always false", ast.Constant(False)


def _may_be_tensor(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        return name not in _NO_TENSORS and not name[:1].isupper()
    return isinstance(node, ast.BinOp) and not any(
        isinstance(each, ast.Constant) for each in ast.walk(node)
    )


def _is_optional_argument(site: Site) -> bool:
    """Whether an argument is, by its name, one that a function can do without."""
    if isinstance(site.parent, ast.keyword):
        return False  # another operator already leaves it out
    named = site.node.attr if isinstance(site.node, ast.Attribute) else getattr(site.node, "id", "")
    return (
        site.field == "args"
        and isinstance(site.parent, ast.Call)
        and any(each in named for each in _OPTIONAL)
    )

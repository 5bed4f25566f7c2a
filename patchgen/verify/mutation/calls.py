"""Small errors of calls: an argument left out, two swapped, another function, no call at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.verify.mutation.sites import Mutation, Site

_OTHER_NAMES = {
    "sum": "mean",
    "mean": "sum",
    "max": "min",
    "min": "max",
    "amax": "amin",
    "amin": "amax",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "new_zeros": "new_ones",
    "new_ones": "new_zeros",
    "triu": "tril",
    "tril": "triu",
    "floor": "ceil",
    "ceil": "floor",
    "argmax": "argmin",
    "logsumexp": "sum",
}
# Methods of a tensor, and functions of one, without which the same tensor would go on.
_PASSES = frozenset(
    "abs clamp clamp_ contiguous cos cumsum detach div div_ dropout exp expand expand_as "
    "flatten flip float gelu index_select log log_softmax logical_not masked_fill "
    "masked_fill_ mul mul_ neg normalize pad permute pow relu repeat repeat_interleave "
    "reshape rms_norm roll rsqrt sigmoid sign silu sin softmax sqrt square squeeze sub tanh "
    "to transpose tril triu type_as unsqueeze view".split()
)
# Functions of two values whose order says nothing.
_SYMMETRIC = frozenset(
    {"promote_types", "maximum", "minimum", "equal", "logical_and", "logical_or"}
)


def mutate_call(node: ast.Call, site: Site) -> Iterator[Mutation]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    for at, keyword in enumerate(node.keywords):
        argument = f"{keyword.arg}=" if keyword.arg else f"**{ast.unparse(keyword.value)}"
        yield (
            f"without {argument}",
            ast.Call(node.func, node.args, [*node.keywords[:at], *node.keywords[at + 1 :]]),
        )
    for at in range(len(node.args) - 1):
        first, second = node.args[at : at + 2]
        if (
            ast.dump(first) != ast.dump(second)
            and not isinstance(first, ast.Starred)
            and name not in _SYMMETRIC
            and not _are_types(node, name)
        ):
            swapped = [*node.args[:at], second, first, *node.args[at + 2 :]]
            yield (
                f"arguments {at + 1} and {at + 2} swapped",
                ast.Call(node.func, swapped, node.keywords),
            )
    if name in _OTHER_NAMES:
        other = _OTHER_NAMES[name]
        func: ast.expr = (
            ast.Attribute(node.func.value, other, ast.Load())
            if isinstance(node.func, ast.Attribute)
            else ast.Name(other, ast.Load())
        )
        yield f"{name} becomes {other}", ast.Call(func, node.args, node.keywords)
    if name in _PASSES:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        first_given = (
            owner if owner is not None and not _is_module(owner) else next(iter(node.args), None)
        )
        if first_given is not None and not isinstance(first_given, ast.Starred):
            yield f"{name} left out", first_given


def _are_types(node: ast.Call, name: str) -> bool:
    """Calls whose swapped arguments can only crash."""
    return name in (
        "isinstance",
        "issubclass",
        "getattr",
        "hasattr",
        "setattr",
        "cast",
        "partial",
        "super",
    )


def _is_module(node: ast.expr) -> bool:
    return ast.unparse(node) in (
        "torch",
        "F",
        "nn",
        "nn.functional",
        "torch.nn.functional",
        "math",
        "init",
        "self",
    )

"""Which small errors can an expression have?

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

from patchgen.verify.mutation.places import Place

Slip = tuple[str, ast.expr]  # what it is called, and what stands there then

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SIGNS: dict[type[Any], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.MatMult: "@",
}
_ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult)
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
_OPTIONAL = ("mask", "bias", "scal", "dropout", "window", "softcap", "position", "weight")


def find_mutations(place: Place) -> Iterator[Slip]:
    """The errors that the expression at `place` can have; none where it is stored into."""
    node = place.node
    if not isinstance(node, ast.expr) or isinstance(
        getattr(node, "ctx", None), ast.Store | ast.Del
    ):
        return
    for kind, make in _MAKERS.items():
        if isinstance(node, kind):
            yield from make(node, place)
    if _is_condition(place):
        yield from _of_condition(node)
    if _may_be_tensor(node) and isinstance(
        place.parent, ast.Assign | ast.Return | ast.AugAssign | ast.keyword
    ):
        yield "detached", ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])
    if isinstance(node, ast.Name | ast.Attribute | ast.Call) and _is_optional_argument(place):
        yield "argument is None", ast.Constant(None)


# --- operators


def _of_sum(node: ast.BinOp, place: Place) -> Iterator[Slip]:
    sign = _SIGNS.get(type(node.op), "")
    other = _OPERATORS.get(type(node.op))
    if other is not None:
        yield f"{sign} becomes {_SIGNS[other]}", ast.BinOp(node.left, other(), node.right)
    yield f"right of {sign} dropped", node.left
    yield f"left of {sign} dropped", node.right
    if isinstance(node.op, _ORDERED):
        yield f"sides of {sign} swapped", ast.BinOp(node.right, node.op, node.left)


def _of_comparison(node: ast.Compare, place: Place) -> Iterator[Slip]:
    for at, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield (
                f"{_said(operator)} becomes {_said(other())}",
                ast.Compare(node.left, ops, node.comparators),
            )


def _said(operator: ast.cmpop) -> str:
    left, right = ast.Name("a", ast.Load()), ast.Name("b", ast.Load())
    return ast.unparse(ast.Compare(left, [operator], [right]))[2:-2]


def _of_boolean(node: ast.BoolOp, place: Place) -> Iterator[Slip]:
    is_and = isinstance(node.op, ast.And)
    yield (
        ("and becomes or", ast.BoolOp(ast.Or(), node.values))
        if is_and
        else (
            "or becomes and",
            ast.BoolOp(ast.And(), node.values),
        )
    )
    for at, term in enumerate(node.values):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        yield (
            f"without {ast.unparse(term)}",
            rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest),
        )


def _of_sign(node: ast.UnaryOp, place: Place) -> Iterator[Slip]:
    if isinstance(node.op, ast.Not):
        yield "without not", node.operand
    elif isinstance(node.op, ast.Invert):
        yield "without ~", node.operand
    elif isinstance(node.op, ast.USub):
        if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int):
            yield "one less", ast.UnaryOp(ast.USub(), ast.Constant(node.operand.value + 1))
        yield "without minus", node.operand


# --- values


def _of_constant(node: ast.Constant, place: Place) -> Iterator[Slip]:
    value = node.value
    if (
        isinstance(place.parent, ast.UnaryOp)
        and isinstance(place.parent.op, ast.USub)
        and isinstance(value, int)
    ):
        return  # told of with its sign
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", ast.Constant(not value)
    elif isinstance(value, int):
        yield "one more", ast.Constant(value + 1)
        if value:
            yield "one less", ast.Constant(value - 1)
    elif isinstance(value, float):
        if value:
            yield "negated", ast.UnaryOp(ast.USub(), ast.Constant(value))
            yield "becomes 0", ast.Constant(0.0)
        yield "one more", ast.Constant(value + 1)


def _of_attribute(node: ast.Attribute, place: Place) -> Iterator[Slip]:
    if node.attr == "training" and not (
        isinstance(place.parent, ast.Call) and place.parent.func is node
    ):
        yield "training ignored", ast.Constant(True)
        yield "never in training", ast.Constant(False)


def _of_slice(node: ast.Slice, place: Place) -> Iterator[Slip]:
    for side in ("lower", "upper"):
        bound = getattr(node, side)
        if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
            moved = ast.Slice(node.lower, node.upper, node.step)
            setattr(moved, side, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
            yield f"{side} bound one more", moved
    if node.lower is not None and node.upper is None:
        yield "from the start", ast.Slice(None, None, node.step)
    if node.upper is not None and node.lower is None:
        yield "to the end", ast.Slice(None, None, node.step)


def _of_choice(node: ast.IfExp, place: Place) -> Iterator[Slip]:
    yield "always the first", node.body
    yield "always the second", node.orelse


# --- calls


def _of_call(node: ast.Call, place: Place) -> Iterator[Slip]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    for at, keyword in enumerate(node.keywords):
        said = f"{keyword.arg}=" if keyword.arg else f"**{ast.unparse(keyword.value)}"
        yield (
            f"without {said}",
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


# --- conditions and tensors


def _is_condition(place: Place) -> bool:
    if isinstance(place.parent, ast.If | ast.While | ast.IfExp):
        return place.field == "test"
    return isinstance(place.parent, ast.comprehension) and place.field == "ifs"


def _of_condition(node: ast.expr) -> Iterator[Slip]:
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


_NO_TENSORS = frozenset(
    "len int float bool str tuple list dict set frozenset range zip enumerate isinstance "
    "getattr hasattr any all super type id size dim numel item is_floating_point get items "
    "keys values partial replace sorted next iter min max detach cast arange classmethod "
    "staticmethod property namedtuple getLogger get_logger compile format join".split()
)


def _is_optional_argument(place: Place) -> bool:
    """Whether an argument is, by its name, one that a function can do without."""
    if isinstance(place.parent, ast.keyword):
        return False  # leaving it out is told of already
    named = (
        place.node.attr if isinstance(place.node, ast.Attribute) else getattr(place.node, "id", "")
    )
    return (
        place.field == "args"
        and isinstance(place.parent, ast.Call)
        and any(each in named for each in _OPTIONAL)
    )


_MAKERS: dict[Any, Callable[[Any, Place], Iterator[Slip]]] = {
    ast.BinOp: _of_sum,
    ast.Compare: _of_comparison,
    ast.BoolOp: _of_boolean,
    ast.UnaryOp: _of_sign,
    ast.Constant: _of_constant,
    ast.Attribute: _of_attribute,
    ast.Slice: _of_slice,
    ast.IfExp: _of_choice,
    ast.Call: _of_call,
}

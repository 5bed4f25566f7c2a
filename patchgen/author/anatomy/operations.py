"""Recognize the operations of an attention in their many spellings."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import (
    argument,
    called,
    constant,
    dotted,
    last,
    method_of,
    parsed,
    receiver,
    walk,
)
from patchgen.author.anatomy.module import Class

PRODUCTS = frozenset({"torch.matmul", "torch.bmm"})
SOFTMAX = frozenset(
    {"nn.functional.softmax", "torch.nn.functional.softmax", "F.softmax", "torch.softmax"}
)
DROPOUT = frozenset({"nn.functional.dropout", "torch.nn.functional.dropout", "F.dropout"})
_SCALARS = frozenset(
    {"math.sqrt", "math.pow", "float", "int", "len", "np.sqrt", "max", "min", "torch_float"}
)


@dataclass(frozen=True)
class Product:
    """`left @ right`, whose axes are then permuted to the order of `axes`, if given."""

    left: ast.expr
    right: ast.expr
    axes: tuple[int, ...] = ()


def product(node: ast.expr, owner: Class) -> Product | None:
    """The matrix product that `node` is."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return Product(left, right)
        case ast.Call(args=[left, right], keywords=[]) if called(node) in PRODUCTS:
            return Product(left, right)
        case ast.Call(args=[right], keywords=[]) if method_of(node) in ("matmul", "bmm"):
            return Product(receiver(node), right)
        case ast.Call(args=[left, right], keywords=[]) if _makes(owner, node, "MatMulWrapper"):
            return Product(left, right)
        case ast.Call(args=[ast.Constant(value=str(equation)), left, right]) if (
            called(node) == "torch.einsum"
        ):
            return _einsum(equation, left, right)
        case ast.Call(args=[ast.Constant(value=str(equation)), ast.List(elts=[left, right])]):
            return _einsum(equation, left, right) if called(node) == "torch.einsum" else None
        case _:
            return None


def _einsum(equation: str, left: ast.expr, right: ast.expr) -> Product | None:
    """The product for an equation with one axis of only the left and one of only the right operand.

    One of the shared axes is summed.  In xlnet, scores are "ibnd,jbnd->bnij" and contexts
    "bnij,jbnd->ibnd".
    """
    inputs, _, output = equation.replace(" ", "").partition("->")
    first, _, second = inputs.partition(",")
    rows, columns = set(first) - set(second), set(second) - set(first)
    summed = (set(first) & set(second)) - set(output)
    if not (len(rows) == len(columns) == len(summed) == 1 and rows | columns <= set(output)):
        return None
    if any(len(set(axes)) < len(axes) for axes in (first, second, output)) or "." in equation:
        return None
    (row,), (column,), (inner,) = rows, columns, summed
    batch = "".join(axis for axis in output if axis not in (row, column))
    if set(batch) | {row, column} != set(output) or len(first) != len(second):
        return None
    if output[-2:] == row + column or output[-2:] == column + row:
        # The result has the order of scores: permute both operands to it.
        if output[-2:] == column + row:
            first, second, left, right, row, column = second, first, right, left, column, row
        right = _right(right, second, batch, inner, column)
        return Product(_ordered(left, first, batch + row + inner), right)
    if first[-2:] == row + inner:
        batch = first[:-2]
        made = batch + row + column
        return Product(
            left,
            _ordered(right, second, batch + inner + column),
            tuple(made.index(axis) for axis in output),
        )
    return None


def _ordered(node: ast.expr, axes: str, wanted: str) -> ast.expr:
    if axes == wanted:
        return node
    order: list[ast.expr] = [_number(axes.index(axis)) for axis in wanted]
    return ast.Call(ast.Attribute(node, "permute", ast.Load()), order, [])


def _right(node: ast.expr, axes: str, batch: str, inner: str, column: str) -> ast.expr:
    """The right operand, permuted so that the summed axis is the last but one."""
    if axes == batch + inner + column:
        return node
    turned = _ordered(node, axes, batch + column + inner)
    return ast.Call(ast.Attribute(turned, "transpose", ast.Load()), [_number(-1), _number(-2)], [])


def _number(value: int) -> ast.expr:
    return parsed(str(value))


def transposed(node: ast.expr) -> ast.expr | None:
    """`x` for `x.mT`, `x.transpose(-1, -2)` and their like; None if `node` is none of them."""
    match node:
        case ast.Attribute(value=value, attr="mT"):
            return value
        case ast.Call(args=[value, first, second]) if called(node) == "torch.transpose":
            return value if _are_last_two(first, second) else None
        case ast.Call(func=ast.Attribute(value=value, attr="transpose"), args=[first, second]):
            return value if _are_last_two(first, second) else None
        case ast.Call(func=ast.Attribute(value=value, attr="permute"), args=args):
            axes = [constant(arg) for arg in args]
            return value if axes in ([0, 1, 3, 2], [0, 2, 1]) else None
        case _:
            return None


def _are_last_two(first: ast.expr, second: ast.expr) -> bool:
    """Whether these are the last two of three or four axes."""
    return {constant(first), constant(second)} in ({-1, -2}, {2, 3}, {1, 2})


def softmax_of(node: ast.expr, owner: Class) -> ast.expr | None:
    """The input of a softmax over the last axis; None if `node` is none.

    `softmax(x, dim=-1)`, `x.softmax(-1)`, `nn.Softmax(dim=-1)(x)` and `self.softmax(x)`.
    """
    if not isinstance(node, ast.Call):
        return None
    if called(node) in SOFTMAX and node.args:
        return node.args[0] if _is_last(argument(node, 1, "dim")) else None
    is_method = method_of(node) == "softmax" and dotted(receiver(node)) != "self"
    if is_method and called(node) not in SOFTMAX:
        return receiver(node) if _is_last(argument(node, 0, "dim")) else None
    made = [node.func] if isinstance(node.func, ast.Call) else _made(owner, node)
    if not made:
        return None
    for one in made:
        if last(called(one)) != "Softmax" or not _is_last(argument(one, 0, "dim")):
            return None
    return node.args[0]


def _is_last(axis: ast.expr | None) -> bool:
    return constant(axis) in (-1, 3)


def dropout_of(node: ast.expr, owner: Class) -> tuple[ast.expr, ast.expr] | None:
    """(input, rate, which is zero outside training) of a dropout; None if `node` is none."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if called(node) in DROPOUT:
        rate, training = argument(node, 1, "p"), argument(node, 2, "training")
        if rate is None or training is None or dotted(training) != "self.training":
            return None
        return node.args[0], parsed(f"{ast.unparse(rate)} if self.training else 0.0")
    kinds = {last(called(one)) for one in _made(owner, node)}
    # A module that may also be an Identity has no rate to read.
    if kinds and kinds <= {"Dropout", "StableDropout"}:
        return node.args[0], parsed(f"{dotted(node.func)}.p if self.training else 0.0")
    return None


def _made(owner: Class, node: ast.Call) -> list[ast.Call]:
    """The calls that create the attribute of `self` that `node` calls."""
    name = dotted(node.func)
    if not name.startswith("self.") or name.count(".") != 1:
        return []
    return [value for value in owner.attributes.get(last(name), ()) if isinstance(value, ast.Call)]


def _makes(owner: Class, node: ast.Call, name: str) -> bool:
    return any(last(called(one)) == name for one in _made(owner, node))


def is_minimum(node: ast.expr) -> bool:
    """Whether `node` hides a score: the minimum of a dtype, minus infinity, or below -1e4."""
    text = ast.unparse(node)
    value = constant(node)
    if isinstance(value, int | float):
        return value <= -1e4
    match node:
        case ast.Attribute(attr="min") if "finfo" in text:
            return True
        case ast.UnaryOp(op=ast.USub()) if "inf" in text:
            return True
        case _:
            return "float('-inf')" in text


def is_zero(node: ast.expr) -> bool:
    """Whether `node` is zero, or a tensor of zero."""
    if isinstance(node, ast.Call):
        return (
            called(node) in ("torch.scalar_tensor", "torch.tensor")
            and bool(node.args)
            and is_zero(node.args[0])
        )
    return constant(node) in (0, 0.0) and constant(node) is not False


def is_scalar(node: ast.expr, owner: Class) -> bool:
    """Whether `node` is a number: a literal, arithmetic of numbers, or an attribute that is one."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_scalar(operand, owner)
        case ast.BinOp(left=left, right=right):
            return is_scalar(left, owner) and is_scalar(right, owner)
        case ast.Call(args=args) if called(node) in _SCALARS:
            return bool(args)
        case ast.Call() if method_of(node) == "size" and node.args:
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = owner.attributes.get(name, ())
            return bool(values) and all(_is_number(value, owner) for value in values)
        case ast.Attribute() if dotted(node).startswith(("self.config.", "config.")):
            return True
        case _:
            return False


def is_per_head(node: ast.expr, method: ast.FunctionDef, owner: Class) -> bool:
    """Whether `node` is computed from one parameter of shape (heads, 1, 1).

    Then it can scale the queries instead of the scores.
    """
    for _ in range(3):
        if not isinstance(node, ast.Name):
            break
        made = [one.value for one in walk(method.body, ast.Assign) if _binds(one, node.id)]
        if len(made) != 1:
            return False
        node = made[0]
    parameters = [one.attr for one in walk(node, ast.Attribute) if dotted(one.value) == "self"]
    others = {one.id for one in walk(node, ast.Name)} - {"self", "torch", "math"}
    if len(parameters) != 1 or others:
        return False
    values = owner.attributes.get(parameters[0], ())
    return bool(values) and all(_is_parameter_of_heads(value) for value in values)


def _binds(node: ast.Assign, name: str) -> bool:
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == name


def _is_parameter_of_heads(value: ast.expr) -> bool:
    # nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
    return last(called(value)) == "Parameter" and ast.unparse(value).endswith(", 1, 1))))")


def _is_number(value: ast.expr, owner: Class) -> bool:
    """Whether the value of an attribute is a number, and no tensor or module."""
    if isinstance(value, ast.IfExp):
        return _is_number(value.body, owner) and _is_number(value.orelse, owner)
    calls = list(walk(value, ast.Call))
    if any(called(call) not in _SCALARS | {"getattr"} for call in calls):
        # torch.tensor(size).sqrt() is a tensor with one value.
        known = _SCALARS | {"torch.tensor"}
        return all(method_of(call) == "sqrt" or called(call) in known for call in calls)
    return not isinstance(value, ast.List | ast.Dict | ast.Tuple | ast.ListComp)

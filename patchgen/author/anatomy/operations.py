"""Which operation of an attention an expression is, whatever its spelling."""

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
    """`left @ right`, its axes then in the order of `axes` where there is one."""

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
    """The product of the equations that have one axis of the left, one of the right, and share all others but one.

    (xlnet's scores are "ibnd,jbnd->bnij", its contexts "bnij,jbnd->ibnd".)
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
        # Scores come out as they are: the axes of both operands are brought into that order.
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
    """The right operand with the axis that is summed last but one."""
    if axes == batch + inner + column:
        return node
    turned = _ordered(node, axes, batch + column + inner)
    return ast.Call(ast.Attribute(turned, "transpose", ast.Load()), [_number(-1), _number(-2)], [])


def _number(value: int) -> ast.expr:
    return parsed(str(value))


def transposed(node: ast.expr) -> ast.expr | None:
    """What `node` is the transposition of, over the last two axes."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return node.value
    if isinstance(node, ast.Call) and called(node) == "torch.transpose" and len(node.args) == 3:
        return node.args[0] if _last_axes([constant(arg) for arg in node.args[1:]]) else None
    if method_of(node) == "transpose" and isinstance(node, ast.Call):
        return receiver(node) if _last_axes([constant(arg) for arg in node.args]) else None
    if method_of(node) == "permute" and isinstance(node, ast.Call):
        axes = [constant(arg) for arg in node.args]
        return receiver(node) if axes in ([0, 1, 3, 2], [0, 2, 1]) else None
    return None


def _last_axes(axes: list[object]) -> bool:
    return sorted(map(str, axes)) in (["-1", "-2"], ["2", "3"], ["1", "2"])


def softmax_of(node: ast.expr, owner: Class) -> ast.expr | None:
    """What a softmax over the last axis is taken of."""
    if not isinstance(node, ast.Call):
        return None
    if called(node) in SOFTMAX and node.args:
        return node.args[0] if _is_last(argument(node, 1, "dim")) else None
    if (
        method_of(node) == "softmax"
        and not dotted(receiver(node)) == "self"
        and called(node) not in SOFTMAX
    ):
        return receiver(node) if _is_last(argument(node, 0, "dim")) else None
    made = [node.func] if isinstance(node.func, ast.Call) else _made(owner, node)
    if made and all(
        last(called(one)) == "Softmax" and _is_last(argument(one, 0, "dim")) for one in made
    ):
        return node.args[0]
    return None


def _is_last(axis: ast.expr | None) -> bool:
    return constant(axis) in (-1, 3)


def dropout_of(node: ast.expr, owner: Class) -> tuple[ast.expr, ast.expr] | None:
    """(what is dropped from, the rate: zero outside training) of a dropout."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if called(node) in DROPOUT:
        rate, training = argument(node, 1, "p"), argument(node, 2, "training")
        if rate is None or training is None or dotted(training) != "self.training":
            return None
        return node.args[0], parsed(f"{ast.unparse(rate)} if self.training else 0.0")
    made = _made(owner, node)
    if made and all(last(called(one)) in ("Dropout", "StableDropout", "Identity") for one in made):
        name = dotted(node.func)
        if any(last(called(one)) == "Identity" for one in made):
            return None
        return node.args[0], parsed(f"{name}.p if self.training else 0.0")
    return None


def _made(owner: Class, node: ast.Call) -> list[ast.Call]:
    """The calls that make the attribute of `self` that `node` calls."""
    name = dotted(node.func)
    if not name.startswith("self.") or name.count(".") != 1:
        return []
    return [value for value in owner.attributes.get(last(name), ()) if isinstance(value, ast.Call)]


def _makes(owner: Class, node: ast.Call, name: str) -> bool:
    return any(last(called(one)) == name for one in _made(owner, node))


def is_minimum(node: ast.expr) -> bool:
    """Whether `node` is a number that hides a score: the dtype's minimum, minus infinity, or a large negative one."""
    text = ast.unparse(node)
    value = constant(node)
    if isinstance(value, int | float):
        return value <= -1e4
    inner = (
        node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None
    )
    return (
        (isinstance(node, ast.Attribute) and node.attr == "min" and "finfo" in text)
        or "float('-inf')" in text
        or text in ("-torch.inf", "-math.inf", "-float('inf')")
        or (inner is not None and "inf" in text)
    )


def is_zero(node: ast.expr) -> bool:
    """Whether `node` is zero, or a tensor of nothing else."""
    if isinstance(node, ast.Call):
        return (
            called(node) in ("torch.scalar_tensor", "torch.tensor")
            and bool(node.args)
            and is_zero(node.args[0])
        )
    return constant(node) in (0, 0.0) and constant(node) is not False


def is_scalar(node: ast.expr, owner: Class) -> bool:
    """Whether `node` is one number: a literal, arithmetic of numbers, an attribute that `__init__` sets to such."""
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
    """Whether `node` is made of one parameter of shape (heads, 1, 1), so that it can scale the queries as well."""
    for _ in range(3):
        if not isinstance(node, ast.Name):
            break
        made = [
            one.value
            for one in walk(method.body, ast.Assign)
            if isinstance(one.targets[0], ast.Name) and one.targets[0].id == node.id
        ]
        if len(made) != 1:
            return False
        node = made[0]
    parameters = [one.attr for one in walk(node, ast.Attribute) if dotted(one.value) == "self"]
    others = {one.id for one in walk(node, ast.Name)} - {"self", "torch", "math"}
    return (
        len(parameters) == 1
        and not others
        and bool(owner.attributes.get(parameters[0]))
        and all(
            last(called(value)) == "Parameter" and ast.unparse(value).endswith(", 1, 1))))")
            for value in owner.attributes[parameters[0]]
        )
    )


def _is_number(value: ast.expr, owner: Class) -> bool:
    """Whether a value that `__init__` gives an attribute is a number and no tensor or module."""
    if isinstance(value, ast.IfExp):
        return _is_number(value.body, owner) and _is_number(value.orelse, owner)
    if any(called(call) not in _SCALARS | {"getattr"} for call in walk(value, ast.Call)):
        return all(
            method_of(call) == "sqrt" or called(call) in _SCALARS | {"torch.tensor"}
            for call in walk(value, ast.Call)
        )
    return not isinstance(value, ast.List | ast.Dict | ast.Tuple | ast.ListComp)

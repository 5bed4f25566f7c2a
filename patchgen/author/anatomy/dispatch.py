"""Parse the loop in which a forward gives each chosen expert its tokens.

    mask = one_hot(choice, num_classes=experts).permute(2, 1, 0)
    hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
    for expert in hit:
        place, token = torch.where(mask[expert])
        ...                                          # what one expert does with its tokens
        total.index_add_(0, token, states)

Takes the method of a class of experts; returns a `Dispatch`, or raises with the statement that does
not fit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from patchgen.author.anatomy.code import called, constant, dotted, method_of, receiver

_ORDER = r"(\.permute\(2, 1, 0\))?"
_ONE_HOT = re.compile(rf"(?:\w+\.)*one_hot\((?P<choice>\w+), num_classes=(?P<count>.+?)\){_ORDER}")
_GIVEN = re.compile(r"(?P<choice>\w+)\.permute\(2, 1, 0\)")
_HIT = re.compile(
    r"torch\.greater\((?P<mask>\w+)\.sum\(dim=\(-1, -2\)\), 0\)\.nonzero\((as_tuple=False)?\)"
)
_WHERE = re.compile(r"torch\.where\((?P<mask>\w+)\[(?P<expert>\w+)\](\.squeeze\(0\))?\)")


class NotDispatch(Exception):
    """`node` does not belong in such a loop."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The parts of such a forward.

    `choice` has the experts of each token: numbers below `count`, or one-hot rows if `count` is "".
    `before` and `after` are the statements around the loop.  `body` are those of one expert, whose
    result `added` is added to `total`, a tensor like `like`.  `token`, `place` and `numbers` are
    the names of indices in the loop.  `hidden` are all names that have no meaning outside the loop.
    """

    method: ast.FunctionDef
    choice: str = ""
    count: str = ""
    like: str = ""
    total: str = ""
    before: tuple[ast.stmt, ...] = ()
    after: tuple[ast.stmt, ...] = ()
    body: tuple[ast.stmt, ...] = ()
    added: ast.expr | None = None
    numbers: frozenset[str] = frozenset()
    place: str = ""
    token: str = ""
    hidden: frozenset[str] = frozenset()


def dispatch(method: ast.FunctionDef) -> Dispatch:
    """The parts of the loop of `method`.

    Raises NotDispatch if it has another form.
    """
    found = Dispatch(method)
    masks: set[str] = set()
    before: list[ast.stmt] = []
    statements = list(_flat(method.body))
    for number, node in enumerate(statements):
        if isinstance(node, ast.For):
            kept = tuple(one for one in before if not _is_of_no_tokens(one, found))
            found = replace(found, before=kept, after=tuple(statements[number + 1 :]))
            return _loop(node, found)
        known = _before(node, found, masks)
        if known is None:
            before.append(node)
        else:
            found = known
    raise NotDispatch(method, "no loop goes through the chosen experts")


def _flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements without docstrings; those under `no_grad` as if they were outside."""
    for node in body:
        if isinstance(node, ast.With) and called(node.items[0].context_expr) == "torch.no_grad":
            yield from _flat(node.body)
        elif not (isinstance(node, ast.Expr) and isinstance(constant(node.value), str)):
            yield node


def _before(node: ast.stmt, found: Dispatch, masks: set[str]) -> Dispatch | None:
    """`found` after a statement before the loop; None if the statement is no part of it."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            text = ast.unparse(value)
        case _:
            return None
    if called(value) == "torch.zeros_like" and isinstance(value, ast.Call):
        return replace(found, total=name, like=dotted(value.args[0]))
    if one_hot := _ONE_HOT.fullmatch(text):
        masks.add(name)
        # One more class stands for experts on another device.
        count = one_hot["count"].removesuffix(" + 1")
        return replace(found, choice=one_hot["choice"], count=count, hidden=found.hidden | {name})
    if given := _GIVEN.fullmatch(text):
        if given["choice"] not in masks:
            found = replace(found, choice=given["choice"])
        masks.add(name)
        return replace(found, hidden=found.hidden | {name})
    if (hit := _HIT.fullmatch(text)) and hit["mask"] in masks:
        return replace(found, hidden=found.hidden | {name})
    return None


def _is_of_no_tokens(node: ast.stmt, found: Dispatch) -> bool:
    """Whether it returns early if no expert was chosen, for which no special case is needed."""
    match node:
        case ast.If(body=[ast.Return(value=ast.Name(id=name))], orelse=[]) if name == found.total:
            return ast.unparse(node.test) == f"{found.choice}.numel() == 0"
        case _:
            return False


def _loop(loop: ast.For, found: Dispatch) -> Dispatch:
    target, over = dotted(loop.target), dotted(loop.iter)
    if not found.total or over not in found.hidden or not target or loop.orelse:
        what = "the loop does not go through the experts that a mask of choices names"
        raise NotDispatch(loop, what)
    experts, body = {target}, []
    for node in _flat(loop.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_index(value, experts):
                experts.add(name)
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=place), ast.Name(id=token)])], value=value
            ) if _finds_tokens(value, found.hidden | experts):
                found = replace(found, place=place, token=token)
            case ast.If(body=[ast.Continue()], orelse=[]) if _is_idle(node.test, found, experts):
                # An expert without tokens adds nothing: it may be skipped or not.
                pass
            case _:
                body.append(node)
    if not found.token:
        raise NotDispatch(loop, "the loop does not get the tokens of an expert from a mask")
    hidden = found.hidden | experts | {found.token, found.place}
    return _summed(
        loop, replace(found, body=tuple(body), numbers=frozenset(experts), hidden=hidden)
    )


def _finds_tokens(value: ast.expr, known: Set[str]) -> bool:
    """Whether it is `torch.where(mask[expert])` of a mask and an expert in `known`."""
    where = _WHERE.fullmatch(ast.unparse(value))
    return where is not None and {where["mask"], where["expert"]} <= known


def _is_index(value: ast.expr, experts: set[str]) -> bool:
    """Whether it is the number of the expert in another form: `e[0]`, `int(e.item())`."""
    match value:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=0)):
            return name in experts
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _is_index(inner, experts) or dotted(inner) in experts
        case ast.Call(args=[]) if method_of(value) == "item":
            return dotted(receiver(value)) in experts
        case _:
            return False


def _is_idle(test: ast.expr, found: Dispatch, experts: set[str]) -> bool:
    """Whether it tests for an expert without tokens, or for one on another device."""
    tests = {f"{one} == {found.count}" for one in experts}
    tests.add(f"{found.token}.numel() == 0")
    return ast.unparse(test) in tests


def _summed(loop: ast.For, found: Dispatch) -> Dispatch:
    match found.body:
        case [
            *body,
            ast.Expr(
                value=ast.Call(args=[ast.Constant(value=0), ast.Name(id=token), added]) as call
            ),
        ] if called(call) == f"{found.total}.index_add_" and token == found.token:
            return replace(found, body=tuple(body), added=added)
        case _:
            raise NotDispatch(loop, f"the loop does not end with adding to `{found.total}`")

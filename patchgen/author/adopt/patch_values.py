"""What the names of a patch file stand for, as far as its text says it.

from ... import modeling_llama       an import, with its dotted name
SIZES = [1, 2]                       a literal
def forward(self, x): ...            a definition
size = os.environ["SIZE"]            unknown
"""

from __future__ import annotations

import ast
import copy
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgen.author.align.file import File
from patchgen.syntax.bound import bound_names, own_nodes
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.same import Function


@dataclass(frozen=True)
class Imported:
    """What an import binds, or an attribute of it: `transformers.models.llama.modeling_llama`."""

    path: str


@dataclass(frozen=True)
class Literal:
    """A constant, or a list of values."""

    value: object


@dataclass(frozen=True)
class Defined:
    """A function or class of the patch file; `local` is what surrounds it, below the module."""

    node: Function | ast.ClassDef | ast.Lambda
    local: Mapping[str, Value] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Method:
    """`MethodType(function, instance)`; `instance` is the text."""

    function: Value
    instance: str


@dataclass(frozen=True)
class Unknown:
    """A value that only the running program knows, and where it comes from."""

    why: str
    at: Location


Value = Imported | Literal | Defined | Method | Unknown
Scope = ChainMap[str, Value]


@dataclass(frozen=True)
class Assignment:
    """`path` is the dotted name of what is replaced.

    `reach` says of which instances: "named" is an assignment to the class itself, "instances" one
    to all that `isinstance` finds, "exactly" one to those of the class and of no subclass.
    """

    path: str
    value: Value
    at: Location
    reach: str = "named"


@dataclass(frozen=True)
class Patch:
    """A patch file with its assignments, the last to each name, and the scope of its module."""

    file: File
    assignments: tuple[Assignment, ...]
    scope: Scope
    stars: tuple[str, ...]
    # The functions that apply it, with the names of the module that they change.
    changed: Mapping[ast.AST, frozenset[str]]
    problems: tuple[tuple[str, Problem], ...]


def is_of_transformers(path: str) -> bool:
    return path.partition(".")[0] == "transformers"


def path_of(value: Value) -> str:
    return value.path if isinstance(value, Imported) else ""


def takes_self(value: Value) -> bool:
    """Whether a value is a function that is made to be a method."""
    function = value.function if isinstance(value, Method) else value
    node = function.node if isinstance(function, Defined) else None
    return isinstance(node, Function) and [one.arg for one in node.args.args][:1] == ["self"]


def is_name(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, str)


_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def compare(op: ast.cmpop, left: Value, right: Value) -> Literal | None:
    compared = _COMPARED.get(type(op))
    if compared is None or not isinstance(right, Literal):
        return None
    if not isinstance(left, Literal):
        # What is defined or imported is not None.
        is_none = right.value is None and isinstance(op, ast.Is | ast.IsNot)
        is_there = is_none and isinstance(left, Defined | Imported)
        return Literal(isinstance(op, ast.IsNot)) if is_there else None
    many = right.value
    if isinstance(many, tuple):
        if not all(isinstance(one, Literal) for one in many):
            return None
        many = tuple(one.value for one in many if isinstance(one, Literal))
    is_text = isinstance(many, str) and isinstance(left.value, str)
    if isinstance(op, ast.In | ast.NotIn) and not (is_text or isinstance(many, tuple)):
        return None
    return Literal(compared(left.value, many))


def changes(node: ast.stmt, name: str) -> bool:
    """Whether a statement that does not define `name` changes what it stands for.

    TABLE["a"] = 1        TABLE.update(a=1)        for key in "ab": TABLE[key] = 1
    """
    return any(
        _root(inner) == name
        for inner in own_nodes([node])
        if isinstance(inner, ast.Name | ast.Attribute | ast.Subscript)
        and not isinstance(inner.ctx, ast.Load)
        or isinstance(inner, ast.Attribute)
        and inner.attr in _CHANGING
    ) and not isinstance(node, Function | ast.ClassDef)


_CHANGING = frozenset(
    "add append clear discard extend insert pop popitem remove setdefault update".split()
)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changed_names(function: ast.AST, module: Scope) -> frozenset[str]:
    """The names of the module that a function changes."""
    body = function.body if isinstance(function, Function) else []
    declared = {name for n in own_nodes(body) if isinstance(n, ast.Global) for name in n.names}
    local = set(bound_names(body)) - declared
    return frozenset(
        name for name in module if name not in local and any(changes(one, name) for one in body)
    )


def without_annotations(function: Function) -> ast.arguments:
    found = copy.deepcopy(function.args)
    for node in ast.walk(found):
        if isinstance(node, ast.arg):
            node.annotation = None
    return found


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a block leaves the function or the turn of a loop without an error."""
    return any(isinstance(n, ast.Return | ast.Continue | ast.Break) for n in own_nodes(body))


def one_subject(loop: ast.For) -> list[ast.stmt]:
    """The body of a loop, in which one object has one name.

    for name, module in model._modules.items():        `model._modules[name]` is `module`
    """
    inner = loop.iter
    if isinstance(inner, ast.Call) and ast.unparse(inner.func) in ("reversed", "list"):
        inner = inner.args[0] if inner.args else inner
    text = ast.unparse(inner)
    match loop.target:
        case ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=value)]) if text.endswith(".items()"):
            other = f"{text.removesuffix('.items()')}[{name}]"
            return [_Renamed(other, value).visit(node) for node in copy.deepcopy(loop.body)]
    return loop.body


class _Renamed(ast.NodeTransformer):
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if ast.unparse(node) == self.text:
            return ast.copy_location(ast.Name(self.name, ast.Load()), node)
        self.generic_visit(node)
        return node

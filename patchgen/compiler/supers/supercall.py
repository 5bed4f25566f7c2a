"""Where a method asks for what its class inherits: `super().m`, `super(T, self).m`, `Parent.m`.

In: a method of a class of the chain.  Out: its `SuperUse`s, each with the place in the chain where the search begins,
and what cannot be followed as problems.  Nothing is changed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.plan.model import ClassPlan
from patchgen.syntax.scopes import ComprehensionNode, FunctionNode

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MARKER = re.compile(r"__parent_(\d+)__")


@dataclass(frozen=True, slots=True)
class SuperUse:
    """`node` is the attribute `super().name`; `call` is the call of it, if it is called.

    The search begins at `start` in the chain.  `receiver` is the name of the object that it is bound to; it is None
    for `Parent.name`, which is bound to nothing.  `nested`: inside a function or comprehension of the method.
    `marker` is the parent in `super(Parent, self)`.
    """

    node: ast.Attribute
    call: ast.Call | None
    name: str
    start: int
    receiver: str | None
    nested: bool
    marker: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class Misuse:
    """A use of `super` or of a parent that cannot be followed."""

    node: ast.expr
    what: str
    hint: str

    @property
    def is_super(self) -> bool:
        """Whether it is a use of `super`, not of a class."""
        return not (isinstance(self.node, ast.Name) and self.node.id != "super")


def find_methods(statement: ast.stmt) -> Iterator[FunctionNode]:
    """The functions and lambdas that stand in a class body, those under `if` and the like included."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, FunctionNode):
            yield node
        elif not isinstance(node, ast.ClassDef):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def first_parameter(method: FunctionNode) -> str | None:
    """The name by which `method` knows its object; None when it takes no positional parameter."""
    positional = [*method.args.posonlyargs, *method.args.args]
    return positional[0].arg if positional else None


def marker_index(node: ast.AST) -> int | None:
    """The place in the chain that an explicit parent stands for."""
    found = _MARKER.fullmatch(node.id) if isinstance(node, ast.Name) else None
    return int(found.group(1)) if found else None


def find_class_reads(statement: ast.stmt) -> Iterator[ast.Attribute]:
    """The attributes of a parent by name that a statement reads in the scope of the class body."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        match node:
            case ast.Attribute(value=owner) if marker_index(owner) is not None:
                yield node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                evaluated = [
                    *getattr(node, "decorator_list", []),
                    *node.args.defaults,
                    *node.args.kw_defaults,
                ]
                stack += [expression for expression in evaluated if expression]
            case ast.ClassDef():
                stack += [*node.decorator_list, *node.bases, *node.keywords]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                stack.append(node.generators[0].iter)
            case _:
                stack.extend(ast.iter_child_nodes(node))


def find_marker(statement: ast.stmt) -> ast.Name | None:
    """A parent by name anywhere in `statement`."""
    return next(
        (n for n in ast.walk(statement) if isinstance(n, ast.Name) and _MARKER.fullmatch(n.id)),
        None,
    )


def find_super_uses(
    method: FunctionNode, origin: int, plan: ClassPlan
) -> Iterator[SuperUse | Misuse]:
    """Every use of `super` and of a parent class by name in the body of `method`, which is of `plan.chain[origin]`."""
    body: list[ast.AST] = list(method.body) if isinstance(method.body, list) else [method.body]
    walker = _Walker(None if _is_static(method) else first_parameter(method), origin, plan)
    for node in body:
        walker.visit(node, None, False)
    yield from walker.found


def is_tried(node: ast.AST, method: FunctionNode) -> bool:
    """Whether `node` of `method` stands where an AttributeError may be expected: in `try`, or under `suppress`."""
    for outer in ast.walk(method):
        match outer:
            case ast.Try() | ast.TryStar():
                inside: list[ast.stmt] = outer.body
            case ast.With() | ast.AsyncWith() if any(
                "suppress" in ast.unparse(i.context_expr) for i in outer.items
            ):
                inside = outer.body
            case _:
                continue
        if any(node is inner for statement in inside for inner in ast.walk(statement)):
            return True
    return False


def _is_static(method: FunctionNode) -> bool:
    decorators = method.decorator_list if not isinstance(method, ast.Lambda) else []
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in decorators
    )


class _Walker:
    def __init__(self, receiver: str | None, origin: int, plan: ClassPlan) -> None:
        self.found: list[SuperUse | Misuse] = []
        self._receiver, self._origin, self._plan = receiver, origin, plan
        self._in_class = 0

    def visit(self, node: ast.AST, parent: ast.AST | None, nested: bool) -> None:
        match node:
            case (
                ast.Name(id="super" | "__class__")
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]))
            ) if self._in_class:
                return  # a nested class has a `super` and a `__class__` of its own
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=arguments)):
                self._attribute(node, parent, nested, arguments)
                return
            case ast.Attribute(value=ast.Name()) if (index := marker_index(node.value)) is not None:
                call = parent if isinstance(parent, ast.Call) and parent.func is node else None
                self.found.append(SuperUse(node, call, node.attr, index, None, nested))
                return
            case ast.Name(id="super"):
                hint = "call it and use an attribute of it: super().name"
                self.found.append(
                    Misuse(node, "super is used otherwise than as super().name", hint)
                )
            case ast.Name() if marker_index(node) is not None:
                hint = "name one of its attributes"
                self.found.append(
                    Misuse(node, "a parent that is merged into the class is used as a value", hint)
                )
            case ast.Name(id="__class__") if self._origin:
                hint = "write type(self), or name the class"
                self.found.append(
                    Misuse(node, "__class__ names a class that is merged into another", hint)
                )
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, nested)
                return
            case ast.ClassDef():
                self._class(node, nested)
                return
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, nested)
                return
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            self.visit(child, node, nested)

    def _function(self, node: FunctionNode, nested: bool) -> None:
        inner = set(map(id, node.body)) if isinstance(node.body, list) else {id(node.body)}
        for child in ast.iter_child_nodes(node):
            self.visit(child, node, nested or id(child) in inner)

    def _class(self, node: ast.ClassDef, nested: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inner = isinstance(child, ast.stmt)
            self._in_class += inner
            self.visit(child, node, nested or inner)
            self._in_class -= inner

    def _comprehension(self, node: ComprehensionNode, nested: bool) -> None:
        first = node.generators[0].iter  # evaluated outside
        self.visit(first, node, nested)
        for child in ast.iter_child_nodes(node):
            for part in ast.iter_child_nodes(child) if child is node.generators[0] else [child]:
                if part is not first:
                    self.visit(part, node, True)

    def _attribute(
        self, node: ast.Attribute, parent: ast.AST | None, nested: bool, arguments: list[ast.expr]
    ) -> None:
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if not isinstance(node.ctx, ast.Load):
            self.found.append(
                Misuse(
                    node,
                    f"super().{node.attr} is assigned to or deleted",
                    f"write self.{node.attr}",
                )
            )
            return
        match arguments:
            case [] if self._receiver is None:
                what = f"super().{node.attr} stands in a method that takes no object: Python raises there"
                self.found.append(
                    Misuse(node, what, "write self as the first parameter, and no @staticmethod")
                )
            case []:
                self.found.append(
                    SuperUse(node, call, node.attr, self._origin + 1, self._receiver, nested)
                )
            case [ast.Name() as owner, ast.Name(id=receiver)]:
                start = self._start(owner)
                # An explicit object is the same one wherever the call stands.
                marker = owner if marker_index(owner) is not None else None
                self.found.append(SuperUse(node, call, node.attr, start, receiver, False, marker))
            case _:
                hint = "write super()"
                self.found.append(
                    Misuse(node, "super is called with arguments that are no plain names", hint)
                )

    def _start(self, owner: ast.Name) -> int:
        """Where in the chain the classes behind `owner` begin."""
        index = marker_index(owner)
        if index is not None:
            return index + 1
        if owner.id == "__class__":
            return self._origin + 1
        piece = self._plan.chain[self._origin]
        if owner.id in (self._plan.name, piece.name):
            return self._origin + 1
        symbol = piece.dependencies.get(owner.id)
        places = [
            i
            for i, other in enumerate(self._plan.chain)
            if symbol == other.symbol or owner.id == other.name
        ]
        return places[0] + 1 if places and places[0] >= self._origin else len(self._plan.chain)

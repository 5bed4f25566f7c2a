"""Find where a method asks for what its class inherits: `super().m`, `Parent.m`.

In: a method of a class of the chain.  Out: its `SuperUse`s, each with the place in the chain where
the search begins, and a `Misuse` for what cannot be followed.  This module changes nothing.

In the rewritten blocks, a parent that code names explicitly is spelled `__parent_<place>__`:

    super(Parent, self).forward(x)      super(__parent_1__, self).forward(x)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.plan.model import ClassPlan
from patchgen.syntax.bound import ComprehensionNode, FunctionNode, list_body
from patchgen.syntax.trees import children, decorator_names, list_defaults, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MARKER = re.compile(r"__parent_(\d+)__")


@dataclass(frozen=True, slots=True)
class SuperUse:
    """`node` is the attribute `super().name`; `call` is the call of it, if it is called.

    The search begins at `start` in the chain.  `receiver` is the name of the object that it is
    bound to; it is None for `Parent.name`, which is bound to nothing.  `nested`: inside a function
    or comprehension of the method.  `marker` is the parent in `super(Parent, self)`.
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
    """The functions and lambdas of a class body, also those under `if` and the like."""
    # A nested class has methods of its own, whose `super` means another chain.
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, FunctionNode):
            yield node
        elif not isinstance(node, ast.ClassDef):
            stack.extend(reversed(children(node)))


def first_parameter(method: FunctionNode) -> str | None:
    """The name by which `method` knows its object; None when it takes no positional parameter."""
    positional = [*method.args.posonlyargs, *method.args.args]
    if not positional:
        return None
    return positional[0].arg


def marker_index(node: ast.AST) -> int | None:
    """The place in the chain that an explicit parent stands for."""
    if not isinstance(node, ast.Name):
        return None
    found = _MARKER.fullmatch(node.id)
    # The place in the chain is written into the name.
    return int(found.group(1)) if found else None


def find_class_reads(statement: ast.stmt) -> Iterator[ast.Attribute]:
    """The attributes of a parent by name that a statement reads in the scope of the class body."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        match node:
            case ast.Attribute(value=owner) if marker_index(owner) is not None:
                yield node
            # Of a function, only these are evaluated in the class body.
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                stack += getattr(node, "decorator_list", [])
                stack += list_defaults(node.args)
            case ast.ClassDef():
                stack += [*node.decorator_list, *node.bases, *node.keywords]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                stack.append(node.generators[0].iter)
            case _:
                stack.extend(children(node))


def find_marker(statement: ast.stmt) -> ast.Name | None:
    """A parent by name anywhere in `statement`."""
    for node in walk(statement):
        if isinstance(node, ast.Name) and _MARKER.fullmatch(node.id):
            return node
    return None


def find_super_uses(
    method: FunctionNode, origin: int, plan: ClassPlan
) -> Iterator[SuperUse | Misuse]:
    """Every use of `super`, and of a parent class by name, in the body of `method`.

    The method belongs to the class `plan.chain[origin]`.
    """
    is_static = "staticmethod" in decorator_names(method)
    receiver = None if is_static else first_parameter(method)
    walker = _Walker(receiver, origin, plan)
    for node in list_body(method):
        walker.visit(node, None, False)
    yield from walker.found


def is_tried(node: ast.AST, method: FunctionNode) -> bool:
    """Whether the method expects an AttributeError at `node`: in `try`, or under `suppress`."""
    for outer in walk(method):
        for statement in _list_tried(outer):
            if any(node is inner for inner in walk(statement)):
                return True
    return False


def _list_tried(node: ast.AST) -> list[ast.stmt]:
    """The statements under `node` of which an error is caught."""
    match node:
        case ast.Try() | ast.TryStar():
            return node.body
        case ast.With() | ast.AsyncWith():
            managers = [ast.unparse(item.context_expr) for item in node.items]
            # `contextlib.suppress(AttributeError)`, under any import of it.
            if any("suppress" in manager for manager in managers):
                return node.body
    return []


class _Walker:
    """Walks the body of one method and collects its uses; `nested` says how deep it is."""

    def __init__(self, receiver: str | None, origin: int, plan: ClassPlan) -> None:
        self.found: list[SuperUse | Misuse] = []
        self._receiver, self._origin, self._plan = receiver, origin, plan
        self._in_class = 0

    def visit(self, node: ast.AST, parent: ast.AST | None, nested: bool) -> None:
        """Visit `node` below `parent`; `nested` is for functions and comprehensions."""
        # A nested class has its own `super`, and its own `__class__`.
        if self._in_class and _is_own_of_class(node):
            return
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=arguments)):
                self._visit_super(node, parent, nested, arguments)
                return
            case ast.Attribute(value=ast.Name()) if (index := marker_index(node.value)) is not None:
                call = _find_call(node, parent)
                self.found.append(SuperUse(node, call, node.attr, index, None, nested))
                return
            case ast.Name():
                self._visit_name(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._visit_function(node, nested)
                return
            case ast.ClassDef():
                self._visit_class(node, nested)
                return
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node, nested)
                return
        for child in children(node):
            self.visit(child, node, nested)

    def _visit_name(self, node: ast.Name) -> None:
        """Refuse the names that mean a class of the chain, or `super`, as values."""
        if node.id == "super":
            what = "super is used otherwise than as super().name"
            hint = "call it and use an attribute of it: super().name"
            self.found.append(Misuse(node, what, hint))
        elif marker_index(node) is not None:
            what = "a parent that is merged into the class is used as a value"
            self.found.append(Misuse(node, what, "name one of its attributes"))
        elif node.id == "__class__" and self._origin:
            # In the child itself, `__class__` is the flat class.
            what = "__class__ names a class that is merged into another"
            self.found.append(Misuse(node, what, "write type(self), or name the class"))

    def _visit_function(self, node: FunctionNode, nested: bool) -> None:
        """Visit a function in the method, which may run at another time."""
        # Defaults and decorators are evaluated outside the function.
        inner = {id(child) for child in list_body(node)}
        for child in children(node):
            self.visit(child, node, nested or id(child) in inner)

    def _visit_class(self, node: ast.ClassDef, nested: bool) -> None:
        """Visit a class in the method, whose body has a `super` of its own."""
        for child in children(node):
            inner = isinstance(child, ast.stmt)
            self._in_class += inner
            self.visit(child, node, nested or inner)
            self._in_class -= inner

    def _visit_comprehension(self, node: ComprehensionNode, nested: bool) -> None:
        """Visit a comprehension; before Python 3.12, it is a function of its own."""
        generator = node.generators[0]
        first = generator.iter  # evaluated outside the comprehension
        self.visit(first, node, nested)
        parts: list[ast.AST] = []
        for child in children(node):
            if child is generator:
                parts += children(child)
            else:
                parts.append(child)
        for part in parts:
            if part is not first:
                self.visit(part, node, True)

    def _visit_super(
        self, node: ast.Attribute, parent: ast.AST | None, nested: bool, arguments: list[ast.expr]
    ) -> None:
        """Record `super(...).name`, or why it cannot be followed."""
        call = _find_call(node, parent)
        if not isinstance(node.ctx, ast.Load):
            what = f"super().{node.attr} is assigned to or deleted"
            self.found.append(Misuse(node, what, f"write self.{node.attr}"))
            return
        match arguments:
            case [] if self._receiver is None:
                what = (
                    f"super().{node.attr} stands in a method that takes no object: "
                    "Python raises there"
                )
                hint = "write self as the first parameter, and no @staticmethod"
                self.found.append(Misuse(node, what, hint))
            case []:
                start = self._origin + 1
                self.found.append(SuperUse(node, call, node.attr, start, self._receiver, nested))
            # `super(Parent, self)` searches behind Parent.
            case [ast.Name() as owner, ast.Name(id=receiver)]:
                start = self._find_start(owner)
                marker = owner if marker_index(owner) is not None else None
                # An explicit object is the same one wherever the call stands: never nested.
                self.found.append(SuperUse(node, call, node.attr, start, receiver, False, marker))
            case _:
                what = "super is called with arguments that are no plain names"
                self.found.append(Misuse(node, what, "write super()"))

    def _find_start(self, owner: ast.Name) -> int:
        """Where in the chain the classes behind `owner` begin."""
        index = marker_index(owner)
        if index is not None:
            return index + 1
        block = self._plan.chain[self._origin]
        if owner.id in ("__class__", self._plan.name, block.name):
            return self._origin + 1
        # Two classes of the chain may have one name in their own files.
        symbol = block.dependencies.get(owner.id)
        for place, other in enumerate(self._plan.chain):
            is_owner = symbol == other.symbol or owner.id == other.name
            if is_owner and place >= self._origin:
                return place + 1
            # `super(T, self)` needs a T that the class is derived from.
            if is_owner:
                break
        return len(self._plan.chain)


def _is_own_of_class(node: ast.AST) -> bool:
    """Whether `node` is a `super` or a `__class__`, of which a nested class has its own."""
    match node:
        case ast.Name(id="super" | "__class__"):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[])):
            return True
        case _:
            return False


def _find_call(node: ast.Attribute, parent: ast.AST | None) -> ast.Call | None:
    """The call of which `node` is the function."""
    if isinstance(parent, ast.Call) and parent.func is node:
        return parent
    return None

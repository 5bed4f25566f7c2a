"""Find where a method asks for what its class inherits: `super().m`, `Parent.m(self)`.

In: a method of a class of the chain.  Out: its `SuperUse`s, each with the level in the chain where
the search begins, and a `Misuse` for what cannot be followed.

In the rewritten blocks, a parent that code names explicitly is spelled `__parent_<level>__`:

    Parent.forward(self, x)         __parent_1__.forward(self, x)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.merge.members import Statement
from patchgen.syntax.bound import ComprehensionNode, FunctionNode, bound_names, list_body
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import (
    Function,
    children,
    decorator_names,
    list_positional,
    names_within,
    walk,
)

_MARKER = re.compile(r"__parent_(\d+)__")
# Beside `super`, these see a local variable `__class__`.
SEES_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec"})
_WRITE_OUT = "write the value out, as it is no literal"
# Where in a method a node stands: in its own statements, in a function, or in a class in it.
METHOD, NESTED, CLASS = range(3)


@dataclass(frozen=True, slots=True)
class Misuse:
    """What cannot be followed; with `is_super` it can stay in the last class of the chain."""

    node: ast.expr
    code: str
    what: str
    hint: str
    is_super: bool


@dataclass(frozen=True, slots=True)
class SuperUse:
    """`node` is the attribute `super().name`; `call` is the call of it, if it is called.

    The search begins at `start` in the chain.  `by_name`: it is `Parent.name(self, ...)`, which
    searches the bases of that parent alone.  `misuse`: why it cannot be followed into the chain.
    `owner` is the class in `super(LlamaMLP, self)`.
    """

    node: ast.Attribute
    call: ast.Call | None
    name: str
    start: int
    by_name: bool
    misuse: Misuse | None = None
    owner: str = ""

    @property
    def what(self) -> str:
        """How messages name it."""
        return f"{'Parent' if self.by_name else 'super()'}.{self.name}"


def first_parameter(method: FunctionNode) -> str | None:
    """The name by which `method` knows its object; None when it takes no positional parameter."""
    positional = list_positional(method.args)
    return positional[0].arg if positional else None


def marker_index(node: ast.AST) -> int | None:
    """The level in the chain that an explicit parent stands for."""
    marker = _MARKER.fullmatch(node.id) if isinstance(node, ast.Name) else None
    return int(marker.group(1)) if marker else None


def is_written_at(code: Fragment, node: ast.expr) -> bool:
    """Whether the text at the position of `node` is its own.

    Inside f-strings, Python before 3.12 gives wrong positions.
    """
    try:
        return is_same_code(ast.parse(code.source(node), mode="eval").body, node)
    except SyntaxError:
        return False


def calls_inherited(override: ast.stmt, method: str) -> bool:
    """Whether `super().method` or `Parent.method` occurs in `override`."""
    for node in walk(override):
        # Reading the method counts: it may be called under another name.
        if isinstance(node, ast.Attribute) and node.attr == method:
            match node.value:
                case ast.Call(func=ast.Name(id="super")):
                    return True
                case owner if marker_index(owner) is not None:
                    return True
    return False


def find_super_uses(statement: Statement) -> list[SuperUse | Misuse]:
    """Every use of `super`, and of a parent class by name, in one statement of a class body."""
    # Nearly no statement has any.
    if "super" not in statement.text and "__" not in statement.text:
        return []
    node = statement.node
    if not isinstance(node, Function):
        return list(_find_in_class_body(node))
    walker = _Walker(node, statement.origin)
    for inner in node.body:
        walker.visit(inner, None, METHOD)
    outside = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    for part in outside:
        walker.uses += _find_in_class_body(part)
    return walker.uses


def _find_in_class_body(node: ast.AST) -> Iterator[Misuse]:
    """A parent by name, or `super`, where the flat class is not made yet."""
    for inner in walk(node):
        if not isinstance(inner, ast.Name):
            continue
        if marker_index(inner) is not None:
            what = "a parent that is merged is named in the class body, where no class is made yet"
            yield Misuse(inner, "PG212", what, _WRITE_OUT, False)
        elif inner.id == "super":
            what = "super() stands outside the methods of the class"
            yield Misuse(inner, "PG210", what, "write a method", True)


class _Walker:
    """Walks the body of one method and collects its uses."""

    def __init__(self, method: Function, origin: int) -> None:
        self.uses: list[SuperUse | Misuse] = []
        self._origin = origin
        is_static = "staticmethod" in decorator_names(method)
        self._receiver = None if is_static else first_parameter(method)
        self._rebinds = self._receiver in set(bound_names(method.body))
        names = {node.id for node in names_within(method)}
        self._sees_locals = bool(names & SEES_LOCALS)

    def visit(self, node: ast.AST, parent: ast.AST | None, scope: int) -> None:
        """Visit `node` below `parent`; `scope` is METHOD, NESTED or CLASS."""
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                # A nested class has a `super` of its own.
                if scope != CLASS:
                    self._visit_super(node, parent, scope == NESTED)
                return
            case ast.Attribute(value=ast.Name()) if (level := marker_index(node.value)) is not None:
                self._visit_parent(node, parent, scope, level)
                return
            case ast.Name() if marker_index(node) is not None:
                what = "a parent that is merged into the class is used as a value"
                hint = "call one of its methods: Parent.method(self)"
                self.uses.append(Misuse(node, "PG210", what, hint, False))
        first = None
        if isinstance(node, ComprehensionNode):
            first = node.generators[0].iter  # evaluated outside the comprehension
            self.visit(first, node, scope)
            scope = max(scope, NESTED)
        # Decorators and defaults are evaluated outside the function, bases outside the class.
        inside = list_body(node) if isinstance(node, FunctionNode) else []
        for child in children(node):
            inner = max(scope, NESTED) if child in inside else scope
            if isinstance(node, ast.ClassDef) and isinstance(child, ast.stmt):
                inner = CLASS
            if isinstance(child, ast.comprehension) and child.iter is first:
                for part in [child.target, *child.ifs]:
                    self.visit(part, child, inner)
            else:
                self.visit(child, node, inner)

    def _visit_super(self, node: ast.Attribute, parent: ast.AST | None, nested: bool) -> None:
        """Record `super().name`, and why it cannot be followed."""
        what = f"super().{node.attr}"
        code = "PG210"
        refusal = ""
        hint = ""
        start = self._origin + 1
        owner = ""
        match node.value:
            case ast.Call(args=[first, receiver]):
                owner = ast.unparse(first)
                level = marker_index(first)
                start = start if level is None else level + 1
                if ast.unparse(receiver) != self._receiver:
                    refusal = f"of {ast.unparse(receiver)}"
                    hint = "write super()"
        if refusal:
            pass
        elif not isinstance(node.ctx, ast.Load):
            refusal = "is assigned to or deleted"
            hint = f"write self.{node.attr}"
        elif nested:
            code = "PG211"
            refusal = "stands in a nested function or comprehension"
            hint = f"bind it first: inherited = {what}"
        elif self._receiver is None:
            refusal = "stands in a method that takes no object"
            hint = "write self as the first parameter, and no @staticmethod"
        elif self._rebinds:
            code = "PG213"
            refusal = f"where {self._receiver} is bound again"
            hint = "give the other value a name of its own"
        elif self._sees_locals:
            # Python gives a function that names `super` a variable `__class__`.
            refusal = "beside code that can see the local variable __class__"
            hint = "name the variables one by one, instead of locals(), vars(), eval() or exec()"
        elif isinstance(parent, ast.Attribute) and parent.attr in ("__name__", "__qualname__"):
            refusal = f"and its {parent.attr}, which the flat class keeps under another name"
            hint = f"write {node.attr!r}"
        misuse = Misuse(node, code, f"{what} {refusal}", hint, True) if refusal else None
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        self.uses.append(SuperUse(node, call, node.attr, start, False, misuse, owner))

    def _visit_parent(
        self, node: ast.Attribute, parent: ast.AST | None, scope: int, level: int
    ) -> None:
        """Record `Parent.name(self, ...)`, or a call that fits a static method alone."""
        match parent:
            case ast.Call(args=[ast.Name(id=receiver), *_]) if parent.func is node:
                if receiver == self._receiver and scope == METHOD and not self._rebinds:
                    self.uses.append(SuperUse(node, parent, node.attr, level, True))
                    return
        what = f"{node.attr} of a parent that is merged is used otherwise than as Parent.m(self)"
        hint = f"write super().{node.attr}, or self.{node.attr}"
        if self._receiver is None:
            hint += ", in a method that takes self"
        misuse = Misuse(node, "PG210", what, hint, False)
        if isinstance(parent, ast.Call) and parent.func is node:
            self.uses.append(SuperUse(node, parent, node.attr, level, True, misuse))
        else:
            self.uses.append(misuse)

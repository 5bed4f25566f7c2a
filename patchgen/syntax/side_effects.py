"""Find what a statement does when it runs, beyond binding its names.

In: the text of top-level statements.  Out: the positions of the names that it may change, and of
those that it calls.  `TABLE["a"] = 1` may change `TABLE`, `LOG.append(f)` may change `LOG`,
`@register` calls `register`:

    @register("double")            called: register
    def double(x): ...
    KINDS["a"].add(double)         changed: KINDS; passed: double

Whether a called function then changes something else is decided in `plan/changes.py`, which knows
what names mean.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.syntax.trees import (
    Position,
    list_defaults,
    list_parameters,
    names_within,
    parse_once,
    position_of,
    walk,
)

# Builtins that read what they are given and change nothing.
_READERS = frozenset(
    "abs all any bool bytes callable chr complex dict divmod enumerate filter float format"
    " frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max min"
    " object oct ord pow property range repr reversed round set slice sorted staticmethod"
    " classmethod str sum super tuple type zip".split()
)


@dataclass(frozen=True, slots=True)
class SideEffects:
    """Positions of names, by what the statements do with them.

    `changed`: the root of what is stored into, added to in place, deleted from, or whose method is
    called.  `stored`: the root of what is stored into or deleted from.
    `called`: functions and classes that are called by their name.
    `passed`: arguments of calls.  `retained`: arguments of calls whose result is kept, in a class
    body, a decorator or a default.
    `bases`: the bases of classes.  `metaclasses`: what stands behind `metaclass=`.
    `used`: the roots of attributes and subscripts that are read, and operands: a property or an
    operator of an own class may do anything.
    `discarded`: all names in a statement that is only an expression.
    """

    changed: frozenset[Position]
    stored: frozenset[Position]
    called: frozenset[Position]
    passed: frozenset[Position]
    retained: frozenset[Position]
    bases: frozenset[Position]
    metaclasses: frozenset[Position]
    used: frozenset[Position]
    discarded: frozenset[Position]

    @property
    def is_pure(self) -> bool:
        """Whether nothing is called or changed."""
        return not (self.changed or self.called or self.discarded)


@functools.lru_cache(maxsize=4096)
def read_import_effects(text: str) -> SideEffects:
    """What the statements of `text` do while they run at module level."""
    return _read(text, inside=False)


@functools.lru_cache(maxsize=4096)
def read_call_effects(text: str) -> SideEffects:
    """What the statements of `text` do, the bodies of functions included."""
    return _read(text, inside=True)


def _read(text: str, inside: bool) -> SideEffects:
    """Collect the effects of every statement of `text`."""
    reader = _Reader(inside)
    for node in parse_once(text).body:
        reader.visit(node)
    return SideEffects(
        changed=frozenset(reader.changed),
        stored=frozenset(reader.stored),
        called=frozenset(reader.called),
        passed=frozenset(reader.passed),
        retained=frozenset(reader.retained),
        bases=frozenset(reader.bases),
        metaclasses=frozenset(reader.metaclasses),
        used=frozenset(reader.used),
        discarded=frozenset(reader.discarded),
    )


class _Reader(ast.NodeVisitor):
    """Collects positions; `inside` says that the bodies of functions run too."""

    def __init__(self, inside: bool) -> None:
        self._inside = inside
        self._has_use = False  # in a class body, a decorator or a default
        self._given = False  # in what is given to a call
        self.changed: set[Position] = set()
        self.stored: set[Position] = set()
        self.called: set[Position] = set()
        self.passed: set[Position] = set()
        self.retained: set[Position] = set()
        self.bases: set[Position] = set()
        self.metaclasses: set[Position] = set()
        self.used: set[Position] = set()
        self.discarded: set[Position] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A definition runs its decorators and defaults now, and its body later."""
        self._visit_decorators(node.decorator_list)
        self._visit_used(list_defaults(node.args))
        annotations = [parameter.annotation for parameter in list_parameters(node.args)]
        self._visit_annotations([*annotations, node.returns])
        if self._inside:
            # The result of a call in a function body is not kept by the module.
            outer, self._has_use = self._has_use, False
            self._visit_all(node.body)
            self._has_use = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_used(list_defaults(node.args))
        if self._inside or self._given:  # `list(map(lambda f: TABLE.update(f), ...))`
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class statement runs all of its head and body now."""
        self._visit_decorators(node.decorator_list)
        for base in node.bases:
            self.bases |= _find_roots(base)
        for keyword in node.keywords:
            if keyword.arg == "metaclass":
                self.metaclasses |= _find_roots(keyword.value)
        # The class keeps what its head and its body evaluate.
        keywords = [keyword.value for keyword in node.keywords]
        self._visit_used([*node.bases, *keywords, *node.body])

    def visit_Call(self, node: ast.Call) -> None:
        """A call may change what it is given, and the object of a method."""
        self._call(node.func)
        keywords = [keyword.value for keyword in node.keywords]
        arguments = [*node.args, *keywords]
        # `len(TABLE)` cannot change the table; any other function may.
        if not (isinstance(node.func, ast.Name) and node.func.id in _READERS):
            target = self.retained if self._has_use else self.passed
            for argument in arguments:
                target |= _find_names(argument)
        # A lambda that is passed to a call may run at once.
        outer, self._given = self._given, True
        self._visit_all(arguments)
        self._given = outer

    def visit_Expr(self, node: ast.Expr) -> None:
        """The value of the expression is thrown away: it is there for its effect."""
        # A statement that is only an expression has to have an effect.
        if not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom | ast.Await):
            self.discarded |= {position_of(name) for name in names_within(node.value)}
        self.visit(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._visit_access(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._visit_access(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The annotation counts only where it calls something."""
        self.visit(node.target)
        self._visit_annotations([node.annotation])
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """A target that is a name is bound, and its object may be changed too."""
        # `B += [2]` changes the list that B is, whatever else is it.
        if isinstance(node.target, ast.Name):
            self.changed.add(position_of(node.target))
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        # `with x:` calls methods of x.
        self.changed |= _find_roots(node.context_expr)
        self.generic_visit(node)

    def _visit_access(self, node: ast.Attribute | ast.Subscript) -> None:
        """An attribute or a subscript: the name that it begins with is used or changed."""
        roots = _find_roots(node)
        if isinstance(node.ctx, ast.Load):
            self.used |= roots
        else:
            # A store or a deletion.
            self.changed |= roots
            self.stored |= roots
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._add_operands([node.left, node.right])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._add_operands([node.left, *node.comparators])
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._add_operands([node.iter])
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._add_operands([node.iter])
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._add_operands([node.value])
        self.generic_visit(node)

    def _add_operands(self, nodes: Sequence[ast.expr]) -> None:
        self.used |= {position_of(node) for node in nodes if isinstance(node, ast.Name)}

    def _visit_annotations(self, annotations: Sequence[ast.expr | None]) -> None:
        """`x: note("x")` calls `note`, unless annotations are kept as strings."""
        for annotation in annotations:
            if annotation is None:
                continue
            if any(isinstance(node, ast.Call) for node in walk(annotation)):
                self._visit_used([annotation])

    def _visit_decorators(self, decorators: list[ast.expr]) -> None:
        """Every decorator is called, and may keep what it is given."""
        # Python calls a decorator, whether it is written as a call or not.
        for decorator in decorators:
            self._call(decorator)
        self._visit_used(decorators)

    def _call(self, callee: ast.expr) -> None:
        """Record what is called: a function by its name, or a method of an object."""
        # A method may change its object; a function by itself has none to change.
        if isinstance(callee, ast.Name):
            self.called.add(position_of(callee))
        elif isinstance(callee, ast.Attribute):
            self.changed |= _find_roots(callee)

    def _visit_used(self, nodes: Sequence[ast.AST]) -> None:
        outer, self._has_use = self._has_use, True
        self._visit_all(nodes)
        self._has_use = outer

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _find_roots(node: ast.expr) -> set[Position]:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        return {position_of(node)}
    # A number or a string at the beginning is nobody else's.
    # `(A or B).append(1)` may change either of them.
    if isinstance(node, ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.BinOp):
        return _find_names(node)
    return set()


def _find_names(node: ast.AST) -> set[Position]:
    """Every name read in `node`, without those that are only called."""
    called: set[int] = set()
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            called.add(id(call.func))
    found: set[Position] = set()
    for name in names_within(node):
        if isinstance(name.ctx, ast.Load) and id(name) not in called:
            found.add(position_of(name))
    return found

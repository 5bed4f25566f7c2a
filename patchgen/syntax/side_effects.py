"""What a statement does when it runs, beyond binding its names.

In: the text of top-level statements.  Out: where it names what it may change, and what it calls.  `TABLE["a"] = 1`
may change `TABLE`, `LOG.append(f)` may change `LOG`, `@register` calls `register`:

    @register("double")            called: register
    def double(x): ...
    KINDS["a"].add(double)         changed: KINDS; handed over: double

Whether a called function then changes something else is asked in `plan/changes.py`, which knows what names mean.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass

Place = tuple[int, int]  # line and byte column of a name, as `ast` counts them

# Builtins that read what they are given and change nothing.
_READERS = frozenset(
    "abs all any bool bytes callable chr complex dict divmod enumerate filter float format frozenset getattr hasattr"
    " hash hex id int isinstance issubclass iter len list map max min object oct ord pow property range repr reversed"
    " round set slice sorted staticmethod classmethod str sum super tuple type zip".split()
)


@dataclass(frozen=True, slots=True)
class SideEffects:
    """Places of names.

    `changed` are roots of what is stored into, added to in place, deleted from, or whose method is called; `stored`
    what is stored into or deleted from.  `called` are functions and classes that are called by their name, `handed`
    what is given to a call, and `kept` what is given to a call whose result has a use of its own: in a class body, a
    decorator, a default.  `bases` are the bases of classes, `metaclasses` what is named as such.  `used` are roots of
    attributes and subscripts that are read, and operands: a property or an operator of an own class may do anything.
    `aside` are all names in a statement that is no more than an expression.
    """

    changed: frozenset[Place]
    stored: frozenset[Place]
    called: frozenset[Place]
    handed: frozenset[Place]
    kept: frozenset[Place]
    bases: frozenset[Place]
    metaclasses: frozenset[Place]
    used: frozenset[Place]
    aside: frozenset[Place]

    @property
    def is_pure(self) -> bool:
        """Whether nothing is called or changed."""
        return not (self.changed or self.called or self.aside)


@functools.lru_cache(maxsize=4096)
def read_import_effects(text: str) -> SideEffects:
    """What the statements of `text` do while they run at module level."""
    return _read(text, inside=False)


@functools.lru_cache(maxsize=4096)
def read_call_effects(text: str) -> SideEffects:
    """What the statements of `text` do, the bodies of functions included."""
    return _read(text, inside=True)


def _read(text: str, inside: bool) -> SideEffects:
    reader = _Reader(inside)
    for node in ast.parse(text).body:
        reader.visit(node)
    sets = (
        reader.changed,
        reader.stored,
        reader.called,
        reader.handed,
        reader.kept,
        reader.bases,
        reader.metaclasses,
        reader.used,
        reader.aside,
    )
    return SideEffects(*map(frozenset, sets))


class _Reader(ast.NodeVisitor):
    def __init__(self, inside: bool) -> None:
        self._inside = inside
        self._has_use = False  # in a class body, a decorator or a default
        self._given = False  # in what is given to a call
        self.changed: set[Place] = set()
        self.stored: set[Place] = set()
        self.called: set[Place] = set()
        self.handed: set[Place] = set()
        self.kept: set[Place] = set()
        self.bases: set[Place] = set()
        self.metaclasses: set[Place] = set()
        self.used: set[Place] = set()
        self.aside: set[Place] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._decorators(node.decorator_list)
        self._of_use([*node.args.defaults, *(d for d in node.args.kw_defaults if d)])
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        annotations = [a.annotation for a in (*arguments, node.args.vararg, node.args.kwarg) if a]
        self._annotations([*annotations, node.returns])
        if self._inside:
            outer, self._has_use = self._has_use, False
            self._visit_all(node.body)
            self._has_use = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._of_use([*node.args.defaults, *(d for d in node.args.kw_defaults if d)])
        if self._inside or self._given:  # `list(map(lambda f: TABLE.update(f), ...))`
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._decorators(node.decorator_list)
        for base in node.bases:
            self.bases |= _roots(base)
        for keyword in node.keywords:
            self.metaclasses |= _roots(keyword.value) if keyword.arg == "metaclass" else set()
        self._of_use([*node.bases, *(keyword.value for keyword in node.keywords), *node.body])

    def visit_Call(self, node: ast.Call) -> None:
        self._call(node.func)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not (isinstance(node.func, ast.Name) and node.func.id in _READERS):
            given = {place for argument in arguments for place in _names(argument)}
            (self.kept if self._has_use else self.handed).update(given)
        outer, self._given = self._given, True
        self._visit_all(arguments)
        self._given = outer

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom | ast.Await):
            self.aside |= {
                _place(name) for name in ast.walk(node.value) if isinstance(name, ast.Name)
            }
        self.visit(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._stored(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._stored(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self._annotations([node.annotation])
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        # `B += [2]` changes the list that B is, whatever else is it.
        if isinstance(node.target, ast.Name):
            self.changed.add(_place(node.target))
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        self.changed |= _roots(node.context_expr)
        self.generic_visit(node)

    def _stored(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.changed |= _roots(node)
            self.stored |= _roots(node)
        else:
            self.used |= _roots(node)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operands([node.left, node.right])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._operands([node.left, *node.comparators])
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._operands([node.iter])
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._operands([node.iter])
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._operands([node.value])
        self.generic_visit(node)

    def _operands(self, nodes: Sequence[ast.expr]) -> None:
        self.used |= {_place(node) for node in nodes if isinstance(node, ast.Name)}

    def _annotations(self, annotations: Sequence[ast.expr | None]) -> None:
        """`x: note("x")` calls `note` when it is not made a string of."""
        self._of_use(
            [a for a in annotations if a and any(isinstance(n, ast.Call) for n in ast.walk(a))]
        )

    def _decorators(self, decorators: list[ast.expr]) -> None:
        for decorator in decorators:
            self._call(decorator)
        self._of_use(decorators)

    def _call(self, callee: ast.expr) -> None:
        if isinstance(callee, ast.Name):
            self.called.add(_place(callee))
        elif isinstance(callee, ast.Attribute):
            self.changed |= _roots(callee)

    def _of_use(self, nodes: Sequence[ast.AST]) -> None:
        outer, self._has_use = self._has_use, True
        self._visit_all(nodes)
        self._has_use = outer

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _place(node: ast.Name) -> Place:
    return (node.lineno, node.col_offset)


def _roots(node: ast.expr) -> set[Place]:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        return {_place(node)}
    return (
        _names(node)
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.BinOp)
        else set()
    )


def _names(node: ast.AST) -> set[Place]:
    """Every name read in `node`, less those that are only called."""
    called = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return {
        _place(name)
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and id(name) not in called
    }

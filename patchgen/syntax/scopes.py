"""Find which names of a piece of code are global, and where each is read.

In: `ast` statements as they stand at module level.  Out: a `Reference` for each read of a name that
no enclosing function, class or comprehension binds.  The rules are Python's; the standard library's
`symtable` gives no positions.

    def f(x):
        return x + SIZE.width       one reference: SIZE, with the attribute width, not eager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from patchgen.syntax.annotations import quoted_annotations
from patchgen.syntax.bound import (
    ComprehensionNode,
    FunctionNode,
    bound_names,
    list_body,
    local_names,
    outer_expressions,
    own_statements,
)
from patchgen.syntax.trees import Position, children

# The kinds of nodes that `_Walker` has a rule for.  All others, which are most, only have children.
_HANDLED = frozenset(
    {ast.Name, ast.Attribute, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Import, ast.ImportFrom}
    | {ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, getattr(ast, "TypeAlias", None)}
)


@dataclass(frozen=True, slots=True)
class Reference:
    """One read of a global name, as `ast` counts lines and byte columns.

    `name` is what Python looks up: in the body of a class `Base`, `__limit` is `_Base__limit`.
    `attributes` is the chain behind it (`nn.Module` reads `nn` with `("Module",)`), and `ends`
    where each of them ends.  `hidden` are the names that scopes around the read bind.
    `eager`: evaluated when the module is imported.  `quoted`: inside a string annotation; the
    position is that of the string.
    """

    name: str
    line: int
    column: int
    eager: bool
    quoted: bool = False
    attributes: tuple[str, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    hidden: frozenset[str] = frozenset()

    @property
    def position(self) -> Position:
        """Where the name stands: the position of the `ast.Name` that reads it."""
        return (self.line, self.column)


def references(nodes: Iterable[ast.stmt], lazy_annotations: bool = False) -> tuple[Reference, ...]:
    """Every read of a global name in module-level statements, in source order of the walk.

    `lazy_annotations` says that the file has `from __future__ import annotations`.
    """
    walker = _Walker(lazy_annotations)
    for node in nodes:
        walker.visit(node)
    return tuple(walker.found)


def is_private(name: str) -> bool:
    """Whether Python mangles `name` in a class body."""
    return name.startswith("__") and not name.endswith("__") and "." not in name


def mangle(name: str, class_name: str) -> str:
    """`name` as Python reads it in the body of the class `class_name`."""
    prefix = class_name.lstrip("_")
    # A class named `_` mangles nothing.
    return f"_{prefix}{name}" if prefix and is_private(name) else name


class _TypeParameters(set[str]):
    """The names of a scope of type parameters, which sees the names of the class around it."""


class _Walker:
    """Visits nodes with a stack of scopes; each scope is (is_class, names bound in it)."""

    def __init__(self, lazy_annotations: bool) -> None:
        self.found: list[Reference] = []
        self._scopes: list[tuple[bool, set[str]]] = []
        # How many function bodies and unevaluated annotations stand around the node.
        self._lazy = 0
        self._quoted: tuple[int, int] | None = None
        self._lazy_annotations = lazy_annotations
        # The innermost class around the node, by whose name Python mangles private names.
        self._class_name = ""

    def visit(self, node: ast.AST) -> None:
        """Visit `node` by the rule of its kind."""
        if type(node) not in _HANDLED:
            for child in children(node):
                self.visit(child)
            return
        match node:
            case ast.Name(ctx=ast.Load()):
                self._read(node)
            case ast.Name():
                self._bind_in_class([node.id])
            case ast.Attribute():
                self._visit_attribute(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._visit_function(node)
            case ast.ClassDef():
                self._visit_class(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node)
            case ast.AnnAssign():
                self._visit_annotated(node)
            case ast.Assign() | ast.AugAssign() | ast.NamedExpr():
                self._visit_assignment(node)
            case ast.Import() | ast.ImportFrom():
                self._bind_in_class(bound_names([node]))
            case _:  # ast.TypeAlias, from Python 3.12 on
                self._visit_type_alias(node)

    def _visit_attribute(self, node: ast.Attribute) -> None:
        """Read a chain such as `nn.functional.silu` as one reference."""
        # `ast` nests a chain from its end: the name it begins with is the innermost node.
        chain: list[ast.Attribute] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.append(inner)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._read(inner, chain[::-1])
        else:
            self.visit(inner)

    def _visit_assignment(self, node: ast.Assign | ast.AugAssign | ast.NamedExpr) -> None:
        """Visit value and targets in the order in which Python evaluates them."""
        # The value is read before the target is bound, which matters in a class body: `x = x`.
        self.visit(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        # `x += 1` reads x too, although its context says only that it is stored.
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._read(node.target)
        for target in targets:
            self.visit(target)

    def _visit_annotated(self, node: ast.AnnAssign) -> None:
        """Visit `x: T = v`, of which the value comes first."""
        if node.value is not None:
            self.visit(node.value)
        self._visit_annotation(node.annotation)
        self.visit(node.target)

    def _visit_annotation(self, node: ast.expr | None) -> None:
        """Visit an annotation, and the forward references in it."""
        if node is None:
            return
        # With the future import, nothing evaluates an annotation at import.
        self._lazy += self._lazy_annotations
        # The names inside have no position of their own in the file.
        for quoted in quoted_annotations(node):
            self._quoted = (quoted.lineno, quoted.col_offset)
            self._visit_quoted(quoted)
            self._quoted = None
        self.visit(node)
        self._lazy -= self._lazy_annotations

    def _visit_quoted(self, quoted: ast.Constant) -> None:
        """Visit a forward reference, whose text is code as well."""
        annotation = ast.parse(str(quoted.value).strip(), mode="eval").body
        self.visit(annotation)
        # A quoted annotation may hold another: `"list['Cache']"`.
        for deeper in quoted_annotations(annotation):
            self._visit_quoted(deeper)

    def _visit_function(self, node: FunctionNode) -> None:
        """Visit a function: parts of it belong to the scope around it."""
        for expression in outer_expressions(node):
            self.visit(expression)
        if isinstance(node, ast.Lambda):
            self._visit_body(node)
            return
        with self._enter_type_parameters(node):
            self._visit_signature(node)
            self._visit_body(node)
        self._bind_in_class([node.name])

    def _visit_signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """The annotations of the parameters and of the result."""
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters += [star for star in (arguments.vararg, arguments.kwarg) if star]
        for parameter in parameters:
            self._visit_annotation(parameter.annotation)
        self._visit_annotation(node.returns)

    def _visit_class(self, node: ast.ClassDef) -> None:
        """Visit a class, whose body is a scope that functions in it do not see."""
        for decorator in node.decorator_list:
            self.visit(decorator)
        with self._enter_type_parameters(node):
            # Bases may name type parameters: `class A[T](Base[T])`.
            for base in node.bases:
                self.visit(base)
            for keyword in node.keywords:
                self.visit(keyword.value)
            # A class body binds its names one after the other, while it is walked.
            self._scopes.append((True, set()))
            around, self._class_name = self._class_name, node.name
            for statement in node.body:
                self.visit(statement)
            self._class_name = around
            self._scopes.pop()
        self._bind_in_class([node.name])

    def _bind_in_class(self, names: Iterable[str]) -> None:
        """Record what a statement binds, if it stands in a class body.

        The names of a function are known before its body is walked.
        """
        if not self._scopes:
            return
        is_class, bound = self._scopes[-1]
        if is_class:
            bound.update(names)

    def _visit_type_alias(self, node: Any) -> None:
        """`type X[T] = list[T]`; the value is evaluated when somebody asks for it."""
        self.visit(node.name)
        with self._enter_type_parameters(node):
            self._lazy += 1
            self.visit(node.value)
            self._lazy -= 1

    @contextmanager
    def _enter_type_parameters(self, node: ast.AST) -> Iterator[None]:
        """The scope of `[T: int]` behind a name, in which bases, annotations and the body stand."""
        parameters: Sequence[Any] = getattr(node, "type_params", [])
        if not parameters:
            yield
            return
        self._scopes.append((False, _TypeParameters(parameter.name for parameter in parameters)))
        # Python evaluates a bound or a default when somebody asks the parameter for it.
        self._lazy += 1
        for parameter in parameters:
            for expression in children(parameter):  # a bound, a default
                self.visit(expression)
        self._lazy -= 1
        yield
        self._scopes.pop()

    def _visit_body(self, node: FunctionNode) -> None:
        """Visit the body of a function, in which all its local names are known at once."""
        body = list_body(node)
        # A `global x` inside makes reads of x global whatever encloses it.
        declared: set[str] = set()
        for child in own_statements(body):
            if isinstance(child, ast.Global):
                declared.update(child.names)
        outer = self._scopes
        visible = outer
        if declared:
            visible = [(is_class, bound - declared) for is_class, bound in outer]
        # A list of its own: the scopes around it must not see what is pushed inside.
        self._scopes = [*visible, (False, set(local_names(node)))]
        self._lazy += 1
        for child in body:
            self.visit(child)
        self._lazy -= 1
        self._scopes = outer

    def _visit_comprehension(self, node: ComprehensionNode) -> None:
        """Visit a comprehension, which binds its targets for itself alone."""
        first, *rest = node.generators
        self.visit(first.iter)  # evaluated in the enclosing scope
        # All targets are local, also in the parts that stand before them.
        targets = [generator.target for generator in node.generators]
        self._scopes.append((False, set(bound_names(targets))))
        for part in [first.target, *first.ifs, *rest]:
            self.visit(part)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for result in results:
            self.visit(result)
        self._scopes.pop()

    def _read(self, node: ast.Name, chain: Sequence[ast.Attribute] = ()) -> None:
        """Record a read, unless a scope around it binds the name."""
        innermost = self._find_innermost()
        hidden: set[str] = set()
        for depth, (is_class, names) in enumerate(self._scopes):
            # A class body's names are visible in the body itself only, not in functions inside it.
            if is_class and depth != innermost:
                continue
            if node.id in names:
                return
            hidden |= names
        # A name inside quotes has no place in the file but that of the string.
        is_quoted = self._quoted is not None
        line, column = self._quoted or (node.lineno, node.col_offset)
        reference = Reference(
            name=node.id if is_quoted else mangle(node.id, self._class_name),
            line=line,
            column=column,
            eager=not self._lazy and not is_quoted,
            quoted=is_quoted,
            attributes=tuple(link.attr for link in chain),
            ends=tuple((link.end_lineno or line, link.end_col_offset or 0) for link in chain),
            hidden=frozenset(hidden),
        )
        self.found.append(reference)

    def _find_innermost(self) -> int:
        """The depth of the innermost scope that is not one of type parameters."""
        for depth in range(len(self._scopes) - 1, -1, -1):
            if not isinstance(self._scopes[depth][1], _TypeParameters):
                return depth
        return -1

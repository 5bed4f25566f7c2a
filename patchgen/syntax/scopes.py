"""Find which names of a piece of code are global, and where each is read.

In: `ast` statements as they stand at module level.  Out: a `Reference` for each read of a name that
no enclosing function, class or comprehension binds.  The rules are Python's; the standard library's
`symtable` gives no positions.

    def f(x):
        return x + SIZE.width       one reference: SIZE, with the attribute width, not eager
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from patchgen.syntax import bound
from patchgen.syntax.annotations import quoted_annotations
from patchgen.syntax.reads import Reference, Scope, mangle
from patchgen.syntax.trees import Function, Position, children, list_parameters

# A read, the scope it is in, what the body of a class has bound by then, and its reference.
_Read = tuple[str, Scope | None, frozenset[str], Callable[..., Reference]]


def references(nodes: Iterable[ast.stmt]) -> tuple[Reference, ...]:
    """Every read of a global name in module-level statements, in source order of the walk."""
    walker = _Walker()
    for node in nodes:
        walker.visit(node)
    return tuple(walker.list_global_reads())


class _Walker:
    """Visits each node once, and collects the reads of names that the scope does not bind above."""

    def __init__(self) -> None:
        self._reads: list[_Read] = []
        self._scope: Scope | None = None
        # How many function bodies stand around the node.
        self._lazy = 0
        self._quoted: Position | None = None
        # The innermost class around the node, by whose name Python mangles private names.
        self._class_name = ""

    def visit(self, node: ast.AST) -> None:
        """Visit `node` by the rule of its kind."""
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(self, node)
            return
        for child in children(node):
            self.visit(child)

    def list_global_reads(self) -> Iterable[Reference]:
        """The reads of names that no scope binds, in order, once everything has been visited."""
        for name, scope, bound_above, reference in self._reads:
            visible = scope.visible if scope else frozenset()
            if name not in visible:
                yield reference(hidden=visible | bound_above)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _visit_name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node)
        else:
            self._bind(node.id)

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

    def _visit_assignment(self, node: ast.Assign) -> None:
        """Visit value and targets in the order in which Python evaluates them."""
        # The value is read before the target is bound, which matters in a class body: `x = x`.
        self.visit(node.value)
        self._visit_all(node.targets)

    def _visit_augmented(self, node: ast.AugAssign) -> None:
        """Visit `x += 1`, which reads x too, although its context says only that it is stored."""
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target)
        self.visit(node.target)

    def _visit_walrus(self, node: ast.NamedExpr) -> None:
        """Visit `x := v`, which binds x around the comprehensions that it stands in."""
        self.visit(node.value)
        inner = self._scope
        while self._scope is not None and self._scope.kind == "comprehension":
            self._scope = self._scope.outer
        self.visit(node.target)
        self._scope = inner

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
        # The names inside have no position of their own in the file.
        for quoted in quoted_annotations(node):
            self._quoted = (quoted.lineno, quoted.col_offset)
            self._visit_quoted(quoted)
            self._quoted = None
        self.visit(node)

    def _visit_quoted(self, quoted: ast.Constant) -> None:
        """Visit a forward reference, whose text is code as well."""
        annotation = ast.parse(str(quoted.value).strip(), mode="eval").body
        self.visit(annotation)
        # A quoted annotation may hold another: `"list['Cache']"`.
        for deeper in quoted_annotations(annotation):
            self._visit_quoted(deeper)

    def _visit_function(self, node: Function) -> None:
        """Visit a function: parts of it belong to the scope around it."""
        self._visit_all(bound.outer_expressions(node))
        outer = self._scope
        self._enter_type_parameters(node)
        for parameter in list_parameters(node.args):
            self._visit_annotation(parameter.annotation)
        self._visit_annotation(node.returns)
        self._visit_body(node)
        self._scope = outer
        self._bind(node.name)

    def _visit_lambda(self, node: ast.Lambda) -> None:
        self._visit_all(bound.outer_expressions(node))
        self._visit_body(node)

    def _visit_body(self, node: bound.FunctionNode) -> None:
        """Visit what a function runs, in a scope of its own."""
        outer = self._scope
        self._scope = Scope(outer, "function", bound.parameters(node))
        self._lazy += 1
        self._visit_all(bound.list_body(node))
        self._lazy -= 1
        self._scope = outer

    def _visit_class(self, node: ast.ClassDef) -> None:
        """Visit a class, whose body is a scope that functions in it do not see."""
        self._visit_all(node.decorator_list)
        outer = self._scope
        self._enter_type_parameters(node)
        # Bases may name type parameters: `class A[T](Base[T])`.
        self._visit_all([*node.bases, *node.keywords])
        # A class body binds its names one after the other, while it is walked.
        self._scope = Scope(self._scope, "class")
        around, self._class_name = self._class_name, node.name
        self._visit_all(node.body)
        self._class_name = around
        self._scope = outer
        self._bind(node.name)

    def _visit_type_alias(self, node: Any) -> None:
        """`type X[T] = list[T]`; the value is evaluated when somebody asks for it."""
        self.visit(node.name)
        outer = self._scope
        self._enter_type_parameters(node)
        self._lazy += 1
        self.visit(node.value)
        self._lazy -= 1
        self._scope = outer

    def _enter_type_parameters(self, node: ast.AST) -> None:
        """Enter the scope of `[T: int]` behind a name, in which bases, annotations and body stand.

        Without one, the scope stays what it is.
        """
        listed: Sequence[Any] = getattr(node, "type_params", [])
        if not listed:
            return
        names = [parameter.name for parameter in listed]
        self._scope = Scope(self._scope, "type parameters", names)
        # Python evaluates a bound or a default when somebody asks the parameter for it.
        self._lazy += 1
        for parameter in listed:
            self._visit_all(children(parameter))
        self._lazy -= 1

    def _visit_comprehension(self, node: bound.ComprehensionNode) -> None:
        """Visit a comprehension, which binds its targets for itself alone."""
        first, *rest = node.generators
        self.visit(first.iter)  # evaluated in the enclosing scope
        outer = self._scope
        self._scope = Scope(outer, "comprehension")
        self._visit_all([first.target, *first.ifs, *rest])
        if isinstance(node, ast.DictComp):
            self._visit_all([node.key, node.value])
        else:
            self.visit(node.elt)
        self._scope = outer

    def _visit_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(bound.bound_by(alias))

    def _visit_handler(self, node: ast.ExceptHandler) -> None:
        """Visit `except E as e`, below which Python deletes the name."""
        scope = self._scope
        name = node.name
        if name is None:
            self._visit_all(children(node))
            return
        was_bound = scope is not None and name in scope.bound
        self._bind(name)
        self._visit_all(children(node))
        # In a function, the name is local all the same.
        if scope is not None and scope.kind == "class" and not was_bound:
            scope.bound.discard(name)

    def _visit_pattern(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._bind(name)
        self._visit_all(children(node))

    def _declare(self, node: ast.Global | ast.Nonlocal) -> None:
        """Take names from the function around; Python wants the statement above all uses."""
        if self._scope is None or self._scope.kind == "class":
            return
        self._scope.declared.update(node.names)
        if isinstance(node, ast.Global):
            self._scope.declared_global.update(node.names)

    def _bind(self, name: str) -> None:
        """Record that the scope binds `name`; what the module binds is global."""
        if self._scope is not None and name not in self._scope.declared:
            self._scope.bound.add(name)

    def _read(self, node: ast.Name, chain: Sequence[ast.Attribute] = ()) -> None:
        """Record a read, unless the scope has bound the name above."""
        scope = self._scope
        # Most reads end here: they are of parameters and of what the lines above bind.
        if scope is not None and node.id in scope.bound:
            return
        bound_above = self._find_bound_above()
        if node.id in bound_above:
            return
        # A name inside quotes has no place in the file but that of the string.
        line, column = self._quoted or (node.lineno, node.col_offset)
        reference = functools.partial(
            Reference,
            name=node.id if self._quoted else mangle(node.id, self._class_name),
            line=line,
            column=column,
            eager=not self._lazy and self._quoted is None,
            quoted=self._quoted is not None,
            attributes=tuple(link.attr for link in chain),
            ends=tuple((link.end_lineno or line, link.end_col_offset or 0) for link in chain),
        )
        self._reads.append((node.id, scope, bound_above, reference))

    def _find_bound_above(self) -> frozenset[str]:
        """What the body of a class has bound by now, as far as the place is in one."""
        scope = self._scope
        # A scope of type parameters sees the names of the class around it.
        while scope is not None and scope.kind == "type parameters":
            scope = scope.outer
        is_in_class = scope is not None and scope.kind == "class"
        return frozenset(scope.bound) if scope is not None and is_in_class else frozenset()


# The kinds of nodes that `_Walker` has a rule for.  All others, which are most, only have children.
_RULES: Mapping[type[ast.AST] | None, Callable[[_Walker, Any], None]] = {
    ast.Name: _Walker._visit_name,
    ast.Attribute: _Walker._visit_attribute,
    ast.FunctionDef: _Walker._visit_function,
    ast.AsyncFunctionDef: _Walker._visit_function,
    ast.Lambda: _Walker._visit_lambda,
    ast.ClassDef: _Walker._visit_class,
    ast.ListComp: _Walker._visit_comprehension,
    ast.SetComp: _Walker._visit_comprehension,
    ast.DictComp: _Walker._visit_comprehension,
    ast.GeneratorExp: _Walker._visit_comprehension,
    ast.Assign: _Walker._visit_assignment,
    ast.AnnAssign: _Walker._visit_annotated,
    ast.AugAssign: _Walker._visit_augmented,
    ast.NamedExpr: _Walker._visit_walrus,
    ast.Import: _Walker._visit_import,
    ast.ImportFrom: _Walker._visit_import,
    ast.ExceptHandler: _Walker._visit_handler,
    ast.MatchAs: _Walker._visit_pattern,
    ast.MatchStar: _Walker._visit_pattern,
    ast.MatchMapping: _Walker._visit_pattern,
    ast.Global: _Walker._declare,
    ast.Nonlocal: _Walker._declare,
    getattr(ast, "TypeAlias", None): _Walker._visit_type_alias,
}

"""Which names of a piece of code are global, and where each is read.

In: `ast` statements as they stand at module level.  Out: `Reference`s, one for each read of a name that no enclosing
function, class or comprehension binds, and the names that the statements themselves bind.  Python's scope rules,
without running anything; standard library `symtable` gives no positions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Reference:
    """One read of a global name, as `ast` counts lines and byte columns.

    `attributes` is the dotted chain that follows it (`nn.Module` reads `nn` with `("Module",)`) and `ends` where each
    of them ends.  `hidden` are the names that scopes around the read bind.  `eager`: evaluated when the module is
    imported; `quoted`: inside a string annotation, whose position is that of the string.
    """

    name: str
    line: int
    column: int
    eager: bool
    quoted: bool = False
    attributes: tuple[str, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    hidden: frozenset[str] = frozenset()


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that `nodes` bind in their own scope, in order, with repetitions.

    Walks into compound statements and comprehensions' walrus targets, not into nested functions and classes.
    """
    stack: list[ast.AST] = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
                stack.extend(_outer_expressions(node))
                continue
            case ast.ClassDef():
                yield node.name
                stack.extend(_outer_expressions(node))
                continue
            case ast.Lambda():
                stack.extend(_outer_expressions(node))
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from _walrus_targets(node)
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id
            case ast.Import():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.ExceptHandler(name=str(name)):
                yield name
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield name
            case _:
                pass
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def names_in(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Every name that is read, bound, declared or taken as a parameter anywhere in `nodes`."""
    found: set[str] = set()
    for top in nodes:
        for node in ast.walk(top):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
                case _:
                    pass
        found.update(
            bound_names(
                node for node in ast.walk(top) if isinstance(node, ast.stmt | ast.excepthandler)
            )
        )
        found.update(bound_names(node for node in ast.walk(top) if isinstance(node, ast.pattern)))
    return frozenset(found)


def parameters(node: FunctionNode) -> tuple[str, ...]:
    """The parameter names of a function, in the order of its signature."""
    a = node.args
    every = [
        *a.posonlyargs,
        *a.args,
        *([a.vararg] if a.vararg else []),
        *a.kwonlyargs,
        *([a.kwarg] if a.kwarg else []),
    ]
    return tuple(arg.arg for arg in every)


def references(nodes: Iterable[ast.stmt], lazy_annotations: bool = False) -> tuple[Reference, ...]:
    """Every read of a global name in module-level statements, in source order of the walk.

    `lazy_annotations` says that the file has `from __future__ import annotations`.
    """
    walker = _Walker(lazy_annotations)
    for node in nodes:
        walker.visit(node)
    return tuple(walker.found)


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The names that are local to `function`: what its parameters and body bind, less `global`s and `nonlocal`s."""
    body = function.body if isinstance(function.body, list) else [function.body]
    names = {*parameters(function), *bound_names(body)}
    return frozenset(names - _declared(body))


def _declared(body: Iterable[ast.AST]) -> set[str]:
    return {
        name
        for node in own_nodes(body)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of `body` outside nested functions and classes."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ScopeNode):
            stack.extend(ast.iter_child_nodes(node))


def _outer_expressions(node: ScopeNode) -> list[ast.expr]:
    """The parts of a function or class statement that are evaluated where it stands, annotations left out."""
    found: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        found += node.decorator_list
    if isinstance(node, ast.ClassDef):
        found += [*node.bases, *(keyword.value for keyword in node.keywords)]
    else:
        found += [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    return found


def _walrus_targets(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.NamedExpr) and isinstance(child.target, ast.Name):
            yield child.target.id


class _TypeParameters(set[str]):
    """The names of a scope of type parameters, from which the names of the class around it are seen."""


class _Walker:
    """Visits nodes with a stack of scopes; each scope is (is_class, names bound in it)."""

    def __init__(self, lazy_annotations: bool) -> None:
        self.found: list[Reference] = []
        self._scopes: list[tuple[bool, set[str]]] = []
        self._lazy = 0  # depth of function bodies
        self._quoted: tuple[int, int] | None = None
        self._lazy_annotations = lazy_annotations

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Name():
                if isinstance(node.ctx, ast.Load):
                    self._read(node)
                elif self._scopes and self._scopes[-1][0]:
                    self._scopes[-1][1].add(node.id)
            case ast.Attribute():
                self._attribute(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node)
            case ast.AnnAssign():
                self._annotated(node)
            case ast.Assign() | ast.AugAssign() | ast.NamedExpr():
                self._assignment(node)
            case _ if type(node).__name__ == "TypeAlias":  # ast.TypeAlias, from Python 3.12 on
                self._type_alias(node)
            case ast.Import() | ast.ImportFrom() if self._scopes and self._scopes[-1][0]:
                self._scopes[-1][1].update(bound_names([node]))
            case _:
                for child in ast.iter_child_nodes(node):
                    self.visit(child)

    def _attribute(self, node: ast.Attribute) -> None:
        chain: list[ast.Attribute] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.append(inner)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._read(inner, chain[::-1])
        else:
            self.visit(inner)

    def _assignment(self, node: ast.Assign | ast.AugAssign | ast.NamedExpr) -> None:
        # The value is read before the target is bound, which matters in a class body: `x = x`.
        self.visit(node.value)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._read(node.target)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.visit(target)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self._annotation(node.annotation)
        self.visit(node.target)

    def _annotation(self, node: ast.expr | None) -> None:
        if node is None:
            return
        self._lazy += self._lazy_annotations
        for quoted in quoted_annotations(node):
            self._quoted = (quoted.lineno, quoted.col_offset)
            self._inside_quotes(quoted)
            self._quoted = None
        self.visit(node)
        self._lazy -= self._lazy_annotations

    def _inside_quotes(self, quoted: ast.Constant) -> None:
        said = ast.parse(str(quoted.value).strip(), mode="eval").body
        self.visit(said)
        for deeper in quoted_annotations(said):
            self._inside_quotes(deeper)

    def _function(self, node: FunctionNode) -> None:
        for expression in _outer_expressions(node):
            self.visit(expression)
        if isinstance(node, ast.Lambda):
            self._enter(node, set(local_names(node)))
            return
        with self._type_parameters(node):
            a = node.args
            for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else [])]:
                self._annotation(arg.annotation)
            self._annotation(a.kwarg.annotation if a.kwarg else None)
            self._annotation(node.returns)
            self._enter(node, set(local_names(node)))
        self._bind_in_class(node.name)

    def _class(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        with self._type_parameters(node):
            for expression in [*node.bases, *(keyword.value for keyword in node.keywords)]:
                self.visit(expression)
            self._scopes.append((True, set()))
            for statement in node.body:
                self.visit(statement)
            self._scopes.pop()
        self._bind_in_class(node.name)

    def _bind_in_class(self, name: str) -> None:
        if self._scopes and self._scopes[-1][0]:
            self._scopes[-1][1].add(name)

    def _type_alias(self, node: Any) -> None:
        """`type X[T] = list[T]`; the value is evaluated when somebody asks for it."""
        self.visit(node.name)
        with self._type_parameters(node):
            self._lazy += 1
            self.visit(node.value)
            self._lazy -= 1

    @contextmanager
    def _type_parameters(self, node: ast.AST) -> Iterator[None]:
        """The scope of `[T: int]` behind a name, in which bases, annotations and the body stand."""
        parameters: Sequence[Any] = getattr(node, "type_params", [])
        if not parameters:
            yield
            return
        self._scopes.append((False, _TypeParameters(parameter.name for parameter in parameters)))
        self._lazy += 1
        for parameter in parameters:
            for expression in ast.iter_child_nodes(parameter):  # a bound, a default
                self.visit(expression)
        self._lazy -= 1
        yield
        self._scopes.pop()

    def _enter(self, node: FunctionNode, names: set[str]) -> None:
        body: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
        # A `global x` inside makes reads of x global whatever encloses it.
        outer = self._scopes
        declared = {
            n for child in own_nodes(body) if isinstance(child, ast.Global) for n in child.names
        }
        if declared:
            self._scopes = [(is_class, bound - declared) for is_class, bound in outer]
        self._scopes = [*self._scopes, (False, names)]
        self._lazy += 1
        for child in body:
            self.visit(child)
        self._lazy -= 1
        self._scopes = outer

    def _comprehension(self, node: ComprehensionNode) -> None:
        first, *rest = node.generators
        self.visit(first.iter)  # evaluated in the enclosing scope
        names = set(bound_names(generator.target for generator in node.generators))
        self._scopes.append((False, names))
        for part in [first.target, *first.ifs, *rest]:
            self.visit(part)
        for result in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(result)
        self._scopes.pop()

    def _read(self, node: ast.Name, chain: Sequence[ast.Attribute] = ()) -> None:
        own = [
            depth
            for depth, (_, names) in enumerate(self._scopes)
            if not isinstance(names, _TypeParameters)
        ]
        innermost = own[-1] if own else -1
        for depth, (is_class, names) in enumerate(self._scopes):
            # A class body's names are visible in the body itself only, not in the functions inside it.
            if node.id in names and (not is_class or depth == innermost):
                return
        line, column = self._quoted or (node.lineno, node.col_offset)
        eager = not self._lazy and self._quoted is None
        attributes = tuple(link.attr for link in chain)
        ends = tuple((link.end_lineno or line, link.end_col_offset or 0) for link in chain)
        hidden = frozenset(
            n for i, (c, names) in enumerate(self._scopes) for n in names if not c or i == innermost
        )
        quoted = self._quoted is not None
        self.found.append(Reference(node.id, line, column, eager, quoted, attributes, ends, hidden))


def quoted_annotations(annotation: ast.expr) -> Iterator[ast.Constant]:
    """The string constants of an annotation that are forward references (not the values of a `Literal`)."""
    stack: list[ast.AST] = [annotation]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Subscript):
            name = (
                node.value.attr
                if isinstance(node.value, ast.Attribute)
                else getattr(node.value, "id", "")
            )
            if name == "Literal":
                continue
            if name == "Annotated" and isinstance(node.slice, ast.Tuple):
                stack.append(node.slice.elts[0])
                continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                ast.parse(node.value.strip(), mode="eval")
            except SyntaxError:
                continue
            yield node
        stack.extend(ast.iter_child_nodes(node))

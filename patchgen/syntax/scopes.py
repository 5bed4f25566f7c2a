"""Find which names of a piece of code are global, and where each is read.

In: `ast` statements as they stand at module level.  Out: a `Reference` for each read of a name that
no enclosing function, class or comprehension binds, and the names that the statements themselves
bind.  The rules are Python's; the standard library's `symtable` gives no positions.
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


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that `nodes` bind in their own scope, in order, with repetitions.

    Walks into compound statements and comprehensions' walrus targets, not into nested functions and
    classes.
    """
    # Reversed, so that names come out in the order of the text.
    stack: list[ast.AST] = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
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
        inside = list(ast.walk(top))
        for node in inside:
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
                case _:
                    pass
        # Imports, handlers and patterns bind names that are no `Name`.
        binders = [n for n in inside if isinstance(n, ast.stmt | ast.excepthandler | ast.pattern)]
        found.update(bound_names(binders))
    return frozenset(found)


def parameters(node: FunctionNode) -> tuple[str, ...]:
    """The parameter names of a function, in the order of its signature."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        every.append(arguments.vararg)
    every += arguments.kwonlyargs
    if arguments.kwarg:
        every.append(arguments.kwarg)
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
    """The names that are local to `function`: its parameters, and what its body binds.

    Names that are declared `global` or `nonlocal` are not local.
    """
    body = function.body if isinstance(function.body, list) else [function.body]
    names = {*parameters(function), *bound_names(body)}
    return frozenset(names - _find_declared(body))


def _find_declared(body: Iterable[ast.AST]) -> set[str]:
    """The names that `global` and `nonlocal` statements declare."""
    found: set[str] = set()
    for node in own_nodes(body):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
    return found


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of `body` outside nested functions and classes."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ScopeNode):
            stack.extend(ast.iter_child_nodes(node))


def _outer_expressions(node: ScopeNode) -> list[ast.expr]:
    """The parts of a function or class statement that are evaluated where it stands.

    Annotations are left out.
    """
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
    """The names of a scope of type parameters, which sees the names of the class around it."""


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
        # With the future import, nothing evaluates an annotation at import.
        self._lazy += self._lazy_annotations
        # The names inside have no position of their own in the file.
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
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [star for star in (arguments.vararg, arguments.kwarg) if star]
            for arg in every:
                self._annotation(arg.annotation)
            self._annotation(node.returns)
            self._enter(node, set(local_names(node)))
        self._bind_in_class(node.name)

    def _class(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        with self._type_parameters(node):
            # Bases may name type parameters: `class A[T](Base[T])`.
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
        declared: set[str] = set()
        for child in own_nodes(body):
            if isinstance(child, ast.Global):
                declared.update(child.names)
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
        # All targets are local, also in the parts that stand before them.
        names = set(bound_names(generator.target for generator in node.generators))
        self._scopes.append((False, names))
        for part in [first.target, *first.ifs, *rest]:
            self.visit(part)
        for result in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
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
        is_quoted = self._quoted is not None
        line, column = self._quoted or (node.lineno, node.col_offset)
        reference = Reference(
            name=node.id,
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


def quoted_annotations(annotation: ast.expr) -> Iterator[ast.Constant]:
    """The string constants of an annotation that are forward references.

    The values of a `Literal`, and what follows the type in an `Annotated`, are not.
    """
    stack: list[ast.AST] = [annotation]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Subscript):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
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

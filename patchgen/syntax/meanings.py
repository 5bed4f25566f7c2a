"""Find which scope each name of a function belongs to.

In: a function.  Out: an `Occurrence` for each place of its parameters and body where a name is
read, bound or declared, with the scope that binds it; None stands for what is outside the function.
The order depends on the shape of the code alone, so that two functions of one shape can be compared
place by place.

    def f(x):
        def g(): return x + y       x: the scope of f; y: None
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from patchgen.syntax.bound import ComprehensionNode, FunctionNode, bound_by, list_body
from patchgen.syntax.trees import Function, children, list_parameters, list_positional

TypeParameter = ast.AST  # ast.type_param, from Python 3.12 on
# The kinds of nodes that `_Walker` has a rule for.  All others, which are most, only have children.
_HANDLED = frozenset(
    {ast.Name, ast.AugAssign, ast.NamedExpr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal}
    | {ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ExceptHandler}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp}
    | {ast.MatchAs, ast.MatchStar, ast.MatchMapping, getattr(ast, "TypeAlias", None)}
)


@dataclass(eq=False, slots=True)
class Scope:
    """A function, lambda, class, comprehension, or list of type parameters.

    `label` is the place of its own name among all occurrences, or of the first name in it where it
    has none.
    """

    outer: Scope | None
    kind: str
    label: int
    bound: set[str] = field(default_factory=set)
    declared_global: set[str] = field(default_factory=set)
    declared_nonlocal: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name at `node`; `scope` binds it, and `is_read` is False where it is only bound."""

    name: str
    node: ast.AST
    scope: Scope | None
    is_read: bool


def occurrences(
    function: Function,
) -> tuple[Occurrence, ...]:
    """The names in the parameters and the body of `function`, each with the scope that binds it.

    The scope of `function` itself has no outer one.
    """
    walker = _Walker()
    walker.read_body(function, None)
    uses: list[Occurrence] = []
    # Python binds names for a whole scope, so this needs every binding of it.
    for name, node, scope, is_read in walker.found:
        binding = _find_binding_scope(name, scope)
        uses.append(Occurrence(name, node, binding, is_read))
    return tuple(uses)


def _find_binding_scope(name: str, scope: Scope) -> Scope | None:
    """The scope that `name` in `scope` belongs to, by Python's rules."""
    own = _around(scope, "type parameters")
    place: Scope | None = scope
    while place is not None:
        # The names of a class are visible in its own body only.
        if place is own or place.kind != "class":
            if name in place.declared_global:
                return None
            # `nonlocal x` binds x in this scope, but means that of an outer one.
            means_outer = place is scope and name in scope.declared_nonlocal
            if name in place.bound and not means_outer:
                return place
        place = place.outer
    return None


class _Walker:
    """Collects every occurrence with the scope that it stands in."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST, Scope, bool]] = []

    def read_body(
        self, function: FunctionNode, outer: Scope | None, label: int | None = None
    ) -> None:
        """Record a function's parameters and body; `label` is None for one without a name."""
        scope = self._enter(outer, "function", label)
        # Of the outermost function, the type parameters are names of its own.
        if outer is None:
            for parameter in getattr(function, "type_params", []):
                self._bind(parameter.name, parameter, scope)
        arguments = function.args
        positional = list_positional(arguments)
        starred = filter(None, (arguments.vararg, arguments.kwarg))
        for arg in [*positional, *arguments.kwonlyargs, *starred]:
            self._bind(arg.arg, arg, scope)
        self._visit_all(list_body(function), scope)

    def _enter(self, outer: Scope | None, kind: str, label: int | None = None) -> Scope:
        # The place of a name is the same in two functions of one shape, whatever the name is.
        return Scope(outer, kind, len(self.found) if label is None else label)

    def _bind(self, name: str, node: ast.AST, scope: Scope, is_read: bool = False) -> int:
        scope.bound.add(name)
        self.found.append((name, node, scope, is_read))
        return len(self.found) - 1

    def _visit_all(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        """Record the names in `node`; the cases are those that bind names or open a scope."""
        if type(node) not in _HANDLED:
            self._visit_all(children(node), scope)
            return
        match node:
            case ast.Name(ctx=ast.Load()):
                self.found.append((node.id, node, scope, True))
            case ast.Name():
                self._bind(node.id, node, scope, is_read=isinstance(node.ctx, ast.Del))
            # `x += 1` reads and binds x at one place.
            case ast.AugAssign(target=ast.Name(id=name) as target):
                self._bind(name, target, scope, is_read=True)
                self._visit(node.value, scope)
            case ast.NamedExpr(target=target):
                self._visit(node.value, scope)
                # A walrus in a comprehension binds in the scope around it.
                self._visit(target, _around(scope, "comprehension"))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope)
            case ast.Lambda():
                self._visit_all([*node.args.defaults, *node.args.kw_defaults], scope)
                self.read_body(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, scope)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    self._bind(bound_by(alias), alias, scope)
            case ast.Global() | ast.Nonlocal():
                self._declare(node, scope)
            case ast.ExceptHandler():
                self._visit_all([node.type], scope)
                if node.name is not None:
                    self._bind(node.name, node, scope)
                self._visit_all(node.body, scope)
            case ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
                self._visit_all(children(node), scope)
                bound = node.rest if isinstance(node, ast.MatchMapping) else node.name
                if bound is not None:
                    self._bind(bound, node, scope)
            case _ if type(node).__name__ == "TypeAlias":
                self._visit(node.name, scope)  # type: ignore[attr-defined]
                inner = self._type_parameters(node, scope)
                self._visit(node.value, inner)  # type: ignore[attr-defined]
            case _:
                self._visit_all(children(node), scope)

    def _declare(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        """`global x` counts as a read of x: it binds nothing by itself."""
        if isinstance(node, ast.Global):
            scope.declared_global.update(node.names)
        else:
            scope.declared_nonlocal.update(node.names)
        self.found += [(name, node, scope, True) for name in node.names]

    def _function(self, node: Function, scope: Scope) -> None:
        """Record a definition: all but the body is evaluated in the scope around it."""
        arguments = node.args
        evaluated = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults]
        self._visit_all(evaluated, scope)
        # The name is bound outside, the parameters inside.
        label = self._bind(node.name, node, scope)
        inner = self._type_parameters(node, scope)
        parameters = list_parameters(arguments)
        self._visit_all([parameter.annotation for parameter in parameters], inner)
        self._visit_all([node.returns], inner)
        self.read_body(node, inner, label)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        """Record a class; its bases see type parameters, its decorators do not."""
        self._visit_all(node.decorator_list, scope)
        label = self._bind(node.name, node, scope)
        inner = self._type_parameters(node, scope)
        self._visit_all([*node.bases, *node.keywords], inner)
        self._visit_all(node.body, self._enter(inner, "class", label))

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of `[T]` behind a name, inside `scope`; `scope` itself where there is none."""
        parameters: Sequence[TypeParameter] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        inner = self._enter(scope, "type parameters")
        for parameter in parameters:
            self._bind(parameter.name, parameter, inner)  # type: ignore[attr-defined]
        for parameter in parameters:
            self._visit_all(children(parameter), inner)
        return inner

    def _comprehension(self, node: ComprehensionNode, scope: Scope) -> None:
        """Record a comprehension: a scope of its own, but for the first iterable."""
        first, *others = node.generators
        self._visit(first.iter, scope)  # evaluated outside
        inner = self._enter(scope, "comprehension")
        self._visit_all([first.target, *first.ifs, *others], inner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._visit_all(results, inner)


def _around(scope: Scope, kind: str) -> Scope:
    """The innermost scope around `scope`, itself included, that is not of `kind`."""
    while scope.kind == kind and scope.outer is not None:
        scope = scope.outer
    return scope

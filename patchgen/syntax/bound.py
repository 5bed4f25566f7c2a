"""Find the names that statements bind, and which of them are local to a function.

    import os.path              binds os
    for i, x in rows: ...       binds i and x
    def f(x): y = x             binds f here; x and y are local to f

Python decides this for a whole scope at once, before anything runs: a name that is bound anywhere
in a function is local everywhere in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from patchgen.syntax.trees import Function, children, list_defaults, list_parameters, walk

FunctionNode = Function | ast.Lambda
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
ScopeNode = Function | ast.Lambda | ast.ClassDef

# The kinds of nodes that bind names, or around which they are bound.  Nearly every node of a file
# is of another kind, and one look into a set passes it by.
_BINDERS = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Name}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Import, ast.ImportFrom}
    | {ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping}
)
# Those of them whose names are no `Name` of their own.
_NAMING = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom}
    | {ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping}
)


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that `nodes` bind in their own scope, in order, with repetitions.

    Walks into compound statements and comprehensions' walrus targets, not into nested functions and
    classes.
    """
    # Reversed, so that names come out in the order of the text.
    stack: list[ast.AST] = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        if type(node) not in _BINDERS:
            stack += children(node)[::-1]
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                # The body is a scope of its own; decorators and defaults belong to this one.
                stack.extend(outer_expressions(node))
                continue
            case ast.Lambda():
                stack.extend(outer_expressions(node))
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                # Its targets are local to it, but `:=` binds around it.
                yield from _find_walrus_targets(node)
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                # `del x` makes x a local name too.
                yield node.id
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield bound_by(alias)
            case ast.ExceptHandler(name=str(name)):
                yield name
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield name
        stack += children(node)[::-1]


def bound_by(alias: ast.alias) -> str:
    """The name that a part of an import statement binds: `import a.b` binds `a`.

    The names of `from x import y` have no dots.
    """
    if alias.asname:
        return alias.asname
    return alias.name.partition(".")[0]


def names_in(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Every name that is read, bound, declared or taken as a parameter anywhere in `nodes`."""
    found: set[str] = set()
    for top in nodes:
        inside = list(walk(top))
        for node in inside:
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
        # Definitions, imports, handlers and patterns bind names that are no `Name`.
        found.update(bound_names(n for n in inside if type(n) in _NAMING))
    return frozenset(found)


def parameters(node: FunctionNode) -> tuple[str, ...]:
    """The parameter names of a function, in the order of its signature."""
    return tuple(parameter.arg for parameter in list_parameters(node.args))


def local_names(function: FunctionNode) -> frozenset[str]:
    """The names that are local to `function`: its parameters, and what its body binds.

    Names that are declared `global` or `nonlocal` are not local.
    """
    body = list_body(function)
    names = {*parameters(function), *bound_names(body)}
    return frozenset(names - _find_declared(body))


def list_body(function: FunctionNode) -> list[ast.stmt] | list[ast.expr]:
    """What a function runs; the one expression of a lambda."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    return function.body


def _find_declared(body: Iterable[ast.AST]) -> set[str]:
    """The names that `global` and `nonlocal` statements declare."""
    names: set[str] = set()
    for node in own_statements(body):
        if isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
    return names


def own_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of `body` outside nested functions and classes that are no expressions."""
    stack = [node for node in body if not isinstance(node, ast.expr)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ScopeNode):
            stack += [child for child in children(node) if not isinstance(child, ast.expr)]


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of `body` outside nested functions and classes."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ScopeNode):
            stack += children(node)


def outer_expressions(node: ScopeNode) -> list[ast.expr]:
    """The parts of a function or class statement that are evaluated where it stands.

    Annotations are left out: whether they are evaluated depends on a future import.
    """
    expressions: list[ast.expr] = []
    if not isinstance(node, ast.Lambda):
        expressions += node.decorator_list
    if isinstance(node, ast.ClassDef):
        expressions += node.bases
        expressions += [keyword.value for keyword in node.keywords]
    else:
        expressions += list_defaults(node.args)
    return expressions


def _find_walrus_targets(node: ast.AST) -> Iterator[str]:
    for child in walk(node):
        if isinstance(child, ast.NamedExpr) and isinstance(child.target, ast.Name):
            yield child.target.id

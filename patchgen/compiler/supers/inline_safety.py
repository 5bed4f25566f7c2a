"""Whether a parent's method, written out where the child calls it, means what the call means.

In: the call, the child's method and the parent's.  Out: the binding of the arguments, or None where anybody could tell
the difference: by a name that both use, by an early return, by a look at the frame.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.supers.arguments import Binding, bind
from patchgen.compiler.supers.supercall import SuperUse, first_parameter
from patchgen.syntax.scopes import (
    FunctionNode,
    ScopeNode,
    bound_names,
    local_names,
    names_in,
    own_nodes,
)

_SEES_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir", "__class__"})
_OTHER_PROTOCOLS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})


@dataclass(frozen=True, slots=True)
class Site:
    """A call that stands alone: statement `number` of the method's body, `returned` or not."""

    method: ast.FunctionDef | ast.AsyncFunctionDef
    number: int
    returned: bool
    call: ast.Call

    @property
    def statement(self) -> ast.stmt:
        return self.method.body[self.number]

    @property
    def rest(self) -> list[ast.stmt]:
        """What runs after the call."""
        return [] if self.returned else self.method.body[self.number + 1 :]


def bind_safely(site: Site, use: SuperUse, function: ast.stmt) -> Binding | None:
    """How the arguments reach the parameters of the parent's method, where writing it out is exact; else None."""
    method = site.method
    if (
        not isinstance(function, ast.FunctionDef)
        or function.decorator_list
        or method.name in _OTHER_PROTOCOLS
    ):
        return None
    receiver = first_parameter(function)
    if (
        receiver is None
        or receiver != first_parameter(method)
        or use.receiver not in (receiver, None)
    ):
        return None
    if (
        _is_bound_otherwise(method)
        or not _is_plain(function, site.returned)
        or _sees_locals(method)
    ):
        return None
    skip = 0
    if use.receiver is None:
        if not site.call.args or not (
            isinstance(site.call.args[0], ast.Name) and site.call.args[0].id == receiver
        ):
            return None
        skip = 1
    found = bind(site.call, function, method, skip)
    return found if found and _names_are_apart(site, function, found, receiver) else None


def _is_bound_otherwise(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(d, ast.Name) and d.id in ("staticmethod", "classmethod")
        for d in method.decorator_list
    )


def _is_plain(function: ast.FunctionDef, returned: bool) -> bool:
    """No generator, no early return where more follows, nothing that looks at its own frame."""
    if any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal)
        for n in ast.walk(function)
    ):
        return False
    if _sees_locals(function):
        return False
    returns = [node for node in own_nodes(function.body) if isinstance(node, ast.Return)]
    if returned or not returns:
        return True
    last = function.body[-1]
    return returns == [last] and (returns[0].value is None or _is_none(returns[0].value))


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _sees_locals(function: FunctionNode) -> bool:
    nodes = list(ast.walk(function))
    return any(isinstance(n, ast.Name) and n.id in _SEES_LOCALS for n in nodes) or any(
        isinstance(n, ast.Global | ast.Nonlocal) for n in nodes
    )


def _names_are_apart(site: Site, function: ast.FunctionDef, found: Binding, receiver: str) -> bool:
    method = site.method
    theirs, ours = local_names(function), local_names(method)
    mentioned = names_in([method]) - {method.name}
    later, nested = names_in(site.rest), names_in(_scopes(method.body))
    rebound = set(bound_names(function.body))
    if receiver in rebound or receiver in set(bound_names(method.body)):
        return False
    free = names_in(function.body) - theirs
    if free & ours:
        return False
    shared = {*found.passed, *([found.keywords] if found.keywords else [])}
    own = theirs - shared - {receiver} - {name for name, _ in found.bound}
    if not shared <= ours or own & mentioned:
        return False
    for name in shared:
        if name in rebound and (name in later or name in nested):
            return False
        # A function inside the parent's method would see the child bind the name again.
        if name in names_in(_scopes(function.body)) and name in set(bound_names(site.rest)):
            return False
    if found.keywords and not _is_only_passed_on(site, found.keywords):
        return False
    return all(
        _may_bind(n, number, found, mentioned, ours, later | nested)
        for number, (n, _) in enumerate(found.bound)
    )


def _may_bind(
    name: str,
    number: int,
    found: Binding,
    mentioned: frozenset[str],
    ours: frozenset[str],
    read: frozenset[str],
) -> bool:
    """Whether `name = value` before the parent's statements is seen by nothing of the child."""
    if name not in mentioned:
        return True
    values = names_in([value for _, value in found.bound[number + 1 :]])
    return name in ours and name not in read and name not in values


def _is_only_passed_on(site: Site, keywords: str) -> bool:
    """Whether the child keeps no other hold on its dictionary of keywords, which the parent's code may change.

    Python hands the parent a copy.
    """
    if keywords in names_in(site.rest) or keywords in names_in(_scopes(site.method.body)):
        return False
    held = 0
    for statement in site.method.body[: site.number]:
        for node in ast.walk(statement):
            for child in ast.iter_child_nodes(node):
                is_it = isinstance(child, ast.Name) and child.id == keywords
                held += is_it and not (
                    isinstance(node, ast.Attribute | ast.Subscript) and node.value is child
                )
    return not held


def _scopes(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """The nested scopes in `body`, whose code may run later."""
    kinds = (*ScopeNode.__args__, ast.GeneratorExp)
    return [node for statement in body for node in ast.walk(statement) if isinstance(node, kinds)]

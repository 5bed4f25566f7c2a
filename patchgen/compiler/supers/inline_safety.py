"""Decide whether a parent's method can be inlined where the child calls it.

In: the call, the child's method and the parent's.  Out: the binding of the arguments, or None
where the inlined code could behave differently: by a name that both methods use, by an early
return, or by code that inspects its frame.

    def forward(self, x):               def forward(self, x):
        scale = 2                           scale = 2
        super().forward(x)                  scale = 3      # the parent's local: not safe
        return x * scale                    return x * scale
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.supers.arguments import Binding, bind
from patchgen.compiler.supers.supercall import SuperUse, first_parameter
from patchgen.syntax.bound import (
    FunctionNode,
    ScopeNode,
    bound_names,
    local_names,
    names_in,
    own_nodes,
)
from patchgen.syntax.trees import decorator_names

_SEES_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir", "__class__"})
# Python calls these with a class, or without an object.
_OTHER_PROTOCOLS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})


@dataclass(frozen=True, slots=True)
class Site:
    """A call that is a statement of its own: number `number` in the body of `method`.

    `returned`: the statement is `return` with the call.
    """

    method: ast.FunctionDef | ast.AsyncFunctionDef
    number: int
    returned: bool
    call: ast.Call

    @property
    def statement(self) -> ast.stmt:
        return self.method.body[self.number]

    @property
    def rest(self) -> list[ast.stmt]:
        """The statements that run after the call."""
        return [] if self.returned else self.method.body[self.number + 1 :]


def bind_safely(site: Site, use: SuperUse, function: ast.stmt) -> Binding | None:
    """Bind the arguments of the call to the parameters of `function`, the parent's method.

    None where inlining the method is not exact.
    """
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    method = site.method
    if not _is_called_on_object(method):
        return None
    # `def f[T](self)` binds T for its own statements, and hides a global T of the other method.
    if _has_type_parameters(method) or _has_type_parameters(function):
        return None
    receiver = first_parameter(function)
    # The inlined code names the object as the parent does.
    if receiver is None or receiver != first_parameter(method):
        return None
    if not _is_plain(function, site.returned) or _sees_locals(method):
        return None
    skip = _count_objects(site.call, use, receiver)
    if skip is None:
        return None
    binding = bind(site.call, function, method, skip)
    if binding is None or not _are_names_separate(site, function, binding, receiver):
        return None
    return binding


def _is_called_on_object(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Python gives the object to `method`, as its first argument."""
    if method.name in _OTHER_PROTOCOLS:
        return False
    # A class method is given the class, and a static method nothing at all.
    return not decorator_names(method) & {"staticmethod", "classmethod"}


def _has_type_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(getattr(function, "type_params", ()))  # from Python 3.12 on


def _count_objects(call: ast.Call, use: SuperUse, receiver: str) -> int | None:
    """How many arguments are the object; None where the call is for another object."""
    if use.receiver is not None:
        return 0 if use.receiver == receiver else None
    # `Parent.forward(self, x)` gives the object as the first argument.
    if not call.args or not _is_name(call.args[0], receiver):
        return None
    return 1


def _is_plain(function: ast.FunctionDef, returned: bool) -> bool:
    """Whether `function` is no generator, inspects no frame, and returns only where it may.

    Where more follows the call, the only `return` may be the last statement, and return None.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal):
            return False
    if _sees_locals(function):
        return False
    returns = [node for node in own_nodes(function.body) if isinstance(node, ast.Return)]
    if returned or not returns:
        return True
    # An early return would skip the rest of the child's method.
    returns_early = returns != [function.body[-1]]
    return not returns_early and _is_none(returns[0].value)


def _is_none(value: ast.expr | None) -> bool:
    """Whether `return value` returns None."""
    if value is None:
        return True
    return isinstance(value, ast.Constant) and value.value is None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _sees_locals(function: FunctionNode) -> bool:
    """Whether code of `function` may read or bind names that its text does not show."""
    for node in ast.walk(function):
        match node:
            case ast.Global() | ast.Nonlocal():
                return True
            case ast.Name(id=name) if name in _SEES_LOCALS:
                return True
    return False


@dataclass(frozen=True, slots=True)
class _ChildNames:
    """The names of the method that calls.

    `local` are its local names, and `mentioned` all names in it.  `after` are those below the call,
    `nested` those in nested scopes.
    """

    local: frozenset[str]
    mentioned: frozenset[str]
    after: frozenset[str]
    nested: frozenset[str]

    @property
    def later(self) -> frozenset[str]:
        """The names that run after the call, or may."""
        return self.after | self.nested


def _read_child_names(site: Site) -> _ChildNames:
    """The names of the method that has the call."""
    method = site.method
    return _ChildNames(
        local=local_names(method),
        mentioned=names_in([method]) - {method.name},
        after=names_in(site.rest),
        nested=names_in(_find_scopes(method.body)),
    )


def _are_names_separate(
    site: Site, function: ast.FunctionDef, binding: Binding, receiver: str
) -> bool:
    """Whether no name of the parent's method changes what a name of the child's means."""
    child = _read_child_names(site)
    parent_locals = local_names(function)
    # Bound again, `self` would be another object below.
    if receiver in bound_names(function.body) or receiver in bound_names(site.method.body):
        return False
    # A global of the parent would become a local of the child.
    parent_globals = names_in(function.body) - parent_locals
    if parent_globals & child.local:
        return False

    shared = set(binding.passed)
    if binding.keywords:
        shared.add(binding.keywords)
        if not _is_only_passed_on(site, binding.keywords):
            return False
    if not shared <= child.local:
        return False
    assigned = [name for name, _ in binding.bound]
    # These locals are new in the child, which must not have the names yet.
    own = parent_locals - shared - {receiver} - set(assigned)
    if own & child.mentioned:
        return False
    for name in shared:
        if not _may_share(name, site, function, child):
            return False
    for number, name in enumerate(assigned):
        if not _may_bind(name, number, binding, child):
            return False
    return True


def _may_share(name: str, site: Site, function: ast.FunctionDef, child: _ChildNames) -> bool:
    """Whether both methods may use one variable for a parameter that is passed on."""
    # What the parent binds, the child would read after the call.
    if name in bound_names(function.body) and name in child.later:
        return False
    # A function inside the parent's method would see the child bind the name again.
    in_nested = name in names_in(_find_scopes(function.body))
    return not (in_nested and name in bound_names(site.rest))


def _may_bind(name: str, number: int, binding: Binding, child: _ChildNames) -> bool:
    """Whether the child notices nothing of `name = value` before the parent's statements."""
    if name not in child.mentioned:
        return True
    # A later assignment must not read the name after this one has changed it.
    later_values = names_in([value for _, value in binding.bound[number + 1 :]])
    return name in child.local and name not in child.later and name not in later_values


def _is_only_passed_on(site: Site, keywords: str) -> bool:
    """Whether the child has no other reference to its dictionary of keywords.

    Python hands the parent a copy; inlined, the parent's code changes the child's dictionary.
    """
    later = [*site.rest, *_find_scopes(site.method.body)]
    if keywords in names_in(later):
        return False
    for statement in site.method.body[: site.number]:
        for node in ast.walk(statement):
            if _keeps_reference(node, keywords):
                return False
    return True


def _keeps_reference(node: ast.AST, name: str) -> bool:
    """Whether `node` does more with the dictionary `name` than to look into it.

    `kwargs.pop("x")` and `kwargs["x"]` keep no reference.
    """
    is_look = isinstance(node, ast.Attribute | ast.Subscript)
    for child in ast.iter_child_nodes(node):
        is_looked_into = is_look and getattr(node, "value", None) is child
        if _is_name(child, name) and not is_looked_into:
            return True
    return False


def _find_scopes(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """The nested scopes in `body`, whose code may run later."""
    kinds = (*ScopeNode.__args__, ast.GeneratorExp)
    found: list[ast.AST] = []
    for statement in body:
        found += [node for node in ast.walk(statement) if isinstance(node, kinds)]
    return found

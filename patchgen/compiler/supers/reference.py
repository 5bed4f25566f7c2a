"""What is written for `super().m` and `Parent.m` once it is known which member they mean.

In: the use, and the name under which the flat class has the member.  Out: one replacement in the text of the method,
or a refusal where the use stands at a place that no text can take.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import Fragment, Splice, same_code
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.compiler.supers.hoist import IMPLICIT
from patchgen.compiler.supers.supercall import Function, SuperUse, first_parameter
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.scopes import FunctionNode, bound_names, local_names


@dataclass(frozen=True, slots=True)
class Asked:
    """A use in `method` of `statement`, at `at` of its file, that the class at `target` in the chain answers."""

    use: SuperUse
    method: FunctionNode
    statement: Statement
    target: int
    at: Location

    @property
    def what(self) -> str:
        """How messages call it."""
        return f"super().{self.use.name}"

    @property
    def is_called(self) -> bool:
        """Whether it is called right there, so that the object can be put in as the first argument."""
        code = self.statement.fragment
        return self.use.call is not None and code.text[code.span(self.use.node)[1] :].startswith(
            "("
        )

    def require_resolvable(self, bodies: Sequence[ClassBody]) -> None:
        """Raises PatchgenError where the object or the member is not what it seems."""
        owner = bodies[self.target]
        if any(binder.removes for binder in owner.binders(self.use.name)):
            what = f"{self.what} has been removed by {owner.own_name}"
            raise PatchgenError("PG231", self.at, what, "leave the call out")
        if self.use.receiver is None:
            return
        if self.use.nested:
            what = f"{self.what} stands in a nested function or comprehension"
            raise PatchgenError("PG211", self.at, what, f"bind it first: inherited = {self.what}")
        if first_parameter(self.method) is None:
            what = f"{self.what} in a function without a first parameter"
            raise PatchgenError("PG210", self.at, what, "write the parameter: self")
        if self.use.receiver in find_rebound(self.method):
            what = f"{self.what} where {self.use.receiver} is bound again"
            raise PatchgenError("PG213", self.at, what, "give the other value a name of its own")


def find_rebound(method: FunctionNode) -> frozenset[str]:
    """The names that the body of `method` binds."""
    body: list[ast.AST] = list(method.body) if isinstance(method.body, list) else [method.body]
    return frozenset(bound_names(body))


def is_plain(group: Sequence[Statement]) -> bool:
    """Whether the member is one plain method, which binds its object."""
    node = group[0].node
    return len(group) == 1 and isinstance(node, Function) and not node.decorator_list


def survives(
    asked: Asked, group: Sequence[Statement], order: Sequence[Statement], plan: ClassPlan
) -> bool:
    """Whether the flat class has the member under its own name, as a plain method that the method can name there."""
    name = asked.use.name
    if asked.use.receiver is not None and not asked.is_called:
        return False
    binders = [statement.key for statement in order if name in statement.names]
    if binders != [statement.key for statement in group] or not is_plain(group):
        return False
    return name not in IMPLICIT and plan.name not in local_names(asked.method)


def reference(
    asked: Asked, group: Sequence[Statement], name: str, flat: str, qualified: bool
) -> Splice:
    """The replacement of the use by `name` of the class `flat`, which is the member that `group` binds.

    `qualified`: it has to be reached through the class, not the object.
    Raises PatchgenError where that cannot be written.
    """
    plain = is_plain(group)
    use, code = asked.use, asked.statement.fragment
    start, end = code.span(use.node)
    if not _stands_at(code, use.node):
        what = f"{asked.what} stands in a string, where it cannot be replaced"
        raise PatchgenError("PG211", asked.at, what, "bind it to a name on a line before")
    if use.receiver is not None:
        if not qualified:
            return Splice(start, end, f"{use.receiver}.{name}")
        if use.call and plain and asked.is_called:
            more = ", " if use.call.args or use.call.keywords else ""
            return Splice(start, end + 1, f"{flat}.{name}({use.receiver}{more}")
        what = f"{asked.what} cannot be asked for through the object, as the class has a __getattribute__"
        raise PatchgenError("PG214", asked.at, what, f"write {use.name} out in the child")
    given = _object_given(asked, code) if plain and not qualified else None
    if given:
        return Splice(start, given[1], f"{given[0]}.{name}(")
    if any(
        isinstance(d, ast.Name) and d.id == "classmethod"
        for d in getattr(group[0].node, "decorator_list", [])
    ):
        what = f"{use.name} is a classmethod of a class that is merged into another"
        raise PatchgenError("PG210", asked.at, what, f"write super().{use.name}")
    return Splice(start, end, f"{flat}.{name}")


def _stands_at(code: Fragment, node: ast.expr) -> bool:
    """Whether the text at the position of `node` is its own: inside f-strings, Python before 3.12 gives wrong ones."""
    try:
        return same_code(ast.parse(code.source(node), mode="eval").body, node)
    except SyntaxError:
        return False


def _object_given(asked: Asked, code: Fragment) -> tuple[str, int] | None:
    """The method's own object as the first argument of `Parent.m(self, ...)`, and where the other arguments begin."""
    own = first_parameter(asked.method)
    decorators = getattr(asked.method, "decorator_list", [])
    is_static = any(isinstance(node, ast.Name) and node.id == "staticmethod" for node in decorators)
    if asked.use.nested or is_static or own in find_rebound(asked.method):
        return None
    match asked.use.call:
        case ast.Call(args=[ast.Name(id=receiver) as first, *rest], keywords=keywords) if (
            receiver == own
        ):
            if rest:
                return receiver, code.span(rest[0])[0]
            if keywords:
                return (receiver, code.span(keywords[0])[0]) if keywords[0].arg else None
            return receiver, code.span(first)[1]
        case _:
            return None

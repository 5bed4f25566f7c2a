"""Write what replaces `super().m` and `Parent.m` once it is known which member they mean.

In: the use, and the name under which the flat class has the member.  Out: one replacement in the
text of the method, or a refusal where no text can express it.

    super().forward(x)              self._forward_of_Parent(x)
    Parent.forward(self, x)         self._forward_of_Parent(x)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import Fragment, Splice
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.compiler.supers.hoist import IMPLICIT
from patchgen.compiler.supers.supercall import Function, SuperUse, first_parameter
from patchgen.syntax.bound import FunctionNode, bound_names, list_body, local_names
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import decorator_names, walk


@dataclass(frozen=True, slots=True)
class Asked:
    """A use in `method` of `statement` that the class at `target` in the chain answers.

    `at` is its place in its file.
    """

    use: SuperUse
    method: FunctionNode
    statement: Statement
    target: int
    at: Location

    @property
    def what(self) -> str:
        """How messages name it."""
        return f"super().{self.use.name}"

    @property
    def is_called(self) -> bool:
        """Whether a call follows at once, so that the object can become the first argument."""
        if self.use.call is None:
            return False
        code = self.statement.fragment
        end = code.span(self.use.node)[1]
        return code.text[end:].startswith("(")

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
        if _lists_locals(self.method):
            # Python gives a function that names `super` a variable `__class__`.
            what = f"{self.what} beside code that can see the local variable __class__"
            hint = "name the variables one by one, instead of locals(), vars(), eval() or exec()"
            raise PatchgenError("PG210", self.at, what, hint)
        if _reads_name(self.method, self.use.node):
            what = f"the name of {self.what}, which the flat class keeps under another name"
            raise PatchgenError("PG210", self.at, what, f"write {self.use.name!r}")


def _lists_locals(method: FunctionNode) -> bool:
    """Whether the body of `method` may see which local variables there are."""
    for statement in list_body(method):
        for node in walk(statement):
            match node:
                case ast.Call(func=ast.Name(id="locals" | "eval" | "exec")):
                    return True
                # With an argument, these look at that object.
                case ast.Call(func=ast.Name(id="vars" | "dir"), args=[]):
                    return True
    return False


def _reads_name(method: FunctionNode, member: ast.Attribute) -> bool:
    """Whether `method` reads the `__name__` of `member`, an attribute of `super()`."""
    for statement in list_body(method):
        for node in walk(statement):
            match node:
                case ast.Attribute(value=value, attr="__name__" | "__qualname__"):
                    if value is member:
                        return True
    return False


def find_rebound(method: FunctionNode) -> frozenset[str]:
    """The names that the body of `method` binds."""
    return frozenset(bound_names(list_body(method)))


def is_plain(group: Sequence[Statement]) -> bool:
    """Whether the member is one plain method, which binds its object."""
    node = group[0].node
    return len(group) == 1 and isinstance(node, Function) and not node.decorator_list


def survives(
    asked: Asked, group: Sequence[Statement], order: Sequence[Statement], plan: ClassPlan
) -> bool:
    """Whether the flat class keeps the member, as a plain method, under its own name.

    The method that uses it must be able to name the flat class.
    """
    name = asked.use.name
    is_bound = asked.use.receiver is not None
    # `f = super().m` is bound to the object, which `Flat.m` is not.
    if is_bound and not asked.is_called:
        return False
    kept = [statement.key for statement in order if name in statement.names]
    asked_for = [statement.key for statement in group]
    # An override has taken the name.
    if kept != asked_for:
        return False
    if not is_plain(group) or name in IMPLICIT:
        return False
    return plan.name not in local_names(asked.method)


def write_reference(
    asked: Asked, group: Sequence[Statement], name: str, flat: str, qualified: bool
) -> Splice:
    """Replace the use by `name` of the class `flat`, the member that `group` binds.

    `qualified`: the member has to be reached through the class, not the object.
    Raises PatchgenError where that cannot be written.
    """
    use, code = asked.use, asked.statement.fragment
    start, end = code.span(use.node)
    if not _is_written_at(code, use.node):
        what = f"{asked.what} stands in a string, where it cannot be replaced"
        raise PatchgenError("PG211", asked.at, what, "bind it to a name on a line before")
    if use.receiver is not None:
        return _write_bound(asked, group, name, flat, qualified)
    # `Parent.m(self, x)` becomes `self.m(x)`.
    if is_plain(group) and not qualified:
        given = _find_given_object(asked, code)
        if given is not None:
            receiver, arguments_start = given
            return Splice(start, arguments_start, f"{receiver}.{name}(")
    # Python would hand it the parent's class, which the flat file does not have.
    if "classmethod" in decorator_names(group[0].node):
        what = f"{use.name} is a classmethod of a class that is merged into another"
        raise PatchgenError("PG210", asked.at, what, f"write super().{use.name}")
    return Splice(start, end, f"{flat}.{name}")


def _write_bound(
    asked: Asked, group: Sequence[Statement], name: str, flat: str, qualified: bool
) -> Splice:
    """Replace `super().m`, which is bound to the object."""
    use = asked.use
    start, end = asked.statement.fragment.span(use.node)
    if not qualified:
        return Splice(start, end, f"{use.receiver}.{name}")
    if use.call and is_plain(group) and asked.is_called:
        # `super().m(x)` becomes `Flat.m(self, x)`; the splice takes the opening bracket along.
        has_arguments = bool(use.call.args or use.call.keywords)
        opening = f"{use.receiver}, " if has_arguments else use.receiver
        return Splice(start, end + 1, f"{flat}.{name}({opening}")
    what = (
        f"{asked.what} cannot be asked for through the object, as the class has a __getattribute__"
    )
    raise PatchgenError("PG214", asked.at, what, f"write {use.name} out in the child")


def _is_written_at(code: Fragment, node: ast.expr) -> bool:
    """Whether the text at the position of `node` is its own.

    Inside f-strings, Python before 3.12 gives wrong positions.
    """
    try:
        return is_same_code(ast.parse(code.source(node), mode="eval").body, node)
    except SyntaxError:
        return False


def _find_given_object(asked: Asked, code: Fragment) -> tuple[str, int] | None:
    """The method's own object, if it is the first argument of `Parent.m(self, ...)`.

    With it comes the place where the other arguments begin.
    """
    own = first_parameter(asked.method)
    # Its first parameter is no object.
    if "staticmethod" in decorator_names(asked.method):
        return None
    # There, the name may mean another object.
    if asked.use.nested or own in find_rebound(asked.method):
        return None
    match asked.use.call:
        case ast.Call(args=[ast.Name(id=receiver) as first, *others], keywords=keywords):
            if receiver != own:
                return None
        case _:
            return None
    if others:
        return receiver, code.span(others[0])[0]
    if not keywords:
        return receiver, code.span(first)[1]
    # The position of `**kwargs` is that of the name behind the stars.
    if keywords[0].arg is None:
        return None
    return receiver, code.span(keywords[0])[0]

"""Keep a parent's member beside the child's under a private name: `_forward_of_LlamaMLP`.

In: the statements of the parent that bind the member.  Out: the same statements under a private
name that no identifier of the chain has.  The caller resolves the `super()` calls of the copy.

    def forward(self, x):                  def forward(self, x):
        y = super().forward(x)                 y = self._forward_of_Parent(x)
        ...                                    ...

                                           def _forward_of_Parent(self, x):
                                               ...
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.compiler.classes.fragment import INDENT, Fragment, Splice, splice
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.compiler.supers.supercall import Function
from patchgen.syntax.defined import defined_name
from patchgen.syntax.trees import called_function, list_defaults

IMPLICIT = {
    "__new__": "staticmethod",
    "__init_subclass__": "classmethod",
    "__class_getitem__": "classmethod",
}
"""Methods that Python decorates by their name."""

# These decorate the class's own method; a private copy of the parent's method does without.
_NOT_OF_A_COPY = frozenset({"auto_docstring", "abstractmethod"})
_KNOWS_ITS_NAME = frozenset({"cached_property"})


def collect_identifiers(plan: ClassPlan) -> frozenset[str]:
    """Every identifier of the chain."""
    return frozenset().union(*(_identifiers_in(block.text) for block in plan.chain))


@functools.lru_cache(maxsize=128)  # Each member that is kept asks for those of the same classes.
def _identifiers_in(text: str) -> frozenset[str]:
    """The identifiers in `text`, which is Python."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME)


def make_private_name(name: str, owner: str, taken: Sequence[str] | frozenset[str]) -> str:
    """`_name_of_Owner`, with a number if that is taken."""
    wanted = f"_{name.strip('_') or 'method'}_of_{owner.strip('_')}"
    # A number makes the name free; the first copy goes without.
    number, found = 2, wanted
    while found in taken:
        found, number = f"{wanted}_{number}", number + 1
    return found


def find_obstacle(group: Sequence[Statement], name: str, order: Sequence[Statement]) -> str | None:
    """Why a copy of the member would not behave as the member does; None when it does."""
    for member in group:
        # `a = b = 1` cannot be copied for one of its names.
        if set(member.names) != {name}:
            return "it is bound together with other names"
    if not any(member.is_certain for member in group):
        return "it is not bound in every case"
    kept = {statement.key for statement in order}
    for member in group:
        if _knows_its_name(member.node):
            return "its decorator stores under the name that it has"
        # Both the member and its copy would stay: the value would be computed for each of them.
        if member.key in kept and _is_computed(member.node):
            return "its value would be made twice"
    return None


def _is_computed(node: ast.stmt) -> bool:
    """Whether a member is a value that may be another one each time it is made."""
    return not isinstance(node, Function) and not _is_constant(node)


def _knows_its_name(node: ast.stmt) -> bool:
    """Whether a decorator is told the name that the member is bound to."""
    for decorator in getattr(node, "decorator_list", []):
        if _called_name(decorator) in _KNOWS_ITS_NAME:
            return True
    return False


def _is_constant(node: ast.stmt) -> bool:
    """Whether `node` assigns a constant, or a tuple of constants.

    Of a list there would be two, which shows where one of them is changed.
    """
    value: ast.AST | None = node
    if isinstance(node, ast.Assign | ast.AnnAssign):
        value = node.value
    # `size: int` assigns nothing.
    if value is None:
        return False
    kinds = ast.Constant | ast.Tuple | ast.expr_context
    return all(isinstance(child, kinds) for child in ast.walk(value))


def hoist(member: Statement, name: str, private: str) -> Statement:
    """A copy of `member`, which binds `name`, that binds and reads `private` instead."""
    code = member.fragment
    # A property and its setter name each other in the class body.
    text = splice(code.text, _rename(code, member.node, name, private))
    if _is_decorated_by_name(member.node, name):
        # Under another name, Python would not decorate it.
        text = f"{INDENT}@{IMPLICIT[name]}\n{text}"
    return replace(member.with_text(text), names=(private,), leading="\n", hoisted=True)


def _is_decorated_by_name(node: ast.stmt, name: str) -> bool:
    """Whether Python itself decorates the method, because it is called `name`."""
    if name not in IMPLICIT or not isinstance(node, Function):
        return False
    return not node.decorator_list


def _rename(code: Fragment, top: ast.stmt, name: str, private: str) -> Iterator[Splice]:
    """The changes that rename `name` in the scope of the class body; method bodies stay."""
    stack: list[ast.AST] = [top]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name == name:
                    yield _rename_definition(code, node, private)
                yield from _drop_decorators(code, node)
                stack += node.decorator_list
                stack += list_defaults(node.args)
            # Their bodies do not see the names of the class body.
            case ast.Lambda() | ast.ClassDef():
                pass
            case ast.Name(id=found_name) if found_name == name:
                yield Splice(*code.span(node), private)
            case _:
                stack += ast.iter_child_nodes(node)


def _rename_definition(
    code: Fragment, node: ast.FunctionDef | ast.AsyncFunctionDef, private: str
) -> Splice:
    """The change of the name behind `def`."""
    written = defined_name(code.lines, node)
    line_start = code.line_span(written.line, written.line)[0]
    return Splice(line_start + written.start, line_start + written.end, private)


def _drop_decorators(
    code: Fragment, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Splice]:
    """The changes that leave out decorators which are not for a copy."""
    for decorator in node.decorator_list:
        if _called_name(decorator) in _NOT_OF_A_COPY:
            last = decorator.end_lineno or decorator.lineno
            yield Splice(*code.line_span(decorator.lineno, last), "")


def _called_name(decorator: ast.expr) -> str:
    """The last name of what is called: `a.b(c)` gives `b`."""
    return ast.unparse(called_function(decorator)).rpartition(".")[2]

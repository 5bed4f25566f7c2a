"""A parent's member kept beside the child's under a private name: `_forward_of_LlamaMLP`.

In: the statements of the parent that bind the member.  Out: the same statements under the private name, which no
identifier of the chain is.  Their own `super()` is resolved by whoever asks for the copy.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.compiler.classes.fragment import INDENT, Fragment, Splice, splice
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.compiler.supers.supercall import Function
from patchgen.syntax.defined import defined_name

IMPLICIT = {
    "__new__": "staticmethod",
    "__init_subclass__": "classmethod",
    "__class_getitem__": "classmethod",
}
"""Methods that Python decorates by their name."""

# They say something of the class's own method, which a private copy of the parent's is not.
_NOT_OF_A_COPY = frozenset({"auto_docstring", "abstractmethod"})
_KNOWS_ITS_NAME = frozenset({"cached_property"})


def collect_identifiers(plan: ClassPlan) -> frozenset[str]:
    """Every identifier of the chain."""
    found: set[str] = set()
    for piece in plan.chain:
        tokens = tokenize.generate_tokens(io.StringIO(piece.text).readline)
        found.update(token.string for token in tokens if token.type == tokenize.NAME)
    return frozenset(found)


def make_private_name(name: str, owner: str, taken: Sequence[str] | frozenset[str]) -> str:
    """`_name_of_Owner`, numbered when it is taken."""
    wanted = f"_{name.strip('_') or 'method'}_of_{owner.strip('_')}"
    number, found = 2, wanted
    while found in taken:
        found, number = f"{wanted}_{number}", number + 1
    return found


def find_obstacle(group: Sequence[Statement], name: str, order: Sequence[Statement]) -> str | None:
    """Why a copy of the member would not do for the member; None when it does."""
    if any(set(member.names) != {name} for member in group):
        return "it is bound together with other names"
    if not any(member.is_certain for member in group):
        return "it is not bound in every case"
    kept = {statement.key for statement in order}
    for member in group:
        decorators = getattr(member.node, "decorator_list", [])
        if any(_called(decorator) in _KNOWS_ITS_NAME for decorator in decorators):
            return "its decorator stores under the name that it has"
        if (
            not isinstance(member.node, Function)
            and member.key in kept
            and not is_literal(member.node)
        ):
            return "its value would be made twice"
    return None


def is_literal(node: ast.stmt) -> bool:
    """Whether `node` is an assignment of a constant, or of a display of constants."""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else node
    kinds = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.expr_context
    return value is not None and all(isinstance(child, kinds) for child in ast.walk(value))


def hoist(member: Statement, name: str, private: str) -> Statement:
    """`member`, which binds `name`, as a copy that binds `private`, and reads it in the class body."""
    code = member.fragment
    text = splice(code.text, _changes(code, member.node, name, private))
    node = member.node
    if isinstance(node, Function) and not node.decorator_list and name in IMPLICIT:
        text = f"{INDENT}@{IMPLICIT[name]}\n{text}"
    return replace(member.with_text(text), names=(private,), leading="\n", hoisted=True)


def _changes(code: Fragment, top: ast.stmt, name: str, private: str) -> Iterator[Splice]:
    stack: list[ast.AST] = [top]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name == name:
                    written = defined_name(code.lines, node)
                    line_start = code.line_span(written.line, written.line)[0]
                    yield Splice(line_start + written.start, line_start + written.end, private)
                for decorator in node.decorator_list:
                    if _called(decorator) in _NOT_OF_A_COPY:
                        lines = code.line_span(
                            decorator.lineno, decorator.end_lineno or decorator.lineno
                        )
                        yield Splice(*lines, "")
                stack += [
                    *node.decorator_list,
                    *node.args.defaults,
                    *(d for d in node.args.kw_defaults if d),
                ]
            case ast.Lambda() | ast.ClassDef():
                pass
            case ast.Name(id=found_name) if found_name == name:
                yield Splice(*code.span(node), private)
            case _:
                stack += ast.iter_child_nodes(node)


def _called(decorator: ast.expr) -> str:
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(callee).rpartition(".")[2]

"""Find statements of an edit that need a loop or a coroutine, which the edit itself is not.

    @edit("forward")
    def stop(self, i):
        with old:
            continue      # is not valid Python: no loop stands around it

Only a file that does not compile is checked, to say what to write instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.syntax.bound import ScopeNode
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import Source, parse
from patchgen.syntax.trees import position_of

_WORDS = "patchgen.edits"
_LOOP = ast.For | ast.AsyncFor | ast.While
_INCLUDE = (
    "an edit must include the loop: write it under `with old:` and `with new:`, "
    "or write both of them under `while ...:`, which stands for any loop around them"
)
_WAIT = "write the edit as `async def`"
_ASYNC_WORDS = {
    ast.Await: "`await`",
    ast.AsyncFor: "`async for`",
    ast.AsyncWith: "`async with`",
}


@dataclass(frozen=True, slots=True)
class _Loose:
    node: ast.stmt | ast.expr
    what: str
    hint: str


def find_loose_statement(source: Source) -> PatchgenError | None:
    """The error for the first statement of an edit in `source` that lacks its loop or coroutine."""
    tree = parse(source)
    words = set(_names_of_edit(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = {_called_name(decorator) for decorator in node.decorator_list}
        if not decorators & words:
            continue
        loose = list(_find_loose(node))
        if loose:
            # The nodes come in no order, and one message is enough.
            first = min(loose, key=lambda one: position_of(one.node))
            return PatchgenError("PG302", source.at_node(first.node), first.what, first.hint)
    return None


def _names_of_edit(tree: ast.Module) -> Iterator[str]:
    """How the file calls `patchgen.edits.edit`."""
    for node in ast.walk(tree):
        package = ""
        if isinstance(node, ast.ImportFrom):
            package = f"{node.module}."
        elif not isinstance(node, ast.Import):
            continue
        for alias in node.names:
            name = package + alias.name
            bound = alias.asname or alias.name
            if name == f"{_WORDS}.edit":
                yield bound
            elif name == _WORDS:
                # `import patchgen.edits as e` and `from patchgen import edits`.
                yield f"{bound}.edit"


def _called_name(decorator: ast.expr) -> str:
    """`edit` of `@edit("forward")`; "" for a decorator that is no call."""
    if not isinstance(decorator, ast.Call):
        return ""
    return ast.unparse(decorator.func)


def _find_loose(edit: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Loose]:
    """The statements of an edit that Python accepts only inside a loop or coroutine."""
    waits = isinstance(edit, ast.AsyncFunctionDef)
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in edit.body]
    while stack:
        node, in_loop = stack.pop()
        match node:
            case ast.Break() | ast.Continue() if not in_loop:
                word = type(node).__name__.lower()
                yield _Loose(node, f"`{word}` stands in an edit without its loop", _INCLUDE)
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith() if not waits:
                word = _ASYNC_WORDS[type(node)]
                yield _Loose(node, f"{word} stands in an edit that is no coroutine", _WAIT)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() if not waits:
                if any(generator.is_async for generator in node.generators):
                    yield _Loose(node, "`async for` stands in an edit that is no coroutine", _WAIT)
        stack += _inside(node, in_loop)


def _inside(node: ast.AST, in_loop: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of `node`, each with whether a loop of the edit stands around it."""
    if isinstance(node, ScopeNode):
        return  # a loop or coroutine of its own
    repeated: set[int] = set()
    # Its `else` and its condition are no part of the loop: `break` there means one around it.
    if isinstance(node, _LOOP):
        repeated = {id(statement) for statement in node.body}
    for child in ast.iter_child_nodes(node):
        yield child, in_loop or id(child) in repeated

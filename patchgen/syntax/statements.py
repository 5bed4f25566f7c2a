"""Tell what a top-level statement does beyond binding its names.

    LIMIT = 3                           a plain value: nothing can change it
    TABLE["a"] = gelu                   changes TABLE
    operator.register_autograd(f)       changes operator

    @operator.register_fake             changes operator, and binds _shape
    def _shape(x): ...

What a function does when it is called at import is not followed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from itertools import chain

from patchgen.syntax.blocks import Block, is_main
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import called_function, list_suites, names_within, parse_once

# By their last name: `re.compile`, `logging.getLogger` and their kind under any import.
_MAKES_PLAIN_VALUES = frozenset(
    "compile frozenset get_logger getLogger getenv namedtuple NewType ParamSpec TypeVar".split()
)


def is_plain(block: Block) -> bool:
    """Whether a block binds names to values that cannot change: numbers, strings, a logger."""
    return block.kind == "assign" and _is_plain_text(block.text)


@functools.lru_cache(maxsize=4096)
def _is_plain_text(text: str) -> bool:
    for statement in parse_once(text).body:
        # `A = 1; B.x = 2` is two statements on one line.
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return False
        if statement.value and not is_plain_value(statement.value):
            return False
    return True


def is_plain_value(value: ast.expr) -> bool:
    """Whether an expression makes a value that cannot change."""
    match value:
        case ast.Constant():
            return True
        case ast.Tuple(elts=parts):
            return all(map(is_plain_value, parts))
        # `-1` and `not True` are operations to Python, and constants to people.
        case ast.UnaryOp(operand=operand):
            return is_plain_value(operand)
        case ast.BinOp(left=left, right=right):
            return is_plain_value(left) and is_plain_value(right)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _MAKES_PLAIN_VALUES
        case _:
            return False


@functools.lru_cache(maxsize=4096)
def changed_names(text: str) -> frozenset[str]:
    """The names whose objects the statements of `text` change at import, and do not bind."""
    return frozenset(chain.from_iterable(map(_find_changed, parse_once(text).body)))


def _find_changed(node: ast.stmt) -> Iterator[str]:
    match node:
        # One that binds names is carried for these.
        case ast.If() | ast.Try() if not any(bound_names([node])) and not is_main(node):
            for statement in chain.from_iterable(list_suites(node)):
                yield from _find_changed(statement)
        # Of a decorator, `operator.register_fake` acts on the operator; `dataclass` on nothing.
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            functions = map(called_function, decorators)
            yield from _find_roots(
                expression for expression in functions if isinstance(expression, ast.Attribute)
            )
        case ast.Assign(targets=targets):
            yield from _find_roots(
                expression for expression in targets if not isinstance(expression, ast.Name)
            )
        case ast.AugAssign(target=target):
            yield from _find_roots([target])
        # `register(Toy)` may change what it is given.
        case ast.Expr(value=ast.Call(func=ast.Name()) as call):
            yield from (name.id for name in names_within(call))
        case ast.Expr(value=ast.Call(func=function)):
            yield from _find_roots([function])


def _find_roots(nodes: Iterator[ast.expr] | list[ast.expr]) -> Iterator[str]:
    """The names that chains such as `a.b[c].d()` begin with."""
    for node in nodes:
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name):
            yield node.id

"""Recognize values that cannot change: numbers, strings, tuples of them, a logger.

LIMIT = 3                           plain
logger = get_logger(__name__)       plain: nothing depends on which of two loggers it is
SIZES = [3]                         not plain: any code may append to it
"""

from __future__ import annotations

import ast
import functools

from patchgen.syntax.blocks import Block
from patchgen.syntax.trees import parse_once

# By their last name: `re.compile`, `logging.getLogger` and their kind under any import.
_MAKES_PLAIN_VALUES = frozenset(
    {
        "getLogger",
        "get_logger",
        "TypeVar",
        "ParamSpec",
        "NewType",
        "namedtuple",
        "compile",
        "frozenset",
        "getenv",
    }
)


@functools.lru_cache(maxsize=4096)
def _is_plain_text(text: str) -> bool:
    """As `is_plain`, for the text of an assignment."""
    for statement in parse_once(text).body:
        # `A = 1; B.x = 2` is two statements on one line.
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return False
        if statement.value and not is_plain_value(statement.value):
            return False
    return True


def is_plain(block: Block) -> bool:
    """Whether a block binds names to values that cannot change.

    These are numbers, strings, tuples of them, a logger.
    """
    return block.kind == "assign" and _is_plain_text(block.text)


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

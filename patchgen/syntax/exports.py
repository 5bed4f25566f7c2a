"""Read what `__all__` is after the statements about it have run.

    __all__ = ["LlamaModel"]
    __all__ += ["LlamaConfig"]          LlamaModel, LlamaConfig

Strings that stand elsewhere in a statement, such as in a condition, count too: a name too many is
better than one that is lost.
"""

from __future__ import annotations

import ast
import functools


@functools.lru_cache(maxsize=256)
def read_exports(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The strings in `__all__` after statements about it have run one after the other.

    `__all__ = ["a"]` sets them, `__all__.remove("a")` takes some away, all others add.
    """
    names: list[str] = []
    for text in texts:
        for node in ast.parse(text).body:
            strings = _find_strings(node)
            match node:
                case ast.Assign() | ast.AnnAssign():
                    names = strings
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="remove"))):
                    names = [name for name in names if name not in strings]
                case _:
                    names += strings
    return tuple(names)


def _find_strings(node: ast.AST) -> list[str]:
    """The strings anywhere in a statement, in no order of the text."""
    found: list[str] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            found.append(inner.value)
    return found


def is_list_of_strings(text: str) -> bool:
    """Whether `text` sets or extends `__all__` by strings that are written out."""
    return all(_says_strings(node) for node in ast.parse(text).body)


def _says_strings(node: ast.stmt) -> bool:
    """Whether everything that one statement does to `__all__` is written out."""
    match node:
        case (
            ast.Assign(value=value)
            | ast.AugAssign(value=value)
            | ast.AnnAssign(value=ast.expr() as value)
        ):
            return _is_written_out(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"))) as call):
            assert isinstance(call.func, ast.Attribute)
            # `__all__.sort()` is no list of strings: nothing is known of the result.
            if call.func.attr not in ("append", "extend", "remove"):
                return False
            return all(_is_written_out(argument) for argument in call.args)
        case _:
            return False


def _is_written_out(value: ast.expr) -> bool:
    """Whether an expression holds nothing but constants in lists and tuples."""
    kinds = ast.List | ast.Tuple | ast.Constant | ast.expr_context
    return all(isinstance(part, kinds) for part in ast.walk(value))

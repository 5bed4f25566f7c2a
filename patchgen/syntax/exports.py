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
            parts = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
            strings = [part.value for part in parts if isinstance(part.value, str)]
            match node:
                case ast.Assign() | ast.AnnAssign():
                    names = strings
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="remove"))):
                    names = [name for name in names if name not in strings]
                case _:
                    names += strings
    return tuple(names)


def is_list_of_strings(text: str) -> bool:
    """Whether `text` sets or extends `__all__` by strings that are written out."""
    kinds = ast.List | ast.Tuple | ast.Constant | ast.expr_context
    for node in ast.parse(text).body:
        match node:
            case (
                ast.Assign(value=value)
                | ast.AugAssign(value=value)
                | ast.AnnAssign(value=ast.expr() as value)
            ):
                values = [value]
            # `__all__.sort()` is no list of strings: nothing is known of the result.
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id="__all__"), attr="append" | "extend" | "remove"
                    ),
                    args=values,
                )
            ):
                pass
            case _:
                return False
        for value in values:
            if not all(isinstance(part, kinds) for part in ast.walk(value)):
                return False
    return True

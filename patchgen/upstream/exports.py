"""Write the end of every output: its part of `__all__`, and of the module's `__getattr__`.

Both statements of the modular file name classes of several outputs.  Each name goes to the output
of its kind.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

Route = Callable[[str], str]  # the name of a class -> its kind


def split_all(text: str, leading: str, route: Route) -> dict[str, str]:
    """The text of `__all__` with the names of each kind, by kind; none where the value is no list.

    `text` is the assignment, `leading` the blank lines and comments above it.  Comments inside the
    list are lost.
    """
    value = _value(text)
    if not isinstance(value, ast.List):
        return {}
    names: dict[str, list[str]] = {}
    # An entry that is no text names nothing that could be routed.
    for item in value.elts:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            names.setdefault(route(item.value), []).append(ast.unparse(item))
    return {kind: f"{leading}__all__ = [{', '.join(items)}]\n" for kind, items in names.items()}


def split_getattr(text: str, leading: str, route: Route) -> dict[str, str]:
    """The text of `__getattr__ = deprecate_attr(__name__, remove={...})` by kind.

    The call is written on one line; that of colmodernvbert stands on several and is shipped on one.
    """
    call = _value(text)
    if not isinstance(call, ast.Call):
        return {}
    tables = [
        (keyword.arg, keyword.value)
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Dict)
    ]
    # One table may name classes of several outputs.
    kinds = dict.fromkeys(route(name) for _, table in tables for name, _ in _items(table))
    return {kind: f"{leading}__getattr__ = {_call_for(call, kind, route)}\n" for kind in kinds}


def _call_for(call: ast.Call, kind: str, route: Route) -> str:
    """The call with those entries of its tables that are of `kind`."""
    arguments = [ast.unparse(argument) for argument in call.args]
    for keyword in call.keywords:
        value = ast.unparse(keyword.value)
        if isinstance(keyword.value, ast.Dict):
            entries = [
                (name, entry) for name, entry in _items(keyword.value) if route(name) == kind
            ]
            mine = [f"{name!r}: {ast.unparse(entry)}" for name, entry in entries]
            # A table without entries is left out with its keyword.
            if not mine:
                continue
            value = f"{{{', '.join(mine)}}}"
        arguments.append(f"{keyword.arg}={value}" if keyword.arg else f"**{value}")
    return f"{ast.unparse(call.func)}({', '.join(arguments)})"


def _items(table: ast.Dict) -> Iterable[tuple[str, ast.expr]]:
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def _value(text: str) -> ast.expr | None:
    statement = ast.parse(text).body[0]
    return statement.value if isinstance(statement, ast.Assign) else None

"""Find what the changed lines of a variant read: flags of its configuration, and changed classes.

The text of the output and its diff give the names of the configuration that a changed class or
function tests, each with values that turn the test round, and the names of the changed classes.

    if config.tie and self.share:          tie: not as by default, share: not as by default
    if config.kind == "sum":               kind: "sum"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchgen.verify.diff_lines import find_touched_lines

Definition = ast.ClassDef | ast.FunctionDef
# Shorter ones the usual texts are longer than; longer ones take too long.
LENGTHS = range(13, 2049)
MOST_LENGTHS = 3
SMALL = 3  # a value for a number of which nothing is known


@dataclass(frozen=True, slots=True)
class Read:
    """What changed lines read."""

    classes: tuple[str, ...]  # that contain a changed line
    values: Mapping[str, tuple[Any, ...]]  # by the name in the configuration
    lengths: tuple[int, ...] = ()  # integers in changed lines that a text may be longer than


def find_reads(text: str, diff: str, defaults: Mapping[str, Any]) -> Read:
    """`defaults` are the configuration's own."""
    lines = find_touched_lines(diff)
    changed = [node for node in ast.parse(text).body if _holds(node, lines)]
    found: dict[str, list[Any]] = {}
    for node in changed:
        for name, others in _tested(node):
            values = _values(defaults.get(name, others.default), others.compared)
            found.setdefault(name, []).extend(
                value for value in values if value not in found.get(name, [])
            )
    classes = tuple(node.name for node in changed if isinstance(node, ast.ClassDef))
    lengths = sorted({number for node in changed for number in _numbers(node, lines)})
    values_of = {name: tuple(values) for name, values in found.items() if values}
    return Read(classes, values_of, tuple(lengths)[:MOST_LENGTHS])


def _numbers(node: ast.stmt, lines: frozenset[int]) -> Iterator[int]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and type(each.value) is int and each.lineno in lines:
            if each.value in LENGTHS:
                yield each.value


def find_defaults(text: str) -> dict[str, Any]:
    """The constant defaults that the classes of a configuration file give their fields."""
    fields = (
        (field.target.id, field.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    )
    return {name: value.value for name, value in fields if isinstance(value, ast.Constant)}


def _holds(node: ast.stmt, lines: frozenset[int]) -> bool:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return isinstance(node, Definition) and any(
        first <= line <= (node.end_lineno or first) for line in lines
    )


@dataclass(frozen=True, slots=True)
class _Others:
    """What the code that reads a name says about its values."""

    default: Any = None  # the third argument of `getattr`
    compared: tuple[Any, ...] = ()  # constants that the code compares it with


def _tested(node: ast.stmt) -> Iterator[tuple[str, _Others]]:
    """Names of the configuration that a test of `node` reads, its own flags among them."""
    flags = dict(_flags(node))
    for test in _tests(node):
        constants = tuple(each.value for each in ast.walk(test) if isinstance(each, ast.Constant))
        constants = tuple(value for value in constants if isinstance(value, str))
        for each in ast.walk(test):
            config = _of_config(each)
            if config is not None:
                yield config[0], _Others(config[1], constants)
            elif (own := _bound(each)) in flags:
                name, default = flags[own]
                yield name, _Others(default, constants)


def _tests(node: ast.stmt) -> Iterator[ast.expr]:
    for each in ast.walk(node):
        if isinstance(each, ast.If | ast.IfExp | ast.While):
            yield each.test
        elif isinstance(each, ast.BoolOp | ast.Compare):
            yield each


def _flags(node: ast.stmt) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Attributes of a class, and local names, that are one value of its configuration."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and (own := _bound(each.targets[0])):
            value = each.value.body if isinstance(each.value, ast.IfExp) else each.value
            config = _of_config(value)
            if config is not None:
                yield own, config


def _of_config(node: ast.AST) -> tuple[str, Any] | None:
    """`config.name`, or `getattr(config, "name", default)`: the name and the default."""
    if isinstance(node, ast.Attribute) and node.attr.endswith("_config"):
        return None  # a configuration inside it, which is no value
    if isinstance(node, ast.Attribute) and _is_config(node.value):
        return f"{_inner(node.value)}{node.attr}", None
    if (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and _is_config(node.args[0])
    ):
        name, *default = (
            each.value if isinstance(each, ast.Constant) else None for each in node.args[1:]
        )
        if isinstance(name, str):
            return f"{_inner(node.args[0])}{name}", default[0] if default else None
    return None


def _is_config(node: ast.expr) -> bool:
    return re.fullmatch(r"(self\.)?config(\.\w+_config)?", ast.unparse(node)) is not None


def _inner(node: ast.expr) -> str:
    """ "ffn_config." for `self.config.ffn_config`."""
    _, _, inner = ast.unparse(node).removeprefix("self.").partition(".")
    return f"{inner}." if inner else ""


def _bound(node: ast.AST) -> str:
    """`.name` for `self.name`, `name` for a name; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    is_own = (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
    return f".{node.attr}" if is_own and isinstance(node, ast.Attribute) else ""


def _values(default: Any, compared: tuple[Any, ...]) -> Iterator[Any]:
    """Values with which a test of the code may have another result."""
    if isinstance(default, bool):
        yield not default
    elif isinstance(default, str):
        yield from (value for value in compared if value != default)
    elif isinstance(default, float):
        yield default / 2 if default else 0.25
    elif isinstance(default, int):
        yield from (default + 1, 0)
    else:
        yield from (SMALL, True)

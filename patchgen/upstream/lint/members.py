"""Split a class into its members.

Methods are listed by name, with the setters of properties, and attributes by target.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.upstream.lint.normalize import FunctionDef


@dataclass(frozen=True)
class Members:
    """`others` are the statements of the class body that bind nothing by a plain name."""

    methods: Mapping[str, tuple[FunctionDef, ...]]
    attributes: Mapping[str, ast.Assign | ast.AnnAssign]
    others: tuple[ast.stmt, ...]


def members_of(node: ast.ClassDef) -> Members:
    """The members of `node`; of two attributes with one name the last."""
    methods: dict[str, tuple[FunctionDef, ...]] = {}
    attributes: dict[str, ast.Assign | ast.AnnAssign] = {}
    others: list[ast.stmt] = []
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                # A property and its setter have one name.
                methods[name] = (*methods.get(name, ()), statement)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                attributes[name] = statement
            case _:
                others.append(statement)
    return Members(methods, attributes, tuple(others))

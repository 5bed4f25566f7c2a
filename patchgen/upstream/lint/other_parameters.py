"""Find methods that are shipped with other parameters.

modular file    def __init__(self, **super_kwargs): ...     stands for the parent's parameters
inherited       def forward(self, x, mask): ...
shipped         def forward(self, x): ...                   PG725
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.comparison import MethodComparison
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import FunctionDef, same


def replaced_super_kwargs(method: MethodComparison) -> Iterator[Problem]:
    """PG728: `**super_kwargs`, which transformers replaces by the parent's parameters."""
    if _takes_super_kwargs(method.left) and not _takes_super_kwargs(method.right):
        what = (
            f"{method.title} would take ({ast.unparse(method.left.args)}); shipped "
            "are the parent's parameters"
        )
        yield finding("PG728", method.at, what)


def other_parameters(method: MethodComparison) -> Iterator[Problem]:
    """PG725: any other difference."""
    # The parameters behind `**super_kwargs` are the business of PG728.
    if _takes_super_kwargs(method.left) or same(method.left.args, method.right.args):
        return
    what = (
        f"{method.title} would take ({ast.unparse(method.left.args)}); shipped "
        f"is ({ast.unparse(method.right.args)})"
    )
    yield finding("PG725", method.at, what)


def _takes_super_kwargs(method: FunctionDef) -> bool:
    return method.args.kwarg is not None and method.args.kwarg.arg == "super_kwargs"

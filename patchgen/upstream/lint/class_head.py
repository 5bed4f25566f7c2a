"""Find classes that are shipped with other bases or decorators, and methods with other decorators.

inherited       class NewModel(OldPreTrainedModel, Mixin): ...
shipped         class NewModel(OldPreTrainedModel): ...             PG723

inherited       @torch.no_grad()  def forward(self): ...
shipped         def forward(self): ...                              PG724
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.comparison import Comparison, MethodComparison
from patchgen.upstream.lint.finding import finding


def other_bases(whole: Comparison) -> Iterator[Problem]:
    """PG723: bases that are lost, added or in another order."""
    left = [ast.unparse(base) for base in whole.ours.bases]
    right = [ast.unparse(base) for base in whole.theirs.bases]
    gone = [base for base in left if base not in right]
    # What is shipped in the place of a base is not lost.
    lost = [base for base in gone if not _is_implied(base, right, whole)]
    kept = [base for base in left if base in right]
    # Python looks into the bases in their order.
    if lost or kept != right:
        what = (
            f"{whole.pair.name} would have the bases {', '.join(left)}; "
            f"shipped are {', '.join(right)}"
        )
        yield finding("PG723", whole.at(None), what)


def _is_implied(base: str, shipped: Sequence[str], whole: Comparison) -> bool:
    """Whether one of the shipped bases is what the modular file makes of `base`."""
    # The layer derives from it.
    if base == "nn.Module":
        return "GradientCheckpointingLayer" in shipped
    for pair in whole.case.pairs:
        if pair.renamed == base and pair.name in shipped:
            return True
    return False


def other_class_decorators(whole: Comparison) -> Iterator[Problem]:
    """PG724 for the class itself."""
    difference = _describe_difference(whole.ours.decorator_list, whole.theirs.decorator_list)
    if difference is not None:
        yield finding("PG724", whole.at(None), f"{whole.pair.name} {difference}")


def other_method_decorators(method: MethodComparison) -> Iterator[Problem]:
    """PG724 for a method."""
    difference = _describe_difference(method.left.decorator_list, method.right.decorator_list)
    if difference is not None:
        what = f"{method.title} {difference}"
        yield finding("PG724", method.at, what)


def _describe_difference(ours: Sequence[ast.expr], theirs: Sequence[ast.expr]) -> str | None:
    """What became of decorators, in words; None where they are the same."""
    left = [ast.unparse(decorator) for decorator in ours]
    right = [ast.unparse(decorator) for decorator in theirs]
    if left == right:
        return None
    added = [decorator for decorator in right if decorator not in left]
    gone = [decorator for decorator in left if decorator not in right]
    parts: list[str] = []
    if added:
        parts.append(f"is decorated by {', '.join(added)} of the parent")
    if gone:
        parts.append(f"loses {', '.join(gone)}")
    # All are there, so that only the order is left.
    return " and ".join(parts) or "has its decorators in another order"

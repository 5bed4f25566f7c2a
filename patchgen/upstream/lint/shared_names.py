"""Find names that a shipped class binds to an attribute and to a method.

    class OldMLP:                        class NewMLP(OldMLP):           shipped: both
        scale = 2                            def scale(self): ...

transformers' converter tells members apart by their text alone: the method of the modular file does
not replace the attribute.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.members import members_of


def shared_names(pair: Pair, case: Case, shipped: ast.ClassDef) -> Iterator[tuple[str, Problem]]:
    """Names that the shipped class binds to an attribute and to a method."""
    theirs, own = members_of(shipped), members_of(pair.child)
    for name in theirs.attributes:
        if name not in theirs.methods:
            continue
        # The member that the modular file writes; there need not be one.
        node: ast.stmt | None = own.attributes.get(name)
        if name in own.methods:
            node = own.methods[name][0]
        what = f"{pair.name}.{name} is shipped as an attribute and as a method"
        hint = f"write `{name} = AttributeError()` too, or leave one of them out"
        yield name, finding("PG704", case.at(pair.block, node), what, hint)

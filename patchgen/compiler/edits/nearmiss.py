"""Describe the place of a method that is most similar to a pattern which matches nowhere.

the nearest is modeling_llama.py:12
    - self.act(gates)
    + self.act(gate)
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.edits.pattern import expressions, is_ellipsis, suites

_ENOUGH = 0.45
_MOST_LINES = 16


def describe_nearest_miss(pattern: Sequence[ast.stmt], target: Statement, body: ClassBody) -> str:
    """The file and line of the nearest code and a small diff, with upstream's code marked `+`."""
    places: list[Sequence[ast.AST]] = []
    match pattern:
        case [ast.Expr(value=wanted)] if not is_ellipsis(wanted):
            method: list[ast.stmt] = getattr(target.node, "body", [])
            inside = (node for statement in method for node in expressions(statement))
            places = [[node] for node in inside if isinstance(node, type(wanted))]
        case _:
            # Runs of as many statements as the pattern has; a shorter suite is one run.
            size = sum(not is_ellipsis(node) for node in pattern)
            for suite in suites(target.node):
                count = max(1, len(suite) - size + 1)
                places += [suite[start : start + size] for start in range(count)]
    own = _spell(pattern)
    matcher = difflib.SequenceMatcher(b=own, autojunk=False)
    ratio = 0.0
    nearest: Sequence[ast.AST] = ()
    for place in places:
        text = _spell(place)
        matcher.set_seq1(text)
        # Code of which the pattern has all, and the pattern of which the code has all.
        common = sum(block.size for block in matcher.get_matching_blocks())
        likeness = (common / len(own) + matcher.ratio()) / 2
        # What differs from an equal text cannot be shown.
        if likeness > ratio and text != own:
            ratio, nearest = likeness, place
    # Below this, the nearest code would only mislead.
    if ratio < _ENOUGH:
        return f"nothing in {target.names[0]} is like it"
    where = f"the nearest is {body.at(target, nearest[0])}"
    # The text shows an `elif` as an `if`, which explains nothing.
    first = nearest[0]
    if isinstance(first, ast.If) and target.fragment.source(first).startswith("elif"):
        where += "; an elif matches only together with the branches below it"
    diff = difflib.ndiff(own.split("\n"), _spell(nearest).split("\n"))
    # The lines with `?` only point at characters.
    lines = [f"        {line}" for line in diff if not line.startswith("?")]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], "          ..."]
    return "\n".join([where, *lines])


def _spell(nodes: Sequence[ast.AST]) -> str:
    """The code of `nodes` in one spelling, without comments."""
    try:
        return "\n".join(map(ast.unparse, nodes))
    except ValueError:  # some f-strings, before Python 3.12
        return "\n".join(map(ast.dump, nodes))

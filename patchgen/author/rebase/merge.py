"""Three versions of a member as one, if nothing of it is in doubt."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen.author.align.suites import code_of
from patchgen.author.rebase.code import Clash, Code, Three, in_class
from patchgen.author.rebase.expressions import merge_expression
from patchgen.author.rebase.meaning import changed_meanings
from patchgen.author.rebase.names import Renames, by_one_name
from patchgen.author.rebase.signature import merge_signature
from patchgen.author.rebase.statements import Patch, head_end, merge_suites


@dataclass(frozen=True)
class Merge:
    """The merged member, or what is in doubt of it.

    `three` are the versions by one name for each variable, `renames` those of upstream.
    """

    three: Three
    code: Code | None = None
    clashes: tuple[Clash, ...] = ()
    renames: Renames = field(default_factory=Renames)


def merge(three: Three, everywhere: Mapping[str, str]) -> Merge:
    """The new parent's member with the declaration's changes, or what is in doubt of it.

    `everywhere` are parameters that upstream renamed in its whole file.
    """
    three, renames = by_one_name(three, everywhere)
    merged = _merge_methods(three) if three.functions is not None else _merge_values(three)
    if isinstance(merged, tuple):
        return Merge(three, None, merged, renames)
    doubts = doubts_of(merged, three, is_merge=True)
    return Merge(three, None if doubts else merged, doubts, renames)


def doubts_of(merged: Code, three: Three, *, is_merge: bool = False) -> tuple[Clash, ...]:
    """What the names in a merged method may mean otherwise than its authors meant."""
    functions = three.functions
    if functions is None or merged.function is None:
        return ()
    return changed_meanings(merged.function, *functions, is_merge=is_merge)


def _merge_methods(three: Three) -> Code | tuple[Clash, ...]:
    theirs = three.theirs
    assert theirs.function is not None
    functions = three.functions
    assert functions is not None
    head = merge_signature(three, functions)
    changes = merge_suites(three, *(code_of(one.body) for one in functions))
    clashes = [one for one in changes if isinstance(one, Clash)]
    if isinstance(head, Clash) or clashes:
        return tuple([head, *clashes] if isinstance(head, Clash) else clashes)
    node = theirs.function
    first, last = head_end(theirs, node) + 1, node.end_lineno or 0
    lines = theirs.lines(first, last)
    patches = [one for one in changes if isinstance(one, Patch)]
    for patch in sorted(patches, key=lambda patch: patch.order)[::-1]:
        lines[patch.first - first : patch.last + 1 - first] = patch.lines
    head = [" " * node.col_offset + line for line in head]
    try:
        text = "\n".join([*head, *lines]) + "\n"
        compile(
            f"if True:\n{text}" if node.col_offset else text, "merged", "exec", ast.PyCF_ONLY_AST
        )
        return in_class(text, is_member=bool(node.col_offset))
    except SyntaxError:
        return (Clash("the two changes give no valid Python together"),)


def _merge_values(three: Three) -> Code | tuple[Clash, ...]:
    """An attribute."""
    nodes = [side.nodes for side in three.sides]
    values = [_value(one) for one in nodes]
    if values[0] is None or values[1] is None or values[2] is None:
        texts = ["\n".join(map(ast.unparse, one)) for one in nodes]
        return (Clash("the member is of another kind now", *texts),)
    merged = merge_expression(three, values[0], values[1], values[2])
    if isinstance(merged, Clash):
        return (merged,)
    (node,) = three.theirs.nodes
    text = " " * node.col_offset + three.theirs.spliced(node, [(values[2], merged)]) + "\n"
    return in_class(text, is_member=bool(node.col_offset))


def _value(nodes: tuple[ast.stmt, ...]) -> ast.expr | None:
    match nodes:
        case (ast.Assign(value=value),) | (ast.AnnAssign(value=ast.expr() as value),):
            return value
        case _:
            return None

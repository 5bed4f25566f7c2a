"""Three versions of a method as one, if nothing of it is in doubt."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.align.suites import code_of
from patchgen.author.rebase.meaning import changed_meanings
from patchgen.author.rebase.sides import Clash
from patchgen.author.rebase.signature import merge_signature
from patchgen.author.rebase.statements import Patch, head_end, merge_suites
from patchgen.author.rebase.versions import Versions
from patchgen.syntax.same import Function


@dataclass(frozen=True)
class Merged:
    """The text of a merged method at its own indentation; empty where something clashes."""

    text: str
    clashes: tuple[Clash, ...] = ()


def merge_versions(versions: Versions, known: Mapping[str, str]) -> Merged:
    """The new parent's method with the declaration's changes, or what is in doubt of it.

    `known` are the global names that it may read, and what is imported by them.
    """
    merged = _merge(versions)
    if merged.clashes:
        return merged
    tree = ast.parse(textwrap.dedent(merged.text)).body[0]
    assert isinstance(tree, Function)
    return replace(merged, clashes=changed_meanings(tree, *versions.functions, known))


def _merge(versions: Versions) -> Merged:
    three = versions.three
    base, ours, theirs = versions.functions
    head = merge_signature(three, base, ours, theirs)
    changes = merge_suites(three, code_of(base.body), code_of(ours.body), code_of(theirs.body))
    clashes = (*([head] if isinstance(head, Clash) else []), *changes.clashes)
    if clashes or isinstance(head, Clash):
        return Merged("", clashes=clashes)
    margin = " " * theirs.col_offset
    body = head_end(three.theirs.source.lines, theirs) + 1
    lines = [margin + line for line in head]
    lines += _patched(three.theirs.lines(body, theirs.end_lineno or 0), body, changes.patches)
    text = "\n".join(lines) + "\n"
    if not _is_valid(text):
        return Merged("", clashes=(Clash("the two changes give no valid Python together"),))
    return Merged(text)


def _patched(lines: list[str], first: int, patches: Sequence[Patch]) -> list[str]:
    """`lines`, which begin at line `first`, after the patches."""
    for patch in sorted(patches, key=_place)[::-1]:
        lines[patch.first - first : patch.last + 1 - first] = patch.lines
    return lines


def _place(patch: Patch) -> tuple[int, int, int]:
    """Where a patch goes.  At one place, what ends a block comes before what follows the block."""
    margins = [len(line) - len(line.lstrip()) for line in patch.lines if line.strip()]
    return patch.first, patch.last, -min(margins, default=0)


def _is_valid(text: str) -> bool:
    try:
        compile(textwrap.dedent(text), "merged", "exec", ast.PyCF_ONLY_AST)
    except SyntaxError:
        return False
    return True

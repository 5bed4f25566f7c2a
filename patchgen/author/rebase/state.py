"""The state of one declared change under another release: what is to be done about it."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.author.align.file import File, Member
from patchgen.author.rebase.copies import without_copies
from patchgen.author.rebase.expressions import merge_expression
from patchgen.author.rebase.folding import folded
from patchgen.author.rebase.method import merge_versions
from patchgen.author.rebase.renames import imported_renames, with_names, with_one_name
from patchgen.author.rebase.sides import Clash, Side, Three
from patchgen.author.rebase.splits import with_split_names
from patchgen.author.rebase.versions import MethodText, Versions, alone
from patchgen.syntax.same import Function, plain_text, without_docstring


class State(enum.StrEnum):
    """What the new release means for an edit or an override."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    REANCHORED = "re-anchored"
    MERGED = "merged"
    ABSORBED = "absorbed"
    STALE = "stale override"
    CONFLICT = "conflict"
    GONE = "gone"
    KEPT = "kept"
    DECIDED = "decided"


# What is left to a person.
OPEN = frozenset({State.STALE, State.CONFLICT, State.GONE})
_STRANGE = 0.5


@dataclass(frozen=True)
class Version:
    """A member as one side has it, and the file that it stands in."""

    file: File
    member: Member

    @property
    def text(self) -> list[str]:
        """What it says, without what only documents."""
        return [plain_text(node) for node in self.member.nodes]


@dataclass(frozen=True)
class Outcome:
    """A state; `text` is the merged member at the margin of a class, empty where there is none."""

    state: State
    text: str = ""
    clashes: tuple[Clash, ...] = ()


def compare(base: Version, ours: Version, theirs: Version) -> Outcome:
    """The state of a change, as far as the three versions of its member tell.

    MERGED stands for any change that can be made to the new version; whether the declaration says
    it already is for the caller to see.
    """
    if base.text == theirs.text:
        return Outcome(State.UNCHANGED)
    if ours.text == theirs.text:
        return Outcome(State.ABSORBED)
    three = Three(Side(base.file.source), Side(ours.file.source), Side(theirs.file.source))
    before, own, after = base.member.method, ours.member.method, theirs.member.method
    if before is not None and own is not None and after is not None:
        return _compare_methods(three, (before, own, after), (base.file, ours.file, theirs.file))
    values = [_value(one.member) for one in (base, ours, theirs)]
    if values[0] is None or values[1] is None or values[2] is None:
        return Outcome(State.CONFLICT, clashes=(_not_alike(three, base, ours, theirs),))
    merged = merge_expression(three, values[0], values[1], values[2])
    if isinstance(merged, Clash):
        state = State.CONFLICT if isinstance(values[0], ast.List | ast.Dict) else State.STALE
        return Outcome(state, clashes=(merged,))
    node = theirs.member.nodes[0]
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    text = " " * 4 + three.theirs.spliced(node, [(values[2], merged)]) + "\n"
    return Outcome(State.MERGED, text)


def _compare_methods(
    three: Three, methods: tuple[Function, Function, Function], files: tuple[File, File, File]
) -> Outcome:
    before, own, _ = methods
    known = _known(files[1], files[2])
    clashes: tuple[Clash, ...] = ()
    for versions in _ways(three, methods, (files[0], files[2])):
        merged = merge_versions(versions, known)
        if not merged.clashes:
            return Outcome(State.MERGED, merged.text)
        clashes = clashes or merged.clashes
    return Outcome(State.STALE if _is_strange(before, own) else State.CONFLICT, "", clashes)


def _ways(
    three: Three, methods: tuple[Function, Function, Function], files: tuple[File, File]
) -> Iterator[Versions]:
    """The versions as they are, and as they can be said otherwise where that does not merge."""
    base, ours, theirs = methods
    yield Versions(
        MethodText(three.base, base),
        MethodText(three.ours, ours),
        MethodText(three.theirs, theirs),
    )
    plain = Versions(alone(three.base, base), alone(three.ours, ours), alone(three.theirs, theirs))
    imported = imported_renames(*files)
    if imported:
        plain = with_names(plain, imported)
        yield plain
    renamed = with_one_name(plain)
    if renamed is not None:
        yield renamed
    other = folded(renamed or plain)
    if other is not None:
        yield other
    split = with_split_names(renamed or plain)
    if split is not None:
        yield split
    copied = without_copies(split or renamed or plain)
    if copied is not None:
        yield copied


def _known(ours: File, theirs: File) -> dict[str, str]:
    """The global names that a merged method may read, and what is imported by them."""
    found: dict[str, str] = {}
    for file in (theirs, ours):
        for name in (*file.definitions, *file.imports, *file.guarded):
            whole = _imported(file, name)
            found[name] = whole if found.get(name, whole) == whole else ""
    return found


def _imported(file: File, name: str) -> str:
    """The path of what an absolute import binds to `name`, such as `torch.nn`; "" for others."""
    if name in file.definitions or name in file.guarded or name not in file.imports:
        return ""
    node, alias = file.imports[name]
    match node:
        case ast.ImportFrom(module=str(module), level=0):
            return f"{module}.{alias.name}"
        case ast.Import() if alias.asname:
            return alias.name
        case _:
            return ""


def _is_strange(base: Function, ours: Function) -> bool:
    """Whether a method was written anew: less than half of its statements are the parent's."""
    known = {plain_text(n) for n in ast.walk(base) if isinstance(n, ast.stmt)}
    own = [n for s in without_docstring(ours.body) for n in ast.walk(s) if isinstance(n, ast.stmt)]
    return sum(plain_text(n) in known for n in own) < len(own) * _STRANGE


def _value(member: Member) -> ast.expr | None:
    match member.nodes:
        case (ast.Assign(value=value),) | (ast.AnnAssign(value=ast.expr() as value),):
            return value
        case _:
            return None


def _not_alike(three: Three, base: Version, ours: Version, theirs: Version) -> Clash:
    texts = ["\n".join(ast.unparse(n) for n in one.member.nodes) for one in (base, ours, theirs)]
    return Clash("the member is of another kind now", *texts)

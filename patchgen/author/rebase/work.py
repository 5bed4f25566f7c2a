"""A declaration that was written for one release, made to fit another.

In: a modular file and two releases.  Out: the state of every edit and override, and the text of the
modular file with what could be rewritten.  An edit that finds its place stays as it is.  What does
not is tried by upstream's new names, and then written anew from a merge of three versions of the
member: the old parent's, what the declaration made of it, and the new parent's.  What was written
anew is flattened on the new release, and has to give the merged member.
"""

from __future__ import annotations

import ast
import difflib
import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.code import Clash, Code, Three
from patchgen.author.rebase.declared import Declared, declared_changes
from patchgen.author.rebase.meaning import changed_uses
from patchgen.author.rebase.merge import Merge, doubts_of, merge
from patchgen.author.rebase.names import renamed_everywhere
from patchgen.author.rebase.releases import Given, Prover, Tree, without_bases
from patchgen.author.rebase.write import Rewritten, Writer, replaced, without_comments
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import PatchgenError, Problem, Refusals
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source

CLASS = "(class)"  # the member of a change that is about a class as a whole
_NO_CHANGE = "PG408"


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


# What is left to a person.
OPEN = frozenset({State.STALE, State.CONFLICT, State.GONE})


@dataclass(frozen=True)
class Result:
    """The outcome of one declared change.

    `before` and `after` are the parent's text in both releases, `renamed` is what upstream calls
    otherwise.
    """

    change: Declared
    state: State
    clashes: tuple[Clash, ...] = ()
    before: str = ""
    after: str = ""
    merged: str = ""
    renamed: str = ""

    @property
    def upstream(self) -> list[str]:
        """The lines of a diff: what upstream changed in the member."""
        before, after = (text.split("\n") if text else [] for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]

    @property
    def is_open(self) -> bool:
        """Whether a person has to decide it."""
        return self.state in OPEN

    def told(self) -> Iterator[str]:
        """What a person has to know to decide it, as comments in the modular file."""
        yield f"{self.change.name}: {self.state}"
        yield from (clash.what for clash in self.clashes)
        if self.renamed:
            yield self.renamed
        yield from self.upstream
        is_stale = self.state is State.STALE
        what = "follow it, or keep the override (`patchgen convert --accept`)"
        yield f"{what if is_stale else 'decide what it should do now'}; then delete these comments"


@dataclass(frozen=True)
class Rebased:
    """The states of a modular file's changes.

    `text` is what the file should be, `problems` is what else no longer fits.
    """

    modular: File
    text: str
    results: tuple[Result, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def is_absorbed(self) -> bool:
        """Whether upstream does by itself now all that the changes did."""
        return bool(self.results) and all(r.state is State.ABSORBED for r in self.results)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to a person."""
        return not self.problems and not any(result.is_open for result in self.results)


@dataclass(eq=False)
class _Case:
    """A change in progress: what is known of it so far."""

    change: Declared
    result: Result
    merge: Merge | None = None
    files: tuple[File, File] | None = None  # the output on the old release, and the new parent
    wanted: list[str] | None = None  # what the member has to say in the output
    is_waiting: bool = False

    def settle(self, state: State, member: Code | None = None, *clashes: Clash) -> None:
        """Give the change its state."""
        self.is_waiting = False
        merged = member.member if member is not None else ""
        self.wanted = member.says if member is not None else None
        self.result = replace(self.result, state=state, clashes=clashes, merged=merged)


@dataclass(frozen=True)
class Rebase:
    """A modular file with the two releases; `old` and `new` are their folders."""

    source: File
    prover: Prover
    old: Path | None
    new: Path | None
    trees: tuple[Tree, Tree]

    @cached_property
    def modular(self) -> File:
        """The file without the comments of an earlier rebase."""
        source = self.source.source
        return read_file(make_source(without_comments(source.text), source.path))

    def run(self) -> Rebased:
        """Every change with its state, and the text with what could be rewritten.

        Raises Refusals with the problems of a modular file that does not convert on its own
        release.
        """
        given = self.prover.flatten(self.modular.source.text, self.old)
        if given.problems:
            raise Refusals(list(given.problems))
        changes = list(declared_changes(self.modular))
        found = [self._case(change, given) for change in changes]
        found += [self._added_to(change) for change in _whole_classes(changes)]
        cases = [case for case in found if case is not None]
        rewritten = self._settle(cases)
        problems = self._prove(cases, rewritten)
        taken_out = {case.change: None for case in cases if case.result.state is State.ABSORBED}
        told = {c.change: list(c.result.told()) for c in cases if c.result.is_open}
        text = replaced(self.modular, {**rewritten, **taken_out}, told)
        return Rebased(self.source, text, tuple(case.result for case in cases), problems)

    # What is known before anything is tried

    def _case(self, change: Declared, given: Given) -> _Case | None:
        """A change with its state by the three versions; None for what the parent does not have."""
        output = given.file_of(change.module)
        before = self.trees[0].parent_of(change, output) if output is not None else None
        if before is None or output is None:
            return None
        base = before[1]
        result = Result(change, State.UNCHANGED, (), _text(base))
        after = self.trees[1].parent_of(change, output)
        if after is None:
            clash = Clash(_where_it_is(change, base, self.trees[1]))
            return _Case(change, replace(result, state=State.GONE, clashes=(clash,)))
        theirs = after[1]
        case = _Case(change, replace(result, after=_text(theirs)), files=(output, after[0]))
        ours = given.member(change)
        if ours is None:  # the declaration removes the member
            case.settle(State.UNCHANGED if base.says == theirs.says else State.MOVED)
            return case
        three = Three(base, ours, theirs, is_free=change.kind != "edit")
        uses = tuple(changed_uses(three, self.trees, (change.module, change.parent)))
        if ours.says == theirs.says and base.says != theirs.says:
            case.settle(State.ABSORBED)
        elif uses:
            case.settle(State.CONFLICT, None, *uses)
        elif base.says != theirs.says:
            case.merge = merge(three, renamed_everywhere(before[0], after[0]))
            case.is_waiting = True
            case.result = replace(case.result, renamed=case.merge.renames.told())
        return case

    def _added_to(self, change: Declared) -> _Case | None:
        """What upstream added to a class that the declaration writes out; None for nothing."""
        before, after = (tree.definition(change.module, change.parent) for tree in self.trees)
        if before is None or after is None or "class" not in (before[1].kind, after[1].kind):
            return None
        new = [name for name in after[1].members if name not in before[1].members]
        if not new:
            return None
        node = self.modular.definitions[change.owner].node
        head = replace(change, member=CLASS, kind="attribute", nodes=(node,))
        clash = Clash(f"upstream added {', '.join(new)}, which the class written out lacks")
        return _Case(head, Result(head, State.STALE, (clash,)))

    # What fits, as it is or written anew

    def _settle(self, cases: list[_Case]) -> dict[Declared, Rewritten]:
        """Try each waiting change as it is, by upstream's new names, and as the merge says it."""
        writer = Writer(self.modular, self.prover.settings)
        rewritten: dict[Declared, Rewritten] = {}
        # The first one again: by then, what it depends on may be right.
        for write in (_as_it_is, _renamed, _written_anew, _as_it_is):
            waiting = [case for case in cases if case.is_waiting]
            new = {case.change: made for case in waiting if (made := write(case, writer))}
            if not waiting or not (new or write is _as_it_is):
                continue
            given, left_out = self._trial(cases, {**rewritten, **new})
            for case in waiting:
                member, made = given.member(case.change), new.get(case.change)
                if case.change in left_out or member is None:
                    continue
                self._judge(case, member, made, is_anew=write is _written_anew)
                if made is not None and case.wanted is not None:
                    rewritten[case.change] = made
        for case in cases:
            if case.is_waiting:
                assert case.merge is not None
                doubts = case.merge.clashes or (Clash("upstream changed what `with old:` matches"),)
                is_edit = case.change.kind == "edit"
                case.settle(State.CONFLICT if is_edit else State.STALE, None, *doubts)
        return rewritten

    def _judge(self, case: _Case, member: Code, made: Rewritten | None, *, is_anew: bool) -> None:
        """Take a declaration that gives the merged member, or an edit that found its place."""
        merged = case.merge
        assert merged is not None
        is_wanted = merged.code is not None and member.says == merged.code.says
        if case.change.kind == "edit" and not is_anew and not is_wanted:
            doubts = doubts_of(member, merged.three)
            if doubts:
                case.settle(State.CONFLICT, None, *doubts)
                return
        elif not is_wanted:
            return
        state = State.REANCHORED if case.change.kind == "edit" else State.MERGED
        case.settle(State.MOVED if made is None else state, member)

    def _trial(
        self, cases: Iterable[_Case], rewritten: dict[Declared, Rewritten]
    ) -> tuple[Given, Collection[Declared]]:
        """What the file gives on the new release, and the changes that had to be left out."""
        left_out = _left_out(cases)
        while True:
            text = replaced(self.modular, {**rewritten, **left_out})
            given = self.prover.flatten(without_bases(text, self._is_gone), self.new)
            changes = [case.change for case in cases if case.change not in left_out]
            failing = _failing(given.problems, text, changes)
            if not failing:
                return given, left_out
            left_out |= dict.fromkeys(failing)

    def _is_gone(self, module: str, name: str) -> bool:
        tree = self.trees[1]
        return tree.file(module) is not None and tree.definition(module, name) is None

    def _prove(
        self, cases: Iterable[_Case], rewritten: dict[Declared, Rewritten]
    ) -> tuple[Problem, ...]:
        """Take back what does not give its member among the others; what else does not fit."""
        while True:
            text = replaced(self.modular, {**rewritten, **_left_out(cases)})
            given = self.prover.flatten(without_bases(text, self._is_gone), self.new)
            wrong = [
                case
                for case in cases
                if case.wanted is not None
                and ((member := given.member(case.change)) is None or member.says != case.wanted)
            ]
            if not wrong:
                # With everything left out that is open, nothing may be left of the variant.
                problems = self.prover.flatten(text, self.new).problems
                return tuple(p for p in problems if p.code != _NO_CHANGE)
            for case in wrong:
                rewritten.pop(case.change, None)
                why = given.problems[0].what if given.problems else "it gives something else"
                case.settle(State.CONFLICT, None, Clash(f"among the others: {why}"))


def _as_it_is(case: _Case, writer: Writer) -> None:
    """The declaration as it stands."""


def _renamed(case: _Case, writer: Writer) -> Rewritten | None:
    if case.change.kind != "edit" or case.merge is None or not case.merge.renames:
        return None
    return writer.renamed(case.change, case.merge.renames)


def _written_anew(case: _Case, writer: Writer) -> Rewritten | None:
    if case.merge is None or case.merge.code is None or case.files is None:
        return None
    if case.change.kind == "edit":
        three = case.merge.three
        edits = writer.edits(case.change, three.theirs, case.merge.code, case.files)
        if edits is not None:
            return edits
    # Where an edit has no place of its own any more, the whole method says it.
    return writer.override(case.change, case.merge.code, case.files)


def _text(code: Code) -> str:
    return "\n".join(map(ast.unparse, code.nodes))


def _where_it_is(change: Declared, member: Code, tree: Tree) -> str:
    """What upstream did with a member that is gone: moved it, or took it out."""
    file = tree.file(change.module)
    if file is None:
        return f"upstream has no module {change.module} any more"
    owner, missing = change.parent or change.module, change.member
    if change.parent and tree.definition(change.module, change.parent) is None:
        owner, missing = change.module, change.parent
    members = [
        (f"{definition.name}.{name}", [*map(plain_text, one.nodes)])
        for definition in file.definitions.values()
        if definition.kind == "class"
        for name, one in definition.members.items()
    ]
    moved = [place for place, says in members if says == member.says]
    named = [place for place, _ in members if place.partition(".")[2] == change.member]
    alike = [place for place in named if place.partition(".")[0].endswith(change.parent[-8:])]
    where = f": upstream moved it to {', '.join(moved[:3])}" if moved else ""
    where = where or (f"; see {', '.join(alike[:3])}" if alike else "")
    return f"{owner} has no {missing} any more{where}"


def _whole_classes(changes: Iterable[Declared]) -> list[Declared]:
    """One change for each class that is written out."""
    found: dict[str, Declared] = {}
    for change in changes:
        if change.is_whole and change.owner:
            found.setdefault(change.owner, change)
    return list(found.values())


def _left_out(cases: Iterable[_Case]) -> dict[Declared, Rewritten | None]:
    """What is left to a person, or upstream's own now: without it, the rest can be tried."""
    return {
        case.change: None
        for case in cases
        if (case.result.is_open and not case.change.is_whole) or case.result.state is State.ABSORBED
    }


def _failing(
    problems: Iterable[Problem], text: str, changes: Collection[Declared]
) -> list[Declared]:
    """The changes at whose lines the compiler found problems."""
    lines = [problem.at.line for problem in problems]
    try:
        tree = read_file(make_source(text, "modular.py"))
    except PatchgenError:
        return []
    return [
        change
        for now in declared_changes(tree)
        if any(first_line(n) <= line <= (n.end_lineno or 0) for n in now.nodes for line in lines)
        for change in changes
        if change.name == now.name
    ]

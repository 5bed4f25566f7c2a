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
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchgen.author.align.file import File, read_file
from patchgen.author.rebase import releases
from patchgen.author.rebase.code import Clash, Code, Three, cut_out
from patchgen.author.rebase.head import with_parameters
from patchgen.author.rebase.imports import follow_imports
from patchgen.author.rebase.meaning import changed_uses, doubts_of
from patchgen.author.rebase.merge import Merge, merge
from patchgen.author.rebase.wrapper import follow
from patchgen.author.rebase.write import OUT, Rewritten, Writer, replaced, without_comments
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import PatchgenError, Problem, Refusals
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


@dataclass(eq=False)
class Result:
    """One declared change, and what is known of it so far.

    `before` and `after` are the parent's text in both releases, `three` are the versions.  `merge`
    is what the member should say now, `parent` is the new one.
    """

    change: releases.Declared
    state: State = State.UNCHANGED
    clashes: tuple[Clash, ...] = ()
    before: str = ""
    after: str = ""
    three: Three | None = None
    merge: Merge | None = None
    parent: releases.Parent | None = None
    merged: str = ""

    @property
    def renamed(self) -> str:
        """What upstream calls otherwise."""
        return self.merge.renames.describe() if self.merge is not None else ""

    @property
    def upstream(self) -> list[str]:
        """The lines of a diff: what upstream changed in the member."""
        before, after = (text.split("\n") if text else [] for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]

    @property
    def is_open(self) -> bool:
        """Whether a person has to decide it."""
        return self.state in OPEN

    def give_up(self, doubts: tuple[Clash, ...]) -> None:
        """Leave the change to a person."""
        assert self.merge is not None
        is_edit = self.change.kind == "edit"
        self.state = State.CONFLICT if is_edit or doubts else State.STALE
        told = "upstream changed what `with old:` matches"
        if not is_edit:
            told = "it does not convert on the new release, as it is or written anew"
        self.clashes = doubts or self.merge.clashes or (Clash(told),)

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
    def followed(self) -> set[str]:
        """The overrides that say what they should on the new release, by their names."""
        done = {result.change.name for result in self.results if not result.is_open}
        whole = {result.change.owner for result in self.results if result.change.is_whole}
        return done | (whole - {r.change.owner for r in self.results if r.is_open})

    @property
    def is_absorbed(self) -> bool:
        """Whether upstream does by itself now all that the changes did."""
        return bool(self.results) and all(r.state is State.ABSORBED for r in self.results)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to a person."""
        return not self.problems and not any(result.is_open for result in self.results)


@dataclass(frozen=True)
class Rebase:
    """A modular file with the two releases; `old` and `new` are their folders."""

    source: File
    prover: releases.Prover
    old: Path | None
    new: Path | None
    trees: tuple[releases.Tree, releases.Tree]

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
        changes = list(releases.declared_changes(self.modular, self.trees[0]))
        results: list[Result] = []
        for change in changes:
            result = self._result(change, given)
            if result is not None:
                results.append(result)
        whole = {}
        for change in changes:
            if change.is_whole and change.owner:
                whole[change.owner] = change
        for change in whole.values():
            result = self._added_to(change)
            if result is not None:
                results.append(result)
        texts = self._settle(results)
        tried = follow_imports(replaced(self.modular, texts), self.trees)
        problems = self.prover.flatten(tried, self.new).problems
        told = {r.change: list(r.told()) for r in results if r.is_open}
        kept = {change: text for change, text in texts.items() if change not in told}
        text = follow_imports(replaced(self.modular, kept, told), self.trees)
        # With everything left out that is open, nothing may be left of the variant.
        problems = tuple(problem for problem in problems if problem.code != _NO_CHANGE)
        return Rebased(self.source, text, tuple(results), problems)

    # What is known before anything is tried

    def _result(self, change: releases.Declared, given: releases.Given) -> Result | None:
        """A change by its three versions; None for what the parent does not have."""
        output = given.file_of(change.module)
        before = self.trees[0].parent_of(change, output) if output is not None else None
        if before is None or output is None:
            return None
        base = before.code
        result = Result(change, before=_text(base))
        after = self.trees[1].parent_of(change, output)
        ours = given.member(change)
        if after is None:
            result.state = State.GONE
            result.clashes = (Clash(_where_it_is(change, base, self.trees[1])),)
            return result
        theirs = after.code
        result.after = _text(theirs)
        result.parent = after
        is_same = base.says == theirs.says
        if ours is None:  # the declaration removes the member
            result.state = State.UNCHANGED if is_same else State.MOVED
            return result
        three = result.three = Three(base, ours, theirs)
        result.clashes = tuple(changed_uses(three, self.trees, (change.module, change.parent)))
        if ours.says == theirs.says and not is_same:
            result.state = State.ABSORBED
            result.clashes = ()
        elif result.clashes:
            result.state = State.CONFLICT
        elif not is_same and self._is_of_declaration(change, ours):
            result.merge = Merge(three, ours)
        elif not is_same:
            result.merge = self._wrapped(change, three) or merge(three)
        return result

    def _wrapped(self, change: releases.Declared, three: Three) -> Merge | None:
        """An override that calls its parent, made to fit; None for any other change."""
        if change.kind != "override" or change.is_whole:
            return None
        return follow(self._written(change), three)

    def _written(self, change: releases.Declared) -> Code:
        return cut_out(self.modular, change.nodes)

    def _is_of_declaration(self, change: releases.Declared, ours: Code) -> bool:
        """Whether the declaration calls a method that upstream has and does not call any more."""
        if change.kind == "attribute" or "super()" in ours.text:
            return False
        before, now = (tree.file(change.module) for tree in self.trees)
        if before is not None and change.member not in _read_attributes([before.tree]):
            return False
        if now is None or change.member in _read_attributes([now.tree]):
            return False
        everywhere = _read_attributes([self.modular.tree])
        in_itself = _read_attributes(change.nodes)
        return everywhere[change.member] > in_itself[change.member]

    def _added_to(self, change: releases.Declared) -> Result | None:
        """What upstream added to a class that the declaration writes out; None for nothing."""
        before, after = (tree.definition(change.module, change.parent) for tree in self.trees)
        if before is None or after is None:
            return None
        old = before[1]
        new = after[1]
        if "class" not in (old.kind, new.kind):
            return None
        added = [name for name in new.members if name not in old.members]
        if not added:
            return None
        node = self.modular.definitions[change.owner].node
        head = replace(change, member=CLASS, kind="attribute", nodes=(node,))
        what = f"upstream added {', '.join(added)}, which the class written out lacks"
        return Result(head, State.STALE, (Clash(what),))

    # What fits, as it is or written anew

    def _settle(self, results: Collection[Result]) -> dict[releases.Declared, Rewritten]:
        """The first text of each change that gives the merged member among the others.

        What is left to a person is left out, and what upstream does by itself now.
        """
        writer = Writer(self.modular, self.prover.settings, self.trees[0])
        texts = {r.change: _stand_in(r, writer) for r in results if _is_left_out(r)}
        for result in results:
            wrapper = result.merge.wrapper if result.merge is not None else None
            if wrapper is not None and wrapper.text != self._written(result.change).text:
                texts[result.change] = writer.wrapper(result.change, wrapper)
        waiting = {r: _ways(r, writer) for r in results if r.merge is not None}
        while True:
            text = follow_imports(replaced(self.modular, texts), self.trees)
            given = self.prover.flatten(releases.without_bases(text, self.trees[1]), self.new)
            failing = _failing(given.problems, text, self.trees[0])
            wrong: dict[Result, tuple[Clash, ...]] = {}
            for result in results:
                rewritten = texts.get(result.change)
                if result.change.name in failing and rewritten is not OUT:
                    wrong[result] = ()
                elif result in waiting and not failing:
                    doubts = _doubts(result, given.member(result.change), rewritten)
                    if doubts is not None:
                        wrong[result] = doubts
            if not wrong:
                break
            for result, doubts in wrong.items():
                texts.pop(result.change, None)
                way = OUT if doubts else next(waiting.get(result, iter(())), OUT)
                if way is OUT and result in waiting:
                    del waiting[result]
                    result.give_up(doubts)
                    way = None if result.change.is_whole else _stand_in(result, writer)
                if way is not None:
                    texts[result.change] = way
        for result in waiting:
            member = given.member(result.change)
            if result.change not in texts:
                result.state = State.MOVED
            elif result.change.kind == "edit":
                result.state = State.REANCHORED
            else:
                result.state = State.MERGED
            result.merged = member.member if member is not None else ""
        for result in results:
            if texts.get(result.change) is OUT and not _is_left_out(result):
                del texts[result.change]
        return texts


def _stand_in(result: Result, writer: Writer) -> Rewritten:
    """What stands in the place of a change that is left out.

    Others may give arguments to it that the declaration added, so these stay.
    """
    three = result.three
    if not result.is_open or three is None or three.functions is None:
        return OUT
    base, ours, theirs = three.functions
    headed = with_parameters(three.theirs, base, ours)
    if headed is None or result.parent is None:
        return OUT
    if headed.says == three.theirs.says:
        return OUT
    return writer.override(result.change, headed, result.parent)


def _ways(result: Result, writer: Writer) -> Iterator[Rewritten | None]:
    """What a change may become when it does not fit; None is the text that it has."""
    change = result.change
    merged = result.merge
    assert merged is not None and result.parent is not None
    is_edit = change.kind == "edit"
    renamed = writer.renamed(change, merged.renames) if is_edit and merged.renames else None
    if renamed is not None:
        yield renamed
    if merged.code is not None:
        edits = writer.edits(change, merged.code, result.parent) if is_edit else None
        # Where an edit has no place of its own any more, the whole method says it.
        yield edits or writer.override(change, merged.code, result.parent)
    # The first one again: by now, what it depends on may be right.
    yield None


def _doubts(
    result: Result, member: Code | None, rewritten: Rewritten | None
) -> tuple[Clash, ...] | None:
    """None for a change that gives the merged member, or an edit that has found its place.

    What makes a person decide, or () for a member that another text may give.
    """
    merged = result.merge
    if member is None or merged is None:
        return ()
    if merged.wrapper is not None:  # it converts, and calls the new method
        return None
    if merged.code is not None and member.says == merged.code.says:
        return None
    if result.change.kind != "edit" or (rewritten is not None and rewritten.is_anew):
        return ()
    return doubts_of(member, merged.three) or None


def _is_left_out(result: Result) -> bool:
    """Whether a change is left to a person, or upstream's own now: the rest is tried without it."""
    return result.state is State.ABSORBED or (result.is_open and not result.change.is_whole)


def _failing(problems: Iterable[Problem], text: str, tree: releases.Tree) -> set[str]:
    """The names of the changes at whose lines the compiler found problems."""
    try:
        modular = read_file(make_source(text, "modular.py"))
        changes = [*releases.declared_changes(modular, tree)]
    except PatchgenError:
        return set()
    lines = {problem.at.line for problem in problems}
    failing: set[str] = set()
    for change in changes:
        for node in change.nodes:
            last = node.end_lineno or 0
            if not lines.isdisjoint(range(first_line(node), last + 1)):
                failing.add(change.name)
    return failing


def _read_attributes(trees: Iterable[ast.AST]) -> Counter[str]:
    """How often each attribute of anything stands in code."""
    attributes: Counter[str] = Counter()
    for tree in trees:
        attributes.update(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    return attributes


def _text(code: Code) -> str:
    return "\n".join(map(ast.unparse, code.nodes))


def _where_it_is(change: releases.Declared, member: Code, tree: releases.Tree) -> str:
    """What upstream did with a member that is gone: moved it, or took it out."""
    file = tree.file(change.module)
    if file is None:
        return f"upstream has no module {change.module} any more"
    owner = change.parent or change.module
    missing = change.member
    if change.parent and tree.definition(change.module, change.parent) is None:
        owner = change.module
        missing = change.parent
    moved: list[str] = []
    alike: list[str] = []
    for class_name in file.classes:
        for name, other in file.definitions[class_name].members.items():
            if other.says == member.says:
                moved.append(f"{class_name}.{name}")
            if name == change.member and class_name.endswith(change.parent[-8:]):
                alike.append(f"{class_name}.{name}")
    where = ""
    if moved:
        where = f": upstream moved it to {', '.join(moved[:3])}"
    elif alike:
        where = f"; see {', '.join(alike[:3])}"
    return f"{owner} has no {missing} any more{where}"

"""A declaration that was written for one release, made to fit another.

In: a modular file and two releases.  Out: the state of every edit and override, and the text of the
modular file with what could be rewritten.  Each rewritten member is proved: the new text is
flattened on the new release, and has to give the merged member.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.author.align.file import File, Member
from patchgen.author.rebase.callers import only_declaration_calls
from patchgen.author.rebase.cases import (
    CLASS,
    Case,
    Result,
    failing_changes,
    given_member,
    is_given,
    left_open,
    put_in_doubt,
    taken_out,
    whole_classes,
)
from patchgen.author.rebase.decisions import decided_changes
from patchgen.author.rebase.declared import Declared, declared_changes
from patchgen.author.rebase.naming import changed_member, in_names_of
from patchgen.author.rebase.proof import Given, Prover, without_bases
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import (
    Rewritten,
    as_override,
    member_of,
    replaced,
    rewrite,
    source_of,
)
from patchgen.author.rebase.sides import Clash
from patchgen.author.rebase.state import Outcome, State, Version, compare
from patchgen.author.rebase.surroundings import changed_surroundings
from patchgen.syntax.errors import Problem, Refusals
from patchgen.syntax.same import plain_text

_MOST_ROUNDS = 12
_NO_CHANGE = "PG408"


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
    def is_retired(self) -> bool:
        """Whether upstream does by itself now all that the changes did."""
        return bool(self.results) and all(r.state is State.ABSORBED for r in self.results)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to a person."""
        return not self.problems and not any(result.is_open for result in self.results)


@dataclass(frozen=True)
class Rebase:
    """A modular file with the two releases; `old` and `new` are their folders."""

    modular: File
    prover: Prover
    old: Path | None
    new: Path | None
    old_tree: Tree
    new_tree: Tree
    decisions: Mapping[str, str] = field(default_factory=dict)  # by the keys of conflicts

    def run(self) -> Rebased:
        """Every change with its state, and the text with what could be rewritten.

        Raises Refusals with the problems of a modular file that does not convert on its own
        release.
        """
        text = self.modular.source.text
        given = self.prover.flatten(text, self.old)
        if given.problems:
            raise Refusals(list(given.problems))
        changes = list(declared_changes(self.modular))
        found = [self._case(change, given) for change in changes]
        found += [self._added(change, given) for change in whole_classes(changes)]
        cases = [case for case in found if case is not None]
        self._keep(cases, given)
        return self._settle(cases, given)

    # -- states -----------------------------------------------------------------------------------

    def _case(self, change: Declared, given: Given) -> Case | None:
        """A change with its state by the three versions; None for what the parent does not have."""
        output = given.file_of(change.module)
        before = self.old_tree.member(change.module, change.parent, change.member)
        if before is None or output is None:
            return None
        after = self.new_tree.member(change.module, change.parent, change.member)
        if after is None:
            return self._gone(change, before.member)
        base_file = in_names_of(output, before.file, change)
        theirs_file = in_names_of(output, after.file, change)
        base = _version(base_file, change, before.owner)
        theirs = _version(theirs_file, change, after.owner)
        ours = member_of(output, change.owner, change.member)
        if base is None or theirs is None:
            return None
        if ours is None:
            return self._removed(change, base, theirs)
        outcome = compare(base, Version(output, ours), theirs)
        if outcome.state in (State.UNCHANGED, State.MERGED):
            clashes = self._surroundings(change, base, Version(output, ours), theirs)
            if clashes:
                outcome = Outcome(State.CONFLICT, clashes=clashes)
        result = Result(
            change,
            outcome.state,
            outcome.clashes,
            _member_text(base.member),
            _member_text(theirs.member),
        )
        wanted = _plain(outcome.text, change) if outcome.text else None
        return Case(change, result, outcome, wanted, theirs_file)

    def _added(self, change: Declared, given: Given) -> Case | None:
        """What upstream added to a class that the declaration writes out; None for nothing."""
        before = self.old_tree.definition(change.module, change.parent)
        after = self.new_tree.definition(change.module, change.parent)
        if before is None or after is None or "class" not in (before[1].kind, after[1].kind):
            return None
        new = [name for name in after[1].members if name not in before[1].members]
        node = self.modular.definitions[change.owner].node
        assert isinstance(node, ast.ClassDef)
        head = replace(change, member=CLASS, kind="attribute", nodes=(node,))
        if not new:
            return None
        clash = Clash(f"upstream added {', '.join(new)}, which the class written out lacks")
        return Case(head, Result(head, State.STALE, (clash,)))

    def _keep(self, cases: list[Case], given: Given) -> None:
        """Leave overrides as they are that upstream does without, and the declaration does not."""
        trees = self.old_tree, self.new_tree
        outputs = [given.file_of(case.change.module) for case in cases]
        kept = [
            case
            for case, output in zip(cases, outputs, strict=True)
            if case.result.is_open and output and only_declaration_calls(case, cases, output, trees)
        ]
        for case in kept:
            case.result = replace(case.result, state=State.KEPT, clashes=())
            if case.change.kind == "edit":
                self._want_as_before(case, given)

    def _want_as_before(self, case: Case, given: Given) -> None:
        """Have an edit give what it gives on the old release."""
        change = case.change
        output = given.file_of(change.module)
        before = self.old_tree.member(change.module, change.parent, change.member)
        ours = member_of(output, change.owner, change.member) if output is not None else None
        assert output is not None and ours is not None and before is not None
        case.outcome = Outcome(State.KEPT, source_of(output, ours))
        case.wanted = [plain_text(node) for node in ours.nodes]
        case.theirs = in_names_of(output, before.file, change)

    def _removed(self, change: Declared, base: Version, theirs: Version) -> Case:
        """A member that the declaration removes."""
        state = State.UNCHANGED if base.text == theirs.text else State.MOVED
        text = _member_text(base.member), _member_text(theirs.member)
        return Case(change, Result(change, state, (), *text))

    def _surroundings(
        self, change: Declared, base: Version, ours: Version, theirs: Version
    ) -> tuple[Clash, ...]:
        places = change.module, change.parent
        return changed_surroundings(
            base.member,
            ours.member,
            theirs.member,
            (self.old_tree, self.new_tree),
            places,
            (base.file, theirs.file),
        )

    def _gone(self, change: Declared, member: Member) -> Case:
        """A change of a member that the new release does not have."""
        owner, missing = change.parent or change.module, change.member
        if change.parent and self.new_tree.definition(change.module, change.parent) is None:
            owner, missing = change.module, change.parent
        where = self._where(change, member)
        text = _member_text(member)
        clash = Clash(f"{owner} has no {missing} any more{where}", text)
        return Case(change, Result(change, State.GONE, (clash,), text))

    def _where(self, change: Declared, member: Member) -> str:
        """Where a member that is gone may be now, in words."""
        file = self.new_tree.file(change.module)
        if file is None:
            return ": the module is gone"
        text = [plain_text(node) for node in member.nodes]
        found = [
            f"{d.name}.{name}"
            for d in file.definitions.values()
            if d.kind == "class"
            for name, one in d.members.items()
            if [plain_text(node) for node in one.nodes] == text
            or (name == change.member and d.name.endswith(change.parent[-8:]))
        ]
        return f"; see {', '.join(found[:3])}" if found else ""

    # -- rewriting --------------------------------------------------------------------------------

    def _settle(self, cases: list[Case], given: Given) -> Rebased:
        """Keep what gives the merged member as it stands, rewrite the rest, and prove it."""
        rewritten = decided_changes(cases, self.decisions)
        as_is = self._fitting(cases, rewritten)
        for case in cases:
            if case.wanted is None:
                continue
            if case.change in as_is:
                case.result = replace(case.result, state=State.MOVED, merged=case.outcome.text)
                continue
            output = given.file_of(case.change.module)
            assert output is not None and case.theirs is not None
            is_kept = case.result.state is State.KEPT
            made = rewrite(
                as_override(case.change) if is_kept else case.change,
                self.modular,
                output,
                case.theirs,
                case.outcome.text,
                self.prover.settings,
            )
            if made is None:
                put_in_doubt(case, "the merged member cannot be declared")
            else:
                rewritten[case.change] = made
        problems = self._prove(cases, rewritten)
        changes: dict[Declared, Rewritten | None] = {**rewritten, **taken_out(cases)}
        text = replaced(self.modular, changes) if changes else self.modular.source.text
        for case in cases:
            if case.change in rewritten and not case.decision:
                state = _rewritten_state(case)
                case.result = replace(case.result, state=state, merged=case.outcome.text)
        return Rebased(self.modular, text, tuple(case.result for case in cases), problems)

    def _fitting(
        self, cases: Iterable[Case], decided: Mapping[Declared, Rewritten]
    ) -> set[Declared]:
        """The changes whose declaration gives the merged member as it stands."""
        waiting = [case for case in cases if case.wanted is not None]
        if not waiting:
            return set()
        left_out: dict[Declared, Rewritten | None] = {
            **decided,
            **left_open(cases),
            **taken_out(cases),
        }
        for _ in range(_MOST_ROUNDS):
            text = replaced(self.modular, left_out)
            given = self._on_new(text)
            failing = failing_changes(given.problems, text, [c.change for c in cases], left_out)
            if not failing:
                break
            left_out |= dict.fromkeys(failing)
        return {
            case.change
            for case in waiting
            if case.change not in left_out and given_member(given, case) == case.wanted
        }

    def _prove(
        self, cases: Iterable[Case], rewritten: dict[Declared, Rewritten]
    ) -> tuple[Problem, ...]:
        """Take back what does not give the merged member; what remains of problems is returned."""
        cases = list(cases)
        while True:
            changes: dict[Declared, Rewritten | None] = {
                **rewritten,
                **left_open(cases),
                **taken_out(cases),
            }
            text = replaced(self.modular, changes)
            given = self._on_new(text)
            wrong = [
                case for case in cases if case.change in rewritten and not is_given(given, case)
            ]
            # What a person decided for another variant is the first to be doubted.
            wrong = [case for case in wrong if case.decision] or wrong
            if not wrong:
                # With everything left out that is open, nothing may be left of the variant.
                problems = self.prover.flatten(text, self.new).problems
                return tuple(p for p in problems if p.code != _NO_CHANGE)
            for case in wrong:
                del rewritten[case.change]
                why = given.problems[0].what if given.problems else "it gives something else"
                what = "decision" if case.decision else "rewritten declaration"
                put_in_doubt(case, f"the {what} does not give the merge: {why}")

    def _on_new(self, text: str) -> Given:
        """What a modular file gives on the new release, apart from parents that are gone."""
        return self.prover.flatten(without_bases(text, self._is_gone), self.new)

    def _is_gone(self, module: str, name: str) -> bool:
        there = self.new_tree.file(module)
        return there is not None and self.new_tree.definition(module, name) is None


def _rewritten_state(case: Case) -> State:
    """The state of a change whose declaration was written again."""
    if case.result.state is State.KEPT:
        return State.KEPT
    return State.REANCHORED if case.change.kind == "edit" else State.MERGED


def _version(file: File, change: Declared, owner: str) -> Version | None:
    member = changed_member(file, change, owner)
    return Version(file, member) if member is not None else None


def _plain(text: str, change: Declared) -> list[str]:
    """What a merged member says."""
    if not change.owner:
        return [plain_text(node) for node in ast.parse(text).body]
    (node,) = ast.parse("class _:\n" + text).body
    assert isinstance(node, ast.ClassDef)
    return [plain_text(one) for one in node.body]


def _member_text(member: Member) -> str:
    return "\n".join(ast.unparse(node) for node in member.nodes)

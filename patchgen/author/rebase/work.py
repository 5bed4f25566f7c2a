"""A declaration that was written for one release, made to fit another.

In: a modular file and two releases.  Out: the state of every edit and override, and the text of the
modular file with what could be rewritten.  Each rewritten member is proved: the new text is
flattened on the new release, and has to give the merged member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.author.align.file import File
from patchgen.author.rebase.cases import (
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
from patchgen.author.rebase.comparison import Comparison
from patchgen.author.rebase.decisions import decided_changes
from patchgen.author.rebase.declared import Declared, declared_changes
from patchgen.author.rebase.proof import Given, Prover, without_bases
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import (
    Rewritten,
    as_override,
    replaced,
    rewrite,
)
from patchgen.author.rebase.state import State
from patchgen.syntax.errors import Problem, Refusals

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
        comparison = Comparison(self.modular, given, self.old_tree, self.new_tree)
        found = [comparison.case_of(change) for change in changes]
        found += [comparison.added_to(change) for change in whole_classes(changes)]
        cases = [case for case in found if case is not None]
        comparison.keep_undisturbed(cases)
        return self._settle(cases, given)

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

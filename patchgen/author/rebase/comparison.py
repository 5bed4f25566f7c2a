"""The state of each declared change: what three versions of its member say.

The parent's member on the old release is the base.  Theirs is that on the new release, and ours is
what the declaration makes of the base.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen.author.align.file import File, Member
from patchgen.author.rebase.callers import only_declaration_calls
from patchgen.author.rebase.cases import CLASS, Case, Result
from patchgen.author.rebase.declared import Declared
from patchgen.author.rebase.naming import changed_member, in_names_of
from patchgen.author.rebase.proof import Given
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import member_of, source_of
from patchgen.author.rebase.sides import Clash
from patchgen.author.rebase.state import Outcome, State, Version, compare
from patchgen.author.rebase.surroundings import changed_surroundings
from patchgen.syntax.same import plain_text


@dataclass(frozen=True)
class Comparison:
    """A modular file between two releases; `given` is what it gives on the old one."""

    modular: File
    given: Given
    old_tree: Tree
    new_tree: Tree

    def case_of(self, change: Declared) -> Case | None:
        """A change with its state by the three versions; None for what the parent does not have."""
        output = self.given.file_of(change.module)
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

    def added_to(self, change: Declared) -> Case | None:
        """What upstream added to a class that the declaration writes out; None for nothing."""
        before = self.old_tree.definition(change.module, change.parent)
        after = self.new_tree.definition(change.module, change.parent)
        if before is None or after is None or "class" not in (before[1].kind, after[1].kind):
            return None
        new = [name for name in after[1].members if name not in before[1].members]
        if not new:
            return None
        node = self.modular.definitions[change.owner].node
        assert isinstance(node, ast.ClassDef)
        head = replace(change, member=CLASS, kind="attribute", nodes=(node,))
        clash = Clash(f"upstream added {', '.join(new)}, which the class written out lacks")
        return Case(head, Result(head, State.STALE, (clash,)))

    def keep_undisturbed(self, cases: list[Case]) -> None:
        """Leave overrides as they are that upstream does without, and the declaration does not."""
        trees = self.old_tree, self.new_tree
        outputs = [self.given.file_of(case.change.module) for case in cases]
        kept = [
            case
            for case, output in zip(cases, outputs, strict=True)
            if case.result.is_open and output and only_declaration_calls(case, cases, output, trees)
        ]
        for case in kept:
            case.result = replace(case.result, state=State.KEPT, clashes=())
            if case.change.kind == "edit":
                self._want_as_before(case)

    def _want_as_before(self, case: Case) -> None:
        """Have an edit give what it gives on the old release."""
        change = case.change
        output = self.given.file_of(change.module)
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

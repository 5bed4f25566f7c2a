"""Make the edits of a chain: find `with old:` in parents' methods, write `with new:` there.

In: the classes of the chain.  Out: the same classes, with the edited methods in the place of the
parents' own and without the declarations.  An edited method keeps its signature, its decorators and
its place for `super()`.

    class Child(Parent):                class Parent:
        @edit("forward")                    def forward(self, x):
        def scale(self, x):                     return self.act(x * 2)
            with old: self.act(x)
            with new: self.act(x * 2)
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import Fragment, find_syntax_error
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.edits.declared import EditDeclaration, read_edit
from patchgen.compiler.edits.meaning import require_meanings
from patchgen.compiler.edits.nearmiss import describe_nearest_miss
from patchgen.compiler.edits.pattern import Match, Run, find, is_ellipsis
from patchgen.compiler.edits.replacement import Replacement, replace_matches, shares_lines, spread
from patchgen.compiler.plan.model import EditMatch, Lines, RewrittenBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.same import Function, is_same_code
from patchgen.syntax.trees import walk


@dataclass(frozen=True, slots=True)
class Edited:
    """The chain after its edits; `methods` are the names of the edited ones."""

    bodies: tuple[ClassBody, ...]
    methods: frozenset[str]
    matches: tuple[EditMatch, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The method that is edited, of the class `owner`."""

    owner: ClassBody
    statement: Statement
    node: Function

    @property
    def name(self) -> str:
        return f"{self.owner.own_name}.{self.node.name}"

    def lines(self, match: Match) -> Lines:
        """The lines of the parent's file that `match` stands on.

        In a changed text, only the line of the whole method is known.
        """
        here, block = self.statement, self.owner.block
        if here.changed:
            return _lines_of(block, here.line, here.line)
        start, end = match.nodes[0], match.nodes[-1]
        first = first_line(start) if isinstance(start, ast.stmt) else start.lineno
        above = here.line - 1
        return _lines_of(block, above + first, above + (end.end_lineno or end.lineno))


def apply_edits(bodies: tuple[ClassBody, ...]) -> Edited:
    """Make every edit, from the last class of the chain to the first."""
    done = list(bodies)
    methods: set[str] = set()
    matches: list[EditMatch] = []
    problems: list[Problem] = []
    # A child's edits apply to what the edits of its parents have made.
    for place in reversed(range(len(bodies))):
        edits: dict[str, list[EditDeclaration]] = {}
        others: list[Statement] = []
        try:
            for statement in done[place].statements:
                edit = read_edit(done[place], statement)
                if edit is None:
                    others.append(statement)
                else:
                    edits.setdefault(edit.method, []).append(edit)
        except PatchgenError as error:
            problems.append(error.problem)
            continue
        done[place] = replace(done[place], statements=tuple(others))
        for method, of_method in edits.items():
            try:
                matches += _make(done, place, of_method)
                methods.add(method)
            # Go on, so that one run reports every edit that fails.
            except PatchgenError as error:
                problems.append(error.problem)
    return Edited(tuple(done), frozenset(methods), tuple(matches), tuple(problems))


def _make(bodies: list[ClassBody], place: int, edits: Sequence[EditDeclaration]) -> list[EditMatch]:
    """Make the edits that one class declares for one method, all against the same text."""
    for statement in bodies[place].binders(edits[0].method):
        line = bodies[place].at(statement).line
        what = f"{edits[0].method} is edited here and overridden on line {line}"
        raise PatchgenError("PG303", edits[0].at(edits[0].node), what, "keep one of them")
    owner, target = _find_target(bodies, place, edits[0])
    names = names_in([target.node])
    for edit in edits:
        _refuse_unknown_names(edit, names)
        # An edit may read what the edits above it bind.
        names |= frozenset(bound_names(edit.new.body))
    try:
        text, matches = _edit_method(edits, target)
    except RecursionError as error:
        what = f"{target.name} is nested too deeply to be edited"
        raise PatchgenError("PG308", edits[0].at(edits[0].node), what, "override it") from error
    edited = target.statement.with_text(text)
    statements = bodies[owner].statements
    bodies[owner] = replace(
        bodies[owner], statements=tuple(edited if s.key == edited.key else s for s in statements)
    )
    return matches


def _find_target(
    bodies: Sequence[ClassBody], place: int, edit: EditDeclaration
) -> tuple[int, Target]:
    """The place of the class that has the edited method, and the method."""
    at = edit.at(edit.target)
    names: set[str] = set()
    for owner in range(place + 1, len(bodies)):
        names |= bodies[owner].names
        binders = bodies[owner].binders(edit.method)
        if not binders:
            continue
        statement, node = binders[0], binders[0].node
        # A property and its setter are two methods of one name.
        if len(binders) == 1 and isinstance(node, Function) and not statement.removes:
            return owner, Target(bodies[owner], statement, node)
        what = f"{edit.method} of {bodies[owner].own_name} is not one method"
        raise PatchgenError("PG304", at, what, "override it")
    what = f"no class that {bodies[place].own_name} is merged with has a method {edit.method}"
    inherited = "name a method of a parent; one that the parent inherits is edited in its own class"
    hint = did_you_mean(edit.method, names) or inherited
    raise PatchgenError("PG304", at, what, hint)


def _refuse_unknown_names(edit: EditDeclaration, names: frozenset[str]) -> None:
    """Raise PG305 for a parameter of an edit that is no name of the method."""
    for argument in edit.literal:
        if argument.arg not in names:
            what = f"{edit.method} has no name {argument.arg}"
            hint = did_you_mean(argument.arg, names)
            hint = hint or "annotate it with Hole if it stands for an expression"
            raise PatchgenError("PG305", edit.at(argument), what, hint)


def _edit_method(edits: Sequence[EditDeclaration], target: Target) -> tuple[str, list[EditMatch]]:
    """The text of the method after `edits`, and what each of them matched."""
    first, method = edits[0], target.statement.fragment
    made = [(edit, _find_replacements(edit, target, method)) for edit in edits]
    _refuse_overlaps(method, [(edit, change) for edit, changes in made for change in changes])
    matches = [_record_match(edit, changes, target) for edit, changes in made]
    runs = [run for _, changes in made for change in changes for run in _runs_of(change.match)]
    shared = [run for run in runs if shares_lines(method, run)]
    if shared:
        method = spread(method, shared)
        made = [(edit, _find_replacements(edit, target, method)) for edit in edits]
    replaced = replace_matches(method, [change for _, changes in made for change in changes])
    # Some expressions cannot be written at some places, such as quotes inside an f-string.
    if replaced is None:
        what = f"the edit of {first.method} cannot be written into {target.name}"
        raise PatchgenError("PG306", first.at(first.node), what, "match the whole statement")
    node = method.nodes[0]
    assert isinstance(node, Function)
    require_meanings(target.name, node, edits, replaced)
    reason = find_syntax_error(replaced.text)
    if reason is not None:
        what = f"{target.name} would not be valid Python after the edit of {first.method}: {reason}"
        hint = "write under `with new:` only what can stand at that place of the method"
        raise PatchgenError("PG306", first.at(first.new), what, hint)
    # An edit without effect is a mistake of its author.
    if is_same_code(replaced.tree, target.node):
        what = f"the edit of {first.method} changes nothing"
        raise PatchgenError("PG306", first.at(first.node), what, "remove it")
    return replaced.text, matches


def _runs_of(match: Match) -> list[Run]:
    """The statements that a match takes from the method."""
    return [run for run in (match.place, match.bound.run) if isinstance(run, Run)]


def _record_match(
    edit: EditDeclaration, changes: Sequence[Replacement], target: Target
) -> EditMatch:
    """What an edit matched, in lines of the files."""
    # `line` is that of the statement's first line, from which `ast` counts too.
    above, block = edit.statement.line - 1, edit.body.block
    new = edit.new.body
    last = edit.node.end_lineno or edit.node.lineno
    return EditMatch(
        name=edit.node.name,
        method=target.name,
        declared=_lines_of(block, above + 1, above + last),
        new=_lines_of(block, above + new[0].lineno, above + (new[-1].end_lineno or new[-1].lineno)),
        found=tuple(target.lines(change.match) for change in changes),
        known=not target.statement.changed,
    )


def _lines_of(block: RewrittenBlock, first: int, last: int) -> Lines:
    """Lines of `block`, counted from 1, as lines of its file."""
    start, end = block.at(first, 0), block.at(last, 0)
    return Lines(start.path, start.line, end.line)


def _find_replacements(
    edit: EditDeclaration, target: Target, method: Fragment
) -> list[Replacement]:
    """What an edit changes in `method`, which is the target or another layout of it."""
    code = edit.statement.fragment
    matches = _find_matches(edit, target, method.nodes[0])
    changes = [Replacement(match, code, edit.new) for match in matches]
    calls = [node for node in walk(edit.new) if isinstance(node, ast.Call)]
    for change in changes:
        rest = change.match.bound.rest
        matched = rest.arguments if rest else ()
        for call in (call for call in calls if any(map(is_ellipsis, call.args))):
            words = {keyword.arg for keyword in call.keywords} - {None}
            for name in (a.arg for a in matched if isinstance(a, ast.keyword)):
                if name in words:
                    what = f"`...` under `with new:` stands for {name}=, which is also written"
                    hint = f"write {name}= under `with old:` as well"
                    raise PatchgenError("PG307", edit.at(edit.new), what, hint)
        # A statement cannot stand inside an expression.
        if not isinstance(change.match.place, Run) and change.expression is None:
            what = "`with old:` matches a part of a statement, which only an expression can replace"
            hint = "write one expression under `with new:`"
            raise PatchgenError("PG305", edit.at(edit.new), what, hint)
    return changes


def _find_matches(edit: EditDeclaration, target: Target, method: ast.stmt) -> list[Match]:
    """The matches of an edit, which have to be as many as it says, in the order of the text."""
    matches = find(edit.old.body, method, edit.holes)
    if len(matches) == edit.count:
        return matches
    at = edit.at(edit.old)
    if matches:
        lines = ", ".join(str(target.lines(match).first) for match in matches)
        what = (
            f"`with old:` matches {len(matches)} times in {target.name}, "
            f"not {edit.count}: lines {lines}"
        )
        raise PatchgenError("PG301", at, what, f"make it longer, or write count={len(matches)}")
    what = f"`with old:` does not occur in {target.name}"
    hint = describe_nearest_miss(edit.old.body, target.statement, target.owner)
    raise PatchgenError("PG301", at, what, hint)


def _refuse_overlaps(
    method: Fragment, changes: Sequence[tuple[EditDeclaration, Replacement]]
) -> None:
    """Raise PG303 where two replacements concern the same code."""
    spans: list[tuple[int, int, EditDeclaration]] = []
    for edit, change in changes:
        nodes = change.match.nodes
        spans.append((method.span(nodes[0])[0], method.span(nodes[-1])[1], edit))
    spans.sort(key=lambda span: (span[0], -span[1]))
    for (_, end, edit), (start, _, other) in itertools.pairwise(spans):
        if start >= end:
            continue
        if edit is other:
            what = f"the places that {edit.node.name} matches overlap"
            raise PatchgenError("PG303", other.at(other.node), what, "match more")
        what = f"the edit {other.node.name} changes what {edit.node.name} changes"
        raise PatchgenError("PG303", other.at(other.node), what, "make one edit of both")

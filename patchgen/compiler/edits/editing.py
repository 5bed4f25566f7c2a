"""Make the edits that one class declares for one method in the method's text.

In: the method's statement, and the edits.  Out: the text.  Everything that needs libcst is reached
through this module.

    with old:                       def forward(self, x):           def forward(self, x):
        self.act(x)                     return self.act(x)              return self.act(x * 2)
    with new:
        self.act(x * 2)
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import libcst as cst

from patchgen.compiler.edits.capture import Check, EditNames
from patchgen.compiler.edits.declared import EditDeclaration
from patchgen.compiler.edits.ellipsis_arguments import find_repeated
from patchgen.compiler.edits.nearmiss import describe_nearest_miss
from patchgen.compiler.edits.numbered import make_numbers, number_names, read_names, read_numbered
from patchgen.compiler.edits.pattern import Match, Run, find_expressions, find_statements, suites
from patchgen.compiler.edits.replacement import Replacement, replace_matches
from patchgen.compiler.edits.syntax import is_ellipsis, statements
from patchgen.compiler.edits.tree import Tree, read_tree, walk
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.merge.text import find_syntax_error, parse_fragment
from patchgen.compiler.plan.model import EditMatch, Lines, RewrittenBlock
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.same import is_same_code


@dataclass(frozen=True, slots=True)
class Target:
    """The method that is edited, of the class `owner`."""

    owner: ClassBody
    statement: Statement
    tree: Tree

    @property
    def name(self) -> str:
        # Not from `tree`, whose names may have got numbers.
        node = self.statement.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        return f"{self.owner.own_name}.{node.name}"

    def line(self, match: Match) -> int:
        """The line of the parent's file that `match` begins on, if it is known.

        In a changed text, only the line of the whole method is known.
        """
        here = self.statement
        line = here.line if here.changed else here.line + self.tree.line(match.nodes[0]) - 1
        return self.owner.block.at(line, 0).line

    def lines(self, matches: Sequence[Match]) -> list[Lines]:
        """The lines of the parent's file that each of `matches` stands on, as far as known."""
        here, block = self.statement, self.owner.block
        if here.changed:
            return [_lines_of(block, here.line, here.line) for _ in matches]
        spans = self.tree.lines([match.nodes for match in matches])
        above = here.line - 1
        return [_lines_of(block, above + first, above + last) for first, last in spans]


@dataclass(frozen=True, slots=True)
class EditedMethod:
    """The text of a method after its edits, and what each of them matched, on demand."""

    text: str
    matches: tuple[Callable[[], EditMatch], ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """One edit with the tree of its declaration, and what it changes in the method."""

    edit: EditDeclaration
    tree: Tree
    changes: tuple[Replacement, ...]


def edit_method(
    body: ClassBody, edits: Sequence[EditDeclaration], owner: ClassBody, method: Statement
) -> EditedMethod:
    """`method` of the class `owner` after the `edits` that `body` declares.

    All of them are matched against the same text.
    """
    # The place of errors about all of them.
    first = edits[0]
    at = body.at(first.statement, first.node)
    target = Target(owner, method, read_tree(method.text, at))
    made = [_make(body, edit, target) for edit in edits]
    changes = [(one.edit, change) for one in made for change in one.changes]
    _refuse_overlaps(body, target.tree, changes)
    text = _write(body, made, target)
    # Some expressions cannot be written at some places, such as quotes inside an f-string.
    if text is None:
        what = f"the edit of {first.method} cannot be written into {target.name}"
        raise PatchgenError("PG306", at, what, "match the whole statement")
    reason = find_syntax_error(text)
    if reason is not None:
        what = f"{target.name} would not be valid Python after the edit of {first.method}: {reason}"
        hint = "write under `with new:` only what can stand at that place of the method"
        raise PatchgenError("PG306", body.at(first.statement, first.new), what, hint)
    # An edit without effect is a mistake of its author.
    if is_same_code(parse_fragment(text).nodes[0], method.node):
        raise PatchgenError("PG306", at, f"the edit of {first.method} changes nothing", "remove it")
    matches = [functools.partial(_record_match, body, one, target) for one in made]
    return EditedMethod(text, tuple(matches))


def _record_match(body: ClassBody, made: _Made, target: Target) -> EditMatch:
    """What an edit matched, in lines of the files."""
    edit = made.edit
    # `line` is that of the statement's first line, from which `ast` counts too.
    above = edit.statement.line - 1
    last = edit.node.end_lineno or edit.node.lineno
    new = edit.new.body
    return EditMatch(
        name=edit.node.name,
        method=target.name,
        declared=_lines_of(body.block, above + 1, above + last),
        new=_lines_of(
            body.block, above + new[0].lineno, above + (new[-1].end_lineno or new[-1].lineno)
        ),
        found=tuple(target.lines([change.match for change in made.changes])),
        known=not target.statement.changed,
    )


def _lines_of(block: RewrittenBlock, first: int, last: int) -> Lines:
    """Lines of `block`, counted from 1, as lines of its file."""
    start, end = block.at(first, 0), block.at(last, 0)
    return Lines(start.path, start.line, end.line)


def _write(body: ClassBody, made: Sequence[_Made], target: Target) -> str | None:
    """The text after the changes, in which every name means what it meant.

    None where no text reads as the changed tree.
    """
    numbers = make_numbers([target.statement.text, *(one.edit.statement.text for one in made)])
    plain = number_names(
        [(target.tree, ()), *((one.tree, one.edit.holes) for one in made)], numbers
    )
    text = replace_matches(target.tree, [change for one in made for change in one.changes])
    # Only a text can be compared name by name.
    if text is None:
        return None
    before = read_numbered(target.tree.text, plain)
    edits = [EditNames(one.edit, read_numbered(one.tree.text, plain)) for one in made]
    Check(target.name, before, edits, read_names(text, plain)).require_meanings(body)
    return numbers.remove(text)


def _make(body: ClassBody, edit: EditDeclaration, target: Target) -> _Made:
    # The declaration is read as the method is, so that both compare.
    tree = read_tree(edit.statement.text, body.at(edit.statement, edit.node))
    return _Made(edit, tree, tuple(_find_replacements(body, edit, tree, target)))


def _find_replacements(
    body: ClassBody, edit: EditDeclaration, tree: Tree, target: Target
) -> list[Replacement]:
    """What an edit changes: one replacement for each place that it matches."""
    body_of_edit = statements(tree.function.body)
    # `while ...:` stands for any loop around the place.
    if isinstance(body_of_edit[-1], cst.While):
        body_of_edit = statements(body_of_edit[-1].body)
    old, new = body_of_edit[-2:]
    assert isinstance(old, cst.With) and isinstance(new, cst.With)
    changes = [
        Replacement(match, new.body) for match in _find_matches(body, edit, old.body, target)
    ]
    for change in changes:
        _refuse_repeated(body.at(edit.statement, edit.new), change)
        # A statement cannot stand inside an expression.
        if not isinstance(change.match.place, Run) and change.expression is None:
            what = "`with old:` matches a part of a statement, which only an expression can replace"
            place = body.at(edit.statement, edit.new)
            raise PatchgenError("PG305", place, what, "write one expression under `with new:`")
    return changes


def _find_matches(
    body: ClassBody, edit: EditDeclaration, pattern: cst.BaseSuite, target: Target
) -> list[Match]:
    """The matches of an edit, which have to be as many as it says."""
    method = target.tree
    match statements(pattern):
        case (cst.Expr(value=expression) as only,) if not is_ellipsis(only):
            matches = find_expressions(expression, method, edit.holes)
            found = [_widen_to_statement(match, method) for match in matches]
        case _:
            found = list(find_statements(pattern, method, edit.holes))
    if len(found) == edit.count:
        return found
    at = body.at(edit.statement, edit.old)
    if found:
        found.sort(key=lambda match: target.tree.span(match.nodes))
        lines = ", ".join(str(target.line(match)) for match in found)
        what = (
            f"`with old:` matches {len(found)} times in {target.name}, "
            f"not {edit.count}: lines {lines}"
        )
        raise PatchgenError("PG301", at, what, f"make it longer, or write count={len(found)}")
    what = f"`with old:` does not occur in {target.name}"
    hint = describe_nearest_miss(edit.old.body, edit.holes, target.statement, target.owner)
    raise PatchgenError("PG301", at, what, hint)


def _widen_to_statement(match: Match, method: Tree) -> Match:
    """`match`, or the match of the statement that consists of the matched expression."""
    for suite in suites(method):
        for place, node in enumerate(statements(suite)):
            if isinstance(node, cst.Expr) and node.value is match.place:
                return Match(Run(suite, place, place + 1), match.bound)
    return match


def _refuse_repeated(at: Location, change: Replacement) -> None:
    """Refuse a keyword that new code gives, and that its `...` stands for as well."""
    rest = change.match.bound.rest
    if not rest:
        return
    for node in walk(change.new):
        if not isinstance(node, cst.Call) or not any(map(is_ellipsis, node.args)):
            continue
        for name in find_repeated(node, rest.arguments):
            what = f"`...` under `with new:` stands for {name}= among others, which is also given"
            raise PatchgenError("PG307", at, what, f"write {name}= under `with old:` as well")


def _refuse_overlaps(
    body: ClassBody, tree: Tree, found: Sequence[tuple[EditDeclaration, Replacement]]
) -> None:
    """Raise PG303 where two replacements concern the same code."""
    spans = [(*tree.span(change.match.nodes), edit) for edit, change in found]
    spans.sort(key=lambda span: span[:2])
    for (_, end, one), (start, _, other) in itertools.pairwise(spans):
        if start > end:
            continue
        at = body.at(other.statement, other.node)
        if one is other:
            what = f"the places that {one.node.name} matches overlap"
            raise PatchgenError("PG303", at, what, "match more")
        what = f"the edit {other.node.name} changes what {one.node.name} changes"
        raise PatchgenError("PG303", at, what, "make one edit of both")

"""The edits of a chain made in the parents' methods: `with old:` found, `with new:` put in its place.

In: the classes of the chain.  Out: the same classes, with the edited methods in the place of the parents' own and the
declarations gone.  An edited method keeps its signature, its decorators and its place for `super()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen.rewrite.apart import names_in
from patchgen.rewrite.classbody import ClassBody
from patchgen.rewrite.declared import EditDeclaration, read_edit
from patchgen.rewrite.fragment import Fragment, fragment, same_code
from patchgen.rewrite.nearmiss import nearest_miss
from patchgen.rewrite.pattern import Match, find_expressions, find_statements, is_dots
from patchgen.rewrite.replacement import Replacement, replaced
from patchgen.rewrite.statement import Statement
from patchgen.rewrite.suite import colon_after, suites


@dataclass(frozen=True, slots=True)
class Edited:
    """The chain after its edits; `methods` are the names of the edited ones."""

    bodies: tuple[ClassBody, ...]
    methods: frozenset[str]
    problems: tuple[Problem, ...]


def apply_edits(bodies: tuple[ClassBody, ...]) -> Edited:
    """Make every edit, from the last class of the chain to the first."""
    done = list(bodies)
    methods: set[str] = set()
    problems: list[Problem] = []
    for place in reversed(range(len(bodies))):
        body = done[place]
        try:
            edits = [read for s in body.statements if (read := read_edit(body, s)) is not None]
        except PatchgenError as error:
            problems.append(error.problem)
            continue
        keys = {edit.statement.key for edit in edits}
        done[place] = replace(body, statements=tuple(s for s in body.statements if s.key not in keys))
        for method in dict.fromkeys(edit.method for edit in edits):
            try:
                _make(done, place, [edit for edit in edits if edit.method == method])
                methods.add(method)
            except PatchgenError as error:
                problems.append(error.problem)
    return Edited(tuple(done), frozenset(methods), tuple(problems))


def _make(bodies: list[ClassBody], place: int, edits: Sequence[EditDeclaration]) -> None:
    """Make the edits that one class declares for one method, all against the same text."""
    body, first = bodies[place], edits[0]
    _refuse_override(body, edits)
    owner, target = _find(bodies, place, first)
    code = target.fragment
    method = target.node
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    found: list[tuple[EditDeclaration, Match]] = []
    for edit in edits:
        _refuse_unknown_names(body, edit, method)
        found += [(edit, match) for match in _matches(bodies, place, owner, target, edit)]
    _refuse_overlaps(body, code, found)
    changes = [_replacement(body, edit, match) for edit, match in found]
    text = replaced(target, changes)
    at = body.at(first.statement, first.node)
    if text is None:
        what = f"the edit of {first.method} cannot be written into {bodies[owner].own_name}.{first.method}"
        raise PatchgenError("PG306", at, what, "match the whole statement, on lines of its own")
    if same_code(fragment(text).nodes[0], target.node):
        raise PatchgenError("PG306", at, f"the edit of {first.method} changes nothing", "remove it")
    statements = tuple(target.with_text(text) if s.key == target.key else s for s in bodies[owner].statements)
    bodies[owner] = replace(bodies[owner], statements=statements)


def _refuse_override(body: ClassBody, edits: Sequence[EditDeclaration]) -> None:
    for statement in body.binders(edits[0].method):
        at = body.at(edits[0].statement, edits[0].node)
        what = f"{edits[0].method} is edited here and overridden on line {body.at(statement).line}"
        raise PatchgenError("PG303", at, what, "keep one of them")


def _find(bodies: Sequence[ClassBody], place: int, edit: EditDeclaration) -> tuple[int, Statement]:
    for owner in range(place + 1, len(bodies)):
        binders = bodies[owner].binders(edit.method)
        plain = len(binders) == 1 and isinstance(binders[0].node, ast.FunctionDef | ast.AsyncFunctionDef)
        if plain and not binders[0].removes:
            return owner, binders[0]
        if binders:
            at = bodies[place].at(edit.statement, edit.target)
            what = f"{edit.method} of {bodies[owner].own_name} is not one method"
            raise PatchgenError("PG304", at, what, "override it")
    known = [name for body in bodies[place + 1 :] for name in body.names]
    what = f"no class that {bodies[place].own_name} is merged with has a method {edit.method}"
    at = bodies[place].at(edit.statement, edit.target)
    raise PatchgenError("PG304", at, what, did_you_mean(edit.method, known) or "name a method of a parent")


def _refuse_unknown_names(
    body: ClassBody, edit: EditDeclaration, method: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    known = names_in([method])
    for argument in edit.literal:
        if argument.arg not in known:
            what = f"{edit.method} has no name {argument.arg}"
            hint = did_you_mean(argument.arg, known) or "annotate it with Hole if it stands for an expression"
            raise PatchgenError("PG305", body.at(edit.statement, argument), what, hint)


def _matches(
    bodies: Sequence[ClassBody], place: int, owner: int, target: Statement, edit: EditDeclaration
) -> list[Match]:
    method, pattern = target.node, edit.old.body
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    match pattern:
        case [ast.Expr(value=expression)] if not is_dots(expression):
            found = list(find_expressions(expression, method.body, edit.holes))
            found = [_whole_statement(match, method) or match for match in found]
            _refuse_statements(bodies[place], edit, found)
        case _:
            found = list(find_statements(pattern, method, edit.holes))
    if len(found) == edit.count:
        return found
    at = bodies[place].at(edit.statement, edit.old)
    where = f"{bodies[owner].own_name}.{edit.method}"
    if found:
        lines = ", ".join(str(line) for line in _lines(bodies[owner], target, found))
        what = f"`with old:` matches {len(found)} times in {where}, not {edit.count}: lines {lines}"
        raise PatchgenError("PG301", at, what, f"make it longer, or write count={len(found)}")
    what = f"`with old:` does not occur in {where}"
    raise PatchgenError("PG301", at, what, nearest_miss(pattern, target, bodies[owner], edit.holes))


def _whole_statement(match: Match, method: ast.AST) -> Match | None:
    """The match of the statement that consists of the matched expression, if there is one."""
    for suite in suites(method):
        for place, node in enumerate(suite):
            if isinstance(node, ast.Expr) and node.value is match.node:
                return Match(match.holes, tuple(suite), place, place + 1)
    return None


def _refuse_statements(body: ClassBody, edit: EditDeclaration, found: Sequence[Match]) -> None:
    is_expression = len(edit.new.body) == 1 and isinstance(edit.new.body[0], ast.Expr)
    if not is_expression and any(match.node for match in found):
        what = "`with old:` matches a part of a statement, which only an expression can replace"
        raise PatchgenError("PG305", body.at(edit.statement, edit.new), what, "write one expression under `with new:`")


def _lines(body: ClassBody, target: Statement, found: Sequence[Match]) -> Iterator[int]:
    for match in found:
        yield body.at(target, match.nodes[0]).line


def _refuse_overlaps(body: ClassBody, code: Fragment, found: Sequence[tuple[EditDeclaration, Match]]) -> None:
    spans = sorted(
        (code.span(match.nodes[0])[0], code.span(match.nodes[-1])[1], edit.statement.line, edit)
        for edit, match in found
        if match.nodes
    )
    for (_, end, _, one), (start, _, _, other) in zip(spans, spans[1:], strict=False):
        if start < end:
            at: Location = body.at(other.statement, other.node)
            what = f"the edit {other.node.name} changes what {one.node.name} changes"
            if one is other:
                what = f"the places that {one.node.name} matches overlap"
            raise PatchgenError("PG303", at, what, "make one edit of both" if one is not other else "match more")


def _replacement(body: ClassBody, edit: EditDeclaration, match: Match) -> Replacement:
    code = edit.statement.fragment
    for node in _repeats(edit.new.body):
        what = "`...` under `with new:` stands for nothing"
        hint = "give what it should repeat a name that is annotated with Hole"
        raise PatchgenError("PG305", body.at(edit.statement, node), what, hint)
    above = colon_after(code, edit.new.lineno, code.column(edit.new.lineno, edit.new.col_offset))[0]
    return Replacement(match, tuple(edit.new.body), code, above)


def _repeats(new: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Each `...` that is a statement or an argument."""
    for node in (n for statement in new for n in ast.walk(statement)):
        arguments = node.args if isinstance(node, ast.Call) else [node.value] if isinstance(node, ast.Expr) else []
        yield from (argument for argument in arguments if is_dots(argument))

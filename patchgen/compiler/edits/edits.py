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
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchgen.compiler.edits.declared import EditDeclaration, read_edit
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.plan.model import EditMatch
from patchgen.syntax.bound import names_in
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.kept import recall

if TYPE_CHECKING:
    from patchgen.compiler.edits.editing import EditedMethod


@dataclass(frozen=True, slots=True)
class Edited:
    """The chain after its edits; `methods` are the names of the edited ones.

    `matches` say on demand what each edit matched, as few runs ask for it.
    """

    bodies: tuple[ClassBody, ...]
    methods: frozenset[str]
    matches: tuple[Callable[[], EditMatch], ...]
    problems: tuple[Problem, ...]


def apply_edits(bodies: tuple[ClassBody, ...]) -> Edited:
    """Make every edit, from the last class of the chain to the first."""
    done = list(bodies)
    methods: set[str] = set()
    matches: list[Callable[[], EditMatch]] = []
    problems: list[Problem] = []
    # A child's edits apply to what the edits of its parents have made.
    for place in reversed(range(len(bodies))):
        try:
            edits = _take_edits(done, place)
        except PatchgenError as error:
            problems.append(error.problem)
            continue
        for method, of_method in edits.items():
            try:
                matches += _make(done, place, of_method)
                methods.add(method)
            # Go on, so that one run reports every edit that fails.
            except PatchgenError as error:
                problems.append(error.problem)
    return Edited(tuple(done), frozenset(methods), tuple(matches), tuple(problems))


def _take_edits(bodies: list[ClassBody], place: int) -> dict[str, list[EditDeclaration]]:
    """Take the edits out of the class at `place`; the edits of each method, in their order."""
    found: dict[str, list[EditDeclaration]] = {}
    kept: list[Statement] = []
    for statement in bodies[place].statements:
        edit = read_edit(bodies[place], statement)
        if edit is None:
            kept.append(statement)
        else:
            found.setdefault(edit.method, []).append(edit)
    bodies[place] = replace(bodies[place], statements=tuple(kept))
    return found


def _make(
    bodies: list[ClassBody], place: int, edits: Sequence[EditDeclaration]
) -> tuple[Callable[[], EditMatch], ...]:
    """Make the edits that one class declares for one method, all against the same text."""
    body, first = bodies[place], edits[0]
    _refuse_override(body, edits)
    owner, target = _find(bodies, place, first)
    method = target.node
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    # Before libcst is loaded: most mistakes are misspelt names.
    for edit in edits:
        _refuse_unknown_names(body, edit, method)
    source = bodies[owner]
    # The texts say what becomes of the method; everything else only says where an error is.
    declared = tuple((edit.statement.text, edit.count, edit.holes) for edit in edits)
    kept, made = recall("edit", target.text, declared), _made_in_run(target.text, declared)
    text: str | None = made[0] if made else kept.answer
    if text is None:
        result = _edit(body, edits, source, target)
        text, matches = result.text, result.matches
    else:
        match = functools.partial(_match, body, edits, source, target)
        matches = tuple(functools.partial(match, number) for number in range(len(edits)))
    kept.keep(text)
    made[:] = [text]
    edited = target.with_text(text)
    statements = [edited if s.key == target.key else s for s in source.statements]
    bodies[owner] = replace(source, statements=tuple(statements))
    return matches


@functools.lru_cache(maxsize=256)  # Two variants of one parent often edit a method alike.
def _made_in_run(method: str, declared: tuple[tuple[str, int, tuple[str, ...]], ...]) -> list[str]:
    """The place for the text of `method` after the edits `declared`; empty until they are made."""
    return []


def _edit(
    body: ClassBody, edits: Sequence[EditDeclaration], owner: ClassBody, method: Statement
) -> EditedMethod:
    """The text of `method` after `edits`, and what they matched."""
    # libcst is loaded only where there is an edit that was not made before.
    from patchgen.compiler.edits.editing import edit_method

    return edit_method(body, edits, owner, method)


def _match(
    body: ClassBody,
    edits: Sequence[EditDeclaration],
    owner: ClassBody,
    method: Statement,
    number: int,
) -> EditMatch:
    """What one of the edits matches, for which the method is edited again."""
    return _edit(body, edits, owner, method).matches[number]()


def _refuse_override(body: ClassBody, edits: Sequence[EditDeclaration]) -> None:
    """Raise PG303 where the class defines the method that it edits."""
    for statement in body.binders(edits[0].method):
        at = body.at(edits[0].statement, edits[0].node)
        what = f"{edits[0].method} is edited here and overridden on line {body.at(statement).line}"
        raise PatchgenError("PG303", at, what, "keep one of them")


def _find(bodies: Sequence[ClassBody], place: int, edit: EditDeclaration) -> tuple[int, Statement]:
    """The place of the class that has the edited method, and the method."""
    at = bodies[place].at(edit.statement, edit.target)
    known: set[str] = set()
    for owner in range(place + 1, len(bodies)):
        known |= bodies[owner].names
        binders = bodies[owner].binders(edit.method)
        if not binders:
            continue
        method = binders[0]
        is_function = isinstance(method.node, ast.FunctionDef | ast.AsyncFunctionDef)
        # A property and its setter are two methods of one name.
        if len(binders) == 1 and is_function and not method.removes:
            return owner, method
        what = f"{edit.method} of {bodies[owner].own_name} is not one method"
        raise PatchgenError("PG304", at, what, "override it")
    what = f"no class that {bodies[place].own_name} is merged with has a method {edit.method}"
    inherited = "name a method of a parent; one that the parent inherits is edited in its own class"
    hint = did_you_mean(edit.method, known) or inherited
    raise PatchgenError("PG304", at, what, hint)


def _refuse_unknown_names(
    body: ClassBody, edit: EditDeclaration, method: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    """Raise PG305 for a parameter of an edit that is no name of the method."""
    known = names_in([method])
    for argument in edit.literal:
        if argument.arg not in known:
            what = f"{edit.method} has no name {argument.arg}"
            hint = did_you_mean(argument.arg, known)
            hint = hint or "annotate it with Hole if it stands for an expression"
            raise PatchgenError("PG305", body.at(edit.statement, argument), what, hint)

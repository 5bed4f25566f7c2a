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
import difflib
import functools
import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.edits.declared import EditDeclaration, Pair, read_edit
from patchgen.compiler.edits.meaning import require_meanings
from patchgen.compiler.edits.meant import Replacement
from patchgen.compiler.edits.pattern import (
    Match,
    Run,
    expressions,
    find,
    has_dots,
    is_ellipsis,
    suites,
)
from patchgen.compiler.edits.signature import (
    Changes,
    Parameter,
    find_place,
    is_by_name,
    read_parameters,
)
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.merge.text import INDENT
from patchgen.compiler.plan.model import EditMatch, Lines, RewrittenBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names, names_in, parameters
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.fragments import Fragment, find_syntax_error
from patchgen.syntax.kept import recall
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import Function, Positioned, list_parameters, names_within, walk

# How alike code has to be to be shown, and how much of it is.
_ENOUGH = 0.45
_MOST_LINES = 16
_MOST_COMPARED = 30


@dataclass(frozen=True, slots=True)
class Target:
    """The method that is edited, of the class `owner`."""

    owner: ClassBody
    statement: Statement
    node: Function

    @property
    def name(self) -> str:
        return f"{self.owner.own_name}.{self.node.name}"

    def lines(self, nodes: Sequence[Positioned]) -> Lines:
        """The parent's lines that `nodes` stand on; in a changed text, the line of the method."""
        here = self.statement
        block = self.owner.block
        if here.changed:
            return _lines_of(block, here.line, here.line)
        nodes = nodes or [self.node]
        start = nodes[0]
        end = nodes[-1]
        first = first_line(start) if isinstance(start, ast.stmt) else start.lineno
        last = end.end_lineno or end.lineno
        above = here.line - 1
        return _lines_of(block, above + first, above + last)


def apply_edits(
    bodies: Sequence[ClassBody],
) -> tuple[tuple[ClassBody, ...], set[str], list[EditMatch], list[Problem]]:
    """The chain after every edit, the edited methods, what the edits matched, and problems."""
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
    return tuple(done), methods, matches, problems


def _make(bodies: list[ClassBody], place: int, edits: Sequence[EditDeclaration]) -> list[EditMatch]:
    """Make the edits that one class declares for one method, all against the same text."""
    first = edits[0]
    body = bodies[place]
    at = first.at(first.node)
    for statement in body.binders(first.method):
        line = body.at(statement).line
        what = f"{first.method} is edited here and overridden on line {line}"
        raise PatchgenError("PG303", at, what, "keep one of them")
    owner, target = _find_target(bodies, place, first)
    names = names_in([target.node])
    for edit in edits:
        _refuse_unknown_names(edit, names, target.node)
        _refuse_attributes(edit, bodies)
        # An edit may read what the edits above it bind.
        for pair in edit.pairs:
            names = names.union(bound_names(pair.new.body))
        names |= {parameter.name for parameter in edit.added}
    try:
        text, matches = _edit_method(edits, target)
    except RecursionError as error:
        what = f"{target.name} is nested too deeply to be edited"
        raise PatchgenError("PG308", at, what, "override it") from error
    edited = target.statement.with_text(text)
    statements = bodies[owner].statements
    changed = tuple(edited if s.key == edited.key else s for s in statements)
    bodies[owner] = replace(bodies[owner], statements=changed)
    return matches


def _find_target(
    bodies: Sequence[ClassBody], place: int, edit: EditDeclaration
) -> tuple[int, Target]:
    at = edit.at(edit.target)
    names: set[str] = set()
    for owner in range(place + 1, len(bodies)):
        names |= bodies[owner].names
        binders = bodies[owner].binders(edit.method)
        if not binders:
            continue
        statement = binders[0]
        node = binders[0].node
        # A property and its setter are two methods of one name.
        if len(binders) == 1 and isinstance(node, Function) and not statement.removes:
            return owner, Target(bodies[owner], statement, node)
        what = f"{edit.method} of {bodies[owner].own_name} is not one method"
        raise PatchgenError("PG304", at, what, "override it")
    what = f"no class that {bodies[place].own_name} is merged with has a method {edit.method}"
    hint = "name a method of a parent; one that the parent inherits is edited in its own class"
    raise PatchgenError("PG304", at, what, did_you_mean(edit.method, names) or hint)


def _refuse_unknown_names(edit: EditDeclaration, names: frozenset[str], method: Function) -> None:
    known = parameters(method)
    for argument in (*edit.removed, *(parameter.arg for parameter in edit.changed)):
        if argument.arg not in known:
            what = f"{edit.method} has no parameter {argument.arg}"
            hint = did_you_mean(argument.arg, known) or "annotate it with New to add it"
            raise PatchgenError("PG305", edit.at(argument), what, hint)
    replaced: set[str] = set()
    for pair in edit.pairs:
        replaced.update(bound_names(pair.old.body))
    for parameter in edit.added:
        # `if x is None:` around the statement that assigns `x` makes a parameter of a variable.
        is_variable = parameter.name in replaced and parameter.name not in known
        if parameter.name in names and not is_variable:
            what = f"{edit.method} has a name {parameter.name} already"
            raise PatchgenError("PG305", edit.at(parameter.arg), what, "choose another name")
        _refuse_place(edit, parameter, method)
    for argument in edit.literal:
        if argument.arg not in names:
            what = f"{edit.method} has no name {argument.arg}"
            of_hole = "annotate it with Hole if it stands for an expression; where the method no "
            of_hole += "longer has it, leave it out"
            hint = did_you_mean(argument.arg, names) or of_hole
            raise PatchgenError("PG305", edit.at(argument), what, hint)


def _refuse_place(edit: EditDeclaration, added: Parameter, method: Function) -> None:
    """Raise PG305 for a parameter without a default behind one that has one, or in front of it."""
    if added.takes_rest and method.args.kwarg is not None:
        what = f"{edit.method} has **{method.args.kwarg.arg} already"
        hint = f"list {method.args.kwarg.arg} by its name alone to read it"
        raise PatchgenError("PG305", edit.at(added.arg), what, hint)
    if is_by_name(added, method.args):
        return
    removed = {argument.arg for argument in edit.removed}
    parameters = read_parameters(method.args, edit.statement.fragment)
    place = find_place(added, parameters)
    positional = [p for p in parameters if not p.by_name and p.name not in removed]
    above = [p for p in positional if p in parameters[:place] and p.default]
    below = [p for p in positional if p in parameters[place:] and not p.default]
    if added.default is None and above:
        what = f"{added.name} stands behind parameters with a default"
        hint = "give it a default, or write it behind `*`"
        raise PatchgenError("PG305", edit.at(added.arg), what, hint)
    if added.default is not None and below:
        what = f"{added.name} has a default, and stands before {below[0].name}, which has none"
        hint = f"list {below[0].name} before it, or write it behind `*`"
        raise PatchgenError("PG305", edit.at(added.arg), what, hint)


def _refuse_attributes(edit: EditDeclaration, bodies: Sequence[ClassBody]) -> None:
    """Raise PG309 for a name in the signature that the body of the flat class may bind.

    Defaults and annotations are evaluated there, and would read the attribute of a parent.
    """
    attributes = set[str]().union(*(body.names for body in bodies))
    for parameter in (*edit.added, *edit.changed):
        for node in (parameter.default, parameter.arg.annotation):
            if node is None:
                continue
            for name in names_within(node):
                if name.id in attributes:
                    what = f"{name.id} is a global here, but the class has an attribute {name.id}"
                    raise PatchgenError("PG309", edit.at(name), what, "use another name")


def _edit_method(edits: Sequence[EditDeclaration], target: Target) -> tuple[str, list[EditMatch]]:
    first = edits[0]
    method = target.statement.fragment
    every: list[tuple[EditDeclaration, Replacement]] = []
    matches: list[EditMatch] = []
    for edit in edits:
        changes = _find_replacements(edit, target, method)
        every += [(edit, change) for change in changes]
        matches.append(_record_match(edit, changes, target))
    _refuse_overlaps(method, every)
    signature = Changes()
    for edit in edits:
        for argument in (*edit.removed, *(parameter.arg for parameter in edit.changed)):
            if argument.arg in signature.removed | set(signature.changed):
                what = f"two edits change the parameter {argument.arg} of {target.name}"
                raise PatchgenError("PG303", edit.at(argument), what, "keep one of them")
        for parameter in edit.added:
            if parameter.takes_rest and any(other.takes_rest for other in signature.added):
                what = f"two edits add ** to {target.name}"
                raise PatchgenError("PG303", edit.at(parameter.arg), what, "keep one of them")
        signature.added.extend(edit.added)
        signature.removed.update(argument.arg for argument in edit.removed)
        signature.changed.update((parameter.name, parameter) for parameter in edit.changed)
    kept = recall("edit", method.text, [edit.meaning for edit in edits])
    if kept.answer is not None:
        return str(kept.answer), matches
    # libcst is loaded only where there is an edit that no earlier run has made.
    from patchgen.compiler.edits.rewriting import replace_matches

    at = first.at(first.node)
    replaced = replace_matches(method, [change for _, change in every], signature, at)
    # Some expressions cannot be written at some places, such as quotes inside an f-string.
    if replaced is None:
        what = f"the edit of {first.method} cannot be written into {target.name}"
        raise PatchgenError("PG306", at, what, "match the whole statement")
    node = method.nodes[0]
    assert isinstance(node, Function)
    require_meanings(target.name, node, edits, replaced)
    decorators: list[str] = []
    for edit in edits:
        decorators += map(edit.statement.fragment.source, edit.decorators)
    text = "".join(f"{INDENT}@{decorator}\n" for decorator in decorators) + replaced.text
    reason = find_syntax_error(text)
    if reason is not None:
        what = f"{target.name} would not be valid Python after the edit of {first.method}: {reason}"
        hint = "write under `with new:` only what can stand at that place of the method"
        raise PatchgenError("PG306", first.at(first.last), what, hint)
    # An edit without effect is a mistake of its author.
    if not decorators and is_same_code(replaced.tree, target.node):
        what = f"the edit of {first.method} changes nothing"
        raise PatchgenError("PG306", at, what, "remove it")
    kept.keep(text)
    return text, matches


def _record_match(
    edit: EditDeclaration, changes: Sequence[Replacement], target: Target
) -> EditMatch:
    # `line` is that of the statement's first line, from which `ast` counts too.
    above = edit.statement.line - 1
    block = edit.body.block
    bodies = [pair.new.body for pair in edit.pairs] or [[edit.node]]
    first = bodies[0][0].lineno
    end = bodies[-1][-1]
    last = edit.node.end_lineno or edit.node.lineno
    lines = tuple(target.lines(change.match.nodes) for change in changes)
    return EditMatch(
        name=edit.node.name,
        method=target.name,
        declared=_lines_of(block, above + 1, above + last),
        new=_lines_of(block, above + first, above + (end.end_lineno or end.lineno)),
        # The signature, where nothing else changes.
        found=lines or (target.lines(list_parameters(target.node.args)[:1]),),
        known=not target.statement.changed,
    )


def _lines_of(block: RewrittenBlock, first: int, last: int) -> Lines:
    """Lines of `block`, counted from 1, as lines of its file."""
    start = block.at(first, 0)
    end = block.at(last, 0)
    return Lines(start.path, start.line, end.line)


def _find_replacements(
    edit: EditDeclaration, target: Target, method: Fragment
) -> list[Replacement]:
    """What an edit changes in `method`, which is the target or another layout of it."""
    changes: list[Replacement] = []
    matches = []
    for pair in edit.pairs:
        for match in _find_matches(edit, pair, target, method.nodes[0]):
            matches.append((pair, match))
    for pair, match in matches:
        change = Replacement(match, edit.statement.fragment, pair.new, pair.word)
        _refuse_repeated(edit, change)
        is_expression = change.expression is not None and pair.word == "new"
        # A statement cannot stand inside an expression.
        if not isinstance(match.place, Run) and not is_expression:
            what = "`with old:` matches a part of a statement, which only an expression can replace"
            hint = "write one expression under `with new:`, or the whole statement under "
            raise PatchgenError("PG305", edit.at(pair.new), what, f"{hint}`with old:`")
        changes.append(change)
    return changes


def _refuse_repeated(edit: EditDeclaration, change: Replacement) -> None:
    """Raise PG307 for a keyword that new code gives, and that its `...` stands for as well."""
    rest = change.match.bound.rest
    if rest is None:
        return
    matched = {each.arg for each in rest.arguments if isinstance(each, ast.keyword)}
    for call in filter(has_dots, walk(change.part)):
        for keyword in call.keywords:
            name = keyword.arg
            if name and name in matched:
                what = f"`...` under `with new:` stands for {name}=, which is also written"
                hint = f"write {name}= under `with old:` as well"
                raise PatchgenError("PG307", edit.at(change.part), what, hint)


def _find_matches(
    edit: EditDeclaration, pair: Pair, target: Target, method: ast.stmt
) -> list[Match]:
    """The matches of a pair, which have to be as many as the edit says."""
    matches = find(pair.old.body, method, edit.holes)
    if len(matches) == edit.count:
        return matches
    at = edit.at(pair.old)
    if matches:
        lines = ", ".join(str(target.lines(match.nodes).first) for match in matches)
        what = f"`with old:` matches {len(matches)} times in {target.name}, "
        what += f"not {edit.count}: lines {lines}"
        raise PatchgenError("PG301", at, what, f"make it longer, or write count={len(matches)}")
    hint = _describe_nearest_miss(pair.old.body, target)
    raise PatchgenError("PG301", at, f"`with old:` does not occur in {target.name}", hint)


def _refuse_overlaps(
    method: Fragment, changes: Sequence[tuple[EditDeclaration, Replacement]]
) -> None:
    spans: list[tuple[int, int, EditDeclaration]] = []
    for edit, change in changes:
        nodes = change.match.nodes
        start, _ = method.span(nodes[0])
        _, end = method.span(nodes[-1])
        spans.append((start, end, edit))
    spans.sort(key=lambda span: (span[0], -span[1]))
    for (_, end, edit), (start, _, other) in itertools.pairwise(spans):
        if start < end:
            what = f"the edit {other.node.name} changes what {edit.node.name} changes"
            hint = "make one edit of both"
            if edit is other:
                what = f"the places that {edit.node.name} matches overlap"
                hint = "match more"
            raise PatchgenError("PG303", other.at(other.node), what, hint)


def _describe_nearest_miss(pattern: Sequence[ast.stmt], target: Target) -> str:
    """The file and line of the nearest code and a small diff, with upstream's code marked `+`."""
    places: list[Sequence[ast.AST]] = []
    match pattern:
        case [ast.Expr(value=wanted)] if not is_ellipsis(wanted):
            for statement in target.node.body:
                for node in expressions(statement):
                    if isinstance(node, type(wanted)):
                        places.append([node])
        case _:
            # Runs of as many statements as the pattern has; a shorter suite is one run.
            size = sum(not is_ellipsis(node) for node in pattern)
            for suite in suites(target.node):
                count = max(1, len(suite) - size + 1)
                places += [suite[start : start + size] for start in range(count)]
    own = _spell(pattern)
    texts = [_spell(place) for place in places]
    # What differs from an equal text cannot be shown.
    others = [number for number, text in enumerate(texts) if text != own]
    matcher = difflib.SequenceMatcher(b=own, autojunk=False)

    def likeness(number: int, *, quick: bool = False) -> float:
        """The mean of how much of the pattern is there, and of how much of both is alike."""
        text = texts[number]
        matcher.set_seq1(text)
        weight = ((len(own) + len(text)) / len(own) / 2 + 1) / 2
        ratio = matcher.quick_ratio() if quick else matcher.ratio()
        return ratio * weight

    # The slow ratio of those for which the quick one, an upper bound, is largest.
    likely = heapq.nlargest(_MOST_COMPARED, others, functools.partial(likeness, quick=True))
    best = max(likely, key=likeness, default=None)
    # Below this, the nearest code would only mislead.
    if best is None or likeness(best) < _ENOUGH:
        return f"nothing in {target.node.name} is like it"
    nearest = places[best]
    first = nearest[0]
    where = f"the nearest is {target.owner.at(target.statement, first)}"
    # The text shows an `elif` as an `if`, which explains nothing.
    fragment = target.statement.fragment
    if isinstance(first, ast.If) and fragment.source(first).startswith("elif"):
        where += "; an elif matches only together with the branches below it"
    diff = difflib.ndiff(own.split("\n"), _spell(nearest).split("\n"))
    # The lines with `?` only point at characters.
    lines = [f"        {line}" for line in diff if not line.startswith("?")]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], "          ..."]
    return "\n".join([where, *lines])


def _spell(nodes: Sequence[ast.AST]) -> str:
    """The code of `nodes` in one spelling, without comments."""
    try:
        return "\n".join(map(ast.unparse, nodes))
    except ValueError:  # some f-strings, before Python 3.12
        return "\n".join(map(ast.dump, nodes))

"""Make one flat class of a chain of classes, in passes.

    class Parent(nn.Module):                class Flat(nn.Module):
        def forward(self, x):                   def forward(self, x):
            return self.act(x)                      return self.act(x)
    class Child(Parent):
        scale = 2                               scale = 2

In: a `ClassPlan`.  Its chain has the child first and the last parent at the end, in the names of
the flat file; what a class body may contain was checked before.  Out: the text of the class, and
notes.  The flat class does what Python's inheritance does; where that is not possible, the problems
of the class are raised.  The passes, under the names that `trace` is called with:

    removals    `x = AttributeError()` marks the `x` of a parent as removed
    edits       values are written out, edits of methods are applied
    members     each class overrides the members of those behind it in the chain
    super       `super()` becomes the parent's code, or a call of a copy of it
    head        the line `class Flat(...)`, with the decorators and the comments above it
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from patchgen.compiler.edits.editing import apply_edits
from patchgen.compiler.merge.fields import find_field_problems, read_fields
from patchgen.compiler.merge.head import make_class_head
from patchgen.compiler.merge.members import ClassBody, Statement, override_members, read_class_body
from patchgen.compiler.merge.supers import resolve_supers
from patchgen.compiler.merge.text import INDENT
from patchgen.compiler.merge.values import write_out_values
from patchgen.compiler.plan.model import ClassPlan, MergedClass
from patchgen.compiler.plan.words import removed_name
from patchgen.syntax.bound import names_in, parameters
from patchgen.syntax.errors import PatchgenError, Problem, Refusals, did_you_mean
from patchgen.syntax.trees import Function

Trace = Callable[[str, str], None]


def merge_class(
    plan: ClassPlan, trace: Trace | None = None, decorators: Sequence[tuple[str, str]] = ()
) -> MergedClass:
    """Make the flat class of `plan`; `trace` is called with (pass, class text) after each pass.

    `decorators` are further class decorators, each with the method whose override makes it useless.
    Raises Refusals with every problem that the first pass with problems finds.
    """
    try:
        return _merge(plan, trace or (lambda name, text: None), dict(decorators))
    # Python's own parser and our visitors recurse into the code.
    except RecursionError as error:
        at = plan.chain[0].at(1, 0)
        what = "is nested too deeply to be merged"
        raise PatchgenError("PG006", at, what, "bind parts of it to names") from error


def _merge(plan: ClassPlan, trace: Trace, decorators: dict[str, str]) -> MergedClass:
    pairs = zip(plan.chain, plan.own_names, strict=True)
    bodies = tuple(read_class_body(*pair, level) for level, pair in enumerate(pairs))

    bodies, problems = _mark_removals(bodies)
    _require_none(problems)
    trace("removals", _write_chain(bodies))

    bodies = write_out_values(plan, bodies)
    bodies, edited, matches, problems = apply_edits(bodies)
    fields = read_fields(plan, bodies)
    _require_none(problems or find_field_problems(bodies, fields))
    trace("edits", _write_chain(bodies))

    # From the last parent on, as each child overrides what is behind it.
    members = bodies[-1].statements
    for body in reversed(bodies[:-1]):
        members = override_members(body.statements, members)
    members = tuple(statement for statement in members if not statement.removes)
    binders = _find_binders(bodies)
    changed = _find_changed_reads(bodies, members, binders)
    lost = _find_lost_effects(bodies, members)
    _require_none((*changed, *lost))
    bare_head = f"class {plan.name}:\n"
    trace("members", _write_class(bare_head, bodies, members))

    members, impossible = resolve_supers(plan, bodies, members, fields)
    _require_none(impossible or _find_changed_reads(bodies, members, binders))
    trace("super", _write_class(bare_head, bodies, members))

    head, notes, problems = make_class_head(plan, bodies, frozenset(edited), members, decorators)
    _require_none(problems)
    text = _write_class(head, bodies, members)
    trace("head", text)
    missing = _find_missing_parameters(bodies)
    return MergedClass(plan.name, text, (*missing, *notes), tuple(matches))


def _require_none(problems: Iterable[Problem]) -> None:
    """Raises Refusals: later passes rely on what earlier ones have settled."""
    if problems := tuple(problems):
        raise Refusals(problems)


# Removals


def _mark_removals(bodies: Sequence[ClassBody]) -> tuple[tuple[ClassBody, ...], list[Problem]]:
    """Mark the statements that remove what a later class of the chain binds.

    A method whose body is only `raise AttributeError(...)`, and an attribute `x = AttributeError()`
    remove the inherited member, as in transformers' modular files.  Python's inheritance would
    keep a member that raises or is an exception: this is a deliberate difference.

        class Parent(nn.Module):        class Flat(nn.Module):
            size = 1                        size = 1
            scale = 2
        class Child(Parent):
            scale = AttributeError()
    """
    marked: list[ClassBody] = []
    problems: list[Problem] = []
    # From the end: the last class of the chain has nothing to remove.
    inherited: set[str] = set()
    for level, body in reversed(list(enumerate(bodies))):
        statements = []
        for statement in body.statements:
            name = removed_name(statement.node)
            statements.append(replace(statement, removes=name in inherited))
            if name is None:
                continue
            at = body.at(statement)
            binders = [other.binders(name) for other in bodies[level + 1 :]]
            if any(len(binder.names) > 1 for binder in itertools.chain(*binders)):
                what = f"{name} cannot be removed alone: it is bound together with something else"
                hint = "override what is bound with it"
                problems.append(Problem(at, "PG230", what, hint))
            # Only the child has to be right: a part behind it may remove what only some have.
            if name not in inherited and level == 0 and len(bodies) > 1:
                what = f"{name} is removed, but no class that {body.own_name} is merged with has it"
                hint = did_you_mean(name, inherited) or "what a base outside has cannot be removed"
                problems.append(Problem(at, "PG230", what, hint))
        marked.insert(0, replace(body, statements=tuple(statements)))
        inherited |= body.names
    return tuple(marked), problems


# What code in the class body reads

Key = tuple[int, int]  # of a statement, whatever its text becomes: `Statement.key`


def _find_binders(bodies: Sequence[ClassBody]) -> dict[tuple[Key, str], Key]:
    """For each statement and name that it reads: the statement that bound it in the own class.

    A read that finds nothing there has no entry: it is of a global name.
    """
    binders: dict[tuple[Key, str], Key] = {}
    for body in bodies:
        bound: dict[str, Key] = {}
        for statement in body.statements:
            for name in statement.reads:
                if name in bound:
                    binders[statement.key, name] = bound[name]
            bound.update(dict.fromkeys(statement.names, statement.key))
    return binders


def _find_changed_reads(
    bodies: Sequence[ClassBody], members: Sequence[Statement], binders: dict[tuple[Key, str], Key]
) -> Iterator[Problem]:
    """Every read in the class body `members` that does not find what it found in its own class.

    Attribute values, decorators, defaults and annotations are evaluated in the class body, where
    they see the names bound above them.

        class Parent:                   class Flat:
            size = 1                        size = 5
            double = size * 2               double = size * 2       # would be 10
        class Child(Parent):
            size = 5
    """
    bound: dict[str, Statement] = {}
    for statement in members:
        for name in sorted(statement.reads):
            before = binders.get((statement.key, name))
            now = bound.get(name)
            # A copy of what `super()` calls reads the members that were copied with it.
            is_of_copy = now is not None and now.is_copy and statement.is_copy
            if not is_of_copy and before != (now.key if now else None):
                body = bodies[statement.origin]
                old = new = f"a global {name}"
                if before:
                    old = f"the {name} above it"
                if now:
                    new = f"{bodies[now.origin].own_name}'s {name}"
                what = f"{body.own_name} reads {old} in its class body and would read {new}"
                hint = "give one of them another name, or write the value out"
                yield Problem(body.at(statement), "PG201", what, hint)
        # Only now: a statement does not read what it binds itself.
        bound.update(dict.fromkeys(statement.names, statement))


def _find_lost_effects(
    bodies: Sequence[ClassBody], members: Sequence[Statement]
) -> Iterator[Problem]:
    """Overridden members that change another member when the class body runs.

    class Parent:
        @f.register                     # `f` knows it by inheritance, and would not in a flat class
        def _(self, x: int): ...
    class Child(Parent):
        _ = None
    """
    kept = {statement.key for statement in members}
    for body in bodies[1:]:
        for statement in body.statements:
            if statement.key in kept or statement.removes:
                continue
            node = statement.node
            calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
            parts = node.decorator_list if isinstance(node, Function) else calls
            changed = sorted((names_in(parts) & body.names) - set(statement.names))
            if changed:
                name = statement.names[0]
                what = f"{name} of {body.own_name} is overridden, and may change {changed[0]}"
                hint = "give the other one another name"
                yield Problem(body.at(statement), "PG201", what, hint)


# Notes


def _find_missing_parameters(bodies: Sequence[ClassBody]) -> Iterator[str]:
    """Notes on overrides that do not take a parameter that a caller may pass by name.

    class Parent: def forward(self, x, mask): ...
    class Child:  def forward(self, x): ...         does not take mask
    """
    for level, body in enumerate(bodies):
        for name, (statement, *others) in body.by_name.items():
            override = statement.node
            # A removal is written as a method that raises; `**kwargs` takes any parameter.
            if others or statement.removes or not isinstance(override, Function):
                continue
            parents = (other for other in bodies[level + 1 :] if name in other.names)
            parent = next(parents, None)
            if override.args.kwarg or parent is None:
                continue
            old = parent.binders(name)[0].node
            # A property and its setter are two definitions of one name.
            if len(parent.binders(name)) > 1 or not isinstance(old, Function):
                continue
            taken = {*parameters(override)}
            # `*args` takes whatever is given by position; those of the parent have no names.
            if override.args.vararg:
                taken.update(argument.arg for argument in old.args.args)
            taken.update(star.arg for star in (old.args.vararg, old.args.kwarg) if star)
            for parameter in parameters(old)[1:]:
                if parameter not in taken:
                    taker = f"{body.own_name}.{name}"
                    inherited = f"{parent.own_name}.{name}"
                    yield f"{taker} does not take {parameter}, which {inherited} takes"


# Text


def _write_chain(bodies: Sequence[ClassBody]) -> str:
    """Every class of the chain, before its members are merged."""
    return "\n".join(_write_class(f"{b.head}\n", [b], b.statements) for b in bodies)


def _write_class(head: str, bodies: Sequence[ClassBody], members: Sequence[Statement]) -> str:
    """The head, the nearest docstring, the members, and the comments at the end of each body."""
    docstring = tail = ""
    for body in reversed(bodies):
        tail += body.tail
        if body.docstring is not None:
            docstring = body.docstring.leading + body.docstring.text
    kept = list(members)
    remarks = ""
    if len(bodies) > 1:
        # A merged class has members, so that `pass` and `...` of its parents can go.
        kept = [statement for statement in members if not statement.is_placeholder]
        # In an empty body, the comments above them are about the class.
        above = "".join(statement.leading for statement in members if statement.is_placeholder)
        remarks = "".join(line for line in above.splitlines(True) if line.strip())
    body_text = "".join(statement.leading + statement.text for statement in kept)
    if remarks and body_text:
        # The blank line keeps them apart from the first member, which they do not describe.
        remarks += "\n"
    # A class body needs a statement: one of the placeholders after all.
    elif not body_text and not docstring:
        body_text = members[0].text if members else f"{INDENT}pass\n"
    return head + docstring + remarks + body_text + tail

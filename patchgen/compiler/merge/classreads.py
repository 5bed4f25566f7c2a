"""Write out what a class body reads of a parent by name.

    class Parent:                           class Flat:
        size = 2                                keys = ["a"]
        keys = ["a"]                            size = (2) + 1
    class Child(Parent):                        keys = keys + ["b"]
        size = Parent.size + 1
        keys = Parent.keys + ["b"]

A constant, or a tuple of constants, is written where it is read.  `classscope` settles the rest:
the parent's statement then stays above the one that reads it, and its name alone finds the value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.ancestry import search_places
from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import Splice, splice
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import find_class_reads, marker_index
from patchgen.syntax.errors import PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class ClassReads:
    """The chain with its literals written out, and reads that find nothing."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def write_out_literals(bodies: Sequence[ClassBody]) -> ClassReads:
    """Replace `Parent.name` in class bodies by its literal.

    Where it is no literal, name the class that has it: `Child.name` may be inherited from Parent.
    """
    done = []
    for body in bodies:
        statements = tuple(_write_out(statement, bodies) for statement in body.statements)
        done.append(replace(body, statements=statements))
    return ClassReads(tuple(done), tuple(_find_missing(bodies)))


def _find_missing(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """A problem for each `Parent.name` that no class of the chain has."""
    for body in bodies:
        for statement in body.statements:
            for node in find_class_reads(statement.node):
                start = marker_index(node.value) or 0
                if _find_owner(bodies, start, node.attr) is not None:
                    continue
                read = f"{bodies[start].own_name}.{node.attr}"
                what = f"{read} is inherited from outside the classes that are merged"
                hint = "name the class that has it"
                yield PatchgenError("PG212", body.at(statement, node), what, hint).problem


def _write_out(statement: Statement, bodies: Sequence[ClassBody]) -> Statement:
    """The statement with each `Parent.name` replaced by a literal, or by its owner's name."""
    code = statement.fragment
    changes = []
    for node in find_class_reads(statement.node):
        owner = _find_owner(bodies, marker_index(node.value) or 0, node.attr)
        if owner is None:
            continue  # `_find_missing` reports it
        binders = bodies[owner].binders(node.attr)
        # Bound twice, the value depends on which statement ran last.
        text = _read_literal(binders[0]) if len(binders) == 1 else None
        text = text or f"__parent_{owner}__.{node.attr}"
        changes.append(Splice(*code.span(node), text))
    return statement.with_text(splice(code.text, changes))


def _find_owner(bodies: Sequence[ClassBody], start: int, name: str) -> int | None:
    """The place of the class that Python finds `name` in, from the class at `start` on."""
    for place in search_places(bodies, start):
        if name in bodies[place].names:
            return place
    return None


def _read_literal(statement: Statement) -> str | None:
    """The text of an attribute that is a constant literal, in brackets of its own."""
    node = statement.node
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return None
    # It has the same value wherever it stands.  A list would be another one, which shows where one
    # of them is changed.
    try:
        hash(ast.literal_eval(node.value))
    except (ValueError, TypeError):
        return None
    # Brackets keep the precedence: `(1, 2)` and `-1` in a sum.
    return f"({statement.fragment.source(node.value)})"

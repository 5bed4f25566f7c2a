"""What a class body reads of a parent by name: `keys = Parent.keys + ["more"]`.

A literal is written where it is read.  Anything else is left to `classscope`: the parent's statement then stays above
the one that reads it, and the name alone finds it.
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
from patchgen.errors import PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class ClassReads:
    """The chain with its literals written out, and reads that find nothing."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def write_out_literals(bodies: Sequence[ClassBody]) -> ClassReads:
    """Put literals in the place of `Parent.name` in class bodies, and the class that has it in the place of others."""
    done = []
    for body in bodies:
        statements = tuple(_written(statement, bodies) for statement in body.statements)
        done.append(replace(body, statements=statements))
    return ClassReads(tuple(done), tuple(_missing(bodies)))


def _missing(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    for body in bodies:
        for statement in body.statements:
            for node in find_class_reads(statement.node):
                start = marker_index(node.value) or 0
                if _owner(bodies, start, node.attr) is None:
                    own = bodies[start].own_name
                    what = (
                        f"{own}.{node.attr} is inherited from outside the classes that are merged"
                    )
                    hint = "name the class that has it"
                    yield PatchgenError("PG212", body.at(statement, node), what, hint).problem


def _written(statement: Statement, bodies: Sequence[ClassBody]) -> Statement:
    code = statement.fragment
    changes = []
    for node in find_class_reads(statement.node):
        owner = _owner(bodies, marker_index(node.value) or 0, node.attr)
        binders = bodies[owner].binders(node.attr) if owner is not None else ()
        text = _literal(binders[0]) if len(binders) == 1 else None
        if text is None and owner is not None:
            text = f"__parent_{owner}__.{node.attr}"
        if text:
            changes.append(Splice(*code.span(node), text))
    return statement.with_text(splice(code.text, changes))


def _owner(bodies: Sequence[ClassBody], start: int, name: str) -> int | None:
    return next(
        (place for place in search_places(bodies, start) if name in bodies[place].names), None
    )


def _literal(statement: Statement) -> str | None:
    """The text of an attribute that is a literal, in brackets of its own."""
    node = statement.node
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return None
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError):
        return None
    text = statement.fragment.source(node.value)
    return text if isinstance(node.value, ast.List | ast.Dict | ast.Set) else f"({text})"

"""Check that classes whose annotations are fields merge exactly: dataclasses and configurations.

Python makes fields class by class; a flat class makes them once.  The two agree where every class
of the chain is decorated alike.  Otherwise an annotation would become a field that was none, or a
generated method would be missing.

    @dataclass
    class Parent:
        size: int = 1
    class Child(Parent):
        depth: int = 2          # PG223: no field in Python, but one in the flat class
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.facts.bases import FIELD_BASES
from patchgen.facts.decorators import FIELD_DECORATORS
from patchgen.syntax.errors import Problem

# What `@dataclass` looks for in the class that it decorates, and what it will not replace there.
_LOOKED_FOR = frozenset({"__post_init__", "__match_args__", "__hash__", "__eq__", "__setattr__"})
_LOOKED_FOR |= {"__delattr__", "__lt__", "__le__", "__gt__", "__ge__"}


@dataclass(frozen=True, slots=True)
class Fields:
    """What makes fields of the annotations of each class of the chain.

    `makers` has texts of decorators, or the name of a base; `flat` the same for the flat class.
    """

    makers: tuple[frozenset[str], ...]
    flat: frozenset[str]

    def generated(self, level: int) -> frozenset[str]:
        """The methods that are generated for that class, unless it writes them."""
        return frozenset[str]().union(*map(_generated_by, self.makers[level]))


def _generated_by(maker: str) -> Iterator[str]:
    """The methods that one decorator, or one of `FIELD_BASES`, generates."""
    if "strict" in maker:
        return  # wraps what is there
    yield "__match_args__"
    if "init=False" not in maker:
        yield "__init__"
    has_own_repr = maker in FIELD_BASES
    if "repr=False" not in maker and not has_own_repr:
        yield "__repr__"
    if "eq=False" not in maker:
        yield from ("__eq__", "__hash__")
    if "order=True" in maker:
        yield from ("__ge__", "__gt__", "__le__", "__lt__")
    if "frozen=True" in maker:
        yield from ("__delattr__", "__setattr__")


def read_fields(plan: ClassPlan, bodies: Sequence[ClassBody]) -> Fields:
    """What makes fields in each class of the chain."""
    # A base that stays makes fields of every class below it.
    inherited = frozenset(base.rpartition(".")[2] for base in plan.bases) & FIELD_BASES
    stated = []
    for body in bodies:
        texts = {}
        for decorator, node in zip(body.decorators, body.node.decorator_list, strict=True):
            if decorator.short_name in FIELD_DECORATORS:
                texts[decorator.short_name] = ast.unparse(node)
        stated.append(texts)
    # The decorator of the nearest class wins.
    nearest: dict[str, str] = {}
    for texts in reversed(stated):
        nearest.update(texts)
    makers = tuple(inherited | set(texts.values()) for texts in stated)
    return Fields(makers, inherited | set(nearest.values()))


def find_field_problems(bodies: Sequence[ClassBody], fields: Fields) -> Iterator[Problem]:
    """Where fields and generated methods of the flat class would not be the inherited ones."""
    for level, body in enumerate(bodies):
        # Python gives a class with `__eq__` alone `__hash__ = None`.
        is_unhashable = "__eq__" in body.names and "__hash__" not in body.names
        behind = bodies[level + 1 :]
        if is_unhashable and any("__hash__" in other.names for other in behind):
            what = f"{body.own_name} has __eq__ without __hash__, which its parent has"
            at = body.at(body.binders("__eq__")[0])
            yield Problem(at, "PG224", what, "write __hash__ too")
    # Without a merge, or without fields, nothing else changes.
    if len(bodies) == 1 or not fields.flat:
        return
    for level, body in enumerate(bodies):
        yield from _find_unlike(level, body, bodies, fields)
        yield from _find_hidden(level, bodies, fields)
        for statement in body.statements:
            yield from _find_bare_override(statement, body, bodies[level + 1 :])


def _find_unlike(
    level: int, body: ClassBody, bodies: Sequence[ClassBody], fields: Fields
) -> Iterator[Problem]:
    """What the decorators of the flat class would see in a class that is decorated otherwise."""
    makers = fields.makers[level]
    if makers == fields.flat:
        return
    unlike = [other for other, by in zip(bodies, fields.makers, strict=True) if by != makers]
    for statement in body.statements:
        verb = ""
        name = next(iter(statement.names), "")
        if isinstance(statement.node, ast.AnnAssign):
            verb = "annotated"
        elif name in _LOOKED_FOR and "dataclass" in str(fields.flat - makers):
            verb = "found by the decorator"
        if verb:
            what = f"{name} is {verb} in {body.own_name}"
            what += f", which is not decorated as {unlike[0].own_name} is"
            hint = "decorate both alike, so that it is a field in both or in none"
            yield Problem(body.at(statement), "PG223", what, hint)
            return


def _find_hidden(level: int, bodies: Sequence[ClassBody], fields: Fields) -> Iterator[Problem]:
    """Methods that a decorator generates for a class, while a class behind it defines them."""
    generated = fields.generated(level)
    # A method that the class itself or a nearer one defines is not generated.
    for body in bodies[: level + 1]:
        generated -= body.by_name.keys()
    for other in bodies[level + 1 :]:
        for name in sorted(generated & other.names):
            maker = bodies[level].own_name
            what = f"{name} of {other.own_name} is hidden by the one that is generated for {maker}"
            hidden = other.binders(name)[0]
            at = other.at(hidden)
            hint = f"write {name} in {bodies[0].own_name}"
            yield Problem(at, "PG224", what, hint)


def _find_bare_override(
    statement: Statement, body: ClassBody, behind: Sequence[ClassBody]
) -> Iterator[Problem]:
    """A value without an annotation for a name that is a field of a parent.

    Python changes the attribute; in the flat class the default of the field would change.
    """
    if isinstance(statement.node, ast.AnnAssign) or statement.removes:
        return
    for name in statement.names:
        for owner in behind:
            for old in owner.binders(name):
                field = old.node
                # `@dataclass` makes no field of a class variable.
                if isinstance(field, ast.AnnAssign) and "ClassVar" not in ast.unparse(field):
                    what = f"{name} does not change the default of the field {name} of "
                    what += owner.own_name
                    hint = f"write {name}: {ast.unparse(field.annotation)} = ..."
                    yield Problem(body.at(statement), "PG223", what, hint)
                    return

"""Check that classes whose annotations are fields, such as dataclasses, merge exactly.

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

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.facts.bases import FIELD_BASES
from patchgen.facts.decorators import FIELD_DECORATORS
from patchgen.syntax.errors import PatchgenError, Problem

_ORDERING = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
# What `@dataclass` looks for in the class that it decorates, and what it will not replace there.
_LOOKED_FOR = frozenset(
    {"__post_init__", "__match_args__", "__hash__", "__eq__", "__setattr__", "__delattr__"}
)


@dataclass(frozen=True, slots=True)
class Fields:
    """What makes fields of the annotations of each class of the chain.

    `makers` has texts of decorators, or the name of a base; `flat` the same for the flat class.
    """

    makers: tuple[tuple[str, ...], ...]
    flat: tuple[str, ...]

    def generated(self, place: int) -> frozenset[str]:
        """The methods that are generated for that class, unless it writes them."""
        found: set[str] = set()
        for maker in self.makers[place]:
            found.update(_generated_by(maker))
        return frozenset(found)


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
        yield from sorted(_ORDERING)
    if "frozen=True" in maker:
        yield from ("__delattr__", "__setattr__")


def read_fields(plan: ClassPlan, bodies: Sequence[ClassBody]) -> Fields:
    """What makes fields in each class of the chain."""
    bases = tuple(base.rpartition(".")[2] for base in plan.bases)
    # A base that stays makes fields of every class below it.
    inherited = tuple(base for base in bases if base in FIELD_BASES)
    stated = [_decorations(body) for body in bodies]
    # Reversed, so that the decorator of the nearest class wins.
    nearest: dict[str, str] = {}
    for decorations in reversed(stated):
        nearest.update(decorations)
    makers = tuple((*decorations.values(), *inherited) for decorations in stated)
    return Fields(makers, (*nearest.values(), *inherited))


def _decorations(body: ClassBody) -> dict[str, str]:
    """The text of each decorator that makes fields, by its name, in the order of the names."""
    pairs = zip(body.decorators, body.node.decorator_list, strict=True)
    texts = {decorator.short_name: ast.unparse(node) for decorator, node in pairs}
    return {name: texts[name] for name in sorted(FIELD_DECORATORS & set(texts))}


def find_field_problems(bodies: Sequence[ClassBody], fields: Fields) -> Iterator[Problem]:
    """Where the fields of the flat class would not be those of the inherited one."""
    # Without a merge, or without fields, nothing changes.
    if len(bodies) == 1 or not fields.flat:
        return
    for place, body in enumerate(bodies):
        yield from _own_problems(place, body, bodies, fields)
        yield from _generated_problems(place, body, bodies, fields)
    for place, body in enumerate(bodies[:-1]):
        yield from _seen_by_decorator(place, body, fields)
        for statement in body.statements:
            yield from _bare_overrides(statement, body, bodies[place + 1 :])


def _own_problems(
    place: int, body: ClassBody, bodies: Sequence[ClassBody], fields: Fields
) -> Iterator[Problem]:
    """Annotations of one class that would become fields, or would cease to be."""
    annotated: list[Statement] = []
    for statement in body.statements:
        if not isinstance(statement.node, ast.AnnAssign):
            continue
        annotated.append(statement)
        if "KW_ONLY" in ast.unparse(statement.node.annotation):
            what = "KW_ONLY would reach to the fields of other classes"
            yield _problem("PG223", body, statement, what, "write field(kw_only=True)")
    own = fields.makers[place]
    is_made_alike = set(own) == set(fields.flat)
    if annotated and not is_made_alike:
        others = [each for each, makers in zip(bodies, fields.makers, strict=True) if makers != own]
        names = ", ".join(annotated[0].names)
        what = (
            f"{names} is annotated in {body.own_name}, "
            f"which is not decorated as {others[0].own_name} is"
        )
        hint = "decorate both alike, so that it is a field in both or in none"
        yield _problem("PG223", body, annotated[0], what, hint)
    if any("slots=True" in maker for maker in own):
        at = body.at_head()
        what = f"{body.own_name} is a dataclass with slots, which is made anew by its decorator"
        yield PatchgenError("PG223", at, what, "leave slots=True away").problem


def _generated_problems(
    place: int, body: ClassBody, bodies: Sequence[ClassBody], fields: Fields
) -> Iterator[Problem]:
    """Methods that a decorator generates for a class, while a class behind it defines them."""
    hiding = set(fields.generated(place))
    # A method that the class itself defines is not generated.
    for nearer in bodies[: place + 1]:
        hiding -= nearer.names
    for other in bodies[place + 1 :]:
        for name in sorted(hiding & other.names):
            statement = other.binders(name)[0]
            what = (
                f"{name} of {other.own_name} is hidden "
                f"by the one that is generated for {body.own_name}"
            )
            hint = f"write {name} in {bodies[0].own_name}"
            yield _problem("PG224", other, statement, what, hint)


def _seen_by_decorator(place: int, body: ClassBody, fields: Fields) -> Iterator[Problem]:
    """Methods that the decorator of the flat class would see, of a class that is no dataclass."""
    if not _makes_dataclass(fields.flat) or _makes_dataclass(fields.makers[place]):
        return
    for name in sorted(body.names & (_LOOKED_FOR | _ORDERING)):
        statement = body.binders(name)[0]
        what = (
            f"{name} of {body.own_name}, which is no dataclass itself, "
            "would be seen by the decorator of its parent"
        )
        yield _problem("PG224", body, statement, what, f"decorate {body.own_name} too")


def _makes_dataclass(makers: Sequence[str]) -> bool:
    """Whether one of the decorators is `@dataclass`, with or without arguments."""
    return any(maker.startswith("dataclass") for maker in makers)


def finds_generated(
    name: str, start: int, found: int | None, bodies: Sequence[ClassBody], fields: Fields
) -> bool:
    """Whether `super().name` finds a generated method before the written one at `found`.

    The search begins at `start`; without a written one, it goes through the whole chain.
    """
    stop = len(bodies)
    if found is not None:
        stop = found
    return any(name in fields.generated(place) for place in range(start, stop))


def _bare_overrides(
    statement: Statement, body: ClassBody, behind: Sequence[ClassBody]
) -> Iterator[Problem]:
    """Values without an annotation for names that are fields of a parent.

    Python changes the attribute; in the flat class the field would be gone.
    """
    if isinstance(statement.node, ast.AnnAssign) or statement.removes:
        return
    for name in statement.names:
        field = _find_field(name, behind)
        if field is None:
            continue
        owner, annotation = field
        written = f"the member {name}"
        if isinstance(statement.node, ast.Assign):
            written = f"{name} = ..."
        what = f"{written} does not change the default of the field {name} of {owner.own_name}"
        hint = f"write {name}: {annotation} = ..."
        yield _problem("PG223", body, statement, what, hint)
        return


def _find_field(name: str, behind: Sequence[ClassBody]) -> tuple[ClassBody, str] | None:
    """The first class of `behind` that has a field `name`, with its annotation."""
    for other in behind:
        for old in other.binders(name):
            if not isinstance(old.node, ast.AnnAssign):
                continue
            annotation = ast.unparse(old.node.annotation)
            # `@dataclass` makes no field of these.
            if "ClassVar" not in annotation:
                return other, annotation
    return None


def _problem(code: str, body: ClassBody, statement: Statement, what: str, hint: str) -> Problem:
    return PatchgenError(code, body.at(statement), what, hint).problem

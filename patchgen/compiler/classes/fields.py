"""Classes whose annotations are fields (dataclasses, configurations, typed dictionaries), and when they merge exactly.

Python makes fields class by class, a flat class makes them once.  The two agree where every class of the chain is
decorated alike; otherwise an annotation would become a field that was none, or a generated method would not be made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.errors import PatchgenError, Problem

FIELD_DECORATORS = frozenset({"dataclass", "strict"})
# Their `__init_subclass__` makes a dataclass of every class below them.
FIELD_BASES = frozenset({"PreTrainedConfig", "PretrainedConfig"})
_ORDERING = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
# What `@dataclass` looks for in the class that it decorates, and what it will not replace there.
_LOOKED_FOR = frozenset(
    {"__post_init__", "__match_args__", "__hash__", "__eq__", "__setattr__", "__delattr__"}
)


@dataclass(frozen=True, slots=True)
class Fields:
    """For each class of the chain, what makes fields of its annotations: texts of decorators, or a base's name.

    `flat` is what makes the fields of the flat class.
    """

    makers: tuple[tuple[str, ...], ...]
    flat: tuple[str, ...]

    def generated(self, place: int) -> frozenset[str]:
        """The methods that are generated for that class, unless it writes them."""
        return frozenset(name for maker in self.makers[place] for name in _generated_by(maker))


def _generated_by(maker: str) -> Iterator[str]:
    if "strict" in maker:
        return  # wraps what is there
    yield "__match_args__"
    if "init=False" not in maker:
        yield "__init__"
    if "repr=False" not in maker and maker not in FIELD_BASES:
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
    inherited = tuple(base for base in bases if base in FIELD_BASES)
    stated = [_decorations(body) for body in bodies]
    nearest = {name: text for decorations in reversed(stated) for name, text in decorations.items()}
    return Fields(tuple((*d.values(), *inherited) for d in stated), (*nearest.values(), *inherited))


def _decorations(body: ClassBody) -> dict[str, str]:
    """The text of each decorator that makes fields, by its name, in the order of the names."""
    pairs = zip(body.decorators, body.node.decorator_list, strict=True)
    texts = {decorator.short_name: ast.unparse(node) for decorator, node in pairs}
    return {name: texts[name] for name in sorted(FIELD_DECORATORS & set(texts))}


def find_field_problems(bodies: Sequence[ClassBody], fields: Fields) -> Iterator[Problem]:
    """Where the fields of the flat class would not be those of the inherited one."""
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
    annotated = [
        statement for statement in body.statements if isinstance(statement.node, ast.AnnAssign)
    ]
    for statement in annotated:
        if "KW_ONLY" in ast.unparse(statement.node.annotation):  # type: ignore[attr-defined]
            what = "KW_ONLY would reach to the fields of other classes"
            yield _problem("PG223", body, statement, what, "write field(kw_only=True)")
    if annotated and set(fields.makers[place]) != set(fields.flat):
        other = next(
            bodies[i] for i, makers in enumerate(fields.makers) if makers != fields.makers[place]
        )
        names = ", ".join(annotated[0].names)
        what = f"{names} is annotated in {body.own_name}, which is not decorated as {other.own_name} is"
        hint = "decorate both alike, so that it is a field in both or in none"
        yield _problem("PG223", body, annotated[0], what, hint)
    if any("slots=True" in maker for maker in fields.makers[place]):
        at = body.at_head()
        what = f"{body.own_name} is a dataclass with slots, which is made anew by its decorator"
        yield PatchgenError("PG223", at, what, "leave slots=True away").problem


def _generated_problems(
    place: int, body: ClassBody, bodies: Sequence[ClassBody], fields: Fields
) -> Iterator[Problem]:
    """A method that a decorator generates for one class, while a class behind it has written one."""
    generated = fields.generated(place)
    nearer = {name for other in bodies[: place + 1] for name in other.names}
    for other in bodies[place + 1 :]:
        for name in sorted((generated & other.names) - nearer):
            statement = other.binders(name)[0]
            what = f"{name} of {other.own_name} is hidden by the one that is generated for {body.own_name}"
            hint = f"write {name} in {bodies[0].own_name}"
            yield _problem("PG224", other, statement, what, hint)


def _seen_by_decorator(place: int, body: ClassBody, fields: Fields) -> Iterator[Problem]:
    """Methods of a class that is no dataclass itself, which the decorator of the flat class would see."""
    decorated = any(maker.startswith("dataclass") for maker in fields.flat)
    if not decorated or any(maker.startswith("dataclass") for maker in fields.makers[place]):
        return
    for name in sorted(body.names & (_LOOKED_FOR | _ORDERING)):
        statement = body.binders(name)[0]
        what = f"{name} of {body.own_name}, which is no dataclass itself, would be seen by the decorator of its parent"
        yield _problem("PG224", body, statement, what, f"decorate {body.own_name} too")


def finds_generated(
    name: str, start: int, found: int | None, bodies: Sequence[ClassBody], fields: Fields
) -> bool:
    """Whether `super().name`, looked up from `start`, finds a generated method before the written one at `found`."""
    stop = len(bodies) if found is None else found
    return any(name in fields.generated(place) for place in range(start, stop))


def _bare_overrides(
    statement: Statement, body: ClassBody, behind: Sequence[ClassBody]
) -> Iterator[Problem]:
    if isinstance(statement.node, ast.AnnAssign) or statement.removes:
        return
    for name in statement.names:
        for other in behind:
            for old in other.binders(name):
                if isinstance(old.node, ast.AnnAssign) and "ClassVar" not in ast.unparse(
                    old.node.annotation
                ):
                    annotation = ast.unparse(old.node.annotation)
                    written = (
                        f"{name} = ..."
                        if isinstance(statement.node, ast.Assign)
                        else f"the member {name}"
                    )
                    what = f"{written} does not change the default of the field {name} of {other.own_name}"
                    yield _problem(
                        "PG223", body, statement, what, f"write {name}: {annotation} = ..."
                    )
                    return


def _problem(code: str, body: ClassBody, statement: Statement, what: str, hint: str) -> Problem:
    return PatchgenError(code, body.at(statement), what, hint).problem

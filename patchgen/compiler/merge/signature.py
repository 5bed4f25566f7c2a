"""Write the head of a flat class: decorators, name, bases and keywords.

Python would decorate every class of the chain; a flat class is decorated once.  `RULES` says what
that means for each class decorator that the models of transformers use.  An unlisted decorator may
do anything, so the child has to restate it.

    @auto_docstring                     @auto_docstring
    class Parent(Base): ...             class Flat(Base):
    class Child(Parent): ...
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgen.compiler.classes.classbody import ClassBody, Decorator
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.merge import experts
from patchgen.compiler.merge.self_uses import always_calls_inherited, collect_self_uses
from patchgen.compiler.plan.model import ClassPlan
from patchgen.facts.decorators import RULES, Rule
from patchgen.syntax.bound import names_in
from patchgen.syntax.errors import PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class Head:
    """The text above the body of a flat class; `notes` say what was left out, and why."""

    text: str
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def make_class_head(
    plan: ClassPlan,
    bodies: Sequence[ClassBody],
    edited: frozenset[str],
    order: Sequence[Statement],
    further: Mapping[str, str],
) -> Head:
    """Write the decorators and the class line of the flat class.

    `edited` are the methods with edits, `order` is the class body.  `further` are decorators that
    the project knows, each with the method whose override makes it useless.
    """
    chosen = _Chosen(plan, bodies, edited, order, further, list(bodies[0].decorators))
    # From the nearest parent on, so that nearer decorators come first.
    for place, body in enumerate(bodies[1:], start=1):
        for decorator in body.decorators:
            chosen.inherit(decorator, place)
    keywords, problems = _read_keywords(bodies)
    problems += _check_type_parameters(bodies)
    line = _class_line(bodies[0], plan, keywords)
    text = "".join(decorator.text for decorator in chosen.kept) + line
    return Head(text, tuple(chosen.notes), (*chosen.problems, *problems))


@dataclass
class _Chosen:
    """The decorators of the flat class, while they are being chosen."""

    plan: ClassPlan
    bodies: Sequence[ClassBody]
    edited: frozenset[str]
    order: Sequence[Statement]
    further: Mapping[str, str]
    kept: list[Decorator]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def inherit(self, decorator: Decorator, place: int) -> None:
        """Keep, drop or refuse a decorator of the class at `place` in the chain."""
        name = decorator.short_name
        rule = None
        if name in RULES:
            rule = RULES[name][0]
        # `kept` begins with the child's own decorators.
        is_restated = any(other.short_name == name for other in self.kept)
        changed = self._find_changed(place)
        if rule is Rule.EXPERTS:
            self._inherit_experts(decorator, place, changed, is_restated)
        elif rule is Rule.REGISTERS:
            self._inherit_registration(decorator, place)
        elif is_restated and self._counts_once(decorator, rule):
            return  # the child's own decorator counts
        elif rule is None:
            self._inherit_other(decorator, place, changed)
        elif rule is Rule.KERNEL and changed & collect_self_uses(self.bodies[place:], "forward"):
            self._drop(decorator, place, f"{self.plan.name} has a forward of its own")
        else:
            self.kept.append(decorator)

    def _counts_once(self, decorator: Decorator, rule: Rule | None) -> bool:
        """Whether it says nothing that a nearer decorator of its name does not say."""
        is_known = rule is not None or decorator.short_name in self.further
        return is_known or self._repeats(decorator)

    def _inherit_other(self, decorator: Decorator, place: int, changed: frozenset[str]) -> None:
        """Keep, drop or refuse a decorator of which `RULES` says nothing."""
        name = decorator.short_name
        # Only a decorator that the project knows can be judged.
        if name not in self.further:
            hint = f"decorate {self.plan.name} with it too, in the same words"
            self._refuse("PG220", place, decorator, "of which patchgen knows nothing", hint)
        elif self.further[name] in changed:
            self._drop(decorator, place, f"{self.plan.name} has a {self.further[name]} of its own")
        else:
            self.kept.append(decorator)

    def _repeats(self, decorator: Decorator) -> bool:
        """Whether it is among the nearer decorators, with the same arguments."""
        return any(other.text == decorator.text for other in self.kept)

    def _inherit_registration(self, decorator: Decorator, place: int) -> None:
        """Keep a decorator that extends `__init__`, once, where the parent's `__init__` runs."""
        if self._repeats(decorator):
            return
        if always_calls_inherited(self.bodies[:place], "__init__"):
            self.kept.append(decorator)
            return
        owner = self.bodies[place].own_name
        self._drop(decorator, place, f"{self.plan.name} does not run {owner}.__init__")

    def _inherit_experts(
        self, decorator: Decorator, place: int, changed: frozenset[str], restated: bool
    ) -> None:
        """Keep, drop or refuse `use_experts_implementation`, as `experts` decides."""
        refusal = experts.find_refusal(self.bodies, place, changed, self.order, restated)
        if refusal:
            self._refuse("PG225", place, decorator, refusal.why, refusal.hint)
        elif restated:
            pass  # the child's own decorator counts
        elif "forward" in changed:
            self._drop(decorator, place, f"{self.plan.name} has a forward of its own")
        else:
            self.kept.append(decorator)

    def _find_changed(self, place: int) -> frozenset[str]:
        """The members in which the flat class differs from the class at `place`."""
        changed = set(self.edited)
        for body in self.bodies[:place]:
            changed |= body.names
        return frozenset(changed)

    def _drop(self, decorator: Decorator, place: int, because: str) -> None:
        """Leave a decorator out, and say why in a note."""
        # Decorators of the project have no rule; they go with the method that they are for.
        what = RULES.get(decorator.short_name, ("", "belongs to a method of the parent"))[1]
        own = self.bodies[place].own_name
        self.notes.append(f"@{decorator.short_name} of {own} is dropped: it {what}, and {because}")

    def _refuse(self, code: str, place: int, decorator: Decorator, why: str, hint: str) -> None:
        """Record why the class cannot be merged under a decorator."""
        body = self.bodies[place]
        what = f"{body.own_name} is decorated with {decorator.name}, {why}"
        self.problems.append(
            PatchgenError(code, body.block.at(decorator.line, 0), what, hint).problem
        )


def _read_keywords(bodies: Sequence[ClassBody]) -> tuple[list[str], list[Problem]]:
    """The keywords of the class statement: the child's own, and those that it inherits."""
    own = {keyword.arg: ast.unparse(keyword.value) for keyword in bodies[0].node.keywords}
    # Python gives keywords to the making of one class, and does not hand them on to a child.
    problems = []
    for place, body in enumerate(bodies[1:], start=1):
        for keyword in body.node.keywords:
            name, value = keyword.arg, ast.unparse(keyword.value)
            if own.get(name) == value:
                continue
            if _is_inherited(name, bodies[:place]):
                own.setdefault(name, value)
                continue
            what = (
                f"{body.own_name} is made with {name or '**'}={value}, which its child does not say"
            )
            at = body.block.at(keyword.lineno, keyword.col_offset)
            hint = f"write {name}={value} in the child too"
            problems.append(PatchgenError("PG221", at, what, hint).problem)
    keywords = [f"{name}={value}" if name else f"**{value}" for name, value in own.items()]
    return keywords, problems


def _is_inherited(keyword: str | None, nearer: Sequence[ClassBody]) -> bool:
    """Whether a parent's keyword means the same for the flat class.

    Python hands a metaclass on to the child.  `total=False` of a typed dictionary says something
    about the fields of one class, so that the classes before it must add none.
    """
    if keyword == "metaclass":
        return True
    return keyword == "total" and not _adds_fields(nearer)


def _check_type_parameters(bodies: Sequence[ClassBody]) -> list[Problem]:
    """`class Parent[T]` names T in its body, which the flat class must name too.

    And where the child has a T, a parent that has none means another one, such as a global.
    """
    child = bodies[0]
    own = _read_type_parameters(child)
    problems = []
    for body in bodies[1:]:
        theirs = _read_type_parameters(body)
        for name, written in theirs.items():
            # A type parameter of the same spelling means the same in the child.
            if own.get(name) != written:
                what = (
                    f"{body.own_name} has a type parameter {written}, which its child does not have"
                )
                hint = f"write class {child.own_name}[{written}]"
                problems.append(PatchgenError("PG221", body.at_head(), what, hint).problem)
        for name in sorted(own.keys() - theirs.keys()):
            if name in names_in([body.node]):
                what = f"{body.own_name} reads a {name} that is no type parameter, as in its child"
                hint = "give the type parameter another name"
                problems.append(PatchgenError("PG221", child.at_head(), what, hint).problem)
    return problems


def _read_type_parameters(body: ClassBody) -> dict[str, str]:
    """The type parameters of a class by name, as they are written with bound and default."""
    parameters: list[Any] = getattr(body.node, "type_params", [])
    return {parameter.name: ast.unparse(parameter) for parameter in parameters}


def _adds_fields(bodies: Sequence[ClassBody]) -> bool:
    """Whether a class body has an annotation: in a typed dictionary, each is a field."""
    for body in bodies:
        if any(isinstance(statement.node, ast.AnnAssign) for statement in body.statements):
            return True
    return False


def _class_line(child: ClassBody, plan: ClassPlan, keywords: Iterable[str]) -> str:
    """`class Name(bases):`, with the comment behind the child's colon."""
    parameters: list[ast.AST] = getattr(child.node, "type_params", [])
    generic = f"[{', '.join(ast.unparse(p) for p in parameters)}]" if parameters else ""
    # A class without bases has no brackets.
    arguments = ", ".join([*plan.bases, *keywords])
    brackets = f"({arguments})" if arguments else ""
    return f"class {plan.name}{generic}{brackets}:{child.comment}\n"

"""The head of a flat class: decorators, name, bases and keywords, and who of the chain has the say.

Python would decorate every class of the chain; a flat class is decorated once.  `RULES` says what that means for each
class decorator that the models of transformers use.  One that is not listed may do anything, so the child has to
restate it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from patchgen.compiler.classes.classbody import ClassBody, Decorator
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.merge import experts
from patchgen.compiler.merge.self_uses import always_calls_inherited, collect_self_uses
from patchgen.compiler.plan.model import ClassPlan
from patchgen.errors import PatchgenError, Problem


class Rule(Enum):
    """What a class decorator asks for when the class below it is merged."""

    ONCE = "the nearest class's own; it says nothing about behaviour"
    FIELDS = "the nearest class's own, where `fields` finds that the classes agree"
    KERNEL = "dropped where `forward`, or what it uses, is not the parent's any more"
    EXPERTS = "dropped where `forward` is not the parent's any more, refused where its attributes are missed"
    REGISTERS = "all of them, as long as the parent's `__init__` runs"


RULES: dict[str, tuple[Rule, str]] = {
    "auto_docstring": (Rule.ONCE, "writes __doc__"),
    "add_start_docstrings": (Rule.ONCE, "writes __doc__"),
    "requires": (Rule.ONCE, "names packages that must be installed"),
    "dataclass": (Rule.FIELDS, "makes fields of the annotations of one class"),
    "strict": (Rule.FIELDS, "checks what is assigned to the fields of one class"),
    "use_kernel_forward_from_hub": (
        Rule.KERNEL,
        "lets a kernel of the hub replace forward, overridden or not",
    ),
    "use_experts_implementation": (Rule.EXPERTS, "wraps forward and __init__"),
    "use_kernelized_func": (
        Rule.REGISTERS,
        "adds module functions to what kernels may replace, in __init__",
    ),
}


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
    """Decorators and class line of the flat class; `edited` are methods with edits, `order` is the class body.

    `further` are decorators that the project knows, each with the method whose override takes it away.
    """
    chosen = _Chosen(plan, bodies, edited, order, further, list(bodies[0].decorators))
    for place, body in enumerate(bodies[1:], start=1):
        for decorator in body.decorators:
            chosen.inherit(decorator, place)
    keywords, problems = _keywords(bodies)
    problems += _type_parameters(bodies)
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
        restated = any(other.short_name == name for other in self.kept)
        changed = self._changed(place)
        match RULES.get(name, (None, ""))[0]:
            case Rule.EXPERTS:
                self._inherit_experts(decorator, place, changed, restated)
            case rule if restated and rule is not Rule.REGISTERS:
                pass
            case None if self.further.get(name) in changed:
                self._drop(
                    decorator, place, f"{self.plan.name} has a {self.further[name]} of its own"
                )
            case None if name not in self.further:
                hint = (
                    f"decorate {self.plan.name} with it too, or with what shall stand in its place"
                )
                self._refuse("PG220", place, decorator, "of which patchgen knows nothing", hint)
            case Rule.KERNEL if changed & collect_self_uses(self.bodies[place:], "forward"):
                self._drop(decorator, place, f"{self.plan.name} has a forward of its own")
            case Rule.REGISTERS if any(other.text == decorator.text for other in self.kept):
                pass
            case Rule.REGISTERS if not always_calls_inherited(self.bodies[:place], "__init__"):
                self._drop(
                    decorator,
                    place,
                    f"{self.plan.name} does not run {self.bodies[place].own_name}.__init__",
                )
            case _:
                self.kept.append(decorator)

    def _inherit_experts(
        self, decorator: Decorator, place: int, changed: frozenset[str], restated: bool
    ) -> None:
        refusal = experts.refusal(self.bodies, place, changed, self.order, restated)
        if refusal:
            self._refuse("PG225", place, decorator, refusal.why, refusal.hint)
        elif restated:
            pass
        elif "forward" in changed:
            self._drop(decorator, place, f"{self.plan.name} has a forward of its own")
        else:
            self.kept.append(decorator)

    def _changed(self, place: int) -> frozenset[str]:
        """What the flat class has otherwise than the class at `place` and those behind it."""
        return self.edited | frozenset(name for body in self.bodies[:place] for name in body.names)

    def _drop(self, decorator: Decorator, place: int, because: str) -> None:
        what = RULES.get(decorator.short_name, ("", "belongs to a method of the parent"))[1]
        own = self.bodies[place].own_name
        self.notes.append(f"@{decorator.short_name} of {own} is dropped: it {what}, and {because}")

    def _refuse(self, code: str, place: int, decorator: Decorator, why: str, hint: str) -> None:
        body = self.bodies[place]
        what = f"{body.own_name} is decorated with {decorator.name}, {why}"
        self.problems.append(
            PatchgenError(code, body.block.at(decorator.line, 0), what, hint).problem
        )


def _keywords(bodies: Sequence[ClassBody]) -> tuple[list[str], list[Problem]]:
    """The keywords of the class statement: the child's, and of the parents' what must be inherited."""
    own = {keyword.arg: ast.unparse(keyword.value) for keyword in bodies[0].node.keywords}
    problems = []
    for place, body in enumerate(bodies[1:], start=1):
        for keyword in body.node.keywords:
            value = ast.unparse(keyword.value)
            if own.get(keyword.arg) == value or (keyword.arg == "metaclass" and keyword.arg in own):
                continue
            if keyword.arg == "metaclass" or (
                keyword.arg == "total" and not _adds_fields(bodies[:place])
            ):
                own.setdefault(keyword.arg, value)
                continue
            what = f"{body.own_name} is made with {keyword.arg or '**'}={value}, which its child does not say"
            at = body.block.at(keyword.lineno, keyword.col_offset)
            problems.append(
                PatchgenError(
                    "PG221", at, what, f"write {keyword.arg}={value} in the child too"
                ).problem
            )
    return [f"{name}={value}" if name else f"**{value}" for name, value in own.items()], problems


def _type_parameters(bodies: Sequence[ClassBody]) -> list[Problem]:
    """`class Parent[T]` names T in its body, which the flat class must name too."""
    own = [ast.unparse(p) for p in getattr(bodies[0].node, "type_params", [])]
    problems = []
    for body in bodies[1:]:
        for parameter in getattr(body.node, "type_params", []):
            if ast.unparse(parameter) not in own:
                what = f"{body.own_name} has a type parameter {ast.unparse(parameter)}, which its child does not have"
                hint = f"write class {bodies[0].own_name}[{ast.unparse(parameter)}]"
                problems.append(PatchgenError("PG221", body.at_head(), what, hint).problem)
    return problems


def _adds_fields(bodies: Sequence[ClassBody]) -> bool:
    return any(isinstance(s.node, ast.AnnAssign) for body in bodies for s in body.statements)


def _class_line(child: ClassBody, plan: ClassPlan, keywords: Iterable[str]) -> str:
    """`class Name(bases):`, with a comment that stood behind the child's colon."""
    parameters: list[ast.AST] = getattr(child.node, "type_params", [])
    generic = f"[{', '.join(ast.unparse(p) for p in parameters)}]" if parameters else ""
    arguments = ", ".join([*plan.bases, *keywords])
    return f"class {plan.name}{generic}{f'({arguments})' if arguments else ''}:{child.comment}\n"

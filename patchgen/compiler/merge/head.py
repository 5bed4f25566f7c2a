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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchgen.compiler.merge.members import ClassBody, Decorator, Statement
from patchgen.compiler.merge.uses import calls_inherited, first_parameter
from patchgen.compiler.plan.model import ClassPlan
from patchgen.facts.decorators import RULES, SET_BY_EXPERTS, Rule
from patchgen.syntax.errors import Problem
from patchgen.syntax.trees import Function, walk


def make_class_head(
    plan: ClassPlan,
    bodies: Sequence[ClassBody],
    edited: frozenset[str],
    order: Sequence[Statement],
    further: Mapping[str, str],
) -> tuple[str, list[str], list[Problem]]:
    """The decorators and the class line of the flat class, notes on what is left out, and problems.

    `edited` are the methods with edits, `order` is the class body.  `further` are decorators that
    the project knows, each with the method whose override makes it useless.
    """
    chosen = _Chosen(plan, bodies, edited, order, further, list(bodies[0].decorators))
    # From the nearest parent on, so that nearer decorators come first.
    for level, body in enumerate(bodies[1:], start=1):
        for decorator in body.decorators:
            chosen.inherit(decorator, level)
    keywords: dict[str | None, str] = {}
    # The only keyword of a merged parent is a metaclass, which its child inherits.
    for body in reversed(bodies):
        keywords |= {keyword.arg: ast.unparse(keyword) for keyword in body.node.keywords}
    arguments = ", ".join([*plan.bases, *keywords.values()])
    # A class without bases has no brackets.
    brackets = f"({arguments})" if arguments else ""
    line = f"class {plan.name}{brackets}:{bodies[0].comment}\n"
    text = "".join(decorator.text for decorator in chosen.kept) + line
    return text, chosen.notes, chosen.problems


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

    def inherit(self, decorator: Decorator, level: int) -> None:
        """Keep, drop or refuse a decorator of the class at `level` in the chain."""
        name = decorator.short_name
        rule = RULES[name][0] if name in RULES else None
        # `kept` begins with the child's own decorators.
        is_restated = any(other.short_name == name for other in self.kept)
        is_repeated = any(other.text == decorator.text for other in self.kept)
        # The members in which the flat class differs from the class at `level`.
        nearer = self.bodies[:level]
        changed = self.edited.union(*(body.names for body in nearer))
        because = f"{self.plan.name} has a forward of its own"
        if rule is Rule.EXPERTS:
            refusal = _find_refusal(self.bodies, level, changed, self.order, is_restated)
            if refusal:
                why, hint = refusal
                what = f"{self.bodies[level].own_name} is decorated with {decorator.name}, {why}"
                at = self.bodies[level].block.at(decorator.line, 0)
                self.problems.append(Problem(at, "PG225", what, hint))
            elif not is_restated and "forward" in changed:
                self._drop(decorator, level, because)
            elif not is_restated:
                self.kept.append(decorator)
        elif rule is Rule.REGISTERS:
            if is_repeated:
                return
            overrides = _find_definitions(nearer, "__init__")
            if all(calls_inherited(override, "__init__") for override in overrides):
                self.kept.append(decorator)
                return
            owner = self.bodies[level].own_name
            self._drop(decorator, level, f"{self.plan.name} does not run {owner}.__init__")
        elif is_restated:
            return  # the child's own decorator counts
        elif rule is None and self.further[name] in changed:
            self._drop(decorator, level, f"{self.plan.name} has a {self.further[name]} of its own")
        elif rule is Rule.KERNEL and changed & _collect_self_uses(self.bodies[level:], "forward"):
            self._drop(decorator, level, because)
        else:
            self.kept.append(decorator)

    def _drop(self, decorator: Decorator, level: int, because: str) -> None:
        # Decorators of the project have no rule; they go with the method that they are for.
        what = RULES.get(decorator.short_name, ("", "belongs to a method of the parent"))[1]
        owner = self.bodies[level].own_name
        self.notes.append(
            f"@{decorator.short_name} of {owner} is dropped: it {what}, and {because}"
        )


def _find_definitions(bodies: Sequence[ClassBody], name: str) -> Iterator[ast.stmt]:
    for body in bodies:
        for statement in body.binders(name):
            yield statement.node


def _find_self_attributes(statements: Sequence[Statement]) -> Iterator[ast.Attribute]:
    for statement in statements:
        if not isinstance(statement.node, Function):
            continue
        receiver = first_parameter(statement.node)
        for node in walk(statement.node):
            match node:
                case ast.Attribute(value=ast.Name(id=owner)) if owner == receiver:
                    yield node


def _collect_self_uses(bodies: Sequence[ClassBody], method: str) -> frozenset[str]:
    """`method` and the members that it reads through `self`, they in turn, and so on."""
    names: set[str] = set()
    waiting = [method]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            # Of several classes, the first one that has the member counts.
            binders = next((body.binders(name) for body in bodies if name in body.names), ())
            waiting += [attribute.attr for attribute in _find_self_attributes(binders)]
    return frozenset(names)


# `use_experts_implementation` wraps `forward` and `__init__` of its class.  The wrapped `__init__`
# sets attributes after the class's own.  The wrapped `forward` calls the implementation that the
# configuration names.  A class derived from the decorated one inherits both, but an override of
# `forward` is not wrapped.  So the flat class keeps the decorator unless it has a `forward` of its
# own, and then must not use what the decorator sets.


def _find_refusal(
    bodies: Sequence[ClassBody],
    level: int,
    changed: frozenset[str],
    order: Sequence[Statement],
    restated: bool,
) -> tuple[str, str] | None:
    """Why the decorator of the class at `level` can neither stay nor go, and what to write.

    `restated`: the child has the decorator too.
    """
    nearer = bodies[:level]
    overrides = _find_definitions(nearer, "forward")
    if any(calls_inherited(override, "forward") for override in overrides):
        why = "and super().forward means the forward that it wraps"
        return why, "write out what the parent's forward does"
    if "forward" in changed and not restated:
        used = list(_find_self_attributes(order))
        bound = set[str]().union(*(statement.names for statement in order))
        bound |= {node.attr for node in used if isinstance(node.ctx, ast.Store)}
        # Without the decorator, nothing would set these.
        missed = sorted({node.attr for node in used} & SET_BY_EXPERTS - bound)
        if not missed:
            return None
        why = f"which sets {missed[0]}; the class has its own forward and may still need that"
        own_name = bodies[0].own_name
        return why, f"decorate {own_name} with it too, or set {missed[0]} in __init__"
    # From here on, the decorator stays, and wraps the `__init__` of the flat class.
    if "__init__" not in changed:
        return None
    for body in nearer:
        used = list(_find_self_attributes(body.binders("__init__")))
        if any(node.attr in SET_BY_EXPERTS for node in used):
            why = "which sets attributes after __init__ that the child's __init__ uses"
            return why, "give the child's attribute another name"
    names = set()
    for node in _find_definitions(bodies[: level + 1], "__init__"):
        if isinstance(node, Function):
            arguments = node.args.args
            names.add(arguments[1].arg if len(arguments) > 1 else "")
    if len(names) > 1:
        why = "whose __init__ takes the configuration first, and the child's takes something else"
        return why, "take the same first argument under the same name"
    return None

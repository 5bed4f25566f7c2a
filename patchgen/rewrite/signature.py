"""The head of a flat class: decorators, name, bases and keywords, and who of the chain has the say.

Python would decorate every class of the chain; a flat class is decorated once.  `RULES` says what that means for each
class decorator that the models of transformers use; one that is not listed may do anything, so the child has to
restate it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.errors import PatchgenError, Problem
from patchgen.plan.model import ClassPlan
from patchgen.rewrite.classbody import ClassBody, Decorator

DOCUMENTS, FIELDS, SWAPS, REGISTERS, CHECKS = "documents", "fields", "swaps", "registers", "checks"

RULES: dict[str, tuple[str, str]] = {
    "auto_docstring": (DOCUMENTS, "writes __doc__ and nothing else"),
    "add_start_docstrings": (DOCUMENTS, "writes __doc__ and nothing else"),
    "dataclass": (FIELDS, "makes fields of the annotations of the class that it stands on"),
    "strict": (FIELDS, "checks the fields of the class that it stands on"),
    "use_kernel_forward_from_hub": (SWAPS, "replaces `forward` by a kernel of that name, overridden or not"),
    "use_experts_implementation": (SWAPS, "wraps `forward` and `__init__` of the class that it stands on"),
    "use_kernelized_func": (REGISTERS, "registers module functions, which kernels may then replace, for `forward`"),
    "requires": (CHECKS, "names packages that must be installed"),
}


@dataclass(frozen=True, slots=True)
class Head:
    """The text above the body of a flat class; `notes` say what was left out, and why."""

    text: str
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def class_head(plan: ClassPlan, bodies: Sequence[ClassBody], changed: frozenset[str]) -> Head:
    """Decorators and class line of the flat class; `changed` are the members that the parents' are not any more."""
    kept, notes, problems = _decorators(plan, bodies, changed)
    keywords, more = _keywords(bodies)
    line = _class_line(bodies[0], plan, keywords)
    return Head("".join(d.text for d in kept) + line, tuple(notes), (*problems, *more))


def short_name(decorator: Decorator) -> str:
    """What the decorator is called, whatever module it is reached by."""
    return decorator.name.rpartition(".")[2]


def _decorators(
    plan: ClassPlan, bodies: Sequence[ClassBody], changed: frozenset[str]
) -> tuple[list[Decorator], list[str], list[Problem]]:
    kept = list(bodies[0].decorators)
    notes: list[str] = []
    problems: list[Problem] = []
    for body in bodies[1:]:
        stated = {short_name(decorator) for decorator in kept}
        for decorator in body.decorators:
            name = short_name(decorator)
            if name in stated:
                continue
            kind, why = RULES.get(name, ("", ""))
            if not kind:
                at = body.piece.at(decorator.line, 4)
                what = f"{body.own_name} is decorated with {decorator.name}, of which patchgen knows nothing"
                hint = f"decorate {plan.name} with it too, or with what shall stand in its place"
                problems.append(PatchgenError("PG220", at, what, hint).problem)
            elif kind == SWAPS and "forward" in changed:
                notes.append(
                    f"@{name} of {body.own_name} is dropped: it {why}, and {plan.name} has a forward of its own"
                )
            else:
                kept.append(decorator)
    return kept, notes, problems


def _keywords(bodies: Sequence[ClassBody]) -> tuple[list[str], list[Problem]]:
    own = {keyword.arg: ast.unparse(keyword.value) for keyword in bodies[0].node.keywords}
    problems = []
    for body in bodies[1:]:
        for keyword in body.node.keywords:
            value = ast.unparse(keyword.value)
            if keyword.arg in own:
                if keyword.arg == "metaclass" or own[keyword.arg] == value:
                    continue
            elif keyword.arg == "metaclass" or (keyword.arg == "total" and not _adds_fields(bodies, body)):
                own[keyword.arg] = value
                continue
            what = f"{body.own_name} is made with {keyword.arg}={value}, which its child does not say"
            at = body.piece.at(keyword.lineno, keyword.col_offset)
            problems.append(PatchgenError("PG221", at, what, f"write {keyword.arg}={value} in the child too").problem)
    return [f"{name}={value}" if name else f"**{value}" for name, value in own.items()], problems


def _adds_fields(bodies: Sequence[ClassBody], parent: ClassBody) -> bool:
    before = bodies[: bodies.index(parent)]
    return any(isinstance(s.node, ast.AnnAssign) for body in before for s in body.statements)


def _class_line(child: ClassBody, plan: ClassPlan, keywords: Iterable[str]) -> str:
    """`class Name(bases):`, with a comment that stood behind the child's colon."""
    generic = _type_parameters(child)
    arguments = ", ".join([*plan.bases, *keywords])
    comment = child.head[child.head.rfind(":") + 1 :] if _has_comment(child.head) else ""
    return f"class {plan.name}{generic}{f'({arguments})' if arguments else ''}:{comment}\n"


def _type_parameters(child: ClassBody) -> str:
    parameters: list[ast.AST] = getattr(child.node, "type_params", [])
    return f"[{', '.join(ast.unparse(p) for p in parameters)}]" if parameters else ""


def _has_comment(head: str) -> bool:
    return "#" in head.rpartition("\n")[2]

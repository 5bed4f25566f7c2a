"""Write a declaration, prove it, and rewrite what the converter did not reproduce."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.classes import DeclaredDefinition, Doubts
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.proof import Proof, has_changes, prove
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import File, read_file
from patchgen.author.modular_text import format_modular
from patchgen.compiler.emit.validate import FAULTS
from patchgen.compiler.plan.bindings import KEPT
from patchgen.compiler.settings import Settings
from patchgen.facts.decorators import RULES
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.lines import code_lines
from patchgen.syntax.same import is_documenting
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import short_name, statement_at

_MOST_ROUNDS = 12


@dataclass(frozen=True)
class Adopted:
    """The formatted declaration of a fork, and its proof."""

    forked: ForkedModel
    text: str
    definitions: tuple[DeclaredDefinition, ...]
    proof: Proof
    is_own_text: bool = False

    @property
    def lines(self) -> int:
        """The declaration's lines of code."""
        return code_lines(self.text)


def adopt(
    forked: ForkedModel,
    name: str,
    root: Path | None,
    settings: Settings,
    *,
    has_faults: bool = False,
) -> Adopted:
    """The declaration of a fork as the file `name`.

    If the result differs from the fork, the differing members are declared at greater length.
    What is wrong in a fork that `has_faults` of its own stays.

    Raises PatchgenError PG806 for a copy in which nothing was changed.
    """
    if not has_changes(forked):
        what = f"is {forked.module} but for documentation, order and what it leaves out"
        hint = "use the model of transformers: there is nothing to declare"
        raise PatchgenError("PG806", Location(forked.fork.source.path), what, hint)
    registries = tuple((name, "") for name in unknown_decorators(forked.fork))
    settings = replace(settings, decorators=(*settings.decorators, *registries))
    doubts = Doubts()
    attempts: list[Adopted] = []
    for _ in range(_MOST_ROUNDS):
        declaration = declare(forked, doubts)
        text = format_modular(declaration.text, settings)
        proof = prove(text, forked, name, root, settings)
        adopted = Adopted(forked, text, declaration.definitions, proof)
        faults: tuple[Problem, ...] = ()
        if has_faults:
            adopted, faults = _with_faults(adopted, name, root, settings)
        if adopted.proof.holds:
            return replace(adopted, proof=replace(adopted.proof, problems=faults))
        attempts.append(adopted)
        wider = _wider(doubts, adopted)
        if wider == doubts:
            break
        doubts = wider
    return min(reversed(attempts), key=lambda attempt: _left(attempt.proof))


def unknown_decorators(fork: File) -> tuple[str, ...]:
    """What decorates the fork's classes and is not transformers': a registry of the fork's package.

    The converter keeps one that the project's configuration names.
    """
    names: dict[str, None] = {}
    for class_name in fork.classes:
        node = fork.definitions[class_name].node
        assert isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list:
            name = short_name(decorator)
            if name not in RULES and not is_documenting(decorator):
                names[name] = None
    return tuple(names)


def _with_faults(
    adopted: Adopted, name: str, root: Path | None, settings: Settings
) -> tuple[Adopted, tuple[Problem, ...]]:
    """The declaration with a mark at what is wrong in it, so that it stays, and what that is.

    Where the output is the fork with these faults, they are the fork's own.
    """
    faults: tuple[Problem, ...] = ()
    marked = adopted
    while problems := marked.proof.problems:
        if any(problem.code not in FAULTS for problem in problems):
            return adopted, ()
        lines = marked.text.split("\n")
        tree = ast.parse(marked.text)
        for _, last in {statement_at(tree, problem.at.line) for problem in problems}:
            if KEPT in lines[last - 1]:
                return adopted, ()
            lines[last - 1] += f"  {KEPT}"
        text = "\n".join(lines)
        faults += problems
        proof = prove(text, marked.forked, name, root, settings)
        marked = replace(marked, text=text, proof=proof)
    return marked, faults


def _left(proof: Proof) -> tuple[bool, int]:
    """How far a proof is from one that holds."""
    left = (proof.differ, proof.missing, proof.lost, proof.problems)
    return not proof.output, sum(map(len, left))


def _wider(doubts: Doubts, adopted: Adopted) -> Doubts:
    """`doubts` and what the converter could not reproduce in `made`."""
    proof = adopted.proof
    forked = adopted.forked
    places = {part.name: part.places for part in adopted.definitions if part.places}
    for problem in proof.problems:
        at = problem.origin if problem.is_carried else problem.at
        # `transformers/models/...` is the parent's file.
        if at.path.rpartition("/")[2].startswith("modular_"):
            owner, method = _place(ast.parse(adopted.text).body, at.line)
        else:
            owner, _ = _place(forked.parent.tree.body, at.line)
            method = ""
            if owner not in forked.fork.definitions:
                owner = ""
        doubts = doubts.lacking({owner} & forked.fork.definitions.keys())
        if owner:
            doubts = doubts.about(owner, method)
        elif problem.code != "PG100":  # a statement that no modular file may have stays refused
            for name in places:
                doubts = doubts.about(name, method)
    for name in proof.differ:
        differ = _differing(adopted, name)
        methods = []
        for _, method in places.get(name, ()):
            if method in differ and (name, method) not in doubts.edits:
                methods.append(method)
        if not methods and name not in doubts.definitions:
            # Its decorators may be all that differs.
            doubts = doubts.lacking([name])
            continue
        for method in methods or [""]:
            doubts = doubts.about(name, method)
    return doubts.lacking(proof.missing)


def _at(nodes: Iterable[ast.stmt], line: int) -> ast.stmt | None:
    """The statement that stands at a line."""
    return next((n for n in nodes if first_line(n) <= line <= (n.end_lineno or 0)), None)


def _differing(adopted: Adopted, name: str) -> frozenset[str]:
    """The members of a class that did not come out as in the fork."""
    output = read_file(make_source(adopted.proof.output, "output.py"))
    theirs = adopted.forked.fork.definitions[name]
    # A configuration stands in a file beside the output.
    mine = output.definitions.get(name, theirs)
    if not mine.kind == theirs.kind == "class":
        return frozenset()
    written = mine.members
    wanted = theirs.members
    differing = written.keys() ^ wanted.keys()
    for member in written.keys() & wanted.keys():
        if written[member].says != wanted[member].says:
            differing.add(member)
    return frozenset(differing)


def _place(body: Sequence[ast.stmt], line: int) -> tuple[str, str]:
    """The class or function at `line` of a file, and the method that is edited there."""
    node = _at(body, line)
    name = getattr(node, "name", "")
    member = _at(node.body, line) if isinstance(node, ast.ClassDef) else None
    for decorator in getattr(member, "decorator_list", ()):
        match decorator:
            case ast.Call(func=ast.Name("edit"), args=[ast.Constant(value=str(method))]):
                return name, method
    return name, ""

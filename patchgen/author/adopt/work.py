"""Write a declaration, prove it, and rewrite what the converter did not reproduce."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.adopt.classes import DeclaredDefinition, Doubts
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.proof import Proof, has_changes, own_statements, prove
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import Definition, read_file
from patchgen.compiler.emit.format import format_modular
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.same import is_docstring, plain_text
from patchgen.syntax.text import make_source

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

    @property
    def fork_lines(self) -> int:
        """The fork's lines of code."""
        return code_lines(self.forked.fork.source.text)


def adopt(forked: ForkedModel, name: str, root: Path | None, settings: Settings) -> Adopted:
    """The declaration of a fork as the file `name`.

    If the result differs from the fork, the differing members are declared at greater length.

    Raises PatchgenError PG806 for a copy in which nothing was changed.
    """
    if not has_changes(forked):
        what = f"is {forked.module} but for documentation, order and what it leaves out"
        raise PatchgenError(
            "PG806",
            Location(forked.fork.source.path),
            what,
            "use the model of transformers: there is nothing to declare",
        )
    doubts = Doubts()
    best: Adopted | None = None
    for _ in range(_MOST_ROUNDS):
        declaration = declare(forked, doubts)
        text = format_modular(declaration.text, settings)
        proof = prove(text, forked, name, root, settings)
        made = Adopted(forked, text, declaration.definitions, proof)
        if proof.holds:
            return made
        if best is None or (bool(proof.output), -_left(proof)) >= (
            bool(best.proof.output),
            -_left(best.proof),
        ):
            best = made
        wider = _wider(doubts, made)
        if wider == doubts:
            break
        doubts = wider
    assert best is not None
    return best


def _left(proof: Proof) -> int:
    return len(proof.differ) + len(proof.missing) + len(proof.lost) + len(proof.problems)


def _wider(doubts: Doubts, made: Adopted) -> Doubts:
    """`doubts` and what the converter could not reproduce in `made`."""
    proof = made.proof
    for problem in proof.problems:
        # `transformers/models/...` is the parent's file.
        is_own = problem.at.path.rpartition("/")[2].startswith("modular_")
        owner, method = _place(made, problem.at.line) if is_own else ("", "")
        refused = _statement_at(made, problem.at.line) if is_own and not owner else None
        owner = owner or ("" if is_own else _class_of_parent(made.forked, problem.at.line))
        if owner:
            doubts = doubts.lacking([owner] if owner in made.forked.fork.definitions else [])
            doubts = doubts.about(owner, method)
        elif refused is not None and problem.code == "PG100":
            doubts = doubts.lacking([], [refused])
        else:
            for one in made.definitions:
                if one.state == "edited":
                    doubts = doubts.about(one.name)
    by_name = {one.name: one for one in made.definitions}
    for name in proof.differ:
        if name not in by_name:
            doubts = doubts.lacking([name]).about(name)
        else:
            doubts = _of_class(doubts, by_name[name], _differing(made, name))
    return doubts.lacking(proof.missing)


def _class_of_parent(forked: ForkedModel, line: int) -> str:
    """The class of the fork whose parent stands at `line` of the parent's file."""
    for name in forked.parent.classes:
        node = forked.parent.definitions[name].node
        if first_line(node) <= line <= (node.end_lineno or 0) and name in forked.fork.definitions:
            return name
    return ""


def _differing(made: Adopted, name: str) -> frozenset[str]:
    """The members of a class that did not come out as in the fork."""
    mine = read_file(make_source(made.proof.output, "output.py")).definitions[name]
    theirs = made.forked.fork.definitions[name]
    if mine.kind != "class" or theirs.kind != "class":
        return frozenset()
    names = {*mine.members, *theirs.members}
    return frozenset(n for n in names if _of_member(mine, n) != _of_member(theirs, n))


def _of_member(definition: Definition, name: str) -> list[str]:
    return (
        [plain_text(node) for node in definition.members[name].nodes]
        if name in definition.members
        else []
    )


def _of_class(doubts: Doubts, declared: DeclaredDefinition, differ: frozenset[str]) -> Doubts:
    """Doubt a class that differs from the fork's.

    The edits of what differs are in doubt first, then the class itself.
    """
    edited = [
        name
        for _, name in declared.places
        if name in differ and (declared.name, name) not in doubts.edits
    ]
    if not edited or declared.state != "edited":
        return doubts.about(declared.name)
    for method in edited:
        doubts = doubts.about(declared.name, method)
    return doubts


def _statement_at(made: Adopted, line: int) -> ast.stmt | None:
    """The statement of the fork that stands at `line` of its declaration."""
    for node in ast.parse(made.text).body:
        if node.lineno <= line <= (node.end_lineno or 0):
            said = ast.unparse(node).replace(f"{made.forked.alias}.", "")
            own = own_statements(made.forked)
            alike = [one for one in own if ast.unparse(one) == said]
            names = {*bound_names([node])}
            alike += [one for one in own if names and names == {*bound_names([one])}]
            return alike[0] if alike else None
    return None


def _place(made: Adopted, line: int) -> tuple[str, str]:
    """The class or function at `line` of a declaration, and the method that is edited there."""
    for node in ast.parse(made.text).body:
        if not first_line(node) <= line <= (node.end_lineno or 0):
            continue
        if not isinstance(node, ast.ClassDef):
            return getattr(node, "name", ""), ""
        for inner in node.body:
            match inner:
                case ast.FunctionDef(
                    decorator_list=[
                        ast.Call(func=ast.Name(id="edit"), args=[ast.Constant(value=m)])
                    ]
                ):
                    if inner.decorator_list[0].lineno <= line <= (inner.end_lineno or 0):
                        return node.name, str(m)
        return node.name, ""
    return "", ""


def code_lines(text: str) -> int:
    """The lines of `text` that hold code: no blank lines, comments or docstrings."""
    tree = ast.parse(text)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    held = {
        line for node in statements for line in range(first_line(node), (node.end_lineno or 0) + 1)
    }
    docstrings = {
        line
        for node in statements
        if is_docstring(node)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    lines = text.split("\n")
    return sum(
        1
        for n in held - docstrings
        if lines[n - 1].strip() and not lines[n - 1].lstrip().startswith("#")
    )

"""A file whose classes derive from those that it imports: its own text is the declaration.

class ModifiedLlamaAttention(LlamaAttention):
    ...

The converter puts such a class wherever code of the parent builds the class that it derives from.
The file itself does not, so a declaration in which that happens is refused.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen.author.adopt.classes import DeclaredDefinition
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.parents import modeling_files
from patchgen.author.adopt.proof import Proof
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.work import Adopted
from patchgen.author.align.file import Definition, File, read_file
from patchgen.author.modular_text import flatten_text, format_modular, output_name
from patchgen.author.resolve import resolver_of
from patchgen.compiler.plan.bindings import KEPT
from patchgen.compiler.settings import Settings
from patchgen.syntax.bound import names_in
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.text import make_source, read_source

_RELATIVE = re.compile(r"^(\s*from )(\.+)([\w.]*)( import .*)$", re.MULTILINE)
_OF_MODELS = re.compile(r"\.(?:modeling|configuration)_\w+$")


def adopt_subclasses(
    path: Path, fork: File, releases: Sequence[Release], name: str, settings: Settings
) -> tuple[Adopted, Release] | None:
    """The declaration and the newest release that it fits; None for a file of another kind.

    If it fits none, those with the fewest problems, which are at the lines of the file.
    """
    source = read_source(path, display_path=fork.source.path)
    text = _RELATIVE.sub(_absolute, source.text)
    written = read_file(make_source(text, fork.source.path))
    tried: list[tuple[Adopted, Release]] = []
    for release in reversed(releases):
        root = release.root()
        there = dict(modeling_files(release))
        bases = _bases(written, there, root)
        homes = Counter(module for module, _ in bases.values())
        if len(bases) * 2 < len(fork.classes) or not homes:
            continue
        module, _ = homes.most_common(1)[0]
        parent = read_file(read_source(there[module], module))
        pairs = {new: old for new, (home, old) in bases.items() if home == module}
        renamed = [new for new, old in pairs.items() if new != old]
        # A class that the parent has itself was copied.
        if any(new in parent.classes for new in renamed):
            return None
        forked = ForkedModel(parent, fork, module, pairs, root=root)
        proof = _proved(text, written, forked, name, settings)
        states = []
        for definition in fork.definitions:
            state = "edited" if definition in bases else "new"
            states.append(DeclaredDefinition(definition, state, ()))
        formatted = format_modular(text, settings)
        adopted = Adopted(forked, formatted, tuple(states), proof, is_own_text=True)
        if proof.holds:
            return adopted, release
        tried.append((adopted, release))
    return min(tried, key=lambda attempt: len(attempt[0].proof.problems), default=None)


def _proved(text: str, written: File, forked: ForkedModel, name: str, settings: Settings) -> Proof:
    """What flattening the file gives.  The lines of the declaration are those of the file."""
    files, problems = flatten_text(text, name, forked.root, settings)
    output = files.get(output_name(name), "")
    if not problems:
        flat = read_file(make_source(output, "output.py"))
        problems = tuple(_rebuilt(written, flat, forked))
    placed = []
    for problem in problems:
        if problem.at.path.rpartition("/")[2] == name:
            problem = replace(problem, at=replace(problem.at, path=written.source.path))
        placed.append(problem)
    return Proof("" if placed else output, tuple(placed))


def _absolute(line: re.Match[str]) -> str:
    """A relative import as the modular file has it: one that stays, or one of transformers."""
    begin, dots, module, rest = line.groups()
    above = {2: "transformers.models.", 3: "transformers."}.get(len(dots), "")
    if len(dots) == 3 or (above and _OF_MODELS.search(f".{module}")):
        return f"{begin}{above}{module}{rest}".replace(". import", " import")
    return f"{begin}{dots}{module}{rest}  {KEPT}"


def _bases(file: File, there: Mapping[str, Path], root: Path) -> dict[str, tuple[str, str]]:
    """The classes that derive from classes of modeling files, each with that file and class."""
    resolver = resolver_of(root)
    derived: dict[str, tuple[str, str]] = {}
    for name in file.classes:
        node = file.definitions[name].node
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            of_file = derived.get(ast.unparse(base))
            origin = of_file or resolver.meaning(file, base)
            if origin is not None and origin[0] in there:
                derived[name] = origin
    return derived


def _rebuilt(written: File, output: File, forked: ForkedModel) -> Iterator[Problem]:
    """Code of the parent that has a class of the file in the output, and not in the file."""
    for name in output.classes:
        flat = output.definitions[name]
        mine = written.definitions.get(name)
        said = {name}
        if mine is not None:
            said |= names_in(mine.nodes)
        bases = [ast.unparse(base) for base in getattr(flat.node, "bases", [])]
        rebuilt = names_in(flat.nodes) & forked.pairs.keys()
        for other in sorted(rebuilt - said):
            theirs = written.definitions[other]
            old = forked.pairs[other]
            # A base that says what the class says itself changes nothing.
            if mine is not None and other in bases and _says(theirs) <= _says(mine):
                continue
            at = Location(written.source.path, (mine or theirs).node.lineno, 1)
            what = f"{name} of the output has {other} where {forked.module} has {old}"
            hint = f"override what names {old} there, so that the file itself says which is meant"
            yield Problem(at, "PG819", what, hint)


def _says(definition: Definition) -> set[str]:
    """The members of a class, as text."""
    return {text for member in definition.members.values() for text in member.says}

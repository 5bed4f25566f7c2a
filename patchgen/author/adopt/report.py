"""The report on an adopted fork: how equal it is, and how long beside its diff."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from patchgen.author.adopt.parents import Candidate
from patchgen.author.adopt.work import Adopted, unknown_decorators
from patchgen.author.align.file import File, read_file
from patchgen.syntax.blocks import first_line
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Function

# What a changed place may cost beside the lines that its diff adds, and what a file may.
A_PLACE, A_FILE = 6, 6


@dataclass(frozen=True)
class Report:
    """The answer to `patchgen adopt`."""

    adopted: Adopted
    found: Candidate
    file: str
    runner_up: Candidate | None = None

    @cached_property
    def diff(self) -> tuple[int, int]:
        """The lines of code that the fork's diff adds to the parent, and its places."""
        forked = self.adopted.forked
        old, new = (_lines_of_code(file) for file in (forked.parent, forked.fork))
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        changed = [m - j for tag, _, _, j, m in blocks if tag != "equal"]
        return sum(changed), len(changed)

    @property
    def verdict(self) -> str:
        """Whether the declaration is about as long as the diff."""
        added, places = self.diff
        is_short = self.adopted.lines <= added + A_PLACE * places + A_FILE
        return "short" if is_short else "long"

    @property
    def equality(self) -> str:
        """The strictest equality that holds between the output and the fork."""
        adopted = self.adopted
        fork = adopted.forked.fork
        if not adopted.proof.holds:
            return "not equal"
        if adopted.proof.left:
            return f"the same definitions, without {len(adopted.proof.left)} statements at import"
        if adopted.is_own_text:
            return "the text of the file itself, whose classes derive from those of transformers"
        output = read_file(make_source(adopted.proof.output, "output.py"))
        if _texts(fork) == _texts(output):
            return "the same text after formatting"
        if adopted.proof.strict >= fork.classes_and_functions.keys():
            return "the same syntax"
        return "the same syntax but for docstrings, annotations and decorators for documentation"

    def states(self) -> dict[str, str]:
        """What became of each class and function: unchanged, edited, replaced, new or gone."""
        states = dict.fromkeys(self.adopted.forked.fork.classes_and_functions, "unchanged")
        for part in self.adopted.definitions:
            if part.state != "named" and part.name in states:
                states[part.name] = part.state
        return states | dict.fromkeys(self.adopted.proof.more, "gone")

    def data(self) -> dict[str, Any]:
        """The report as data for JSON."""
        adopted = self.adopted
        return {
            "fork": adopted.forked.fork.source.path,
            "parent": adopted.forked.module,
            "release": self.found.release.version,
            "runner_up": self.runner_up and str(self.runner_up),
            "file": self.file,
            "regenerates": adopted.proof.holds,
            "equality": self.equality,
            "verdict": self.verdict,
            "lines": adopted.lines,
            "diff_lines": self.diff[0],
            "diff_places": self.diff[1],
            "definitions": self.states(),
            "differ": list(adopted.proof.differ),
            "missing": list(adopted.proof.missing),
            "lost": [ast.unparse(node) for node in adopted.proof.lost],
            "left": [ast.unparse(node) for node in adopted.proof.left],
            "problems": [problem.data() for problem in adopted.proof.problems],
            "declaration": adopted.text,
        }

    def text(self) -> str:
        """The report as text."""
        adopted = self.adopted
        proof = self.adopted.proof
        states = self.states()
        width = max(map(len, states), default=0)
        changed = {name: state for name, state in states.items() if state != "unchanged"}
        same = len(states) - len(changed)
        lines = [
            f"{adopted.forked.fork.source.path}: {self.found}",
            *(f"  {name:{width}}  {state}" for name, state in changed.items()),
            f"  {same} more unchanged" if same else "",
            f"{self.equality}; {adopted.lines} lines of code for a diff that adds {self.diff[0]} "
            f"in {self.diff[1]} places: {self.verdict}",
        ]
        if self.runner_up is not None:
            lines.append(f"next would be {self.runner_up}: --parent and --release take another")
        if proof.more and proof.output:
            lines.append(f"note: the output keeps what the fork left out: {', '.join(proof.more)}")
        if proof.heads:
            lines.append(
                "note: these heads build the model of the output; in the fork they build that of "
                f"transformers: {', '.join(proof.heads)}"
            )
        registries = unknown_decorators(adopted.forked.fork)
        if registries:
            table = ", ".join(f'{name} = ""' for name in registries)
            lines.append(f"note: `convert` needs `decorators = {{{table}}}` in [tool.patchgen]")
        for node in proof.left:
            what = ast.unparse(node).partition("\n")[0]
            lines.append(f"note: the output does not run line {node.lineno}: {what}")
        if proof.holds and proof.problems:
            lines.append("note: the fork is wrong here, and so is the output:")
        lines += [*(f"  {problem}" for problem in proof.problems), *_differences(adopted)]
        return "\n".join(line for line in lines if line) + "\n"


def _texts(file: File) -> dict[str, str]:
    """The text of each class and function."""
    return {name: _text(file, name) for name in file.classes_and_functions}


def _text(file: File, name: str) -> str:
    node = file.definitions[name].node
    return file.source.slice(first_line(node), node.end_lineno or 0)


def _lines_of_code(file: File) -> list[str]:
    """The lines of the definitions, without docstrings, comments and layout."""
    tree = copy.deepcopy(file.tree)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Module | ast.ClassDef | Function) and ast.get_docstring(inner):
            inner.body = inner.body[1:] or [ast.Pass()]
    lines = []
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            lines.extend(ast.unparse(node).split("\n"))
    return lines


def _differences(adopted: Adopted) -> Iterator[str]:
    """The parts of the fork that the output lacks, as a diff."""
    fork = adopted.forked.fork
    if adopted.proof.missing:
        yield f"missing: {', '.join(adopted.proof.missing)}"
    for node in adopted.proof.lost:
        yield f"not run by the output: {ast.unparse(node)}"
        yield "    hint: what acts when it is imported belongs into a module of its own"
    if not adopted.proof.differ:
        return
    output = read_file(make_source(adopted.proof.output, "output.py"))
    for name in adopted.proof.differ:
        mine, theirs = (_text(file, name).splitlines() for file in (fork, output))
        sides = f"{name} of the fork", f"{name} of the output"
        yield from difflib.unified_diff(mine, theirs, *sides, lineterm="")

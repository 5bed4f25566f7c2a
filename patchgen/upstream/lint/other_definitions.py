"""Find definitions that several files offer under one name, where another one is shipped.

    class NewMLP(OldMLP): ...      OldMLP reads `scale` of modeling_old.py
    shipped                        `scale` of another parent's file

In: a case.  Out: a finding where a class uses another definition than its parent's file would give
it, or where a definition of the modular file itself is not the shipped one.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Set

from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.scopes import references
from patchgen.upstream.facts import Block, What
from patchgen.upstream.graph import View
from patchgen.upstream.lint.case import Case, Pair, Shipped
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import parse_normalized, same

_WORD = re.compile(r"[^\W\d]\w*")
_DOCUMENTING = re.compile("_DOC|_CHECKPOINT|_EXPECTED")


def other_choices(case: Case) -> Iterator[Problem]:
    """Both kinds of findings."""
    yield from _own(case)
    explicit = case.facts.blocks.keys() | {one.name for one in case.facts.model_imports}
    seen: set[tuple[str, str]] = set()
    for pair in case.pairs:
        output = case.output_of(pair.name)
        if output is None:
            continue
        file = pair.parent.facts.path
        # What the modular file names is chosen by its author.
        known = explicit | {name for name, path in seen if path == file}
        for name in _find_others(pair, output, known):
            # Words find candidates fast, and also match attributes and documentation.
            if name in _used(output, pair.name):
                seen.add((name, file))
                yield _finding(case, pair, name)


def _find_others(pair: Pair, output: Shipped, known: Set[str]) -> Iterator[str]:
    """The names in the shipped class that are shipped otherwise than the parent's file has them."""
    view = pair.parent.view
    words = _words(output, pair.name) - known
    theirs = {view.name(name): block for name, block in pair.parent.facts.blocks.items()}
    for name, block in theirs.items():
        if name not in words or _DOCUMENTING.search(name):
            continue
        shipped = output.top.get(name)
        if shipped is not None and not same(_definition(block, view), shipped):
            yield name


def _own(case: Case) -> Iterator[Problem]:
    """Functions and constants of the modular file that are shipped otherwise."""
    for name, block in case.facts.blocks.items():
        output = case.output_of(name)
        if block.what is What.CLASS or output is None or _DOCUMENTING.search(name):
            continue
        if not same(_definition(block, None), output.top[name]):
            what = f"{name} is shipped as a parent has it, not as it stands here"
            yield finding("PG726", case.at(block), what, "give it another name")


def _finding(case: Case, pair: Pair, name: str) -> Problem:
    """The finding about `name`, which `pair` reads."""
    file = pair.parent.facts.path.rpartition("/")[2]
    what = f"{pair.name} uses another {name} than that of {file}, which it derives from"
    at: Location = case.at(pair.block)
    return finding("PG726", at, what, f"import {name} from the file that is meant")


def _words(output: Shipped, name: str) -> frozenset[str]:
    """The words in the text of the definition `name`: all that it reads, and more."""
    return frozenset(_WORD.findall(output.definition(name)))


def _used(output: Shipped, name: str) -> set[str]:
    """The global names that the definition `name` reads, its decorators left out."""
    node = output.top[name]
    return {reference.name for reference in references([node]) if reference.line >= node.lineno}


def _definition(block: Block, view: View | None) -> ast.stmt | None:
    return _parsed(block.text if view is None else view.text(block.text))


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.stmt | None:
    return next(iter(parse_normalized(text, "").body), None)

"""Link every output of a modular file, and decide which classes are merged.

    1. Merge every class with its parents, and link the outputs.
    2. A class that no one body can hold, or whose merging the outputs could notice, stays a
       subclass:  class TinyMLP(LlamaMLP): ...
    3. Start again with these classes kept, because what stands in the outputs depends on it.

In: a function that makes a `Builder`, given the classes that stay subclasses.  Out: the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from patchgen.compiler.link.conflicts import find_conflicts
from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.future_annotations import has_annotations, has_future_annotations
from patchgen.compiler.link.gather import list_kinds
from patchgen.compiler.link.identity import find_observed_merges
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.link.order import OrderError
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import PatchgenError, Problem, Refusals, problems_of

# Refusals of what no one class body can hold.  A subclass needs no one body.
_ONLY_MERGED = frozenset(
    {"PG124", "PG201", "PG210", "PG211", "PG212", "PG213", "PG214"} | {"PG223", "PG224", "PG225"}
)

# The classes that stay subclasses, with the reason.
Kept = Mapping[Symbol, str]


@dataclass(frozen=True)
class Linked:
    """The modules of a modular file, and the builder that made their blocks."""

    builder: Builder
    modules: tuple[FlatModule, ...]


def link_modules(make_builder: Callable[[Kept], Builder]) -> Linked:
    """Link all outputs.  Raises PatchgenError with every problem of the first step that has any."""
    kept: dict[Symbol, str] = {}
    # Each round keeps at least one class more, so that there is a last one.
    while True:
        builder = make_builder(kept)
        linked, found = _try_to_link(builder)
        if linked is not None and not found:
            return linked
        kept |= found


def _try_to_link(builder: Builder) -> tuple[Linked | None, dict[Symbol, str]]:
    """The linked outputs, and the classes that should not have been merged."""
    found = merge_classes(builder)
    if found:
        return None, found
    try:
        linked = _link_with_annotations(builder)
    except OrderError as error:
        found = _find_misplaced(error, builder)
        # No class can be kept to solve it.
        if not found:
            raise
        return None, found
    blocks = [block for module in linked.modules for block in module.blocks]
    return linked, find_observed_merges(blocks, linked.builder)


def merge_classes(builder: Builder) -> dict[Symbol, str]:
    """Merge every declared class; returns those that no one body can hold, with the reason.

    Raises Refusals with what is wrong with each of the others, so that one run reports all of it.
    """
    problems = list(find_conflicts(builder))
    separate: dict[Symbol, str] = {}
    for declaration in builder.naming.plan.declarations:
        for block_id in builder.block_ids(declaration.symbol):
            try:
                builder.block(block_id)
            except PatchgenError as error:
                found = problems_of(error)
                refusals = _find_refusals(found, declaration)
                problems += refusals
                # As a subclass, the class would not have the problem.
                if not refusals:
                    separate.setdefault(declaration.symbol, found[0].what)
    if problems:
        raise Refusals(problems)
    return separate


def _find_refusals(found: tuple[Problem, ...], declaration: Declaration) -> list[Problem]:
    """The problems that the class would have as a subclass too, or cannot avoid."""
    others = [problem for problem in found if problem.code not in _ONLY_MERGED]
    # A problem that is none of merging stays, whatever becomes of the class.
    if others:
        return others
    if not declaration.is_merged:
        return list(found)
    # Edits and removals need a merged class.
    if declaration.rewrites:
        return [_suggest_subclass(problem, declaration) for problem in found]
    return []


def _suggest_subclass(problem: Problem, declaration: Declaration) -> Problem:
    """`problem` with the hint that a subclass would not have it."""
    name = declaration.symbol.name
    hint = f"{name} would stay a subclass if it did not edit or remove what it inherits"
    hints = [problem.hint, hint] if problem.hint else [hint]
    return replace(problem, hint="; ".join(hints))


def _find_misplaced(error: OrderError, builder: Builder) -> dict[Symbol, str]:
    """The merged classes for which no one place is right, if they can stay subclasses."""
    why = "no one place in the file is right for it and for its parent"
    found: dict[Symbol, str] = {}
    for symbol in error.merged:
        declaration = builder.naming.plan.declaration(symbol)
        if declaration is None:
            continue
        # A class that edits or removes members has to be merged.
        can_be_kept = declaration.is_merged and not declaration.rewrites
        if can_be_kept:
            found[declaration.symbol] = why
    return found


def _link_with_annotations(builder: Builder) -> Linked:
    """Link all outputs so that each annotation is the string or the value that it is at home."""
    modules = _link_all(builder)
    if any(_mixes_annotations(module, builder) for module in modules):
        builder = replace(builder, spells=True, _made={})
        modules = _link_all(builder)
    return Linked(builder, modules)


def _mixes_annotations(module: FlatModule, builder: Builder) -> bool:
    """Whether `from __future__ import annotations` of one file would change another file's code."""
    rewritten = [each for block in module.blocks for each in block.rewritten]
    lazy = {
        home
        for home in {each.symbol.module for each in rewritten}
        if has_future_annotations(builder.index(home))
    }
    if not lazy:
        return False
    return any(each.symbol.module not in lazy and has_annotations(each.text) for each in rewritten)


def _link_all(builder: Builder) -> tuple[FlatModule, ...]:
    """The module of every kind that is declared, and of those that they import from in turn."""
    requested: dict[str, tuple[Symbol, ...]] = dict.fromkeys(list_kinds(builder), ())
    while True:
        modules = tuple(link_module(kind, symbols, builder) for kind, symbols in requested.items())
        wanted = dict(requested)
        for module in modules:
            for kind, symbol in module.requests:
                known = wanted.get(kind, ())
                if symbol not in known:
                    wanted[kind] = (*known, symbol)
        # A module that another one imports more from may need other modules in turn.
        if wanted == requested:
            return modules
        requested = wanted

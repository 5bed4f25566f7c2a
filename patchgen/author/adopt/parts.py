"""Find patchgen's own parts in a flat file: definitions to import, and mixins of its classes.

In: a fork beside its parent.  Out: the same, with the parent's classes as they are under the
mixins.

    fork                                          declaration
    def loss_without_logits(...): ...             from patchgen.parts.loss import ChunkedLoss
    class LlamaForCausalLM(...):
        ... loss_without_logits(self, ...)        class LlamaForCausalLM(ChunkedLoss, llama.Lla...

Which mixin a class has is guessed by words: each that the mixin brings is in the class.  The
converter then says what the mixins give, and what is no nearer to the fork is not taken.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.mixins import Mixin, Parts, read_parts, words_of
from patchgen.author.adopt.proof import flatten_text
from patchgen.author.align.file import Definition, File, plain_definition, read_file
from patchgen.compiler.flat import BANNER
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import first_line
from patchgen.syntax.text import make_source

_MOST_TRIED = 10
_MOST_MIXINS = 3

_Mixins = tuple[Mixin, ...]


def find_parts(
    forked: ForkedModel, name: str, root: Path | None, settings: Settings
) -> ForkedModel:
    """The pair with what the fork has of patchgen's parts, if patchgen made the fork."""
    if BANNER not in forked.fork.source.text:
        return forked
    parts = read_parts()
    borrowed = dict(_borrowed(forked, parts))
    options = {name: found for name, found in _options(forked, parts) if found}
    chosen = {
        owner: one
        for owner, one in _choose(forked, options, name, root, settings).items()
        if one.mixins
    }
    mixins = {owner: tuple(mixin.name for mixin in one.mixins) for owner, one in chosen.items()}
    homes = {mixin.name: mixin.module for one in chosen.values() for mixin in one.mixins}
    parent = _under_mixins(forked.parent, {owner: one.text for owner, one in chosen.items()})
    return replace(forked, parent=parent, mixins=mixins, borrowed={**borrowed, **homes})


def _borrowed(forked: ForkedModel, parts: Parts) -> Iterator[tuple[str, str]]:
    """The definitions of the fork that are a part's, with the module to import them from."""
    for name, definition in forked.fork.definitions.items():
        if name in forked.pairs:
            continue
        for module, own in parts.definitions.get(name, ()):
            if own.kind == definition.kind and plain_definition(own) == plain_definition(
                definition
            ):
                yield name, module
                break


def _options(forked: ForkedModel, parts: Parts) -> Iterator[tuple[str, list[_Mixins]]]:
    """For each class of the fork, the mixins that it may have, the likeliest first."""
    for name in forked.fork.classes:
        old = forked.parent.definitions.get(name) if name in forked.pairs else None
        new = forked.fork.definitions[name]
        if old is None or old.kind != "class" or plain_definition(old) == plain_definition(new):
            continue
        mine, theirs = words_of(new.nodes), words_of(old.nodes)
        found = [
            one for one in parts.mixins.values() if one.words <= mine and not one.words <= theirs
        ]
        outer = [one for one in found if not any(_is_within(one, other) for other in found)]
        some = outer[:_MOST_MIXINS]
        singles = [(one,) for one in found]
        together = list(permutations(some)) if len(some) > 1 else []
        yield name, [*singles, *together][:_MOST_TRIED]


def _is_within(one: Mixin, other: Mixin) -> bool:
    """Whether a class that has the mixin `other` has what `one` brings."""
    return one.name in other.above or one.words < other.words


@dataclass(frozen=True)
class _Choice:
    """Mixins of a class, its text under them, and how many lines of it are not the fork's."""

    distance: int
    mixins: _Mixins = ()
    text: str = ""


def _choose(
    forked: ForkedModel,
    options: Mapping[str, Sequence[_Mixins]],
    name: str,
    root: Path | None,
    settings: Settings,
) -> dict[str, _Choice]:
    """The mixins under which each class is most like the fork's."""
    parents = forked.parent.definitions
    best = {owner: _Choice(_distance(forked, owner, parents[owner])) for owner in options}
    for number in range(_MOST_TRIED):
        tried = {owner: found[number] for owner, found in options.items() if number < len(found)}
        best = _nearest(forked, best, tried, name, root, settings)
    # A mixin that edits what another one brings gives nothing alone: it stands in front of that.
    for number in range(_MOST_TRIED):
        tried = {}
        for owner, found in options.items():
            behind = best[owner].mixins
            if behind and number < len(found) and _may_stand_before(found[number], behind):
                tried[owner] = (*found[number], *behind)
        best = _nearest(forked, best, tried, name, root, settings)
    return best


def _may_stand_before(front: _Mixins, behind: _Mixins) -> bool:
    """Whether `front` is one mixin that those behind do not have already."""
    had = {name for one in behind for name in (one.name, *one.above)}
    return len(front) == 1 and front[0].name not in had


def _nearest(
    forked: ForkedModel,
    best: Mapping[str, _Choice],
    options: Mapping[str, _Mixins],
    name: str,
    root: Path | None,
    settings: Settings,
) -> dict[str, _Choice]:
    """`best`, with the mixins of `options` where a class comes nearer to the fork's under them."""
    nearest = dict(best)
    tried = {owner: found for owner, found in options.items() if best[owner].distance}
    output = _made_with(forked, tried, name, root, settings) if tried else None
    for owner, found in tried.items():
        made = output.definitions.get(owner) if output is not None else None
        if output is None or made is None or made.kind != "class":
            continue
        distance = _distance(forked, owner, made)
        if distance < best[owner].distance:
            node = made.node
            text = output.source.slice(first_line(node), node.end_lineno or 0)
            nearest[owner] = _Choice(distance, found, text)
    return nearest


def _distance(forked: ForkedModel, name: str, made: Definition) -> int:
    """How many lines of a class are not those of the fork's."""
    mine, theirs = _lines(forked.fork.definitions[name]), _lines(made)
    return ((mine - theirs) + (theirs - mine)).total()


def _lines(definition: Definition) -> Counter[str]:
    return Counter(line.strip() for line in ast.unparse(definition.node).split("\n"))


def _made_with(
    forked: ForkedModel,
    tried: Mapping[str, _Mixins],
    name: str,
    root: Path | None,
    settings: Settings,
) -> File | None:
    """The flat file of classes that have mixins and nothing else; those that fail are left out."""
    left = dict(tried)
    while left:
        text, places = _probe(forked, left)
        output, problems = flatten_text(text, name, root, settings)
        if not problems:
            return read_file(make_source(output, "output.py"))
        failed = {owner for owner, line in places.items() if line in {p.at.line for p in problems}}
        failed |= {owner for owner in left if any(owner in p.what for p in problems)}
        for owner in failed or set(left):
            left.pop(owner, None)
    return None


def _probe(forked: ForkedModel, tried: Mapping[str, _Mixins]) -> tuple[str, dict[str, int]]:
    """A modular file of classes with mixins, and the line of each."""
    package, _, module = forked.module.rpartition(".")
    used = {one for found in tried.values() for one in found}
    lines = [f"from {one.module} import {one.name}" for one in sorted(used, key=lambda m: m.name)]
    lines += [f"from {package} import {module} as {forked.alias}", ""]
    places = {}
    for owner, found in tried.items():
        bases = [*(one.name for one in found), f"{forked.alias}.{forked.pairs[owner]}"]
        lines += [f"class {owner}({', '.join(bases)}):", "    pass", ""]
        places[owner] = len(lines) - 2
    return "\n".join(lines), places


def _under_mixins(parent: File, texts: Mapping[str, str]) -> File:
    """The parent's file with other texts for some of its classes."""
    lines = list(parent.source.lines)
    nodes: Iterable[ast.stmt] = (parent.definitions[name].node for name in texts)
    for node in sorted(nodes, key=lambda one: -one.lineno):
        assert isinstance(node, ast.ClassDef)
        lines[first_line(node) - 1 : node.end_lineno] = [f"{texts[node.name].rstrip()}\n"]
    return read_file(make_source("".join(lines), parent.source.path, parent.source.module))

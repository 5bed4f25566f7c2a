"""Find words that a renaming broke, because it looks for no end of the model's name.

    parent (sam)      samples = ...
    shipped (sam2)    sam2ples = ...

In: the parents' texts and the outputs.  Out: the broken words that are really shipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from patchgen.syntax.errors import Location, Problem
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.names import Renaming
from patchgen.upstream.parents import Parent


def broken_words(case: Case) -> Iterator[Problem]:
    """One finding a broken word, at the first class that derives from the file that the word came
    from.
    """
    seen: set[str] = set()
    for parent in case.parents.values():
        renaming = parent.view.renaming
        if renaming is None or renaming.old == renaming.new:
            continue
        for word, broken in _candidates(parent, renaming).items():
            if broken in seen or (place := _shipped_at(case, broken)) is None:
                continue
            seen.add(broken)
            what = (
                f"`{word}` is shipped as `{broken}` ({place}): `{renaming.old}` "
                "in it is taken for the model"
            )
            yield finding("PG705", _at(case, parent), what, "write the text in the modular file")


def _candidates(parent: Parent, renaming: Renaming) -> Mapping[str, str]:
    """Words of the parent's file in which its model's name is followed by a letter, with what
    becomes of them.
    """
    pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(renaming.old)}[a-z]+", re.IGNORECASE)
    # Each word once, in the order of the file.  A plural of the model's name is no other word.
    found = dict.fromkeys(pattern.findall(parent.facts.text))
    words = {word: renaming.name(word) for word in found if word[len(renaming.old) :] != "s"}
    return {
        word: broken
        for word, broken in words.items()
        if broken != word and not _is_other_case(word, renaming)
    }


def _is_other_case(word: str, renaming: Renaming) -> bool:
    """Whether a capital begins a new word behind the name.

    `ClipMLP`; or all is capitals: `CLIPS`.
    """
    return word[len(renaming.old)].isupper()


def _shipped_at(case: Case, broken: str) -> str | None:
    """The place of a broken word in an output; None where no output has it."""
    pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(broken)}(?![A-Za-z0-9])")
    for output in case.shipped:
        found = pattern.search(output.text)
        # What the modular file writes itself is meant so.
        if found and not pattern.search(case.source.text):
            return f"{output.display_path}:{output.text.count(chr(10), 0, found.start()) + 1}"
    return None


def _at(case: Case, parent: Parent) -> Location:
    """The first place in the modular file that brings in the file of `parent`."""
    first: Pair | None = next((pair for pair in case.pairs if pair.parent is parent), None)
    if first is not None:
        return case.at(first.block)
    # No class derives from the file: its functions are imported.
    for one in case.facts.model_imports:
        if case.parents[one.module] is parent:
            return Location(case.source.path, one.line, 1)
    return Location(case.source.path, 1, 1)

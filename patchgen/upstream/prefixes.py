"""Choose the prefix by which a parent file is renamed.

    class Dots3NoteTextMLP(DeepseekV3MLP)      DeepseekV3 -> Dots3NoteText, in dots3_note

In: the pairs of class and parent class that a modular file declares for one parent file.  Out: one
cased prefix.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable


def common_suffix(first: str, second: str) -> str:
    """The longest common suffix; empty where one name is the suffix of the other."""
    # A common ending is a common beginning of the reversed names.
    suffix = os.path.commonprefix((first[::-1], second[::-1]))[::-1]
    return "" if suffix in (first, second) else suffix


def prefix_of(name: str, parent: str, cased: str, cased_parent: str) -> str:
    """What replaces the parent's model name in class `name`, which derives from `parent`."""
    suffix = common_suffix(name, parent)
    if suffix[:1].isupper():
        prefix = name.replace(suffix, "")
        # DETR in both names: the suffix eats into the model's name (conditional_detr).
        return cased if len(prefix) < len(cased) and cased in name else prefix
    return cased + cased_parent if name.replace(cased, "") == parent else cased


def choose(prefixes: Iterable[str], cased: str) -> str:
    """The most frequent of `prefixes`.

    Of equally frequent ones it is `cased`, or else the last one.
    """
    ranking = Counter(prefixes).most_common()
    if not ranking:
        return cased
    tied = [prefix for prefix, count in ranking if count == ranking[0][1]]
    return cased if cased in tied else tied[-1]


def without_collision(prefix: str, cased: str, cased_parent: str, parent_text: str) -> str:
    """`prefix`, or `cased` where the parent file has classes with that prefix already (janus)."""
    if prefix == cased:
        return prefix
    theirs = prefix.replace(cased, cased_parent)
    return cased if f"\nclass {theirs}" in parent_text else prefix

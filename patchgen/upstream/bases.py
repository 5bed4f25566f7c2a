"""Find the bases of a merged class.

In: the arguments of the parent's header (renamed) and of the child's.  Out: the arguments of the
merged header, and the names of its bases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from patchgen.upstream.brackets import Item

_KEYWORD = re.compile(r"(?:[^\W\d]\w*\s*=(?!=))|\*\*")
_BARE = re.compile(r"[^\W\d]\w*\Z")


def merged_arguments(
    child: Sequence[Item], parent: Sequence[Item], model_base: str
) -> tuple[Item, ...]:
    """The parent's arguments, with the child's further bases in their places.

    Keywords are taken from the parent only.
    """
    # `model_base` is the parent itself, whose bases stand here in its place.
    extras = [item for item in child if not _is_keyword(item)]
    extras = [item for item in extras if item.text != model_base]
    bases = [item for item in parent if not _is_keyword(item)]
    keywords = [item for item in parent if _is_keyword(item)]
    bases = _replaced_bases(bases, extras)
    # The layer is a module itself.  Python finds no order where a base stands before its subclass.
    if {"nn.Module", "GradientCheckpointingLayer"} <= set(names_of(bases)):
        bases = [base for base in bases if base.text != "nn.Module"]
    return (*bases, *keywords)


def _replaced_bases(bases: Sequence[Item], extras: Sequence[Item]) -> list[Item]:
    """The parent's bases; each extra base stands in the place of one that it is like, or behind.

    class A(OldMixin, nn.Module) and the extra base NewMixin: NewMixin, nn.Module
    """
    done: list[Item] = []
    left = list(extras)
    for base in bases:
        # `Generic[T]` and dotted names keep their places.
        extra = _replacing(base.text, left) if _BARE.match(base.text) else None
        if extra is None:
            done.append(base)
            continue
        done.append(replace(base, text=extra.text))
        # One extra base replaces one base only.
        left.remove(extra)
    texts = {base.text for base in done}
    return [*done, *(extra for extra in left if extra.text not in texts)]


def names_of(arguments: Iterable[Item]) -> tuple[str, ...]:
    """The bases among the arguments of a class header."""
    return tuple(item.text for item in arguments if not _is_keyword(item))


def _is_keyword(item: Item) -> bool:
    return _KEYWORD.match(item.text) is not None


def _replacing(base: str, extras: Iterable[Item]) -> Item | None:
    """The first extra base that ends as `base` does from a capital letter on (embedding_gemma2)."""
    for extra in extras:
        suffix = common_suffix(base, extra.text)
        if suffix[:1].isupper() or extra.text.endswith(base):
            return extra
    return None


def common_suffix(one: str, other: str) -> str:
    """The longest common suffix; "" when it is the whole of one name."""
    # A common ending is a common beginning of the reversed names.
    suffix = os.path.commonprefix([one[::-1], other[::-1]])[::-1]
    return "" if suffix in (one, other) else suffix

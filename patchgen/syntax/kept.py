"""Keep what a function made of a text, so that a later run need not make it again.

    kept = recall("edit", method, declaration)      what the answer depends on: texts and numbers
    if kept.answer is None:
        kept.keep(make_edit(method, declaration))

Only for functions that depend on nothing else but patchgen's own code and the programs that it
calls.  `keeping` says what earlier runs gave; outside of it, nothing is known and nothing is kept.
"""

from __future__ import annotations

import functools
import hashlib
import marshal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

_M = TypeVar("_M", bound=Callable[..., Any])


def per_object(method: _M) -> _M:
    """`functools.cache` for a method: each object has its own answers, which end with it."""
    return cast("_M", functools.cached_property(lambda self: functools.cache(method.__get__(self))))


def forget_texts() -> None:
    """Empty what `functools.cache` remembers of texts, which may be much: others come now."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("patchgen."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@dataclass(frozen=True, slots=True)
class _Memory:
    """The answers that are `known`, and those that were asked for or made."""

    known: Mapping[str, Any]
    used: dict[str, Any]


_CURRENT: list[_Memory] = []  # the innermost `keeping` last


@contextmanager
def keeping(known: Mapping[str, Any], used: dict[str, Any]) -> Iterator[None]:
    """Let `recall` find `known`; all answers that are asked for or made meanwhile go to `used`."""
    _CURRENT.append(_Memory(known, used))
    try:
        yield
    finally:
        _CURRENT.pop()


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of one question: an `answer` that JSON can hold, or None."""

    key: str
    answer: Any = None

    def keep(self, answer: Any) -> None:
        """Let later runs know the answer."""
        if self.key:
            _CURRENT[-1].used[self.key] = answer


def recall(question: str, *subject: Any) -> Kept:
    """What is known of `question` about `subject`, on which the answer has to depend alone."""
    if not _CURRENT:
        return Kept("")
    memory = _CURRENT[-1]
    # The second version writes equal values alike, and others differently, whatever they share.
    written = marshal.dumps([question, *subject], 2)
    key = hashlib.sha256(written).hexdigest()
    answer = memory.used.get(key, memory.known.get(key))
    if answer is not None:
        memory.used[key] = answer
    return Kept(key, answer)

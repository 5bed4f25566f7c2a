"""Attributes of modules and classes that are replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Patch: TypeAlias = "tuple[Any, str, Any]"  # owner, name of the attribute, new value

_INHERITED = object()


@contextmanager
def patched(*patches: Patch) -> Iterator[None]:
    """Set each attribute, and restore all of them at the end.

    An attribute that its owner only inherits, or does not have at all, is deleted at the end.
    """
    before = [(owner, name, vars(owner).get(name, _INHERITED)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        # In reverse order, so that an attribute that is replaced twice gets its first value back.
        for owner, name, value in reversed(before):
            if value is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

"""Variants of the gallery, traced once for all tests of a worker."""

from __future__ import annotations

import functools
from pathlib import Path

from patchgen.cli.session import Request, open_session
from patchgen.pages.trace import Variant, trace_variant
from tests.toytree import REPOSITORY

MODULARS = sorted((REPOSITORY / "modular").rglob("modular_*.py"))
# One that edits its parent, and a new model with a configuration of its own.
QUICK = ("mpnet_sdpa_checkpoint", "llama_moe")


def name_of(path: Path) -> str:
    return path.stem.removeprefix("modular_")


@functools.cache
def traced(name: str) -> Variant:
    """The variant `name`, as `patchgen page` reads it."""
    path = next(path for path in MODULARS if name_of(path) == name)
    project = open_session(Request((str(path),))).project
    return trace_variant(path, project.environment(), project.config.settings)

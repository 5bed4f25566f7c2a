"""The variants of this repository, read once in a process."""

from __future__ import annotations

from pathlib import Path

from patchgen.verifying.variants import Variant, find_variants, home_of
from tests.toytree import REPOSITORY

GALLERY = find_variants(REPOSITORY)
BY_NAME = {variant.name: variant for variant in GALLERY}


def variant_at(path: Path) -> Variant:
    """The variant of a modular file or an output of any project."""
    (variant,) = find_variants(home_of([str(path)]), [str(path)])
    return variant

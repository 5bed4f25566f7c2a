"""The variants of this repository, read once in a process."""

from __future__ import annotations

from patchgen.verify.variants import find_variants
from tests.toytree import REPOSITORY

GALLERY = find_variants(REPOSITORY)
BY_NAME = {variant.name: variant for variant in GALLERY}

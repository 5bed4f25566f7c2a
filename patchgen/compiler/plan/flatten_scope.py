"""Decide which modules are flattened, which are only read, and which are left alone.

Flattened: `transformers.models.*`, `patchgen.parts.*`, the modular file's own package and the
packages that the project names.  Only read: the `__init__` of transformers, which re-exports its
models.  The flat file imports from everything else as it stands.

    from transformers.models.llama.modeling_llama import LlamaMLP   carried, or merged
    from transformers import LlamaMLP                               followed to the line above
    from torch import nn                                            stays an import
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from patchgen.facts.modules import MODELS
from patchgen.syntax.locate import is_beside

PARTS = "patchgen.parts"


@dataclass(frozen=True, slots=True)
class FlattenScope:
    """The packages to flatten.

    `own` is the top-level package of the modular file, `extra` those that the project names.
    """

    own: str
    extra: tuple[str, ...] = ()

    def flattens(self, module: str) -> bool:
        """Whether classes and functions of `module` are carried into the flat file."""
        return _flattens(module, self.own, self.extra)

    def is_own(self, module: str) -> bool:
        """Whether `module` is flattened and belongs neither to transformers nor to patchgen.

        Nothing but the flat file would run its statements.
        """
        if _is_inside(module, MODELS) or _is_inside(module, PARTS):
            return False
        return self.flattens(module)

    def looks_into(self, module: str) -> bool:
        """Whether re-exports of `module` are followed."""
        return module == "transformers" or self.flattens(module)

    def knows_bases_of(self, module: str) -> bool:
        """Whether the bases of classes of `module` are read; the classes of torch are leaves."""
        return _is_inside(module, "transformers") or self.flattens(module)


class Everywhere(FlattenScope):
    """Follows re-exports and bases wherever there are files, for what is only read."""

    def looks_into(self, module: str) -> bool:
        """Always."""
        return True

    def knows_bases_of(self, module: str) -> bool:
        """Always."""
        return True


@functools.lru_cache(maxsize=4096)  # asked thousands of times about few modules
def _flattens(module: str, own: str, extra: tuple[str, ...]) -> bool:
    if is_beside(module):
        return True
    packages = [MODELS, PARTS, *extra]
    # A file inside transformers does not make all of transformers its own.
    if own != "transformers":
        packages.append(own)
    return any(_is_inside(module, package) for package in packages)


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")

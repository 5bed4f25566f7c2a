"""Which modules are flattened, which are only looked through, and which are left alone.

Flattened: `transformers.models.*`, `patchgen.parts.*`, the modular file's own package and what the project names.
Looked through: also the `__init__` of transformers, which re-exports its models.  Everything else is imported by the
flat file as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.syntax.locate import is_beside

MODELS = "transformers.models"
PARTS = "patchgen.parts"


@dataclass(frozen=True, slots=True)
class FlattenScope:
    """`own` is the top-level package of the modular file, `extra` the packages that the project names."""

    own: str
    extra: tuple[str, ...] = ()

    def flattens(self, module: str) -> bool:
        """Whether classes and functions of `module` are carried into the flat file."""
        # A file inside transformers does not make all of transformers its own.
        own = () if self.own == "transformers" else (self.own,)
        return is_beside(module) or any(
            _inside(module, package) for package in (MODELS, PARTS, *own, *self.extra)
        )

    def is_own(self, module: str) -> bool:
        """Whether `module` is flattened and neither of transformers nor of patchgen: nothing else would run it."""
        return self.flattens(module) and not _inside(module, MODELS) and not _inside(module, PARTS)

    def looks_into(self, module: str) -> bool:
        """Whether re-exports of `module` are followed."""
        return module == "transformers" or self.flattens(module)

    def knows_bases_of(self, module: str) -> bool:
        """Whether the bases of classes of `module` are read; the classes of torch are leaves."""
        return _inside(module, "transformers") or self.flattens(module)


class Everywhere(FlattenScope):
    """For questions about what is only looked at: re-exports and bases are followed wherever there are files."""

    def looks_into(self, module: str) -> bool:
        """Always."""
        return True

    def knows_bases_of(self, module: str) -> bool:
        """Always."""
        return True


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")

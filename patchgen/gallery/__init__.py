"""The gallery's models: `from patchgen.gallery.llama import modeling_llama_loss`.

A wheel has them beside this file, and their modular files in `modular` there.  In a clone they are
in its folders `generated` and `modular`.  They were made from one release of transformers: with
another one installed, an import takes what `fitting` makes of the modular file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

_CLONE = Path(__file__).parents[2]
HOME = OUTPUTS = Path(__file__).parent  # of `modular` and patchgen.lock, and of the models
if not (HOME / "modular").is_dir() and (_CLONE / "pyproject.toml").is_file():
    HOME, OUTPUTS = _CLONE, _CLONE / "generated"
    __path__.append(str(OUTPUTS))
SOURCES = HOME / "modular"


class _Finder:
    """Python asks it before it looks into `__path__`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Where `patchgen.gallery.MODEL.FILE` is to be imported from; None for other modules.

        Raises ImportError for a model that does not fit the installed transformers.
        """
        package, _, file = name.rpartition(".")
        output = OUTPUTS / package.removeprefix(f"{__name__}.") / f"{file}.py"
        if not package.startswith(f"{__name__}.") or not output.is_file():
            return None
        from patchgen.gallery.fitting import fit

        return spec_from_file_location(name, fit(output, HOME).path)


sys.meta_path.insert(0, _Finder)

"""The gallery's models: `from patchgen.gallery.llama import modeling_llama_loss`.

A wheel has them beside this file, and their modular files in `modular` there.  In a clone they are
in its folders `generated` and `modular`.
"""

from __future__ import annotations

from pathlib import Path

_CLONE = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "modular"
if not SOURCES.is_dir() and (_CLONE / "pyproject.toml").is_file():
    SOURCES = _CLONE / "modular"
    __path__.append(str(_CLONE / "generated"))

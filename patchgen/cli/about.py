"""`patchgen --version`: the releases that an output depends on."""

from __future__ import annotations

from pathlib import Path

import patchgen
from patchgen.project.versions import release_of, tool_versions
from patchgen.syntax.locate import make_environment


def version_text() -> str:
    """One line for each release; `transformers` is the one that parents are read from."""
    parents = release_of("transformers", make_environment(Path.cwd()))
    lines = [
        f"patchgen {patchgen.__version__}",
        *(f"{name} {v}" for name, v in sorted(tool_versions().items())),
    ]
    return "\n".join([*lines, f"transformers {parents or 'not found'}"])

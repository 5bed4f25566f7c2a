"""Format a modular file that patchgen writes, and flatten it: transformers above, patchgen below.

import torch
from transformers.models.llama import modeling_llama as llama

from patchgen import disk
from patchgen.edits import edit, new, old
"""

from __future__ import annotations

import re
from pathlib import Path

from patchgen import disk
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.errors import Problem
from patchgen.syntax.locate import make_environment

_TRANSFORMERS_IMPORT = re.compile(
    r"^from transformers\b.* import (?:\([^)]*\).*|.*)\n", re.MULTILINE
)
_TORCH_IMPORT = re.compile(r"^(import torch|from torch\b).*\Z", re.MULTILINE)


def format_modular(text: str, settings: Settings) -> str:
    """Format a modular file, in which transformers is third-party and patchgen is its own."""
    text = format_texts({"modular.py": text}, settings, ["patchgen"])["modular.py"]
    # `format_texts` sorts transformers with the own packages, as in flat files: move it up.
    moved = "".join(_TRANSFORMERS_IMPORT.findall(text))
    without = _TRANSFORMERS_IMPORT.sub("", text)
    first_own = re.search(r"^from patchgen\b", without, re.MULTILINE)
    if first_own is None:
        return text
    head = without[: first_own.start()].rstrip("\n")
    tail = re.sub("\n{4,}", "\n\n\n", without[first_own.start() :])
    # Behind torch it joins the third-party imports, else it begins their section.
    separator = "" if _TORCH_IMPORT.search(head) else "\n"
    return f"{head}\n{separator}{moved}\n{tail}"


def flatten_text(
    text: str, name: str, root: Path | None, settings: Settings, roots: tuple[Path, ...] = ()
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """What the modular file `name` with this text gives on the release at `root`, by file name.

    `roots` are where the file's own project has modules.
    """
    with disk.scratch() as home:
        path = home / "modular" / name
        disk.write(path, text, home, lasting=False)
        environment = make_environment(home, root, roots)
        flat = flatten(path, environment, settings)
    texts = {file.name: file.text for file in flat.files}
    problems = tuple(flat.problems)
    return texts, problems


def output_name(modular_file: str) -> str:
    """The name of the modeling file that a modular file gives."""
    return modular_file.replace("modular_", "modeling_", 1)

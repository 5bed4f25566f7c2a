"""Models of transformers whose classes a model repeats, read with the names of that model.

In: a model, and the models that its "Copied from" comments name or that share most of its lines.  Out: their files,
renamed as the dialect of transformers renames them: `class NemotronMLP(LlamaMLP)` makes `Nemotron` of `Llama`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen.author.adopt.parents import alike
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.subject import find_renaming
from patchgen.author.align.file import File, read_file
from patchgen.errors import PatchgenError
from patchgen.syntax.text import make_source, read_source
from patchgen.upstream.names import NameTable, read_table

_COPIED = re.compile(r"# Copied from transformers\.models\.(\w+)\.(modeling_\w+)\.")
_MOST = 7


@dataclass(frozen=True)
class Source:
    """A model's file: `original` as it is, `renamed` in the names of the model that repeats it."""

    module: str
    original: File
    renamed: File

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What the renamed file calls each definition, with its own name."""
        return dict(zip(self.renamed.definitions, self.original.definitions, strict=False))


def find_sources(model: File, path: Path, release: Release) -> tuple[Source, ...]:
    """The files that the model at `path` may repeat, those that it names first."""
    models = path.parent.parent
    table = _table(models)
    named = Counter(_COPIED.findall(model.source.text))
    paths = [models / folder / f"{stem}.py" for (folder, stem), _ in named.most_common()]
    paths += [one.path for one in alike(model, release)[: _MOST + 1]]
    there = [one for one in dict.fromkeys(paths) if one != path and one.is_file()]
    found = [_source(model, one, path, table) for one in there[:_MOST]]
    return tuple(one for one in found if one is not None)


@lru_cache(maxsize=4)
def _table(models: Path) -> NameTable:
    """How the models of a release are spelled in class names."""
    texts = []
    for name in ("auto_mappings.py", "configuration_auto.py"):
        path = models / "auto" / name
        texts.append(path.read_text(encoding="utf-8") if path.is_file() else "")
    return read_table(*texts)


def _source(model: File, path: Path, own: Path, table: NameTable) -> Source | None:
    """The file at `path` in the names of the model at `own`; None where the names do not correspond."""
    module = f"{path.parent.name}.{path.stem}"
    old_lower, new_lower = (one.stem.removeprefix("modeling_") for one in (path, own))
    try:
        original = read_file(read_source(path, module, "/".join(path.parts[-4:])))
        old, new = _prefixes(original, model, table.cased(old_lower), table.cased(new_lower))
    except PatchgenError:
        return None
    if not old or not new:
        return None
    text = original.source.text
    for one, other in _spellings(old, new, old_lower, new_lower):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![a-z])", other, text)
    try:
        return Source(module, original, read_file(make_source(text, path.name, module)))
    except PatchgenError:
        return None


def _prefixes(original: File, model: File, old: str, new: str) -> tuple[str, str]:
    """How the class names of two models begin: by the table of transformers, else by what most names share."""
    if _begins(original, old) and _begins(model, new):
        return old, new
    renaming = find_renaming(original, model)
    return ("", "") if renaming.behind else (renaming.old, renaming.new)


def _begins(file: File, prefix: str) -> bool:
    return sum(name.startswith(prefix) for name in file.classes) * 2 > len(file.classes)


def _spellings(old: str, new: str, old_lower: str, new_lower: str) -> Sequence[tuple[str, str]]:
    """`Llama` and `Nemotron` in class names, variables and constants."""
    return ((old, new), (old_lower, new_lower), (old_lower.upper(), new_lower.upper()))

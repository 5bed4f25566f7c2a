"""Models of transformers whose classes a model repeats, read with the names of that model.

In: a model, and the models that its "Copied from" comments name or that cover most of its lines.
Out: their files, renamed as the dialect of transformers renames them: `class NemotronMLP(LlamaMLP)`
makes `Nemotron` of `Llama`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen.author.adopt.parents import alike, lines_of, modeling_files
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.subject import find_renaming
from patchgen.author.align.file import File, read_file
from patchgen.errors import PatchgenError
from patchgen.syntax.text import make_source, read_source
from patchgen.upstream.names import NameTable, read_table

_COPIED = re.compile(r"# Copied from transformers\.models\.(\w+)\.(modeling_\w+)\.")
# A class or function with its name and the indented lines below.
_DEFINITION = re.compile(r"^(?:class|def) (\w+)(.*\n(?:(?:[ \t)].*)?\n)*)", re.MULTILINE)
_MOST = 8
_MOST_ALIKE = 8
_LEAST_GAIN = 4


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
    """The files that the model at `path` may repeat.

    They are those that it names, and those that cover most of it.
    """
    models = path.parent.parent
    table = _table(models)
    named = Counter(_COPIED.findall(model.source.text))
    paths = [models / folder / f"{stem}.py" for (folder, stem), _ in named.most_common()]
    there = [one for one in paths if one != path and one.is_file()][:_MOST]
    prefix = table.cased(path.stem.removeprefix("modeling_"))
    others = [one for _, one in modeling_files(release) if one != path]
    there = _cover(path, prefix, there, others)
    there += [one.path for one in alike(model, release)[: _MOST_ALIKE + 1] if one.path != path]
    found = [_source(model, one, path, table) for one in dict.fromkeys(there)]
    return tuple(one for one in found if one is not None)


def _cover(path: Path, prefix: str, first: Sequence[Path], others: Sequence[Path]) -> list[Path]:
    """`first`, and the files that have most of the lines that those before do not have.

    Lines count where they stand in a class of the same name, but for the model's, or in the same
    function.
    """
    wanted = {name.removeprefix(prefix): lines for name, lines in _lines_by_name(path).items()}
    shared = {other: _shared(wanted, _lines_by_name(other)) for other in others}
    chosen: list[Path] = []
    had: Counter[str] = Counter()
    left = list(first)
    while len(chosen) < _MOST:
        best = left.pop(0) if left else max(shared, key=lambda one: (_gain(shared[one], had), one))
        if best not in first and _gain(shared[best], had) < _LEAST_GAIN:
            break
        chosen.append(best)
        had |= shared.get(best, Counter())
    return list(dict.fromkeys(chosen))


def _gain(shared: Counter[str], had: Counter[str]) -> int:
    """How many lines more there are in `shared` than in `had`."""
    return (shared - had).total()


def _shared(
    wanted: Mapping[str, frozenset[str]], there: Mapping[str, frozenset[str]]
) -> Counter[str]:
    """How many lines of each class and function another file has under the same name."""
    found: Counter[str] = Counter()
    for name, lines in there.items():
        # `LlamaModel` ends as `NemotronModel` does, and `LlamaMLP` does not.
        for start in (0, *(n for n in range(1, len(name)) if name[n].isupper())):
            ending = name[start:]
            if ending in wanted:
                found[ending] = max(found[ending], len(wanted[ending] & lines))
                break
    return found


@lru_cache(maxsize=1024)
def _lines_by_name(path: Path) -> Mapping[str, frozenset[str]]:
    """The lines of each class and function at the top of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return {found[1]: lines_of(found[2]) for found in _DEFINITION.finditer(text)}


@lru_cache(maxsize=4)
def _table(models: Path) -> NameTable:
    """How the models of a release are spelled in class names."""
    texts = []
    for name in ("auto_mappings.py", "configuration_auto.py"):
        path = models / "auto" / name
        texts.append(path.read_text(encoding="utf-8") if path.is_file() else "")
    return read_table(*texts)


def _source(model: File, path: Path, own: Path, table: NameTable) -> Source | None:
    """The file at `path` in the names of the model at `own`.

    None where the names do not correspond.
    """
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
    """How the class names of two models begin.

    The table of transformers says it, else what most names share.
    """
    if _begins(original, old) and _begins(model, new):
        return old, new
    renaming = find_renaming(original, model)
    return ("", "") if renaming.behind else (renaming.old, renaming.new)


def _begins(file: File, prefix: str) -> bool:
    return sum(name.startswith(prefix) for name in file.classes) * 2 > len(file.classes)


def _spellings(old: str, new: str, old_lower: str, new_lower: str) -> Sequence[tuple[str, str]]:
    """`Llama` and `Nemotron` in class names, variables and constants."""
    return ((old, new), (old_lower, new_lower), (old_lower.upper(), new_lower.upper()))

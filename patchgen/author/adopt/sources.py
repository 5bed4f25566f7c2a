"""Models of transformers whose classes a model repeats, read with the names of that model.

In: a model, and the models that its "Copied from" comments name or that cover most of its lines.
Out: their files, renamed as the dialect of transformers renames them: `class NemotronMLP(LlamaMLP)`
makes `Nemotron` of `Llama`.  A file may stand there twice, under two names of the model's parts:
EfficientNet as `Align` and as `AlignVision`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path

from patchgen.author.adopt.cover import Outline, choose_files, most_alike, outline, outline_of
from patchgen.author.adopt.forked import find_renaming
from patchgen.author.adopt.parents import alike, modeling_files
from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import Definition, File, read_file
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import make_source, read_source
from patchgen.upstream.names import NameTable, read_table
from patchgen.upstream.prefixes import choose, prefix_of, without_collision

_COPIED = re.compile(r"# Copied from transformers\.models\.(\w+)\.(modeling_\w+)\.")
_MOST = 10
_MOST_ALIKE = 6


@dataclass(frozen=True)
class Spelling:
    """The names of a model and of a file that it repeats, as class names spell them."""

    cased: str
    parent: str

    def prefix(self, pairs: Iterable[tuple[str, str]], text: str) -> str:
        """What the dialect puts in the place of the parent's name.

        `pairs` are classes with the parent's that they derive from, `text` is the parent's file.
        """
        found = (prefix_of(name, base, self.cased, self.parent) for name, base in pairs)
        return without_collision(choose(found, self.cased), self.cased, self.parent, text)


@dataclass(frozen=True)
class Source:
    """A model's file: `original` as it is, `renamed` in the names of the model that repeats it.

    `prefix` stands there for the model's name, in classes, and `lower` in variables.
    """

    module: str
    prefix: str
    lower: str
    spelling: Spelling
    original: File
    renamed: File

    @cached_property
    def classes(self) -> Mapping[str, frozenset[str]]:
        """The lines of each class, but for the model's name."""
        lines = outline(self.renamed.source.text, self.prefix, self.lower).lines
        return {name: lines[name] for name in self.renamed.classes if name in lines}

    def candidates(self, name: str, model: Outline) -> Iterable[Definition]:
        """What may be the parent of `name`: what is called so, and the classes most alike."""
        same = self.renamed.definitions.get(name)
        if same is not None:
            yield same
        if same is None or same.kind == "class":
            found = most_alike(model, name, self.classes)
            yield from (self.renamed.definitions[one] for one in found if one != name)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What the renamed file calls each definition, with its own name."""
        return dict(zip(self.renamed.definitions, self.original.definitions, strict=False))


def find_sources(
    model: File, path: Path, release: Release, avoided: Collection[str] = ()
) -> tuple[Source, ...]:
    """The files that the model at `path` may repeat, but for the modules `avoided`.

    They are those that it names, and those that cover most of it.
    """
    models = path.parent.parent
    table = _table(models)
    named = Counter(_COPIED.findall(model.source.text))
    paths = [models / folder / f"{stem}.py" for (folder, stem), _ in named.most_common()]
    unfit = {path, *(models / f"{one.replace('.', '/')}.py" for one in avoided)}
    there = [one for one in paths if one not in unfit and one.is_file()][:_MOST]
    others = {
        one: outline_of(one, table.cased(one.stem.removeprefix("modeling_")))
        for _, one in modeling_files(release)
        if one not in unfit
    }
    own = outline_of(path, table.cased(path.stem.removeprefix("modeling_")))
    there = choose_files(own, there, others, _MOST)
    near = (one.path for one in alike(model, release) if one.path not in unfit)
    there += islice(near, _MOST_ALIKE)
    return tuple(
        source for one in dict.fromkeys(there) for source in _sources(model, one, path, table)
    )


@lru_cache(maxsize=4)
def _table(models: Path) -> NameTable:
    """How the models of a release are spelled in class names."""
    texts = []
    for name in ("auto_mappings.py", "configuration_auto.py"):
        path = models / "auto" / name
        texts.append(path.read_text(encoding="utf-8") if path.is_file() else "")
    return read_table(*texts)


def _sources(model: File, path: Path, own: Path, table: NameTable) -> Iterator[Source]:
    """The file at `path` in the names of the model at `own`, or of a part of that model."""
    module = f"{path.parent.name}.{path.stem}"
    old_lower, new_lower = (one.stem.removeprefix("modeling_") for one in (path, own))
    spelling = Spelling(table.cased(new_lower), table.cased(old_lower))
    try:
        original = read_file(read_source(path, module, "/".join(path.parts[-4:])))
        old, new = _prefixes(original, model, spelling.parent, spelling.cased)
    except PatchgenError:
        return
    news = {new: new_lower, **_parts(model, original, spelling, table)}
    for prefix, lower in news.items():
        text = original.source.text
        for one, other in _spellings(old, prefix, old_lower, lower):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![a-z])", other, text)
        try:
            renamed = read_file(make_source(text, path.name, module))
        except PatchgenError:
            continue
        # Two names that became one cannot be told apart.
        if len(renamed.definitions) == len(original.definitions):
            yield Source(module, prefix, lower, spelling, original, renamed)


def _parts(model: File, original: File, spelling: Spelling, table: NameTable) -> Mapping[str, str]:
    """The name of the model's part that is most like a file, as classes and variables spell it."""
    own, there = (
        outline(file.source.text, cased, table.lower(cased))
        for file, cased in ((model, spelling.cased), (original, spelling.parent))
    )
    classes = {name: there.lines[name] for name in original.classes if name in there.lines}
    pairs = [(name, base) for name in model.classes for base in most_alike(own, name, classes)[:1]]
    prefixes = Counter(
        spelling.prefix([(name, base)], original.source.text) for name, base in pairs
    )
    for prefix, count in prefixes.most_common():
        lower = table.lower(prefix).replace("-", "_")
        # What the table spells otherwise would come out under that other name.
        if prefix != spelling.cased and count > 1 and table.cased(lower) == prefix:
            return {prefix: lower}
    return {}


def _prefixes(original: File, model: File, old: str, new: str) -> tuple[str, str]:
    """How the class names of two models begin.

    The table of transformers says it, else what most names share.
    """
    if _begins(original, old) and _begins(model, new):
        return old, new
    renaming = find_renaming(original, model)
    is_clear = renaming.old and renaming.new and not renaming.behind
    return (renaming.old, renaming.new) if is_clear else (old, new)


def _begins(file: File, prefix: str) -> bool:
    return sum(name.startswith(prefix) for name in file.classes) * 2 > len(file.classes)


def _spellings(old: str, new: str, old_lower: str, new_lower: str) -> Sequence[tuple[str, str]]:
    """`Llama` and `Nemotron` in class names, variables and constants."""
    return ((old, new), (old_lower, new_lower), (old_lower.upper(), new_lower.upper()))

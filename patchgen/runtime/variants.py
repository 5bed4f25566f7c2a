"""Find variants: those that the project records, and those that are installed.

Read from patchgen.lock and from the text of outputs: nothing is imported.  A project's variant
hides an installed one of the same name.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen import disk, gallery
from patchgen.gallery.fitting import fit
from patchgen.project.config import find_config
from patchgen.project.lock import Record, read_lock
from patchgen.project.places import LOCK
from patchgen.project.versions import release_in
from patchgen.syntax.errors import did_you_mean

_PARENT = re.compile(
    r"^# Modified from (?P<module>transformers\.\S+?\.modeling_\w+)(?P<followed>;)?", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A generated modeling module; `modular` and `made_by` are "" if no lock records it."""

    name: str  # "llama_loss"
    module: str  # "generated.llama.modeling_llama_loss"
    path: Path
    home: Path  # the folder that `module` is imported from
    modular: str = ""  # its display path
    made_by: str = ""
    _reads: Mapping[str, str] = field(default_factory=dict, compare=False)  # of an installed one

    @property
    def transformers(self) -> str:
        """The release of transformers that it was made from; "" if no lock records it."""
        return release_in(self.made_by)

    @property
    def is_installed(self) -> bool:
        """Whether it is the gallery's, and no project's."""
        return self.module.startswith(gallery.__name__)

    def made_from(self) -> Mapping[str, str]:
        """The modules that were read to make it, with the digests of their files as they were."""
        if self.is_installed:
            return self._reads
        record = read_lock(self.home / LOCK).get(self.path.relative_to(self.home).as_posix())
        return record.reads if record else {}

    def text(self) -> str:
        """The module's source."""
        return disk.text_of(self.path)

    @property
    def parent(self) -> str:
        """The parent's modeling module, by the banner: the one it follows, else the first.

        Raises ValueError if the banner names none, as in a file without a parent in transformers.
        """
        if not self.parents:
            raise ValueError(
                f"{self.path}: names no modeling module of transformers that it was made from"
            )
        return self.parents[0]

    @property
    def parents(self) -> list[str]:
        """The modeling modules that the banner names, the one it follows first."""
        matches = sorted(_PARENT.finditer(self.text()), key=lambda match: not match["followed"])
        return [match["module"] for match in matches]


def find_variant(name: str, start: Path | None = None) -> Variant:
    """The variant of that name or module, seen from `start` (default: the current folder).

    Raises ValueError, with the nearest names, if there is none, and with the modules if there are
    several; FileNotFoundError if it is recorded and its file is gone; ImportError for one of the
    gallery that does not fit the installed transformers.
    """
    variants = tuple(known_variants(start or Path.cwd()))
    matches = [variant for variant in variants if name in (variant.name, variant.module)]
    if not matches:
        names = sorted({variant.name for variant in variants})
        hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none, here'}"
        hint += "; `patchgen new MODEL --with PARTS` writes others"
        raise ValueError(
            f"{name} is no variant that {LOCK} or the installed {gallery.__name__} has; {hint}"
        )
    if len(matches) > 1:
        raise ValueError(
            f"{name} is the name of several variants; say {' or '.join(v.module for v in matches)}"
        )
    if not matches[0].path.is_file():
        recorded = f"is recorded in {LOCK} as {matches[0].name}"
        gone = f"{recorded}, and is not there: `patchgen convert` writes it"
        raise FileNotFoundError(errno.ENOENT, gone, str(matches[0].path))
    return _fitted(matches[0]) if matches[0].is_installed else matches[0]


def known_variants(start: Path) -> Iterator[Variant]:
    """The variants of the project of `start`, then installed ones with other names."""
    home = find_config([start]).home
    ours = [
        _recorded(record, home)
        for record in read_lock(home / LOCK).values()
        if _is_model(Path(record.output))
    ]
    yield from ours
    hidden = {variant.name for variant in ours}
    yield from (variant for variant in _installed() if variant.name not in hidden)


def _recorded(record: Record, home: Path) -> Variant:
    module = record.output.removesuffix(".py").replace("/", ".")
    return Variant(
        _name(record.output), module, home / record.output, home, record.modular, record.made_by
    )


def _installed() -> Iterator[Variant]:
    """Those of the gallery, with the files that come with patchgen."""
    for path in sorted(gallery.OUTPUTS.rglob("modeling_*.py")):
        module = f"{gallery.__name__}.{path.parent.name}.{path.stem}"
        yield Variant(_name(path.name), module, path, Path(__file__).parents[2])


def _fitted(variant: Variant) -> Variant:
    """The variant with the file that fits the installed transformers."""
    found = fit(variant.path, gallery.HOME)
    modular = (gallery.HOME / found.modular).relative_to(variant.home).as_posix()
    return replace(
        variant, path=found.path, modular=modular, made_by=found.made_by, _reads=found.reads
    )


def _is_model(output: Path) -> bool:
    return output.name.startswith("modeling_")


def _name(output: str) -> str:
    return Path(output).stem.removeprefix("modeling_")

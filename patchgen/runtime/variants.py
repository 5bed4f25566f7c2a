"""Find variants: those that the project records, and those that are installed.

Read from patchgen.lock and from the text of outputs: nothing is imported.  A project's variant
hides an installed one of the same name.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen.project.config import find_config
from patchgen.project.lock import RecordedOutput, read_outputs
from patchgen.project.places import LOCK
from patchgen.syntax.errors import did_you_mean

INSTALLED = "patchgen.gallery"
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

    @property
    def transformers(self) -> str:
        """The release of transformers that it was made from; "" if no lock records it."""
        release = re.search(r"\btransformers (\S+?)(?:,|$)", self.made_by)
        return release[1] if release else ""

    def text(self) -> str:
        """The module's source."""
        return self.path.read_text(encoding="utf-8")

    @property
    def parent(self) -> str:
        """The parent's modeling module, by the banner: the one it follows, else the first.

        Raises ValueError if the banner names none, as in a file without a parent in transformers.
        """
        parents = list(_PARENT.finditer(self.text()))
        if not parents:
            raise ValueError(
                f"{self.path}: names no modeling module of transformers that it was made from"
            )
        return next((match for match in parents if match["followed"]), parents[0])["module"]


def find_variant(name: str, start: Path | None = None) -> Variant:
    """The variant of that name or module, seen from `start` (default: the current folder).

    Raises ValueError, with the nearest names, if there is none, and with the modules if there are
    several.  Raises FileNotFoundError if it is recorded and its file is gone.
    """
    variants = tuple(known_variants(start or Path.cwd()))
    matches = [variant for variant in variants if name in (variant.name, variant.module)]
    if not matches:
        names = sorted({variant.name for variant in variants})
        hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none, here'}"
        raise ValueError(
            f"{name} is no variant that {LOCK} or the installed {INSTALLED} has; {hint}"
        )
    if len(matches) > 1:
        raise ValueError(
            f"{name} is the name of several variants; say {' or '.join(v.module for v in matches)}"
        )
    if not matches[0].path.is_file():
        recorded = f"is recorded in {LOCK} as {matches[0].name}"
        gone = f"{recorded}, and is not there: `patchgen convert` writes it"
        raise FileNotFoundError(errno.ENOENT, gone, str(matches[0].path))
    return matches[0]


def known_variants(start: Path) -> Iterator[Variant]:
    """The variants of the project of `start`, then installed ones with other names."""
    home = find_config([start]).home
    ours = [
        _recorded(record, home)
        for record in read_outputs(home / LOCK)
        if _is_model(Path(record.output))
    ]
    yield from ours
    hidden = {variant.name for variant in ours}
    yield from (variant for variant in _installed() if variant.name not in hidden)


def _recorded(record: RecordedOutput, home: Path) -> Variant:
    module = record.output.removesuffix(".py").replace("/", ".")
    return Variant(
        _name(record.output), module, home / record.output, home, record.modular, record.made_by
    )


def _installed() -> tuple[Variant, ...]:
    """Those of the gallery: a wheel brings them in patchgen, and a clone has its own folder."""
    home = Path(__file__).parents[2]
    is_clone = (home / "pyproject.toml").is_file()
    folder = home / "generated" if is_clone else home.joinpath(*INSTALLED.split("."))
    variants: list[Variant] = []
    for path in sorted(folder.rglob("modeling_*.py")):
        module = ".".join(path.relative_to(home).with_suffix("").parts)
        variants.append(Variant(_name(path.name), module, path, home))
    return tuple(variants)


def _is_model(output: Path) -> bool:
    return output.name.startswith("modeling_")


def _name(output: str) -> str:
    return Path(output).stem.removeprefix("modeling_")

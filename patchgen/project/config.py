"""Read the configuration: `[tool.patchgen]` of the nearest pyproject.toml.

In: the folder to start from.  Out: a frozen `Config`.  Every mistake is reported at its key, before
any work is done.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import patchgen
from patchgen import disk
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, did_you_mean

FILE = "pyproject.toml"
TABLE = "tool.patchgen"
LONGEST_LINE = 320  # what ruff accepts


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a project.

    `home` is the folder of the pyproject.toml, from which all its paths and all shown paths start.
    `outputs` pairs a folder of modular files with the folder of their outputs, both relative to
    `home`.
    """

    home: Path
    sources: tuple[str, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    roots: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    settings: Settings = Settings()
    warnings_as_errors: bool = False


Read = Callable[[Path], Config | None]


def find_config(starts: Sequence[Path], read: Read | None = None) -> Config:
    """The configuration for `starts`: of the first of them that has one, else the default.

    `read` stands for `read_config`; a caller that asks for many folders passes one that caches.
    Raises PatchgenError PG901 or PG902 for a table that is wrong.
    """
    for start in starts:
        config = nearest_config(start, read)
        if config is not None:
            return config
    return Config(home=home_of(starts[-1]))


def nearest_config(folder: Path, read: Read | None = None) -> Config | None:
    """The configuration of the nearest pyproject.toml at or above `folder` that has one.

    `read` and what it raises are those of `find_config`.
    """
    read = read or read_config
    for place in (folder, *folder.parents):
        config = read(place)
        if config is not None:
            return config
    return None


def home_of(folder: Path) -> Path:
    """The nearest folder that looks like a project, else the one that holds `folder`'s package."""
    for candidate in (folder, *folder.parents):
        if (candidate / FILE).is_file() or (candidate / ".git").exists():
            return candidate
    # There is always such a place: the root of a file system is no package.
    return next(
        place for place in (folder, *folder.parents) if not (place / "__init__.py").is_file()
    )


def read_config(folder: Path) -> Config | None:
    """The configuration in the pyproject.toml of `folder` itself; None where it has none."""
    table = read_table(folder)
    return None if table is None else make_config(table, folder)


def read_table(folder: Path) -> object:
    """The table in the pyproject.toml of `folder`; None where it has none."""
    try:
        text = disk.read_text(folder / FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        what = f"is not valid TOML: {error}"
        raise PatchgenError("PG901", Location(FILE), what) from error
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise PatchgenError("PG901", Location(FILE), what) from error
    return parse_table(text)


def parse_table(text: str) -> object:
    """The table in the text of a pyproject.toml; None where it has none."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # tomllib tells the position in its message only.
        found = re.search(r"at line (\d+), column (\d+)", str(error))
        at = Location(FILE, int(found[1]), int(found[2])) if found else Location(FILE)
        raise PatchgenError("PG901", at, f"is not valid TOML: {error}") from error
    except RecursionError as error:
        raise PatchgenError("PG901", Location(FILE), "is nested too deeply to be read") from error
    tool = table.get("tool")
    return tool.get("patchgen") if isinstance(tool, dict) else None


def make_config(section: object, home: Path) -> Config:
    """`Config` from the parsed table.

    Raises Refusals with every wrong key, or PG902 when the project requires another version of
    patchgen.
    """
    if not isinstance(section, dict):
        raise PatchgenError("PG901", Location(FILE), f"[{TABLE}] must be a table")
    problems: list[Problem] = []
    for key, value in section.items():
        problems += _problems(key, value)
    for text in _texts_in(section):
        if not text.isprintable():
            what = f"{TABLE}: {text!r} has an invisible character"
            problems.append(Problem(Location(FILE), "PG901", what, "write it without"))
    if problems:
        raise Refusals(problems)
    _require_version(section.get("required-version"))
    # Tables are sorted: their order means nothing, and settings are part of the cache's key.
    return Config(
        home=home.resolve(),
        sources=tuple(section.get("sources", ())),
        outputs=tuple(sorted(section.get("outputs", {}).items())),
        roots=tuple(section.get("roots", ())),
        exclude=tuple(section.get("exclude", ())),
        settings=Settings(
            flatten=tuple(section.get("flatten", ())),
            formatter=section.get("formatter", "ruff"),
            line_length=section.get("line-length", 119),
            decorators=tuple(sorted(section.get("decorators", {}).items())),
        ),
        warnings_as_errors=section.get("warnings-as-errors", False),
    )


def _texts_in(value: object) -> Iterator[str]:
    """The texts in a value of TOML, also keys."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, str):
        yield value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _is_text_table(value: object) -> bool:
    # The keys are texts already, in every TOML file.
    return isinstance(value, dict) and _is_texts([*value.values()])


def _is_method_table(value: object) -> bool:
    # No override takes the decorator of a registry away: there the name is empty.
    return isinstance(value, dict) and all(isinstance(name, str) for name in value.values())


def _is_length(value: object) -> bool:
    # By the type: in Python, `true` is an int, and would pass for 1.
    return type(value) is int and 0 < value <= LONGEST_LINE


_SIGNS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_KEYS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "sources": (_is_texts, "a list of folders or files"),
    "outputs": (_is_text_table, 'a table from folder to folder, such as { modular = "generated" }'),
    "roots": (_is_texts, "a list of folders"),
    "exclude": (_is_texts, "a list of patterns"),
    "flatten": (_is_texts, "a list of package names"),
    "formatter": (lambda value: value in ("ruff", "black"), '"ruff" or "black"'),
    "line-length": (_is_length, f"a whole number from 1 to {LONGEST_LINE}"),
    "decorators": (_is_method_table, "a table from decorator to method name, or to none"),
    "warnings-as-errors": (lambda value: isinstance(value, bool), "true or false"),
    "required-version": (lambda value: isinstance(value, str), 'a version such as ">=0.2,<0.3"'),
}
# VeOmni's generator has the same name, command and table.
_OF_VEOMNI = ("package_prefix", "ruff_extra_ignore", "ruff_isolated", "search_root")


def _problems(key: str, value: object) -> list[Problem]:
    """What is wrong with one key of the table."""
    path = f"{TABLE}.{key}"
    if key in _OF_VEOMNI:
        what = f"{path}: is a key of VeOmni's generator, another tool that is called patchgen"
        hint = f"run this one in a folder of its own, with a {FILE} that has its keys"
        return [Problem(Location(FILE), "PG901", what, hint)]
    if key not in _KEYS:
        hint = did_you_mean(key, _KEYS) or f"known keys: {', '.join(_KEYS)}"
        return [Problem(Location(FILE), "PG901", f"{path}: no such key", hint)]
    fits, wanted = _KEYS[key]
    if fits(value):
        return []
    return [Problem(Location(FILE), "PG901", f"{path}: must be {wanted}, not {value!r}")]


def _require_version(wanted: str | None) -> None:
    """Raise PG902 unless this patchgen satisfies each part of `wanted`."""
    if not wanted:
        return
    have = _release(patchgen.__version__)
    for part in wanted.split(","):
        found = re.fullmatch(r"\s*(==|>=|<=|>|<|!=)?\s*(\d+(?:\.\d+)*)\s*", part)
        if not found:
            what = (
                f"{TABLE}.required-version: {wanted!r} is no version; write it as in '>=0.2,<0.3'"
            )
            raise PatchgenError("PG901", Location(FILE), what)
        # `0.1` alone means exactly that release, which `0.1.0` is too.
        sign = found[1] or "=="
        release = found[2]
        if not _SIGNS[sign](have, _release(release)):
            what = f"the project requires patchgen {wanted}, this is {patchgen.__version__}"
            # Imported here: it loads what most runs do not need.
            from patchgen.project.origin import origin

            hint = f"install such a release from where this one came from: {origin()}"
            raise PatchgenError("PG902", Location(FILE), what, hint)


def _release(version: str) -> tuple[int, ...]:
    # Three numbers: the fourth of 0.1.0.dev1 says nothing of what patchgen can do.
    first, second, third, *_ = (*map(int, re.findall(r"\d+", version)), 0, 0)
    return first, second, third

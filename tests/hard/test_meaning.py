"""Hard inputs 21 to 56: valid Python that is hard to flatten, and declarations that cannot be meant.

Each file in `cases` begins with the number of its input (see README.md) and says `# expect: R` (the flat file does what Python's
inheritance does) or `# expect: E CODE PATH:LINE:COLUMN` (it is refused there, with `# hint:` as a part of the hint).
Positions of `super()`, signatures and clashes have many members: those are dimensions of the generator.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.hard.support import assert_problem
from tests.oracle import generator, judge, sections
from tests.oracle.case import Case
from tests.oracle.test_inheritance import check

CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))

GENERATED: dict[int, tuple[str, ...]] = {
    32: tuple(name for name in generator.DIMENSIONS if name.startswith("super in ")),
    33: (
        "super of another method",
        "super in a classmethod",
        "super of a staticmethod",
        "super in a property",
        "property with setter, both overridden",
        "super in __new__",
        "super in __getattr__",
        "super in __init_subclass__",
        "super in twice",
    ),
    34: ("explicit parent", "explicit parent of another method"),
    35: ("isinstance of the parent", "type comments and annotations", "docstrings in both"),
    36: tuple(name for name in generator.DIMENSIONS if name.startswith("signature ")),
    37: (
        "local names clash",
        "child local hides the parent's global",
        "child binds the parent's global later",
        "closure over a local that the child rebinds",
        "exception name",
    ),
    38: (
        "early return before a side effect",
        "return inside try, with and loop",
        "nonlocal",
        "generator from a plain method",
    ),
    40: ("removed method", "removed attribute", "removed property", "init deletes an attribute"),
    41: (
        "mixin of the modular file before the parent",
        "mixin of the modular file after the parent",
        "diamond",
        "diamond with an overridden corner",
        "kept mixin behind",
    ),
    43: (
        "decorated method of the parent",
        "decorator of the child",
        "decorator dropped by an override",
        "dataclass with more fields",
        "property whose getter alone is overridden",
    ),
    44: ("method replaced by an attribute", "attribute replaced by a method", "alias of a method"),
    47: ("super in await", "asynchronous generator", "asynchronous with and for"),
    50: ("names that hold other names", "strings that name renamed classes"),
    53: ("order by what class bodies need", "helper classes of the modular file"),
}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    (entry,) = sections.read(path)
    if sys.version_info >= tuple(map(int, entry.options.get("before", "4.0").split("."))):
        pytest.skip(f"newer Pythons than {entry.options['before']} read it")
    case = _case(entry)
    judge.write(tmp_path / "source", case.files)
    search = [str(judge.LIBRARY), *(sys.path if entry.options.get("search") == "installed" else [])]
    result = flatten(
        tmp_path / "source" / case.modular,
        make_environment(tmp_path / "source", search=search),
        Settings(),
    )
    expected = entry.options["expect"].split(" ")
    if expected[0] == "E":
        assert result.problems and not result.files, "".join(file.text for file in result.files)
        assert_problem(result.problems[0], expected[1], expected[2], hint=entry.options.get("hint"))
        return
    assert not result.problems, "\n".join(map(str, result.problems))
    texts = {file.name: file.text for file in result.files}
    difference = judge.compare(case, texts, tmp_path / "inherited")
    assert difference is None, f"{difference}\n{''.join(texts.values())}"


def _case(entry: sections.Entry) -> Case:
    files = {
        path: text for path, text in entry.texts.items() if path.endswith(".py") and " " not in path
    }
    oracle = {
        title.removeprefix("oracle "): text
        for title, text in entry.texts.items()
        if title.startswith("oracle ")
    }
    (modular,) = [path for path in ("modular_toy_fast.py", "modular_neo.py") if path in files]
    return Case(
        seed=0,
        dimension=entry.name,
        files={
            "toypack/__init__.py": "",
            **{f"toypack/{path}": text for path, text in files.items()},
        },
        modular=f"toypack/{modular}",
        probe=tuple(entry.texts.get("probe", "").strip("\n").split("\n")),
        classes=entry.names("classes"),
        oracle_files={f"toypack/{path}": text for path, text in oracle.items()},
        overrides=tuple(
            ("toypack.modeling_toy", old, new) for old, new in entry.pairs("overrides")
        ),
        renames=entry.pairs("renames"),
    )


ROWS = [(row, dimension) for row, dimensions in GENERATED.items() for dimension in dimensions]


@pytest.mark.parametrize(
    ("row", "dimension"), ROWS, ids=[f"{row} {dimension}" for row, dimension in ROWS]
)
def test_generated(row: int, dimension: str, tmp_path: Path) -> None:
    check(dimension, range(1_000 + row, 1_001 + row), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "dimension"), ROWS, ids=[f"{row} {dimension}" for row, dimension in ROWS]
)
def test_generated_more(row: int, dimension: str, tmp_path: Path) -> None:
    check(dimension, range(1_001 + row, 1_002 + row), tmp_path)


def test_every_row_has_a_case() -> None:
    rows = {int(path.stem[:2]) for path in CASES} | set(GENERATED)
    assert rows == set(range(21, 58))

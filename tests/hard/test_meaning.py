"""Valid Python that is hard to flatten, and declarations that cannot be meant: hard inputs from 21 on (see README.md).

Each file in `cases` begins with the number of its input and says `# expect: R` (the flat file does what Python's
inheritance does) or `# expect: E CODE PATH:LINE:COLUMN` (it is refused there, with `# hint:` as a part of the hint).
What the language page refuses stands there (tests/unit/compiler/test_language.py); positions of `super()`, signatures
and clashes are dimensions of the oracle.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.hard.support import assert_problem
from tests.oracle import judge, sections
from tests.oracle.case import Case

CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))


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

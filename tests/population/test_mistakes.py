"""Each mistake of `mistakes` is warned about, with the nearest name; what is right is not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.population.mistakes import File, write_files
from tests.population.models import Model, find_models

CODES = ("PG409", "PG413", "PG422", "PG425", "PG426")


def find_warnings(model: Model, file: File, folder: Path) -> list[str]:
    """The warnings of a file, or its problems, as "CODE: what (hint)"."""
    path = folder / "made" / f"modular_{model.name}_x.py"
    path.parent.mkdir(exist_ok=True, parents=True)
    (path.parent / "__init__.py").touch()
    path.write_text(file.text)
    result = flatten(path, make_environment(folder), Settings())
    found = [*result.problems, *(warning for each in result.files for warning in each.warnings)]
    return [f"{each.code}: {each.what} ({each.hint})" for each in found]


def judge(model: Model, folder: Path) -> tuple[Counter[str], Counter[str], list[str]]:
    """By kind, how many mistakes were seen and missed; and what is wrong, missed or false."""
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    wrong: list[str] = []
    for file in write_files(model):
        said = find_warnings(model, file, folder)
        for code, about in file.mistakes:
            fits = [
                s
                for s in said
                if s.startswith(f"{code}: ")
                and re.search(rf"(?<![\w.]){re.escape(about)}(?!\w)", s)
            ]
            is_seen = bool(fits)
            seen[file.kind] += is_seen
            missed[file.kind] += not is_seen
            wrong += [] if is_seen else [f"{model.name} {file.kind} missed: {about}"]
            said = [each for each in said if each not in fits]
        seen[file.kind] += not file.mistakes
        # What returns as many values is the parent's own.
        said = [
            each
            for each in said
            if file.kind not in ("tuple+0", "attention+0") or each[:5] != "PG408"
        ]
        wrong += [
            f"{model.name} {file.kind} {file.name}: {each}"
            for each in said
            if each[:5] in CODES or file.kind[-2:] == "+0"
        ]
    return seen, missed, wrong


@pytest.mark.timeout(14400)
@pytest.mark.parametrize(
    "step", [pytest.param(200, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_mistakes(step: int, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    wrong: list[str] = []
    for number, model in enumerate(find_models()[5::step]):
        found = judge(model, tmp_path / str(number))
        seen += found[0]
        missed += found[1]
        wrong += found[2]
    print(seen, missed)
    false = [each for each in wrong if " missed: " not in each]
    assert not false, false
    # A name that is as near to none, and modules that AutoModel makes, are not seen.
    assert missed.total() <= 0.05 * seen.total(), wrong

"""docs/benchmarks.md describes every case, target and table, and only measured figures."""

from __future__ import annotations

import ast
import inspect
import re
import shlex

import pytest

from patchgen.training.bench.matrix import CASES
from patchgen.training.bench.sets import wanted_cases
from tests.toytree import REPOSITORY

PAGE = (REPOSITORY / "docs/benchmarks.md").read_text(encoding="utf-8")
ROWS = {
    cells[1].strip(): cells
    for cells in (line.split("|") for line in PAGE.splitlines() if line.startswith("| "))
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_case_is_reported(case):
    _, _, about, variants, aims, _ = ROWS[case.id]
    assert about.strip() == case.about
    assert set(re.findall(r"`(\w+)`", variants)) == {
        one.variant for one in case.entries if one.variant
    }
    described = [
        float(number)
        for number in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?= times| of | TFLOP)", aims)
    ]
    wanted = [target.ratio / (1e12 if target.metric == "rate" else 1) for target in case.targets]
    assert described == wanted


def test_no_other_case_is_reported():
    named = {name for name in ROWS if re.fullmatch(r"[A-Z]\d(-\w+)?", name)}
    assert named == {case.id for case in CASES}


def test_the_five_lines_are_those_that_run():
    pytest.importorskip("transformers")
    from patchgen.training.bench.competitors import mask_free

    described = re.search(r"def mask_free.*?, None\n", PAGE, re.DOTALL)
    assert described is not None
    ours = ast.parse(inspect.getsource(mask_free)).body[0]
    theirs = ast.parse(described[0]).body[0]
    assert ast.unparse(ours.body[1:]) == ast.unparse(theirs.body), "but for the docstring"
    assert [each.arg for each in ours.args.args] == [each.arg for each in theirs.args.args]


def test_padding_is_what_is_reported():
    padded, packed = (
        next(case.shape for case in CASES if case.id == name) for name in ("B2", "L2")
    )
    first, second = padded.texts(), packed.texts()
    free = [
        1 - sum(first) / (len(first) * padded.length),
        1 - sum(second) / (len(second) * max(second)),
    ]
    described = re.search(r"padding is (\d+) of 100 places in B2 and (\d+) in L2", PAGE)
    assert described is not None and [round(100 * part) for part in free] == [
        int(number) for number in described.groups()
    ]


def test_commands_name_what_there_is():
    text = (REPOSITORY / "docs/gpu.md").read_text(encoding="utf-8")
    lines = [
        shlex.split(line, comments=True)
        for line in text.splitlines()
        if re.match(r"(\.venv/bin/)?patchgen bench ", line)
    ]
    assert len(lines) >= 4
    for _, _, *words in lines:
        only = [value for name, value in zip(words, words[1:], strict=False) if name == "--only"]
        ids = [word for word in words if re.fullmatch(r"[A-Z]\d\S*", word)]
        assert {
            one.name for case in wanted_cases("matrix", ids, only) for one in case.entries
        } >= set(only)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (REPOSITORY / "docs" / target).is_file(), target


def test_where_no_gpu_has_been_the_page_says_so():
    measured = (REPOSITORY / "docs/benchmarks/bench-matrix.json").exists()
    assert ("**No figure of a GPU has been measured yet.**" in PAGE) != measured

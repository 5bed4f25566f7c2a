"""`launch/measure.sh` runs what has no result, and a later call goes on from files alone."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from benchmarks.bench.__main__ import bench
from patchgen.cli.commands import load_command
from patchgen.runtime.variants import known_variants
from tests.toytree import REPOSITORY, environment

SCRIPT = REPOSITORY / "launch/measure.py"
NAMES = {"llama", "llama-1b", *(variant.name for variant in known_variants(REPOSITORY))}


def load():
    found = importlib.util.spec_from_file_location("measure", SCRIPT)
    module = importlib.util.module_from_spec(found)
    sys.modules["measure"] = module
    found.loader.exec_module(module)
    return module


measure = load()
Step = measure.Step


def test_what_matters_comes_first_and_each_step_fits_a_call():
    names = [step.name for step in measure.plan(tiny=False)]
    assert names[:4] == ["look", "loss", "bench-L1", "bench-B1"] and names[-1] == "tests"
    assert all(step.seconds <= measure.WAIT <= 540 for step in measure.plan(tiny=False))


def test_every_case_of_the_table_is_a_step():
    from benchmarks.bench.cases import load_cases

    assert sorted(measure.FIRST | measure.THEN) == sorted(case.id for case in load_cases())


@pytest.mark.parametrize("tiny", [False, True], ids=["on a GPU", "tiny"])
def test_every_command_of_the_plan_is_one(tiny):
    for step in measure.plan(tiny)[2:]:
        python, _, module, *words = (word.format(out="o", scratch="s") for word in step.command)
        assert python == sys.executable
        if module == "pytest":
            assert (REPOSITORY / words[-1]).exists()
            continue
        if module == "benchmarks.bench":
            bench.make_context(module, list(words))
            continue
        name, *rest = words
        load_command(name).make_context(name, list(rest))
        assert name == "verify" or rest[0] in NAMES, words
        if name == "train":
            pytest.importorskip("transformers")
            from patchgen.training.loop.options import parse

            assert parse(rest)[0].packing == "concatenated"


def test_the_release_is_that_of_the_lock():
    assert {variant.transformers for variant in known_variants(REPOSITORY)} == {measure.RELEASE}
    assert f"transformers=={measure.RELEASE}\n" in (REPOSITORY / "launch/wheels.txt").read_text()


PROGRAM = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("measure", {script!r})
measure = importlib.util.module_from_spec(spec)
sys.modules["measure"] = measure
spec.loader.exec_module(measure)
python = (sys.executable, "-c")
measure.plan = lambda tiny: [
    measure.Step("fine", (*python, "print('said')"), 5),
    measure.Step("fails", (*python, "raise SystemExit(3)"), 5),
    measure.Step("hangs", (*python, "import time; time.sleep(60)"), 0.5),
    measure.Step("long", (*python, "pass"), 500),
]
sys.exit(measure.main())
"""


def test_a_later_call_skips_what_has_a_result(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(script=str(SCRIPT)))

    def call(out: str, before: str, wait: str) -> subprocess.CompletedProcess:
        words = ["--home", tmp_path / "home", "--out", tmp_path / out, "--wait", wait]
        return subprocess.run(
            [sys.executable, program, *words, "--before", tmp_path / before],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=120,
        )

    first = call("one", "nothing", "60")
    assert first.returncode == 3 and "left for another call: long" in first.stdout, first.stderr
    assert "failed: fails, hangs" in first.stdout
    known = json.loads((tmp_path / "one" / measure.STATE).read_text())
    assert [known[name]["code"] for name in ("fine", "fails", "hangs")] == [0, 3, -1]
    assert known["fine"]["output"] == "said\n"
    second = call("two", "one", "900")  # another machine, where only the files came along
    assert "fine: done before" in second.stdout and "long: 0 after" in second.stdout
    assert second.returncode == 1 and "failed: fails, hangs" in second.stdout


def test_packages_that_are_missing_are_named():
    modules = {
        name for name in measure.COMPARED if importlib.util.find_spec(name.replace("-", "_"))
    }
    assert not modules & set(measure.missing_packages())


@pytest.mark.slow
@pytest.mark.timeout(5000)
def test_the_whole_way_with_tiny_models(tmp_path):
    """From wheels where they are there, in their own folder, without a network; and once more."""
    offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "MEASURE_HOME": str(tmp_path / "home")}
    words = ["launch/measure.sh", "--tiny", "--out", tmp_path / "out", "--before", tmp_path]
    for _ in range(2):
        output = subprocess.run(
            words,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            env={**os.environ, **offline, "PYTHON": sys.executable},
        )
        assert output.returncode == 0, output.stdout + output.stderr
        assert "all is done" in output.stdout
    assert output.stdout.count("done before") == len(measure.plan(tiny=True))
    results = json.loads((tmp_path / "out/bench-tiny.json").read_text())["cases"]
    assert set(results) == set(measure.CASES)

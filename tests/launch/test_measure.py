"""`launch/measure.sh` continues when it is called again, and brings back the results so far."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

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


def test_the_plan_fits_the_lease_and_begins_with_what_matters():
    steps = measure.plan(tiny=False)
    assert sum(step.seconds for step in steps) <= measure.LEASE < 30 * 60 and measure.WAIT < 10 * 60
    assert [step.name for step in steps] == [
        *("tests", "look", "warm", "matrix"),
        *("table-finetune", "table-pretrain", "table-memory"),
        *("memory-stock", "memory-variant"),
        *("train-llama", "train-llama_loss"),
    ]
    warm, matrix = steps[2:4]
    assert len(warm.commands) > 1 and matrix.grows, (
        "compiled beside each other; the rest of the time is the matrix's"
    )


@pytest.mark.parametrize("tiny", [False, True], ids=["on a GPU", "tiny"])
def test_every_command_of_the_plan_is_one(tiny):
    known = {"seconds": "60", "results": "r", "scratch": "s"}
    for step in measure.plan(tiny):
        for python, _, module, *words in step.commands:
            assert python == sys.executable
            if module == "patchgen":
                name, *rest = [word.format(**known) for word in words]
                load_command(name).make_context(name, rest)
                assert name == "bench" or words[1] in NAMES, words
            else:
                assert module == "pytest" and all(
                    (REPOSITORY / word).exists() for word in words if "/" in word
                )


def test_the_release_is_that_of_the_lock():
    assert {variant.transformers for variant in known_variants(REPOSITORY)} == {measure.RELEASE}
    assert f"transformers=={measure.RELEASE}\n" in (REPOSITORY / "launch/wheels.txt").read_text()


def test_a_step_that_fails_or_hangs_stops_nothing(tmp_path):
    python = (sys.executable, "-c")
    steps = (
        Step(
            "fine", ((*python, "print('{seconds}')"), (*python, "open('{scratch}/there', 'w')")), 50
        ),
        Step("fails", ((*python, "raise SystemExit(3)"),), 5),
        Step("hangs", ((*python, "import time; time.sleep(60)"),), 0.3),
        Step("last", ((*python, "print('here')"),), 5),
    )
    worker = measure.Worker(tmp_path, steps, 100)
    worker.run()
    assert [done.codes for done in worker.done] == [(0, 0), (3,), (-1,), (0,)]
    assert (tmp_path / "results/fine-0.txt").read_text() == "25\n" and (
        tmp_path / "scratch/there"
    ).exists()
    assert (tmp_path / "results/last.txt").read_text() == "here\n"
    output = json.loads((tmp_path / measure.STATE).read_text())
    assert output["running"] == "" and output["left"] == [] and len(output["done"]) == 4


def test_what_earlier_steps_leave_over_goes_to_the_one_that_grows(tmp_path):
    steps = (Step("matrix", (("a",),), 10, grows=True), Step("later", (("b",),), 30))
    worker = measure.Worker(tmp_path, steps, 100)
    assert 69 < worker._limit(steps[0], 30) <= 70
    assert 29 < worker._limit(steps[1], 0) <= 30
    worker.began -= 95
    assert 4 < worker._limit(steps[1], 0) <= 5, "and none has more than is left"


PROGRAM = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("measure", {script!r})
measure = importlib.util.module_from_spec(spec)
sys.modules["measure"] = measure
spec.loader.exec_module(measure)
step = "import time; print('begun', flush=True); time.sleep(1.5)"
measure.plan = lambda tiny: (
    measure.Step("look", ((sys.executable, "-c", step),), 60),
    measure.Step("weights", ((sys.executable, "-c", "open('{{results}}/model.safetensors', 'w')"),), 60),
)
sys.exit(measure.main())
"""


def test_the_worker_outlives_the_call_and_the_same_command_attaches(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(script=str(SCRIPT)))
    command = [sys.executable, program, "--home", tmp_path / "home", "--out", tmp_path / "out"]

    def call(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, env=environment(), timeout=60
        )

    first = call("--wait", "0.1")
    assert first.returncode == 3 and "goes on with look" in first.stdout, first.stderr
    state = json.loads((tmp_path / "home" / measure.STATE).read_text())
    second = call("--wait", "50")
    assert second.returncode == 0 and "all is done" in second.stdout, second.stderr
    assert state["running"] == "look" and "look: 0 after" in second.stdout
    assert "left out: model.safetensors: weights" in second.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "steps.json",
        "look.txt",
        "results.tar.gz",
    }
    with tarfile.open(tmp_path / "out/results.tar.gz") as packed:
        assert set(packed.getnames()) == {"look.txt", "weights.txt"}
    before = (tmp_path / "home" / measure.STATE).stat().st_mtime_ns
    assert (
        call().returncode == 0 and (tmp_path / "home" / measure.STATE).stat().st_mtime_ns == before
    ), "it has ended"


def test_a_package_that_is_missing_is_named(tmp_path):
    known = {"liger-kernel", "triton", "flash-attn", "bitsandbytes"}
    modules = {name for name in known if importlib.util.find_spec(name.replace("-", "_"))}
    missing = measure.missing_packages()
    assert not modules & set(missing) and set(missing) <= known
    output = subprocess.run(
        [sys.executable, SCRIPT, "--tiny", "--home", tmp_path, "--out", tmp_path / "out"]
        + ["--steps", "none"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert output.stdout.startswith("not installed: ") == bool(missing), output.stderr


def test_files_that_are_too_large_stay(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/look.txt").write_text("x" * 2000)
    monkeypatch.setattr(measure, "MOST_BYTES", 1000)
    assert measure.copy_results(tmp_path, tmp_path / "out") == ["look.txt: 2000 bytes"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.tar.gz"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_way_with_tiny_models(tmp_path):
    """One call: from wheels where they are there, in their own folder, without a network."""
    offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "MEASURE_HOME": str(tmp_path / "home")}
    output = subprocess.run(
        ["launch/measure.sh", "--tiny", "--out", str(tmp_path / "out")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, **offline, "PYTHON": sys.executable},
    )
    assert output.returncode == 0, output.stdout + output.stderr
    assert "all is done" in output.stdout
    assert (tmp_path / "home/site/transformers").is_dir() == any(
        Path(REPOSITORY, ".wheels").glob("*.whl")
    )
    with tarfile.open(tmp_path / "out/results.tar.gz") as packed:
        names = set(packed.getnames())
    tables = {f"bench-{table}-tiny.json" for table in ("matrix", "finetune", "pretrain", "memory")}
    assert tables <= names and {"train-llama/result.json", "train-llama_loss/result.json"} <= names
    assert len(list((tmp_path / "out").iterdir())) <= measure.MOST_FILES

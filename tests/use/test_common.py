"""transformers' common model tests on the gallery, against their results on transformers' own classes.

Fetches the source distribution of the installed transformers through pip; nothing of it is kept.
What it lacks (the tests of generation and of exporters, which the common tests import) stands empty
in its place. PATCHGEN_REFRESH=1 writes docs/parity/common-tests.md anew.
"""

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("parameterized")

from tests.toytree import REPOSITORY, environment

PAGE = REPOSITORY / "docs/parity/common-tests.md"
MODELS = {
    "Llama": "llama_loss",
    "Bert": "bert_mlm",
    "Gpt2": "gpt2_loss",
    "Qwen3Moe": "qwen3_moe_checkpoint_loss",
}
STATES = ("passed", "skipped", "failed")
ABSENT = {
    "exporters/test_export.py": "ExportTesterMixin",
    "generation/test_utils.py": "GenerationTesterMixin",
}

_TWO_LOSSES = "`loss` of GPT2DoubleHeadsModel is that of its language model alone, and its other head has no gradient"
# Where transformers' own classes fail here too.
ALIKE = {
    **dict.fromkeys(
        (
            "test_training_gradient_checkpointing",
            "test_training_gradient_checkpointing_use_reentrant_false",
            "test_training_gradient_checkpointing_use_reentrant_true",
        ),
        _TWO_LOSSES,
    ),
    "test_generation_tester_mixin_inheritance": "wants the mixin of the generation tests, which is not distributed",
}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A folder with the common tests as the package `upstream`."""
    top = tmp_path_factory.mktemp("sdist")
    release = f"transformers=={transformers.__version__}"
    options = [
        "--no-deps",
        "--no-binary",
        "transformers",
        "--no-build-isolation",
        "-q",
        "-d",
        str(top),
    ]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *options, release], check=False)
    if done.returncode:
        pytest.skip(f"{release} cannot be fetched")
    package = top / "upstream"
    with tarfile.open(next(top.glob("*.tar.gz"))) as archive:
        for member in archive.getmembers():
            found = re.fullmatch(r"[^/]+/tests/(test_\w+\.py)", member.name)
            if found:
                write(package / found[1], archive.extractfile(member).read().decode())
    for path, name in ABSENT.items():
        write(package / path, f"class {name}:\n    pass\n")
        write(package / path.split("/")[0] / "__init__.py", "")
    write(package / "__init__.py", "")
    write(top / "pytest.ini", "[pytest]\ntimeout = 600\n")
    return top


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_common_tests_pass_as_on_transformers_own(upstream):
    results = read_results(run_hosts(upstream))
    page = render(results)
    if os.environ.get("PATCHGEN_REFRESH"):
        PAGE.write_text(page, encoding="utf-8")
    different = [f"{kind}: {test}" for kind, test in differences(results)]
    assert not different, "\n".join(different)
    failed = {
        test
        for cases in results.values()
        for test, (state, _) in cases.items()
        if state == "failed"
    }
    assert failed <= ALIKE.keys()
    assert PAGE.read_text(encoding="utf-8") == page, "PATCHGEN_REFRESH=1 writes the page anew"


def run_hosts(upstream: Path) -> Path:
    report = upstream / "results.xml"
    path = os.pathsep.join(map(str, (upstream, ".")))
    # Some of the tests read warnings, which our own do without.
    settings = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "warning"}
    env = environment(**settings, PYTHONPATH=path)
    options = [
        "-q",
        "--import-mode=importlib",
        "--noconftest",
        "-W",
        "ignore",
        "--tb=no",
        "-p",
        "no:cacheprovider",
    ]
    where = [
        "-c",
        str(upstream / "pytest.ini"),
        "--rootdir",
        str(REPOSITORY),
        f"--junitxml={report}",
    ]
    argv = [sys.executable, "-m", "pytest", *options, *where, "tests/use/common_hosts.py"]
    done = subprocess.run(
        argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    return report


def read_results(report: Path) -> dict[str, dict[str, tuple[str, int]]]:
    """By class, each test's state and for how many classes of models or subtests it was skipped."""
    results: dict[str, dict[str, tuple[str, int]]] = {}
    for case in xml.parse(report).iter("testcase"):
        tags = Counter(child.tag for child in case)
        wrong = tags["failure"] + tags["error"]
        state = "failed" if wrong else "skipped" if tags["skipped"] else "passed"
        owner = case.get("classname").rpartition(".Test")[2]
        results.setdefault(owner, {})[case.get("name")] = (state, tags["skipped"])
    return results


def differences(results):
    """(model, test) where the generated classes come to another result, or skip more or less, than the parent's."""
    for kind in MODELS:
        own, generated = results[f"Own{kind}"], results[f"Generated{kind}"]
        yield from (
            (kind, test)
            for test in sorted(own.keys() | generated.keys())
            if own[test] != generated[test]
        )


def render(results) -> str:
    lines = [
        "# transformers' common model tests",
        "",
        f"`ModelTesterMixin` and `TrainingTesterMixin` of the source distribution of transformers "
        f"{transformers.__version__}, on CPU, over every head of a model: on transformers' own classes and on the "
        "generated ones, with the same tiny configurations. Made by",
        "",
        "```text",
        "PATCHGEN_REFRESH=1 python -m pytest tests/use/test_common.py -m slow",
        "```",
        "",
        "Skipped are tests that need a GPU, a slow run or a property that the model lacks, for some head at least. "
        "The tests of generation and of exporters are not in the distribution.",
        "",
        "| variant | tests | " + " | ".join(f"{state}: parent" for state in STATES) + " | "
        + " | ".join(f"{state}: variant" for state in STATES) + " | different |",
        "|---|" + "---:|" * 8,
    ]  # fmt: skip
    different = list(differences(results))
    for kind, name in MODELS.items():
        own, generated = results[f"Own{kind}"], results[f"Generated{kind}"]
        numbers = [
            Counter(state for state, _ in cases.values())[s]
            for cases in (own, generated)
            for s in STATES
        ]
        count = sum(k == kind for k, _ in different)
        lines.append(f"| {name} | {len(own)} | {' | '.join(map(str, numbers))} | {count} |")
    lines += ["", "## Failing on both sides", ""]
    failed = Counter(
        t for cases in results.values() for t, (state, _) in cases.items() if state == "failed"
    )
    for test in sorted(failed):
        lines.append(f"- `{test}`: {ALIKE.get(test, 'nobody has said why')}.")
    return "\n".join(lines) + "\n"

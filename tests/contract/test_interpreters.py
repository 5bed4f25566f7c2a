"""Every Python that patchgen supports gives the same bytes, and the same answers of the oracle.

Looked for are `python3.11` to `python3.14` on the path; what is not there is named in the skipped test's reason.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"
CORE = [
    "libcst>=1.8,<2",
    "ruff==0.14.10",
    "black>=26",
    "click>=8.2",
    "rich>=14",
    "filelock",
    "platformdirs",
]
TESTS = ["pytest", "pytest-timeout", "hypothesis", "psutil"]


def _interpreter(version: str) -> str | None:
    """A Python of `version` that runs; a shim that only promises one does not count."""
    program = shutil.which(f"python{version}")
    if program is None:
        return None
    asked = [program, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return program if answer.stdout.strip() == version else None


@pytest.fixture(scope="module", params=[v for v in VERSIONS if v != THIS])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with what the core needs, and pytest."""
    program = _interpreter(request.param)
    if program is None:
        pytest.skip(f"no python{request.param} on the path")
    folder = tmp_path_factory.mktemp(f"python{request.param}")
    subprocess.run([program, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *CORE, *TESTS], check=True)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the files of the installed transformers and nothing else."""
    import importlib.util

    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.submodule_search_locations
    root = tmp_path_factory.mktemp("upstream")
    (root / "transformers").symlink_to(spec.submodule_search_locations[0])
    return root


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_other_interpreters_give_the_same_bytes(python: Path, upstream: Path) -> None:
    command = [python, "-m", "patchgen", "check", "--no-cache", "--package-root", upstream]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_oracle_agrees_under_other_interpreters(python: Path, upstream: Path) -> None:
    tests = [
        "tests/oracle/test_inheritance.py",
        "tests/golden",
        "tests/unit/compiler",
        "tests/unit/syntax",
    ]
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow and not gpu",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {
        "PATH": str(python.parent),
        "PYTHONPATH": f"{REPOSITORY}:{upstream}",
        "HOME": str(upstream),
    }
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]

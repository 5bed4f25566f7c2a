"""Hard inputs 15 to 20 and 54 to 62: files, places, names and surroundings, through the command line.

What is no file, lies outside or is changed by hand: tests/contract and tests/unit/project.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hard.support import (
    MODULAR,
    PARENT,
    REPOSITORY,
    assert_refused,
    project,
    put,
    run,
    tree,
)

OUTPUT = "generated/modeling_toy_fast.py"
SOURCE = "modular/modular_toy_fast.py"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = project(tmp_path_factory.mktemp("once") / "project")
    done = run(folder, "convert")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def made(once: Path, tmp_path: Path) -> Path:
    """A converted project, with no cache."""
    folder = tmp_path / "project"
    shutil.copytree(once, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_15_a_device(made: Path) -> None:
    assert_refused(run(made, "convert", "/dev/stdin"), "PG506")
    assert_refused(run(made, "convert", "/dev/null"), "PG506")


def test_16_a_file_that_vanished(made: Path) -> None:
    before = tree(made / "generated")
    (made / "toypack/modeling_toy.py").unlink()
    assert_refused(run(made, "convert"), f"{SOURCE}:4:16", "PG101", "toypack")
    assert tree(made / "generated") == before


def test_16_a_file_that_changes_during_the_run(made: Path) -> None:
    put(made, {SOURCE: MODULAR.replace("* 2", "* 3")})
    program = (
        "import sys\nfrom pathlib import Path\nfrom patchgen.compiler import flatten\n"
        "real = flatten.make_draft\n"
        "def changed(path, env, settings):\n"
        "    result = real(path, env, settings)\n"
        "    parent = Path('toypack/modeling_toy.py')\n"
        "    parent.write_text(parent.read_text() + '# changed\\n')\n"
        "    return result\n"
        "flatten.make_draft = changed\n"
        "from patchgen.cli import main\nsys.exit(main(['convert', '-j', '1']))\n"
    )
    before = tree(made / "generated")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=made,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PATCHGEN_CACHE_DIR": str(made.parent / "cache"),
        },
    )
    assert_refused(done, "PG905", code=2)
    assert tree(made / "generated") == before


def test_55_hostile_text_in_what_ends_up_in_comments(made: Path) -> None:
    put(
        made,
        {
            "toypack/modeling_toy.py": f'"""A """ "docstring"\n\n\n# \\N{{BELL}} """ \\\n{PARENT}',
            SOURCE: f'"""Ends with a backslash \\\\"""\n\n{MODULAR}',
        },
    )
    assert run(made, "convert").returncode == 0
    compile((made / OUTPUT).read_text(), OUTPUT, "exec")


@pytest.mark.parametrize("name", ["class", "match", "list", "None", "type", "0", "été"])
def test_56_keywords_and_builtins_as_model_names(made: Path, name: str) -> None:
    put(made, {f"modular/modular_{name}.py": MODULAR})
    done = run(made, "convert")
    assert "Traceback" not in done.stderr and done.returncode in (0, 1)
    if done.returncode == 0:
        text = (made / f"generated/modeling_{name}.py").read_text()
        assert text.replace(f"modular_{name}", "modular_toy_fast") == (made / OUTPUT).read_text()


SURROUNDINGS: dict[str, dict[str, str]] = {
    "no locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin locale": {
        "LC_ALL": "en_US.ISO-8859-1",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "latin-1",
    },
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 7": {"PYTHONHASHSEED": "7"},
    "time zone": {"TZ": "Pacific/Kiritimati"},
    "optimised": {"PYTHONOPTIMIZE": "1"},
    "optimised twice": {"PYTHONOPTIMIZE": "2"},
    "narrow": {"COLUMNS": "20", "LINES": "5"},
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "developer mode": {"PYTHONDEVMODE": "1"},
}


CAFE = {SOURCE: MODULAR.replace("    def", "    # café ✓\n    def")}


@pytest.fixture(scope="module")
def cafe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a usual run makes of `CAFE`."""
    usual = project(tmp_path_factory.mktemp("cafe") / "usual", CAFE)
    assert run(usual, "convert").returncode == 0
    assert "café ✓" in (usual / OUTPUT).read_text(encoding="utf-8")
    return _digests(usual)


@pytest.mark.parametrize(
    "environment", SURROUNDINGS.values(), ids=[f"60 {name}" for name in SURROUNDINGS]
)
def test_the_surroundings_do_not_matter(
    tmp_path: Path, cafe: dict[str, str], environment: dict[str, str]
) -> None:
    other = project(tmp_path / "other", CAFE)
    done = run(other, "convert", **environment)
    assert done.returncode == 0, done.stderr
    assert _digests(other) == cafe


NAMES = ["with space", "ümläut ✓", "x" * 200, "quote'\"s", "semi;colon", "-dash", "%20", "a.b"]


@pytest.mark.parametrize("name", NAMES, ids=[f"60 {name[:12]}" for name in NAMES])
def test_the_place_does_not_matter(once: Path, tmp_path: Path, name: str) -> None:
    other = project(tmp_path / name / "project")
    assert run(other / "modular", "convert").returncode == 0
    assert _digests(other) == _digests(once)


def _digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in tree(folder).items()}


def test_61_nobody_reads_the_output(made: Path) -> None:
    put(
        made,
        {
            OUTPUT: "# Generated by patchgen from modular/modular_toy_fast.py. \n"
            + "x = 1\n" * 50_000
        },
    )
    command = f"{sys.executable} -m patchgen diff | head -1; exit ${{PIPESTATUS[0]}}"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=made, env=env, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr", "stdin"])
def test_61_a_closed_stream(made: Path, stream: str) -> None:
    number = {"stdin": 0, "stdout": 1, "stderr": 2}[stream]
    close = ">&-" if number == 1 else "2>&-" if number == 2 else "<&-"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = ["bash", "-c", f"{sys.executable} -m patchgen check {close}"]
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True)
    assert "Traceback" not in done.stdout + done.stderr and done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "git", ["none", "empty folder", "broken file"], ids=lambda git: f"62 git {git}"
)
def test_no_git_is_needed(made: Path, git: str) -> None:
    if git == "empty folder":
        (made / ".git").mkdir()
    if git == "broken file":
        (made / ".git").write_text("gitdir: nowhere")
    assert run(made, "check", PATH="/nonexistent").returncode == 0

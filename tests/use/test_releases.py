"""The wheel beside each transformers that its extra `models` allows: the gallery's models generate the stock models' tokens.

Or the import says why not.  The wheel is built here, and the other packages are those of this environment.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from patchgen.project.lock import read_lock
from patchgen.project.places import LOCK
from patchgen.project.versions import release_in
from tests.toytree import REPOSITORY, environment
from tests.use.releases import TESTED, fetch_release

# Found to generate other tokens without a word, when they were used as they were made for 5.23.0.
FEW = ("llama_loss", "gpt2_gelu_loss", "qwen3_fast", "bert_norm")
# Its edits are of experts that 5.18.0 brought.
REFUSED = {"5.17.0": {"switch_transformers_grouped"}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel."""
    pytest.importorskip("torch")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", folder, REPOSITORY], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as made:
        made.extractall(folder / "content")
    return folder / "content"


def generated(release: str, wheel: Path, folder: Path, *names: str) -> dict[str, str]:
    """What `stock_tokens.py` says; that transformers prints nothing about what is undocumented."""
    env = environment(
        PYTHONPATH=f"{fetch_release(release, folder / 'release')}:{wheel}",
        PATCHGEN_CACHE_DIR=str(folder / "cache"),
        TRANSFORMERS_VERBOSITY="error",
    )
    command = [sys.executable, "-P", REPOSITORY / "tests/use/stock_tokens.py", release, *names]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=800
    )
    assert done.returncode == 0, done.stderr
    *others, last = done.stdout.splitlines()
    assert not others and "[ERROR]" not in done.stderr
    return json.loads(last)


@pytest.mark.slow  # test_another_release.py has toy releases
def test_the_newest_release(wheel: Path, tmp_path: Path) -> None:
    assert generated(TESTED[-1], wheel, tmp_path, *FEW) == dict.fromkeys(FEW, "equal")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", TESTED)
def test_each_release(release: str, wheel: Path, tmp_path: Path) -> None:
    said = generated(release, wheel, tmp_path)
    modulars = (REPOSITORY / "modular").rglob("modular_*.py")
    assert set(said) == {path.stem.removeprefix("modular_") for path in modulars}
    others = {name: what for name, what in said.items() if what != "equal"}
    assert set(others) == REFUSED.get(release, set())
    for name, what in others.items():
        assert re.search(rf"PG\d+ .*`patchgen new --from-gallery {name}`", what, re.DOTALL)


def test_the_releases_that_pip_takes_are_those_that_are_tested() -> None:
    table = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (required,) = (
        text
        for text in table["project"]["optional-dependencies"]["models"]
        if text.startswith("transformers")
    )
    minors = [int(release.split(".")[1]) for release in TESTED]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert required == f"transformers>={TESTED[0]},<5.{minors[-1] + 1}"
    made_for = {release_in(record.made_by) for record in read_lock(REPOSITORY / LOCK).values()}
    assert made_for <= set(TESTED)
    page = (REPOSITORY / "docs/using.md").read_text(encoding="utf-8")
    assert ", ".join(TESTED[:-1]) + f" and {TESTED[-1]}" in " ".join(page.split())

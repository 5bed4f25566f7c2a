"""The wheel alone does the converter's work: no checkout, no torch, and transformers only as files to read."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
VARIANTS = ("llama/modular_llama_loss.py", "bert/modular_bert_padding_free.py")
PROJECT = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\nroots = ["upstream"]\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, REPOSITORY]
    subprocess.run(build, check=True)
    (made,) = folder.glob("patchgen-*.whl")
    return made


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`patchgen` of a fresh environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", wheel], check=True)
    return folder / "bin/patchgen"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_holds_the_tool_and_the_generated_models(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    held = [name for name in names if ".dist-info/" not in name]
    assert {name.partition("/")[0] for name in held} == {"patchgen"}
    assert "patchgen/gallery/llama/modeling_llama_loss.py" in held
    tracked = subprocess.check_output(["git", "ls-files", "patchgen"], cwd=REPOSITORY, text=True)
    assert not set(tracked.split()) - set(held)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_works_without_the_repository(command: Path, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.submodule_search_locations
    (tmp_path / "upstream").mkdir()
    (tmp_path / "upstream/transformers").symlink_to(spec.submodule_search_locations[0])
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name in VARIANTS:
        copy = tmp_path / "modular" / name
        copy.parent.mkdir(parents=True)
        copy.write_text(
            (REPOSITORY / "modular" / name).read_text(encoding="utf-8"), encoding="utf-8"
        )

    def run(*argv: str, code: int = 0) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        argv = (str(command), *argv)
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("convert")
    for name in VARIANTS:
        output = Path("generated") / name.replace("modular_", "modeling_")
        assert (tmp_path / output).read_bytes() == (REPOSITORY / output).read_bytes()
    assert "wrote modular/mpnet/modular_mpnet_sdpa_checkpoint.py" in run(
        "new", "mpnet", "--with", "sdpa,checkpoint"
    )
    run("new", "--from-gallery", "albert_checkpoint")
    run("convert")
    assert "4 outputs: 4 ok" in run("check")
    assert "PG101" in run("errors")
    run("verify", "--help")
    assert "needs torch" in run("verify", "llama_loss", code=2)

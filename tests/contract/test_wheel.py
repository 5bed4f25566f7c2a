"""The wheel alone does the converter's work: no checkout, no torch, and transformers only as files to read.

Without a network, the wheel is built by the installed hatchling, and a fresh environment takes what
the wheel requires from this one.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruff.__main__ import find_ruff_bin

from patchgen.project.versions import release_of
from patchgen.syntax.locate import make_environment
from tests.pages import Session, commands, fits, read_page
from tests.toytree import REPOSITORY, environment

pytest.importorskip("hatchling")
resource = pytest.importorskip("resource")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="the README's shell is Linux's"),
]
GALLERY = ("llama/modular_llama_loss.py", "bert/modular_bert_padding_free.py")
SCREEN = read_page(REPOSITORY / "README.md")
OWN = "import generated, sys; print(*generated.__path__); import {}; print(sys.modules[{!r}].__file__)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", folder, REPOSITORY], check=True)
    (made,) = folder.glob("patchgen-*.whl")
    return made


def installed() -> Iterator[Path]:
    """What stands in the site-packages of this environment, without patchgen and hooks."""
    for folder in map(Path, sys.path):
        if folder.name == "site-packages":
            for path in folder.iterdir():
                if "patchgen" not in path.name and path.suffix != ".pth":
                    yield path


@pytest.fixture(scope="module", params=["here", pytest.param("network", marks=pytest.mark.slow)])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Session, Path]:
    """A shell in an empty folder with the programs of a fresh environment, and the environment."""
    top = tmp_path_factory.mktemp(request.param)
    fresh, folder = top / "environment", top / "empty"
    folder.mkdir()
    alone = request.param == "here"
    make = [sys.executable, "-m", "venv", *(["--without-pip"] if alone else []), fresh]
    subprocess.run(make, check=True)
    more = {}
    if alone:
        packages = packages_of(fresh)
        for path in installed():
            if not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
        (fresh / "bin/ruff").symlink_to(find_ruff_bin())
        pip = fresh / "bin/pip"
        pip.write_text(f'#!/bin/sh\nexec "{fresh}/bin/python" -m pip "$@"\n', encoding="utf-8")
        pip.chmod(0o755)
        more = {"PIP_NO_INDEX": "1"}
    env = environment(
        PATH=f"{fresh / 'bin'}:/usr/bin:/bin",
        PYTHONPATH="",
        PATCHGEN_CACHE_DIR=str(top / "cache"),
        OMP_NUM_THREADS="1",
        PIP_ROOT_USER_ACTION="ignore",
        **more,
    )
    return Session(folder, env), fresh


def packages_of(fresh: Path) -> Path:
    (folder,) = fresh.glob("lib/python*/site-packages")
    return folder


def first_screen(wheel: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each command above the README's picture, and what it prints."""
    picture = SCREEN.text.index("![")
    for block in SCREEN.blocks:
        if block.language == "console" and block.start < picture:
            for command in commands(block):
                yield command.line.replace("path/to/patchgen", str(wheel)), command.expected


def test_the_first_screen_leads_from_nothing_to_a_model(
    session: tuple[Session, Path], wheel: Path
) -> None:
    shell, fresh = session
    home = release_of("transformers", make_environment(REPOSITORY))
    if f"transformers=={home} " not in SCREEN.text and "PIP_NO_INDEX" in shell.env:
        pytest.skip(f"the README is written with another transformers than {home}")
    top, packages = shell.folder, packages_of(fresh)
    before = {path.name for path in packages.iterdir()}
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    for line, expected in first_screen(wheel):
        printed = shell.run(line)
        if not line.startswith("pip "):
            assert fits(expected, printed), (line, printed)
        assert shell.code == 0, line
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - spent.ru_utime - spent.ru_stime
    print(f"{seconds:.1f} s of CPU")
    added = {path.name for path in packages.iterdir()} - before
    if "PIP_NO_INDEX" in shell.env:  # pip downloads and unpacks no dependency
        assert seconds < 20
        assert {name.partition("-")[0] for name in added} == {"patchgen"}

    # Nothing of the package answers to the name of the project's own folder.
    for project in (shell.folder, shutil.copytree(shell.folder, top / "second")):
        shell.folder = project
        (project / "generated/mine.py").write_text("", encoding="utf-8")
        asked = shell.run(f'python -c "{OWN.format("generated.mine", "generated.mine")}"')
        assert asked == [str(project / "generated"), str(project / "generated/mine.py")]
        assert shell.run("patchgen check") == ["1 output: 1 ok"]
    if importlib.util.find_spec("torch") and "PIP_NO_INDEX" in shell.env:
        module = "generated.albert.modeling_albert_checkpoint"
        asks = (
            f"from {module} import AlbertModel; print(AlbertModel.supports_gradient_checkpointing)"
        )
        assert shell.run(f'python -c "{asks}"')[-1:] == ["True"]


def test_the_wheel_holds_the_tool_and_the_generated_models(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    held = [name for name in names if ".dist-info/" not in name]
    assert {name.partition("/")[0] for name in held} == {"patchgen"}
    assert "patchgen/gallery/llama/modeling_llama_loss.py" in held
    assert "patchgen/gallery/patchgen.lock" in held
    tracked = subprocess.check_output(["git", "ls-files", "patchgen"], cwd=REPOSITORY, text=True)
    assert not set(tracked.split()) - set(held)


def test_the_wheel_works_without_the_repository(
    session: tuple[Session, Path], wheel: Path, tmp_path: Path
) -> None:
    """Its gallery is copied and converted to the bytes of the repository."""
    shell, fresh = session
    shell.folder = tmp_path
    shell.run(f"pip install {wheel}")
    shell.run("pip install --no-deps transformers==5.23.0")

    def run(line: str, code: int = 0) -> str:
        printed = "\n".join(shell.run(line))
        assert shell.code == code, printed
        return printed

    run("patchgen init")
    for name in GALLERY:
        variant = Path(name).stem.removeprefix("modular_")
        assert f"wrote modular/{name}" in run(f"patchgen new --from-gallery {variant}")
    run("patchgen convert")
    for name in GALLERY:
        output = Path("generated") / name.replace("modular_", "modeling_")
        assert (tmp_path / output).read_bytes() == (REPOSITORY / output).read_bytes()
    assert "wrote modular/mpnet/modular_mpnet_sdpa_checkpoint.py" in run(
        "patchgen new mpnet --with sdpa,checkpoint --no-proof"
    )
    run("patchgen convert")
    assert "3 outputs: 3 ok" in run("patchgen check")
    assert "PG101" in run("patchgen explain PG")
    run("patchgen verify --help")
    if "PIP_NO_INDEX" not in shell.env:
        assert "needs torch" in run("patchgen verify llama_loss", code=2)

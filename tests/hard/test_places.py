"""Hard inputs 1 to 3, 15 to 20 and 54 to 62: files, places, names and surroundings, through the command line."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hard.support import (
    CONFIGURATION,
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


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "LIMIT = 3\n"], ids=["01 empty", "02 comments", "03 no classes"]
)
def test_nothing_to_generate(tmp_path: Path, text: str) -> None:
    folder = project(tmp_path / "project", {SOURCE: text})
    done = run(folder, "convert", "-v")
    assert done.returncode == 0 and "nothing to generate" in done.stdout + done.stderr
    assert run(folder, "check").returncode == 0
    assert not (folder / "generated").exists()


def test_15_a_folder_named_like_a_modular_file(made: Path) -> None:
    (made / "modular/modular_folder.py").mkdir()
    assert_refused(run(made, "convert"), "modular/modular_folder.py", "PG001", "not a regular file")


def test_15_a_broken_link(made: Path) -> None:
    (made / "modular/modular_link.py").symlink_to("nowhere.py")
    assert_refused(
        run(made, "convert"), "modular/modular_link.py", "PG001", "hint: correct the path"
    )


@pytest.mark.parametrize(
    "place", ["modular/modular_pipe.py", "generated/modeling_pipe.py", "toypack/modeling_pipe.py"]
)
def test_15_a_pipe_is_never_waited_for(made: Path, place: str) -> None:
    os.mkfifo(made / place)
    if place.startswith("toypack"):
        put(made, {SOURCE: MODULAR.replace("modeling_toy", "modeling_pipe")})
    for command in ("check", "convert"):
        done = run(made, command, timeout=20)
        if not place.startswith("generated"):
            assert_refused(done, "PG001" if place.startswith("modular") else "PG", "pipe")


def test_15_a_device(made: Path) -> None:
    assert_refused(run(made, "convert", "/dev/stdin"), "PG506")
    assert_refused(run(made, "convert", "/dev/null"), "PG506")


def test_16_an_unreadable_file(made: Path) -> None:
    (made / SOURCE).chmod(0)
    done = run(made, "check")
    if os.geteuid():  # root reads everything
        assert_refused(done, SOURCE, "PG001")


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


OUTSIDE = [
    "../outside",
    "/etc/patchgen-outside",
    "generated/../../outside",
    "modular/../../../outside",
]


@pytest.mark.parametrize("place", OUTSIDE, ids=[f"17 {place}" for place in OUTSIDE])
def test_an_output_folder_outside_the_project(made: Path, place: str) -> None:
    put(made, {"pyproject.toml": CONFIGURATION.replace('"generated"', f'"{place}"')})
    before = tree(made.parent)
    assert_refused(run(made, "convert"), "pyproject.toml", "outputs", code=2)
    assert tree(made.parent) == before and not Path("/etc/patchgen-outside").exists()


def test_17_an_output_folder_that_is_a_link_out_of_the_project(made: Path) -> None:
    outside = made.parent / "outside"
    outside.mkdir()
    shutil.rmtree(made / "generated")
    (made / "generated").symlink_to(outside, target_is_directory=True)
    assert_refused(run(made, "convert"), "PG904", code=2)
    assert not list(outside.iterdir())


def test_17_an_output_that_is_a_link_out_of_the_project(made: Path) -> None:
    target = made.parent / "precious.py"
    target.write_text("precious = True\n")
    (made / OUTPUT).unlink()
    (made / OUTPUT).symlink_to(target)
    done = run(made, "convert", "--force")
    assert "Traceback" not in done.stderr
    assert target.read_text() == "precious = True\n"


def test_17_a_modular_file_outside_the_project(made: Path) -> None:
    other = made.parent / "modular_other.py"
    other.write_text(MODULAR)
    before = tree(made)
    assert run(made, "convert", str(other)).returncode == 0
    # It is of no project, so its outputs go beside it, and the project that the command was started in stays as it is.
    assert (made.parent / "modeling_other.py").exists()
    assert tree(made) == before


TWINS = {"same name": "modular_toy_fast.py", "another case": "modular_TOY_fast.py"}


@pytest.mark.parametrize("name", TWINS.values(), ids=[f"18 {name}" for name in TWINS])
def test_two_files_with_one_output(made: Path, name: str) -> None:
    configuration = CONFIGURATION.replace('["modular"]', '["modular", "more"]')
    configuration = configuration.replace('"generated" }', '"generated", more = "generated" }')
    put(made, {"pyproject.toml": configuration, f"more/{name}": MODULAR})
    before = tree(made / "generated")
    assert_refused(run(made, "convert"), "PG508", SOURCE, f"more/{name}")
    assert tree(made / "generated") == before


def test_19_a_hand_written_file_in_the_way(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", {OUTPUT: "mine = 1\n"})
    assert_refused(run(folder, "convert"), OUTPUT, "PG509")
    assert (folder / OUTPUT).read_text() == "mine = 1\n"
    assert run(folder, "convert", "--force").returncode == 0
    assert "class ToyBlock" in (folder / OUTPUT).read_text()


def test_20_a_generated_file_edited_by_hand(made: Path) -> None:
    right = (made / OUTPUT).read_text()
    put(made, {OUTPUT: right.replace("* 2", "* 4")})
    done = run(made, "check", "--diff")
    assert_refused(done, OUTPUT, "PG501", "by hand", "-        return", "+        return")
    assert run(made, "convert").returncode == 0
    assert (made / OUTPUT).read_text() == right


def test_54_what_is_read_is_never_run(made: Path) -> None:
    marker = made / "marker"
    marker.touch()
    remove = f"\n\nimport os\n\nGONE = os.unlink({str(marker)!r})\n"
    put(
        made,
        {
            SOURCE: MODULAR + remove,
            "toypack/modeling_toy.py": PARENT + remove.replace("GONE = ", ""),
            "toypack/__init__.py": remove,
        },
    )
    assert run(made, "convert").returncode == 0
    assert run(made, "check").returncode == 0
    assert marker.exists()


HOSTILE = {
    "shell": "modular_x;touch marker.py",
    "newline": "modular_a\nimport os.py",
    "quotes": 'modular_x"""y.py',
    "spaces": "modular_a b.py",
    "dots": "modular_..py",
    "hyphen": "modular_a-b.py",
    "options": "modular_--force.py",
    "dollar": "modular_$(id).py",
    "backslash": "modular_a\\b.py",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=[f"55 {name}" for name in HOSTILE])
def test_hostile_names(made: Path, name: str) -> None:
    put(made, {f"modular/{name}": MODULAR})
    before = tree(made)
    assert_refused(run(made, "convert"), "PG506")
    assert tree(made) == before


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


CONFIGURATIONS = {
    "57 bad TOML": ("[tool.patchgen\n", "pyproject.toml:1:"),
    "57 unknown key": ("[tool.patchgen]\nsource = ['modular']\n", "did you mean sources"),
    "57 wrong type": ("[tool.patchgen]\nsources = 'modular'\n", "sources"),
    "57 wrong element": ("[tool.patchgen]\nsources = [1]\n", "sources"),
    "57 table": ("[tool]\npatchgen = 3\n", "tool.patchgen"),
    "57 required version": ("[tool.patchgen]\nrequired-version = '>=99'\n", "99"),
    "57 line length": ("[tool.patchgen]\nline-length = -1\n", "line-length"),
    "57 formatter": ("[tool.patchgen]\nformatter = 'yapf'\n", "formatter"),
    "57 NUL": ("[tool.patchgen]\nsources = ['a\0']\n", "pyproject.toml"),
}


@pytest.mark.parametrize(("text", "part"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_wrong_configuration(made: Path, text: str, part: str) -> None:
    put(made, {"pyproject.toml": text})
    before = tree(made)
    assert_refused(run(made, "check"), "pyproject.toml", part, code=2)
    assert tree(made) == before


def test_57_transformers_is_missing(made: Path) -> None:
    put(
        made,
        {
            SOURCE: MODULAR.replace(
                "from toypack import modeling_toy", "from transformers.models.llama import x"
            )
        },
    )
    # No site packages, but the libraries that patchgen itself needs.
    libraries = made.parent / "libraries"
    libraries.mkdir()
    site = Path(shutil.__file__).parent / "site-packages"
    import click

    site = Path(click.__file__).parents[1]
    for entry in site.iterdir():
        if not entry.name.startswith(("torch", "transformers")):
            (libraries / entry.name).symlink_to(entry)
    done = run(made, "check", python=["-S"], PYTHONPATH=f"{REPOSITORY}:{libraries}")
    assert_refused(done, f"{SOURCE}:4:16", "PG101", "transformers")


# Sends itself the signal when it moves an output for the third time, which is a place that no clock can miss.
KILLS_ITSELF = """
import os, runpy, sys
left = [3]
def watch(event, args):
    if event == "os.rename" and "modeling_" in str(args[1]):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), NUMBER)
sys.addaudithook(watch)
sys.argv = ["patchgen", "convert", "-j", "1"]
runpy.run_module("patchgen", run_name="__main__")
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: f"58 {n.name}"
)
def test_interrupted(made: Path, number: signal.Signals) -> None:
    before = tree(made / "generated")
    files = {f"modular/modular_toy_{i}.py": MODULAR.replace("* 2", f"* {i}") for i in range(12)}
    put(made, {**files, SOURCE: MODULAR.replace("* 2", "* 3")})
    done = subprocess.run(
        [sys.executable, "-c", KILLS_ITSELF.replace("NUMBER", str(int(number)))],
        cwd=made,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (-number, 128 + number) and "Traceback" not in done.stderr
    now = {
        name: data for name, data in tree(made / "generated").items() if not name.endswith(".tmp")
    }
    assert run(made, "convert").returncode == 0
    after = tree(made / "generated")
    assert all(data in (before.get(name), after[name]) for name, data in now.items()), (
        "something is torn"
    )
    assert run(made, "check").returncode == 0
    assert not list(made.rglob(".patchgen-*.tmp"))


def test_58_the_cache_is_broken_or_cannot_be_made(made: Path) -> None:
    before = tree(made)
    cache = made.parent / "cache"
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\x80broken")
    assert run(made, "check").returncode == 0
    shutil.rmtree(cache)
    cache.write_text("in the way")
    assert run(made, "check").returncode == 0
    done = run(made, "check", HOME="/nonexistent", PATCHGEN_CACHE_DIR="/proc/nowhere")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    cache.unlink()
    assert tree(made) == before


def test_59_two_runs_at_once(made: Path) -> None:
    files = {f"modular/modular_toy_{i}.py": MODULAR.replace("* 2", f"* {i}") for i in range(10)}
    put(made, files)
    command = [sys.executable, "-m", "patchgen"]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    runs = [
        subprocess.Popen(
            [*command, verb], cwd=made, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for verb in ("convert", "convert", "check")
    ]
    ends = [(process.communicate(timeout=60), process.returncode) for process in runs]
    assert [code for _, code in ends[:2]] == [0, 0], ends
    assert not any(b"Traceback" in errors for (_, errors), _ in ends)
    assert run(made, "check").returncode == 0
    alone = project(made.parent / "alone", files)
    assert run(alone, "convert").returncode == 0
    assert tree(alone) == tree(made)


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


def test_60_a_mask_for_new_files(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    old = os.umask(0o077)
    try:
        assert run(folder, "convert").returncode == 0
    finally:
        os.umask(old)
    assert (folder / OUTPUT).stat().st_mode & 0o777 == 0o600
    assert run(folder, "check").returncode == 0


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


def test_61_a_full_device(made: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = ["bash", "-c", f"{sys.executable} -m patchgen list > /dev/full"]
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and done.returncode == 2, done.stderr


def test_61_no_colours_where_none_are_wanted(made: Path) -> None:
    put(made, {OUTPUT: "# Generated by patchgen from modular/modular_toy_fast.py. \n"})
    done = run(made, "check", "--diff", NO_COLOR="1", TERM="dumb", COLUMNS="20")
    assert "\x1b" not in done.stdout + done.stderr and "PG501" in done.stdout + done.stderr


def test_62_modes_are_kept(made: Path) -> None:
    (made / OUTPUT).chmod(0o755)
    put(made, {SOURCE: MODULAR.replace("* 2", "* 3")})
    assert run(made, "convert").returncode == 0
    assert (made / OUTPUT).stat().st_mode & 0o777 == 0o755
    assert "* 3" in (made / OUTPUT).read_text()


@pytest.mark.parametrize(
    "git", ["none", "empty folder", "broken file"], ids=lambda git: f"62 git {git}"
)
def test_no_git_is_needed(made: Path, git: str) -> None:
    if git == "empty folder":
        (made / ".git").mkdir()
    if git == "broken file":
        (made / ".git").write_text("gitdir: nowhere")
    assert run(made, "check", PATH="/nonexistent").returncode == 0


def test_every_row_has_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    rows = {1, 2, 3, *range(15, 21), *range(54, 63)}
    assert {
        row for row in rows if f"test_{row}_" in text or f"{row} " in text or f'"{row:02} ' in text
    } == rows

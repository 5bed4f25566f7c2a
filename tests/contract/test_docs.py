"""The pages say what is so: commands print what is shown, and whatever is named exists.

PATCHGEN_REFRESH=1 writes into the pages what is printed now; git then shows what that changes.
"""

from __future__ import annotations

import ast
import builtins
import fnmatch
import keyword
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from patchgen.cli.commands import COMMANDS, load_command
from patchgen.syntax.errors import catalogue
from tests.pages import Block, Command, Page, Session, commands, fits, read_page, rendered
from tests.toytree import REPOSITORY, environment

SESSIONS = (
    "README.md",
    "docs/add-a-part.md",
    "docs/adopt.md",
    "docs/alternatives.md",
    "docs/design.md",
    "docs/edits.md",
    "docs/memory.md",
    "docs/rescue.md",
    "docs/training.md",
    "docs/tutorial.md",
    "docs/unpatch.md",
    "docs/upgrading.md",
    "docs/using.md",
    "docs/writing-a-variant.md",
    "docs/your-project.md",
)
# Up to a minute each: many processes that import torch.
LONG = (
    "docs/alternatives.md",
    "docs/adopt.md",
    "docs/memory.md",
    "docs/rescue.md",
    "docs/training.md",
    "docs/tutorial.md",
    "docs/unpatch.md",
    "docs/upgrading.md",
    "docs/using.md",
    "docs/writing-a-variant.md",
)
PAGES = (
    *SESSIONS,
    "docs/README.md",
    "docs/distributed.md",
    "docs/language.md",
    "docs/records/LOG.md",
    "docs/records/README.md",
    "CHANGELOG.md",
)
HISTORY = ("LOG.md", "CHANGELOG.md")  # these go on naming what is gone
REFRESH = bool(os.environ.get("PATCHGEN_REFRESH"))
CONSTRAINTS = REPOSITORY / "constraints/cpu.txt"
PROJECT = (
    "generated",
    "modular",
    "utils",
    "Makefile",
    "patchgen.lock",
    "patchgen.overrides.toml",
    "pyproject.toml",
)

# What a page shows and a session does not run: it would install, or test, or end never.
NOT_RUN = ("make ", "pip install ", "pre-commit ", "git clone ")
SHELL = ("git", "pip", "pre-commit", "source")

pytestmark = pytest.mark.timeout(600)
each_page = pytest.mark.parametrize("name", PAGES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in SESSIONS],
)
def test_session(name, tmp_path):
    """Run alone, a page is what a reader gets who follows it in a fresh clone."""
    pytest.importorskip("torch")
    if find_spec("transformers") is None or sys.platform != "linux":
        pytest.skip("the pages are written for Linux, with transformers installed")
    _follow(name, _session(tmp_path))


@pytest.mark.slow
def test_the_tutorial_in_a_new_environment(tmp_path):
    """What a new user has: the package, the files of transformers, no torch and no clone."""
    programs = tmp_path / "new/bin"
    install = [programs / "python", "-m", "pip", "install", "-q", "-c", CONSTRAINTS]
    subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
    subprocess.run([*install, f"{REPOSITORY}[page]"], check=True)
    subprocess.run([*install, "--no-deps", "--no-compile", "transformers"], check=True)
    session = _session(tmp_path)
    path = f"{programs}:{os.environ['PATH']}"
    session.env = {**session.env, "PATH": path, "PYTHONPATH": ""}
    assert session.run("python -c 'import torch'")[-1].startswith("ModuleNotFoundError")
    _follow("docs/tutorial.md", session, without="torch")


def _follow(name: str, session: Session, without: str = "") -> None:
    """Run the blocks of a page but those that name what is missing, and compare what they print."""
    page, wrong = read_page(REPOSITORY / name), []
    for block in page.blocks:
        if without and without in block.words:
            continue
        if block.language == "console" and "figures" not in block.words:
            wrong += _run(block, session)
        elif "file" in block.options:
            path = session.folder / block.options["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif "of" in block.options:
            text = _find(session.folder, block.options["of"]).read_text(encoding="utf-8")
            assert fits(["...", *_lines(block.text), "..."], _lines(text)), (
                f"{name}:{block.line} is not so"
            )
        elif block.language == "console":
            _check_scripts(block)
        else:
            _parse(block, name)
    if wrong and REFRESH:
        _write(page, wrong)
    assert not wrong, "\n\n".join(
        f"{name}:{block.line} shows something else than is printed (PATCHGEN_REFRESH=1 writes it):\n{text}"
        for block, text in wrong
    )


def _session(top: Path) -> Session:
    """A copy of the checked-in project, in which `patchgen` and `python` are this checkout's and this Python."""
    folder, programs = top / "patchgen-clone", top / "bin"
    for name in PROJECT:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copy(source, folder / name)
    programs.mkdir()
    for name, arguments in (("patchgen", "-m patchgen"), ("python", "")):
        (programs / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8"
        )
        (programs / name).chmod(0o755)
    env = environment(
        PATH=f"{programs}:{os.environ['PATH']}",
        PATCHGEN_CACHE_DIR=str(top / "cache"),
        PYTHONUNBUFFERED="1",
        PYTHONDONTWRITEBYTECODE="1",
        NO_COLOR="1",
        OMP_NUM_THREADS="1",
        TRANSFORMERS_VERBOSITY="error",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        HF_HUB_OFFLINE="1",
        HF_HOME=str(top / "hf"),
        TQDM_DISABLE="1",
        DS_ACCELERATOR="cpu",  # where DeepSpeed is installed, it says that it found no GPU
    )
    return Session(folder, env)


def _run(block: Block, session: Session) -> list[tuple[Block, str]]:
    pairs, differs = [], False
    for command in commands(block):
        if command.line.startswith(NOT_RUN):
            _check_not_run(command)
            pairs.append((command, command.expected))
            continue
        printed = session.run(command.line)
        same = fits(command.expected, printed)
        differs |= not same
        pairs.append((command, command.expected if same else printed))
    return [(block, rendered(pairs))] if differs else []


def _write(page: Page, wrong: list[tuple[Block, str]]) -> None:
    text = page.text
    for block, new in reversed(wrong):
        text = text[: block.start] + new + text[block.end :]
    page.path.write_text(text, encoding="utf-8")


def _check_not_run(command: Command) -> None:
    word, *rest = shlex.split(command.line)
    if word == "make":
        assert set(rest) <= _targets(), command.line
    extras = re.findall(r"\[([\w,]+)\]", command.line)
    known = _pyproject()["project"]["optional-dependencies"]
    assert {name for part in extras for name in part.split(",")} <= set(known), command.line


def _check_scripts(block: Block) -> None:
    for command in commands(block):
        script = next(
            (word for word in shlex.split(command.line) if word.endswith(".py")), "README.md"
        )
        assert (REPOSITORY / script).is_file(), command.line


def _parse(block: Block, name: str) -> None:
    """A fragment is at least written correctly."""
    match block.language:
        case "python":
            ast.parse(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "yaml":
            yaml.safe_load(block.text)
        case language:
            assert language == "text", (
                f"{name}:{block.line}: nobody checks a block of {language or 'no language'}"
            )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def _find(folder: Path, name: str) -> Path:
    found = [
        root / name
        for root in (folder, REPOSITORY, *map(Path, sys.path))
        if (root / name).is_file()
    ]
    assert found, f"{name} does not exist"
    return found[0]


# Names


@each_page
def test_what_is_named_exists(name):
    page = read_page(REPOSITORY / name)
    unknown = [code for code in page.codes if not _exists(code, page)]
    assert unknown == []


def _exists(code: str, page: Page) -> bool:
    word, *rest = code.split()
    if word == "patchgen" and rest and rest[0] in COMMANDS:
        # What stands behind `--` is another program's.
        own = rest[1 : rest.index("--")] if "--" in rest else rest[1:]
        return all(flag in _flags(rest[0]) for flag in own if flag[1:] and flag[0] == "-")
    if word == "make" and rest:
        return set(rest) <= _targets()
    if word in SHELL and rest:
        return True
    if (REPOSITORY / code).is_file():
        return True
    if word.startswith("--"):
        return any(word.split("=")[0] in _flags(verb) for verb in COMMANDS)
    if re.fullmatch(r"PG\d{3}", code):
        return code in catalogue()
    if re.search(r"/|\.(py|md|toml|lock|diff|yaml|yml|cfg|txt)$", code) and " " not in code:
        return _is_file(code, page)
    names = re.findall(r"[A-Za-z_][A-Za-z_0-9]+", code)
    gone = _gone() if page.path.name in HISTORY else frozenset()
    return all(name in _words() or name in _words_of(page) or name in gone for name in names)


@cache
def _gone() -> frozenset[str]:
    """What the changelog says was removed: pages of history go on naming it."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    removed = re.findall(r"^- Removed: (.*(?:\n  .*)*)", changelog, re.MULTILINE)
    return frozenset(name for entry in removed for name in re.findall(r"`(\w+)`", entry))


@cache
def _flags(verb: str) -> set[str]:
    options = load_command(verb).params
    flags = {flag for option in options for flag in option.opts} | {"--help", "-h"}
    if verb == "train" and find_spec("transformers"):
        from patchgen.training.loop.options import make_parser

        flags |= set(make_parser()._option_string_actions)
    return flags


def _is_file(code: str, page: Page) -> bool:
    written = [block.options["file"] for block in page.blocks if "file" in block.options]
    pattern = re.sub(r"[A-Z]{3,}|<\w+>", "*", code.rstrip("/"))
    if any(fnmatch.fnmatch(path, f"*{pattern}") for path in written):
        return True
    roots = [
        REPOSITORY,
        REPOSITORY / "patchgen",
        REPOSITORY / page.path.parent,
        *map(Path, sys.path),
    ]
    return any(
        next(root.glob(pattern), None) is not None for root in roots if root.is_dir()
    ) or any(path.match(pattern) for path in _files())


@cache
def _files() -> tuple[Path, ...]:
    return tuple(
        path
        for folder in ("patchgen", "modular", "generated", "tests", "utils", "docs", "benchmarks")
        for path in (REPOSITORY / folder).rglob("*")
    )


@cache
def _words() -> frozenset[str]:
    """Every name that code of the repository spells, or that of transformers outside its models, or Python."""
    found = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *sys.stdlib_module_names}
    spec = find_spec("transformers")
    theirs = [
        path
        for root in (spec and spec.submodule_search_locations) or ()
        for path in Path(root).glob("*.py")
    ]
    for path in [*REPOSITORY.glob("*.toml"), *_files(), *theirs]:
        if path.suffix in (".py", ".toml") and path.name not in ("test_docs.py", "pages.py"):
            found.update(re.findall(r"[A-Za-z_][A-Za-z_0-9]+", path.read_text(encoding="utf-8")))
    return frozenset(found)


def _words_of(page: Page) -> frozenset[str]:
    """Every name in the code that the page shows."""
    return frozenset(
        name for block in page.blocks for name in re.findall(r"[A-Za-z_][A-Za-z_0-9]+", block.text)
    )


@cache
def _targets() -> set[str]:
    return set(
        re.findall(
            r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )


@cache
def _pyproject() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


# Links


@each_page
def test_links_lead_somewhere(name):
    page = read_page(REPOSITORY / name)
    assert [link for link in page.links if not _leads(link, page)] == []


def _leads(link: str, page: Page) -> bool:
    if link.startswith(("https://", "http://")):
        return True
    target, _, anchor = link.partition("#")
    path = page.path.parent / target if target else page.path
    return path.exists() and (not anchor or anchor in read_page(path).anchors)


def test_the_site_names_every_page():
    """`make docs` builds with --strict: a page that its navigation does not name is an error.

    The records stay in the source.
    """
    navigation = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    paths = (REPOSITORY / "docs").rglob("*.md")
    pages = {path.relative_to(REPOSITORY / "docs").as_posix() for path in paths}
    records = {page for page in pages if page.startswith("records/")}
    assert pages - records - named == {"README.md"}
    assert named & records == set()


def test_the_page_of_the_records_names_each():
    """With the code that it measured, so that a reader can ask git what has changed there."""
    page = read_page(REPOSITORY / "docs/records/README.md")
    records = {path.name for path in page.path.parent.glob("*.md")} - {"README.md"}
    rows = re.findall(r"^\| \[([\w.-]+)\]\(\1\) \|.*\| (.*) \|$", page.text, re.MULTILINE)
    assert {name for name, _ in rows} == records - {"LOG.md"}
    for _, measured in rows:
        folders = re.findall(r"`([^`]+)`", measured)
        assert folders and all((REPOSITORY / folder).exists() for folder in folders), measured


def test_the_package_index_shows_the_readme():
    assert _pyproject()["project"]["readme"] == "README.md"


# The runner itself


@pytest.mark.parametrize(
    ("expected", "printed", "fit"),
    [
        ("a b", "a b", True),
        ("a b", "a b c", False),
        ("a ...", "a b c", True),
        ("... c", "a b c", True),
        ("a ... c", "a c", True),
        ("a ... a", "a", False),
        ("a ... c ... e", "a b c d e", True),
        ("a ... d ... c", "a b c", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_dots_stand_for_any_lines(expected, printed, fit):
    assert fits(expected.split(), printed.split()) is fit

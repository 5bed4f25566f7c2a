"""A project of 1,000 modular files over all models, and what each command takes in it.

    python benchmarks/scale.py [--files N] [--old PATCHGEN] [--roots DIR DIR] [--keep FOLDER]

The files are small variants of every model of the installed transformers, of the kinds of
`tests/population/kinds.py`; of each ten, three take one class of the project, `modular/shared.py`.
`--old` names the program of another release, which runs on the same files, less those that it
refuses.  `--roots` names two trees of other releases for `check --package-root`.  Everything is
timed from outside: whole processes with their children.  The table goes to stdout as Markdown,
beside the aims.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from patchgen.project.markdown import table_lines
from tests.population.kinds import Case, find_cases
from tests.population.models import Model, find_models

KINDS = ("function", "weights", "block", "middle", "parameter", "head")
SPARE = 1.15  # files made for each that is wanted: some are refused
SHARED = "modular/shared.py"
CLASS = '''"""What several variants of this project share."""


class Counted:
    """A model that says how large it is."""

    unit = 1

    def count_parameters(self):
        return sum(parameter.numel() for parameter in self.parameters()) // self.unit
'''
TABLE = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
ADDED = 20  # variants of each branch
AIMS = {
    "check, nothing changed": "0.7 s",
    "check, one file changed": "1 s",
    "check and convert, the shared class changed, -j 2": "12 s",
    "check --package-root, the second as a part of the first": "0.1",
    "largest memory of all processes": "800 MB",
    "patchgen.lock": "500 kB",
    "git merge of two branches with 20 more variants each": "no conflict, check is green",
    "memory of the language server after 1,000 edits": "50 MB more",
}


@dataclass(frozen=True)
class Sample:
    """One process with its children: seconds, the largest memory of all together, exit code."""

    cpu: float
    wall: float
    memory: float
    code: int

    def __str__(self) -> str:
        return f"{self.cpu:.2f} s of CPU, {self.wall:.2f} s"


@dataclass
class Project:
    """A folder with modular files, and the program that works on it."""

    home: Path
    program: str
    cache: Path
    memory: float = 0.0
    rows: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, codes: Sequence[int] = (0,)) -> Sample:
        """What `patchgen` with these words takes; it must exit with one of `codes`."""
        env = {**os.environ, "PATCHGEN_CACHE_DIR": str(self.cache), "OMP_NUM_THREADS": "1"}
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                [self.program, *words], cwd=self.home, env=env, stdout=said, stderr=said
            )
            peak = [0.0]
            watch = threading.Thread(target=_watch, args=(process.pid, peak))
            watch.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            watch.join()
            wall = time.perf_counter() - began
            if process.returncode not in codes:
                said.seek(0)
                raise SystemExit(f"{words} exits with {process.returncode}\n{said.read()[-3000:]}")
        self.memory = max(self.memory, peak[0])
        return Sample(usage.ru_utime + usage.ru_stime, wall, peak[0], process.returncode)

    def refused(self) -> list[Path]:
        """The modular files that the program refuses; the others are converted."""
        self.run("convert", "-q", "-j", "2", codes=(0, 1))
        env = {**os.environ, "PATCHGEN_CACHE_DIR": str(self.cache)}
        words = [self.program, "check", "-q", "--output-format", "text"]
        said = subprocess.run(words, cwd=self.home, env=env, capture_output=True, text=True).stdout
        names = dict.fromkeys(re.findall(r"^(modular/\S+?\.py)[: ]", said, re.MULTILINE))
        return [self.home / name for name in names]

    def git(self, *words: str) -> int:
        """The exit code of git."""
        options = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false"]
        command = ["git", *options, *words]
        return subprocess.run(command, cwd=self.home, capture_output=True, check=False).returncode

    def commit(self) -> None:
        """Commit all that is there."""
        self.git("add", "--all")
        self.git("commit", "-qm", "x")


def _watch(pid: int, peak: list[float]) -> None:
    """Add up the memory of a process and its children; pages that they share count twice."""
    while Path(f"/proc/{pid}/exe").exists():
        sizes = [_resident(each) for each in (pid, *_children(pid))]
        peak[0] = max(peak[0], sum(sizes))
        time.sleep(0.05)


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(name)
            yield from _children(int(name))


def _resident(pid: int) -> float:
    """The resident memory of a process in MB."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    return 0.0


def files_for(count: int) -> Iterator[tuple[str, str]]:
    """Names and texts of modular files: one of each model, then another one of each, and so on."""
    models, made = [model for model in find_models() if model.head], 0
    for turn in range(len(KINDS) * 10):
        for number, model in enumerate(models):
            if made >= count:
                return
            shared = (turn + number) % 10 < 3
            text = _shared_text(model, turn) if shared else _text_of(model, turn)
            if text:
                made += 1
                yield f"modular/{model.path.parent.name}/modular_{model.name}_v{turn}.py", text


def _shared_text(model: Model, turn: int) -> str:
    package, _, module = model.module.rpartition(".")
    return (
        f"from {package} import {module} as hf\n\nfrom modular.shared import Counted\n\n\n"
        f"class {model.head}(Counted, hf.{model.head}):\n    turn = {turn}\n"
    )


def _text_of(model: Model, turn: int) -> str:
    cases: list[Case] = find_cases(model, KINDS[turn % len(KINDS)], turn)
    return cases[0].text if cases else ""


def make(home: Path, program: str, count: int) -> tuple[Project, list[tuple[str, str]]]:
    """A project of `count` files that convert, in git, and spare ones for its branches."""
    project = Project(home, program, home.with_name(f"{home.name}-cache"))
    files = list(files_for(round(count * SPARE) + 3 * ADDED))
    write(project, files)
    (home / SHARED).write_text(CLASS, encoding="utf-8")
    (home / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    (home / ".gitattributes").write_text("patchgen.lock merge=union\n", encoding="utf-8")
    refused = set(project.refused())
    good = [(name, text) for name, text in files if home / name not in refused]
    for name, _ in [*good[count:], *((n, "") for n, _ in files if home / n in refused)]:
        (home / name).unlink()
    print(f"{len(refused)} of {len(files)} files are refused", file=sys.stderr)
    project.run("check", "-q", "--fix", "-j", "2", codes=(0, 1))
    project.git("init", "-q", "-b", "main")
    project.commit()
    return project, good[count:]


def write(project: Project, files: Sequence[tuple[str, str]]) -> None:
    """Write modular files."""
    for name, text in files:
        path = project.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def copy(project: Project, home: Path, program: str) -> Project:
    """The same modular files for another program, less those that it refuses."""
    other = Project(home, program, home.with_name(f"{home.name}-cache"))
    shutil.copytree(project.home / "modular", home / "modular")
    for name in ("pyproject.toml", ".gitattributes"):
        shutil.copy(project.home / name, home)
    refused = other.refused()
    for path in refused:
        path.unlink()
    print(f"the other program refuses {len(refused)}", file=sys.stderr)
    other.run("check", "-q", "--fix", codes=(0, 1))
    other.git("init", "-q", "-b", "main")
    other.commit()
    return other


def measure(project: Project, roots: Sequence[str], spare: Sequence[tuple[str, str]]) -> None:
    """Fill the rows of a project."""
    rows, home = project.rows, project.home
    rows["modular files"] = str(len([*home.glob("modular/*/modular_*.py")]))
    rows["that take the shared class"] = str(
        sum("import Counted" in p.read_text() for p in home.glob("modular/*/modular_*.py"))
    )
    project.run("check", "-q")
    samples = [project.run("check", "-q") for _ in range(3)]
    rows["check, nothing changed"] = str(sorted(samples, key=lambda s: s.cpu)[1])
    one = sorted(home.glob("modular/*/modular_*.py"))[0]
    samples = []
    for number in range(3):
        one.write_text(f"{one.read_text()}\n# {number}\n")
        samples.append(project.run("check", "-q", codes=(0, 1)))
    rows["check, one file changed"] = str(sorted(samples, key=lambda s: s.cpu)[1])
    project.run("convert", "-q")
    shared = home / SHARED
    shared.write_text(CLASS.replace("unit = 1", "unit = 1000"))
    checked = project.run("check", "-q", "-j", "2", codes=(1,))
    converted = project.run("convert", "-q", "-j", "2")
    both = Sample(checked.cpu + converted.cpu, checked.wall + converted.wall, 0, 0)
    rows["check and convert, the shared class changed, -j 2"] = f"{both} (check {checked})"
    rows["patchgen.lock"] = f"{(home / 'patchgen.lock').stat().st_size / 1000:.0f} kB"
    project.commit()
    firsts = []
    for number, root in enumerate(roots):
        sample = project.run("check", "-q", "--package-root", root, codes=(0, 1))
        firsts.append(sample.cpu)
        rows[f"check --package-root, number {number + 1}"] = str(sample)
    if len(firsts) == 2:
        part = f"{firsts[1] / firsts[0]:.2f}"
        rows["check --package-root, the second as a part of the first"] = part
    rows["git merge of two branches with 20 more variants each"] = merge(project, spare)
    rows["largest memory of all processes"] = f"{project.memory:.0f} MB"


def merge(project: Project, spare: Sequence[tuple[str, str]]) -> str:
    """What git makes of two branches that add variants, and what `check` says afterwards."""
    for branch, first in (("ours", 0), ("theirs", ADDED)):
        project.git("checkout", "-qf", "main")
        project.git("checkout", "-qb", branch)
        write(project, spare[first : first + ADDED])
        project.run("convert", "-q", codes=(0, 1))
        project.commit()
    merged = project.git("merge", "-q", "ours", "-m", "both")
    checked = project.run("check", "-q", codes=(0, 1)).code
    return f"git exits with {merged}, check with {checked}"


async def _edit(project: Project, edits: int) -> str:
    """The memory of `patchgen lsp` before and after many edits of one file."""
    from lsprotocol import types
    from pygls.lsp.client import LanguageClient

    client, heard = LanguageClient("editor", "1"), asyncio.Queue[int]()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def hear(params: types.PublishDiagnosticsParams) -> None:
        heard.put_nowait(len(params.diagnostics))

    await client.start_io(project.program, "lsp")
    await client.initialize_async(
        types.InitializeParams(types.ClientCapabilities(), root_uri=project.home.as_uri())
    )
    client.initialized(types.InitializedParams())
    path = sorted(project.home.glob("modular/*/modular_*.py"))[0]
    uri, text = path.as_uri(), path.read_text()
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text))
    )
    await asyncio.wait_for(heard.get(), 60)
    server = client._server.pid
    sizes = []
    for edit in range(edits):
        whole = types.TextDocumentContentChangeWholeDocument(f"{text}\n# {edit}\n")
        version = types.VersionedTextDocumentIdentifier(edit + 2, uri)
        client.text_document_did_change(types.DidChangeTextDocumentParams(version, [whole]))
        await asyncio.wait_for(heard.get(), 60)
        sizes.append(_resident(server))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    # The caches fill first: what grows is what stays after them.
    filled = max(sizes[: len(sizes) // 4])
    return f"{max(sizes) - filled:.0f} MB more than {filled:.0f} MB ({edits} edits)"


def main() -> None:
    """Make the project, measure it with both programs, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--old", default="", help="the program of another release")
    parser.add_argument("--roots", nargs=2, default=(), metavar="DIR")
    parser.add_argument("--edits", type=int, default=1000, help="edits in the language server")
    parser.add_argument("--keep", type=Path, help="an empty folder that is not removed")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="patchgen-scale-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        program = str(Path(sys.executable).with_name("patchgen"))
        project, spare = make(place / "project", program, options.files)
        projects = [project]
        if options.old:
            projects.append(copy(project, place / "other", options.old))
        for each in projects:
            measure(each, options.roots, spare)
        if options.edits:
            name = "memory of the language server after 1,000 edits"
            project.rows[name] = asyncio.run(_edit(project, options.edits))
    finally:
        if options.keep is None:
            shutil.rmtree(place)
    rows = [
        (name, AIMS.get(name, ""), *(each.rows.get(name, "") for each in projects))
        for name in project.rows
    ]
    heads = ("", "aim", "this", "the other")[: 2 + len(projects)]
    print(*table_lines(heads, rows), sep="\n")


if __name__ == "__main__":
    main()

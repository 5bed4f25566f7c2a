"""A project of 1,000 modular files over all models, and what each command takes in it.

    python benchmarks/scale.py [--files N] [--old PATCHGEN] [--roots DIR DIR] [--together]

The files are small variants of every model of the installed transformers, of the kinds of
`tests/population/kinds.py`; of each ten, three take one class of the project, `modular/shared.py`.
`--old` names the program of another release, which runs on the same files, less those that it
refuses.  `--roots` names two trees of other releases for `check --package-root`.  Everything is
timed from outside: whole processes with their children.  With `--together`, both programs run at
once: on a machine that is not idle, seconds of CPU tell more than others.  The table goes to stdout
as Markdown, beside the aims; each figure goes to stderr when it is known.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from patchgen.project.markdown import table_lines
from tests.population.kinds import Case, find_cases
from tests.population.models import Model, find_models

KINDS = ("function", "weights", "block", "middle", "parameter", "head")
SPARE = 1.08  # files made for each that is wanted: some are refused
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
    "check --package-root, the same again": "0.1 of the first",
    "check --package-root, another release": "0.1 of the first",
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

    def say(self, name: str, value: object) -> None:
        """Fill a row of the table."""
        self.rows[name] = str(value)
        print(f"{self.home.name}: {name}: {value}", file=sys.stderr, flush=True)

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

    def settle(self) -> None:
        """Remove the outputs of files that are gone, and commit."""
        self.run("check", "-q", "--fix", "-j", "2", codes=(0, 1))
        self.git("init", "-q", "-b", "main")
        self.commit()

    def refused(self) -> set[str]:
        """The modular files that the program refuses; the others are converted."""
        self.run("convert", "-q", "-j", "2", codes=(0, 1))
        env = {**os.environ, "PATCHGEN_CACHE_DIR": str(self.cache)}
        words = [self.program, "check", "-q", "--output-format", "text"]
        said = subprocess.run(words, cwd=self.home, env=env, capture_output=True, text=True).stdout
        return {*re.findall(r"^(modular/\S+?\.py)[: ]", said, re.MULTILINE)}

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


def make(place: Path, programs: Sequence[str], count: int, pool: Executor) -> list[Project]:
    """A project in git for each program; the first has `count` files, and spare ones lie beside it.

    The others have those of its files that they convert.
    """
    files = dict(files_for(round(count * SPARE) + 2 * ADDED))
    projects = []
    for number, program in enumerate(programs):
        home = place / f"project{number}"
        projects.append(Project(home, program, place / f"cache{number}"))
        write(home, files)
        (home / SHARED).write_text(CLASS, encoding="utf-8")
        (home / "pyproject.toml").write_text(TABLE, encoding="utf-8")
        merged = ("patchgen.lock", "patchgen.overrides.toml")
        lines = "".join(f"{name} merge=union\n" for name in merged)
        (home / ".gitattributes").write_text(lines, encoding="utf-8")
    refused = [*pool.map(Project.refused, projects)]
    good = [name for name in files if name not in refused[0]]
    write(place / "spare", {name: files[name] for name in good[count:]})
    for project, names in zip(projects, refused, strict=True):
        left = {*good[:count]} - names
        for name in files.keys() - left:
            (project.home / name).unlink()
        project.say("modular files", len(left))
        project.say("refused", len(names))
    [*pool.map(Project.settle, projects)]
    return projects


def write(home: Path, files: Mapping[str, str]) -> None:
    """Write modular files."""
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def measure(project: Project, roots: Sequence[str]) -> None:
    """Fill the rows of a project."""
    home = project.home
    texts = [path.read_text() for path in home.glob("modular/*/modular_*.py")]
    project.say("that take the shared class", sum("import Counted" in text for text in texts))
    project.run("check", "-q")
    project.say("check, nothing changed", median([project.run("check", "-q") for _ in range(3)]))
    one = sorted(home.glob("modular/*/modular_*.py"))[0]
    samples = []
    for number in range(3):
        one.write_text(f"{one.read_text()}\n# {number}\n")
        samples.append(project.run("check", "-q", codes=(0, 1)))
    project.say("check, one file changed", median(samples))
    project.run("convert", "-q")
    project.say("patchgen.lock", f"{(home / 'patchgen.lock').stat().st_size / 1000:.0f} kB")
    project.commit()
    project.say("git merge of two branches with 20 more variants each", merge(project))
    project.git("checkout", "-qf", "main")
    (home / SHARED).write_text(CLASS.replace("unit = 1", "unit = 1000"))
    checked = project.run("check", "-q", "-j", "2", codes=(1,))
    converted = project.run("convert", "-q", "-j", "2")
    both = Sample(checked.cpu + converted.cpu, checked.wall + converted.wall, 0, 0)
    project.say("check and convert, the shared class changed, -j 2", f"{both} (check {checked})")
    if roots:
        command = ("check", "-q", "-j", "2", "--package-root")
        first = project.run(*command, roots[0], codes=(0, 1))
        project.say("check --package-root", first)
        names = ("the same again", "another release")
        for name, root in zip(names, roots, strict=True):
            sample = project.run(*command, root, codes=(0, 1))
            part = f"{sample} ({sample.cpu / first.cpu:.2f})"
            project.say(f"check --package-root, {name}", part)
    project.say("largest memory of all processes", f"{project.memory:.0f} MB")


def median(samples: Sequence[Sample]) -> Sample:
    """The sample in the middle, by seconds of CPU."""
    return sorted(samples, key=lambda sample: sample.cpu)[len(samples) // 2]


def merge(project: Project) -> str:
    """What git makes of two branches that add variants, and what `check` says afterwards."""
    spare = sorted(project.home.with_name("spare").rglob("modular_*.py"))
    for branch, first in (("ours", 0), ("theirs", ADDED)):
        project.git("checkout", "-qf", "main")
        project.git("checkout", "-qb", branch)
        for path in spare[first : first + ADDED]:
            copy = project.home / path.relative_to(project.home.with_name("spare"))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        project.run("convert", "-q", codes=(0, 1))
        for name in project.refused():
            (project.home / name).unlink()
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
    filled = max(sizes[: len(sizes) // 4 + 1])
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
    parser.add_argument("--together", action="store_true", help="run both programs at once")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="patchgen-scale-"))
    programs = [str(Path(sys.executable).with_name("patchgen")), *filter(None, [options.old])]
    try:
        with ThreadPoolExecutor(len(programs) if options.together else 1) as pool:
            projects = make(place, programs, options.files, pool)
            [*pool.map(lambda project: measure(project, options.roots), projects)]
        if options.edits:
            growth = asyncio.run(_edit(projects[0], options.edits))
            projects[0].say("memory of the language server after 1,000 edits", growth)
    finally:
        shutil.rmtree(place)
    rows = [
        (name, AIMS.get(name, ""), *(each.rows.get(name, "") for each in projects))
        for name in projects[0].rows
    ]
    heads = ("", "aim", "this", "the other")[: 2 + len(projects)]
    print(*table_lines(heads, rows), sep="\n")


if __name__ == "__main__":
    main()

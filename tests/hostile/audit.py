"""What a command does, by Python's audit events, and whether its line of SECURITY.md allows it.

`watched(world, argv)` runs a command line in this process and returns a `Run`.  A hook cannot be taken away again: it is
there from the first use, and notes events while a run is watched.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.cli.commands import OLD
from tests.toytree import REPOSITORY

HEADS = ("command", "reads", "runs", "writes", "sends")
NETWORK = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "socket.bind",
)
CHANGES = {
    "os.remove": [0], "os.rename": [0, 1], "os.rmdir": [0], "os.mkdir": [0], "os.link": [1], "os.symlink": [1],
    "os.truncate": [0], "os.chmod": [0], "os.chown": [0], "os.utime": [0], "shutil.rmtree": [0],
}  # fmt: skip
STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn")


def read_table() -> dict[str, dict[str, set[str]]]:
    """SECURITY.md: the words of each column, by command; an old name has those of the new one."""
    rows = {}
    for line in (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and tuple(cells) != HEADS:
            rows[cells[0]] = {
                head: set(cell.split(", ")) for head, cell in zip(HEADS[1:], cells[1:], strict=True)
            }
    return rows | {old: rows[new.split()[0]] for old, new in OLD.items()}


@dataclass(frozen=True)
class World:
    """The folders of a test, all below `top`: what is not one of them is somebody else's."""

    top: Path

    @property
    def project(self) -> Path:
        return self.top / "project"

    @property
    def named(self) -> Path:
        return self.top / "named"

    @property
    def cache(self) -> Path:
        return self.top / "cache"

    @property
    def temporary(self) -> Path:
        return self.top / "temporary"

    @property
    def outside(self) -> Path:
        return self.top / "outside"

    def folders(self, words: set[str]) -> list[Path]:
        """The folders that words of the table stand for."""
        named = {"project": self.project, "named": self.named}
        return [folder for word, folder in named.items() if word in words]


@dataclass
class Run:
    argv: list[str]
    world: World
    code: int = -1
    text: str = ""
    written: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)

    def faults(self, row: dict[str, set[str]], *, follows_links: bool = False) -> list[str]:
        """What the row does not allow, and what no command may do.

        Links may lead to Python files elsewhere, as those of package managers do.
        """
        world, found = self.world, []
        own = [world.cache, world.temporary, Path(os.devnull)]
        can_write, can_read = world.folders(row["writes"]), world.folders(row["reads"])
        runs_models = "models" in row["runs"]
        if not row["writes"] & {"models", "program"}:
            found += [f"writes {p}" for p in self.written if not below(p, [*own, *can_write])]
        # What is not of this test is the machine's: Python, its packages, /proc.
        others = [] if follows_links else [p for p in self.read if below(p, [world.top])]
        found += [f"reads {p}" for p in others if not below(p, [*own, *can_read, *can_write])]
        if not runs_models:  # torch starts a compiler
            found += [f"runs {program}" for program in self.ran - row["runs"]]
            found += [f"executes {path}" for path in self.executed]
        if row["sends"] == {"nothing"}:
            found += [f"sends {what}" for what in self.sent]
        if re.search(r"internal error at|Traceback|This is a defect", self.text):
            found.append(f"fails: {self.text[-500:]}")
        unseen = {letter for letter in self.text if not letter.isprintable()} - {"\n", "\t"}
        if unseen and not runs_models:  # which draw bars
            found.append(f"prints {unseen}")
        if self.code not in (0, 1, 2, 3):
            found.append(f"ends with {self.code}")
        return found


def below(path: str, folders: list[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


_RUNS: list[Run] = []  # the one that is watched


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if not _RUNS:
        return
    run, top = _RUNS[-1], str(_RUNS[-1].world.top)
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, (str, bytes, os.PathLike)):
            is_written = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
            (run.written if is_written else run.read).add(_real(path))
    elif event in CHANGES:
        # The last argument is the descriptor of a folder, or -1: shutil removes by these.
        held = arguments[-1] if event != "os.truncate" else -1
        folder = os.readlink(f"/proc/self/fd/{held}") if isinstance(held, int) and held >= 0 else ""
        for at in CHANGES[event]:
            if not isinstance(arguments[at], int):
                path = os.path.join(folder, os.fsdecode(arguments[at]))
                run.written.add(_real(path, last=False))
    elif event == "subprocess.Popen":
        run.ran.add(program_of([os.fsdecode(word) for word in arguments[1]]))
    elif event.startswith(STARTS):
        run.ran.add(f"{event} {arguments[0]!r}")
    elif event.startswith(NETWORK) and "AF_UNIX" not in repr(arguments):
        run.sent.add(f"{event} {arguments[1:]!r}")
    elif event == "exec":
        file = getattr(arguments[0], "co_filename", "")
        if file.startswith(top):
            run.executed.add(file)
    elif event == "import" and isinstance(arguments[1], str) and arguments[1].startswith(top):
        run.executed.add(arguments[1])


def _real(path, last: bool = True) -> str:
    if isinstance(path, int):
        return "/dev/null"
    path = os.path.abspath(os.fsdecode(path))
    if last:
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def program_of(argv: list[str]) -> str:
    """The word of SECURITY.md for a command line."""
    if argv[0] == "/bin/sh" and "kill -KILL 0" in argv[2]:  # patchgen/children.py
        argv = argv[4:]
    name = Path(argv[0]).name
    if name.startswith("python"):
        if "-I" not in argv:
            return f"Python that is not isolated: {argv}"
        return "pip" if argv[2:4] == ["-m", "pip"] else "children"
    return name


def watched(world: World, argv: list[str], capsys, work=None) -> Run:
    """Run `patchgen ARGV` in the project of `world`, or `work` as if it were that."""
    from patchgen.cli import main

    if not getattr(sys, "_patchgen_audit", False):
        sys.addaudithook(_note)
        sys._patchgen_audit = True
    run = Run(argv, world)
    capsys.readouterr()
    _RUNS.append(run)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        run.code = work() if work is not None else main(argv)
    finally:
        _RUNS.clear()
        sys.dont_write_bytecode = compiles
    both = capsys.readouterr()
    run.text = both.out + both.err
    return run

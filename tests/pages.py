"""Pages of the documentation as sessions: their blocks of code are written, run and compared, from top to bottom.

A fenced block begins with its language and says what it is:

    console              commands behind `$`, each with all that it prints
    console figures      the same, but what is printed differs from machine to machine
    LANGUAGE file=PATH   a file, which is written
    LANGUAGE of=PATH     a part of a file as it stands at that point
    LANGUAGE             a fragment, of a language in which it can at least be parsed

`...` on a line of its own stands for any number of lines.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DOTS = "..."
_FENCE = re.compile(
    r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; `start` and `end` are the offsets of its text in the page."""

    language: str
    words: tuple[str, ...]
    options: Mapping[str, str]
    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Command:
    """One command of a console block, with the lines that it shall print."""

    line: str
    expected: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """A page and its blocks."""

    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def prose(self) -> str:
        """The page without its blocks."""
        return _FENCE.sub("", self.text)

    @property
    def codes(self) -> list[str]:
        """What stands between single backquotes."""
        return _CODE.findall(self.prose)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The names by which its headings can be linked to."""
        plain = (
            re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(self.prose)
        )
        return {heading.strip().replace(" ", "-") for heading in plain}


def read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    return Page(path, text, tuple(_blocks(text)))


def _blocks(text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        language, *rest = found["info"].split() or [""]
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        words = tuple(word for word in rest if "=" not in word)
        line = text.count("\n", 0, found.start()) + 1
        yield Block(
            language, words, options, found["text"], line, found.start("text"), found.end("text")
        )


def commands(block: Block) -> tuple[Command, ...]:
    """The commands of a console block; a line that ends with a backslash goes on."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            assert found, f"a console block begins with a command, not with {line!r}"
            found[-1][1].append(line.rstrip())
    return tuple(Command(line, tuple(expected)) for line, expected in found)


# What the bindings of Triton say at the end of every process that has imported it.
LEAKS = re.compile(
    r"^nanobind: leaked .*\n(?: - .*\n)*|^nanobind: this is likely .*\nSee https://nanobind\S*?refleaks\.html\n*",
    re.MULTILINE,
)


class Session:
    """A shell that remembers its folder and the exit code of the last command."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env, self.code = folder, env, 0

    def run(self, line: str) -> list[str]:
        """What `line` prints, on stdout and stderr in the order of a terminal."""
        memory = self.folder.parent / f".{self.folder.name}.session"
        script = f'(exit {self.code}); {line}\ncode=$?; pwd > "$SESSION_FOLDER"; exit $code'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**self.env, "SESSION_FOLDER": str(memory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code = done.returncode
        self.folder = Path(memory.read_text(encoding="utf-8").strip())
        memory.unlink()
        printed = LEAKS.sub("", done.stdout)
        return [text.rstrip() for text in printed.rstrip("\n").split("\n")] if printed else []


def fits(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether `printed` is what is shown; `...` stands for any lines."""
    parts: list[list[str]] = [[]]
    for line in expected:
        if line.strip() == DOTS:
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return list(printed) == parts[0]
    first, *middle, last = parts
    rest = list(printed)
    if (
        rest[: len(first)] != first
        or (last and rest[-len(last) :] != last)
        or len(rest) < len(first) + len(last)
    ):
        return False
    rest = rest[len(first) : len(rest) - len(last)]
    for part in middle:
        places = [
            at for at in range(len(rest) - len(part) + 1) if rest[at : at + len(part)] == part
        ]
        if not places:
            return False
        rest = rest[places[0] + len(part) :]
    return True


def rendered(pairs: Sequence[tuple[Command, Sequence[str]]]) -> str:
    """The text of a console block."""
    return "".join(
        f"$ {command.line}\n" + "".join(f"{line}\n" for line in lines) for command, lines in pairs
    )

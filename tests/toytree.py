"""A small project on disk, for tests of what is done with outputs: compared, recorded, written, reported."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from patchgen.project.config import Config
from patchgen.project.files import Project
from patchgen.project.lock import read_lock, render_lock
from patchgen.project.places import state_of

REPOSITORY = Path(__file__).resolve().parents[1]

PYPROJECT = """
[tool.patchgen]
sources = ["modular"]
outputs = { modular = "generated" }
roots = ["lib"]
flatten = ["toy"]
"""
PARENT = '''"""Parents without torch."""

import math


def helper(x):
    return math.sqrt(x)


class A:
    def f(self):
        return helper(1)


class B:
    def g(self):
        return A().f()


__all__ = ["A", "B"]
'''


def recorded_otherwise(tree: Tree, old: str, new: str) -> None:
    """The records say `new` where they said `old`, as if an earlier run had written them so."""
    lock = tree("patchgen.lock")
    records, names = [], ("modular_digest", "digest", "made_by", "settings", "own_digest")
    for record in read_lock(lock).values():
        texts = {name: getattr(record, name).replace(old, new) for name in names}
        records.append(replace(record, **texts))
    lock.write_text(render_lock(records), encoding="utf-8")


def variant(name: str = "A", value: object = 2) -> str:
    """A modular file that overrides one method of one class of the toy package."""
    method = {"A": "f", "B": "g"}.get(name, "h")
    return f"""from toy import modeling_toy as toy


class {name}(toy.{name}):
    def {method}(self):
        return {value!r}
"""


class Tree:
    """A folder of text files, named by paths relative to it."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def __call__(self, name: str) -> Path:
        return self.top / name

    @property
    def state(self) -> Path:
        """Where patchgen keeps what it knows of the project."""
        return state_of(Project(Config(self.top.resolve())), self.top.resolve())

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def read(self, name: str) -> str:
        return (self.top / name).read_text(encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text, f"{old!r} is not in {name}"
        self.write(name, text.replace(old, new))

    def files(self, folder: str = ".") -> list[str]:
        """Every file, sorted."""
        return sorted(
            path.relative_to(self.top).as_posix()
            for path in (self.top / folder).rglob("*")
            if not path.is_dir() and "__pycache__" not in path.parts
        )

    def snapshot(self) -> dict[str, tuple[str, int]]:
        """Every file, with the digest of its bytes and its time of modification."""
        return {
            name: (
                hashlib.sha256(self(name).read_bytes()).hexdigest(),
                self(name).stat().st_mtime_ns,
            )
            for name in self.files()
        }

    def contents(self) -> dict[str, bytes]:
        """Every file with its bytes."""
        return {name: self(name).read_bytes() for name in self.files()}


def toy_project(top: Path, variants: int = 2) -> Tree:
    """A project with one parent and some variants of it, not yet converted."""
    tree = Tree(top)
    tree.write("pyproject.toml", PYPROJECT)
    tree.write("lib/toy/__init__.py", "")
    tree.write("lib/toy/modeling_toy.py", PARENT)
    for number in range(1, variants + 1):
        tree.write(f"modular/v{number}/modular_v{number}.py", variant("AB"[number % 2], number))
    return tree


def command(*argv: str) -> list[str]:
    """The command line as a process of its own runs it."""
    return [sys.executable, "-m", "patchgen", *argv]


def environment(**more: str) -> dict[str, str]:
    """The environment of such a process: this checkout first, and nothing of a CI system."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GITHUB_", "PATCHGEN_", "FORCE_COLOR"))
    }
    return {
        **kept,
        "PYTHONPATH": str(REPOSITORY),
        "PATCHGEN_CACHE_DIR": os.environ.get("PATCHGEN_CACHE_DIR", ""),
        **more,
    }


def run(tree: Tree, *argv: str, **options) -> subprocess.CompletedProcess[str]:
    """Runs a command line in a process of its own, in the project."""
    env = environment(**options.pop("env", {}))
    options = {"cwd": tree.top, "capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run(command(*argv), env=env, check=False, **options)

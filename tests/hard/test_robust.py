"""Nothing of what is read is run, imported or asked of the network; any bytes end in an answer."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import patchgen
from patchgen.compiler.flat import Flattened
from patchgen.syntax.errors import catalogue
from tests.hard.support import MODULAR, PARENT, REPOSITORY, flat
from tests.oracle import generator

WATCHED = """
import json, os, sys
from pathlib import Path

events = []

def watch(event, arguments):
    if event == "import":
        events.append(["import", arguments[0]])
    elif event == "exec":
        events.append(["exec", arguments[0].co_filename])
    elif event == "open" and isinstance(arguments[0], str) and arguments[1] and set(str(arguments[1])) & set("wax+"):
        events.append(["write", arguments[0]])
    elif event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "ctypes.")):
        # A shell ends the program with patchgen; the program stands behind the shell's own words.
        words = arguments[1] if event == "subprocess.Popen" else arguments
        events.append([event, str(words[4 if words[0] == "/bin/sh" else 0])])

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment

folder = Path(sys.argv[1])
sys.addaudithook(watch)
result = flatten(folder / sys.argv[2], make_environment(folder), Settings())
print(json.dumps([events, [str(p) for p in result.problems], len(result.files), sorted(sys.modules)]))
"""
REAL = """import torch

from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return super().forward(x) * torch.ones(1)
"""
HOSTILE = """
import os, subprocess, socket

ONE = os.system('touch run')
TWO = socket.socket()
THREE = subprocess.run(['true'])
"""


@pytest.mark.parametrize(
    ("modular", "parent"),
    [(REAL, PARENT), (MODULAR + HOSTILE, PARENT + HOSTILE.lower())],
    ids=["a model", "files that act when imported"],
)
def test_nothing_is_run(tmp_path: Path, modular: str, parent: str) -> None:
    package = tmp_path / "toypack"
    package.mkdir()
    (package / "__init__.py").write_text(HOSTILE)
    (package / "modeling_toy.py").write_text(parent)
    (package / "modular_toy_fast.py").write_text(modular)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path), "toypack/modular_toy_fast.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    events, problems, files, modules = json.loads(done.stdout)
    assert (problems, files) == ([], 1)
    foreign = ("torch", "transformers", "toypack", "numpy")
    assert not [name for name in modules if name.partition(".")[0] in foreign]
    assert not [
        name for kind, name in events if kind == "import" and str(name).partition(".")[0] in foreign
    ]
    own = (str(Path(patchgen.__file__).parent), sys.prefix, sys.base_prefix, "<frozen", "<string>")
    assert not [
        name
        for kind, name in events
        if kind == "exec" and (not name.startswith(own) or "/models/" in name)
    ]
    processes = [name for kind, name in events if kind.startswith("subprocess")]
    assert all(Path(name).name == "ruff" for name in processes), processes
    assert not [
        event for event in events if event[0].startswith(("socket", "os.system", "os.exec"))
    ]
    written = [
        name
        for kind, name in events
        if kind == "write" and not name.startswith(("/tmp", "/dev/null"))
    ]
    assert not written and not (tmp_path / "run").exists()


def _answers(result: Flattened) -> None:
    for problem in result.problems:
        assert problem.code in catalogue() and problem.at.path, problem
        assert problem.code not in ("PG404", "PG908"), problem
    assert not (result.problems and result.files)


def _try(folder: Path, modular: str | bytes, parent: str | bytes) -> None:
    files = {
        "toypack/__init__.py": "",
        "toypack/modeling_toy.py": parent,
        "toypack/modular_toy_fast.py": modular,
    }
    _answers(flat(folder, files, "toypack/modular_toy_fast.py"))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.split("\n"))


def _around(folder: Path, text: str) -> None:
    """`text` as a modular file, as a parent, and inside a function of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _try(folder, text, PARENT)
        _try(folder, f"{MODULAR}\n\n{text}\n", PARENT)
        _try(folder, MODULAR, f"{PARENT}\n\n{text}\n")
        _try(folder, MODULAR, f"{PARENT}\n\ndef free():\n{_indented(text)}    pass\n")


QUIET = {
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],  # shrinking such a module takes longer than reading it
}


def _generated(source: str, examples: int, folder: Path) -> None:
    """Modules of hypothesmith's `source`."""
    import hypothesmith  # takes two seconds, and only these tests need it

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, **QUIET)
    @given(text=getattr(hypothesmith, source)())
    def run(text: str) -> None:
        _around(folder, text)

    run()


def test_generated(tmp_path: Path) -> None:
    _generated("from_grammar", 3, tmp_path)
    _generated("from_node", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(("source", "examples"), [("from_grammar", 250), ("from_node", 100)])
def test_generated_many(source: str, examples: int, tmp_path: Path) -> None:
    _generated(source, examples, tmp_path)


def _mutated(draw: random.Random, data: bytes) -> bytes:
    """`data` with a few bytes or lines changed, doubled, moved or gone."""
    for _ in range(draw.randrange(1, 4)):
        lines = data.split(b"\n")
        first, second = sorted(draw.randrange(len(lines)) for _ in range(2))
        place = draw.randrange(max(len(data), 1))
        match draw.randrange(7):
            case 0:
                data = data[:place] + bytes([draw.randrange(256)]) + data[place + 1 :]
            case 1:
                data = data[:place] + data[place + draw.randrange(1, 20) :]
            case 2:
                data = (
                    data[:place]
                    + draw.choice([b"(", b")", b":", b"\n", b"    ", b"'", b"=", b"self.", b"#"])
                    + data[place:]
                )
            case 3:
                data = b"\n".join(lines[:first] + lines[second:])
            case 4:
                data = b"\n".join(lines[:first] + lines[first:second] * 2 + lines[second:])
            case 5:
                lines[first], lines[second] = lines[second], lines[first]
                data = b"\n".join(lines)
            case _:
                names = [
                    b"ToyBlock",
                    b"super()",
                    b"self",
                    b"return",
                    b"def ",
                    b"class ",
                    b"import ",
                    b"from ",
                    b"n",
                ]
                data = data.replace(draw.choice(names), draw.choice(names), 1)
    return data


def _altered(draw: random.Random, data: bytes) -> bytes:
    """`data` with a few names exchanged and simple statements gone or doubled: mostly still Python."""
    for _ in range(draw.randrange(1, 6)):
        lines = data.split(b"\n")
        number = draw.choice(
            [n for n, line in enumerate(lines) if re.match(rb" +(self|return|[a-z_]+ = )", line)]
        )
        match draw.randrange(3):
            case 0:
                found = list(re.finditer(rb"\b[A-Za-z_]\w+\b", lines[number]))
                name, other = (
                    draw.choice(found),
                    draw.choice(re.findall(rb"\b[A-Za-z_]\w+\b", data)),
                )
                lines[number] = lines[number][: name.start()] + other + lines[number][name.end() :]
            case 1:
                lines[number] = (
                    lines[number][: len(lines[number]) - len(lines[number].lstrip())] + b"pass"
                )
            case _:
                lines[number : number + 1] = [lines[number]] * 2
        data = b"\n".join(lines)
    return data


def _absolute(data: bytes, model: str) -> bytes:
    """The text of a model with its imports made absolute, so that it can stand elsewhere."""
    places = {3: "transformers", 2: "transformers.models", 1: f"transformers.models.{model}"}

    def absolute(found: re.Match[bytes]) -> bytes:
        place = places[len(found[1])].encode()
        return b"from " + place + (b" " if found[2] == b" " else b"." + found[2])

    return re.sub(rb"from (\.{1,3})([ \w])", absolute, data)


def _mutate_packages(folder: Path, seeds: range) -> None:
    dimensions = generator.DIMENSIONS
    for seed in seeds:
        draw = random.Random(seed)
        case = generator.make(draw.choice(dimensions), seed)
        files: dict[str, str | bytes] = dict(case.files)
        victim = draw.choice([path for path, text in case.files.items() if text])
        files[victim] = _mutated(draw, case.files[victim].encode())
        try:
            _answers(flat(folder / str(seed), files, case.modular))
        except Exception as error:
            original = files[victim]
            raise AssertionError(
                f"seed {seed}: {victim} of {case.name}: {error!r}\n{original!r}\n{case.listing()}"
            ) from error


def _mutate_models(folder: Path, seeds: range) -> None:
    models = sorted(
        Path(sys.prefix).glob("lib/python*/site-packages/transformers/models/*/modeling_*.py")
    )
    for seed in seeds:
        draw = random.Random(seed)
        path = draw.choice(models)
        data = path.read_bytes()
        classes = [
            line.split(b"(")[0].split(b":")[0][6:].decode()
            for line in data.split(b"\n")
            if line[:6] == b"class "
        ]
        name = draw.choice(classes)
        modular = f"from . import modeling_x as x\n\n\nclass {name}(x.{name}):\n    changed = 1\n"
        data = _absolute(data, path.parent.name)
        data = _altered(draw, data) if draw.random() < 0.7 else _mutated(draw, data)
        files = {
            "toypack/__init__.py": "",
            "toypack/modeling_x.py": data,
            "toypack/modular_x.py": modular,
        }
        try:
            _answers(flat(folder / str(seed), files, "toypack/modular_x.py", sys.path))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {path.name}, class {name}: {error!r}") from error


def test_mutated_packages(tmp_path: Path) -> None:
    _mutate_packages(tmp_path, range(40))


def test_mutated_models(tmp_path: Path) -> None:
    _mutate_models(tmp_path, range(1))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_mutated_packages_many(tmp_path: Path) -> None:
    _mutate_packages(tmp_path, range(1_000, 1_500))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_mutated_models_many(tmp_path: Path) -> None:
    _mutate_models(tmp_path, range(1_000, 1_060))

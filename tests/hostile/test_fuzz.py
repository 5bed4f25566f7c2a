"""Random names, configurations, records and overrides: each ends in an answer, soon, and touches nothing else.

One run changes one or two of these in a converted project, and runs two commands.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from patchgen import system
from tests.hostile.audit import read_table, watched
from tests.toytree import Tree

if sys.platform == "win32":
    pytest.skip("names that Windows does not have", allow_module_level=True)

TABLE = read_table()
FILE = "modular/v1/modular_v1.py"
OUTPUT = "generated/v1/modeling_v1.py"
SECONDS, MEGABYTES = 10, 500  # of an example
FORMS = [[], ["--output-format", "github"], ["--output-format", "json"]]
COMMANDS = [
    *(
        [name, "--no-cache", *form]
        for name in ("check", "convert", "lint", "diff")
        for form in FORMS
    ),
    *(["check", "--fix", *form] for form in FORMS),
    ["check", "-v"],
    ["convert", "--force"],
    ["convert", "--accept"],
    ["list"],
    ["list", "--output-format", "json"],
    ["explain", FILE],
    ["explain", f"{OUTPUT}:12"],
    ["rebase", "--write"],
    ["page", "--out", "{named}/pages"],
]

# What somebody would try.
WORDS = st.sampled_from([
    "", ".", "..", "../outside", "../outside/keep.py", "generated/../../outside", "/", "/proc/self", "/dev/zero", "~",
    "setup.py", ".git/config", "pyproject.toml", "patchgen.lock", "modular", FILE, OUTPUT, "generated", "lib", "toy",
    "x\nimport os", "a\x1b[2K", "::add-mask::a", "\n::error::a", "##[add-path]a", "\u202e", "\udcff", '"""', "-rf", "%0A",
    "$(touch run)", "C:\\x", "a" * 300, "*", "[", "**/*", "transformers", "patchgen", "os", "__main__", "ruff", "black",
])  # fmt: skip
TEXTS = WORDS | st.text(max_size=20) | st.builds("/".join, st.lists(WORDS, max_size=3))
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, -1, 10**30, 2**63])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([
    "sources", "outputs", "roots", "flatten", "exclude", "line-length", "formatter", "warnings-as-errors",
    "required-version", "decorators",
]) | TEXTS  # fmt: skip
FITTING = st.one_of(
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    TEXTS,
    st.integers(0, 400),
    VALUES,
)


@st.composite
def changed(draw, value):
    """The value with something in it changed, taken out, or under another name."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        new = {k: v for k, v in value.items() if k != key}
        other = draw(st.sampled_from([key, key, key, draw(TEXTS), ""]))
        return new if other == "" else {**new, other: draw(changed(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(changed(value[at])), *value[at + 1 :]]
    if isinstance(value, str) and value and draw(st.booleans()):
        return draw(mangled(value))
    return draw(VALUES)


@st.composite
def mangled(draw, text):
    """The text with a piece replaced by another."""
    first, length = draw(st.integers(0, len(text))), draw(st.integers(0, 20))
    return text[:first] + draw(TEXTS) + text[first + length :]


def toml(value):
    """A value in TOML, or what is nearly one."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        text.encode("utf-8", "surrogateescape" if text.isprintable() else "surrogatepass")
    )


def change_names(draw, tree):
    name = draw(TEXTS)
    assume("\0" not in name)
    place = draw(st.sampled_from(["modular/{}/modular_v9.py", "modular/v1/modular_{}.py", "generated/v1/modeling_{}.py",
                                  "lib/{}/modeling_toy.py", "{}.py"]))  # fmt: skip
    try:
        path = Path(os.path.normpath(tree(place.format(name))))
        assume(path.is_relative_to(tree.top))
        put(path, tree.read(FILE))
    except (OSError, UnicodeEncodeError):
        assume(False)


def change_configuration(draw, tree):
    text = tree.read("pyproject.toml")
    if draw(st.integers(0, 3)):
        table = {
            "sources": ["modular"],
            "outputs": {"modular": "generated"},
            "roots": ["lib"],
            "flatten": ["toy"],
        }
        table |= draw(st.dictionaries(KEYS, FITTING, min_size=1, max_size=2))
        lines = [f"{json.dumps(key)} = {toml(value)}\n" for key, value in table.items()]
        text = "[tool.patchgen]\n" + "".join(lines)
    else:
        text = draw(mangled(text))
    put(tree("pyproject.toml"), text)


def change_lock(draw, tree):
    text = tree.read("patchgen.lock")
    if draw(st.integers(0, 3)):
        text = json.dumps(draw(changed(json.loads(text))))
    else:
        text = draw(mangled(text))
    put(tree("patchgen.lock"), text)


def change_overrides(draw, tree):
    path = tree("patchgen.overrides.toml")
    entry = {"parent": "toy.modeling_toy.A.f", "digest": "0" * 64, "text": "x"}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if draw(st.booleans()):
        entry |= draw(st.dictionaries(st.sampled_from(sorted(entry)) | TEXTS, FITTING, max_size=2))
        lines = "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in entry.items())
        text += f"\n[{json.dumps(draw(TEXTS))}.{json.dumps(draw(TEXTS))}]\n{lines}"
    else:
        text = draw(mangled(text))
    put(path, text)


CHANGES = [change_names, change_configuration, change_lock, change_overrides]


def own_files(tree):
    names = [FILE, "lib/toy/modeling_toy.py", "setup.py", ".git/config", "pyproject.toml"]
    return {name: tree(name).read_bytes() for name in names if tree(name).is_file()}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seconds", [25, pytest.param(600, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_any_repository(seconds, world, capfd):
    assert watched(world, ["convert", "-q"], capfd).code == 0
    base, outside, end = world.top / "base", Tree(world.outside), time.monotonic() + seconds
    tree = Tree(world.project)
    tree.write("setup.py", "# mine\n")
    tree.write(".git/config", "[core]\n")
    outside.write("keep.py", "# Generated by patchgen from elsewhere\n")
    shutil.copytree(world.project, base)
    before, count = outside.snapshot(), 0

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.data())
    def fuzz(data):
        nonlocal count
        os.chdir(world.top)
        shutil.rmtree(world.project)
        shutil.copytree(base, world.project)
        os.chdir(world.project)
        kinds = data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=2, unique=True))
        for change in kinds:
            change(data.draw, tree)
        files = own_files(tree)
        for argv in data.draw(st.lists(st.sampled_from(COMMANDS), min_size=2, max_size=2)):
            system.reset_peak_resident()
            began, had = time.process_time(), system.peak_resident()
            run = watched(world, [word.format(named=world.named) for word in argv], capfd)
            faults = run.faults(TABLE[argv[0]], follows_links=True)
            assert not faults, (argv, faults)
            assert time.process_time() - began < SECONDS, argv
            assert system.peak_resident() - had < MEGABYTES * 2**20, argv
            assert outside.snapshot() == before, argv
            assert own_files(tree) == files, argv
            count += 1

    number = 0
    while time.monotonic() < end:
        seed(number)(fuzz)()
        number += 1
    assert count > seconds / 10  # on a slow machine, too

"""A report that came with a variant proves nothing of other files than those that it names by digest."""

import json
import re

import pytest

from patchgen.cli import main
from patchgen.project.parity import files_of
from tests.toytree import toy_project

MODULAR = "modular/v1/modular_v1.py"
CASE = {"variant": "v1", "case": "forward", "status": "PASS", "note": ""}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = toy_project(tmp_path, 1)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    return tree


def report(tree, **fields):
    sound = {
        "command": "patchgen verify v1",
        "commands": {},
        "device": "cpu",
        "versions": {"transformers": "5.23.0"},
        "about": {"v1": files_of(tree.top, MODULAR)},
        "cases": [CASE],
    }
    tree.write("docs/parity/parity.json", json.dumps({**sound, **fields}))


def verdict(tree):
    assert main(["page", "--out", "pages"]) == 0
    for page in ("index", "v1"):
        found = re.search(
            r'<span class="verdict (\w+)"><span class="command">verify</span> (.*?)</span>',
            tree.read(f"pages/{page}.html"),
        )
        if page == "v1" or found:
            last = found.groups()
    return last


def test_a_report_of_the_files_that_are_here(tree):
    report(tree)
    assert verdict(tree) == ("good", "1 PASS")


def test_a_report_without_digests(tree):
    report(tree, about={})
    assert verdict(tree) == ("none", "not of this file")


@pytest.mark.parametrize("name", [MODULAR, "generated/v1/modeling_v1.py"])
def test_a_report_of_other_files(name, tree):
    about = {**files_of(tree.top, MODULAR), name: "0" * 64}
    report(tree, about={"v1": about})
    assert verdict(tree) == ("none", "stale: its files have changed since")


def test_a_report_of_the_modular_file_alone(tree):
    about = files_of(tree.top, MODULAR)
    report(tree, about={"v1": {MODULAR: about[MODULAR]}})
    assert verdict(tree)[0] == "none"


def test_a_variant_that_changed_after_its_report(tree):
    report(tree)
    tree.edit(MODULAR, "return 1", "return 2")
    assert main(["convert", "-q"]) == 0
    assert verdict(tree) == ("none", "stale: its files have changed since")


MALFORMED = {
    "cases": [
        3,
        "x",
        {"variant": "v1"},
        [{**CASE, "status": "GOOD"}],
        [{**CASE, "note": 3}],
        [{**CASE, "variant": []}],
    ],
    "about": [3, {"v1": 3}, {"v1": {"a": 3}}, []],
    "versions": [3, [], {"torch": 2}],
    "commands": ["x", ["x"]],
    "command": [None, {}],
    "device": [3],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in MALFORMED.items() for value in values]
)
def test_a_malformed_report_is_a_finding(key, value, tree, capsys):
    report(tree, **{key: value})
    assert main(["page", "--out", "pages"]) == 2
    assert "docs/parity/parity.json: PG914" in capsys.readouterr().err
    assert not tree("pages").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, "\x00", '{"cases": 1e999}'])
def test_a_report_that_is_none(text, tree, capsys):
    tree.write("docs/parity/parity.json", text)
    assert main(["page", "--out", "pages"]) == 2
    assert "PG914" in capsys.readouterr().err

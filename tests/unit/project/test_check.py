"""The gate: every status, each with its reason, and nothing written."""

import json
import os
import re

import pytest

from patchgen.project.lock import shorten
from patchgen.project.outcome import digest_of
from patchgen.project.versions import own_digest
from tests.toytree import recorded_otherwise

ONE, TWO = "generated/one/modeling_one.py", "generated/two/modeling_two.py"


@pytest.fixture
def made(tree, cli):
    """The project, converted."""
    assert cli("convert")[0] == 0
    return tree


def lines(cli, *argv):
    """The findings of a check that must fail, without hints; the tree must stay as it is."""
    code, out, _ = cli("check", *argv)
    assert code == 1
    return [line for line in out.splitlines() if not line.startswith("    ")]


def test_noop_clean(made, cli):
    before = made.snapshot()
    assert cli("check") == (0, "2 outputs: 2 ok\n", "")
    assert made.snapshot() == before


def test_missing(tree, cli):
    before = tree.snapshot()
    assert lines(cli) == [
        f"{ONE}: PG502 is missing; modular/one/modular_one.py gives it",
        f"{TWO}: PG502 is missing; modular/two/modular_two.py gives it",
        "2 outputs: 2 missing",
    ]
    assert tree.snapshot() == before


def test_stale_because_the_modular_file_changed(made, cli):
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    before = made.snapshot()
    assert lines(cli) == [
        f"{ONE}:6:1: PG501 is stale: the modular file changed",
        "2 outputs: 1 ok, 1 stale",
    ]
    assert made.snapshot() == before


def test_stale_because_a_parent_changed_names_the_symbol(made, cli):
    made.edit("lib/toy.py", "y = 2", "y = 5")
    assert lines(cli)[0] == f"{TWO}:6:1: PG501 is stale: the parent changed: toy.B"


def test_stale_because_it_was_edited_by_hand(made, cli):
    made.edit(TWO, "y = 2", "y = 7")
    assert lines(cli)[0] == f"{TWO}:6:1: PG501 is stale: modeling_two.py was edited by hand"


def test_stale_because_its_diff_was_edited_by_hand(made, cli):
    made.edit("generated/two/modeling_two.diff", "+y = 4", "+y = 9")
    (finding, _) = lines(cli)
    assert finding.startswith("generated/two/modeling_two.diff:")
    assert finding.endswith("is stale: modeling_two.diff was edited by hand")


def test_stale_because_the_settings_changed(made, cli):
    made.write("pyproject.toml", made.read("pyproject.toml") + 'formatter = "black"\n')
    change = "the settings changed: ruff at line length 119 -> black at line length 119"
    assert change in lines(cli)[0]


def test_stale_because_a_tool_changed(made, cli, monkeypatch):
    recorded_otherwise(made, "ruff 0.14.10", "ruff 0.1.2")
    recorded_otherwise(made, shorten(digest_of(made.read(ONE))), "0")
    made.edit(ONE, "x = 3", "x = 33")
    (first, *_) = lines(cli)
    assert "the tool changed: ruff 0.1.2 -> 0.14.10" in first


def test_stale_because_patchgen_itself_changed(made, cli):
    """Same inputs, same releases, another result: only patchgen's own code can be the reason."""
    old = made.read(ONE)
    made.write(ONE, old + "# of the former code\n")
    was, now = (shorten(digest_of(text)) for text in (old, made.read(ONE)))
    recorded_otherwise(made, was, now)
    assert lines(cli)[0].endswith(
        "is stale: it differs from what modular/one/modular_one.py gives now"
    )
    recorded_otherwise(made, shorten(own_digest()), "0")
    assert lines(cli)[0].endswith("is stale: patchgen itself changed")


def test_unrecorded(made, cli):
    made("patchgen.lock").unlink()
    assert lines(cli)[0] == f"{ONE}: PG504 is not what patchgen.lock records"
    assert cli("convert")[0] == 0
    assert cli("check")[0] == 0


@pytest.mark.parametrize(
    "old, new",
    [
        ('["modular/one', '["modular/three'),
        ('modular_one.py", "', 'modular_one.py", "0'),
        ('"tools:', '"tools:0'),
        ('"reads:', '"reads:0'),
        ('{"toy": "', '{"toy": "0'),
        ('{"toy": "', '{"toz": "'),
        ('"}, "', '"}, "0'),
        ('["modular/one', '[[], "modular/one'),
        ('["modular/one', '[5, "modular/one'),
        ('"tools:', '["tools:"], "'),
        ('{"toy": ', '[], {"toy": '),
        ('{"toy": ', '{"toy": 7, "toz": '),
    ],
)
def test_a_record_that_was_edited_by_hand(old, new, made, cli):
    before = made.read("patchgen.lock")
    assert old in before
    made.write("patchgen.lock", before.replace(old, new, 1))
    assert (
        lines(cli)[0]
        == f"{ONE}: PG504 is not what patchgen.lock records: its record was edited by hand"
    )
    assert cli("convert")[0] == 0
    assert made.read("patchgen.lock") == before


@pytest.mark.parametrize(
    "old, new, why",
    [
        (
            '"format": 3',
            '"format": 3, "mine": {}',
            "patchgen.lock has the key 'mine', which patchgen does not write",
        ),
        ('"format": 3', '"format": 1, "format": 3', "patchgen.lock has the key 'format' twice"),
        ('{"toy": ', '{"toy": "x", "toy": ', "patchgen.lock has the key 'toy' twice"),
        (
            "line length 119",
            "line length 120",
            "patchgen.lock has the key 'tools:KEY', which patchgen does not write",
        ),
        (
            '"about": "Written',
            '"about": "Made',
            "the first line of patchgen.lock was edited by hand",
        ),
    ],
)
def test_a_lock_that_was_edited_by_hand(old, new, why, made, cli):
    before = made.read("patchgen.lock")
    made.write("patchgen.lock", before.replace(old, new, 1))
    tools = re.search(r'^"tools:(\w+)"', before, re.MULTILINE)[1]
    reason = f"PG504 is not what patchgen.lock records: {why.replace('KEY', tools)}"
    assert lines(cli) == [f"{ONE}: {reason}", f"{TWO}: {reason}", "2 outputs: 2 unrecorded"]
    assert cli("convert")[0] == 0
    assert made.read("patchgen.lock") == before


def test_orphan_of_the_lock(made, cli):
    made("modular/two/modular_two.py").unlink()
    assert lines(cli) == [
        f"{TWO}: PG503 is orphaned: modular/two/modular_two.py is gone",
        "2 outputs: 1 ok, 1 orphaned",
    ]


def test_orphan_by_its_banner(made, cli):
    made.write("generated/three/modeling_three.py", made.read(ONE))
    assert (
        lines(cli)[0]
        == "generated/three/modeling_three.py: PG503 is orphaned: no modular file gives it"
    )


def test_orphan_that_only_the_lock_names(made, cli):
    for name in ("modular/two/modular_two.py", TWO, "generated/two/modeling_two.diff"):
        made(name).unlink()
    assert lines(cli)[0].endswith("is gone; only patchgen.lock still names it")
    assert cli("check", "--fix")[0] == 0
    assert cli("check")[0] == 0


def test_noop_files_without_a_banner_are_no_orphans(made, cli):
    made.write("generated/one/notes.py", "# mine\n")
    assert cli("check")[0] == 0


def test_noop_outputs_of_a_file_that_fails_are_no_orphans(made, cli):
    made.write("modular/two/modular_two.py", "from toy import A\nthis is not Python\n")
    made.edit("modular/two/modular_two.py", "toy", "nowhere")
    (finding, _) = lines(cli)
    assert "PG101 no module named nowhere" in finding


def test_file_in_the_way(tree, cli):
    tree.write(ONE, "# written by a person\n")
    assert lines(cli, "modular/one")[0] == (
        f"{ONE}: PG509 was not written by patchgen, and modular/one/modular_one.py gives a file of this name"
    )


def test_two_files_with_one_output_name_each_other(tree, cli):
    tree.write("modular/one/sub/modular_two.py", "from toy import A\n")
    found = lines(cli, "--out", "flat")
    one, other = "modular/one/sub/modular_two.py", "modular/two/modular_two.py"
    assert found == [
        "flat/modeling_one.py: PG502 is missing; modular/one/modular_one.py gives it",
        f"{one}: PG508 gives the output modeling_two.py, and so does {other}",
        f"{other}: PG508 gives the output modeling_two.py, and so does {one}",
        "1 output: 1 missing; 2 modular files refused",
    ]


def test_nothing_found_at_all(tree, cli):
    for name in ("one", "two"):
        tree(f"modular/{name}/modular_{name}.py").unlink()
    assert lines(cli) == ["modular: PG505 holds no modular file"]


def test_misspelt_folder_in_the_configuration(made, cli):
    made.edit("pyproject.toml", 'sources = ["modular"]', 'sources = ["modlar"]')
    assert cli("check")[1] == "modlar: PG506 does not exist\n    hint: did you mean modular?\n"


def test_two_errors_in_two_files_are_one_run(made, cli):
    made.edit("modular/one/modular_one.py", "from toy", "from toi")
    made.edit("modular/two/modular_two.py", "import A, B", "import A, Bee")
    before = made.snapshot()
    *found, summary = lines(cli)
    assert [line.split(":")[0] for line in found] == [
        "modular/one/modular_one.py",
        "modular/two/modular_two.py",
    ]
    assert summary == "2 modular files refused"
    assert made.snapshot() == before


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x = '\0'\n"], ids=["utf-16", "nul"])
def test_file_that_is_no_text(data, made, cli):
    made("modular/one/modular_one.py").write_bytes(data)
    assert lines(cli)[0].startswith("modular/one/modular_one.py")


def test_lock_with_a_merge_conflict(made, cli):
    made.write("patchgen.lock", "<<<<<<< HEAD\n" + made.read("patchgen.lock"))
    code, _, err = cli("check")
    assert code == 1
    assert err.startswith("patchgen.lock:1:1: PG507 cannot be read")


def test_modular_file_with_nothing_to_generate(tree, cli):
    tree.write("modular/one/modular_one.py", "# nothing\n")
    tree("modular/two/modular_two.py").unlink()
    note = "modular/one/modular_one.py: note: nothing to generate: no class derives from a parent\n"
    assert cli("check", "-v") == (0, note, "")
    assert cli("check") == (0, note, "")
    assert cli("check", "-q") == (0, "", "")


def test_defect_of_the_core_is_one_line_and_does_not_stop_the_others(made, cli):
    made.edit("modular/one/modular_one.py", "x = 3", "# defect")
    made.edit("modular/two/modular_two.py", "y = 4", "y = 5")
    code, out, err = cli("check")
    assert code == 2
    assert "modular/one/modular_one.py: PG908 internal error at standin.py:" in out
    assert "RuntimeError: the core did not expect this" in out
    assert f"{TWO}:8:1: PG501 is stale: the modular file changed" in out
    assert "Traceback" not in out + err


def test_one_path_checks_only_that(made, cli):
    made.edit(TWO, "y = 2", "y = 7")
    assert cli("check", "modular/one")[0] == 0
    assert cli("check", "modular/one/modular_one.py")[0] == 0
    assert cli("check", "modular/two/modular_two.py")[0] == 1


def test_diff_shows_what_would_change(made, cli):
    made.edit(TWO, "y = 2", "y = 7")
    for argv in (["diff"], ["check", "--diff"]):
        code, out, err = cli(*argv)
        assert code == 1
        assert out.startswith(f"--- {TWO}\n+++ {TWO}\tas its modular file gives it\n")
        assert "-    y = 7\n+    y = 2\n" in out
        assert "PG501" in err


def test_json_has_everything(made, cli):
    made.edit(TWO, "y = 2", "y = 7")
    code, out, _ = cli("check", "--output-format", "json")
    report = json.loads(out)
    assert code == 1
    assert [(row["path"], row["status"]) for row in report["outputs"]] == [
        (ONE, "ok"),
        (TWO, "stale"),
    ]
    assert [(p["path"], p["line"], p["code"]) for p in report["problems"]] == [(TWO, 6, "PG501")]


def test_stale_because_parents_changed_names_three_and_counts_the_rest(made, cli):
    names = "CDEFG"
    made.write(
        "lib/toy.py", made.read("lib/toy.py") + "".join(f"class {n}:\n    z = 0\n" for n in names)
    )
    made.write("modular/two/modular_two.py", f"from toy import {', '.join(names)}\n")
    cli("convert")
    made.edit("lib/toy.py", "z = 0", "z = 1")
    assert "the parent changed: 5 definitions of toy (C, D, E, ...)" in lines(cli)[0]


def test_folder_in_the_way(tree, cli):
    tree(ONE).mkdir(parents=True)
    assert "PG509" in lines(cli, "modular/one")[0]


def test_a_folder_of_many_packages_is_listed_once(made, cli, monkeypatch):
    """A project of 1,000 variants has hundreds of them."""
    for name in map(str, range(20)):
        text = made.read("modular/two/modular_two.py")
        made.write(f"modular/p{name}/modular_p{name}.py", text)
    assert cli("convert")[0] == 0
    listed = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [listed.append(str(path)), *listdir(path)][1:])
    assert cli("check")[0] == 0
    assert listed.count(str(made("generated"))) <= 3, listed

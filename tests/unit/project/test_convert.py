"""Writing: what is wrong becomes right, what is right is not touched, what is somebody's own is left alone."""

import json
import os

import pytest

ONE, TWO = "generated/one/modeling_one.py", "generated/two/modeling_two.py"


@pytest.fixture
def made(tree, cli):
    """The project, converted."""
    assert cli("convert")[0] == 0
    return tree


def test_writes_outputs_diffs_and_lock(tree, cli):
    before = set(tree.files())
    code, out, err = cli("convert")
    assert code == 0
    assert err.splitlines() == [
        f"wrote {ONE}",
        "wrote generated/one/modeling_one.diff",
        f"wrote {TWO}",
        "wrote generated/two/modeling_two.diff",
        "updated patchgen.lock",
        "4 written, 0 removed, 0 unchanged",
    ]
    new = {
        ONE,
        TWO,
        "generated/one/modeling_one.diff",
        "generated/two/modeling_two.diff",
        "patchgen.lock",
    }
    assert set(tree.files()) - before == new


def test_noop_twice_touches_nothing(made, cli):
    before = made.snapshot()
    for argv in (["convert"], ["convert", "--no-cache"], ["check", "--fix"]):
        assert cli(*argv)[2] == "0 written, 0 removed, 2 unchanged\n"
    assert made.snapshot() == before


def test_only_what_is_stale_is_touched(made, cli):
    before = made.snapshot()
    made.edit("modular/two/modular_two.py", "y = 4", "y = 5")
    _, _, err = cli("convert")
    assert f"wrote {TWO} (the modular file changed)" in err
    after = made.snapshot()
    touched = {name for name in after if after[name] != before.get(name)}
    assert touched == {
        "modular/two/modular_two.py",
        TWO,
        "generated/two/modeling_two.diff",
        "patchgen.lock",
    }


def test_an_edit_by_hand_is_written_over_and_said(made, cli):
    made.edit(TWO, "y = 2", "y = 7")
    assert f"wrote {TWO} (modeling_two.py was edited by hand)" in cli("convert")[2]
    assert cli("check")[0] == 0


def test_one_bad_file_does_not_keep_the_others_from_being_written(tree, cli):
    tree.edit("modular/one/modular_one.py", "from toy", "from toi")
    code, out, err = cli("convert")
    assert (code, tree(ONE).exists(), tree(TWO).exists()) == (1, False, True)
    assert "PG101 no module named toi" in out
    assert "2 written" in err


def test_a_file_that_fails_keeps_its_old_output_and_record(made, cli):
    before = made.snapshot()
    made.edit("modular/one/modular_one.py", "from toy", "from toi")
    assert cli("convert")[0] == 1
    after = made.snapshot()
    assert {name for name in after if after[name] != before.get(name)} == {
        "modular/one/modular_one.py"
    }


@pytest.mark.parametrize("argv", [["convert"], ["check", "--fix"]])
def test_a_file_of_somebodys_own_is_not_replaced(argv, tree, cli):
    tree.write(ONE, "# by hand\n")
    code, out, _ = cli(*argv)
    assert (code, tree.read(ONE)) == (1, "# by hand\n")
    assert "PG509" in out
    assert tree(TWO).exists()


def test_force_replaces_it(tree, cli):
    tree.write(ONE, "# by hand\n")
    assert cli("convert", "--force")[0] == 0
    assert cli("check")[0] == 0


def test_convert_leaves_orphans_and_says_so(made, cli):
    made("modular/two/modular_two.py").unlink()
    code, out, _ = cli("convert")
    assert (code, made(TWO).exists()) == (1, True)
    assert "PG503 is orphaned" in out


def test_fix_removes_orphans_with_their_diff_and_record(made, cli):
    made("modular/two/modular_two.py").unlink()
    assert cli("check", "--fix")[0] == 0
    assert not made(TWO).exists()
    assert not made("generated/two/modeling_two.diff").exists()
    keys = json.loads(made.read("patchgen.lock"))
    assert [key for key in keys if key.endswith(".py")] == [ONE]
    assert cli("check")[0] == 0


def test_fix_keeps_an_orphan_that_was_edited(made, cli):
    made("modular/two/modular_two.py").unlink()
    made.edit(TWO, "y = 2", "y = 7")
    code, out, _ = cli("check", "--fix")
    assert (code, made(TWO).exists()) == (1, True)
    assert "it was edited by hand" in out
    assert TWO in json.loads(made.read("patchgen.lock"))


def test_out_takes_the_outputs_and_leaves_the_lock_alone(made, cli, tmp_path):
    lock = made.read("patchgen.lock")
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    assert cli("convert", "--out", str(tmp_path / "out"))[0] == 0
    assert sorted(os.listdir(tmp_path / "out")) == [
        "modeling_one.diff",
        "modeling_one.py",
        "modeling_two.diff",
        "modeling_two.py",
    ]
    assert made.read("patchgen.lock") == lock
    assert cli("check", "--out", str(tmp_path / "out"))[0] == 0
    assert cli("check")[0] == 1


@pytest.mark.parametrize("folder", ["flat", "generated", ".", "modular", "../outside"])
def test_out_twice_leaves_the_projects_own_outputs_in_peace(folder, made, cli):
    """A folder that holds them is no reason to call them orphaned, and still less to remove them."""
    before = made.snapshot()
    assert cli("convert", "--out", folder)[0] == 0
    for argv in (["convert"], ["check"], ["check", "--fix"]):
        assert cli(*argv, "--out", folder)[:2] == (
            0,
            "2 outputs: 2 ok\n" if argv == ["check"] else "",
        )
    assert before.items() <= made.snapshot().items()


def test_out_among_the_projects_outputs_is_said_to_be_in_the_wrong_place(made, cli):
    cli("convert", "--out", "generated/flat")
    wrong = (
        "generated/flat/modeling_one.py: PG503 is orphaned: modular/one/modular_one.py gives " + ONE
    )
    assert cli("check")[1].splitlines()[0] == wrong


def test_mode_of_an_output_is_kept(made, cli):
    made(ONE).chmod(0o755)
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    cli("convert")
    assert made(ONE).stat().st_mode & 0o777 == 0o755


def test_an_output_that_is_a_link_stays_one(made, cli):
    target = made("elsewhere/real.py")
    target.parent.mkdir()
    made(ONE).rename(target)
    made(ONE).symlink_to(target)
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    assert cli("convert")[0] == 0
    assert made(ONE).is_symlink()
    assert "x = 4" in target.read_text()


def test_a_modular_file_that_changes_meanwhile_is_not_written(made, cli, monkeypatch):
    import patchgen.project.convert as convert

    real = convert.examine
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")

    def examine(*args):
        report = real(*args)
        made.edit("modular/one/modular_one.py", "x = 4", "x = 5")
        return report

    monkeypatch.setattr(convert, "examine", examine)
    code, out, _ = cli("convert")
    assert code == 2
    assert (
        "PG905 modular_one.py changed while it was being converted\n    hint: run the command again"
        in out
    )
    assert "x = 3" in made.read(ONE)


def test_what_a_killed_run_left_beside_an_output_is_removed(made, cli, monkeypatch):
    made.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    with monkeypatch.context() as killed:
        killed.setattr("os.replace", lambda *_: os._exit(9))
        child = os.fork()
        if not child:
            cli("convert", "--no-cache")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(made.top.rglob(".patchgen-*.tmp"))
    assert cli("convert")[0] == 0
    assert not list(made.top.rglob(".patchgen-*.tmp"))


@pytest.mark.parametrize("target", ["generated/nothing.py", "pyproject.toml", "lib/toy.py:3"])
def test_explain_of_anything_else_is_wrong_usage(target, made, cli):
    assert cli("explain", target)[0] == 2


def test_list_has_the_figures(made, cli):
    head, one, two, total = cli("list")[1].splitlines()
    assert head.split() == ["variant", "declared", "added", "removed", "output", "status"]
    assert one.split() == ["one", "2", "2", "0", "6", "ok"]
    assert two.split()[:1] == ["two"]
    columns = [int(a) + int(b) for a, b in zip(one.split()[1:5], two.split()[1:5], strict=True)]
    assert total.split() == ["total", "of", "2", *map(str, columns)]


def test_list_as_json_has_the_outputs_and_classes(made, cli):
    data = json.loads(cli("list", "--output-format", "json")[1])
    first = data["variants"][0]
    assert (first["outputs"], first["classes"], first["parents"]) == ([ONE], ["A"], ["toy"])
    assert data["total"]["added"] == sum(row["added"] for row in data["variants"])


def test_many_notes_of_a_file_are_counted(tree, cli, monkeypatch):
    from dataclasses import replace

    import patchgen.compiler.flatten
    from patchgen.compiler.flat import Note
    from patchgen.syntax.errors import Location
    from tests.standin import as_draft, stand_in

    def noisy(path, env, settings):
        made = stand_in(path, env, settings)
        notes = tuple(
            Note(Location(env.display_path(path), line, 1), "look") for line in range(1, 6)
        )
        return replace(made, files=tuple(replace(file, notes=notes) for file in made.files))

    monkeypatch.setattr(patchgen.compiler.flatten, "make_draft", as_draft(noisy))
    path = "modular/one/modular_one.py"
    *notes, more = cli("convert", path)[1].splitlines()
    assert notes == [f"{path}:{line}:1: note: look" for line in (1, 2, 3)]
    assert more == f"{path}: 2 more notes; -v shows them"
    assert cli("check", "-v", path)[1].count(": note: look\n") == 5


@pytest.mark.parametrize("line", [0, 9, 99])
def test_explain_of_a_line_that_is_not_there(line, made, cli):
    code, out, err = cli("explain", f"{TWO}:{line}")
    assert (code, out) == (2, "")
    assert f"{TWO} has no line {line}: it has 8 lines" in err


def test_stdin_gives_the_text_and_writes_nothing(made, cli, monkeypatch):
    import io
    import sys

    text = made.read("modular/one/modular_one.py").replace("x = 3", "x = 9")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    before = made.snapshot()
    code, out, err = cli("convert", "-", "--stdin-filename", "modular/one/modular_one.py")
    assert (code, err) == (0, "")
    assert out == made.read(ONE).replace("x = 3", "x = 9")
    assert made.snapshot() == before


def test_stdin_errors_name_the_file_that_it_stands_for(made, cli, monkeypatch):
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from toi import A\n")))
    code, out, err = cli("convert", "-", "--stdin-filename", "modular/one/modular_one.py")
    assert (code, out) == (1, "")
    assert err.startswith("modular/one/modular_one.py:1:1: PG101 no module named toi")


def test_stdin_needs_a_name(made, cli):
    assert cli("convert", "-")[0] == 2

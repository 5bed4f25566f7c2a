"""`check --package-root`: what becomes of variants under another release of their parents."""

import json
import shutil

import pytest


@pytest.fixture
def made(tree, cli):
    """The project, converted, and a copy of its parents beside it."""
    assert cli("convert")[0] == 0
    shutil.copytree(tree("lib"), tree.top.parent / "next")
    return tree


@pytest.fixture
def drift(made, cli):
    """Edits the new parents, then gives what becomes of each modular file and the whole report."""

    def run(old: str = "", new: str = "") -> tuple[int, dict[str, str], str]:
        path = made.top.parent / "next/toy.py"
        path.write_text(path.read_text().replace(old, new))
        root = str(made.top.parent / "next")
        before = made.snapshot()
        code, out, _ = cli("check", "--package-root", root)
        report = json.loads(cli("check", "--package-root", root, "--output-format", "json")[1])
        assert made.snapshot() == before
        return code, {row["modular"].split("/")[1]: row["fit"] for row in report["drift"]}, out

    return run


def test_unaffected(drift):
    code, fits, out = drift()
    assert (code, fits) == (0, {"one": "unaffected", "two": "unaffected"})
    assert "modular/one/modular_one.py: unaffected\n" in out


def test_a_change_of_what_nothing_uses_affects_nothing(drift):
    assert drift("class B:", "class Unused:\n    pass\n\n\nclass B:")[1] == {
        "one": "unaffected",
        "two": "unaffected",
    }


def test_regenerates_clean(drift):
    code, fits, out = drift("y = 2", "y = 5")
    assert (code, fits) == (1, {"one": "unaffected", "two": "regenerates clean"})
    assert "modular/two/modular_two.py: regenerates clean; upstream changed toy.B\n" in out
    assert "-    y = 2" not in out


def test_verbose_shows_the_upstream_diff_of_what_regenerates(drift, cli, made):
    drift("y = 2", "y = 5")
    out = cli("check", "-v", "--package-root", str(made.top.parent / "next"))[1]
    assert "--- toy.B (recorded)\n+++ toy.B (new)\n" in out
    assert "-    y = 2\n+    y = 5" in out


def test_gone(drift):
    code, fits, out = drift("class B:", "class Bee:")
    assert (code, fits) == (1, {"one": "unaffected", "two": "gone"})
    assert "modular/two/modular_two.py: gone; upstream has no toy.B\n" in out
    assert "modular/two/modular_two.py:1:1: PG101 no B" in out


def test_gone_with_its_module(made, cli):
    """It is found in the release that is installed, which must not pass for the new one."""
    shutil.move(made("lib/toy.py"), made("lib/toy/modeling.py").parent.with_suffix(".tmp"))
    made("lib/toy").mkdir()
    shutil.move(made("lib/toy.tmp"), made("lib/toy/modeling.py"))
    made.write("lib/toy/__init__.py", "")
    for name in ("one", "two"):
        made.edit(f"modular/{name}/modular_{name}.py", "from toy", "from toy.modeling")
    assert cli("convert")[0] == 0
    shutil.copytree(made("lib"), made.top.parent / "release")
    argv = ("check", "--package-root", str(made.top.parent / "release"))
    assert cli(*argv)[1].splitlines()[0] == "modular/one/modular_one.py: unaffected"
    (made.top.parent / "release/toy/modeling.py").unlink()
    code, out, _ = cli(*argv)
    assert (code, out.splitlines()[0]) == (
        1,
        "modular/one/modular_one.py: gone; upstream has no toy.modeling.A",
    )
    (
        made.top.parent / "release/toy/__init__.py"
    ).unlink()  # a part of a release, laid over the one that is installed
    assert cli(*argv)[0] == 0


def test_gone_without_a_record(drift, made):
    made("patchgen.lock").unlink()
    assert drift("class B:", "class Bee:")[1]["two"] == "gone"


def test_drift_comes_first(drift):
    lines = drift("y = 2", "y = 5")[2].splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [
        f"modular/{n}/modular_{n}.py" for n in ("one", "two")
    ]
    assert "PG501" in lines[2]


def test_many_definitions_of_a_module_are_counted(made, cli):
    names = "CDEFG"
    made.write(
        "lib/toy.py", made.read("lib/toy.py") + "".join(f"class {n}:\n    z = 0\n" for n in names)
    )
    made.write("modular/two/modular_two.py", f"from toy import {', '.join(names)}\n")
    cli("convert")
    new = made.top.parent / "next/toy.py"
    new.write_text(made.read("lib/toy.py").replace("z = 0", "z = 1"))
    out = cli("check", "--package-root", str(new.parent))[1]
    expected = "regenerates clean; upstream changed 5 definitions of toy (C, D, E, ...)\n"
    assert f"modular/two/modular_two.py: {expected}" in out


def test_no_longer_fits_comes_with_the_upstream_diff(drift, monkeypatch):
    import patchgen.compiler.flatten
    from patchgen.compiler.flat import Flattened
    from patchgen.syntax.errors import Location, Problem
    from tests.standin import as_draft, stand_in

    def picky(path, env, settings):
        text = env.index("toy", Location("")).source.text
        if "y = 5" in text and "two" in path.name:
            return Flattened(
                problems=(
                    Problem(Location(env.display_path(path), 3, 1), "PG301", "matches nothing"),
                )
            )
        return stand_in(path, env, settings)

    monkeypatch.setattr(patchgen.compiler.flatten, "make_draft", as_draft(picky))
    code, fits, out = drift("y = 2", "y = 5")
    assert (code, fits) == (1, {"one": "unaffected", "two": "no longer fits"})
    assert (
        "modular/two/modular_two.py: no longer fits; upstream changed toy.B\n--- toy.B (recorded)"
        in out
    )
    assert "-    y = 2\n+    y = 5" in out


def test_noop_without_another_tree_there_is_no_drift(made, cli):
    assert "drift" not in json.loads(cli("check", "--output-format", "json")[1])


def test_convert_takes_the_variants_to_the_new_release(made, drift, cli):
    drift("y = 2", "y = 5")
    root = str(made.top.parent / "next")
    assert cli("convert", "--package-root", root)[0] == 0
    assert "y = 5" in made.read("generated/two/modeling_two.py")
    assert cli("check", "--package-root", root)[0] == 0
    assert cli("check")[0] == 1


def test_a_changed_part_of_the_project_is_no_change_of_the_release(made, cli):
    made.write("lib/kit.py", "class K:\n    z = 0\n")
    made.write("modular/two/modular_two.py", "from kit import K\n")
    cli("convert")
    made.edit("lib/kit.py", "z = 0", "z = 1")
    argv = ("check", "--package-root", str(made.top.parent / "next"))
    assert "modular/two/modular_two.py: regenerates clean\n" in cli(*argv)[1]
    (made.top.parent / "next/kit.py").write_text("class K:\n    z = 2\n")
    assert (
        "modular/two/modular_two.py: regenerates clean; upstream changed kit.K\n" in cli(*argv)[1]
    )

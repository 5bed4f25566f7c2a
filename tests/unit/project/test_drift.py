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


def test_regenerates_clean(drift):
    code, fits, out = drift("y = 2", "y = 5")
    assert (code, fits) == (1, {"one": "unaffected", "two": "regenerates clean"})
    assert "modular/two/modular_two.py: regenerates clean; upstream changed toy.B\n" in out
    assert "-    y = 2" not in out


def test_gone(drift):
    code, fits, out = drift("class B:", "class Bee:")
    assert (code, fits) == (1, {"one": "unaffected", "two": "gone"})
    assert "modular/two/modular_two.py: gone; upstream has no toy.B\n" in out
    assert "modular/two/modular_two.py:1:1: PG101 no B" in out


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

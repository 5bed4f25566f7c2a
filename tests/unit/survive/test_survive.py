"""`patchgen survive`: the state of each variant on each release, and what broke it."""

from __future__ import annotations

import pytest

from patchgen.syntax.errors import PatchgenError
from tests.unit.survive.conftest import PARENT, make_release

SAME, CHANGED = "converts", "converts, to another output"
EDIT, PARENT_GONE = "an edit does not match", "a parent is missing"
MODULE = "transformers.models.toy.modeling_toy"
# What a release changes, the states of `edited` and `overridden` on it, and what broke them.
CASES = {
    "nothing": ("", "", SAME, SAME, [], []),
    "the docstring of the module": ('"""A toy', '"""The toy', CHANGED, CHANGED, [], []),
    "another definition": ("x / x.norm()", "x / x.norm(2)", CHANGED, SAME, [], []),
    "a statement beside the edit": (
        "x = self.up(x)\n",
        "x = self.up(2 * x)\n",
        CHANGED,
        CHANGED,
        [],
        [],
    ),
    "the edited statement": (
        "torch.relu(x)",
        "torch.selu(x)",
        EDIT,
        CHANGED,
        [f"{MODULE}.ToyMLP.forward"],
        [],
    ),
    "the class": (
        "class ToyNorm(nn.Module)",
        "class ToyRMSNorm(nn.Module)",
        CHANGED,
        PARENT_GONE,
        [],
        [f"{MODULE}.ToyNorm"],
    ),
    "the method": (
        "def forward(self, x):\n        x = self.up(x)",
        "def run(self, x):\n        x = self.up(x)",
        "a member is missing",
        CHANGED,
        [f"{MODULE}.ToyMLP.forward"],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("forwards", [True, False])
def test_states_and_breaks(case, forwards, project, survey, tmp_path):
    """A break is found whichever of the two releases the variant was written for."""
    old, new, edited, overridden, *broken = CASES[case]
    text = PARENT.replace(old, new)
    if "class ToyNorm" not in text:
        text = text.replace('"ToyNorm"', '"ToyRMSNorm"')
    versions = ("5.1.0", "5.2.0") if forwards else ("5.2.0", "5.1.0")
    make_release(tmp_path / "releases", versions[0], PARENT)
    make_release(tmp_path / "releases", versions[1], text, wheel=True)
    rows = survey()["variants"]
    states = [row["states"][versions[1]] for row in rows]
    # Going back, it is the newer release that has another output.
    expected = [edited, overridden] if forwards else [_as_first(edited), _as_first(overridden)]
    assert states == expected
    assert [[b["definition"] for b in row["breaks"]] for row in rows] == broken
    assert all(b["converts"] == versions[0] for row in rows for b in row["breaks"])


def _as_first(state: str) -> str:
    return SAME if state == CHANGED else state


def test_a_break_is_named_with_its_diff_and_its_place(project, cli, tmp_path):
    for version, text in [("5.1.0", PARENT), ("5.2.0", PARENT.replace("relu", "selu"))]:
        make_release(tmp_path / "releases", version, text)
    known = ("--releases-dir", str(tmp_path / "releases"), "--releases", "5.1..5.2")
    code, out = cli("survive", "toy_edited", *known)
    assert code == 1
    assert "toy_edited: converts on 5.1.0\n  5.2.0: an edit does not match\n" in out
    assert "    modular/toy/modular_toy_edited.py:12:9: PG301 `with old:` does not occur" in out
    assert f"  5.2.0 broke it: {MODULE}.ToyMLP.forward changed\n" in out
    assert "-        return torch.relu(x)\n    +        return torch.selu(x)" in out


def test_a_model_that_is_not_there_yet(project, survey, cli, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", None, wheel=True)
    make_release(tmp_path / "releases", "5.2.0", PARENT, wheel=True)
    for row in survey()["variants"]:
        assert row["states"] == {"5.1.0": PARENT_GONE, "5.2.0": SAME}
        assert [b["definition"] for b in row["breaks"]] == [MODULE]
    known = ("--releases-dir", str(tmp_path / "releases"), "--releases", "5.1..5.2")
    assert f"  converts since 5.2.0: {MODULE} is new\n" in cli("survive", *known)[1]


def test_a_release_that_cannot_be_read_hides_no_other(project, tmp_path, cli):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    (tmp_path / "releases/transformers-5.2.0-py3-none-any.whl").write_bytes(b"PK, cut off")
    known = ("--releases-dir", str(tmp_path / "releases"), "--releases", "5.1..5.2")
    code, out = cli("survive", *known)
    assert code == 1
    assert "toy_edited: converts on 5.1.0\n  5.2.0: cannot be read\n" in out
    assert "5.2.0 cannot be read: File is not a zip file" in out


def test_a_parent_that_is_no_python_cannot_be_read(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT + "class (:\n")
    for row in survey()["variants"]:
        assert row["states"]["5.2.0"] == "cannot be read"


def test_no_release_in_the_range(project, tmp_path, cli):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    with pytest.raises(PatchgenError, match="PG807 is no release of transformers that is here"):
        cli("survive", "--releases-dir", str(tmp_path / "releases"), "--releases", "6.1..6.2")


# What is kept


def test_equal_files_need_no_second_conversion(project, survey, tmp_path):
    """Another version number and another model's file change nothing that a variant reads."""
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT, wheel=True)
    extra = tmp_path / "releases/5.1.0/transformers/models/other/modeling_other.py"
    extra.write_text("x = 1\n")
    assert survey()["conversions"] == {"made": 2, "reused": 2}
    make_release(tmp_path / "releases", "5.3.0", PARENT.replace("relu", "selu"))
    assert survey()["conversions"] == {"made": 2, "reused": 4}
    assert survey()["conversions"] == {"made": 0, "reused": 6}


def test_a_changed_variant_is_converted_again(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    survey()
    project.edit("modular/toy/modular_toy_edited.py", "torch.tanh", "torch.sin")
    assert survey()["conversions"] == {"made": 1, "reused": 1}


def test_a_release_with_other_files_under_the_same_number(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    assert survey()["variants"][0]["survives"]
    make_release(tmp_path / "releases", "5.1.0", PARENT.replace("relu", "selu"))
    assert not survey()["variants"][0]["survives"]


def test_a_line_that_was_cut_off_costs_one_conversion(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    first = survey()["variants"]
    book = project.state / "survive.jsonl"
    book.write_bytes(book.read_bytes()[:-40])
    again = survey()
    assert (again["variants"], again["conversions"]["made"]) == (first, 1)
    assert survey()["conversions"]["made"] == 0


def test_it_says_which_releases_give_the_outputs_on_disk(project, survey, tmp_path, cli):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT.replace("up(x)", "up(2 * x)"))
    cli("convert", "--quiet", "--package-root", str(tmp_path / "releases/5.2.0"))
    rows = survey()["variants"]
    assert [row["fits_outputs_on_disk"] for row in rows] == [["5.2.0"], ["5.2.0"]]


# The page


def test_the_page_has_a_table_and_a_picture(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT.replace("relu", "selu"))
    survey("--page", "docs/page.md")
    page, picture = project.read("docs/page.md"), project.read("docs/page.svg")
    assert "![Variants by releases](page.svg)" in page
    assert "| toy_edited | 5.1.0 |  | 5.2.0: an edit does not match |" in page
    assert "| toy_overridden | 5.1.0 to 5.2.0 | 5.2.0 |  |" in page
    assert f"\n5.2.0 broke it: {MODULE}.ToyMLP.forward changed. Otherwise: PG301 " in page
    assert picture.count("<title>") == 4
    assert "<title>toy_edited on 5.2.0: an edit does not match</title>" in picture

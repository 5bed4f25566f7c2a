"""`patchgen rebase --releases`: the state of each variant on each release, and what broke it."""

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
    assert "5.2.0 cannot be read: " in out and "is no wheel that can be read" in out


def test_a_parent_that_is_no_python_cannot_be_read(project, survey, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT + "class (:\n")
    for row in survey()["variants"]:
        assert row["states"]["5.2.0"] == "cannot be read"


def test_no_release_in_the_range(project, tmp_path, cli):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    with pytest.raises(PatchgenError, match="PG807 is no release of transformers that is here"):
        cli("survive", "--releases-dir", str(tmp_path / "releases"), "--releases", "6.1..6.2")


def test_it_says_which_releases_give_the_outputs_on_disk(project, survey, tmp_path, cli):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.2.0", PARENT.replace("up(x)", "up(2 * x)"))
    cli("convert", "--quiet", "--package-root", str(tmp_path / "releases/5.2.0"))
    rows = survey()["variants"]
    assert [row["fits_outputs_on_disk"] for row in rows] == [["5.2.0"], ["5.2.0"]]


def test_it_says_which_releases_it_did_not_have(project, cli, tmp_path):
    make_release(tmp_path / "releases", "5.1.0", PARENT)
    make_release(tmp_path / "releases", "5.3.0", PARENT)
    known = ("survive", "--releases-dir", str(tmp_path / "releases"))
    code, out = cli(*known, "--releases", "5.1..5.4")
    assert (code, "5.4 is not here" in out, "5.1 is not here" in out) == (0, True, False)
    code, out = cli(*known, "--releases", "5.1.0", "--releases", "5.2.0")
    assert (code, "5.2.0 is not here: --download" in out) == (1, True)
    assert "2 of 2 variants convert on all of 1 releases" in out

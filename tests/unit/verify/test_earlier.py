"""A report keeps what it said of variants that a run leaves alone, if both ran on the same."""

import json

import pytest

pytest.importorskip("torch")

from patchgen.verify.report import Result, RunDescription, write_report
from patchgen.verify.variants import Variant

GALLERY = [Variant(name, f"generated.{name}", "transformers.x", (), (), ".") for name in "abc"]
VERSIONS = (("torch", "2"),)


def write(folder, command, results, gallery=GALLERY, versions=VERSIONS):
    write_report(folder, gallery, results, RunDescription(command, "cpu", versions))
    data = json.loads((folder / "parity.json").read_text())
    return {case["variant"]: case["note"] for case in data["cases"]}


def test_others_are_kept_in_the_order_of_the_gallery(tmp_path):
    both = [Result("a", "x", "PASS", note="old"), Result("c", "x", "PASS", note="old")]
    assert write(tmp_path, "first", both) == {"a": "old", "c": "old"}
    newer = [Result("b", "x", "PASS", note="new"), Result("a", "x", "FAIL", note="new")]
    kept = write(tmp_path, "second", newer)
    assert list(kept.items()) == [("a", "new"), ("b", "new"), ("c", "old")]
    page = (tmp_path / "parity.md").read_text()
    assert "`first`" in page and "`second`" in page


@pytest.mark.parametrize(
    ("gallery", "versions"),
    [(GALLERY[:1], VERSIONS), (GALLERY, (("torch", "3"),))],
    ids=["a variant that is gone", "another release"],
)
def test_what_does_not_belong_together_is_dropped(tmp_path, gallery, versions):
    write(tmp_path, "first", [Result("c", "x", "PASS")])
    kept = write(tmp_path, "second", [Result("a", "x", "PASS")], gallery, versions)
    assert set(kept) == {"a"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": 3}'])
def test_a_report_that_cannot_be_read_is_replaced(tmp_path, text):
    (tmp_path / "parity.json").write_text(text)
    assert write(tmp_path, "first", [Result("a", "x", "PASS")]) == {"a": ""}

"""A report keeps what it said of variants that a run leaves alone, if both ran on the same."""

import hashlib
import json

import pytest

pytest.importorskip("torch")

from patchgen.verifying.report import Result, RunDescription, describe_run, write_report
from patchgen.verifying.variants import Variant, find_variants
from tests.toytree import REPOSITORY

GALLERY = [Variant(name, f"generated.{name}", "transformers.x", (), (), ".") for name in "abc"]
VERSIONS = (("torch", "2"),)
SOUND = '{"command": "", "device": "cpu", "versions": {"torch": "2"}, "cases": [], "commands": {}}'


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


def test_each_variant_has_the_digests_of_its_own_run(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    first, second = find_variants(REPOSITORY, ["bert_mlm", "bert_moe"])
    ran = describe_run("first", "cpu", [first])
    write_report(tmp_path, [first, second], [Result("bert_mlm", "x", "PASS")], ran)
    write_report(
        tmp_path,
        [first, second],
        [Result("bert_moe", "x", "PASS")],
        describe_run("", "cpu", [second]),
    )
    about = json.loads((tmp_path / "parity.json").read_text())["about"]
    assert about.keys() == {"bert_mlm", "bert_moe"}
    assert about["bert_mlm"] == ran.about["bert_mlm"]
    digest = hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert about["bert_mlm"]["generated/bert/modeling_bert_mlm.py"] == digest


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cases": 3}', '{"cases": [3]}', SOUND.replace("{}", "3")]
)
def test_a_report_that_cannot_be_read_is_replaced(tmp_path, text):
    (tmp_path / "parity.json").write_text(text)
    assert write(tmp_path, "first", [Result("a", "x", "PASS")]) == {"a": ""}

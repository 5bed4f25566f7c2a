"""A page is one whole HTML file that loads nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from patchgen.cli import main
from patchgen.pages.render import LIMIT, render_page
from patchgen.pages.verdicts import judge_gains, judge_models, read_report
from patchgen.syntax.errors import PatchgenError
from tests.toytree import REPOSITORY
from tests.unit.page.variants import MODULARS, QUICK, name_of, traced

VOID = {"meta", "link", "br", "input"}
GALLERY = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in map(name_of, MODULARS)
]


class Reader(HTMLParser):
    """Checks that tags are closed in their order; collects ids, names and what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.nameless: list[str] = []
        self.lines = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.lines += tag == "li" and "code" in self.classes
        if tag not in VOID:
            self.open.append(tag)
        if tag == "ol":
            self.classes = given.get("class") or ""
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.loads += [v for name, v in attrs if name in ("src", "href", "srcset", "action") and v]
        if tag == "select" and not given.get("aria-label"):
            self.nameless.append(tag)

    classes = ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"line {self.getpos()[0]}"


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize("name", GALLERY)
def test_a_page_is_whole_and_loads_nothing(name: str) -> None:
    variant = traced(name)
    html = render_page(variant, [judge_models({}, name, REPOSITORY, variant.modular)])
    page = read(html)
    assert len(html.encode()) < LIMIT
    assert page.loads == ["data:,", "index.html"]
    assert not re.search(r"url\(|@import|\bfetch\(|XMLHttpRequest|import\(", html.split("<body")[0])
    assert not page.nameless
    assert len(page.ids) == len(set(page.ids))
    texts = [*variant.texts.values(), *(one.file.text for one in variant.outputs)]
    listed = sum(text.rstrip("\n").count("\n") + 1 for text in texts)
    assert page.lines == listed


def test_the_data_counts_every_line() -> None:
    variant = traced("mpnet_sdpa_checkpoint")
    html = render_page(variant, [])
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert found is not None
    data = json.loads(found[1])
    (runs,) = data["outputs"].values()
    covered = [line for first, last, *_ in runs for line in range(first, last + 1)]
    assert covered == list(range(1, len(variant.outputs[0].links) + 1))
    assert sum(data["counts"].values()) == len(covered)


def test_the_command_writes_pages_and_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modular = REPOSITORY / "modular/mpnet/modular_mpnet_checkpoint.py"
    assert main(["page", str(modular), "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "mpnet_checkpoint.html"}
    assert "mpnet_checkpoint.html" in read((tmp_path / "index.html").read_text()).loads
    assert "mpnet_checkpoint  " in capsys.readouterr().out


def test_a_variant_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["page", "mpnet_checkpont", "--out", str(tmp_path / "pages")]) != 0
    assert "mpnet_checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "pages").exists()


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["page", "--out", str(tmp_path / "pages")]) == 2
    assert re.search(r"pip install '\S+\[page\]", capsys.readouterr().err)


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    (tmp_path / "parity.json").write_text("[]", encoding="utf-8")
    with pytest.raises(PatchgenError) as caught:
        read_report(tmp_path, REPOSITORY)
    assert caught.value.problem.code == "PG914"
    assert read_report(None, tmp_path) == {}


def test_the_report_of_verify_is_summed_up() -> None:
    name, modular = "mpnet_sdpa_checkpoint", "modular/mpnet/modular_mpnet_sdpa_checkpoint.py"
    verdict = judge_models(read_report(None, REPOSITORY), name, REPOSITORY, modular)
    assert re.fullmatch(r"\d+ PASS(, \d+ WARN)?", verdict.text)
    assert any("mutants seen" in detail for detail in verdict.details)


def test_gains_are_those_of_the_table(tmp_path):
    """With full rows and with padding; never beside Liger, whose kernels the variant may use too."""
    verdict = judge_gains(REPOSITORY, "bert_mlm_padding_free")
    assert (verdict.level, verdict.text) == ("none", "memory 0.86 / 0.59, FLOPs 0.83 / 0.51")
    assert "Liger" not in str(judge_gains(REPOSITORY, "gemma2_loss"))
    assert judge_gains(REPOSITORY, "nothing") is None
    assert judge_gains(tmp_path, "bert_mlm") is None

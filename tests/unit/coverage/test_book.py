"""What is kept from run to run, and the page that is made of it."""

import pytest

from patchgen.author.coverage.book import Book, Entry, read_book, write_book
from patchgen.author.coverage.page import Target, as_markdown
from patchgen.syntax.errors import PatchgenError

BOOK = Book(
    {
        ("bert", "sdpa"): Entry("redundant", "it has SDPA"),
        ("bert", "loss"): Entry(
            "verified", key="a1", heads=("BertForMaskedLM", "BertForPreTraining"), seen=("shift",)
        ),
        ("mpnet", "sdpa"): Entry("failed", "effect: 2 calls of *SDPA* for 3", key="b2"),
        ("mpnet", "loss"): Entry("verified", heads=("MPNetForMaskedLM",), seconds=1.5),
    }
)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "coverage.json"
    write_book(path, BOOK, {"torch": "2"})
    assert read_book(path) == BOOK
    assert read_book(path).parts == ("sdpa", "loss")


def test_one_line_for_each_entry_so_that_a_diff_says_what_changed(tmp_path):
    path = tmp_path / "coverage.json"
    write_book(path, BOOK, {})
    before = path.read_text(encoding="utf-8").splitlines()
    write_book(path, BOOK.with_entry("mpnet", "sdpa", Entry("verified")), {})
    after = path.read_text(encoding="utf-8").splitlines()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_nothing_is_known_where_no_file_is(tmp_path):
    assert read_book(tmp_path / "coverage.json") == Book()


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 0}',
        "{}",
        "[]",
        "",
        '{"format": 1',
        '{"format": 1, "models": {"x": {"y": {}}}, "parts": []}',
    ],
)
def test_what_cannot_be_read_is_refused_and_kept(tmp_path, text):
    """A run would write over it, and hours of results with it."""
    path = tmp_path / "coverage.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        PatchgenError, match="coverage.json: PG817 is not a file that this patchgen coverage wrote"
    ):
        read_book(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_failed_entry_is_not_counted():
    assert Target("sdpa", "", 1, frozenset({"mpnet"})).reached(BOOK) == 0
    assert Target("loss", "", 1, frozenset({"mpnet"})).reached(BOOK) == 1
    assert Target("loss", "", 1, heads=True).reached(BOOK) == 3


def test_the_page_has_every_model_every_total_and_every_reason():
    text = as_markdown(
        BOOK, [Target("loss", "heads", 150, heads=True)], {"torch": "2"}, "patchgen coverage"
    )
    assert "| bert | redundant | **verified** |" in text
    assert "| sdpa | 0 | 0 | 1 | 0 | 0 | 0 | 1 |" in text
    assert "| loss | 3 | heads | 150 |" in text
    assert "- mpnet: effect: 2 calls of \\*SDPA\\* for 3" in text

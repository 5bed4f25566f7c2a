"""docs/coverage.md shows docs/coverage.json, and no part loses models that were verified."""

import pytest

from patchgen.author.coverage.book import read_book
from patchgen.author.coverage.page import as_markdown
from tests.toytree import REPOSITORY

DOCS = REPOSITORY / "docs"
BOOK = read_book(DOCS / "coverage.json")

# So many models are verified, at least.  For checkpointing it was 131, until a trial looked whether a
# layer of the part runs: in ten models, text runs none.
REACHED = {
    "sdpa": 87,
    "checkpoint": 125,
    "loss": 223,
    "moe": 58,
    "grouped": 7,
    "fused": 290,
    "flash": 43,
    "flex": 21,
    "norm": 346,
}


def test_the_page_is_made_of_the_book():
    text = (DOCS / "coverage.md").read_text(encoding="utf-8")
    made = as_markdown(BOOK, [], {}, "")
    assert made[made.index("## Models") :] == text[text.index("## Models") :]


@pytest.mark.parametrize("part", REACHED)
def test_what_was_reached_is_kept(part):
    found = [
        entry
        for (_, other), entry in BOOK.entries.items()
        if other == part and entry.status == "verified"
    ]
    assert len(found) >= REACHED[part]
    assert all(entry.key and entry.heads and entry.seen for entry in found)


def test_what_is_no_result_has_a_reason():
    wordless = ("verified", "written")
    assert not [
        key for key, entry in BOOK.entries.items() if entry.status not in wordless and not entry.why
    ]

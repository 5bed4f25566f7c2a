"""Every code that is raised is explained, every explanation is of such a code, and the page is up to date."""

from __future__ import annotations

import re

import pytest

from patchgen.cli.commands.errors import as_markdown
from patchgen.syntax.errors import catalogue
from tests.toytree import REPOSITORY

CODES = {
    code
    for path in sorted((REPOSITORY / "patchgen").rglob("*.py"))
    for code in re.findall(r"[\"'](PG\d{3})[\"']", path.read_text(encoding="utf-8"))
}


def test_every_code_in_the_source_is_explained():
    assert sorted(CODES - catalogue().keys()) == []


def test_every_explanation_is_of_a_code_in_the_source():
    assert sorted(catalogue().keys() - CODES) == []


@pytest.mark.parametrize("code", catalogue())
def test_explanation_is_complete(code):
    entry = catalogue()[code]
    assert re.fullmatch(r"PG\d{3}", code)
    assert (
        entry.title[0].islower()
        or entry.title.split()[0] in ("NUL", "PatchGen", "DeepSpeed")
        or "`" in entry.title
    )
    assert not entry.title.endswith(".")
    assert entry.why.strip().endswith((".", ":"))
    assert entry.fix.strip().endswith((".", "`", ")"))


def test_the_page_is_what_the_catalogue_gives():
    page = (REPOSITORY / "docs/errors.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "run: patchgen errors --markdown > docs/errors.md"

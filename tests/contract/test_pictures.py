"""The picture of the README is what its command draws, and its figures are those of the files."""

from __future__ import annotations

import importlib.util

from tests.toytree import REPOSITORY


def _script():
    spec = importlib.util.spec_from_file_location("draw_fork", REPOSITORY / "utils/draw_fork.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_up_to_date():
    script = _script()
    drawn = script.draw(script.FOLDER, script.NAME, script.TITLE)
    assert drawn == (REPOSITORY / "docs/fork.svg").read_text(encoding="utf-8"), "run: make regen"


def test_added_lines_are_numbered_as_in_the_new_file():
    diff = (
        "--- a\n+++ b\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+3\n three\n@@ -9 +10,2 @@\n nine\n+ten\n"
    )
    assert [*_script().added_lines(diff)] == [2, 3, 11]


def test_the_readme_is_read_in_a_few_minutes():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 200

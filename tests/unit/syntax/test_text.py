"""Text: a file is read, decoded and located, or refused with a code and a place."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from patchgen.disk import read_text
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.lines import changed_lines, code_lines
from patchgen.syntax.text import decode, make_source, read_source


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\nb", "a\n\n", "a\x0cb\x1c\nc\n"])
def test_lines_are_those_of_the_tokenizer(text: str) -> None:
    source = make_source(text, "toy.py")
    assert "".join(source.lines) == text
    assert len(source.lines) == text.count("\n") + (bool(text) and not text.endswith("\n"))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"x = '\xff'\n", "PG003"),
        (b"# coding: no-such-encoding\n", "PG003"),
        (b"# coding: utf-16\nx = 1\n", "PG003"),
        (b"# coding: undefined\n", "PG003"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "PG003"),
        (b"x = '\0'\n", "PG004"),
        ("x = '\u202e'\n".encode(), "PG005"),
    ],
)
def test_what_cannot_be_decoded_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(PatchgenError) as caught:
        decode(data, "toy.py")
    assert caught.value.problem.code == code


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(PatchgenError) as caught:
            read_source(path)
        assert caught.value.problem.code == "PG001"
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)


def test_lines_of_code_leave_out_comments_and_docstrings() -> None:
    function = 'def f():\n    """Doc."""\n    return x\n'
    text = f'"""Doc."""\n\n# Comment.\nx = [\n    1,\n]\n\n\n{function}'
    assert code_lines(text) == 5


def test_changed_lines_leave_out_blank_ones() -> None:
    assert changed_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n+\n z\n") == (1, 1)

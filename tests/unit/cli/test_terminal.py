"""Findings and diffs are coloured on a terminal, and the text without colours stays the same."""

from __future__ import annotations

import io

import click
import pytest

from patchgen.cli.terminal import paint, write

TEXT = """a/b.py:3:1: PG501 is stale: it was edited
    hint: run `patchgen convert`
pyproject.toml: PG901 is wrong
--- old
+++ new
@@ -1 +1 @@
-one
+two
 both
1 output: 1 stale
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colours_change_no_letter():
    assert click.unstyle(paint(TEXT)) == TEXT


def test_what_is_coloured():
    lines = zip(TEXT.splitlines(), paint(TEXT).splitlines(), strict=True)
    assert [plain for plain, painted in lines if painted == plain] == [" both", "1 output: 1 stale"]


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": ""}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
    ],
)
def test_only_on_a_terminal(stream, variables, coloured, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = stream()
    monkeypatch.setattr("sys.stdout", out)
    write(TEXT)
    assert (out.getvalue() != TEXT) is coloured

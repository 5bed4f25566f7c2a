"""Lines of Python as HTML, with the few kinds of tokens that a reader looks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.filter import Filter
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text

# All others have no colour: a page with every name in a tag of its own is three times as long.
_COLOURED = (Comment, Keyword, String, Number, Name.Class, Name.Function, Name.Decorator)


class _Few(Filter):  # type: ignore[misc]  # Pygments has no types
    """Keeps the tokens of `_COLOURED`, without finer kinds, and turns all others into text."""

    def filter(self, _lexer: Any, stream: Any) -> Iterator[tuple[Any, str]]:
        for kind, value in stream:
            yield next((known for known in _COLOURED if kind in known), Text), value


def highlight_lines(text: str) -> list[Markup]:
    """The lines of `text`, escaped and coloured."""
    lexer = PythonLexer(stripnl=False, ensurenl=False, filters=[_Few()])
    html = highlight(text.rstrip("\n"), lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in html.rstrip("\n").split("\n")]

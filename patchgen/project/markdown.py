"""Tables of Markdown, for the pages that patchgen writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def table_lines(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()
) -> list[str]:
    """The lines of a table; columns whose heads are in `numbers` are aligned to the right.

    >>> table_lines(("part", "verified"), [("sdpa", "87")], numbers=("verified",))
    ['| part | verified |', '|---|---:|', '| sdpa | 87 |']
    """
    rules = ["---:" if head in numbers else "---" for head in heads]
    lines = [_line(heads), f"|{'|'.join(rules)}|"]
    lines += [_line(cells) for cells in rows]
    return lines


def _line(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]  # a bare bar would end the cell
    return f"| {' | '.join(escaped)} |"

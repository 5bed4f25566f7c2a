"""Find where a name is written on its line, and what stands around it.

    self.mlp = llama.LlamaMLP(config)       bytes 11 to 25: llama.LlamaMLP, which is called

Columns count bytes of UTF-8, as those of `ast` do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from patchgen.compiler.link.textchanges import find_end_of_name
from patchgen.syntax.reads import Reference


def find_span(
    lines: Sequence[str], reference: Reference, used: int, old: str
) -> tuple[int, int] | None:
    """The bytes of the name and the first `used` of its attributes, which are spelled `old`.

    None where the text at the position is another one and `old` does not stand on the line once.
    """
    line = lines[reference.line - 1].encode()
    start = reference.column
    if used:
        end_line, end = reference.ends[used - 1]
    else:
        end_line, end = reference.line, find_end_of_name(line, start)
    if end_line == reference.line:
        written = line[start:end].decode(errors="ignore")
        # Python reads `ﬁeld` as `field`.
        if unicodedata.normalize("NFKC", written) == old:
            return start, end
    # Python before 3.12 gives wrong positions inside f-strings.
    found = [match.span() for match in re.finditer(rf"\b{re.escape(old)}\b".encode(), line)]
    return found[0] if len(found) == 1 else None


def is_called(lines: Sequence[str], reference: Reference, used: int) -> bool:
    """Whether an open bracket follows the name and its first `used` attributes."""
    if len(reference.attributes) > used or reference.quoted:
        return False
    if used:
        line, end = reference.ends[used - 1]
    else:
        line, end = reference.line, reference.column + len(reference.name)
    after = lines[line - 1].encode()[end:]
    return after.lstrip().startswith(b"(")


def is_inside_super(lines: Sequence[str], reference: Reference) -> bool:
    """Whether the name is the first argument of `super()`."""
    line = lines[reference.line - 1].encode()
    before = line[: reference.column].decode(errors="ignore")
    return before.rstrip().endswith("super(")

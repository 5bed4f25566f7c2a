"""Quote annotations of a class that name the class itself.

    class LlamaMLP(llama.LlamaMLP):                      class LlamaMLP(nn.Module):
        def link(self, other: llama.LlamaMLP): ...  ->       def link(self, other: "LlamaMLP"): ...

In the modular file the annotation names the parent, which exists already.  In the flat file it
names the class itself, which does not exist before its body has run.
"""

from __future__ import annotations

from patchgen.syntax.annotations import find_annotations
from patchgen.syntax.trees import mentions, parse_once, position_of


def quote_own_name(text: str, name: str) -> str:
    """Put each unquoted annotation of the class statement `text` that reads `name` in quotes.

    Annotations with quotes of their own, or over several lines, stay as they are.
    """
    # Once is the class statement itself.
    if text.count(name) < 2:
        return text
    lines = text.split("\n")
    found = [node for node in find_annotations(parse_once(text)) if mentions(node, name)]
    # From the last to the first, so that the positions of the others stay true.
    for node in sorted(found, key=position_of, reverse=True):
        if node.end_lineno != node.lineno:
            continue
        # Columns of `ast` count bytes.
        line = lines[node.lineno - 1].encode()
        before = line[: node.col_offset]
        written = line[node.col_offset : node.end_col_offset]
        after = line[node.end_col_offset :]
        if b'"' in written or b"'" in written:
            continue
        lines[node.lineno - 1] = b"".join([before, b'"', written, b'"', after]).decode()
    return "\n".join(lines)

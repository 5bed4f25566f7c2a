"""Which of some imported names a piece of code uses, by Python's scopes.

In: the body of an output, and names that imports could bind for it.  Out: those that are read where nothing in the
body hides them.  Most are decided by looking at words; a syntax tree is made only for a body in which a name is also
bound (a parameter `pad`, a local `resize`) or stands in a string that may be an annotation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set

from patchgen.source.scopes import references
from patchgen.source.text import parse_text
from patchgen.upstream.tokens import split_fstring

_WORD = re.compile(r"[^\W\d]\w*+")
_STRING = re.compile(
    r"\#[^\n]*"
    r'|"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""'
    r"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"'
    r"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'",
    re.DOTALL,
)
# Neither an attribute, nor a keyword of a call (defaults after an annotation have a space), nor a string's prefix.
_READ = re.compile(r"(?<![\w.])[^\W\d]\w*+(?!=(?!=)|[\"'])")
# A string that may be a quoted annotation: after `:`, `->`, `|`, or inside brackets, on one line.
_MAY_BE_ANNOTATION = re.compile(r"[>:|\[,][ \t\n]*+(?:\"([^\"\n\\]++)\"|'([^'\n\\]++)')")
# A name in lower case that something other than a module-level import may bind: it follows `def`, `for` and the like,
# or stands in parentheses or at the start of a line before `=`, `,`, `:`, `)` or `in`.  A class in such a place
# (`isinstance(x, Tensor)`) is read.
_MAY_BE_BOUND = re.compile(
    r"\b(?:def|for|as|import|del|global)[ \t]+\(?(_*[a-z]\w*+)"
    r"|(?:^|[(,*\[;])[ \t\n]*+(_*[a-z]\w*+)[ \t]*(?:=(?!=)|[:,)\]]|in\b)",
    re.MULTILINE,
)


def used_names(body: str, candidates: Set[str]) -> frozenset[str]:
    """Those of `candidates` that `body` reads as globals, in code and in quoted annotations."""
    present = candidates & set(_WORD.findall(body))
    if not present:
        return frozenset()
    code = without_strings(body)
    read = present & set(_READ.findall(code))
    doubtful = read & {first or second for first, second in _MAY_BE_BOUND.findall(code)}
    if len(read) < len(present):
        doubtful |= (present - read) & _quoted(body)
    if not doubtful:
        return frozenset(read)
    return frozenset((read - doubtful) | (doubtful & _read_globally(body)))


def without_strings(text: str) -> str:
    """`text` with an empty string for every string and comment, the code in f-strings kept."""

    def blanked(match: re.Match[str]) -> str:
        before = text[max(match.start() - 2, 0) : match.start()].lower()
        if match.group()[0] == "#" or not re.search(r"(?<!\w)(?:f|fr|rf)$", f" {before}"[-3:]):
            return '""'
        code = (without_strings(part) for is_code, part in split_fstring(match.group()) if is_code)
        return f'"" {" ".join(code)}'

    return _STRING.sub(blanked, text)


def _quoted(body: str) -> set[str]:
    strings = " ".join(double or single for double, single in _MAY_BE_ANNOTATION.findall(body))
    return set(_WORD.findall(strings))


def _read_globally(body: str) -> set[str]:
    """What Python's scope rules say; a local import of a name counts as a use of it."""
    tree = parse_text(body, "output")
    local = {
        alias.asname or alias.name
        for statement in tree.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {reference.name for reference in references(tree.body)} | local

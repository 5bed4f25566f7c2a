"""Tell from the bytes of files, without parsing one, that star imports bring no such name.

In: a name, and a package that is imported by `from package import *`.  Out: whether any file behind
the package's own star imports may have the name.  The answer is no only where that is certain:

    does `from transformers.models import *`, which imports hundreds of models, bring `init`?
    no: none of their files both spells the name and lists it in its `__all__`

Where the answer is yes, `compiler.plan.bindings` parses what it has to, and says which file it is.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable

from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.regular import read_regular
from patchgen.syntax.text import INVISIBLE, MAX_BYTES, decode

# `from .class import *` is no Python.
_NAME = rb"(?!(?:%s)\b)[A-Za-z_]\w*" % "|".join(keyword.kwlist).encode()
_DOTTED = rb"%s(?:\.%s)*" % (_NAME, _NAME)
_IMPORT = rb"from (?:\.+|\.*%s) import %s(?:, %s)*\n" % (_DOTTED, _NAME, _NAME)
_STAR = rb"    from \.(%s) import \*\n" % _NAME
# What transformers writes into the packages of its models.  Any other text has to be parsed, to
# know its star imports and whether it is Python.
_PACKAGE = re.compile(
    rb"(?:#.*\n|\n|%s)*if TYPE_CHECKING:\n(?P<stars>(?:%s)+)else:\n    import sys\n\n"
    rb'    _file = globals\(\)\["__file__"\]\n    sys\.modules\[__name__\] = _LazyModule\('
    rb"__name__, _file, define_import_structure\(_file\), module_spec=__spec__\)\n"
    % (_IMPORT, _STAR)
)
# One of the first two lines may declare another encoding.
_MAY_DECLARE = re.compile(rb"(?:[^\n]*\n)?[^\n]*coding")
# The invisible characters in UTF-8, and how they go on by their first byte: no character holds one
# of these bytes but as its first.
_INVISIBLE = [character.encode() for character in INVISIBLE]
_HIDING = {
    start: tuple(each[1:] for each in _INVISIBLE if each.startswith(start))
    for start in {each[:1] for each in _INVISIBLE}
}


def may_bring(
    name: str, package: str, find: Callable[[str], str], read: Callable[[str], bytes | None]
) -> bool:
    """Whether `from package import *` may bring `name`.

    `find` gives the path of a module, or "" for none; `read` gives the text of a file in UTF-8, or
    None where the file has to be refused.
    """
    word = name.encode()
    waiting = [package]
    while waiting:
        module = waiting.pop()
        path = find(module)
        if not path:
            continue
        data = read(path)
        if data is None:
            return True
        if os.path.basename(path) != "__init__.py":
            if may_export(data, word):
                return True
            continue
        stars = None if word in data else _list_stars(data)
        if stars is None:
            return True
        waiting += [f"{module}.{star}" for star in stars]
    return False


def may_export(data: bytes, word: bytes) -> bool:
    """Whether `from module import *` may bring a name, as far as the unparsed text tells.

    The text has to spell the name, and in quotes where a statement sets `__all__`.
    """
    if word not in data:
        return False
    # From the end, as it nearly always stands there.
    sets_exports = data.rfind(b"\n__all__") >= 0
    return not sets_exports or _quotes(data, word)


def _quotes(data: bytes, word: bytes) -> bool:
    """Whether `word` stands in quotes anywhere in `data`."""
    start = data.find(word)
    while start >= 0:
        end = start + len(word)
        before, behind = data[start - 1 : start], data[end : end + 1]
        if before == behind and before in (b'"', b"'"):
            return True
        start = data.find(word, start + 1)
    return False


def _list_stars(data: bytes) -> list[str] | None:
    """The modules that a package beside them imports by stars; None where only parsing tells.

    Each lies inside the package, so that no chain of them comes back to where it began.
    """
    found = _PACKAGE.fullmatch(data)
    if found is None:
        return None
    return [star.decode() for star in re.findall(_STAR, found.group("stars"))]


def read_searched(path: str, allow_bidi: bool = False) -> bytes | None:
    """The text of the file at `path` in UTF-8 with `\\n` line ends; None where it is refused."""
    try:
        data = read_regular(path, MAX_BYTES)
        if _is_plain(data):
            if not data.isascii():
                data.decode()
            return data
        return decode(data, path, allow_bidi=allow_bidi).encode()
    except (OSError, UnicodeDecodeError, PatchgenError):
        return None


def _is_plain(data: bytes) -> bool:
    """Whether the text is `data` as it stands, if that is UTF-8: nearly always."""
    if b"\0" in data or b"\r" in data or (not data.isascii() and _may_hide(data)):
        return False
    return _MAY_DECLARE.match(data) is None


def _may_hide(data: bytes) -> bool:
    """Whether UTF-8 may hold one of the invisible characters that `decode` refuses."""
    for start, rests in _HIDING.items():
        # A single byte is found ten times as fast as two.
        if start in data and any(rest.startswith(rests) for rest in data.split(start)[1:]):
            return True
    return False

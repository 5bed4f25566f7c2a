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
from patchgen.syntax.text import MAX_BYTES, decode

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
# The characters that `decode` may refuse as invisible, in UTF-8: by how they begin, and as a whole.
# No character begins within another one.
_HIDING = {
    b"\xd8\x9c": re.compile(rb"\xd8\x9c"),  # U+061C
    b"\xe2\x80": re.compile(rb"\xe2\x80[\x8b-\x8f\xaa-\xae]"),  # U+200B to 200F, 202A to 202E
    b"\xe2\x81": re.compile(rb"\xe2\x81[\xa0-\xa4\xa6-\xa9]"),  # U+2060 to 2064, 2066 to 2069
    b"\xef\xbb\xbf": re.compile(rb"\xef\xbb\xbf"),  # U+FEFF
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
    if b"\n__all__" not in data:
        return True
    return b'"%s"' % word in data or b"'%s'" % word in data


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
        if os.stat(path).st_size > MAX_BYTES:
            return None
        data = read_regular(path)
        if _is_plain(data):
            data.decode()
            return data
        return decode(data, path, allow_bidi=allow_bidi).encode()
    except (OSError, UnicodeDecodeError, PatchgenError):
        return None


def _is_plain(data: bytes) -> bool:
    """Whether the text is `data` as it stands, if that is UTF-8: nearly always."""
    if b"\0" in data or b"\r" in data or (not data.isascii() and _may_hide(data)):
        return False
    # One of the first two lines may declare another encoding.
    return not any(b"coding" in line for line in data.split(b"\n", 2)[:2])


def _may_hide(data: bytes) -> bool:
    """Whether UTF-8 may hold one of the invisible characters that `decode` refuses."""
    # A single byte is found ten times as fast as two.
    return any(
        start[:1] in data and start in data and whole.search(data) is not None
        for start, whole in _HIDING.items()
    )

"""How text that somebody else wrote is shown: it must not act on the terminal or log that shows it.

before:  ^[[2Kmodular_x.py: ok          an ESC that clears the line
after:   \\x1b[2Kmodular_x.py: ok

before:      ::add-mask::secret         GitHub's runner takes both for commands, in any output
before:  see ##[add-path]/tmp
after:       \\x3a:add-mask::secret
after:   see \\x23#[add-path]/tmp
"""

from __future__ import annotations

import re

from patchgen.syntax.errors import Location, PatchgenError

# The runner looks for `::` where a line begins, behind white space, and for `##[` anywhere.  Others
# have a word before the bracket.
_COMMAND = re.compile(r"^(\s*):(?=:\S)|#(?=#\w*\[)", re.MULTILINE)
_JSON_COMMAND = re.compile(r"#(?=#\w*\[)")


def shown(text: str) -> str:
    """`text` of any number of lines for a terminal or a log."""
    text = printable(text)
    # The search for commands takes longer than the one for these.
    return _COMMAND.sub(_shown_command, text) if "::" in text or "##" in text else text


def printable(text: str) -> str:
    """`text` with what no reader sees escaped as in a Python string."""
    return text if text.replace("\n", "").isprintable() else "".join(map(_shown, text))


def shown_line(text: str) -> str:
    """As `shown`, on one line."""
    return shown(text).replace("\n", "\\n")


def printable_line(text: str) -> str:
    """As `printable`, on one line."""
    return printable(text).replace("\n", "\\n")


def refuse_unseen(path: str) -> None:
    """Raise PatchgenError PG506 for a path that a generated file could not name on one line."""
    if not path.isprintable():
        what = "has a line break or another invisible character in its path"
        hint = "rename the file or its folder"
        raise PatchgenError("PG506", Location(printable_line(path)), what, hint)


def shown_json(text: str) -> str:
    """The JSON `text`, which reads as before, with the same letters escaped as in JSON."""
    if not text.replace("\n", "").isprintable():
        text = "".join(letter if _is_shown(letter) else _as_json(letter) for letter in text)
    return _JSON_COMMAND.sub(r"\\u0023", text)


def _is_shown(letter: str) -> bool:
    return letter.isprintable() or letter in "\n\t"


def _shown(letter: str) -> str:
    return letter if _is_shown(letter) else letter.encode("unicode_escape").decode("ascii")


def _shown_command(match: re.Match[str]) -> str:
    return r"\x23" if match[1] is None else rf"{match[1]}\x3a"


def _as_json(letter: str) -> str:
    pairs = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))

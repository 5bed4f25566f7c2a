"""The flags of the scripts that transformers has under these names, in the words of this command line.

`utils/modular_converter.py --files_to_parse A B --num_workers 4` and `utils/check_modular.py --fix_and_overwrite` work
as they did there.  With hyphens too.
"""

from __future__ import annotations

from collections.abc import Sequence

# What stands before paths there says nothing here; "--check_all" means what no path means here.
_DROPPED = frozenset({"--files-to-parse", "--files", "--check-all"})
_RENAMED = {"--num-workers": "--jobs", "--fix-and-overwrite": "--fix"}


def translate(argv: Sequence[str]) -> list[str]:
    """`argv` with old flags replaced; all else, and whatever follows `--`, is kept."""
    result: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word == "--":
            return [*result, word, *rest]
        flag, equals, value = word.partition("=")
        name = flag.replace("_", "-") if flag.startswith("--") else flag
        if name in _DROPPED:
            result += [value] if equals else []
        elif name in _RENAMED:
            result.append(f"{_RENAMED[name]}{equals}{value}")
        else:
            result.append(word)
    return result

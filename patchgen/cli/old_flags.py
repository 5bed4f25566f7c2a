"""The flags of the scripts of the same names in transformers, translated to options of patchgen.

`utils/modular_converter.py --files_to_parse A B --num_workers 4` and
`utils/check_modular.py --fix_and_overwrite` work as they did there, also with hyphens.
"""

from __future__ import annotations

from collections.abc import Sequence

# Paths need no flag here, and "--check_all" is the default.
_DROPPED = frozenset({"--files-to-parse", "--files", "--check-all"})
_RENAMED = {"--num-workers": "--jobs", "--fix-and-overwrite": "--fix"}


def translate(argv: Sequence[str]) -> list[str]:
    """`argv` with old flags replaced; everything else, and all that follows `--`, is kept."""
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

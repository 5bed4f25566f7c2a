"""Every case of tests/golden/upstream: the merged class before formatting, its bases, or what is refused and where.

In a case the model parent is the base whose name begins with `Zpar`; `docs` writes `znew` in capitals where the names
of the two classes differ.
"""

import re
from pathlib import Path

import pytest

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.upstream.merge import ClassText, merge_class
from patchgen.upstream.tokens import rewrite

CASES = sorted(Path(__file__).with_name("upstream").glob("*.py"))


def class_text(text):
    comments = re.match(r"(?:#.*\n)*", text).end()
    name = re.search(r"^class (\w+)", text, re.MULTILINE).group(1)
    return ClassText(name, text[:comments], text[comments:])


def in_capitals(text):
    def token(token):
        return token.replace("znew", "ZNEW")

    return rewrite(text, None, token, token)


def merged(sections):
    child, parent = class_text(sections["child"]), class_text(sections["parent"])
    base = re.search(r"Zpar\w+", child.text).group()
    above = child.leading.count("\n")

    def at(line, column):
        return Location("", line + above, column + 1)

    docs = None if child.name == parent.name else in_capitals
    return merge_class(child, parent, base, docs, at)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    parts = re.split(r"^# --- (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if refused := sections.get("refused"):
        with pytest.raises(PatchgenError) as caught:
            merged(sections)
        problem = caught.value.problem
        assert f"{problem.at.line}:{problem.at.column} {problem.code}\n" == refused
        return
    text, bases = merged(sections)
    assert text == sections["merged"]
    assert " ".join(bases) == sections.get("bases", " ".join(bases)).strip()

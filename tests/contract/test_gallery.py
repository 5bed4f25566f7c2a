"""The gallery is a table of requests: its modular files are what `patchgen new` writes."""

import ast
from pathlib import Path

import pytest

from patchgen.author.declare.request import answer
from patchgen.gallery import SOURCES
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package
from utils.write_gallery import requests, written

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the gallery is made from another release of transformers"
)
FILES = {path.stem.removeprefix("modular_"): path for path in SOURCES.rglob("modular_*.py")}
BY_HAND = sorted(FILES.keys() - requests())


@pytest.mark.parametrize("name", requests())
def test_a_row_is_what_new_writes(name):
    path, text = written(name)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", BY_HAND)
def test_what_is_written_by_hand_says_why(name):
    docstring = ast.get_docstring(ast.parse(FILES[name].read_text(encoding="utf-8")))
    assert "Written by hand: " in docstring


@pytest.mark.parametrize("name", BY_HAND)
def test_no_name_is_also_that_of_what_new_writes(name):
    model = FILES[name].parent.name
    parts = name.removeprefix(f"{model}_").split("_")
    try:
        found = answer(make_environment(Path.cwd()), model, parts)
    except PatchgenError:
        return
    assert f"{model}_{found.ending}" != name

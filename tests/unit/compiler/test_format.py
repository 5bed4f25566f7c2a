"""Texts of several files that are formatted together come out as if each were alone."""

import pytest

from patchgen import children
from patchgen.cli import main
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import Request, Unformatted, format_all, format_texts
from patchgen.formatting.layout import keep_layout
from patchgen.syntax.errors import PatchgenError
from tests.toytree import toy_project

WIDE, NARROW = Settings(), Settings(line_length=40)
UNSORTED = "import toy\nimport torch\nimport os\n"


def request(body, settings=WIDE, own=()):
    return Request({"modeling_a.py": Unformatted(UNSORTED, body)}, settings, own)


def test_a_text_that_is_refused_spoils_no_other():
    first, broken, last = format_all([request("x = 1\n"), request("x = (\n"), request("y = 2\n")])
    assert first["modeling_a.py"].endswith("x = 1\n")
    assert last["modeling_a.py"].endswith("y = 2\n")
    assert isinstance(broken, PatchgenError)
    assert broken.problem.code == "PG912"


def test_variants_of_a_run_share_the_processes_of_ruff(tmp_path, monkeypatch):
    tree = toy_project(tmp_path, variants=3)
    monkeypatch.chdir(tree.top)
    started = []
    real = children.run
    monkeypatch.setattr(children, "run", lambda *a, **k: started.append(a) or real(*a, **k))
    assert main(["convert", "-q"]) == 0
    assert len(started) == 2  # one sorts imports, one formats


BLANK = """def f(
    a,
):

    # why
    if a:

        def g():

            return 1
"""
LONG = " ".join(["word"] * 20)
# What is formatted at a width of 100, in the layout that every release of ruff gives it.
LAYOUTS = [
    (BLANK, BLANK.replace(":\n\n    #", ":\n    #").replace("g():\n\n", "g():\n")),
    (
        f"check(ok, lambda: f'{LONG} {{n}}')\n",
        f'check(\n    ok,\n    lambda: f"{LONG} {{n}}",\n)\n',
    ),
    ("call(lambda x: (x + 1), 2)\n", "call(lambda x: (x + 1), 2)\n"),
    (
        f"call(lambda: {'a' * 50} + {'b' * 50})\n",
        f"call(\n    lambda: {'a' * 50}\n    + {'b' * 50}\n)\n",
    ),
]


@pytest.mark.parametrize(("text", "expected"), LAYOUTS)
def test_the_release_of_ruff_does_not_decide(text, expected):
    assert format_texts({"a.py": text}, Settings(line_length=100)) == {"a.py": expected}


def test_a_layout_of_newer_releases_is_undone_or_refused():
    old = f"call(lambda: {'a' * 50} + {'b' * 50})\n"
    new = f"call(\n    lambda: (\n        {'a' * 50}\n        + {'b' * 50}\n    )\n)\n"
    assert keep_layout(old, new, 100) == LAYOUTS[3][1]
    # Whether the call would be broken without the parentheses depends on its length.
    new = new.replace(f"+ {'b' * 50}", f"+ call(\n            {'b' * 50}\n        )")
    with pytest.raises(PatchgenError, match="PG912"):
        keep_layout(old.replace("b" * 50, f"call({'b' * 50})"), new, 100)

"""Texts of several files that are formatted together come out as if each were alone."""

import subprocess

from patchgen.cli import main
from patchgen.compiler.emit.format import Request, Unformatted, format_all, format_texts
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError
from tests.toytree import toy_project

WIDE, NARROW = Settings(), Settings(line_length=40)
UNSORTED = "import toy\nimport torch\nimport os\n"


def request(body, settings=WIDE, own=()):
    return Request({"modeling_a.py": Unformatted(UNSORTED, body)}, settings, own)


def test_texts_of_one_name_and_other_settings_come_out_as_alone():
    body = "def f(first_argument, second_argument, third): return {'a':1}\n"
    requests = [request(body), request("x = ( 1 )\n"), request(body, NARROW)]
    requests.append(request(body, own=("toy",)))
    together = format_all(requests)
    assert together == [format_texts(each.texts, each.settings, each.own) for each in requests]
    assert len({formatted["modeling_a.py"] for formatted in together}) == 4


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
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: started.append(a) or real(*a, **k))
    assert main(["convert", "-q"]) == 0
    assert len(started) == 2  # one sorts imports, one formats

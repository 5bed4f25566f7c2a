"""`patchgen coverage` refuses switches that would have no effect or have no sensible value."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from patchgen.author.coverage.book import read_book
from patchgen.cli import main
from patchgen.cli.session import Request, open_project
from patchgen.project.write import hold_record_lock


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--again"], "--again needs --numeric"),
        (["--most", "3"], "--most needs --numeric"),
        (["--numeric", "--seconds", "0"], "0.0 is not in the range x>0"),
        (["--numeric", "--megabytes", "-1"], "-1.0 is not in the range x>0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_usage(argv, message, tmp_path, capsys):
    assert main(["coverage", "bert", "--folder", str(tmp_path), *argv]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(find_spec("liger_kernel") is not None, reason="its kernels are installed")
def test_a_part_without_its_kernels_is_written_and_not_run(tmp_path):
    argv = ["coverage", "llama", "--part", "liger", "--numeric", "--folder", str(tmp_path)]
    assert main(argv) == 0
    assert read_book(tmp_path / "coverage.json").entries["llama", "liger"].status == "written"


def test_two_runs_do_not_write_one_record(tmp_path, capsys):
    """Each would save what it knows, without the results of the other."""
    command = ["coverage", "bert", "--part", "flex", "--folder", str(tmp_path)]
    with hold_record_lock(open_project(Request()), tmp_path / "coverage.json"):
        assert main(command) != 0
        assert not list(tmp_path.iterdir())
    message = capsys.readouterr().err
    assert "coverage.json: PG906 another run of patchgen is writing here" in message
    assert main(command) == 0
    assert (tmp_path / "coverage.json").exists()


def test_without_torch_nothing_is_touched(tmp_path, capsys, monkeypatch):
    """A run by structure drops results that have to be found again, which this one cannot do."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["coverage", "bert", "--numeric", "--folder", str(tmp_path)]) == 2
    assert "--numeric runs models and needs torch" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

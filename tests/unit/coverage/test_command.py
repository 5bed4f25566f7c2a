"""`patchgen coverage` refuses switches that would have no effect or have no sensible value."""

from __future__ import annotations

import pytest

from patchgen.cli import main


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

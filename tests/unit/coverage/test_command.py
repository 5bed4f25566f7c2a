"""`patchgen coverage` from outside: switches that would be passed over, or would be told of models."""

from __future__ import annotations

import pytest

from patchgen.cli import main


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--again"], "--again is about what --numeric runs"),
        (["--most", "3"], "--most is about what --numeric runs"),
        (["--numeric", "--seconds", "0"], "0.0 is not in the range x>0"),
        (["--numeric", "--megabytes", "-1"], "-1.0 is not in the range x>0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_usage(argv, said, tmp_path, capsys):
    assert main(["coverage", "bert", "--folder", str(tmp_path), *argv]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

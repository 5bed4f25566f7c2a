"""patchgen.lock: readable, sorted, and changed only by what it records."""

import json
from dataclasses import replace

import pytest

from patchgen.compiler.flat import Summary, UsedSymbol
from patchgen.compiler.settings import Settings
from patchgen.project.lock import (
    Record,
    RecordedOutput,
    describe,
    read_lock,
    read_outputs,
    render_lock,
)
from patchgen.project.outcome import Output
from patchgen.syntax.errors import PatchgenError

RECORD = Record(
    output="g/modeling_x.py",
    modular="m/modular_x.py",
    modular_digest="1",
    digest="2",
    diff_digest="",
    made_by="patchgen 0.1.0, ruff 0.14.10",
    settings=describe(Settings()),
    parents=(
        UsedSymbol("t.A", "a", "t.py"),
        UsedSymbol("t.B", "b", "t.py"),
        UsedSymbol("u.C", "c", "u.py"),
    ),
    reads=(("t", "d"), ("u", "e")),
    own_digest="f",
)


def test_round_trip(tmp_path):
    other = replace(RECORD, output="g/modeling_a.py")
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD, other]))
    assert read_lock(path) == {"g/modeling_x.py": RECORD, "g/modeling_a.py": other}
    assert list(json.loads(path.read_text())["outputs"]) == ["g/modeling_a.py", "g/modeling_x.py"]


def test_noop_no_file(tmp_path):
    assert read_lock(tmp_path / "patchgen.lock") == {}


@pytest.mark.parametrize(
    "text, line",
    [
        ("<<<<<<< HEAD\n{}", 1),
        ('{"format": 1,\n=======\n}', 2),
        ("", 1),
        ("[]", 0),
        ('{"format": 1}', 0),
        ('{"format": 9, "outputs": {}}', 0),
        ('{"format": true, "outputs": {}}', 0),
        ('{"format": 1, "outputs": []}', 0),
        pytest.param("[" * 100_000, 0, id="deep list"),
        pytest.param('{"a":' * 100_000, 0, id="deep table"),
        pytest.param(
            '{"format": 1, "outputs": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
            0,
            id="deep entry",
        ),
        pytest.param('{"format": ' + "9" * 5000 + "}", 0, id="long number"),
    ],
)
def test_what_is_no_lock_is_refused(text, line, tmp_path):
    path = tmp_path / "patchgen.lock"
    path.write_text(text)
    for read in (read_lock, read_outputs):
        with pytest.raises(PatchgenError) as caught:
            read(path)
        problem = caught.value.problem
        assert (problem.code, problem.at.path, problem.at.line) == ("PG507", "patchgen.lock", line)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        [],
        5,
        None,
        {"parents": []},
        {"parents": {"a": 1}},
    ],
)
def test_what_is_no_record_is_flawed_and_not_refused(entry, tmp_path):
    path = tmp_path / "patchgen.lock"
    path.write_text(json.dumps({"about": "", "format": 1, "outputs": {"a": entry}}))
    assert read_lock(path)["a"].flaw == "its record was edited by hand"


def output(digest: str, diff_digest: str) -> Output:
    return Output("modeling", "modeling_x.py", digest, diff_digest, 1, (), Summary())


def test_settings_in_words():
    settings = Settings(("toy", "more"), "black", 88, decorators=(("use_kernel", "forward"),))
    assert (
        describe(settings)
        == "black at line length 88; flattens toy, more; use_kernel goes with forward"
    )


def test_outputs_alone(tmp_path):
    path = tmp_path / "patchgen.lock"
    assert read_outputs(path) == ()
    path.write_text(
        render_lock([RECORD, replace(RECORD, output="g/modeling_a.py", modular="m/a.py")])
    )
    assert read_outputs(path) == (
        RecordedOutput("g/modeling_a.py", "m/a.py", RECORD.made_by),
        RecordedOutput("g/modeling_x.py", "m/modular_x.py", RECORD.made_by),
    )

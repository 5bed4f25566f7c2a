"""patchgen.lock: readable, sorted, and changed only by what it records."""

import json
import subprocess
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
    keys = ["about", "g/modeling_a.py", "g/modeling_x.py", "format"]
    assert list(json.loads(path.read_text())) == keys
    assert path.read_text().count("\n") == len(keys) + 2


def numbered(numbers):
    """Records of outputs whose names sort behind that of RECORD."""
    return [replace(RECORD, output=f"g/modeling_y{number}.py") for number in numbers]


def test_git_merges_branches_that_add_variants(tmp_path):
    """Both add 20, all in one place, and one of them changes a record elsewhere."""

    def git(*words):
        options = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *options, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(records):
        (tmp_path / "patchgen.lock").write_text(render_lock(records))
        git("add", "--all")
        git("commit", "-qm", "x")

    last = replace(RECORD, output="g/modeling_y1.py")
    changed = replace(RECORD, digest="3")
    ours, theirs = numbered(range(10, 30)), numbered(range(30, 50))
    git("init", "-q", "-b", "main")
    (tmp_path / ".gitattributes").write_text("patchgen.lock merge=union\n")
    commit([RECORD, last])
    git("checkout", "-qb", "theirs")
    commit([RECORD, last, *theirs])
    git("checkout", "-q", "main")
    commit([changed, last, *ours])
    git("merge", "-q", "theirs", "-m", "both")
    expected = {record.output: record for record in (changed, last, *ours, *theirs)}
    assert read_lock(tmp_path / "patchgen.lock") == expected


def test_two_lines_of_one_output_are_a_flaw_of_the_whole(tmp_path):
    """What a merge leaves where both branches changed one record."""
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD]))
    first, record, *rest = path.read_text().splitlines()[1:]
    path.write_text("\n".join(["{", first, record, record, *rest]))
    (read,) = read_lock(path).values()
    assert read.flaw == "patchgen.lock has the key 'g/modeling_x.py' twice"


def test_the_former_form_is_read(tmp_path):
    """Of format 1: the outputs are a table in the table, with a line for each value."""
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD]))
    lock = json.loads(path.read_text())
    about, entry = lock["about"], lock[RECORD.output]
    former = {"about": about, "format": 1, "outputs": {RECORD.output: entry}}
    path.write_text(json.dumps(former, indent=1))
    assert read_lock(path) == {RECORD.output: RECORD}
    path.write_text(json.dumps({**former, "mine": 1}, indent=1))
    (read,) = read_lock(path).values()
    assert read.flaw == "patchgen.lock has the key 'mine', which patchgen does not write"


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
        ('{"format": 3}', 0),
        ('{"format": 2.0}', 0),
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
    for lock in ({"format": 1, "outputs": {"a.py": entry}}, {"a.py": entry, "format": 2}):
        path.write_text(json.dumps({"about": "", **lock}))
        assert read_lock(path)["a.py"].flaw == "its record was edited by hand"


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

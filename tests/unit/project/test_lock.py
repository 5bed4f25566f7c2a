"""patchgen.lock: readable, sorted, and changed only by what it records."""

import json
import subprocess
from dataclasses import replace

import pytest

from patchgen.compiler.flat import Summary, UsedSymbol
from patchgen.compiler.settings import Settings
from patchgen.project.lock import (
    DIGEST,
    Record,
    describe,
    marks_of,
    read_lock,
    render_lock,
    shorten,
)
from patchgen.project.outcome import Output, digest_of
from patchgen.syntax.errors import PatchgenError

LLAMA = "transformers.models.llama.modeling_llama"
USED = (
    UsedSymbol("t.A", "a", "t.py"),
    UsedSymbol("t.B", "b", "t.py"),
    UsedSymbol("t.<import 1>", "i", "t.py"),
    UsedSymbol(f"{LLAMA}.LlamaMLP", "c", "llama.py"),
)
RECORD = Record(
    output="g/modeling_x.py",
    modular="m/modular_x.py",
    modular_digest="1",
    digest="2",
    diff_digest="",
    made_by="patchgen 0.1.0, ruff 0.14.10",
    settings=describe(Settings()),
    parents=marks_of(USED),
    reads={"t": "d", "torch.nn": "g", LLAMA: "e"},
    own_digest="f",
)


def test_round_trip(tmp_path):
    other = replace(RECORD, output="g/modeling_a.py")
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD, other]))
    assert read_lock(path) == {"g/modeling_x.py": RECORD, "g/modeling_a.py": other}
    keys = list(json.loads(path.read_text()))
    kinds = [key.partition(":")[0] for key in keys]
    outputs = ["g/modeling_a.py", "g/modeling_x.py"]
    assert kinds == ["about", "file", *outputs, "reads", "reads", "tools", "format"]
    assert path.read_text().count("\n") == len(keys) + 2


def test_what_an_output_was_made_from():
    assert [*RECORD.parents] == ["t", LLAMA]
    assert all(RECORD.has(used) for used in USED if used.symbol != "t.<import 1>")
    assert not RECORD.has(UsedSymbol("t.A", "another text", "t.py"))
    assert not RECORD.has(UsedSymbol("t.C", "a", "t.py"))
    assert not RECORD.has(UsedSymbol("u.A", "a", "u.py"))


def test_a_thousand_outputs_take_little(tmp_path):
    """Three variants of each model, with twenty definitions and thirty files each."""
    records = []
    for number in range(1000):
        model = f"transformers.models.model{number // 3}"
        sha = digest_of(str(number))
        files = [f"transformers.utils.module_{part}" for part in range(25)]
        files += [model, f"{model}.configuration_model", f"{model}.modeling_model"]
        used = [UsedSymbol(f"{model}.modeling_model.Class{part}", sha, "") for part in range(20)]
        record = Record(
            output=f"generated/model{number // 3}/modeling_model_v{number}.py",
            modular=f"modular/model{number // 3}/modular_model_v{number}.py",
            modular_digest=shorten(sha),
            digest=shorten(sha[::-1]),
            diff_digest=shorten(sha[1:]),
            made_by="libcst 1.9.0, patchgen 0.2.0, ruff 0.14.10, transformers 5.23.0",
            settings=describe(Settings()),
            parents=marks_of(used),
            reads={file: shorten(digest_of(file)) for file in files},
            own_digest="f" * DIGEST,
        )
        records.append(record)
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock(records))
    assert path.stat().st_size < 500_000
    assert [*read_lock(path).values()] == sorted(records, key=lambda record: record.output)


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
    # What both add stands there once when the file is written again.
    text = (tmp_path / "patchgen.lock").read_text()
    assert sorted(set(text.splitlines())) == sorted(render_lock(expected.values()).splitlines())


OTHER_FILES = {"t": "d", "torch.nn": "h", LLAMA: "another digest"}


def test_a_merge_of_branches_with_two_releases(tmp_path):
    """Each has another text of a parent, and of a file that all outputs read."""
    path = tmp_path / "patchgen.lock"
    other = replace(
        RECORD,
        output="g/modeling_y.py",
        made_by="patchgen 0.1.0, transformers 5.24.0",
        reads=OTHER_FILES,
    )
    ours, theirs = render_lock([RECORD]).splitlines(), render_lock([other]).splitlines()
    both = dict.fromkeys([*ours[:-2], *theirs])
    path.write_text("\n".join(both))
    assert read_lock(path) == {RECORD.output: RECORD, other.output: other}


def test_a_line_that_a_merge_took_away_is_no_flaw(tmp_path):
    """One branch removes the last output that needs it; the other adds one that needs it too."""
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD]))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if '"reads:' not in line[:7]))
    (read,) = read_lock(path).values()
    assert (read.flaw, read.digest, read.made_by) == ("", RECORD.digest, RECORD.made_by)
    assert read.reads == {"torch.nn": "g"}
    path.write_text(render_lock([read]))
    assert read_lock(path) == {read.output: read}


def test_two_lines_of_one_output_are_a_flaw_of_the_whole(tmp_path):
    """What a merge leaves where both branches changed one record."""
    path = tmp_path / "patchgen.lock"
    path.write_text(render_lock([RECORD]))
    first, _, record, *rest = path.read_text().splitlines()[1:]
    changed = render_lock([replace(RECORD, digest="3")]).splitlines()[3]
    path.write_text("\n".join(["{", first, record, changed, *rest]))
    (read,) = read_lock(path).values()
    assert read.flaw == "patchgen.lock has the key 'g/modeling_x.py' twice"


def former_entry():
    """The entry of RECORD as format 1 and 2 had it."""
    parents = {}
    for used in USED:
        parents.setdefault(used.path, {})[used.symbol] = used.digest
    entry = {
        "modular": RECORD.modular,
        "modular_sha256": RECORD.modular_digest,
        "output_sha256": RECORD.digest,
        "diff_sha256": RECORD.diff_digest,
        "made_by": RECORD.made_by,
        "settings": RECORD.settings,
        "patchgen_sha256": RECORD.own_digest,
        "parents": parents,
        "reads": dict(RECORD.reads),
    }
    text = json.dumps([RECORD.output, entry], sort_keys=True, separators=(",", ":"))
    return {**entry, "record_sha256": digest_of(text)}


@pytest.mark.parametrize("number", [1, 2])
def test_the_former_forms_are_read(number, tmp_path):
    path = tmp_path / "patchgen.lock"
    about = json.loads(render_lock([]))["about"]

    def read(**changed):
        outputs = {RECORD.output: {**former_entry(), **changed.pop("entry", {})}}
        table = {"outputs": outputs} if number == 1 else outputs
        former = {"about": about, "format": number, **table, **changed}
        path.write_text(json.dumps(former, indent=1))
        (record,) = read_lock(path).values()
        return record

    assert read() == RECORD
    assert read(entry={"modular": "m/modular_y.py"}).flaw == "its record was edited by hand"
    assert read(mine=1).flaw == "patchgen.lock has the key 'mine', which patchgen does not write"


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
        ('{"format": 4}', 0),
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
    with pytest.raises(PatchgenError) as caught:
        read_lock(path)
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
        ["", "", "", "", {}, ""],
        ["", 5, "", "", {}, ""],
        ["", "1 2 3", [], "", {}, ""],
        ["", "1 2 3", "", 7, {}, ""],
        ["", "1 2 3", "", "", [], ""],
    ],
)
def test_what_is_no_record_is_flawed_and_not_refused(entry, tmp_path):
    path = tmp_path / "patchgen.lock"
    locks = [{"a.py": entry, "format": number} for number in (2, 3)]
    for lock in ({"format": 1, "outputs": {"a.py": entry}}, *locks):
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

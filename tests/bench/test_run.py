"""Runs with children that die or are late; records that are resumed or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.record import Unreadable, read_record, resume_record, start_record
from patchgen.training.bench.result import Result
from patchgen.training.bench.run import Wanted, run
from tests.toytree import REPOSITORY

MADE = {"device": "cpu", "tiny": True, "versions": {"torch": "2"}}

# Answers as a child does: every entry that is not skipped is "ok", unless the plan says otherwise.
CHILD = """
import json, os, sys, time
work = json.loads(sys.stdin.read())
plan, names = json.loads(os.environ["PLAN"]), json.loads(os.environ["NAMES"])
def say(**told):
    print(json.dumps(told), flush=True)
with open(os.environ["STARTED"], "a") as log:
    log.write(" ".join(work["cases"]) + "\\n")
say(machine={"device": "cpu"}, versions={})
for case in work["cases"]:
    say(begun=case, entry="", limit=60)
    say(case=case, about={"tokens": 1})
    for name in names:
        if [case, name] in work["skip"]:
            continue
        say(begun=case, entry=name, limit=60 if plan.get(case + " " + name) == "wait" else 0.5)
        match plan.get(case + " " + name):
            case "die":
                print("Fatal: bus error", file=sys.stderr, flush=True)
                os._exit(134)
            case "hang" | "wait":
                time.sleep(60)
            case "cut":
                sys.stdout.write('{"case": "A1", "contes')
                sys.stdout.flush()
                os._exit(137)
            case "babble":
                print("loading...", flush=True)
                time.sleep(60)
            case "late":
                say(case=case, entry=name, result={"status": "no time"})
                continue
        say(case=case, entry=name, result={"status": "ok"})
    say(case=case, done=True)
say(done=True)
"""


def case(name: str, group: str = "g") -> Case:
    some = tuple(Entry(each) for each in ("sdpa", "fast", "small"))
    return Case(name, group, "", "llama", "LlamaForCausalLM", (), Shape(1, 1), "causal", some)


@pytest.fixture
def run_bench(tmp_path, monkeypatch):
    """Run cases in children that follow `plan`; return the record and each child's cases."""
    script, started = tmp_path / "child.py", tmp_path / "started"
    script.write_text(CHILD, encoding="utf-8")
    monkeypatch.setenv("NAMES", json.dumps(["sdpa", "fast", "small"]))
    monkeypatch.setenv("STARTED", str(started))

    def run_bench(cases, plan=None, *, tiny=False, seconds=60.0, jobs=1, again=False):
        monkeypatch.setenv("PLAN", json.dumps(plan or {}))
        started.write_text("", encoding="utf-8")
        record = resume_record(tmp_path / "matrix.json", MADE)
        notes: list[str] = []
        command = (sys.executable, str(script))
        wanted = Wanted("matrix", "cpu", tiny, seconds, command=command, jobs=jobs, again=again)
        run(
            cases,
            wanted,
            record,
            lambda case, name, result: notes.append(f"{case} {name} {result.status}"),
        )
        assert read_record(record.path).cases == json.loads(json.dumps(record.cases)), (
            "all that is known is written"
        )
        return record, started.read_text(encoding="utf-8").split("\n")[:-1], notes

    return run_bench


def statuses(record, name: str) -> dict[str, str]:
    return {entry: result.status for entry, result in record.results(name).items()}


def test_each_group_has_a_process_and_tiny_ones_share_one(run_bench):
    cases = [case("A1", "a"), case("A2", "a"), case("B1", "b")]
    record, started, notes = run_bench(cases)
    assert started == ["A1 A2", "B1"] and len(notes) == 9
    assert all(record.done(name) for name in ("A1", "A2", "B1"))


def test_tiny_cases_share_processes(run_bench):
    cases = [case(name, name) for name in ("A1", "B1", "C1")]
    _, started, _ = run_bench(cases, tiny=True)
    assert started == ["A1 B1 C1"]


def test_two_processes_tell_one_record(run_bench):
    cases = [case(name, name) for name in ("A1", "B1", "C1", "D1")]
    record, started, notes = run_bench(cases, {"B1 fast": "die"}, tiny=True, jobs=2)
    assert sorted(started) == ["A1 C1", "B1 D1", "B1 D1"] and len(notes) == 13
    assert all(record.done(one.id, ["sdpa", "fast", "small"]) for one in cases)
    assert statuses(record, "B1") == {"sdpa": "ok", "fast": "failed", "small": "ok"}


def test_what_is_done_is_not_run_again(run_bench):
    run_bench([case("A1"), case("A2")])
    _, started, notes = run_bench([case("A1"), case("A2"), case("A3")])
    assert started == ["A3"] and len(notes) == 3


def test_a_entry_that_kills_its_process_takes_no_other_with_it(run_bench):
    record, started, _ = run_bench([case("A1"), case("A2")], {"A1 fast": "die"})
    assert statuses(record, "A1") == {"sdpa": "ok", "fast": "failed", "small": "ok"}
    assert record.results("A1")["fast"].note == "the process ended with code 134: Fatal: bus error"
    assert statuses(record, "A2") == dict.fromkeys(("sdpa", "fast", "small"), "ok")
    assert started == ["A1 A2", "A1 A2"]


@pytest.mark.parametrize(
    ("how", "note"),
    [
        ("cut", "the process ended with code 137"),
        ("babble", "the process said what is no answer: loading..."),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_fault_of_the_entry(run_bench, how, note):
    record, _, _ = run_bench([case("A1")], {"A1 fast": how})
    assert statuses(record, "A1") == {"sdpa": "ok", "fast": "failed", "small": "ok"}
    assert record.results("A1")["fast"].note == note


def test_a_entry_that_takes_too_long_is_ended(run_bench):
    record, _, _ = run_bench([case("A1")], {"A1 sdpa": "hang"})
    assert statuses(record, "A1") == {"sdpa": "failed", "fast": "ok", "small": "ok"}
    assert record.results("A1")["sdpa"].note == "it took too long"


@pytest.fixture
def interruptible():
    """Whoever started the tests in the background may have had interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_child_and_blames_nobody(run_bench, tmp_path):
    record, _, _ = run_bench([])
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run_bench([case("A1"), case("A2")], {"A1 fast": "wait"})
    assert statuses(read_record(record.path), "A1") == {"sdpa": "ok"}
    assert (tmp_path / "started").read_text(encoding="utf-8") == "A1 A2\n"
    _, started, _ = run_bench([case("A1"), case("A2")])
    assert started == ["A1 A2"]


def test_a_run_that_is_killed_has_lost_nothing(run_bench, tmp_path):
    record, _, _ = run_bench([])
    killed = f"""
import os, sys, threading
from pathlib import Path
from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.record import resume_record
from patchgen.training.bench.run import Wanted, run
some = tuple(Entry(each) for each in ("sdpa", "fast", "small"))
case = Case("A1", "g", "", "llama", "LlamaForCausalLM", (), Shape(1, 1), "causal", some)
wanted = Wanted("matrix", "cpu", False, 60.0, command=(sys.executable, {str(tmp_path / "child.py")!r}))
kill = lambda case, name, result: name == "fast" and os.kill(os.getpid(), 9)
run([case], wanted, resume_record(Path({str(record.path)!r}), {MADE!r}), kill)
"""
    done = subprocess.run(
        [sys.executable, "-c", killed], cwd=REPOSITORY, env=os.environ, check=False
    )
    assert done.returncode == -9
    assert statuses(read_record(record.path), "A1") == {"sdpa": "ok", "fast": "ok"}
    again, _, _ = run_bench([case("A1")])
    assert again.done("A1", ["sdpa", "fast", "small"])


def test_when_time_is_up_the_rest_has_no_time(run_bench):
    record, started, _ = run_bench([case("A1")], seconds=0.0)
    assert statuses(record, "A1") == dict.fromkeys(("sdpa", "fast", "small"), "no time")
    assert started == [] and not record.done("A1")


def test_a_child_that_cannot_even_start_is_reported_once(run_bench, monkeypatch):
    monkeypatch.setenv("NAMES", "not JSON")
    record, started, _ = run_bench([case("A1", "a"), case("B1", "b")])
    assert {result.status for name in ("A1", "B1") for result in record.results(name).values()} == {
        "failed"
    }
    assert len(started) == 0 and "JSONDecodeError" in record.results("A1")["sdpa"].note


def test_more_entrys_run_the_case_again(run_bench):
    few = case("A1")
    run_bench([few])
    more = replace(few, entries=(*few.entries, Entry("new")))
    record, started, _ = run_bench([more, case("A2")])
    assert started == ["A1 A2"] and not record.done("A1", ["new"]), "the stand-in knows three names"


def test_begun_anew_in_place_of_what_cannot_be_taken_up(run_bench):
    record, _, _ = run_bench([case("A1"), case("A2")])
    assert list(start_record(record.path, MADE).cases) == ["A1", "A2"]
    assert start_record(record.path, {**MADE, "device": "H200"}).cases == {}
    record.path.write_text("{", encoding="utf-8")
    assert start_record(record.path, MADE).cases == {}


@pytest.mark.usefixtures("interruptible")
def test_again_keeps_what_it_has_not_come_to(run_bench):
    """A second run that is stopped in its first case loses nothing of the others."""
    record, _, _ = run_bench([case("A1"), case("A2")])
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run_bench([case("A1"), case("A2")], {"A1 fast": "wait"}, again=True)
    kept = read_record(record.path)
    assert kept.done("A2", ["sdpa", "fast", "small"]) and not kept.done("A1")
    assert list(statuses(kept, "A1")) == ["sdpa", "fast", "small"]
    record, started, _ = run_bench([case("A1"), case("A2")])
    assert started == ["A1"] and record.done("A1")


def test_again_runs_all_once_more_and_ends(run_bench):
    run_bench([case("A1"), case("A2")])
    record, started, notes = run_bench([case("A1"), case("A2")], again=True)
    assert started == ["A1 A2"] and len(notes) == 6 and record.done("A1") and record.done("A2")


def test_again_without_time_leaves_what_is_known_as_it_is(run_bench):
    run_bench([case("A1")])
    record, started, notes = run_bench([case("A1")], seconds=0.0, again=True)
    assert started == [] and notes == ["A1 sdpa no time", "A1 fast no time", "A1 small no time"]
    assert record.done("A1") and set(statuses(record, "A1").values()) == {"ok"}


def test_having_no_time_takes_no_result_away(run_bench):
    """A process after one that died has less time, but keeps what was measured before."""
    _, _, _ = run_bench([case("A1")], {"A1 small": "hang", "A1 fast": "late"})
    record, _, _ = run_bench([case("A1")], again=True)
    assert set(statuses(record, "A1").values()) == {"ok"}
    record, _, notes = run_bench([case("A1")], {"A1 sdpa": "late", "A1 fast": "late"}, again=True)
    assert statuses(record, "A1") == {"sdpa": "partial", "fast": "partial", "small": "ok"}
    assert notes == ["A1 sdpa no time", "A1 fast no time", "A1 small ok"]


def test_a_child_that_cannot_start_again_is_reported_beside_what_is_known(run_bench, monkeypatch):
    run_bench([case("A1")])
    monkeypatch.setenv("NAMES", "not JSON")
    record, _, _ = run_bench([case("A1")], again=True)
    assert "JSONDecodeError" in record.fault("A1") and not record.done("A1")
    assert set(statuses(record, "A1").values()) == {"ok"}
    monkeypatch.setenv("NAMES", json.dumps(["sdpa", "fast", "small"]))
    record, _, _ = run_bench([case("A1")])
    assert record.done("A1") and record.fault("A1") == ""


def test_other_circumstances_are_refused(tmp_path):
    record = resume_record(tmp_path / "matrix.json", MADE)
    record.write()
    with pytest.raises(Unreadable, match="was made with device 'cpu'; this is 'H200'"):
        resume_record(record.path, {**MADE, "device": "H200"})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 99, "made": {}}'])
def test_what_is_no_record_is_refused_and_kept(tmp_path, text):
    path = tmp_path / "matrix.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable, match="another format|is not a file that patchgen bench wrote"):
        resume_record(path, MADE)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere"
)
def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    record = resume_record(tmp_path / "shut" / "matrix.json", MADE)
    with pytest.raises(PermissionError):
        record.write()


def test_a_full_disk_leaves_the_last_record(tmp_path, monkeypatch):
    record = resume_record(tmp_path / "matrix.json", MADE)
    record.add("A1", "sdpa", Result("ok"))
    record.write()
    monkeypatch.setattr(
        os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    record.add("A1", "fast", Result("ok"))
    with pytest.raises(OSError, match="No space left"):
        record.write()
    monkeypatch.undo()
    assert list(read_record(record.path).results("A1")) == ["sdpa"]
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.json"]

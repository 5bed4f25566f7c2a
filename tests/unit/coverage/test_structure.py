"""What the structural pass says of real models; of a tenth of them it says what the record does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.coverage.book import Book, Entry, read_book
from patchgen.author.coverage.lacking import CHECKPOINTING, SDPA, Flags
from patchgen.author.coverage.page import Target
from patchgen.author.coverage.structure import Structural, Task, declared, digest_checks, settled
from patchgen.author.coverage.survey import in_order, modules_of, survey, tasks
from patchgen.author.coverage.targets import targets
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def entries(tmp_path, env, models, parts, book=None):
    todo = tasks(modules_of(env, models), parts)
    return survey(tmp_path, todo, book or Book(), jobs=1).book


CASES = {
    ("mpnet", "sdpa"): ("written", ""),
    ("llama", "sdpa"): ("redundant", "AttentionInterface.register"),
    ("mobilenet_v1", "sdpa"): ("not applicable", "no attention is computed in this file"),
    ("mobilenet_v1", "loss"): ("not applicable", "no head over words"),
    ("yoso", "sdpa"): ("refused", "no attention is computed in this file"),
    ("longformer", "sdpa"): ("refused", "modeling_longformer.py:"),
    ("gpt2", "loss"): ("written", ""),
    ("mixtral", "grouped"): ("redundant", "experts_implementation='grouped_mm'"),
    ("doge", "grouped"): ("redundant", "DogeCDMoE reads the rows of the experts that it chose"),
    ("llama", "grouped"): ("not applicable", "no experts"),
    ("step3p7", "grouped"): ("written", ""),
    # The gallery has no file for these.
    ("vitpose_backbone", "grouped"): (
        "refused",
        "VitPoseNaiveMoe: the loop does not go through the experts",
    ),
    ("inkling", "grouped"): ("refused", "InklingSharedExperts: every expert runs on every token"),
}


@pytest.mark.parametrize(("case", "expected"), CASES.items(), ids=map("-".join, CASES))
def test_each_status_has_its_reason(tmp_path, env, case, expected):
    model, part = case
    entry = entries(tmp_path, env, [model], [part]).entry(model, part)
    assert (entry.status, expected[1] in entry.why) == (expected[0], True), entry
    assert bool(entry.key) == (entry.status == "written")
    assert "PG803" in entry.why or entry.status != "refused"


def test_grouped_experts_that_are_refused_are_those_of_the_project(env):
    found = declared(env, Task("llama4", "transformers.models.llama4.modeling_llama4", "grouped"))
    assert (found.entry.status, found.declared) == (
        "written",
        ("Llama4TextExperts", "Llama4TextMoe"),
    )
    assert found.text == Path("modular/llama4/modular_llama4_grouped.py").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_a_result_is_believed_while_its_key_is_the_same(tmp_path, env):
    fresh = entries(tmp_path, env, ["mpnet"], ["checkpoint"]).entry("mpnet", "checkpoint")
    for key, status in ((fresh.key, "verified"), ("another", "written")):
        known = Book({("mpnet", "checkpoint"): Entry("verified", key=key)})
        assert (
            entries(tmp_path, env, ["mpnet"], ["checkpoint"], known)
            .entry("mpnet", "checkpoint")
            .status
            == status
        )


@pytest.mark.slow
def test_the_key_is_of_the_code_that_is_tried_and_of_no_comment(env):
    name = "transformers.models.mpnet.modeling_mpnet"
    found = [declared(env, Task("mpnet", name, part)) for part in ("sdpa", "checkpoint", "loss")]
    keys = [settled(env, one).key for one in found]
    assert len(set(keys)) == 3
    with_reason = replace(
        found[0], text=found[0].text.replace('"""', '"""Said otherwise: ', 1) + "# nothing\n"
    )
    assert settled(env, with_reason).key == keys[0]
    renamed = replace(found[0], text=found[0].text.replace("\nclass ", "\nFLAG = 1\n\n\nclass ", 1))
    assert settled(env, renamed).key != keys[0]


def test_the_key_is_of_the_checks_too(tmp_path):
    def of(name, text):
        package = tmp_path / name
        for file in ("verify/parts/loss.py", "author/coverage/trial.py"):
            (package / file).parent.mkdir(parents=True)
            (package / file).write_text(text, encoding="utf-8")
        return digest_checks(package, "loss")

    before = of("before", "BOUND = 1e-6\n")
    assert of("commented", "# In float32.\nBOUND = 1e-6\n") == before
    assert of("changed", "BOUND = 1e-5\n") != before


def test_the_check_of_another_part_does_not_count(tmp_path):
    checks = tmp_path / "verify/parts"
    checks.mkdir(parents=True)
    (tmp_path / "author/coverage").mkdir(parents=True)
    (tmp_path / "author/coverage/trial.py").write_text("CASES = 3\n", encoding="utf-8")
    for name in ("loss", "norm", "planting"):
        (checks / f"{name}.py").write_text("BOUND = 1e-6\n", encoding="utf-8")
    norm = digest_checks(tmp_path, "norm")
    (checks / "loss.py").write_text("BOUND = 1e-5\n", encoding="utf-8")
    digest_checks.cache_clear()
    assert digest_checks(tmp_path, "norm") == norm
    (checks / "planting.py").write_text("BOUND = 1e-5\n", encoding="utf-8")
    digest_checks.cache_clear()
    assert digest_checks(tmp_path, "norm") != norm


def test_what_counts_for_a_target_runs_first():
    def one(model, part, text=True):
        return Structural(
            Task(model, f"x.modeling_{model}", part), Entry("written"), reads_text=text
        )

    aims = [Target("sdpa", "", 1, frozenset({"pvt", "mpnet"}))]
    order = in_order(
        [one("bert", "loss"), one("pvt", "sdpa", False), one("bert", "sdpa"), one("mpnet", "sdpa")],
        aims,
    )
    assert [(o.task.model, o.task.part) for o in order] == [
        ("mpnet", "sdpa"),
        ("pvt", "sdpa"),
        ("bert", "sdpa"),
        ("bert", "loss"),
    ]


def test_flags_are_inherited_from_other_files(env):
    flags = Flags(env)
    models = {
        name: flags.open(f"transformers.models.{name}.modeling_{name}")
        for name in ("mpnet", "bert", "llama")
    }
    assert [flags.supports(models[name], SDPA) for name in models] == [False, True, True]
    assert [flags.supports(models[name], CHECKPOINTING) for name in models] == [False, True, True]


@pytest.mark.slow
def test_the_files_that_lack_what_parts_bring_are_those_that_were_counted(env):
    found = {target.part: target for target in targets(env, modules_of(env, ()))}
    assert {part: len(found[part].models) for part in ("sdpa", "checkpoint")} == {
        "sdpa": 102,
        "checkpoint": 65,
    }


# A tenth of the models, from the whole alphabet.
SAMPLE = 10
# What the record says of a part that converts: the numeric pass comes after that.
CONVERTED = {"written", "verified", "failed", "cannot be built here"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_part_that_the_record_has_is_lost(tmp_path, env):
    known = read_book(Path("docs/coverage.json"))
    modules = modules_of(env, ())[::SAMPLE]
    found = survey(tmp_path, tasks(modules, ()), Book(), jobs=2).book
    assert len(found.entries) == len(modules) * len(known.parts)
    lost = {
        key: (entry.status, entry.why)
        for key, entry in found.entries.items()
        if known.entries[key].status in CONVERTED and entry.status not in ("written", "redundant")
    }
    assert lost == {}
    refused = [e.why for e in found.entries.values() if e.why.startswith("by the converter")]
    assert refused == []

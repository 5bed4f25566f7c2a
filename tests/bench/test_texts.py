"""Shapes and batches: what is drawn, and that layouts hold the same texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.syntax.errors import PatchgenError
from patchgen.training.bench.case import Shape
from patchgen.training.bench.matrix import B1, B2, CASES, L1, L2
from patchgen.training.bench.run import GRACE
from patchgen.training.bench.sets import SETS, wanted_cases
from patchgen.training.bench.texts import NO_LABEL, make_batch
from patchgen.training.bench.tiny import tiny_case

WORDS = 100


def test_full_rows():
    assert Shape(3, 8).texts() == (8, 8, 8)


def test_padded_rows_lie_between_shortest_and_length():
    texts = Shape(200, 50, shortest=10).texts()
    assert (min(texts), max(texts), len(texts)) == (10, 50, 200)
    assert sum(texts) / 200 == pytest.approx(30, abs=0.2), "uniform"
    assert Shape(200, 50, shortest=10).texts(7) == texts[:7]
    assert sorted(Shape(4, 40, shortest=1).texts()) != [1, 11, 21, 31], "drawn"


def test_packed_rows_are_full():
    texts = Shape(5, 64, packed=(6, 20)).texts()
    ends = torch.tensor(texts).cumsum(0).tolist()
    assert ends[-1] == 5 * 64 and set(range(64, 321, 64)) <= set(ends)
    assert min(texts) >= 1 and max(texts) <= 20


def test_fewer_rows_have_the_first_texts():
    shape = Shape(5, 64, packed=(6, 20))
    assert shape.texts(2) == shape.texts()[: len(shape.texts(2))] and sum(shape.texts(2)) == 128


def test_layouts_hold_the_same_words_and_labels():
    case = tiny_case(L2)
    padded, packed = make_batch(case, WORDS, "padded"), make_batch(case, WORDS, "packed")
    real = padded.inputs["attention_mask"].bool()
    for name in ("input_ids", "labels"):
        assert torch.equal(padded.inputs[name][real], packed.inputs[name].flatten())
    flat = make_batch(case, WORDS, "flat")
    assert flat.inputs["input_ids"].shape == (1, 64)
    assert all(
        torch.equal(flat.inputs[name].flatten(), packed.inputs[name].flatten())
        for name in flat.inputs
    )
    assert (
        (padded.tokens, padded.labelled)
        == (packed.tokens, packed.labelled)
        == (64, 64 - len(packed.texts))
    )
    assert padded.places > packed.places == 64


def test_no_text_is_predicted_from_another():
    packed = make_batch(tiny_case(L2), WORDS, "packed").inputs
    begins = packed["position_ids"] == 0
    assert begins.sum() > 2 and (packed["labels"][begins] == NO_LABEL).all()
    assert (packed["labels"][~begins] == packed["input_ids"][~begins]).all()


def test_a_masked_model_sees_no_word_that_it_is_to_find():
    batch = make_batch(tiny_case(B2), WORDS, "padded")
    found = batch.inputs["labels"] != NO_LABEL
    assert int(found.sum()) == batch.labelled > 0
    assert (batch.inputs["input_ids"][found] == 4).all() and (
        batch.inputs["attention_mask"][found] == 1
    ).all()


def test_labels_stay_below_what_compiled_heads_take():
    """`max_labelled_fraction` of the matrix is of all places."""
    for case in (B1, B2):
        batch = make_batch(replace(case, shape=replace(case.shape, rows=4)), WORDS, "padded")
        assert batch.labelled <= 0.16 * batch.places


def test_parts_are_all_of_the_batch():
    batch = make_batch(replace(tiny_case(L1), shape=Shape(5, 8)), WORDS, "padded")
    parts = list(batch.parts(2))
    assert [len(part["labels"]) for part in parts] == [3, 2]
    assert torch.equal(torch.cat([part["input_ids"] for part in parts]), batch.inputs["input_ids"])


@pytest.mark.parametrize(
    "case", [case for cases in SETS.values() for case in cases], ids=lambda case: case.id
)
def test_cases_are_well_formed(case):
    names = [one.name for one in case.entries]
    assert len(set(names)) == len(names)
    assert case.entry(case.baseline).role == "stock"
    known = {name for one in case.entries for name in (one.name, one.variant)}
    for target in case.targets:
        assert {*target.who, *target.against} <= known and bool(target.against) == (
            target.metric != "rate"
        )


def test_sets_are_those_that_the_command_takes():
    from patchgen.cli.commands.bench import TABLES

    assert tuple(SETS) == TABLES


def test_wanted_cases():
    assert [case.id for case in wanted_cases("matrix", ["X1", "B2"])] == [
        "B2",
        "B2-amp",
        *(f"X1-{name}" for name in ("mpnet", "rows", "bloom", "megatron", "xglm")),
    ]
    (one, *others) = wanted_cases("matrix", [], ["llama_packed"])
    assert one.id == "L2" and [other.id for other in others] == ["L2-amp"]
    assert [each.name for each in one.entries][:2] == ["sdpa", "llama_packed, packed"]
    assert {case.id for case in wanted_cases("matrix", [], ["sdpa"])} >= {"B1", "L1", "M1"}, (
        "the anchor alone"
    )


@pytest.mark.parametrize(
    ("ids", "only", "message"),
    [
        (["B1", "L9"], [], "L9: PG826 is no case of the table matrix"),
        (
            [],
            ["sdpa", "lama_packed"],
            "--only lama_packed: PG826 is no entry.*\n.*did you mean llama_packed",
        ),
        (
            ["B1", "B2"],
            ["llama_packed"],
            "--only llama_packed: PG826 is no entry and no variant of B1, B2",
        ),
    ],
    ids=["case", "one of two entries", "entry of another case"],
)
def test_no_name_is_passed_over(ids, only, message):
    with pytest.raises(PatchgenError, match=message):
        wanted_cases("matrix", ids, only)


def test_groups_stand_together():
    assert len({case.id for case in CASES}) == len(CASES)
    groups = [case.group for case in CASES]
    assert groups == sorted(groups, key=groups.index), "one process for each group"


def test_all_cases_together_leave_time_to_start():
    starts = 8.0 * len({case.group for case in CASES})  # importing, and the first touch of a device
    assert sum(case.seconds for case in CASES) + starts <= 480 - GRACE

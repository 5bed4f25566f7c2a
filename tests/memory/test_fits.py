"""The largest batch that fits, and what is said where none does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.figures import Figures, summarize
from patchgen.training.memory.fits import (
    check_device,
    check_free_memory,
    largest_batch,
    last_within,
    parse_size,
)
from patchgen.training.memory.report import MOST, Report, as_text
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Choice, find_target
from tests.toytree import REPOSITORY


@pytest.mark.parametrize(
    "peaks",
    [
        pytest.param(lambda batch: (900 + 6 * batch, 1000 + 7 * batch), id="straight"),
        pytest.param(
            lambda batch: (100 + 7 * batch, 5000), id="the optimizer's step is the most for long"
        ),
        pytest.param(
            lambda batch: (90 + 7 * batch, max(4000, 100 + 8 * batch)), id="flat at first"
        ),
        pytest.param(
            lambda batch: (1000 + 512 * -(-700 * batch // 512),), id="in steps of an allocator"
        ),
        pytest.param(lambda batch: (1000 + batch * batch,), id="bent"),
    ],
)
@pytest.mark.parametrize("room", [5000, 5003, 9999, 100_000])
def test_last_within(peaks, room):
    asked = []

    def counted(batch):
        asked.append(batch)
        return peaks(batch)

    assert last_within(counted, room) == max(
        batch for batch in range(1, MOST) if max(peaks(batch)) <= room
    )
    assert len(set(asked)) <= 32


def test_what_never_ends_is_no_batch():
    assert last_within(lambda batch: (1000,), 2000) == MOST


@pytest.mark.parametrize(
    ("most", "message"),
    [(MOST, "65536 or more, 524,288 tokens."), (MOST - 1, "65535, 524,280 tokens.")],
)
def test_the_end_of_the_search_is_reported(most, message):
    measured = Figures(1, 0, 1, 1, 1, 1, {"forward": 4})
    report = Report("bert", "BertModel", Setup(length=8), None, measured, 10**9, most)
    assert f"A card of 1.00 GB takes a batch of {message}\n" in as_text(report)


@pytest.mark.slow
def test_largest_batch_of_a_model():
    target, setup = find_target("bert", Choice(tiny=True), REPOSITORY), Setup(length=16)
    room = 2_000_000
    most = largest_batch(target, setup, room)
    peaks = [
        summarize(predict_step(target, Setup(batch=batch, length=16))).peak
        for batch in (most, most + 1)
    ]
    assert peaks[0] <= room < peaks[1]


def test_not_even_one_fits():
    target = find_target("bert", Choice(tiny=True), REPOSITORY)
    with pytest.raises(
        PatchgenError, match="PG823 a batch of 1 takes .* more than there is"
    ) as caught:
        largest_batch(target, Setup(length=16), 10_000)
    assert "--checkpoint full" in caught.value.problem.hint


def test_what_this_machine_does_not_have_is_not_run():
    target = find_target("bert", Choice(tiny=True), REPOSITORY)
    with pytest.raises(PatchgenError, match="PG823 the step takes 1000 TB, and .* are free here"):
        check_free_memory(target, 10**15, "cpu")


@pytest.mark.skipif(
    not Path("/proc/meminfo").exists(), reason="only Linux tells what it could give"
)
def test_files_that_the_system_keeps_in_memory_do_not_count_as_taken(monkeypatch):
    """After a large download nearly nothing is free, and nearly all can be had."""
    monkeypatch.setattr(os, "sysconf", lambda name: 0)
    check_free_memory(find_target("bert", Choice(tiny=True), REPOSITORY), 1_000_000, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_reported_before_anything_is_predicted():
    check_device("cpu")
    with pytest.raises(PatchgenError, match="--measure: PG825 torch finds no CUDA device here"):
        check_device("cuda")


@pytest.mark.parametrize(
    ("message", "count"),
    [("24GB", 24 * 10**9), ("80GiB", 80 * 2**30), ("1.5 g", 15 * 10**8), ("512", 512)],
)
def test_sizes(message, count):
    assert parse_size(message) == count


@pytest.mark.parametrize("message", ["", "GB", "-3GB", "24 cards", "0"])
def test_no_sizes(message):
    with pytest.raises(PatchgenError, match="PG825 is no size"):
        parse_size(message)

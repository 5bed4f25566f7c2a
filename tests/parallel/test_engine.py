"""What `--engine` and a launcher's environment mean together, and what is refused."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.batch_scaling import ROWS, rows_per_step, scale_batch
from patchgen.training.loop.engine import check_engine_switches, check_launcher
from patchgen.training.loop.recipe import Recipe
from patchgen.training.parallel.engine import CONFIGURED, Engine, Launch, parse_engine


def launched(world, rank=0, **more):
    return {"WORLD_SIZE": str(world), "RANK": str(rank), "LOCAL_RANK": str(rank), **more}


@pytest.mark.parametrize(
    ("text", "world", "sizes"),
    [
        ("auto", 1, ("single", 1, 1, 1)),
        ("single", 1, ("single", 1, 1, 1)),
        ("auto", 2, ("ddp", 1, 1, 1)),
        ("ddp", 8, ("ddp", 1, 1, 1)),
        ("fsdp2", 8, ("fsdp2", 8, 1, 1)),
        ("tp", 2, ("tp", 1, 2, 1)),
        ("tp,size=2", 2, ("tp", 1, 2, 1)),
        ("ep", 4, ("ep", 4, 1, 4)),
        ("ep,size=2", 4, ("ep", 4, 1, 2)),
        ("tp+ep", 2, ("tp+ep", 1, 2, 2)),
        ("fsdp2+tp,size=2", 8, ("fsdp2+tp", 4, 2, 1)),
        ("zero3", 8, ("zero3", 1, 1, 1)),
    ],
)
def test_sizes(text, world, sizes):
    engine = parse_engine(text, launched(world) if world > 1 else {})
    assert (engine.name, engine.fsdp, engine.tp, engine.ep) == sizes
    assert engine.data_groups == world // engine.tp and engine.is_distributed == (world > 1)
    assert engine.weight_shards == (world if engine.shards_weights or engine.zero_stage == 3 else 1)


def test_who_writes():
    assert parse_engine("ddp", launched(2)).is_first
    assert not parse_engine("ddp", launched(2, rank=1)).is_first
    assert parse_engine("ddp,timeout=30", launched(2, rank=1)) == Engine(
        "ddp", Launch(2, 1, 1), timeout=30
    )


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("fsdp", "PG830", "did you mean fsdp2"),
        ("megatron", "PG830", "there are single, ddp"),
        ("zero", "PG830", "did you mean zero"),
        ("zero4", "PG830", "did you mean zero"),
        ("zero3,size=2", "PG830", "zero3 has no size"),
        ("zero3,offload", "PG830", "nothing is not what can be offloaded"),
        ("zero3,offload=disk", "PG830", "offload=optimizer or offload=parameters"),
        ("zero2,offload=parameters", "PG830", "whole on each device"),
        ("fsdp2,offload=optimizer", "PG830", "fsdp2 offloads nothing"),
        ("tp,sizes=2", "PG830", "sizes is no option"),
        ("tp,size=many", "PG830", "many is no value of size"),
        ("tp,size=0", "PG830", "0 is no value of size"),
        ("ddp,size=2", "PG830", "ddp has no size"),
        ("single", "PG831", "each would train the same run"),
        ("tp,size=4", "PG831", "a group of 4 is not the 6 processes"),
        ("tp,size=3", "PG831", "--engine fsdp2+tp,size=3"),
        ("tp+ep,size=3", "PG831", "launch 3 processes"),
        ("ep,size=4", "PG831", "cannot be divided into groups of 4"),
        ("fsdp2+tp", "PG831", "an unknown size"),
        ("fsdp2+tp,size=4", "PG831", "not several groups of 4"),
        ("fsdp2+tp,size=6", "PG831", "not several groups of 6"),
    ],
)
def test_what_six_processes_cannot_be(text, code, message):
    with pytest.raises(PatchgenError, match=code) as refused:
        parse_engine(text, launched(6))
    assert message in str(refused.value) and f"--engine {text}" in str(refused.value)


@pytest.mark.parametrize("text", ["ddp", "fsdp2", "tp", "ep", "tp+ep", "fsdp2+tp,size=2", "zero3"])
def test_one_process_shares_nothing(text):
    for environment in ({}, launched(1)):
        with pytest.raises(PatchgenError, match="PG831.*one alone") as refused:
            parse_engine(text, environment)
        assert "torchrun" in refused.value.problem.hint


def test_an_environment_that_is_no_launcher():
    with pytest.raises(PatchgenError, match="PG831.*the launcher's environment"):
        parse_engine("auto", {"WORLD_SIZE": "two"})


@pytest.mark.parametrize("name", CONFIGURED)
@pytest.mark.parametrize("text", ["auto", "fsdp2"])
def test_a_launcher_with_an_engine_of_its_own(text, name):
    with pytest.raises(PatchgenError, match=f"PG833 {name} is set"):
        parse_engine(text, launched(2, **{name: "true"}))
    parse_engine(text, launched(2, **{name: "false"}))


ALL, SPREAD = ("ddp", "fsdp2", "tp", "ep"), ("fsdp2", "tp", "ep")


@pytest.mark.parametrize(
    ("switches", "refused"),
    [
        ({"batch_size": "auto"}, ALL),
        ({"lora": "on"}, SPREAD),
        ({"optim": "adafactor"}, SPREAD),
        ({"precision": "amp-fp16"}, SPREAD),
        ({"compile": "regional"}, SPREAD),
        ({}, ()),
    ],
    ids=str,
)
def test_switches_that_several_processes_do_not_take(switches, refused):
    recipe = Recipe(model="llama", **switches)
    check_engine_switches(recipe, parse_engine("auto", {}))
    for name in ALL:
        engine = parse_engine(name, launched(2))
        if name not in refused:
            check_engine_switches(recipe, engine)
            continue
        with pytest.raises(PatchgenError, match="PG837") as message:
            check_engine_switches(recipe, engine)
        assert message.value.problem.hint


def test_a_search_is_of_one_process():
    check_engine_switches(Recipe(model="llama"), parse_engine("auto", {}), search=True)
    with pytest.raises(PatchgenError, match="PG837"):
        check_engine_switches(Recipe(model="llama"), parse_engine("auto", launched(2)), search=True)


@pytest.mark.parametrize(
    ("begun", "gone_on", "batch", "accumulated"),
    [
        (("ddp", 2, 4, 1), ("ddp", 2), 4, 1),
        (("ddp", 2, 4, 1), ("single", 1), 4, 2),
        (("single", 1, 8, 1), ("fsdp2", 2), 4, 1),
        (("single", 1, 6, 2), ("ddp", 4), 3, 1),
        (("single", 1, 6, 2), ("ddp", 3), 4, 1),
        (("tp", 2, 8, 1), ("ddp", 2), 4, 1),
        (("fsdp2", 2, 5, 2), ("fsdp2", 4), 5, 1),
    ],
    ids=str,
)
def test_a_step_takes_the_same_rows_whoever_shares_them(begun, gone_on, batch, accumulated):
    name, world, rows, times = begun
    recipe = Recipe(model="llama", batch_size=str(rows), grad_accum=times)
    before = parse_engine(name, launched(world))
    found = {"batch_size": rows, ROWS: rows_per_step(recipe, rows, before)}
    after = parse_engine(gone_on[0], launched(gone_on[1]))
    again = scale_batch(recipe, found, after)
    assert (again.batch_size, again.grad_accum) == (str(batch), accumulated)
    assert rows_per_step(again, batch, after) == found[ROWS]
    assert scale_batch(recipe, {}, after) == recipe


def test_rows_that_do_not_come_out_even():
    recipe = Recipe(model="llama", batch_size="4")
    with pytest.raises(PatchgenError, match="PG838.*8 rows, which 3 processes"):
        scale_batch(recipe, {"batch_size": 4, ROWS: 8}, parse_engine("ddp", launched(3)))


@pytest.mark.parametrize(
    ("text", "zero_stage", "offload"),
    [
        ("zero1", 1, ""),
        ("zero2,offload=optimizer", 2, "optimizer"),
        ("zero3,offload=parameters,timeout=30", 3, "parameters"),
        ("fsdp2", 0, ""),
    ],
)
def test_stages_of_zero(text, zero_stage, offload):
    engine = parse_engine(text, launched(2))
    assert (engine.zero_stage, engine.offload, engine.shards_weights) == (
        zero_stage,
        offload,
        zero_stage == 0,
    )


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"lora": "rank=8"}, "--lora"),
        ({"optim": "adafactor"}, "--optim adafactor"),
        ({"precision": "amp-fp16"}, "--precision amp-fp16"),
        ({"compile": "whole"}, "--compile whole"),
    ],
)
def test_what_is_not_tested_under_zero(switches, message):
    with pytest.raises(PatchgenError, match="PG837") as refused:
        check_engine_switches(Recipe(model="llama", **switches), parse_engine("zero1", launched(2)))
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["single", "ddp", "tp", "tp+ep", "zero2", "zero3"])
def test_mixed_precision_is_of_engines_that_gather(text):
    recipe = Recipe(model="llama", precision="fsdp-mixed")
    engine = parse_engine(text, {} if text == "single" else launched(2))
    with pytest.raises(PatchgenError, match=f"PG813.*{re.escape(text)} gathers none") as refused:
        check_engine_switches(recipe, engine)
    assert "--precision amp-bf16" in refused.value.problem.hint
    for name in ("fsdp2", "ep", "fsdp2+tp,size=2"):
        check_engine_switches(recipe, parse_engine(name, launched(4)))


# What `accelerate launch` 1.15 sets in each case.
ACCELERATE = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO"}


@pytest.mark.parametrize("text", ["auto", "single", "ddp"])
def test_a_launcher_that_starts_one_of_several(text):
    with pytest.raises(PatchgenError, match="PG831.*only this one") as refused:
        parse_engine(text, {**ACCELERATE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
    assert "--multi_gpu" in refused.value.problem.hint


def test_a_launcher_that_starts_what_it_is_asked_for():
    assert parse_engine("auto", ACCELERATE).name == "single"
    assert parse_engine("auto", launched(2, MASTER_ADDR="127.0.0.1", **ACCELERATE)).name == "ddp"
    assert parse_engine("auto", {"MASTER_ADDR": "127.0.0.1"}).name == "single", (
        "left over from another program"
    )


def test_a_launcher_that_says_other_than_the_recipe():
    check_launcher(Recipe(model="llama"), {})
    check_launcher(Recipe(model="llama", precision="amp-bf16"), ACCELERATE)
    check_launcher(
        Recipe(model="llama", precision="amp-bf16"), {"ACCELERATE_MIXED_PRECISION": "bf16"}
    )
    with pytest.raises(PatchgenError, match="PG833.*bf16.*fp32"):
        check_launcher(Recipe(model="llama"), {**ACCELERATE, "ACCELERATE_MIXED_PRECISION": "bf16"})
    with pytest.raises(PatchgenError, match="PG833.*inductor"):
        check_launcher(
            Recipe(model="llama"), {**ACCELERATE, "ACCELERATE_DYNAMO_BACKEND": "INDUCTOR"}
        )

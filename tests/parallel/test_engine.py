"""What `--engine` and a launcher's environment mean together, and what is refused."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.options import Options
from patchgen.training.loop.run import check_engine_arguments
from patchgen.training.parallel.engine import CONFIGURED, NAMES, Engine, Launch, parse_engine
from tests.toytree import REPOSITORY


def test_the_page_has_a_row_of_each_engine():
    page = (REPOSITORY / "docs/distributed.md").read_text(encoding="utf-8")
    table = page.partition("| `--engine` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(NAMES)


def launched(world, rank=0, **more):
    return {"WORLD_SIZE": str(world), "RANK": str(rank), "LOCAL_RANK": str(rank), **more}


@pytest.mark.parametrize(
    ("text", "world", "name", "groups", "layout"),
    [
        ("auto", 1, "single", 1, "ddp or single"),
        ("single", 1, "single", 1, "ddp or single"),
        ("auto", 2, "ddp", 2, "ddp or single"),
        ("ddp", 8, "ddp", 8, "ddp or single"),
        ("fsdp2", 8, "fsdp2", 8, "fsdp2 on 8 processes"),
        ("tp", 2, "tp", 1, "tp on 2 processes"),
        ("ep", 4, "ep", 4, "ep on 4 processes"),
        ("zero3", 8, "zero3", 8, "zero3 on 8 processes"),
    ],
)
def test_what_the_processes_share(text, world, name, groups, layout):
    engine = parse_engine(text, launched(world) if world > 1 else {})
    assert (engine.name, engine.data_groups, engine.layout) == (name, groups, layout)
    assert engine.is_distributed == (world > 1)


def test_who_writes():
    assert parse_engine("ddp", launched(2)).is_first
    assert not parse_engine("ddp", launched(2, rank=1)).is_first
    assert parse_engine("ddp", launched(2, rank=1)) == Engine("ddp", Launch(2, 1, 1))


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("fsdp", "PG830", "did you mean fsdp2"),
        ("megatron", "PG830", "there are single, ddp"),
        ("zero", "PG830", "did you mean zero"),
        ("zero4", "PG830", "did you mean zero"),
        ("fsdp2+tp", "PG830", "did you mean fsdp2"),
        ("zero3,size=2", "PG830", "zero3 takes no size=2"),
        ("zero3,offload", "PG830", "offload=optimizer or offload=parameters"),
        ("zero3,offload=disk", "PG830", "zero3 takes no offload=disk"),
        ("zero2,offload=parameters", "PG830", "it takes offload=optimizer"),
        ("fsdp2,offload=optimizer", "PG830", "it takes mixed"),
        ("tp,", "PG830", "it takes nothing"),
        ("single", "PG831", "each would train the same run"),
    ],
)
def test_what_six_processes_cannot_be(text, code, message):
    with pytest.raises(PatchgenError, match=code) as refused:
        parse_engine(text, launched(6))
    assert message in str(refused.value) and f"--engine {text}" in str(refused.value)


@pytest.mark.parametrize("text", ["ddp", "fsdp2", "tp", "ep", "zero3"])
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


ALL, SPREAD = ("ddp", "fsdp2", "tp", "ep", "zero1"), ("fsdp2", "tp", "ep", "zero1")


@pytest.mark.parametrize(
    ("options", "given", "refused"),
    [
        ({"search": ["loss"]}, {}, ALL),
        ({}, {"auto_find_batch_size": True}, ALL),
        ({"lora_rank": 8}, {}, SPREAD),
        ({"muon": True}, {}, SPREAD),
        ({"dtype": "bfloat16"}, {}, SPREAD),
        ({}, {"optim": "adafactor"}, SPREAD),
        ({}, {"fp16": True}, SPREAD),
        ({}, {"torch_compile": True}, SPREAD),
        ({}, {}, ()),
    ],
    ids=str,
)
def test_arguments_that_several_processes_do_not_take(options, given, refused):
    asked = Options(model="llama", **options)
    check_engine_arguments(asked, given, parse_engine("auto", {}))
    for name in ALL:
        engine = parse_engine(name, launched(2))
        if name not in refused:
            check_engine_arguments(asked, given, engine)
            continue
        with pytest.raises(PatchgenError, match="PG837") as message:
            check_engine_arguments(asked, given, engine)
        assert message.value.problem.hint


@pytest.mark.parametrize(
    ("text", "zero_stage", "offload"),
    [
        ("zero1", 1, ""),
        ("zero2,offload=optimizer", 2, "optimizer"),
        ("zero3,offload=parameters", 3, "parameters"),
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


@pytest.mark.parametrize("text", ["single", "ddp", "tp", "zero2", "zero3"])
def test_mixed_precision_is_of_engines_that_gather(text):
    with pytest.raises(PatchgenError, match="PG830.*takes no mixed"):
        parse_engine(f"{text},mixed", {} if text == "single" else launched(2))
    for name in ("fsdp2", "ep"):
        assert parse_engine(f"{name},mixed", launched(4)).mixed
        assert not parse_engine(name, launched(4)).mixed


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

"""What the text of each switch means, and what is refused before anything is read or built."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.engine import choose_device
from patchgen.training.loop.machine import check_machine
from patchgen.training.loop.recipe import Recipe, recipe_of
from patchgen.training.loop.switches import (
    Adapting,
    Checkpointing,
    Compiling,
    Loading,
    Searching,
    adapting,
    check_switches,
    checkpointing,
    compiling,
    loading,
    searching,
)


@pytest.mark.parametrize(
    ("parse", "text", "meant"),
    [
        (checkpointing, "none", Checkpointing()),
        (checkpointing, "full", Checkpointing("full")),
        (checkpointing, "every=3", Checkpointing("full", 3)),
        (checkpointing, "selective,every=2", Checkpointing("selective", 2)),
        (compiling, "none", Compiling()),
        (compiling, "whole", Compiling("whole")),
        (compiling, "regional,mode=max-autotune", Compiling("regional", "max-autotune")),
        (loading, "", Loading()),
        (loading, "workers=4,pageable,prefetch=3", Loading(4, False, 3)),
        (adapting, "", None),
        (adapting, "on", Adapting()),
        (adapting, "rank=4,targets=q_proj+v_proj", Adapting(4, targets=("q_proj", "v_proj"))),
        (searching, "trials=3", Searching(3)),
        (
            searching,
            "loss,throughput,steps=5",
            Searching(objectives=("loss", "throughput"), steps=5),
        ),
    ],
)
def test_meaning(parse, text, meant):
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (checkpointing, "some", "one of none, full, selective"),
        (checkpointing, "every=x", "x is no value of every"),
        (checkpointing, "every=0", "from k = 1"),
        (checkpointing, "none,every=2", "none under the policy none"),
        (compiling, "whole,mod=x", "did you mean mode?"),
        (compiling, "whole,regional", "one of none, whole, regional"),
        (loading, "pined", "one of pinned, pageable"),
        (adapting, "rnk=4", "did you mean rank?"),
        (searching, "speed", "one of loss, throughput"),
        (loading, "workers=-1", "no fewer than 0 workers"),
        (loading, "workers=1,prefetch=0", "no fewer than 1 batch"),
        (loading, "prefetch=2", "without workers"),
        (searching, "trials=0", "at least 1 trial"),
        (searching, "loss,steps=-1", "of at least 1 step"),
    ],
)
def test_what_cannot_be_read(parse, text, message):
    with pytest.raises(PatchgenError, match="PG813") as refused:
        parse(text)
    assert message in str(refused.value) and text in refused.value.problem.at.path


@pytest.mark.parametrize(
    "switches",
    [
        {"batch_size": "0"},
        {"batch_size": "many"},
        {"length": 0},
        {"grad_accum": 0},
        {"epochs": 0.0},
        {"packing": "isolated", "task": "classification"},
        {"masked": 1.0, "task": "masked-lm"},
        {"lora": "rank=half"},
        {"seed": 2**32},
        {"learning_rate": float("nan")},
        {"weight_decay": float("inf")},
        {"warmup": -1.0},
        {"log_every": 1.5},
        {"save_every": -1.0},
    ],
    ids=str,
)
def test_what_makes_no_sense(switches):
    check_switches(Recipe(model="llama"))
    with pytest.raises(PatchgenError, match="PG813") as refused:
        check_switches(Recipe(model="llama", **switches))
    assert str(refused.value).startswith(f"--{next(iter(switches)).replace('_', '-')} ")


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"precision": "tf32"}, "this is a CPU"),
        ({"precision": "amp-fp16"}, "--precision amp-bf16 needs no scale"),
        ({"optim": "8bit"}, "this is a CPU"),
        ({"optim": "paged_adamw_8bit"}, "this is a CPU"),
    ],
    ids=str,
)
def test_what_a_cpu_cannot_run(switches, message):
    with pytest.raises(PatchgenError, match="PG814") as refused:
        check_machine(Recipe(model="llama", **switches), "cpu")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "switches", [{}, {"precision": "amp-bf16"}, {"optim": "adafactor"}, {"lora": "on"}], ids=str
)
def test_what_a_cpu_can_run(switches):
    if "lora" in switches:
        pytest.importorskip("peft")
    check_machine(Recipe(model="llama", **switches), "cpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("whole,mode=fast", "fast is no mode"),
        ("regional,backend=none", "none is no backend"),
        ("whole,backend=eager_debug", "eager_debug is no backend"),
        ("regional,backend=aot_eager,mode=max-autotune", "would pass it over"),
    ],
)
def test_what_torch_does_not_compile_by(text, message):
    check_machine(Recipe(model="llama", compile="regional,backend=eager_debug"), "cpu")
    with pytest.raises(PatchgenError, match=f"PG813.*{message}"):
        check_machine(Recipe(model="llama", compile=text), "cpu")


@pytest.mark.parametrize(
    "schedule", ["cosine_with_min_lr", "warmup_stable_decay", "reduce_lr_on_plateau", "linea"]
)
def test_a_schedule_that_cannot_be_made(tmp_path, schedule):
    from tests.train.runs import run

    with pytest.raises(PatchgenError, match=f"--schedule {schedule}: PG813"):
        run(tmp_path / "run", schedule=schedule)
    assert not (tmp_path / "run").exists()


def test_a_compiler_is_needed_where_one_is_run(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    check_machine(Recipe(model="llama", compile="whole,backend=aot_eager"), "cpu")
    with pytest.raises(PatchgenError, match="no compiler is found"):
        check_machine(Recipe(model="llama", compile="whole"), "cpu")


def test_an_optimizer_that_nobody_knows():
    with pytest.raises(PatchgenError, match="did you mean adafactor"):
        check_machine(Recipe(model="llama", optim="adafactr"), "cpu")


def test_the_device_that_is_asked_for():
    assert choose_device("cpu") == "cpu"


def test_a_device_that_is_not_there():
    import torch

    if torch.cuda.is_available():
        pytest.skip("it is there")
    with pytest.raises(PatchgenError, match="PG814.*no CUDA device"):
        choose_device("cuda")


def test_a_recipe_is_read_as_it_was_written():
    recipe = Recipe(model="llama", data=("a", "b"), config=("x=1",), warmup=0.1, tiny=True)
    assert recipe_of(recipe.as_json()) == recipe
    with pytest.raises(ValueError, match="unheard_of"):
        recipe_of('{"model": "llama", "unheard_of": 1}')

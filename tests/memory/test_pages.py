"""What a person sees: tables, JSON, Markdown, a picture, and errors."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.toytree import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.cli import main

TINY = ("memory", "llama", "--tiny", "--batch", "2", "--length", "24", "--device", "cpu")


def run(capfd, *argv) -> tuple[int, str, str]:
    code = main(argv)
    out, err = capfd.readouterr()
    return code, out, err


def test_text(capfd):
    code, out, _ = run(capfd, *TINY, "--measure")
    assert code == 0
    assert out.startswith("LlamaForCausalLM (llama), 29,")
    rows = [line.split() for line in out.splitlines()]
    assert ["kind", "predicted", "measured", "error"] in rows
    (peak,) = (row for row in rows if row[:1] == ["peak"] and row[1] != "in")
    assert abs(float(peak[-1].rstrip("%"))) < 5
    assert any(row[:2] == ["model.layers.*.mlp", "(LlamaMLP)"] and row[2] == "3" for row in rows)


def test_json_adds_up(capfd):
    data = json.loads(run(capfd, *TINY, "--output-format", "json", "--card", "1GB")[1])
    assert sum(data["at_peak"]["roles"].values()) == max(data["predicted"]["peaks"].values())
    assert sum(kind["bytes"] for kind in data["activations"]) == data["predicted"]["saved"]
    assert data["measured"] is None
    assert data["largest_batch"] > 2


def test_picture(capfd, tmp_path):
    """What is drawn is all that is held; the file itself needs matplotlib."""
    from patchgen.training.memory.figures import summarize
    from patchgen.training.memory.report import over_time
    from patchgen.training.memory.step import Setup, predict_step
    from patchgen.training.memory.target import Choice, find_target

    trace = predict_step(
        find_target("llama", Choice(tiny=True)), Setup(batch=2, length=24, checkpoint="full")
    )
    moments, heights = over_time(trace)
    assert max(map(sum, zip(*heights.values(), strict=True))) == summarize(trace).peak
    assert max(heights["recomputed"]) > 0 and moments == sorted(moments)
    pytest.importorskip("matplotlib")
    path = tmp_path / "step.svg"
    assert run(capfd, *TINY, "--figure", str(path), "--card", "1MB")[0] == 0
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_a_rank_has_its_share(capfd):
    form = ("--output-format", "json")
    alone = json.loads(run(capfd, *TINY, *form)[1])["predicted"]
    for engine, divided in (
        ("ddp", ()),
        ("zero1", ("optimizer",)),
        ("zero2", ("optimizer", "gradients")),
        ("fsdp2", ("optimizer", "gradients", "weights")),
    ):
        printed = run(capfd, *TINY, *form, "--engine", engine, "--ranks", "4")[1]
        rank = json.loads(printed)["predicted"]
        for name in ("weights", "gradients", "optimizer", "saved"):
            parts = 4 if name in divided else 1
            assert rank[name] == pytest.approx(alone[name] / parts, abs=4 * 200), engine
    assert "are not counted" in run(capfd, *TINY, "--engine", engine, "--ranks", "4")[1]


def test_without_a_length_rows_have_512_tokens_or_what_the_model_has_places_for():
    from patchgen.training.memory.target import Choice, default_length, find_target

    def length(name, **choice):
        return default_length(find_target(name, Choice(**choice), REPOSITORY).config)

    assert length("bert", tiny=True) == 32
    assert [length(name) for name in ("bert", "roberta", "llama-8b", "t5")] == [512] * 4


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (
            ["lama_sdpa"],
            2,
            "lama_sdpa: PG824 is no variant, no model type of transformers and no size\n"
            "    hint: did you mean",
        ),
        (["bert", "--tiny", "--head", "Foo"], 2, "bert: PG824 has no Foo\n    hint: it has "),
        (
            ["bert", "--config", "llama-1b"],
            2,
            "llama-1b: PG824 is a llama, and the model takes bert",
        ),
        (
            ["bert", "--config", "nowhere.json"],
            2,
            "nowhere.json: PG824 is no configuration: ",
        ),
        (
            ["bert", "--tiny", "--config", "bert-base"],
            1,
            "--tiny: PG825 has sizes of its own, and bert-base others",
        ),
        (["bert-base", "--tiny"], 1, "--tiny: PG825 has sizes of its own, and bert-base others"),
        (
            ["bert", "--tiny", "--set", "hiden_size=3"],
            1,
            "--set hiden_size: PG825 BertConfig has no hiden_size\n"
            "    hint: did you mean hidden_size",
        ),
        (["bert", "--tiny", "--set", "hidden_size=31"], 1, "hidden size (31) is not a multiple"),
        (
            ["bert", "--tiny", "--optimizer", "adamw-8bit"],
            1,
            "adamw-8bit: PG825 is not known",
        ),
        (["bert", "--tiny", "--attention", "fast"], 1, "bert: PG825"),
        (["mpnet", "--tiny", "--checkpoint", "selective"], 1, "the part checkpoint gives it"),
        (
            ["bert", "--tiny", "--every", "2"],
            1,
            "--every 2: PG825 says which layers are checkpointed",
        ),
        (["bert", "--tiny", "--card", "big"], 1, "--card big: PG825 is no size"),
        pytest.param(
            ["bert", "--tiny", "--card", "24GB", "--measure"],
            1,
            "--measure: PG825 torch finds no CUDA device here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (["bert", "--tiny", "--no-predict"], 2, "--no-predict needs --measure"),
        (
            ["bert", "--tiny", "--length", "65"],
            1,
            "modeling_bert.py:94:1: PG822 the model's forward fails",
        ),
        (
            ["gpt2", "--tiny", "--length", "65"],
            1,
            "fails: IndexError: row 64 of an embedding",
        ),
        (["bert", "--tiny", "--length", "16", "--card", "9kB"], 1, "PG823 a batch of 1 takes"),
        (
            ["blt", "--tiny", "--length", "16"],
            1,
            "PG821 the forward takes the elements where a mask is true",
        ),
        (
            ["llama-70b", "--set", "num_hidden_layers=20", "--measure", "--length", "8"],
            1,
            "PG823 the step takes 3",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_errors(capfd, argv, code, message):
    found, out, err = run(
        capfd, "memory", *argv, *([] if "--card" in argv else ["--device", "cpu"])
    )
    assert message in err
    assert (found, out) == (code, "")


def test_a_folder_with_a_configuration(capfd, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "bert", "num_hidden_layers": 1})
    )
    out = run(
        capfd,
        "memory",
        "bert",
        "--config",
        str(tmp_path),
        "--length",
        "8",
        "--output-format",
        "json",
    )[1]
    assert [
        kind["layers"] for kind in json.loads(out)["activations"] if "layer.*" in kind["path"]
    ] == [1, 1, 1]

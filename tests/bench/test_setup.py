"""Models over shared weights; a fast entry with wrong numbers is found."""

from __future__ import annotations

import types
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import nn
from torch.nn import functional as F
from transformers import modeling_flash_attention_utils as flash_utils

from patchgen.training.bench.case import Shape
from patchgen.training.bench.checks import failed_checks
from patchgen.training.bench.competitors import Unavailable, check_available
from patchgen.training.bench.compiling import allow_many_models, compile_model, find_layers
from patchgen.training.bench.entry import (
    COMPILED,
    EAGER,
    FIVE_LINES,
    FIVE_LINES_COMPILED,
    OFFLOADED,
    SDPA,
    TORCH_FLASH,
    Entry,
    variant,
)
from patchgen.training.bench.fits import find_largest, find_rows_that_fit, ladder
from patchgen.training.bench.kernels import attention_kernels
from patchgen.training.bench.matrix import B1, B2, B2_AMP, L1, L2, L2_AMP
from patchgen.training.bench.reference import compute_reference
from patchgen.training.bench.result import Result
from patchgen.training.bench.round import TINY_ROUNDS, first_round
from patchgen.training.bench.setup import CaseSetup, Scale, make_config, share_parameters
from patchgen.training.bench.step import Trainer
from patchgen.training.bench.tiny import tiny_case
from patchgen.training.optimizers import build_optimizer
from patchgen.training.patching import patched
from patchgen.verify.observe.evidence import count_saved_bytes

TINY = Scale("cpu", tiny=True)


def run_round(case, entry) -> Result:
    setup = CaseSetup(tiny_case(case), TINY)
    return first_round(
        setup, setup.prepare(entry), compute_reference(setup, entry.rows), TINY_ROUNDS[0]
    )


@pytest.fixture(scope="module")
def llama() -> CaseSetup:
    return CaseSetup(tiny_case(L1), TINY)


# Weights


def test_all_models_hold_the_same_parameters(llama):
    one, other = (llama.prepare(entry).model for entry in (SDPA, variant("llama_loss")))
    assert type(one) is not type(other)
    ours = dict(other.named_parameters())
    assert all(parameter is ours[name] for name, parameter in one.named_parameters())
    assert one.lm_head.weight.data_ptr() == other.lm_head.weight.data_ptr()


def test_a_reset_brings_the_weights_back_in_any_dtype(llama):
    before = {name: parameter.clone() for name, parameter in llama.distinct.items()}
    llama.reset(torch.bfloat16)
    assert all(parameter.dtype == torch.bfloat16 for parameter in llama.distinct.values())
    with torch.no_grad():
        for parameter in llama.distinct.values():
            parameter.add_(1)
    llama.reset(torch.float32)
    expected = {name: value.bfloat16().float() for name, value in before.items()}
    assert all(torch.equal(parameter, expected[name]) for name, parameter in llama.distinct.items())


def test_a_model_with_other_weights_is_refused(llama):
    with pytest.raises(ValueError, match="Linear has other weights"):
        share_parameters(nn.Linear(2, 2), llama.parameters)


def test_nothing_is_dropped():
    config = make_config(B1, tiny=False)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.0


# Numbers


def test_the_reference_is_the_mean_over_all_parts(monkeypatch):
    setup = CaseSetup(replace(tiny_case(B2), shape=Shape(4, 32, shortest=8)), TINY)
    whole = compute_reference(setup)
    monkeypatch.setattr(
        "patchgen.training.bench.reference.TOKENS", 32
    )  # a part for each row, of other numbers of labels
    parts = compute_reference(setup)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6) and parts.norm == pytest.approx(
        whole.norm, rel=1e-5
    )


@pytest.mark.parametrize(
    ("case", "entry"),
    [
        pytest.param(L1, SDPA, id="stock"),
        pytest.param(L1, Entry("parts", accumulate=2), id="in two backward passes"),
        pytest.param(B2, variant("bert_mlm_padding_free"), id="without padding"),
        pytest.param(L1, Entry("autocast", precision="amp-bf16"), id="under autocast"),
    ],
)
def test_what_is_right_is_ok(case, entry):
    result = run_round(case, entry)
    assert result.status == "ok", result.note
    assert result.rounds == (), "a CPU's times are no result"


def test_what_is_fast_and_wrong_is_found():
    """Five lines without a mask, where a bidirectional model has padding."""
    result = run_round(B2, FIVE_LINES)
    assert result.status == "wrong" and "from the reference" in result.note
    assert run_round(B1, FIVE_LINES).status == "ok"


def test_padding_taken_out_in_every_layer():
    """transformers' code for flash-attn runs torch's kernels, only inside its context."""
    flat = L2.entry("flash_attention_2, packed, torch's kernels")
    for case, entry in ((B2, TORCH_FLASH), (L2, flat), (L1, TORCH_FLASH)):
        result = run_round(case, entry)
        assert result.status == "ok", result.note
    assert flash_utils._loaded_implementation is None
    assert run_round(L2, replace(flat, layout="packed")).status == "wrong", (
        "transformers looks for packed texts in one row"
    )


def test_a_gradient_that_is_missing_is_found(llama):
    reference = compute_reference(llama)
    prepared = llama.prepare(SDPA)
    prepared.model.model.layers[0].register_forward_hook(lambda module, args, out: out.detach())
    assert first_round(llama, prepared, reference, TINY_ROUNDS[0]).status == "wrong"


# What ran


@pytest.mark.parametrize(
    ("entry", "masks"),
    [
        pytest.param(SDPA, ("none",), id="eager mode sees that the mask is all ones"),
        pytest.param(COMPILED, ("bool",), id="a compiled model makes one all the same"),
        pytest.param(FIVE_LINES_COMPILED, ("none",), id="five lines have none"),
    ],
)
def test_masks(entry, masks):
    assert run_round(B1, entry).masks == masks


def test_what_an_entry_promises_is_checked():
    case = replace(
        B1,
        entries=(
            SDPA,
            Entry("no", no_mask=True),
            Entry("c", compiled="whole"),
            Entry("s", saves=0.5),
        ),
    )
    results = {
        "sdpa": Result("ok", saved=100, masks=("bool",)),
        "no": Result("ok", masks=("bool", "none")),
        "c": Result("ok"),
        "s": Result("ok", saved=60),
    }
    failed = failed_checks(case, results)
    assert failed["no"].startswith("SDPA got bool, none") and "not compiled" in failed["c"]
    assert (
        failed["s"]
        == "saves 0.60 of what the baseline saves for backward, more than its limit of 0.5"
    )
    astray = {"sdpa": Result("ok", losses=(7.0, 6.0)), "s": Result("ok", losses=(7.0, 6.3))}
    assert failed_checks(case, astray) == {
        "s": "its loss after the first round is 6.3, and the baseline's 6"
    }
    lost = {"sdpa": Result("ok", losses=(7.0, 6.0)), "s": Result("ok", losses=(7.0, float("nan")))}
    assert "nan" in failed_checks(case, lost)["s"]
    right = {
        "sdpa": results["sdpa"],
        "no": Result("ok", masks=("none",)),
        "s": Result("ok", saved=50),
    }
    assert failed_checks(case, right) == {}


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return F.scaled_dot_product_attention(x, x, x, torch.ones(3, 3, dtype=torch.bool))


def test_many_models_of_a_class_are_compiled():
    """By default the ninth would run as it is, and be timed as compiled."""
    allow_many_models()
    for _ in range(10):
        model, masks = Attend(), []
        compile_model(model, "whole", masks, traced_only=True)
        model(torch.randn(1, 1, 3, 4))
        assert masks == ["bool"]
    torch._dynamo.reset()


def test_layers_are_the_longest_list():
    model = Attend()
    assert find_layers(model) == list(model.layers)
    with pytest.raises(LookupError, match="Linear"):
        find_layers(nn.Linear(1, 1))


def test_kernels_are_named():
    q = torch.randn(1, 2, 16, 8)
    (name,) = attention_kernels(lambda: F.scaled_dot_product_attention(q, q, q), "cpu")[:1]
    assert "scaled_dot_product" in name
    # Those that took longest come first.
    found = attention_kernels(lambda: torch.softmax(q @ q.mT, -1), "cpu")
    assert sorted(found) == ["aten::_softmax", "aten::softmax"]


def test_each_storage_is_saved_once_and_weights_are_not():
    model, x = nn.Linear(4, 4, bias=False), torch.randn(8, 4)
    assert count_saved_bytes(lambda: model(x) + model(x), model) == 8 * 4 * 4


# What fits


@pytest.mark.parametrize("limit", range(0, 40))
def test_largest(limit):
    sizes, asked = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 80, 96, 128), []
    found = find_largest(sizes, lambda size: not asked.append(size) and size <= limit)
    assert found == max((size for size in sizes if size <= limit), default=None)
    assert len(asked) <= 5


def test_ladders_rise():
    assert ladder(8, tiny=False)[0] == 1 and list(ladder(8, tiny=False)) == sorted(
        set(ladder(8, tiny=False))
    )


def test_checkpointing_fits_more(llama):
    plain, checkpointed = (
        find_rows_that_fit(llama, replace(SDPA, checkpoint=policy)) for policy in ("", "full")
    )
    assert plain.rows == 5 and checkpointed.rows > plain.rows
    assert find_rows_that_fit(llama, SDPA, limit=1).status == "does not fit"


# What cannot be had


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param(Entry("x", backend="cudnn"), "needs a CUDA device", id="backend"),
        pytest.param(OFFLOADED, "needs a CUDA device", id="offloading"),
        pytest.param(
            Entry("x", attention="flash_attention_2"),
            "needs a CUDA device",
            id="flash attention",
        ),
    ],
)
def test_unavailable(llama, entry, reason):
    with pytest.raises(Unavailable, match=f"(?i){reason}"):
        llama.prepare(entry)


@pytest.mark.parametrize("how", [("sdpa", "flash"), ("sdpa", "cudnn"), ("flash_attention_2", "")])
def test_kernels_of_half_precision_are_not_asked_for_more(how):
    with pytest.raises(Unavailable, match="takes half precision"):
        check_available(*how, "cuda", torch.float32)


def test_a_patch_is_held_while_it_is_on():
    home = types.SimpleNamespace(rotate="theirs")
    with pytest.raises(KeyError), patched((home, "rotate", "ours")):
        assert home.rotate == "ours"
        raise KeyError
    assert home.rotate == "theirs"


def test_eager_keeps_scores(llama):
    prepared = llama.prepare(EAGER)
    other = llama.prepare(SDPA)
    kept = [
        count_saved_bytes(lambda one=one: one.model(**one.batch.inputs), one.model)
        for one in (prepared, other)
    ]
    assert kept[0] > kept[1]


# As most people train


@pytest.mark.parametrize("case", [B2_AMP, L2_AMP], ids=lambda case: case.id)
def test_batches_of_many_lengths_take_turns(case):
    setup = CaseSetup(tiny_case(case), TINY)
    prepared = setup.prepare(case.entry("sdpa"))
    trainer = Trainer(prepared, build_optimizer("adamw", setup.restore_weights(prepared)), "cpu")
    seen = []
    prepared.model.register_forward_pre_hook(
        lambda model, args, given: seen.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    for _ in range(4):
        trainer.step()
    assert seen[:2] == seen[2:] and seen[0] != seen[1], "each padded to its own longest text"
    assert {parameter.dtype for parameter in prepared.model.parameters()} == {torch.float32}


def test_dropout_is_on_in_steps_and_off_where_numbers_are_compared():
    setup = CaseSetup(tiny_case(B2_AMP), TINY)
    prepared = setup.prepare(B2_AMP.entry("sdpa"))
    drops = {module.p for module in prepared.model.modules() if isinstance(module, nn.Dropout)}
    assert drops == {0.1}
    result = first_round(setup, prepared, compute_reference(setup), TINY_ROUNDS[0])
    assert result.status == "ok" and prepared.model.training, result.note
    assert run_round(B2_AMP, B2_AMP.entry("bert_mlm_padding_free")).status == "ok"

"""The variants that call transformers' attention interface, by each function that it has for them.

Against transformers' own classes, which write their attention out.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flash_attention_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from patchgen.facts.sizes import SIZES
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.differences import differences, worst
from patchgen.verifying.inputs.arguments import Batch, batch
from patchgen.verifying.models.build import draw_weights, flash_reference, flex_on_cpu, registered
from patchgen.verifying.observe.evidence import Trace
from patchgen.verifying.observe.recorder import compute_in_float64, listening
from tests.parity.observed import observe, rounding

LAYERS = SIZES["num_hidden_layers"]
SIDES = ("parent", "variant")


@dataclass(frozen=True)
class Case:
    """A head of a variant and of its parent, and whether a bias is added to its scores."""

    model: str
    variant: str
    head: str
    biased: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    def of(self, side: str) -> Any:
        home = {
            "parent": f"transformers.models.{self.model}.modeling_{self.model}",
            "variant": f"generated.{self.model}.modeling_{self.variant}",
        }
        return getattr(importlib.import_module(home[side]), self.head)

    def build(
        self, side: str, attention: str | None, dtype: Any = torch.float64, **changes: Any
    ) -> Any:
        config = tiny_config(
            self.of("parent").config_class, attn_implementation=attention, **self.changes | changes
        )
        config.loss_chunk_size = 0  # logits, also beside a loss
        model = self.of(side)(config).to(dtype).eval()
        draw_weights(model)
        return model

    def observe_side(
        self, side: str, attention: str | None, given: Batch, **how: Any
    ) -> dict[str, Any]:
        weights = how.pop("weights", False)
        model = self.build(side, attention, **how)
        # BLOOM takes its softmax in float32 whatever it is, and XGLM has no float64 by itself.
        with compute_in_float64() if model.dtype == torch.float64 else nullcontext():
            return observe(model, given, weights=weights)


CASES = {
    "mpnet": Case("mpnet", "mpnet_sdpa_checkpoint", "MPNetForMaskedLM", biased=True),
    "megatron_bert": Case(
        "megatron_bert", "megatron_bert_sdpa_checkpoint_loss", "MegatronBertForMaskedLM"
    ),
    "megatron_bert decoder": Case(
        "megatron_bert",
        "megatron_bert_sdpa_checkpoint_loss",
        "MegatronBertForCausalLM",
        changes={"is_decoder": True},
    ),
    "xglm": Case("xglm", "xglm_sdpa_checkpoint_loss", "XGLMForCausalLM"),
    "bloom": Case("bloom", "bloom_sdpa", "BloomForCausalLM", biased=True),
    "deberta_v2": Case(
        "deberta_v2",
        "deberta_v2_flex",
        "DebertaV2ForMaskedLM",
        biased=True,
        changes={"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
}
FAST = ("bloom", "left")  # flex attention is compiled for seconds
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_unbiased = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CASES.items() if not case.biased]
)
each_padding = pytest.mark.parametrize("padding", ["none", "right", "left"])


@contextmanager
def counted(name: str) -> Iterator[list[Any]]:
    """The modules for which transformers' own function of that name is called."""
    right, calls = ALL_ATTENTION_FUNCTIONS[name], []

    def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(module)
        return right(module, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS[name] = noted
    try:
        yield calls
    finally:
        del ALL_ATTENTION_FUNCTIONS[name]


def assert_equal(reference: dict[str, Any], candidate: dict[str, Any], bound: float) -> None:
    found = differences(reference, candidate)
    assert worst(found) <= bound, "\n".join(str(difference) for difference in found[:5])


@each_case
@each_padding
def test_eager_is_the_parent_to_the_last_bit(case, padding):
    for dtype in (torch.float64, torch.float32):
        reference, ours = (
            case.observe_side(side, "eager", batch(padding), dtype=dtype, weights=True)
            for side in SIDES
        )
        assert any("attentions" in name for name in ours)
        assert_equal(reference, ours, 0.0)


@each_case
@each_padding
def test_sdpa_trains_as_the_parent(case, padding):
    reference = case.observe_side("parent", "eager", batch(padding))
    with listening(trace := Trace()), counted("sdpa") as calls:
        by_sdpa = case.observe_side("variant", None, batch(padding))
    assert len(calls) == len(trace.sdpa) == LAYERS and not trace.softmaxes_over(
        batch(padding).input_ids.shape[1]
    )
    assert_equal(reference, by_sdpa, rounding(torch.float64))


@pytest.mark.parametrize(
    ("case", "padding"),
    [
        pytest.param(
            case,
            padding,
            id=f"{name} {padding}",
            marks=() if (name, padding) == FAST else pytest.mark.slow,
        )
        for name, case in CASES.items()
        for padding in ("none", "left")
    ],
)
def test_flex_attention_trains_as_the_parent(case, padding):
    reference = case.observe_side("parent", "eager", batch(padding))
    with flex_on_cpu(), counted("flex_attention") as calls:
        ours = case.observe_side("variant", "flex_attention", batch(padding))
    assert len(calls) == LAYERS
    assert_equal(reference, ours, rounding(torch.float64))


@each_case
def test_a_function_of_ones_own_is_called(case):
    reference = case.observe_side("parent", "eager", batch("left"))
    with registered("mine", sdpa_attention_forward, sdpa_mask) as calls:
        ours = case.observe_side("variant", "mine", batch("left"))
    assert len(calls) == LAYERS
    assert all((call.get("position_bias") is not None) == case.biased for call in calls)
    assert_equal(reference, ours, rounding(torch.float64))


@each_case
@pytest.mark.parametrize("version", [2, 3, 4])
def test_flash_attention_is_refused_or_asks_to_be_installed(case, version):
    error, words = (
        (ValueError, "does not support Flash Attention")
        if case.biased
        else (ImportError, "install")
    )
    with pytest.raises(error, match=words):
        case.build("variant", f"flash_attention_{version}")


@each_unbiased
@each_padding
def test_flash_attention_gets_the_masks_that_it_takes(case, padding):
    reference = case.observe_side("parent", "eager", batch(padding))
    with registered("by_reference", flash_reference, flash_attention_mask) as calls:
        ours = case.observe_side("variant", "by_reference", batch(padding))
    assert len(calls) == LAYERS
    assert_equal(reference, ours, rounding(torch.float64))


@each_case
def test_the_function_can_be_changed(case):
    model, given = case.build("variant", "eager", torch.float32), batch("left")
    before = model(**given.inputs()).logits
    model.set_attn_implementation("sdpa")
    with listening(trace := Trace()):
        after = model(**given.inputs()).logits
    assert len(trace.sdpa) == LAYERS
    assert (after - before)[given.real].abs().max() <= 1e-5 * before.abs().max()
    with pytest.raises(ValueError, match='attn_implementation="misspelt"'):
        model.set_attn_implementation("misspelt")


@each_case
def test_weights_that_sdpa_does_not_have_are_none(case):
    model = case.build("variant", "sdpa", torch.float32)
    out = model(input_ids=batch().input_ids, output_attentions=True)
    assert all(weights is None for weights in out.attentions or ())


@each_case
def test_weights_without_a_mask_are_the_parents(case):
    given = {"input_ids": batch().input_ids, "output_attentions": True}
    parent, variant = (case.build(side, "eager", torch.float32)(**given) for side in SIDES)
    assert parent.attentions and len(parent.attentions) == len(variant.attentions)
    for theirs, ours in zip(parent.attentions, variant.attentions, strict=True):
        assert torch.equal(theirs, ours)


def test_alibi_is_added_to_one_mask_for_all_layers(monkeypatch):
    masks = []

    def noted(module, query, key, value, attention_mask, **given):
        masks.append(attention_mask)
        assert given["position_bias"] is None
        return sdpa_attention_forward(module, query, key, value, attention_mask, **given)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._local_mapping, "sdpa", noted)
    CASES["bloom"].build("variant", "sdpa", torch.float32)(**batch("left").inputs())
    assert len(masks) == LAYERS and all(mask is masks[0] for mask in masks)

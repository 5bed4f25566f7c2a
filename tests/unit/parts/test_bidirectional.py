"""Attention both ways: as the parent under a mask by hand, whichever function attends; texts in one row, and a cache."""

from contextlib import nullcontext
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import DynamicCache
from transformers.masking_utils import flash_attention_mask

from patchgen.verifying.models.build import flash_reference, flex_on_cpu, registered
from tests.drafts import both_classes, tiny

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTH, PADDED = 12, 4
# The class of the parent, and how many tokens a window reaches to either side.
MODELS = {"llama": ("LlamaForCausalLM", LENGTH), "mistral": ("MistralForCausalLM", 3)}
ATTENTIONS = {
    "eager": nullcontext,
    "sdpa": nullcontext,
    "flex_attention": flex_on_cpu,
    "by_reference": lambda: registered("by_reference", flash_reference, flash_attention_mask),
}
models = pytest.mark.parametrize("model", MODELS)
# Flex attention is traced for seconds at every new shape.
SLOW = {"flex_attention": pytest.mark.slow}
attentions = pytest.mark.parametrize(
    "attention", [pytest.param(name, marks=SLOW.get(name, ())) for name in ATTENTIONS]
)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    home = tmp_path_factory.mktemp("bidirectional")
    return {
        model: both_classes(model, "bidirectional", head, home / model)
        for model, (head, _) in MODELS.items()
    }


def words(seed=0):
    return torch.randint(3, 90, (2, LENGTH), generator=torch.Generator().manual_seed(seed))


def padding(side):
    real = torch.ones(2, LENGTH, dtype=torch.long)
    real[1, -PADDED:] = 0
    return real if side == "right" else real.flip(1)


def states(model, ids, **given):
    with torch.no_grad():
        return model.model(ids, use_cache=False, **given).last_hidden_state


def by_hand(real, reach):
    """The mask of the parent's eager attention: zero where a token sees another."""
    place = torch.arange(LENGTH)
    seen = (place[:, None] - place[None, :]).abs() <= reach
    seen = seen[None, None] & real.bool()[:, None, None, :]
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


@attentions
@models
@pytest.mark.parametrize("side", ["none", "right", "left"])
def test_it_is_the_parent_under_a_mask_by_hand(classes, model, attention, side):
    reach = MODELS[model][1]
    parent_class, variant_class = classes[model]
    real = torch.ones(2, LENGTH) if side == "none" else padding(side)
    parent = tiny(parent_class, "eager", sliding_window=4)
    wanted = states(parent, words(), attention_mask=by_hand(real, reach))
    with ATTENTIONS[attention]():
        variant = tiny(variant_class, attention, sliding_window=4)
        mask = {} if side == "none" else {"attention_mask": real}
        found = states(variant, words(), **mask)
    torch.testing.assert_close(found[real.bool()], wanted[real.bool()], rtol=1e-4, atol=1e-4)


@models
def test_the_first_token_sees_the_last_one_and_no_padding(classes, model):
    _, variant_class = classes[model]
    variant = tiny(variant_class, "sdpa", sliding_window=64)
    ids = words()
    later, padded = ids.clone(), ids.clone()
    later[:, -1] = (ids[:, -1] + 1) % 90
    padded[1, -1] = (ids[1, -1] + 1) % 90
    assert not torch.allclose(states(variant, ids)[:, 0], states(variant, later)[:, 0], atol=1e-3)
    masked = {"attention_mask": padding("right")}
    seen = (states(variant, each, **masked)[1, :-PADDED] for each in (ids, padded))
    torch.testing.assert_close(*seen)


@attentions
@models
def test_texts_in_one_row_are_what_each_is_alone(classes, model, attention):
    _, variant_class = classes[model]
    ids, lengths = words()[:1], (5, 1, 6)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    ends = torch.tensor([0, 5, 6, 12], dtype=torch.int32)
    kernels = {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}
    with ATTENTIONS[attention]():
        variant = tiny(variant_class, attention, sliding_window=4)
        more = kernels if attention == "by_reference" else {}
        packed = states(variant, ids, position_ids=positions, **more)
        alone = [states(variant, text) for text in ids.split(lengths, 1)]
    torch.testing.assert_close(packed, torch.cat(alone, 1), rtol=1e-4, atol=1e-4)


@models
def test_a_cache_with_tokens_is_refused(classes, model):
    _, variant_class = classes[model]
    variant = tiny(variant_class, "sdpa")
    cache = DynamicCache(config=variant.config)
    variant.model(words(), past_key_values=cache)
    with pytest.raises(ValueError, match="takes no tokens from a cache"):
        variant.model(words(1), past_key_values=cache)


def test_a_step_learns_of_every_token(classes):
    _, variant_class = classes["llama"]
    variant = tiny(variant_class, "sdpa").train()
    embeds = torch.randn(2, LENGTH, variant.config.hidden_size, requires_grad=True)
    variant.model(inputs_embeds=embeds, use_cache=False).last_hidden_state[:, 0].sum().backward()
    assert embeds.grad.abs().sum(-1).min() > 0


@pytest.mark.slow
def test_it_compiles_to_one_graph(classes):
    _, variant_class = classes["llama"]
    variant = tiny(variant_class, "sdpa")
    wanted = states(variant, words())
    torch._dynamo.reset()
    variant.model.forward = torch.compile(
        variant.model.forward, backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(states(variant, words()), wanted, rtol=1e-4, atol=1e-4)


def test_files_name_the_mask_that_they_use(tmp_path):
    both_classes("llama", "bidirectional", "LlamaModel", tmp_path)
    text = next(Path(tmp_path).rglob("modeling_llama_bidirectional.py")).read_text()
    assert "sliding_window" not in text

"""The SDPA part alone, against attention written out."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    masking_utils,
)

from patchgen.parts.sdpa import (
    SdpaAroundModels,
    additive_mask,
    for_eager,
    sdpa,
    sdpa_attention,
    sink_attention,
    sum_of_terms,
)
from patchgen.verifying.observe.evidence import Trace
from patchgen.verifying.observe.recorder import listening

B, H, D = 2, 4, 8
SCALING = 0.7


def drawn(*shape):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    )


def written_out(query, key, value, mask):
    """Attention by definition; `mask` is None, bool or float."""
    groups = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3) * SCALING
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    return scores.softmax(-1) @ value.repeat_interleave(groups, 1)


def kept(queries, keys, heads=1):
    """A bool mask in which every query sees something."""
    mask = torch.rand(B, heads, queries, keys, generator=torch.Generator().manual_seed(7)) > 0.4
    mask[..., 0] = True
    return mask


def causal(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril()


CASES = {  # queries, keys, mask given, causal, mask meant
    "bidirectional": (5, 5, None, False, None),
    "cross": (5, 7, None, False, None),
    "causal": (5, 5, None, True, causal(5, 5)),
    "bool": (5, 7, kept(5, 7), False, kept(5, 7)),
    "bool for each head": (5, 7, kept(5, 7, H), False, kept(5, 7, H)),
    "float": (5, 7, drawn(B, 1, 5, 7), False, drawn(B, 1, 5, 7)),
    "a mask says all: causal does not count": (5, 5, kept(5, 5), True, kept(5, 5)),
    "one new query sees every key": (1, 7, None, True, None),
    "one new query, padded": (1, 7, kept(1, 7), True, kept(1, 7)),
    "one new query, a mask for each head": (1, 7, kept(1, 7, H), True, kept(1, 7, H)),
    "a static cache filled from empty": (5, 9, None, True, causal(5, 9)),
}


@pytest.mark.parametrize("heads", [4, 2, 1], ids=lambda n: f"{n} key heads")
@pytest.mark.parametrize(
    ("queries", "keys", "mask", "is_causal", "meant"), CASES.values(), ids=CASES
)
def test_sdpa_is_attention(heads, queries, keys, mask, is_causal, meant):
    query, key, value = (
        drawn(B, H, queries, D),
        drawn(B, heads, keys, D),
        drawn(B, heads, keys, D + 2),
    )
    with listening(trace := Trace()):
        out = sdpa(query, key, value, mask, causal=is_causal, scaling=SCALING, dropout=0.0)
    assert out.shape == (B, H, queries, D + 2)
    torch.testing.assert_close(out, written_out(query, key, value, meant), rtol=0, atol=1e-14)
    assert len(trace.sdpa) == 1
    copied = trace.sdpa[0].key[1] > heads
    assert not (copied and queries == 1), "no key is copied for one query"


@pytest.mark.parametrize("heads", [4, 2])
def test_key_heads_are_native_without_a_mask_only(heads):
    def native(mask, size):
        query, key = drawn(B, H, 5, size), drawn(B, heads, 5, size)
        with listening(trace := Trace()):
            sdpa(query, key, key, mask, causal=False, scaling=SCALING, dropout=0.0)
        return trace.sdpa[0].native_gqa

    assert native(None, 8) == (heads < H)
    assert not native(kept(5, 5), 8)
    assert not native(None, 264)


def test_gradients_reach_shared_keys_from_every_query_head():
    query, key, value = (drawn(B, h, 5, D).requires_grad_() for h in (H, 2, 2))
    for mask in (None, kept(5, 5)):
        ours = sdpa(query, key, value, mask, causal=False, scaling=SCALING, dropout=0.0)
        theirs = written_out(query, key, value, mask)
        upstream = drawn(*ours.shape)
        for got, wanted in zip(
            torch.autograd.grad(ours, (query, key, value), upstream),
            torch.autograd.grad(theirs, (query, key, value), upstream),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_an_additive_mask_is_what_transformers_makes_for_eager(dtype):
    from transformers import LlamaConfig
    from transformers.masking_utils import create_causal_mask

    states = torch.zeros(2, 5, 8, dtype=dtype)
    padded = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    query = torch.zeros(2, 4, 5, 2, dtype=dtype)
    for attention_mask in (None, padded):
        made = {
            name: create_causal_mask(
                LlamaConfig(attn_implementation=name), states, attention_mask, None
            )
            for name in ("sdpa", "eager")
        }
        ours = additive_mask(made["sdpa"], query, query, causal=True)
        assert ours.dtype == dtype and torch.equal(ours.expand(2, -1, -1, -1), made["eager"])


def module(attention="sdpa", is_causal=True, output_attentions=False):
    config = SimpleNamespace(_attn_implementation=attention, output_attentions=output_attentions)
    return SimpleNamespace(config=config, is_causal=is_causal)


def eager(module, query, key, value, mask, scaling, dropout, **kwargs):
    return "the parent's", mask


def call(owner, mask=None, **kwargs):
    states = drawn(B, H, 5, D)
    return sdpa_attention(
        owner, states, states, states, mask, eager, dropout=0.0, scaling=SCALING, **kwargs
    )


@pytest.mark.parametrize(
    ("owner", "kwargs"),
    [
        (module("eager"), {}),
        (module("sdpa"), {"output_attentions": True}),
        (module("sdpa", output_attentions=True), {}),
    ],
    ids=["eager", "asked for", "asked for by the configuration"],
)
def test_what_has_weights_comes_from_the_parent(owner, kwargs):
    assert call(owner, **kwargs)[0] == "the parent's"
    assert call(owner, kept(5, 5), **kwargs)[1].dtype == torch.float64, (
        "a bool mask would be added as zeros and ones"
    )
    # Under eager transformers makes a causal mask; none means that all keys are seen.
    assert (call(owner, **kwargs)[1] is None) == (owner.config._attn_implementation == "eager")


def test_a_module_that_does_not_say_whether_it_is_causal_is_an_error():
    # transformers takes it for causal, which an encoder then silently is.
    owner = module()
    del owner.is_causal
    with pytest.raises(AttributeError, match="is_causal"):
        call(owner)


@pytest.mark.parametrize("name", ["flash_attention_2", "flex_attention", "paged|eager", "mine"])
def test_another_implementation_is_refused(name):
    with pytest.raises(ValueError, match="Specified `attn_implementation=.* is not supported"):
        call(module(name))


@pytest.mark.parametrize(
    "name",
    [
        "create_causal_mask",
        "create_sliding_window_causal_mask",
        "create_bidirectional_mask",
        "create_bidirectional_sliding_window_mask",
    ],
)
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_a_mask_for_eager_is_the_one_that_transformers_makes_for_it(name, padded):
    make = getattr(masking_utils, name)
    given = torch.ones(B, 5, dtype=torch.long)
    given[0, :2] = 0
    states = torch.zeros(B, 5, D, dtype=torch.bfloat16)
    masks = {}
    for implementation in ("sdpa", "eager"):
        config = LlamaConfig(attn_implementation=implementation)
        config.sliding_window = 3
        masks[implementation] = for_eager(make)(
            config=config,
            inputs_embeds=states,
            attention_mask=given if padded else None,
            past_key_values=None,
        )
    wanted = make(
        config=config,
        inputs_embeds=states,
        attention_mask=given if padded else None,
        past_key_values=None,
    )
    for mask in masks.values():
        assert mask is wanted is None or torch.equal(mask, wanted) and mask.dtype == wanted.dtype
    assert "causal" not in name or wanted is not None


@pytest.mark.parametrize(
    "mask", [torch.ones(B, 5), torch.ones(B, 5, 5)], ids=["two axes", "three axes"]
)
def test_a_mask_of_another_form_is_refused(mask):
    with pytest.raises(ValueError, match="four dimensions"):
        call(module(), mask)


BIAS = drawn(1, H, 5, 7)
BIASED = {  # queries, keys, mask given, causal, mask meant
    "no mask": (5, 7, None, False, BIAS),
    "bool": (5, 7, kept(5, 7), False, BIAS.masked_fill(~kept(5, 7), -torch.inf)),
    "float": (5, 7, drawn(B, 1, 5, 7), False, BIAS + drawn(B, 1, 5, 7)),
    "causal, a static cache filled from empty": (
        5,
        7,
        None,
        True,
        BIAS.masked_fill(~causal(5, 7), -torch.inf),
    ),
    "one new query sees every key": (1, 7, None, True, BIAS[:, :, :1]),
}


@pytest.mark.parametrize(
    ("queries", "keys", "mask", "is_causal", "meant"), BIASED.values(), ids=BIASED
)
def test_a_position_bias_is_added_to_what_is_seen(queries, keys, mask, is_causal, meant):
    query, key, value = drawn(B, H, queries, D), drawn(B, H, keys, D), drawn(B, H, keys, D + 2)
    given = {"position_bias": BIAS[:, :, :queries], "dropout": 0.0, "scaling": SCALING}
    out, _ = sdpa_attention(module(is_causal=is_causal), query, key, value, mask, eager, **given)
    torch.testing.assert_close(
        out.transpose(1, 2), written_out(query, key, value, meant), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("name", ["softcap", "s_aux", "cache"])
def test_what_sdpa_does_not_compute_is_refused(name):
    with pytest.raises(NotImplementedError, match=name):
        call(module(), **{name: 1.0})
    call(module(), **{name: None})


SINKS = drawn(H)


@pytest.mark.parametrize("heads", [4, 2, 1], ids=lambda n: f"{n} key heads")
@pytest.mark.parametrize(
    ("queries", "keys", "mask", "is_causal", "meant"), CASES.values(), ids=CASES
)
def test_a_sink_is_a_key_that_is_no_tokens(heads, queries, keys, mask, is_causal, meant):
    query, key, value = (
        drawn(B, H, queries, D),
        drawn(B, heads, keys, D),
        drawn(B, heads, keys, D + 2),
    )
    sinks = SINKS.clone().requires_grad_()
    with listening(trace := Trace()):
        out, _ = sink_attention(
            module(is_causal=is_causal), query, key, value, mask, None, scaling=SCALING, s_aux=sinks
        )
    assert len(trace.sdpa) == 1
    meant = torch.ones(queries, keys, dtype=torch.bool) if meant is None else meant
    given = drawn(B, 1, queries, keys) if meant.dtype != torch.bool else 0.0
    seen = meant.expand(B, H, queries, keys) if meant.dtype == torch.bool else torch.tensor(True)
    scores = query @ key.repeat_interleave(H // heads, 1).transpose(2, 3) * SCALING + given
    column = SINKS.clone().requires_grad_()
    scores = torch.cat(
        [scores.masked_fill(~seen, -torch.inf), column.view(1, H, 1, 1).expand(B, H, queries, 1)],
        -1,
    )
    wanted = (scores.softmax(-1)[..., :-1] @ value.repeat_interleave(H // heads, 1)).transpose(1, 2)
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-14)
    (grad,) = torch.autograd.grad(out.square().sum(), sinks)
    (meant_grad,) = torch.autograd.grad(wanted.square().sum(), column)
    torch.testing.assert_close(grad, meant_grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "asked", [module("eager"), module(output_attentions=True)], ids=["eager", "weights"]
)
def test_weights_beside_sinks_come_from_the_parents_function(asked):
    given = []

    def parents(*args, s_aux, **kwargs):
        given.append(s_aux)
        return "the parent's", None

    states = drawn(B, H, 5, D)
    assert (
        sink_attention(asked, states, states, states, None, parents, s_aux=SINKS)[0]
        == "the parent's"
    )
    assert given == [SINKS]


class Eager(PreTrainedModel):
    config_class = LlamaConfig
    _supports_sdpa = False

    def __init__(self, config):
        super().__init__(config)
        self.post_init()


class Pair(PreTrainedConfig):
    sub_configs = {"inner": LlamaConfig, "bare": MistralConfig}

    def __init__(self, **kwargs):
        self.inner, self.bare = LlamaConfig(), MistralConfig()
        super().__init__(**kwargs)


class Outer(SdpaAroundModels, PreTrainedModel):
    config_class = Pair

    def __init__(self, config):
        super().__init__(config)
        self.inner = Eager._from_config(config.inner)
        self.post_init()


@pytest.mark.parametrize("asked", ["sdpa", "eager", None])
def test_a_model_inside_without_sdpa_takes_eager(asked):
    model = Outer._from_config(Pair(), **({"attn_implementation": asked} if asked else {}))
    wanted = asked or "sdpa"
    assert model.config._attn_implementation == wanted
    assert (
        model.inner.config._attn_implementation
        == model.config.inner._attn_implementation
        == "eager"
    )
    assert model.config.bare._attn_implementation == wanted  # no model inside decides it


def test_two_minima_hide_more_than_one():
    query = torch.zeros(1, 1, 2, 4)
    least = torch.finfo(torch.float32).min
    causal, padding = torch.tensor([[True, False], [True, True]]), torch.tensor([[[[least, 0.0]]]])
    mask = sum_of_terms([causal[None, None], padding], query, query)
    assert mask[0, 0].tolist() == [[least, least], [least, 0.0]]
    hidden = sum_of_terms([causal[None, None], padding.flip(-1)], query, query)
    assert hidden[0, 0].tolist() == [[0.0, -torch.inf], [0.0, least]]

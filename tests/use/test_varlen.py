"""The attention implementation "varlen" computes what transformers' own do, in every way of calling it."""

import copy
import inspect

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patchgen.runtime import varlen
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.varlen import Form, Texts, attend, by_rows
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights

EXACT = 1e-12
LENGTHS = [4, 1, 0, 6]
FORMS = [
    Form(False),
    Form(True),
    Form(False, 1.3),
    Form(True, window=2),
    Form(True, window=9),
    Form(False, window=2),
]


def drawn(groups=4, lengths=LENGTHS):
    torch.manual_seed(0)
    total = sum(lengths)
    states = [
        torch.randn(total, n, 8, dtype=torch.float64, requires_grad=True)
        for n in (4, groups, groups)
    ]
    return *states, Texts(torch.tensor([0, *lengths]).cumsum(0).int(), max(lengths))


def written_out(query, key, value, texts, form):
    """Softmax over a block-diagonal mask: every step by hand."""
    key, value = (
        each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value)
    )
    scaling = query.shape[-1] ** -0.5 if form.scaling is None else form.scaling
    place = torch.arange(len(query))
    text = (place[:, None] >= texts.cu_seqlens_N1[1:]).sum(1)
    back = place[:, None] - place
    visible = text[:, None] == text
    visible = visible & (back >= 0) if form.causal else visible
    visible = visible & (back.abs() < form.window) if form.window is not None else visible
    scores = (torch.einsum("qhd,khd->hqk", query, key) * scaling).masked_fill(~visible, -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    "lengths", [LENGTHS, [5, 5, 5], [9, *[1] * 9]], ids=["ragged", "equal", "one block"]
)
@pytest.mark.parametrize("groups", [4, 2])
def test_it_is_attention_within_each_text(form, lengths, groups):
    given = drawn(groups, lengths)
    weights = torch.randn_like(given[0])
    ours, theirs = attend(*given, form), written_out(*given, form)
    gradients = (torch.autograd.grad((out * weights).sum(), given[:3]) for out in (ours, theirs))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=EXACT)
    torch.testing.assert_close(*gradients, rtol=0, atol=EXACT)


# torch's documentation of 2.10, of main after it, and of 2.12.
def varlen_of_2_10(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None
): ...


def varlen_of_2_11(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
): ...


def varlen_of_2_12(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
): ...


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("release", [varlen_of_2_10, varlen_of_2_11, varlen_of_2_12])
def test_torch_is_called_in_the_words_of_its_release(form, release, monkeypatch):
    """No CPU has the kernels: a function that takes what the release takes stands for them."""
    signature, calls = inspect.signature(release), []

    def kernel(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        calls.append(arguments)
        assert arguments["query"].shape[1] == arguments["key"].shape[1] or arguments.get(
            "enable_gqa"
        )
        left, right = arguments.get("window_size", (-1, -1))
        asked = Form(
            arguments.get("is_causal", False) or right == 0,
            arguments.get("scale"),
            0.0,
            None if left < 0 else left + 1,
        )
        return written_out(
            arguments["query"],
            arguments["key"],
            arguments["value"],
            Texts(arguments["cu_seq_q"], arguments["max_q"]),
            asked,
        )

    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    monkeypatch.setattr(varlen, "_OPTIONS", frozenset(signature.parameters))
    monkeypatch.setattr(varlen, "fits_kernels", lambda *given: True)
    given = drawn(2)
    torch.testing.assert_close(attend(*given, form), by_rows(*given, form), rtol=0, atol=EXACT)
    assert bool(calls) == (form.window is None or release is not varlen_of_2_10)


def test_the_installed_release_is_one_of_them():
    known = (
        set(inspect.signature(each).parameters)
        for each in (varlen_of_2_10, varlen_of_2_11, varlen_of_2_12)
    )
    used = {"is_causal", "window_size", "scale", "enable_gqa"}
    assert varlen._OPTIONS & used in [each & used for each in known] or not varlen._OPTIONS


def test_kernels_run_without_dropout_in_half_precision_on_a_gpu():
    states = [torch.zeros(3, 2, 8)] * 3
    assert not varlen.fits_kernels(*states, torch.bfloat16)


def llamas(**changes):
    """Transformers' own Llama, by SDPA and by "varlen"."""
    made = []
    for implementation in ("sdpa", "varlen"):
        config = copy.deepcopy(tiny_config("llama", **changes))
        config._attn_implementation = implementation
        made.append(transformers.LlamaForCausalLM(config).double().eval())
    draw_weights(made[0])
    made[1].load_state_dict(made[0].state_dict())
    return made


@pytest.mark.parametrize("rows", ["none", "right", "left"])
def test_any_model_takes_it(rows):
    theirs, ours = llamas()
    words = batch(rows)
    asked = {
        "input_ids": words.input_ids,
        "attention_mask": words.attention_mask,
        "use_cache": False,
    }
    real = words.real
    torch.testing.assert_close(
        ours(**asked).logits[real], theirs(**asked).logits[real], rtol=0, atol=EXACT
    )


def test_packed_texts_of_several_rows_are_isolated():
    theirs, ours = llamas()
    ids = batch().input_ids
    positions = torch.tensor([[*range(6), *range(7)]] * len(ids))
    asked = {"input_ids": ids, "position_ids": positions, "use_cache": False}
    torch.testing.assert_close(ours(**asked).logits, theirs(**asked).logits, rtol=0, atol=EXACT)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("rows", ["none", "left"])
def test_it_generates(cache, rows):
    theirs, ours = llamas()
    words = batch(rows)
    asked = {
        "input_ids": words.input_ids,
        "max_new_tokens": 5,
        "do_sample": False,
        "cache_implementation": cache,
    }
    if words.attention_mask is not None:
        asked["attention_mask"] = words.attention_mask
    for model in (theirs, ours):
        model.generation_config.disable_compile = True
    assert torch.equal(ours.generate(**asked), theirs.generate(**asked))


def test_what_it_does_not_compute_is_refused():
    config = tiny_config("gemma2")
    config._attn_implementation = "varlen"
    with pytest.raises(ValueError, match="softcap"):
        transformers.Gemma2ForCausalLM(config)(batch().input_ids)


def test_an_encoder_may_have_fewer_tokens_than_the_decoder():
    query, key, value = (torch.randn(2, 4, tokens, 8) for tokens in (13, 7, 7))
    found, _ = varlen.varlen_attention(torch.nn.Module(), query, key, value, None, is_causal=False)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(found.transpose(1, 2), expected)


def test_a_mask_of_four_axes_is_refused():
    states = torch.randn(2, 4, 7, 8)
    with pytest.raises(
        ValueError, match=r"takes a mask of \(rows, tokens\), not of \(2, 1, 7, 7\)"
    ):
        varlen.varlen_attention(torch.nn.Module(), states, states, states, torch.ones(2, 1, 7, 7))

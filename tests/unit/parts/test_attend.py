"""SDPA in the place of an attention that is written out, against that attention."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.parts.sdpa import TellsConfig, attend, blank_scores, wants_weights

B, H, L, S, D = 2, 3, 5, 7, 4


def drawn(*shape):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    )


def visible(*shape):
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[..., 0] = True
    return mask


def least(mask):
    return torch.where(mask, torch.zeros((), dtype=torch.float64), torch.finfo(torch.float64).min)


QUERY, KEY, VALUE = drawn(B, H, L, D), drawn(B, H, S, D), drawn(B, H, S, D + 1)
MASK, BIAS = visible(B, 1, L, S), drawn(1, H, L, S)
CASES = {  # what is passed, what is added to the scores
    "nothing": ((None,), 0.0),
    "a bool mask": ((MASK,), least(MASK)),
    "two bool masks": ((MASK, visible(B, H, 1, S)), least(MASK & visible(B, H, 1, S))),
    "a float mask and a bias": ((least(MASK), BIAS), least(MASK) + BIAS),
    "a bool mask and a bias": ((MASK, BIAS), least(MASK) + BIAS),
    "a bias that is not given": ((least(MASK), None), least(MASK)),
    "a mask of one query": ((visible(B, 1, 1, S),), least(visible(B, 1, 1, S))),
}


def written_out(added):
    return (QUERY @ KEY.transpose(2, 3) * 0.7 + added).softmax(-1) @ VALUE


@pytest.mark.parametrize(("terms", "added"), CASES.values(), ids=CASES)
def test_attend_is_what_was_written_out(terms, added):
    torch.testing.assert_close(attend(QUERY, KEY, VALUE, *terms, scaling=0.7), written_out(added))


@pytest.mark.parametrize(
    "bias", [BIAS.expand(B, -1, -1, -1), BIAS.expand(B, -1, -1, -1).flatten(0, 1)], ids=["4", "3"]
)
def test_folded_heads_give_a_folded_output(bias):
    states = [x.flatten(0, 1) for x in (QUERY, KEY, VALUE)]
    output = attend(*states, least(MASK), bias, scaling=0.7, heads=H)
    torch.testing.assert_close(output, written_out(least(MASK) + BIAS).flatten(0, 1))


def test_blank_scores_add_nothing_in_the_form_of_scores():
    torch.testing.assert_close(blank_scores(QUERY, KEY), 0 * QUERY @ KEY.transpose(2, 3))


def test_windows_have_their_own_masks():
    mask = least(visible(2, L, S))[None, :, None]
    torch.testing.assert_close(attend(QUERY, KEY, VALUE, mask, scaling=0.7), written_out(mask[0]))


def test_more_axes_than_four():
    states = [x[:, :, None].expand(-1, -1, 2, -1, -1) for x in (QUERY, KEY, VALUE)]
    torch.testing.assert_close(attend(*states, scaling=0.7)[:, :, 1], written_out(0.0))


@pytest.mark.parametrize("bias", [None, drawn(1, H, L, L)], ids=["alone", "with a bias"])
def test_causal_without_a_mask(bias):
    key, value = KEY[:, :, :L], VALUE[:, :, :L]
    added = least(torch.ones(L, L, dtype=torch.bool).tril()) + (0.0 if bias is None else bias)
    expected = (QUERY @ key.transpose(2, 3) + added).softmax(-1) @ value
    torch.testing.assert_close(attend(QUERY, key, value, None, bias, causal=True), expected)


def test_a_row_of_which_nothing_is_seen_is_the_mean():
    hidden = torch.full((B, 1, L, S), torch.finfo(torch.float64).min, dtype=torch.float64)
    output = attend(QUERY, KEY, VALUE, hidden, hidden)
    torch.testing.assert_close(output, VALUE.mean(2, keepdim=True).expand(-1, -1, L, -1))


def test_the_bias_gets_its_gradient():
    bias = BIAS.clone().requires_grad_()
    attend(QUERY, KEY, VALUE, least(MASK), bias).square().sum().backward()
    other = BIAS.clone().requires_grad_()
    (
        (QUERY @ KEY.transpose(2, 3) + least(MASK) + other).softmax(-1) @ VALUE
    ).square().sum().backward()
    torch.testing.assert_close(bias.grad, other.grad)


def test_a_value_of_another_dtype_gives_the_dtype():
    assert attend(QUERY.float(), KEY.float(), VALUE.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("implementation", "asked", "wanted"),
    [("sdpa", False, False), ("eager", False, True), ("sdpa", True, True), ("sdpa", None, False)],
)
def test_who_wants_weights(implementation, asked, wanted):
    config = SimpleNamespace(_attn_implementation=implementation, output_attentions=False)
    assert wants_weights(SimpleNamespace(config=config), asked) is wanted


def test_other_implementations_are_refused():
    config = SimpleNamespace(_attn_implementation="flash_attention_2", output_attentions=False)
    with pytest.raises(ValueError, match="flash_attention_2"):
        wants_weights(SimpleNamespace(config=config))


def test_an_attention_without_a_configuration_gets_that_of_its_model():
    class Parent(torch.nn.Module):
        def post_init(self):
            self.is_ready = True

    class Model(TellsConfig, Parent):
        pass

    class Attention(torch.nn.Module):
        config = None

    class LaterAttention(Attention):
        pass

    model = Model()
    model.config, model.layers = object(), torch.nn.ModuleList([Attention(), LaterAttention()])
    model.other, model.layers[1].config = torch.nn.Identity(), "its own"
    model.post_init()
    assert model.is_ready
    assert model.layers[0].config is model.config
    assert model.layers[1].config == "its own" and not hasattr(model.other, "config")

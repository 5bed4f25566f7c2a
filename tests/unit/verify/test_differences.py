"""The instruments of the parity tests: what they must see, and what they must not."""

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForCausalLM
from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.differences import (
    GRADIENT_FLOOR,
    differences,
    find_other_dtypes,
    measure_in_noise,
    nearer,
    usual,
    worst,
)
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.evidence import Trace
from patchgen.verifying.observe.recorder import listening
from tests.parity.observed import observe, rounding


def test_names_that_a_model_has_of_its_own_are_found():
    assert (
        tiny_config("gpt2").n_embd,
        tiny_config("gpt2").n_layer,
        tiny_config("gpt2").attn_pdrop,
    ) == (32, 3, 0.0)


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        pytest.param("bart", "encoder_attention_heads", 4, id="of an encoder"),
        pytest.param(
            "roc_bert", "shape_vocab_size", 97, id="a large size by what its name ends with"
        ),
        pytest.param("glm4_moe", "n_group", 3, id="groups that divide the experts"),
        pytest.param("esmc", "num_key_value_heads", 4, id="conceded: a key for every head"),
        pytest.param("deepseek_v3", "num_key_value_heads", 4, id="latent attention"),
        pytest.param("zamba2", "num_hidden_layers", 3, id="a list of layers cut"),
    ],
)
def test_sizes_that_hang_together_do(model, name, value):
    assert getattr(tiny_config(model), name) == value


def test_a_refusal_is_the_configurations_own():
    with pytest.raises(Exception, match="blank_token_id"):
        tiny_config("nemo_speechlm")


def test_equal_names_get_equal_weights_and_none_is_left_at_its_start():
    one, two = GPT2LMHeadModel(tiny_config("gpt2")), GPT2LMHeadModel(tiny_config("gpt2")).double()
    for model in (one, two):
        draw_weights(model)
    for (name, a), b in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b.float()), name
        assert a.std() > 0.05 and not (a == 0).any() and not (a == 1).any(), name


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_scores_spread_where_the_usual_weights_leave_them_uniform(model_type):
    model = AutoModelForCausalLM.from_config(tiny_config(model_type)).eval()
    spread = []
    for weights in (lambda model: None, draw_weights):
        weights(model)
        with listening(trace := Trace()):
            model(**batch().inputs())
        spread.append([call.scores_std for call in trace.sdpa])
    assert max(spread[0]) < 0.1 and min(spread[1]) > 1


@pytest.mark.parametrize("padding", ["right", "left"])
def test_padding_is_where_it_should_be_and_no_label_rests_on_it(padding):
    given = batch(padding)
    assert torch.equal(given.real, given.attention_mask.bool())
    assert given.real[0].all() and not given.real[1:].all(1).any()
    assert given.real[:, 0].all() == (padding == "right")
    labelled = given.labels != -100
    assert labelled.any() and not (labelled & ~given.real).any()
    assert not (labelled[:, 1:] & ~given.real[:, :-1]).any(), (
        "a causal model predicts the next token"
    )


def test_a_difference_is_relative_to_its_own_tensor():
    reference = {"logits": torch.tensor([100.0, 1.0])}
    (found,) = differences(reference, {"logits": torch.tensor([100.0, 3.0])})
    assert (found.largest, found.where) == (0.02, (1,))


def test_a_gradient_that_is_rounding_is_measured_against_the_largest():
    reference = {"gradient of w": torch.tensor([1.0]), "gradient of key bias": torch.tensor([1e-9])}
    candidate = {
        "gradient of w": torch.tensor([1.0]),
        "gradient of key bias": torch.tensor([-1e-9]),
    }
    assert worst(differences(reference, candidate)) == pytest.approx(2e-9 / GRADIENT_FLOOR)


@pytest.mark.parametrize(
    "candidate",
    [{}, {"logits": torch.ones(3)}, {"logits": torch.tensor([1.0, math.nan])}],
    ids=["missing", "another shape", "nan"],
)
def test_what_cannot_be_compared_is_infinitely_far(candidate):
    assert worst(differences({"logits": torch.ones(2)}, candidate)) == math.inf
    assert worst(differences(candidate, {"logits": torch.ones(2)})) == math.inf


def test_nothing_compared_is_no_pass():
    assert worst(differences({}, {})) == math.inf


def test_a_parameter_without_a_gradient_is_seen():
    config = tiny_config("gpt2")
    one, two = GPT2LMHeadModel(config), GPT2LMHeadModel(config)
    for model in (one, two):
        draw_weights(model)
    two.transformer.h[1].ln_1.bias.requires_grad_(False)
    found = differences(observe(one, batch()), observe(two, batch()))
    assert [d.name for d in found if d.largest] == ["gradient of transformer.h.1.ln_1.bias"]


def test_the_bound_is_that_of_the_coarsest_dtype():
    assert (
        rounding(torch.float64) < rounding(torch.float64, torch.float32) == rounding(torch.float32)
    )


def test_calls_are_counted_where_python_makes_them():
    states = torch.randn(2, 4, 5, 8, dtype=torch.float64)
    with listening(trace := Trace()):
        F.scaled_dot_product_attention(states, states, states)  # its own softmax does not count
        F.scaled_dot_product_attention(
            query=states, key=states, value=states, attn_mask=torch.zeros(5, 5)
        )
        nn.Softmax(dim=-1)(F.softmax(torch.softmax(states.softmax(-1), -1), dim=-1))
        F.softmax(states[0, 0], dim=-1)
    assert [call.mask for call in trace.sdpa] == ["none", "float"]
    assert trace.softmaxes_over(8) == 4
    assert len(trace.softmaxes) == 5


def test_a_bias_without_a_gradient_is_measured_in_the_noise_of_its_matrix():
    generator = torch.Generator().manual_seed(0)

    def observed(noise, bias):
        weight = torch.ones(8, 8) + noise * torch.randn(8, 8, generator=generator)
        return {
            "gradient of k.weight": weight,
            "gradient of k.bias": bias * torch.ones(8),
            "logits": torch.ones(3),
        }

    def differ(truth, narrow, candidate):
        wide, one, other = (
            observed(0, truth),
            observed(1e-2, truth + narrow),
            observed(1e-2, truth + candidate),
        )
        found = measure_in_noise(differences(one, other), differences(wide, one))
        return next(each.largest for each in found if each.name == "gradient of k.bias")

    assert differ(1e-9, 1e-5, 1e-3) < 2  # a tenth of the matrix's, a hundred times its own
    assert differ(1e-9, 1e-5, 1e-1) > 2  # a gradient that is not there
    assert differ(1e-3, 1e-5, 1e-1) > 2
    assert differ(1e-1, 1e-5, 1e-1 + 1e-3) > 2  # a gradient that is there


def test_a_noise_that_is_small_by_chance_is_taken_from_other_texts():
    def noise(**sizes):
        truth = {f"gradient of {name}": torch.ones(4) for name in sizes}
        return differences(
            truth, {f"gradient of {name}": torch.ones(4) + size for name, size in sizes.items()}
        )

    def found(*draws):
        return {
            each.name.removeprefix("gradient of "): round(each.rms, 6) for each in usual(*draws)
        }

    own = noise(lucky=0.01, unlucky=0.09, alone=0.01, rare=0.02)
    others = (
        noise(lucky=0.03, unlucky=0.03, rare=torch.inf),
        noise(lucky=0.02, unlucky=0.02, rare=0.01),
    )
    # An own noise that is large stays: what was drawn here is what the variant meets.
    assert found(own, *others) == {"lucky": 0.02, "unlucky": 0.09, "alone": 0.01, "rare": 0.02}


def test_a_variant_on_the_other_side_of_the_truth_is_held_against_the_truth():
    """Parent and variant are one rounding from it each; what is wrong is far from both."""
    wide = {"logits": torch.ones(4), "loss": torch.ones(1)}
    narrow = {"logits": torch.ones(4) * 1.01, "loss": torch.ones(1) * 1.01}
    noise = differences(wide, narrow)

    def differ(logits, loss):
        observed = {"logits": torch.ones(4) * logits, "loss": torch.ones(1) * loss}
        found = nearer(
            measure_in_noise(differences(narrow, observed), noise),
            measure_in_noise(differences(wide, observed), noise),
        )
        return {each.name: round(each.largest, 1) for each in found}

    assert differ(logits=0.99, loss=1.01) == {"logits": 1.0, "loss": 0.0}
    assert differ(logits=1.05, loss=0.9) == {"loss": 10.0, "logits": 4.0}


def test_what_the_reference_gives_as_no_number_is_no_pass():
    """It skips tensors that one dtype lacks, such as the gradient of an expert without tokens."""
    wide = {"logits": torch.ones(4), "loss": torch.ones(1), "gradient of expert": torch.ones(2)}
    narrow = {"logits": torch.ones(4) * 1.01, "loss": torch.tensor([math.nan])}
    candidate = {
        "logits": torch.ones(4) * 1.02,
        "loss": torch.ones(1),
        "gradient of expert": torch.ones(2),
    }
    found = {
        each.name: each.largest
        for each in measure_in_noise(differences(narrow, candidate), differences(wide, narrow))
    }
    assert found == {"loss": math.inf, "logits": pytest.approx(0.99, abs=0.02)}


def test_what_is_no_number_on_either_side_and_the_same_is_equal():
    hidden = {"logits": torch.tensor([1.0, -math.inf])}
    (found,) = measure_in_noise(
        differences(hidden, hidden),
        differences({"logits": torch.tensor([1.01, -math.inf])}, hidden),
    )
    assert found.largest == 0


def test_equal_values_in_another_dtype_are_reported():
    wide, narrow = (
        {"logits": torch.ones(2, dtype=dtype)} for dtype in (torch.float32, torch.bfloat16)
    )
    assert worst(differences(wide, narrow)) == 0
    (found,) = find_other_dtypes(wide, narrow | {"more": torch.ones(1)})
    assert found.largest == math.inf and "logits, torch.bfloat16 for torch.float32" in str(found)
    assert not find_other_dtypes(wide, wide)

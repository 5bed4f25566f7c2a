"""What counts as attention, as a layer that ran again, and as something remembered."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import AltCLIPModel, LlamaForCausalLM, LlamaForSequenceClassification
from transformers.models.bark.modeling_bark import BarkCoarseModel

from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.evidence import Evidence, Trace, gather_evidence
from patchgen.verifying.observe.recorder import listening
from patchgen.verifying.observe.step import kept, outputs
from patchgen.verifying.parts.attention import sdpa_effect
from patchgen.verifying.parts.part_check import Scenario

STATES = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def gate(states):
    return nn.Linear(8, 5)(states)


def scores(states):
    return nn.Linear(8, 8)(states) @ nn.Linear(8, 8)(states).transpose(1, 2)


def biased(states):
    return scores(states) / 2 + nn.Linear(8, 1)(states)


def additive(states):
    """Bahdanau's: of a query and a key, though no product of the two."""
    query, key = nn.Linear(8, 8)(states), nn.Linear(8, 8)(states)
    return (query[:, :, None] * key[:, None]).sum(-1)


@pytest.mark.parametrize(
    ("made", "seen"),
    [
        pytest.param(gate, 0, id="a gate is no attention"),
        pytest.param(scores, 1, id="queries with keys"),
        pytest.param(biased, 1, id="with a bias that is projected"),
        pytest.param(additive, 1, id="of two projections"),
    ],
)
def test_a_softmax_is_attention_where_two_things_are_held_against_each_other(made, seen):
    with listening(trace := Trace()):
        made(STATES).softmax(-1)
    assert trace.softmaxes_over(5) == seen


class Half(nn.Module):
    def forward(self, states):
        nn.functional.scaled_dot_product_attention(*[states[None]] * 3)
        return (states.transpose(1, 2) @ states).softmax(-1)


def test_a_softmax_of_another_length_beside_sdpa_is_seen():
    with listening((evidence := Evidence()).trace):
        Half()(STATES)
    said = list(sdpa_effect(evidence, evidence, SimpleNamespace(lengths=())))
    assert said == ["1 calls of SDPA for 2 attentions", "1 softmaxes over scores"]


def test_a_convolution_gives_values_as_large_as_it_got():
    conv = nn.Conv2d(16, 16, 3)
    draw_weights(conv)
    image = torch.randn(4, 16, 32, 32, generator=torch.Generator().manual_seed(0))
    assert 0.9 < (conv(image) - conv.bias[:, None, None]).std() < 1.8


def test_a_scale_of_each_head_is_positive_and_not_one():
    model = nn.Module()
    model.logit_scale = nn.Parameter(torch.zeros(64, 1, 1))
    draw_weights(model)
    assert (model.logit_scale > 0).all() and 0.2 < model.logit_scale.std() < 0.4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, states):
        return self.linear(states)


class Model(nn.Module):
    """Two layers, the second of which changes no output, and a module outside of both."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(8, 8)

    def forward(self, states):
        used, unused = (checkpoint(layer, states, use_reentrant=False) for layer in self.layers)
        return self.head(used)


def test_a_layer_that_runs_again_is_counted_and_one_without_a_gradient_does_not():
    model = Model()
    with gather_evidence(model) as evidence:
        model(STATES).sum().backward()
    assert evidence.runs_of("Linear") == 4  # the used layer's twice, the unused one's once


class Cache:
    def __init__(self):
        self.values = []


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = Cache()

    def forward(self, states):
        self.cache.values.append(states)
        return states


def test_what_a_model_remembers_of_a_step_is_forgotten():
    model = Remembers()
    with kept(model):
        model(STATES)
        assert model.cache.values
    assert not model.cache.values


def test_outputs_lie_where_their_paths_say():
    one = torch.ones(1)
    assert [name for name, _ in outputs({"logits": one, "states": (one, {"last": one})})] == [
        "logits",
        "states.0",
        "states.1.last",
    ]


@pytest.mark.parametrize(
    ("model_class", "labelled"),
    [
        pytest.param(LlamaForCausalLM, True, id="a language model"),
        pytest.param(LlamaForSequenceClassification, True, id="a class made by a base"),
        pytest.param(BarkCoarseModel, False, id="labels are an error"),
    ],
)
def test_labels_are_given_where_they_are_taken(model_class, labelled):
    given = make_inputs(model_class, tiny_config(model_class.config_class), Scenario()).given
    assert ("labels" in given) == labelled


def test_a_text_beside_an_image_ends_where_its_padding_begins():
    config = tiny_config(AltCLIPModel.config_class)
    ids = make_inputs(AltCLIPModel, config, Scenario(rows="right")).given["input_ids"]
    real = batch("right").real
    ends = [row[kept][-1].item() for row, kept in zip(ids, real, strict=True)]
    assert ends == [config.text_config.eos_token_id] * len(ends)

"""Packed texts in recurrent layers: each gets what it gets alone, which the parent does not give."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.parts.packed import run_texts_apart
from patchgen.verifying.models.build import draw_weights
from tests.drafts import both_classes, tiny

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTHS = (5, 1, 7)
# A short convolution beside attention, and a state space alone, which takes no positions.
MODELS = {"lfm2": "Lfm2ForCausalLM", "mamba2": "Mamba2ForCausalLM"}
models = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    home = tmp_path_factory.mktemp("packed")
    built = {}
    for model, head in MODELS.items():
        pair = [tiny(each, "eager") for each in both_classes(model, "packed", head, home / model)]
        for each in pair:
            draw_weights(each, 0)
            each.eval()
        built[model] = pair
    return built


def words(rows=1):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(3, 90, (rows, sum(LENGTHS)), generator=generator)


def positions():
    return torch.cat([torch.arange(length) for length in LENGTHS])[None]


def lengths(rows=1):
    ends = torch.tensor([0, *LENGTHS * rows]).cumsum(0).int()
    told = dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), ends)
    return told | dict.fromkeys(("max_length_q", "max_length_k"), max(LENGTHS))


def alone(model, ids):
    return torch.cat([model(text, use_cache=False).logits for text in ids.split(LENGTHS, 1)], 1)


@models
@pytest.mark.parametrize("way", ["lengths", "positions"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_text_gets_what_it_gets_alone(both, model, way, rows):
    parent, variant = both[model]
    ids = words(rows)
    told = {"position_ids": positions().expand(rows, -1)}
    if way == "lengths":
        told |= lengths(rows)
    expected = alone(parent, ids)
    torch.testing.assert_close(variant(ids, **told).logits, expected)
    mixed = parent(ids, use_cache=False, **told).logits
    assert not torch.allclose(mixed, expected, rtol=1e-2, atol=1e-2)


@models
def test_gradients_are_those_of_the_texts_alone(both, model):
    parent, variant = both[model]
    of_texts = torch.autograd.grad(alone(parent, words()).sum(), [*parent.parameters()])
    packed = variant(words(), position_ids=positions(), **lengths()).logits
    of_a_row = torch.autograd.grad(packed.sum(), [*variant.parameters()])
    torch.testing.assert_close(of_a_row, of_texts, rtol=1e-3, atol=1e-3)


@models
def test_one_text_a_row_is_the_parents(both, model):
    parent, variant = both[model]
    ids = words(2)
    counted = torch.arange(ids.shape[1])[None]
    expected = parent(ids).logits
    assert variant(ids).logits.equal(expected)
    torch.testing.assert_close(variant(ids, position_ids=counted).logits, expected)


@models
def test_a_cache_of_packed_texts_is_refused(both, model):
    _, variant = both[model]
    name = "past_key_values" if model == "lfm2" else "cache_params"
    cache = variant(words())[name]
    with pytest.raises(ValueError, match="texts in one row need use_cache=False"):
        variant(words(), **{name: cache}, **lengths())


def test_lengths_that_are_told_need_no_look_at_them():
    states = torch.empty(1, sum(LENGTHS), 8, device="meta")
    told = {
        name: each.to("meta") if torch.is_tensor(each) else each for name, each in lengths().items()
    }
    given = []

    def layer(rows, **kwargs):
        given.append((rows.shape, kwargs))
        return rows

    # On meta tensors, a value that is read is an error.
    output = run_texts_apart(layer, states, attention_mask=states, **told)
    assert output.shape == states.shape
    assert given == [((len(LENGTHS), max(LENGTHS), 8), {"attention_mask": None})]

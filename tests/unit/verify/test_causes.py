"""What counts as given otherwise: floats, masks, positions, flags, and what is not given at all."""

from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn

from patchgen.verifying.case_runner import _Compare, _find_cause, _record_calls
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.parts.part_check import Scenario

NAMES = ("x", "mask", "places", "causal", "kwargs")
X, MASK = torch.ones(2, 3), torch.zeros(1, 1, 3, 3)
PLACES = torch.arange(3)[None]
GIVEN = {"x": X, "mask": MASK, "places": PLACES, "causal": True}
OTHERS = {
    "x": X + 1,
    "mask": MASK.index_fill(3, torch.tensor([2]), -1e9),
    "places": PLACES + 1,
    "causal": False,
}


class Layer(nn.Module):
    def forward(self, x, mask=None, places=None, causal=True, **kwargs):
        x.add_(1)
        return x * (2 if mask is None else 3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, given):
        return self.layer(**{**given, "x": given["x"].clone()})


def call(given):
    return _record_calls(Model(), lambda model: model(given))["layer", 1]


def is_alike(ours, theirs, *, is_exact=True):
    return _Compare(1e-8, is_exact).is_given_alike(call(ours), call(theirs))


def test_the_same_is_the_same_also_what_a_layer_changes_in_place():
    assert is_alike(GIVEN, GIVEN)
    assert is_alike({"x": X}, {"x": X, "mask": None})


@pytest.mark.parametrize("name", OTHERS)
def test_another_value_is_seen(name):
    assert not is_alike({**GIVEN, name: OTHERS[name]}, GIVEN)


@pytest.mark.parametrize("name", ["mask", "places"])
def test_none_is_another_value_than_a_tensor(name):
    less = {key: value for key, value in GIVEN.items() if key != name}
    for given in (less, {**GIVEN, name: None}):
        assert not is_alike(given, GIVEN) and not is_alike(GIVEN, given)


def test_a_keyword_that_is_lost_is_seen():
    assert not is_alike(GIVEN, {**GIVEN, "cache_position": PLACES})


def test_another_attention_may_need_no_mask():
    assert is_alike({**GIVEN, "mask": None}, GIVEN, is_exact=False)
    assert not is_alike({**GIVEN, "places": PLACES + 1}, GIVEN, is_exact=False)


def test_a_case_that_the_model_does_not_take_has_no_cause():
    def refuse(*given):
        raise CannotBuild("its forward takes no token_type_ids")

    pair = Mock(inputs=refuse)
    assert _find_cause(Mock(kind="numbers", dtype="float32", scenario=Scenario()), pair) == ""

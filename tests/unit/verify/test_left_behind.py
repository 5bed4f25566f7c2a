"""What a forward pass leaves on a model does not reach the next case."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.models.pair import state_of, take_back


class Keeping(torch.nn.Module):
    """Keeps its last input, as Qwen3-VL keeps `rope_deltas`, and one that it had no name for."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.table = torch.arange(3)
        self.last = None

    def forward(self, x):
        self.last, self.further, self.table = x, x + 1, self.table + 1
        return x * self.scale


def test_tensors_that_a_forward_keeps_are_taken_back():
    model = torch.nn.Sequential(Keeping())
    state = state_of(model)
    table = model[0].table
    with torch.no_grad():
        model(torch.zeros(2))
        model[0].scale.fill_(3.0)
    model[0].note = "stays"
    take_back(model, state)
    assert model[0].last is None and not hasattr(model[0], "further")
    assert model[0].table is table
    assert model[0].scale == 3.0 and model[0].note == "stays"

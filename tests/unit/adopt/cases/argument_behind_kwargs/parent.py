"""A toy."""

from torch import nn


class ToyLayer(nn.Module):
    def forward(self, hidden_states, mask=None, **kwargs):
        return hidden_states


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyLayer(number) for number in range(config.layers)])
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.third = nn.Linear(4, 4)

    def forward(self, hidden_states, mask=None, **kwargs):
        hidden_states = self.first(hidden_states)
        hidden_states = self.second(hidden_states)
        hidden_states = self.third(hidden_states)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask=mask, **kwargs)
        return hidden_states

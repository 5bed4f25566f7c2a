from torch import nn


class ToyExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden, config.hidden)
        self.down = nn.Linear(config.hidden, config.hidden)

    def forward(self, x):
        hidden = self.up(x)
        hidden = nn.functional.silu(hidden)
        hidden = nn.functional.dropout(hidden, p=0.1, training=self.training)
        return self.down(hidden)

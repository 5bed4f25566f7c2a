from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer


class ToyLayer(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden)

    def forward(self, x):
        x = self.norm(x)
        return x + x.mean(-1, keepdim=True)


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = ToyLayer(config)

    def forward(self, x):
        return self.layer(x)

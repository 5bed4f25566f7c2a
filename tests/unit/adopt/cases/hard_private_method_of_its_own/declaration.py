"""A fork."""

from torch import nn

from transformers.models.toy import modeling_toy as toy


class ToyExperts(toy.ToyExperts):
    def forward(self, x):
        if x.shape[0] == 0:
            return x
        return self._forward_of_ToyExperts(x) * 2

    def _forward_of_ToyExperts(self, x):
        hidden = self.up(x)
        hidden = nn.functional.gelu(hidden)
        hidden = nn.functional.dropout(hidden, p=0.1, training=self.training)
        return self.down(hidden)

"""A fork."""

from transformers.models.toy import modeling_toy as toy


class ToyExperts(toy.ToyExperts):
    def forward(self, x):
        if x.shape[0] == 0:
            return x
        return super().forward(x) * 2

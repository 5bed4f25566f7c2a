"""A fork."""

from transformers.models.toy import modeling_toy as toy


class ToyModel(toy.ToyModel):
    def forward(self, x, mask=None, depth=2):
        hidden = []
        for layer in self.layers[:depth]:
            hidden.append(x)
            x = x + layer(x, mask)
        hidden.append(x)
        hidden = tuple(hidden)
        sizes = [h.shape for h in hidden]
        if len(set(sizes)) > 1:
            raise ValueError(sizes)
        return x, hidden

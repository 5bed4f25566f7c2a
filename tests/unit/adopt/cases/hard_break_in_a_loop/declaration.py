"""A fork."""

from transformers.models.toy import modeling_toy as toy


class ToyModel(toy.ToyModel):
    def forward(self, x, mask=None):
        hidden = []
        for layer in self.layers:
            hidden.append(x)
            x = x + layer(x, mask)
            if x.isnan().any():
                break
        hidden.append(x)
        hidden = tuple(hidden)
        sizes = [h.shape for h in hidden]
        if len(set(sizes)) > 1:
            raise ValueError(sizes)
        return x, hidden

from transformers.models.toy.modeling_toy import *


class ToyAttention_Own(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.q = nn.Linear(config.hidden, config.hidden)
        self.k = nn.Linear(config.hidden, config.hidden)

    def forward(self, x, mask=None):
        q = self.q(x)
        k = self.k(x)
        scores = q @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1)
        weights = pad_input(weights)
        return pad_input(weights @ k)


class ToyModel_Own(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyAttention_Own(config) for _ in range(config.layers)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class ToyForCausalLM_Own(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = ToyModel_Own(config)
        self.head = nn.Linear(config.hidden, config.vocabulary)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, x, mask=None):
        x = self.model(x, mask)
        x = self.head(x)
        return x + self.bias

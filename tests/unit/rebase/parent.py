import torch
from torch import nn

from ...activations import ACT2FN
from ...utils import rotate


def attend(module, query, key, value, mask, scaling, dropout=0.0):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if mask is not None:
        weights = weights + mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value), weights


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)
        self.act = ACT2FN[config.act]

    def forward(self, x):
        gate = self.act(self.gate(x))
        up = self.up(x)
        return self.down(gate * up)


class ToyAttention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.layer = layer
        self.heads = config.heads
        self.scaling = config.head_dim**-0.5
        self.dropout = config.dropout
        self.q = nn.Linear(config.width, config.width)
        self.k = nn.Linear(config.width, config.width)
        self.v = nn.Linear(config.width, config.width)
        self.o = nn.Linear(config.width, config.width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, positions, mask=None, cache=None, **kwargs):
        query = self.split(self.q(x))
        key = self.split(self.k(x))
        value = self.split(self.v(x))
        query, key = rotate(query, key, positions)
        if cache is not None:
            key, value = cache.update(key, value, self.layer)
        output, weights = attend(self, query, key, value, mask, self.scaling, dropout=self.dropout)
        output = output.transpose(1, 2).reshape(x.shape)
        return self.o(output), weights


class ToyLayer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.attention = ToyAttention(config, layer)
        self.mlp = ToyMLP(config)
        self.norm1 = nn.LayerNorm(config.width)
        self.norm2 = nn.LayerNorm(config.width)

    def forward(self, x, positions, mask=None, cache=None):
        residual = x
        x = self.norm1(x)
        x, _ = self.attention(x, positions, mask=mask, cache=cache)
        x = residual + x
        residual = x
        x = self.norm2(x)
        x = self.mlp(x)
        return residual + x


class ToyPreTrainedModel(nn.Module):
    base_model_prefix = "model"
    _no_split_modules = ["ToyLayer"]
    supports_gradient_checkpointing = False

    def initialize(self, module):
        std = self.config.std
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=std)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=std)


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.words, config.width)
        self.layers = nn.ModuleList([ToyLayer(config, n) for n in range(config.depth)])
        self.norm = nn.LayerNorm(config.width)

    def forward(self, tokens, mask=None, cache=None, use_cache=None):
        x = self.embed(tokens)
        positions = torch.arange(x.shape[1], device=x.device)
        for layer in self.layers:
            x = layer(x, positions, mask=mask, cache=cache)
        x = self.norm(x)
        return x, cache


class ToyForCausalLM(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ToyModel(config)
        self.head = nn.Linear(config.width, config.words, bias=False)

    def forward(self, tokens, mask=None, labels=None, cache=None):
        hidden, cache = self.model(tokens, mask=mask, cache=cache)
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return loss, logits, cache

"""What probes of models need: weights that depend on names alone, fixed inputs, tiny configurations."""

import hashlib

import torch
from torch import nn
from transformers import CONFIG_MAPPING

SIZES = {
    "vocab_size": 61,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}


def fill(model):
    """`model` in evaluation mode, every parameter and buffer of its state drawn from a seed made of its name."""
    for name, tensor in model.state_dict().items():
        draw = torch.Generator().manual_seed(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
        if tensor.is_floating_point():
            tensor.copy_(torch.randn(tensor.shape, generator=draw) * 0.3)
    return model.eval()


def numbers(*shape, seed=0):
    """A fixed tensor of this shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def words(rows=2, length=7):
    """Fixed token ids."""
    return torch.randint(1, 61, (rows, length), generator=torch.Generator().manual_seed(1))


def config(model_type, **changes):
    """A tiny configuration with the eager attention."""
    kind = CONFIG_MAPPING[model_type]
    known = {key: value for key, value in SIZES.items() if hasattr(kind(), key)}
    made = kind(**{**known, **changes})
    made._attn_implementation = "eager"
    return made


def keys(model):
    """The names and shapes of the state, in order, and the classes of all modules."""
    state = [(name, tuple(tensor.shape)) for name, tensor in model.state_dict().items()]
    return state, [(name, type(module).__name__) for name, module in model.named_modules()]


def gradients(model, output):
    """The gradients of every parameter that `output` reaches."""
    output.double().pow(2).sum().backward()
    return [(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]


__all__ = ["config", "fill", "gradients", "keys", "nn", "numbers", "torch", "words"]

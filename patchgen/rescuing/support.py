# Users' files get this text, and have no types; so it has none.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, var-annotated"
"""What a rescued file takes along in place of what transformers no longer does.

Definitions are copied from here into the file, each with those that it reads; so each imports what
it needs from torch and transformers alone.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace

import torch
from transformers import PreTrainedConfig, initialization
from transformers.cache_utils import Cache, DynamicCache, StaticLayer, StaticSlidingWindowLayer


class TupleCache(DynamicCache):
    """The cache of a model that keeps tuples of tensors, one a layer."""

    def __init__(self, tuples):
        super().__init__()
        self.tuples = tuples if isinstance(tuples, list) else tuple(tuples)

    def __len__(self):
        return len(self.tuples)

    def __getitem__(self, layer):
        return self.tuples[layer]

    def __iter__(self):
        return iter(self.tuples)

    def get_seq_length(self, layer_idx=0):
        return self.tuples[layer_idx][0].shape[-2]

    def reorder_cache(self, beam_idx):
        def picked(state):
            return None if state is None else state.index_select(0, beam_idx.to(state.device))

        self.tuples = type(self.tuples)(tuple(map(picked, layer)) for layer in self.tuples)


def as_tuples(cache):
    """The tuples in a cache, or None if it is empty."""
    if isinstance(cache, TupleCache):
        return cache.tuples
    if not isinstance(cache, Cache):
        return cache
    if cache.get_seq_length() == 0:
        return None
    return tuple((layer.keys, layer.values) for layer in cache.layers)


def as_cache(tuples):
    """The cache that `generate` hands back to the model."""
    if tuples is None or isinstance(tuples, Cache):
        return tuples
    cache = TupleCache(tuples)
    return tuples if any(layer is None for layer in cache) else cache


class HybridCache(Cache):
    """Caches of a fixed size, of which some keep a window alone."""

    def __init__(self, config, max_batch_size=None, max_cache_len=None, **kwargs):
        every = getattr(config, "sliding_window_pattern", 2)
        layers = []
        for layer in range(config.num_hidden_layers):
            is_whole = (layer + 1) % every == 0
            window = max_cache_len if is_whole else config.sliding_window
            kind = StaticLayer if is_whole else StaticSlidingWindowLayer
            layers.append(kind(max_cache_len=max_cache_len, sliding_window=window))
        super().__init__(layers=layers)
        self.limit = max_cache_len


def fit_masks(model, model_kwargs, kind, length):
    """Let `generate` pass a cache that the model's own masks expect, which know no layer types."""
    cache = model_kwargs.get("past_key_values")
    if not isinstance(cache, Cache) or getattr(cache, "_is_user_defined", False):
        return
    if kind == "hybrid":
        model_kwargs["past_key_values"] = HybridCache(model.config, max_cache_len=length)
    elif any(getattr(layer, "is_sliding", False) for layer in cache.layers):
        model_kwargs["past_key_values"] = DynamicCache()


def longest(cache):
    """How many tokens a cache can hold, or None if it grows."""
    length = max((layer.get_max_length() for layer in cache.layers), default=-1)
    return getattr(cache, "limit", None if length < 0 else length)


def past_length_of(cache):
    """How many tokens a cache of either kind holds."""
    if cache is None:
        return 0
    return cache.get_seq_length() if isinstance(cache, Cache) else cache[0][0].shape[-2]


def keeps_arguments(init):
    """Record what a layer was made from: its buffers are computed again after loading."""

    @functools.wraps(init)
    def recorded(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self._made_from = args, kwargs
        kept = vars(self).items()
        empty = [k for k, value in kept if isinstance(value, torch.Tensor) and value.is_meta]
        if empty:  # a tensor that is no buffer would stay so
            with torch.device("cpu"):
                fresh = type(self)(*args, **kwargs)
            for key in empty:
                vars(self)[key] = vars(fresh)[key]

    return recorded


def compute_buffers(module):
    """Fill the buffers of a layer that no checkpoint has; loading leaves them empty."""
    if not hasattr(module, "_made_from"):
        return
    args, kwargs = module._made_from
    state = torch.get_rng_state()
    with initialization.no_init_weights():
        fresh = type(module)(*args, **kwargs)
    torch.set_rng_state(state)
    values = dict(fresh.named_buffers(recurse=False))
    for name, buffer in module.named_buffers(recurse=False):
        if values[name].shape != buffer.shape:  # it had grown with the inputs
            module.register_buffer(name, values[name].to(buffer.device), persistent=False)
        elif not buffer.is_meta:
            initialization.copy_(buffer, values[name].to(buffer.device))


def with_aliases(model, tied):
    """What of `tied` is there, and the parameters that two modules of the model share."""
    first = {}
    aliases = {}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    tied = {name: source for name, source in tied.items() if name in parameters}
    for name, parameter in parameters.items():
        source = first.setdefault(id(parameter), name)
        if source != name and tied.get(source) != name:
            aliases[name] = source
    if aliases:  # saving reads the attribute
        model._tied_weights_keys = {**(model._tied_weights_keys or {}), **aliases}
    return {**aliases, **tied}


def with_old_arguments(make_mask):
    """A mask function that takes what it took in transformers 4."""

    def made(*, input_embeds=None, cache_position=None, **kwargs):
        return make_mask(**{"inputs_embeds": input_embeds, **kwargs})

    return made


def usual_attention(model, chosen):
    """The attention of a model for which nobody has asked, where its class has a word in it."""
    config = SimpleNamespace(_attn_implementation=chosen)
    return model._check_and_enable_sdpa(config)._attn_implementation if chosen == "sdpa" else chosen


def unusual(kwargs):
    """The arguments of a configuration that not every configuration has."""
    return {key: value for key, value in kwargs.items() if key not in PreTrainedConfig().to_dict()}

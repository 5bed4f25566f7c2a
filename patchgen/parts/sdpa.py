# ruff: noqa: B018, F841  (edits are read, not run)
"""Attention as one call of torch's `scaled_dot_product_attention`, where transformers' attention interface is called.

`sdpa_attention` takes the place of the interface and says which masks it takes.  Other implementations come with other
masks (two-dimensional for flash attention), which a call of SDPA would misread without a word: `SdpaOrEager` refuses
them when a model is built, `sdpa_attention` when it runs.

Under torch.compile transformers gives every causal model without a cache a mask of four dimensions, which costs the
fast kernels and native grouped heads.  `CausalWithoutMask` leaves it out where `is_causal` says the same.

Axes: B batch, H query heads, G key and value heads, L queries, S keys, D head size.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import (
    create_bidirectional_mask,
    create_bidirectional_sliding_window_mask,
    create_causal_mask,
    create_sliding_window_causal_mask,
)
from transformers.modeling_utils import PreTrainedModel

from patchgen.edits import edit, new, old

# What other attention functions take and one call of SDPA does not compute.
NOT_IN_SDPA = ("block_indices", "cache", "indices", "s_aux", "sinks", "softcap")


def refuse_other_attention(owner: str, implementation: str | None) -> None:
    """ValueError unless `implementation` is "sdpa", "eager" or None (transformers then takes "sdpa")."""
    if implementation not in ("sdpa", "eager", None):
        # transformers' own words first: its tests, and whoever catches the error, look for them.
        raise ValueError(
            f'Specified `attn_implementation="{implementation}"` is not supported: {owner} calls '
            'scaled_dot_product_attention itself and takes "sdpa" or "eager". It would misread the masks of another '
            "implementation. The class of this name in transformers takes it."
        )


class SdpaOrEager:
    """Takes `attn_implementation` "sdpa" and "eager".

    Every other is a ValueError when the model is built, and when `set_attn_implementation` is called.
    """

    _supports_sdpa = True
    _supports_flash_attn = False
    _supports_flex_attn = False
    _supports_attention_backend = False

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        refuse_other_attention(type(self).__name__, attn_implementation)
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def get_correct_attn_implementation(self, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
        # The only check that a model inside another one gets from `set_attn_implementation`.
        refuse_other_attention(type(self).__name__, requested_attention)
        return super().get_correct_attn_implementation(requested_attention, *args, **kwargs)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        # transformers looks for its own dispatch in the source, finds none, and would ignore the request.
        return True


class SdpaAroundModels(SdpaOrEager):
    """The same around models of other files: one that does not know SDPA takes "eager".

    It does so by itself where nothing is asked for, and would be an error where "sdpa" is.
    """

    def _check_and_adjust_attn_implementation(
        self: Any, attn_implementation: str | None, *args: Any, **kwargs: Any
    ) -> str:
        if kwargs.get("is_init_check"):
            for inner in configs_inside(self.config):
                if inner._attn_implementation == "sdpa":
                    inner._attn_implementation_internal = None
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def post_init(self: Any) -> None:
        # What no model inside has decided; some are built with a copy of their configuration.
        models = (model for model in self.modules() if isinstance(model, PreTrainedModel))
        taken = {type(model.config): model.config._attn_implementation for model in models}
        for inner in configs_inside(self.config):
            if inner._attn_implementation is None:
                inner._attn_implementation_internal = taken.get(type(inner), "sdpa")
        super().post_init()


def configs_inside(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """The configurations of the models inside, at any depth."""
    for name in config.sub_configs:
        inner = getattr(config, name, None)
        if inner is not None:
            yield inner
            yield from configs_inside(inner)


def sdpa_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    eager: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    whole_mask: bool = False,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The attention output (batch, queries, heads, size), and the weights where they are asked for.

    A mask has four dimensions (batch, one or heads, queries, keys).  By `attn_implementation`:

        sdpa   None: all keys; in a causal module each of several queries sees the keys up to its own
               bool: True is seen; float: added to the scores
        eager  None: all keys; bool and float as above

    With `whole_mask`, the mask comes `for_eager`: None is all keys under "sdpa" too.
    A sliding window is in the mask: transformers makes none only where the window holds every key.  A `position_bias`
    (one or batch, heads, queries, keys) is added to the scores that are seen.

    `module` has `is_causal` and `config`.  `eager` is the parent's attention function, which computes what has weights
    to return: everything under "eager", and what is asked for with `output_attentions` under "sdpa".
    """
    implementation = module.config._attn_implementation
    refuse_other_attention(type(module).__name__, implementation)
    if attention_mask is not None and attention_mask.dim() != 4:
        raise ValueError(
            f"{type(module).__name__} takes a mask of four dimensions, not one of shape {tuple(attention_mask.shape)}"
        )
    causal = kwargs.get("is_causal")
    causal = not whole_mask and (module.is_causal if causal is None else causal)

    if implementation == "eager" or kwargs.get("output_attentions") or module.config.output_attentions:
        mask = additive_mask(attention_mask, query, key, causal=causal and implementation != "eager")
        return eager(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)

    for name in NOT_IN_SDPA:
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"{type(module).__name__} was given `{name}`, which SDPA does not compute")
    bias = kwargs.get("position_bias")
    if bias is not None:
        queries = query.shape[2]
        if attention_mask is None and causal and queries > 1:
            # A static cache being filled from empty has more keys than queries.
            key, value, bias = key[:, :, :queries], value[:, :, :queries], bias[..., :queries]
            attention_mask = seen_before(query, key)
        terms = [bias] if attention_mask is None else [attention_mask, bias]
        attention_mask = sum_of_terms(terms, query, key)
    output = sdpa(query, key, value, attention_mask, causal=causal, scaling=scaling, dropout=dropout)
    return output.transpose(1, 2), None


def sink_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    eager: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    *,
    s_aux: torch.Tensor | None = None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`sdpa_attention` where `s_aux`, a number for each head, is the score of one key more, whose value is zero."""
    if s_aux is None or wants_weights(module, kwargs.get("output_attentions")):
        kwargs |= {"scaling": scaling, "s_aux": s_aux}
        return sdpa_attention(module, query, key, value, attention_mask, eager, **kwargs)
    causal = kwargs.get("is_causal")
    causal = not kwargs.get("whole_mask") and (module.is_causal if causal is None else causal)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    states = with_sinks(query, key, value, attention_mask, s_aux / scaling, causal=causal)
    return sdpa_attention(module, *states, eager, **kwargs | {"scaling": scaling, "is_causal": False})


def with_sinks(
    query_BHLD: torch.Tensor,
    key_BGSD: torch.Tensor,
    value_BGSD: torch.Tensor,
    mask: torch.Tensor | None,
    sinks_H: torch.Tensor,
    *,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Query, key, value and mask with one key before the others, seen by all, of score `sinks` and value zero.

    The score is a feature more of each query, which that key alone has: heads go on sharing keys, and the mask has no
    gradient.  The mask says what order says.
    """
    queries = query_BHLD.shape[2]
    if mask is None and causal and queries > 1:
        # A static cache being filled from empty has more keys than queries.
        key_BGSD, value_BGSD = key_BGSD[:, :, :queries], value_BGSD[:, :, :queries]
        mask = seen_before(query_BHLD, key_BGSD)[None, None]
    scores = sinks_H.to(query_BHLD.dtype)[None, :, None, None].expand(*query_BHLD.shape[:-1], 1)
    feature = nn.functional.pad(torch.zeros_like(key_BGSD[..., :1]), (0, 0, 1, 0), value=1.0)
    key_BGSD = torch.cat([nn.functional.pad(key_BGSD, (0, 0, 1, 0)), feature], dim=-1)
    value_BGSD = nn.functional.pad(value_BGSD, (0, 0, 1, 0))
    mask = mask if mask is None else nn.functional.pad(mask, (1, 0), value=float(mask.dtype == torch.bool))
    return torch.cat([query_BHLD, scores], dim=-1), key_BGSD, value_BGSD, mask


def sdpa(
    query_BHLD: torch.Tensor,
    key_BGSD: torch.Tensor,
    value_BGSD: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    causal: bool,
    scaling: float | None,
    dropout: float,
) -> torch.Tensor:
    """softmax(query @ key^T * scaling, masked) @ value of shape (B, H, L, D), by one call of SDPA.

    `causal` counts where there is no mask and more than one query; the first query then sees the first key alone.
    """
    queries, groups = query_BHLD.shape[2], query_BHLD.shape[1] // key_BGSD.shape[1]
    # The order matters to torch.compile: a symbolic length first, or the result is no bool.
    causal = queries > 1 and mask is None and causal
    if causal and key_BGSD.shape[2] > queries:
        # A static cache being filled from empty.  Only with as many keys as queries are there fast causal kernels.
        key_BGSD, value_BGSD = key_BGSD[:, :, :queries], value_BGSD[:, :, :queries]

    native = False
    if groups > 1:
        # With a mask or a large head, CUDA has native grouped heads in its slow path only.
        native = mask is None and key_BGSD.shape[-1] == value_BGSD.shape[-1] <= 256
        if not native and queries == 1:
            # The query heads that share a key head stand as so many queries of it: no key is copied.
            query_BHLD = query_BHLD.unflatten(1, (-1, groups)).squeeze(3)
            mask = mask if mask is None or mask.shape[1] == 1 else mask.unflatten(1, (-1, groups)).squeeze(3)
        elif not native:
            key_BGSD = key_BGSD.repeat_interleave(groups, dim=1)
            value_BGSD = value_BGSD.repeat_interleave(groups, dim=1)

    output = nn.functional.scaled_dot_product_attention(
        query_BHLD,
        key_BGSD,
        value_BGSD,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=scaling,
        enable_gqa=native,
    )
    return output.reshape(output.shape[0], -1, queries, value_BGSD.shape[-1])


def additive_mask(
    mask: torch.Tensor | None, query_BHLD: torch.Tensor, key_BGSD: torch.Tensor, *, causal: bool
) -> torch.Tensor | None:
    """The mask that transformers makes for `eager` where it makes `mask` for `sdpa`: zero, or the dtype's minimum."""
    queries, keys = query_BHLD.shape[-2], key_BGSD.shape[-2]
    if mask is None and causal and queries > 1:
        mask = seen_before(query_BHLD, key_BGSD)[None, None]
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=query_BHLD.dtype, device=query_BHLD.device)
    return torch.where(mask, zero, torch.finfo(query_BHLD.dtype).min)


def for_eager(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make`, a function of transformers that makes masks, giving for every implementation what it gives for "eager".

    For models that do more with a mask than hide scores, or whose attentions do not all say whether they are causal:
    a float tensor that is added, never None where it is causal.
    """

    def made(config: PreTrainedConfig, inputs_embeds: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if make not in (create_bidirectional_mask, create_bidirectional_sliding_window_mask):
            kwargs["allow_is_causal_skip"] = False
        mask = make(config, inputs_embeds, *args, **kwargs)
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            return mask
        zero = torch.zeros((), dtype=inputs_embeds.dtype, device=mask.device)
        return torch.where(mask, zero, torch.finfo(inputs_embeds.dtype).min)

    return made


def seen_before(query_BHLD: torch.Tensor, key_BGSD: torch.Tensor) -> torch.Tensor:
    """(queries, keys): True where a key is not after the query."""
    shape = (query_BHLD.shape[-2], key_BGSD.shape[-2])
    return torch.ones(shape, dtype=torch.bool, device=query_BHLD.device).tril()


def wants_weights(module: nn.Module, output_attentions: bool | None = False) -> bool:
    """Whether the statements of the parent run: under "eager", and where their attention weights are asked for.

    `module` has `config`, its own or by `knowing`.
    """
    implementation = module.config._attn_implementation
    refuse_other_attention(type(module).__name__, implementation)
    return implementation == "eager" or bool(output_attentions) or bool(module.config.output_attentions)


def knowing(config: Any, module: nn.Module, *inside: type[nn.Module]) -> nn.Module:
    """`module`, where an attention that is built without `config` finds it as an attribute from here on.

    The attention is `module`, or each module of a class of `inside` in it.
    """
    for one in module.modules() if inside else (module,):
        if isinstance(one, inside or nn.Module):
            one.config = config
    return module


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    *biases: torch.Tensor | float | None,
    causal: bool = False,
    scaling: float | torch.Tensor = 1.0,
    dropout: float = 0.0,
    heads: int = 1,
) -> torch.Tensor:
    """softmax(query @ key^T * scaling + mask + biases) @ value by one call of SDPA, where an attention wrote it out.

    The axes are those of the matrix products: (B, H, L, D), or (B * H, L, D) with `heads` being H.
    Mask and biases are what such scores can be added to, each float (added) or bool (True is seen) or None; a number
    is the same for every key, which softmax does not see.  In a `causal` attention each of several queries sees the
    keys up to its own where there is no mask.
    """
    shape = (*value.shape[:-2], query.shape[-2], value.shape[-1])
    if isinstance(scaling, torch.Tensor):
        query, scaling = query * scaling, 1.0
    terms = [term for term in (mask, *biases) if isinstance(term, torch.Tensor)]
    if query.dim() == 3:
        terms = [t.unflatten(0, (-1, heads)) if t.dim() == 3 and t.shape[0] == len(query) else t for t in terms]
        states = (query, key, value)
        query, key, value = (one.unflatten(0, (-1, heads)) if one.dim() == 3 else one for one in states)
    elif query.dim() > 4 and not terms:
        query, key, value = (one.flatten(0, -4) for one in (query, key, value))
    if query.dim() != 4:
        raise ValueError(
            f"queries of shape {tuple(query.shape)} with a mask: there are to be batch, heads, queries, size"
        )
    if mask is None and causal and terms and query.shape[2] > 1:
        terms.append(seen_before(query, key))
    output = sdpa(
        query,
        key.to(query.dtype),
        value.to(query.dtype),
        sum_of_terms(terms, query, key),
        causal=causal and mask is None and not terms,
        scaling=scaling,
        dropout=dropout,
    )
    return output.to(value.dtype).reshape(shape)


def projected_attention(
    query_LBE: torch.Tensor,
    key_SBE: torch.Tensor,
    value_SBE: torch.Tensor,
    size: int,
    heads: int,
    in_proj_weight: torch.Tensor,
    in_proj_bias: torch.Tensor,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    add_zero_attn: bool,
    dropout: float,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    training: bool = True,
    key_padding_mask: torch.Tensor | None = None,
    *,
    attn_mask: torch.Tensor | None,
    use_separate_proj_weight: bool,
    q_proj_weight: torch.Tensor,
    k_proj_weight: torch.Tensor,
    v_proj_weight: torch.Tensor,
    weights: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What `multi_head_attention_forward` of torch gives: the states (L, B, E), and the weights where they are wanted.

    Of its arguments, `attn_mask` is float (B * H, L, S) and added, `key_padding_mask` (B, S) is True where hidden; the
    projections are separate, and no keys are made up.
    """
    if weights or bias_k is not None or bias_v is not None or add_zero_attn or not use_separate_proj_weight:
        return nn.functional.multi_head_attention_forward(
            query_LBE,
            key_SBE,
            value_SBE,
            size,
            heads,
            in_proj_weight,
            in_proj_bias,
            bias_k,
            bias_v,
            add_zero_attn,
            dropout,
            out_weight,
            out_bias,
            training,
            key_padding_mask,
            need_weights=True,
            attn_mask=attn_mask,
            use_separate_proj_weight=use_separate_proj_weight,
            q_proj_weight=q_proj_weight,
            k_proj_weight=k_proj_weight,
            v_proj_weight=v_proj_weight,
        )
    query, key, value = (
        nn.functional.linear(states, weight, bias).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
        for states, weight, bias in zip(
            (query_LBE, key_SBE, value_SBE),
            (q_proj_weight, k_proj_weight, v_proj_weight),
            in_proj_bias.chunk(3),
            strict=True,
        )
    )
    terms = [] if attn_mask is None else [attn_mask.unflatten(0, (-1, heads))]
    if key_padding_mask is not None:
        terms.append(~key_padding_mask[:, None, None])
    mask = sum_of_terms(terms, query, key)
    output = sdpa(query, key, value, mask, causal=False, scaling=None, dropout=dropout if training else 0.0)
    return nn.functional.linear(output.permute(2, 0, 1, 3).flatten(2), out_weight, out_bias), None


def zero_unless_seen(context: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
    """`context` (.., L, D), zeros for the queries that see no key: their `seen` (.., one or L, S) is all False."""
    return context if seen is None else context.masked_fill(~seen.any(dim=-1, keepdim=True), 0.0)


def sum_of_terms(terms: list[torch.Tensor], query_BHLD: torch.Tensor, key_BHSD: torch.Tensor) -> torch.Tensor | None:
    """One mask (B, H, L, S), or what broadcasts to it: bool where all are, else float in the dtype of the query.

    Each term is added to those before it, or hides what it is False for.
    """
    if not terms:
        return None
    terms = [windows(term, len(query_BHLD)) for term in terms]
    if all(term.dtype == torch.bool for term in terms):
        whole = terms[0]
        for term in terms[1:]:
            whole = whole & term
    else:
        least = torch.finfo(query_BHLD.dtype).min
        whole = torch.zeros((), dtype=query_BHLD.dtype, device=query_BHLD.device)
        for term in terms:
            hides = term.dtype == torch.bool
            whole = torch.where(term, whole, least) if hides else (whole + term).to(query_BHLD.dtype)
        if len(terms) > 1:
            # Two minima are minus infinity, as they are where scores are written out: a row of nothing else is NaN.
            whole = whole.masked_fill((whole == -torch.inf).all(dim=-1, keepdim=True), least)
    return whole.expand(-1, -1, query_BHLD.shape[2], key_BHSD.shape[2]) if whole.dim() == 4 else whole


def windows(term: torch.Tensor, batch: int) -> torch.Tensor:
    """A term (1, windows, heads, L, S) for images cut into windows, as one (batch, heads, L, S) for all windows."""
    if term.dim() != 5:
        return term
    return term.expand(batch // term.shape[1], -1, -1, -1, -1).flatten(0, 1)


# For the model of a causal decoder: its layers get no mask where the order of tokens says all, compiled or not.
# transformers looks for packed rows among the positions; here it gets the caller's, and none where the model counts.
# No docstring: the model has its own.
class CausalWithoutMask:
    @edit("forward")
    def count_no_position_before_the_mask(
        self: Any, position_ids: Any, past_key_values: Any, past_seen_tokens: Any, inputs_embeds: Any
    ) -> None:
        with old:
            if position_ids is None:
                past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
                position_ids = position_ids.unsqueeze(0)
        with new:
            pass

    @edit("forward")
    def count_positions_behind_the_mask(
        self: Any, position_ids: Any, past_key_values: Any, inputs_embeds: Any, hidden_states: Any
    ) -> None:
        with old:
            hidden_states = inputs_embeds
        with new:
            if position_ids is None:
                before = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + before
                position_ids = position_ids.unsqueeze(0)

            hidden_states = inputs_embeds

    @edit("forward")
    def ask_whether_a_mask_is_needed(self) -> None:
        with old:
            create_causal_mask
        with new:
            causal_mask_if_needed


# The same where some layers have a sliding window: they get no mask where every key is in it.
class SlidingWithoutMask(CausalWithoutMask):
    @edit("forward")
    def ask_whether_a_window_is_needed(self) -> None:
        with old:
            create_sliding_window_causal_mask
        with new:
            sliding_window_mask_if_needed


def causal_mask_if_needed(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None = None,
    **others: Any,
) -> Any:
    """None where `is_causal` of SDPA says all, under torch.compile too; else the mask of transformers."""
    given = (attention_mask, past_key_values, position_ids)
    if not others and order_says_all(config, inputs_embeds, *given):
        return None
    return create_causal_mask(config, inputs_embeds, *given, **others)


def sliding_window_mask_if_needed(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None = None,
    **others: Any,
) -> Any:
    """None where `is_causal` of SDPA says all and the window holds every key; else the mask of transformers."""
    given = (attention_mask, past_key_values, position_ids)
    window = getattr(config, "sliding_window", None)
    inside = window is not None and inputs_embeds.shape[1] < window
    if not others and inside and order_says_all(config, inputs_embeds, *given):
        return None
    return create_sliding_window_causal_mask(config, inputs_embeds, *given, **others)


def order_says_all(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None,
) -> bool:
    """Whether each query sees the keys up to its own, all and only these, as can be told without reading values.

    Not with keys from before, padding, or positions that may tell of packed rows (transformers asks them only where
    there is no cache).  With `config.assume_right_padding`, padding is taken to stand on the right: no real token
    sees it then.  Outputs of padding differ, and a loss over real tokens does not.  Padding before a real token is an
    error when it runs.
    """
    if config._attn_implementation != "sdpa" or not getattr(config, "is_causal", True):
        return False
    if past_key_values is None:
        if position_ids is not None and attention_mask is None:
            return False
    elif not isinstance(past_key_values, DynamicCache):
        return False  # transformers knows whether the slots of a static cache are filled
    elif any(layer.get_seq_length() for layer in past_key_values.layers):
        return False
    if attention_mask is None:
        return True
    if not getattr(config, "assume_right_padding", False) or attention_mask.dim() != 2:
        return False
    if attention_mask.shape[1] != inputs_embeds.shape[1]:
        return False
    # Without a wait for the device, under torch.compile too.
    real = attention_mask.bool()
    torch._assert_async((real[:, :-1] | ~real[:, 1:]).all(), "assume_right_padding: padding before a real token")
    return True

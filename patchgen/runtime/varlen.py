"""The attention implementation "varlen": texts of several lengths in one row, by torch's kernels.

    import patchgen.runtime
    model = AutoModel.from_pretrained(..., attn_implementation="varlen")

It takes what transformers tells FlashAttention: `cu_seq_lens_q` and `max_length_q`, `position_ids`
that restart, or a mask of padding.  On a GPU and in half precision it runs
`torch.nn.attention.varlen.varlen_attn`, which is FlashAttention-2 without the package.  Anywhere
else, and with dropout, which that function lacks, it runs one call of SDPA, with a row for each
text.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv
from transformers.masking_utils import flash_attention_mask
from transformers.modeling_flash_attention_utils import (
    _get_unpad_data,
    _pad_input,
)

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # torch < 2.10
    varlen_attn = None

NAME = "varlen"
REFUSED = ("position_bias", "s_aux", "softcap")
LARGEST_HEAD, HEAD_MULTIPLE = 256, 8  # of the kernels
_OPTIONS = (
    frozenset(inspect.signature(varlen_attn).parameters) if varlen_attn is not None else frozenset()
)


@dataclass(frozen=True, slots=True)
class Texts:
    """Where texts begin in a row of their tokens."""

    cu_seqlens_N1: Tensor  # the first token of each text, and the number of tokens; int32
    max_seqlen: int


@dataclass(frozen=True, slots=True)
class Form:
    """The options of an attention call."""

    causal: bool
    scaling: float | None = None  # of the scores; None: 1 / sqrt(size of a head)
    dropout: float = 0.0
    window: int | None = None  # visible keys on each side, the token's own included


def varlen_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    position_ids: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of (rows, heads, tokens, size), given back as (rows, tokens, heads, size)."""
    for name in REFUSED:
        if kwargs.get(name) is not None:
            raise ValueError(
                f'attn_implementation="{NAME}" does not compute `{name}`, which {module} needs'
            )
    # Shapes alone, which the host knows: a look at the lengths would wait for the device.
    cu_seq_lens_k = kwargs.get("cu_seq_lens_k")
    max_length_k = kwargs.get("max_length_k")
    counts = {len(each) for each in (cu_seq_lens_q, cu_seq_lens_k) if each is not None}
    longest = {each for each in (max_length_q, max_length_k) if each is not None}
    if len(counts) > 1 or len(longest) > 1 or (counts and cu_seq_lens_q is None):
        raise ValueError(f'attn_implementation="{NAME}" takes keys of the lengths of queries')
    if attention_mask is not None and attention_mask.dim() != 2:
        shape = tuple(attention_mask.shape)
        raise ValueError(
            f'attn_implementation="{NAME}" takes a mask of (rows, tokens), not of {shape}'
        )
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    form = Form(causal, scaling, dropout, sliding_window)
    rows, _, tokens, _ = query.shape
    if key.shape[2] != tokens:
        return _with_cache(query, key, value, attention_mask, position_ids, form), None
    query, key, value = (states.transpose(1, 2).flatten(0, 1) for states in (query, key, value))
    if attention_mask is not None:
        places_T, cu_seqlens_N1, max_seqlen = _get_unpad_data(attention_mask)
        texts = Texts(cu_seqlens_N1, max_seqlen)
        query, key, value = (states.index_select(0, places_T) for states in (query, key, value))
        output = attend(query, key, value, texts, form)
        return _pad_input(output, places_T, rows, tokens), None
    if cu_seq_lens_q is not None:
        texts = _once_a_step(_texts_of_lengths, cu_seq_lens_q, max_length_q)
    elif position_ids is not None and position_ids.dim() == 2:
        texts = _once_a_step(_texts_of_positions, position_ids, rows, tokens)
    else:
        texts = Texts(
            torch.arange(rows + 1, dtype=torch.int32, device=query.device) * tokens, tokens
        )
    return attend(query, key, value, texts, form).unflatten(0, (rows, tokens)), None


def _with_cache(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    position_ids: Tensor | None,
    form: Form,
) -> Tensor:
    """Attention to more keys than queries; the last keys may be empty places of a static cache."""
    keys = key.shape[2] if mask is None else mask.shape[-1]
    places = torch.arange(keys, device=query.device)
    # Without a mask the first key is the first token of the text, and a position the place of a
    # token.  As many as there are queries, also where an encoder's keys are fewer.
    last = torch.arange(keys - query.shape[2], keys, device=query.device)
    positions = last if mask is not None or position_ids is None else position_ids
    visible = _visible_keys(positions[..., :, None] - places, form, mask)
    return _by_sdpa(query, key[:, :, :keys], value[:, :, :keys], visible, form)


_last: dict[Any, tuple[weakref.ref[Tensor], tuple[Any, ...], Texts]] = {}


def _once_a_step(read: Callable[..., Texts], told: Tensor, *given: Any) -> Texts:
    """What `read` makes of what all layers of a step are told, once: it waits for the device."""
    if torch.compiler.is_compiling() or told.is_inference():
        return read(told, *given)
    version = (told._version, given)
    if read in _last:
        last_told, last_version, texts = _last[read]
        if last_told() is told and last_version == version:
            return texts
    texts = read(told, *given)
    _last[read] = weakref.ref(told), version, texts
    return texts


def _texts_of_lengths(cu_seqlens: Tensor, longest: Any) -> Texts:
    """As they are told: on a GPU, a look at them would wait for it."""
    return Texts(cu_seqlens, int(cu_seqlens.diff().max() if longest is None else longest))


def _texts_of_positions(position_ids: Tensor, rows: int, tokens: int) -> Texts:
    """A text ends with its row, and where the next position does not follow."""
    position_ids_BL = position_ids.expand(rows, tokens)
    ends_T = F.pad(position_ids_BL.diff() != 1, (0, 1), value=True).flatten()
    cu_seqlens_N1 = F.pad(ends_T.nonzero()[:, 0] + 1, (1, 0)).int()
    return Texts(cu_seqlens_N1, int(cu_seqlens_N1.diff().max()))


def attend(
    query_THD: Tensor, key_TGD: Tensor, value_TGD: Tensor, texts: Texts, form: Form
) -> Tensor:
    """softmax(query @ key^T * scaling, masked) @ value within each text, (T, H, D)."""
    dtype = _dtype_of_kernels(query_THD)
    if not form.dropout and fits_kernels(query_THD, key_TGD, value_TGD, dtype):
        return _by_kernel(query_THD.to(dtype), key_TGD.to(dtype), value_TGD.to(dtype), texts, form)
    return by_rows(query_THD, key_TGD, value_TGD, texts, form)


def _dtype_of_kernels(states: Tensor) -> torch.dtype:
    """The dtype of autocast, if it is on: a rotary embedding leaves queries and keys in float32."""
    device = states.device.type
    if states.dtype == torch.float32 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return states.dtype


def fits_kernels(query: Tensor, key: Tensor, value: Tensor, dtype: torch.dtype) -> bool:
    """Whether the kernels of `varlen_attn` take such tensors in `dtype` on this machine."""
    sizes = {query.shape[-1], key.shape[-1], value.shape[-1]}
    return (
        varlen_attn is not None
        and query.is_cuda
        and dtype in (torch.float16, torch.bfloat16)
        and len(sizes) == 1
        and max(sizes) <= LARGEST_HEAD
        and max(sizes) % HEAD_MULTIPLE == 0
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, texts: Texts, form: Form) -> Tensor:
    """Call `varlen_attn` with the argument names of this release of torch."""
    asked: dict[str, Any] = {}
    left = -1 if form.window is None else form.window - 1
    if "window_size" in _OPTIONS:
        asked["window_size"] = (left, 0 if form.causal else left)
    elif form.window is not None:
        return by_rows(query, key, value, texts, form)
    else:
        asked["is_causal"] = form.causal
    if "scale" in _OPTIONS:
        asked["scale"] = form.scaling
    elif form.scaling is not None:
        query = query * (form.scaling * query.shape[-1] ** 0.5)
    groups = query.shape[1] // key.shape[1]
    if "enable_gqa" in _OPTIONS:
        asked["enable_gqa"] = groups > 1
    elif groups > 1:
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    cu_seqlens = texts.cu_seqlens_N1
    max_seqlen = texts.max_seqlen
    output: Tensor = varlen_attn(
        query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, **asked
    )
    return output


def by_rows(
    query_THD: Tensor, key_TGD: Tensor, value_TGD: Tensor, texts: Texts, form: Form
) -> Tensor:
    """By one call of SDPA: a row for each text, or all in one row where that is less to compute."""
    tokens = query_THD.shape[0]
    device = query_THD.device
    starts_N = texts.cu_seqlens_N1[:-1]
    lengths_N = texts.cu_seqlens_N1.diff()
    count = starts_N.shape[0]
    max_seqlen = texts.max_seqlen
    torch._check(max_seqlen > 0)  # torch.compile cannot tell this of a number from a tensor
    text_T = torch.arange(count, device=device).repeat_interleave(lengths_N, output_size=tokens)
    places_T = torch.arange(tokens, device=device)
    # A compiled graph cannot branch on the lengths: there, each text has a row of its own.
    if not torch.compiler.is_compiling() and count * max_seqlen**2 > tokens**2:
        visible = _visible_keys(places_T[:, None] - places_T, form, None) & (
            text_T[:, None] == text_T
        )
        query, key, value = (
            tensor.transpose(0, 1).unsqueeze(0) for tensor in (query_THD, key_TGD, value_TGD)
        )
        return _by_sdpa(query, key, value, visible, form).squeeze(0)
    places_T = places_T - starts_N[text_T] + text_T * max_seqlen
    states = (query_THD, key_TGD, value_TGD)
    query, key, value = (
        _pad_input(tensor, places_T, count, max_seqlen).transpose(1, 2) for tensor in states
    )
    if form.causal and (form.window is None or form.window >= max_seqlen):
        mask = None  # the padding at the right is later than every token
    else:
        real = torch.arange(max_seqlen, device=device) < lengths_N[:, None]
        places_L = torch.arange(max_seqlen, device=device)
        mask = _visible_keys(places_L[:, None] - places_L, form, real)
    return _by_sdpa(query, key, value, mask, form).flatten(0, 1).index_select(0, places_T)


def _by_sdpa(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, form: Form) -> Tensor:
    """(rows, tokens, heads, size); causal where there is no mask."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1 and mask is not None:  # with both a mask and groups the fast kernels do not run
        key = repeat_kv(key, groups)
        value = repeat_kv(value, groups)
    output = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=form.dropout,
        is_causal=form.causal and mask is None,
        scale=form.scaling,
        enable_gqa=groups > 1 and mask is None,
    )
    return output.transpose(1, 2)


def _visible_keys(back: Tensor, form: Form, real: Tensor | None) -> Tensor:
    """Which keys each query sees, (rows or 1, 1, queries, keys).

    `back` is how far each key lies before a query.
    """
    visible = back >= 0 if form.causal else torch.ones_like(back, dtype=torch.bool)
    if form.window is not None:
        visible = visible & (back.abs() < form.window)
    visible = visible.view(-1, 1, *visible.shape[-2:])
    return visible if real is None else visible & real.bool()[:, None, None, :]


AttentionInterface.register(NAME, varlen_attention)
AttentionMaskInterface.register(NAME, flash_attention_mask)

"""Attention over sequences that lie one after another, none of which sees another: by the fastest kernel that fits.

`attend_in_sequences` takes, on a GPU and in half precision, FlashAttention-2 of the package `flash-attn` where that is
installed, else the same kernels in torch (`varlen_attn`).  Anywhere else, and where a kernel lacks what is asked for
(torch's has no dropout), it runs torch's SDPA: the reference, for every device and dtype.

The reference computes each sequence by itself.  Against one call with a block-diagonal mask it does no work that the
mask throws away, holds no mask, and causal sequences stay on fast kernels.  Compiled code cannot loop over lengths
that are data, and has the mask.

Axes: T tokens of all sequences, N sequences, H query heads, G key and value heads, D head size.
"""

import inspect
from typing import Any, NamedTuple

import torch
from torch import nn

try:
    from flash_attn import flash_attn_func, flash_attn_varlen_func  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    flash_attn_func = flash_attn_varlen_func = None

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # torch < 2.10
    varlen_attn = None

# Beyond these the kernels of FlashAttention-2 refuse, or torch's copy of them does.
LARGEST_HEAD = 256
HEAD_MULTIPLE = 8


class Form(NamedTuple):
    """What attention is, beside its three tensors."""

    causal: bool = False
    scaling: float | None = None  # of the scores; None: 1 / sqrt(D)
    dropout: float = 0.0
    window: int | None = None  # so many keys are seen, a token's own the last of them; in causal attention only


def attend_in_sequences(
    query_THD: torch.Tensor,
    key_TGD: torch.Tensor,
    value_TGD: torch.Tensor,
    starts_N1: torch.Tensor,
    longest: int,
    form: Form,
) -> torch.Tensor:
    """softmax(query @ key^T * scaling, masked) @ value within each sequence, (T, H, D).

    `starts_N1` are the first tokens of the sequences and T, int32; `longest` is the length of the longest sequence.
    """
    if form.window is not None and not form.causal:
        raise NotImplementedError("a sliding window is for causal attention")
    states = (query_THD, key_TGD, value_TGD)
    if fits_flash(*states):
        if flash_attn_varlen_func is not None:
            return by_flash_attn(*states, starts_N1, longest, form)
        if fits_varlen(form):
            return by_varlen_attn(*states, starts_N1, longest, form)
    return by_sdpa(*states, starts_N1, longest, form)


def fits_flash(query_THD: torch.Tensor, key_TGD: torch.Tensor, value_TGD: torch.Tensor) -> bool:
    """Whether kernels of FlashAttention-2 take these tensors on this machine."""
    sizes = {query_THD.shape[-1], key_TGD.shape[-1], value_TGD.shape[-1]}
    return (
        query_THD.is_cuda
        and query_THD.dtype in (torch.float16, torch.bfloat16)
        and query_THD.dtype == key_TGD.dtype == value_TGD.dtype
        and len(sizes) == 1
        and max(sizes) <= LARGEST_HEAD
        and max(sizes) % HEAD_MULTIPLE == 0
        and torch.cuda.get_device_capability(query_THD.device) >= (8, 0)
    )


def by_flash_attn(
    query_THD: torch.Tensor,
    key_TGD: torch.Tensor,
    value_TGD: torch.Tensor,
    starts_N1: torch.Tensor,
    longest: int,
    form: Form,
) -> torch.Tensor:
    """By the package: `flash_attn_func` where all sequences are equally long, else `flash_attn_varlen_func`."""
    asked: dict[str, Any] = {"dropout_p": form.dropout, "softmax_scale": form.scaling, "causal": form.causal}
    if form.window is not None:  # known since flash-attn 2.3
        asked["window_size"] = (form.window - 1, 0)
    states = (query_THD, key_TGD, value_TGD)
    count = starts_N1.shape[0] - 1
    if query_THD.shape[0] == count * longest:
        return flash_attn_func(*(each.unflatten(0, (count, longest)) for each in states), **asked).flatten(0, 1)
    return flash_attn_varlen_func(*states, starts_N1, starts_N1, longest, longest, **asked)


def varlen_options() -> frozenset[str]:
    """The parameters of torch's `varlen_attn`, which differ between releases; none where there is no such function."""
    return frozenset(inspect.signature(varlen_attn).parameters) if varlen_attn is not None else frozenset()


VARLEN_OPTIONS = varlen_options()


def fits_varlen(form: Form) -> bool:
    """Whether torch's `varlen_attn` computes this: it has no dropout, and windows since 2.11."""
    windows = "window_size" in VARLEN_OPTIONS
    return bool(VARLEN_OPTIONS) and not form.dropout and (windows or form.window is None)


def by_varlen_attn(
    query_THD: torch.Tensor,
    key_TGD: torch.Tensor,
    value_TGD: torch.Tensor,
    starts_N1: torch.Tensor,
    longest: int,
    form: Form,
) -> torch.Tensor:
    """By `torch.nn.attention.varlen.varlen_attn`, in the words that this release has for it."""
    asked: dict[str, Any] = {}
    if form.causal and "window_size" in VARLEN_OPTIONS:
        asked["window_size"] = (-1 if form.window is None else form.window - 1, 0)
    elif form.causal:
        asked["is_causal"] = True
    if "scale" in VARLEN_OPTIONS:
        asked["scale"] = form.scaling
    elif form.scaling not in (None, query_THD.shape[-1] ** -0.5):
        query_THD = query_THD * (form.scaling * query_THD.shape[-1] ** 0.5)
    groups = query_THD.shape[1] // key_TGD.shape[1]
    if groups > 1 and "enable_gqa" in VARLEN_OPTIONS:
        asked["enable_gqa"] = True
    elif groups > 1:
        key_TGD, value_TGD = (each.repeat_interleave(groups, dim=1) for each in (key_TGD, value_TGD))
    return varlen_attn(query_THD, key_TGD, value_TGD, starts_N1, starts_N1, longest, longest, **asked)


def by_sdpa(
    query_THD: torch.Tensor,
    key_TGD: torch.Tensor,
    value_TGD: torch.Tensor,
    starts_N1: torch.Tensor,
    longest: int,
    form: Form,
) -> torch.Tensor:
    """The reference: one call of SDPA per sequence, or one for all where they are equally long."""
    states, count = (query_THD, key_TGD, value_TGD), starts_N1.shape[0] - 1
    if query_THD.shape[0] == count * longest:
        query, key, value = (each.unflatten(0, (count, longest)) for each in states)
        return sdpa_of_rows(query, key, value, form).flatten(0, 1)
    query, key, value = (each.unsqueeze(0) for each in states)
    if torch.compiler.is_compiling():
        seen_TT = seen_in_sequences(starts_N1, query_THD.shape[0], form)
        return sdpa_of_rows(query, key, value, form, seen_TT).squeeze(0)
    lengths = starts_N1.diff().tolist()
    pieces = zip(*(each.split(lengths, dim=1) for each in (query, key, value)), strict=True)
    outputs = [sdpa_of_rows(query, key, value, form) for query, key, value in pieces if query.shape[1]]
    return torch.cat(outputs, dim=1).squeeze(0)


def seen_in_sequences(starts_N1: torch.Tensor, tokens: int, form: Form) -> torch.Tensor:
    """Which key each query sees, (T, T): those of its own sequence."""
    places_T = torch.arange(tokens, device=starts_N1.device, dtype=starts_N1.dtype)
    sequence_T = torch.searchsorted(starts_N1, places_T, right=True)
    seen_TT = sequence_T[:, None] == sequence_T[None, :]
    back_TT = places_T[:, None] - places_T[None, :]
    if form.causal:
        seen_TT = seen_TT & (back_TT >= 0)
    return seen_TT if form.window is None else seen_TT & (back_TT < form.window)


def sdpa_of_rows(
    query_NLHD: torch.Tensor,
    key_NLGD: torch.Tensor,
    value_NLGD: torch.Tensor,
    form: Form,
    seen_LL: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of rows that are all of one length, (N, L, H, D); `seen_LL` takes the place of what `form` masks."""
    length, groups = query_NLHD.shape[1], query_NLHD.shape[2] // key_NLGD.shape[2]
    if seen_LL is None and form.window is not None and form.window < length:
        ones = torch.ones(length, length, dtype=torch.bool, device=query_NLHD.device)
        seen_LL = ones.tril().triu(1 - form.window)
    output = nn.functional.scaled_dot_product_attention(
        query_NLHD.transpose(1, 2),
        key_NLGD.transpose(1, 2),
        value_NLGD.transpose(1, 2),
        attn_mask=seen_LL,
        dropout_p=form.dropout,
        is_causal=form.causal and seen_LL is None,
        scale=form.scaling,
        enable_gqa=groups > 1,
    )
    return output.transpose(1, 2)

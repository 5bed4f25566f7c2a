"""Which tokens of a batch are real, taken out of their rows and put back.

In: a mask, positions that restart, or lengths that the caller knows.  Out: `Sequences`, by which tensors of a batch
(B rows, L tokens) become one row of T tokens, and back.

What is read from tensors here must be known to the host.  This is the one place where that happens, once a forward,
and where `torch.compile` breaks the graph; a batch without mask and positions needs none of it.
"""

from typing import NamedTuple

import torch


class Sequences(NamedTuple):
    """The real tokens of a batch, in order: those of each sequence follow each other."""

    starts_N1: torch.Tensor  # the first token of each sequence, and T; int32
    longest: int  # tokens of the longest sequence
    places_T: torch.Tensor | None = None  # of the tokens in the flattened batch; None: all of it
    restart: bool = False  # more sequences than rows: they were packed before they came here
    padded_at_start: bool = False  # some row begins with padding


def of_full_rows(rows: int, length: int, device: torch.device) -> Sequences:
    """Each row is a sequence."""
    return Sequences(torch.arange(rows + 1, device=device, dtype=torch.int32) * length, length)


@torch.compiler.disable
def of_mask(mask_BL: torch.Tensor) -> Sequences:
    """Each row's tokens where the mask is not zero, wherever they stand in it."""
    real_BL = mask_BL.bool()
    lengths_B = real_BL.sum(1, dtype=torch.int32)
    starts_N1 = torch.nn.functional.pad(lengths_B.cumsum(0, dtype=torch.int32), (1, 0))
    longest, complete = torch.stack((lengths_B.max(), real_BL[:, 0].all().to(torch.int32))).tolist()
    if not longest:
        raise ValueError("attention_mask is zero everywhere: there is no token")
    return Sequences(starts_N1, longest, real_BL.flatten().nonzero().squeeze(1), padded_at_start=not complete)


@torch.compiler.disable
def of_positions(position_ids_BL: torch.Tensor) -> Sequences:
    """A sequence begins with each row, and where a position is not the one after the position before it."""
    begins_BL = torch.ones_like(position_ids_BL, dtype=torch.bool)
    begins_BL[:, 1:] = position_ids_BL.diff(dim=1) != 1
    begins_N = begins_BL.flatten().nonzero().squeeze(1)
    starts_N1 = torch.nn.functional.pad(begins_N, (0, 1), value=begins_BL.numel()).to(torch.int32)
    longest = int(starts_N1.diff().max())
    return Sequences(starts_N1, longest, restart=starts_N1.shape[0] - 1 > len(position_ids_BL))


@torch.compiler.disable
def of_lengths(starts_N1: torch.Tensor, starts_of_keys_N1: torch.Tensor | None, tokens: int) -> Sequences:
    """What the caller says (`cu_seq_lens_q`, `cu_seq_lens_k`), of a batch of one row; or ValueError."""
    if starts_of_keys_N1 is not None and not torch.equal(starts_N1, starts_of_keys_N1):
        raise ValueError("cu_seq_lens_q and cu_seq_lens_k differ: each token is a query and a key here")
    lengths = starts_N1.diff().tolist()
    if int(starts_N1[0]) != 0 or sum(lengths) != tokens or min(lengths, default=-1) < 0:
        raise ValueError(
            f"cu_seq_lens_q goes from {int(starts_N1[0])} to {int(starts_N1[-1])}: it rises from 0 to the number of "
            f"tokens in the row, here {tokens}"
        )
    return Sequences(starts_N1.to(torch.int32), max(lengths), restart=True)


def positions_in(sequences: Sequences, tokens: int) -> torch.Tensor:
    """0, 1, 2, ... anew in each sequence, (1, T)."""
    starts_N1 = sequences.starts_N1
    places_T = torch.arange(tokens, device=starts_N1.device, dtype=starts_N1.dtype)
    sequence_T = torch.searchsorted(starts_N1, places_T, right=True) - 1
    return (places_T - starts_N1[sequence_T]).long().unsqueeze(0)


def unpadded(batch_BL: torch.Tensor | None, sequences: Sequences) -> torch.Tensor | None:
    """The real tokens of a batch, (1, T) and what further axes it has."""
    if batch_BL is None:
        return None
    tokens = batch_BL.flatten(0, 1)
    return (tokens if sequences.places_T is None else tokens.index_select(0, sequences.places_T)).unsqueeze(0)


def padded(states_1TD: torch.Tensor, sequences: Sequences, rows: int, length: int) -> torch.Tensor:
    """The states in their rows, (B, L, D); zeros where there is no token."""
    if sequences.places_T is None:
        return states_1TD.reshape(rows, length, -1)
    zeros = states_1TD.new_zeros(rows * length, states_1TD.shape[-1])
    return zeros.index_copy(0, sequences.places_T, states_1TD.squeeze(0)).unflatten(0, (rows, length))


def first_states(states_1TD: torch.Tensor, starts_N1: torch.Tensor | None) -> torch.Tensor:
    """The state of each sequence's first token, (N, 1, D); `states_1TD` as it is where the batch is in its rows."""
    if starts_N1 is None:
        return states_1TD
    return states_1TD.squeeze(0).index_select(0, starts_N1[:-1]).unsqueeze(1)

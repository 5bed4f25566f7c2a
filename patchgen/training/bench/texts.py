"""Batches of random texts.  The same text has the same words and labels in every layout.

Axes: B rows, L tokens of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchgen.training.bench.case import Case, Task
from patchgen.training.bench.entry import Layout

LABELLED = 0.15  # share of the words with a label, for a masked language model
FIRST_WORD = 5  # ids below are special in every model here
MASK = 4
NO_LABEL = -100


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of a forward pass, with the lengths of its texts."""

    inputs: dict[str, Tensor]
    texts: tuple[int, ...]  # lengths
    labelled: int  # tokens that a loss is taken at

    @property
    def tokens(self) -> int:
        """Return the number of real tokens."""
        return sum(self.texts)

    @property
    def places(self) -> int:
        """Return the number of tokens with padding."""
        return self.inputs["input_ids"].numel()

    def to(self, device: str) -> Batch:
        return Batch(
            {name: tensor.to(device) for name, tensor in self.inputs.items()},
            self.texts,
            self.labelled,
        )

    def parts(self, several: int) -> Iterator[dict[str, Tensor]]:
        """Yield the inputs in `several` parts with about equally many rows."""
        split = {name: tensor.tensor_split(several) for name, tensor in self.inputs.items()}
        yield from ({name: parts[i] for name, parts in split.items()} for i in range(several))


@dataclass(frozen=True, slots=True)
class _Text:
    ids_L: Tensor
    labels_L: Tensor


def make_batch(
    case: Case, words: int, layout: Layout, rows: int | None = None, number: int = 0
) -> Batch:
    """Return the case's batch of that number, with so many words in the vocabulary."""
    lengths = case.shape.texts(rows, seed=number)
    first = number * len(lengths)
    texts = [
        _text(length, words, case.task, seed) for seed, length in enumerate(lengths, start=first)
    ]
    if case.task == "classify":
        inputs = _padded(texts, longest=_find_row_length(case, lengths))
        return Batch({**inputs, "labels": torch.arange(len(texts)) % 2}, lengths, len(texts))
    labelled = sum(int((text.labels_L != NO_LABEL).sum()) for text in texts)
    if layout != "padded":
        width = case.shape.length if layout == "packed" else sum(lengths)
        return Batch(_packed(texts, width), lengths, labelled)
    return Batch(_padded(texts, longest=_find_row_length(case, lengths)), lengths, labelled)


def _find_row_length(case: Case, lengths: Sequence[int]) -> int:
    """Return the length of padded rows: the shape's, or that of the longest text."""
    return max(lengths) if case.shape.packed or case.batches > 1 else case.shape.length


def _text(length: int, words: int, task: Task, seed: int) -> _Text:
    draw = torch.Generator().manual_seed(seed)
    ids_L = torch.randint(FIRST_WORD, words, (length,), generator=draw)
    labels_L = torch.full_like(ids_L, NO_LABEL)
    if task == "causal":
        labels_L[1:] = ids_L[1:]  # in a packed row the word before a text's first is another text's
    elif task == "masked":
        chosen = torch.randperm(length, generator=draw)[: max(1, int(LABELLED * length))]
        labels_L[chosen] = ids_L[chosen]
        ids_L[chosen] = MASK
    return _Text(ids_L, labels_L)


def _padded(texts: Sequence[_Text], longest: int) -> dict[str, Tensor]:
    """Return a row for each text, padded on the right, with an attention mask in any case."""
    ids_BL = torch.zeros(len(texts), longest, dtype=torch.long)
    labels_BL, mask_BL = torch.full_like(ids_BL, NO_LABEL), torch.zeros_like(ids_BL)
    for row, text in enumerate(texts):
        own = slice(0, len(text.ids_L))
        ids_BL[row, own], labels_BL[row, own], mask_BL[row, own] = text.ids_L, text.labels_L, 1
    return {"input_ids": ids_BL, "attention_mask": mask_BL, "labels": labels_BL}


def _packed(texts: Sequence[_Text], length: int) -> dict[str, Tensor]:
    """Return full rows, with positions that restart at each text."""
    ids = torch.cat([text.ids_L for text in texts]).view(-1, length)
    labels = torch.cat([text.labels_L for text in texts]).view(-1, length)
    positions = torch.cat([torch.arange(len(text.ids_L)) for text in texts]).view(-1, length)
    return {"input_ids": ids, "position_ids": positions, "labels": labels}

"""Makes rows of tokens from passages, and batches from rows.

Axes: B rows of a batch, L tokens of a row.  A passage of more than `length` tokens becomes several
pieces.  Nothing is cut off, except what does not fill the last row of concatenated passages.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from transformers import DataCollatorForLanguageModeling, DataCollatorWithPadding

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.corpus import Passage
from patchgen.training.loop.recipe import Recipe

Row: TypeAlias = "dict[str, Any]"
IGNORED = -100  # the label that transformers' losses ignore
DRAWS = 20  # of masks, until one masks a token


def make_rows(
    passages: Sequence[Passage], tokenizer: Any, recipe: Recipe, labels: Sequence[str]
) -> list[Row]:
    """Return the rows in the order of the passages; isolated passages are sorted by length."""
    pieces = list(
        _pieces(passages, tokenizer, recipe, {label: place for place, label in enumerate(labels)})
    )
    if recipe.packing == "concatenated":
        return list(_concatenate(pieces, tokenizer, recipe.length))
    if recipe.packing == "isolated":
        return list(_isolate(pieces, tokenizer, recipe.length))
    return pieces


def _pieces(
    passages: Sequence[Passage], tokenizer: Any, recipe: Recipe, numbers: Mapping[str, int]
) -> Iterator[Row]:
    encoded = tokenizer(
        [passage.text for passage in passages],
        truncation=True,
        max_length=recipe.length,
        return_overflowing_tokens=True,
        return_attention_mask=False,
    )
    for ids, passage in zip(
        encoded["input_ids"], encoded["overflow_to_sample_mapping"], strict=True
    ):
        label = (
            {"labels": numbers[passages[passage].label]} if recipe.task == "classification" else {}
        )
        yield {"input_ids": ids, **label}


def _concatenate(pieces: Iterable[Row], tokenizer: Any, length: int) -> Iterator[Row]:
    """Concatenate all pieces and cut them into full rows; tokens see the passages before theirs."""
    end = tokenizer.eos_token_id
    ids: list[int] = []
    for piece in pieces:
        ids += piece["input_ids"]
        if end is not None and ids[-1] != end:
            ids.append(end)
        while len(ids) >= length:
            yield {"input_ids": ids[:length]}
            ids = ids[length:]


def _isolate(pieces: Sequence[Row], tokenizer: Any, length: int) -> Iterator[Row]:
    """Pack each piece into the row where it leaves the least space, longest first.

    Positions restart at each piece, so transformers masks the others.  What stays empty is padding.
    """
    free: dict[int, list[list[list[int]]]] = {}  # rows by the tokens that still fit
    rows: list[list[list[int]]] = []
    for piece in sorted((piece["input_ids"] for piece in pieces), key=len, reverse=True):
        room = next((left for left in range(len(piece), length) if free.get(left)), None)
        row: list[list[int]] = [] if room is None else free[room].pop()
        if room is None:
            rows.append(row)
        row.append(piece)
        free.setdefault((length if room is None else room) - len(piece), []).append(row)
    for row in rows:
        padding = [tokenizer.pad_token_id] * (length - sum(map(len, row)))
        yield _packed(row, padding)


def _packed(pieces: list[list[int]], padding: list[int]) -> Row:
    every = [*pieces, padding]
    # The first token of a piece has nothing to be predicted from.
    labels = [token for piece in pieces for token in (IGNORED, *piece[1:])] + [IGNORED] * len(
        padding
    )
    return {
        "input_ids": [token for piece in every for token in piece],
        "position_ids": [place for piece in every for place in range(len(piece))],
        "labels": labels,
    }


def text_lengths(row: Row) -> list[int]:
    """Return the lengths of the texts in a row that do not see each other, without padding."""
    places = row.get("position_ids")
    if places is None:
        return [len(row["input_ids"])]
    begins = [at for at, place in enumerate(places) if place == 0]
    lengths = [end - begin for begin, end in zip(begins, [*begins[1:], len(places)], strict=True)]
    # Padding is a piece without labels.
    pieces = zip(begins, lengths, strict=True)
    return [
        n
        for at, n in pieces
        if n == 1 or any(label != IGNORED for label in row["labels"][at : at + n])
    ]


@dataclass(frozen=True, slots=True)
class Collate:
    """Makes a batch of rows.

    The masks of masked-lm are seeded by the batch itself, so they are the same wherever the batch
    is made: in a worker, ahead of its step, or after a resume.
    """

    tokenizer: Any
    task: str
    packing: str
    masked: float = 0.0

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return tensors of shape (B, L); the labels of classification have shape (B,)."""
        if self.task == "masked-lm":
            return self._hidden(rows)
        if self.packing == "isolated":
            return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}
        batch = dict(DataCollatorWithPadding(self.tokenizer)([dict(row) for row in rows]))
        if self.task == "causal-lm":
            batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return batch

    def _hidden(self, rows: Sequence[Row]) -> dict[str, Any]:
        kept = [{name: value for name, value in row.items() if name != "labels"} for row in rows]
        collate = DataCollatorForLanguageModeling(
            self.tokenizer, mlm=True, mlm_probability=self.masked
        )
        seed = zlib.crc32(repr([row["input_ids"] for row in rows]).encode())
        for draw in range(DRAWS):
            collate.generator = torch.Generator().manual_seed(seed + draw)
            batch = dict(collate([dict(row) for row in kept]))
            if (batch["labels"] != IGNORED).any():
                break
        if self.packing == "isolated":
            del batch["attention_mask"]  # of ones; the positions say what sees what
        return batch


def check_rows(rows: Sequence[Row], of: str) -> None:
    """Raise PG815 where there is nothing to train or evaluate on."""
    if not rows:
        raise PatchgenError(
            "PG815", Location(of), "gives no full row", "give more text, or a smaller --length"
        )


def check_isolation(model: Any, vocabulary: int) -> None:
    """Raise PG812 where a packed row gives other logits than its passages alone.

    The model computes two passages of random tokens in both ways.
    """
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randint(vocabulary, (1, length), generator=draw) for length in (7, 9))
    place = torch.cat([torch.arange(7), torch.arange(9)])[None]
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    with torch.no_grad():
        packed = model(
            input_ids=torch.cat([first, second], 1).to(device), position_ids=place.to(device)
        ).logits[:, 7:]
        alone = model(input_ids=second.to(device), position_ids=place[:, 7:].to(device)).logits
    model.train(was_training)
    difference = (packed - alone).abs().max() / alone.abs().max()
    if not difference < 1e-3:
        what = "in this model the passages of a packed row see each other"
        hint = "take --packing concatenated, or a variant that isolates passages"
        raise PatchgenError("PG812", Location("--packing isolated"), what, hint)

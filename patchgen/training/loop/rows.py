"""What a model is trained on: rows of tokens with labels, made from passages, and batches made from rows.

Legend: B rows of a batch, L tokens of a row.  A passage of more than `length` tokens becomes several pieces; nothing
is cut away but, in rows that are joined, what does not fill a last one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from transformers import DataCollatorForLanguageModeling, DataCollatorWithPadding

from patchgen.errors import Location, PatchgenError
from patchgen.training.loop.corpus import Passage
from patchgen.training.loop.recipe import Recipe

Row: TypeAlias = "dict[str, Any]"
IGNORED = -100  # the label of what is not predicted, for every loss of transformers
DRAWS = 20  # of masks, until one hides a token


def make_rows(
    passages: Sequence[Passage], tokenizer: Any, recipe: Recipe, labels: Sequence[str]
) -> list[Row]:
    """The rows, in the order of the passages; packed ones in that of their first passage or so."""
    pieces = list(
        _pieces(passages, tokenizer, recipe, {label: place for place, label in enumerate(labels)})
    )
    if recipe.packing == "joined":
        return list(_concatenate(pieces, tokenizer, recipe.length))
    if recipe.packing == "apart":
        return list(_isolate(pieces, tokenizer, recipe.length))
    return pieces


def _pieces(
    passages: Sequence[Passage], tokenizer: Any, recipe: Recipe, numbers: Mapping[str, int]
) -> Iterator[Row]:
    told = tokenizer(
        [passage.text for passage in passages],
        truncation=True,
        max_length=recipe.length,
        return_overflowing_tokens=True,
        return_attention_mask=False,
    )
    for ids, passage in zip(told["input_ids"], told["overflow_to_sample_mapping"], strict=True):
        label = (
            {"labels": numbers[passages[passage].label]} if recipe.task == "classification" else {}
        )
        yield {"input_ids": ids, **label}


def _concatenate(pieces: Iterable[Row], tokenizer: Any, length: int) -> Iterator[Row]:
    """All in a row, cut where a row is full: what stands before a passage in its row is seen from it."""
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
    """Each piece into the row that it fills best, longest first; positions begin anew with each, so that transformers
    keeps them apart.  What stays empty is one more piece, of padding.
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
    # A piece's first token is predicted from nothing.
    labels = [token for piece in pieces for token in (IGNORED, *piece[1:])] + [IGNORED] * len(
        padding
    )
    return {
        "input_ids": [token for piece in every for token in piece],
        "position_ids": [place for piece in every for place in range(len(piece))],
        "labels": labels,
    }


def text_lengths(row: Row) -> list[int]:
    """The lengths of the texts in a row that do not see each other; padding in a packed row is left out."""
    places = row.get("position_ids")
    if places is None:
        return [len(row["input_ids"])]
    begins = [at for at, place in enumerate(places) if place == 0]
    lengths = [end - begin for begin, end in zip(begins, [*begins[1:], len(places)], strict=True)]
    # What fills a row up is a piece of its own without a label.
    pieces = zip(begins, lengths, strict=True)
    return [
        n
        for at, n in pieces
        if n == 1 or any(label != IGNORED for label in row["labels"][at : at + n])
    ]


@dataclass(frozen=True, slots=True)
class Collate:
    """Rows to a batch.  The masks of masked-lm are drawn from the batch itself.

    So they are the same wherever and whenever the batch is made: in a worker, ahead of its step, or after a resume.
    """

    tokenizer: Any
    task: str
    packing: str
    masked: float = 0.0

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Tensors of shape (B, L), and (B,) for the labels of classification."""
        if self.task == "masked-lm":
            return self._hidden(rows)
        if self.packing == "apart":
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
        if self.packing == "apart":
            del batch["attention_mask"]  # of ones; the positions say what sees what
        return batch


def check_rows(rows: Sequence[Row], of: str) -> None:
    """PG815 where nothing is left to train or evaluate on."""
    if not rows:
        raise PatchgenError(
            "PG815", Location(of), "gives no full row", "give more text, or a smaller --length"
        )


def check_isolation(model: Any, vocabulary: int) -> None:
    """PG812 where a packed row does not compute what its passages compute alone.

    Asked of the model itself, with two passages of random tokens.
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
    apart = (packed - alone).abs().max() / alone.abs().max()
    if not apart < 1e-3:
        what = "the passages of a packed row see each other in this model"
        hint = "--packing joined trains it so, and says it; or take a variant that keeps them apart"
        raise PatchgenError("PG812", Location("--packing apart"), what, hint)

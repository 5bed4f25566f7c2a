"""Reads data by `datasets`, and makes rows of tokens of it.

Text stays as it is, byte for byte: the rows of a document, joined and decoded, are the document.
An end-of-text token stands behind each document and nowhere else.  Conversations go through the
tokenizer's chat template, and only what the assistant says has labels.

Axes: B rows of a batch, L tokens of a row.
"""

from __future__ import annotations

import csv
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
)

from patchgen import disk
from patchgen.runtime.load import place_of
from patchgen.syntax.errors import Location, PatchgenError, one_line
from patchgen.training.loop.options import Options, needs

Row = dict[str, Any]  # names of a model's inputs, and one array of tokens for each
IGNORED = -100  # the label that transformers' losses ignore
SHIPPED = Path(__file__).with_name("text")
TABLES = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
SPLITS = ("validation", "test")  # the first that a data set has is for evaluation
KEPT = 10  # without such a split, one document (or row) in ten is for evaluation
DRAWS = 20  # of masks, until one masks a token
SIGNS = ("dataset_dict.json", "state.json")  # of what `datasets` has saved


@dataclass(frozen=True, slots=True)
class Document:
    """A text or a conversation as tokens; `label` is that of classification.

    `answers` is true where the loss counts a token; None: everywhere.
    """

    tokens: list[int]
    label: int = 0
    answers: list[bool] | None = None


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of a run, and what made them."""

    source: str
    tokenizer: Any
    labels: tuple[str, ...]
    train: list[Row]
    kept: list[Row]
    collate: Collate

    @property
    def digest(self) -> str:
        """Return a digest of all rows."""
        digest = hashlib.sha256()
        for row in (*self.train, *self.kept):
            for name in sorted(row):
                digest.update(name.encode() + numpy.asarray(row[name], numpy.int64).tobytes())
        return digest.hexdigest()


def prepare_data(options: Options, checkpoint: str, *, evaluated: bool) -> TrainingData:
    """Read the data, and make tokens and rows; rows are kept for evaluation where `evaluated`.

    Raises PatchgenError PG815 for data that cannot be read or trained on.
    """
    parts, source = load(options)
    column = _text_column(options, parts["train"], source)
    name = options.tokenizer or checkpoint
    tokenizer = load_tokenizer(name) if name else shipped_tokenizer()
    if options.task == "masked-lm" and tokenizer.mask_token_id is None:
        raise PatchgenError("PG812", Location(tokenizer.name_or_path), "its tokenizer has no mask")
    labels: tuple[str, ...] = ()
    if options.task == "classification":
        labels = _labels(options, parts["train"], source)

    def read_split(name: str) -> list[Document]:
        return list(_documents(options, parts[name], column, tokenizer, labels, source))

    documents = read_split("train")
    kept: list[Document] = []
    split = next((name for name in SPLITS if name in parts), None)
    if evaluated and split is not None:
        kept = read_split(split)
    elif evaluated and len(documents) >= KEPT:
        documents, kept = _apart(documents)
    rows = make_rows(documents, tokenizer, options)
    kept_rows = make_rows(kept, tokenizer, options)
    if evaluated and not kept_rows and len(rows) >= KEPT:
        rows, kept_rows = _apart(rows)
    if not rows:
        raise PatchgenError("PG815", Location(source), "is empty", "give some text")
    if evaluated and not kept_rows:
        what = f"{len(rows)} rows are too few: one in {KEPT} is kept for evaluation"
        hint = "give more data, or a split `validation`"
        raise PatchgenError("PG815", Location(source), what, hint)
    collate = Collate(tokenizer, options.task, options.masked)
    return TrainingData(source, tokenizer, labels, rows, kept_rows, collate)


def _apart(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Keep every `KEPT`-th for evaluation."""
    items = list(items)
    kept = items[KEPT - 1 :: KEPT]
    del items[KEPT - 1 :: KEPT]
    return items, kept


def load(options: Options) -> tuple[Mapping[str, Any], str]:
    """Return the splits of the data, and how messages call it."""
    datasets = needs("datasets", "--data")
    names = options.data or [str(path) for path in sorted(SHIPPED.glob("*.txt"))]
    source = ", ".join(options.data) or "the text that patchgen ships"
    paths = [Path(name) for name in names]
    kinds = {TABLES.get(path.suffix, "text") for path in paths}
    first = paths[0]
    try:
        if len(paths) == 1 and first.is_dir() and any((first / sign).exists() for sign in SIGNS):
            parts = datasets.load_from_disk(names[0])
        elif len(paths) == 1 and not first.exists():
            parts = datasets.load_dataset(names[0])
        elif kinds == {"text"}:
            parts = datasets.Dataset.from_dict({"text": list(_files(paths))})
        elif len(kinds) > 1:
            raise ValueError(f"{' and '.join(sorted(kinds))} together: name files of one kind")
        elif kinds == {"csv"}:
            parts = datasets.Dataset.from_list(list(_lines(names)))
        else:
            parts = datasets.load_dataset(*kinds, data_files=names)
    except PatchgenError:
        raise
    except Exception as error:  # file systems, the Hub and parsers raise errors of their own
        what = f"cannot be read: {one_line(error)}"
        hint = "name text files, a folder, a table (csv, json, parquet) or a data set of the Hub"
        raise PatchgenError("PG815", Location(source), what, hint) from error
    splits = parts if isinstance(parts, dict) else {"train": parts}
    if "train" not in splits:
        what = f"has no split `train`, but {', '.join(splits)}"
        raise PatchgenError("PG815", Location(source), what)
    return splits, source


def _lines(names: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of CSV files as text; a reader that guesses types would make 7 of 007."""
    csv.field_size_limit(2**31 - 1)
    for name in names:
        with disk.text_lines(name) as file:
            yield from csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")


def _files(paths: Iterable[Path]) -> Iterator[str]:
    """Yield each text file as it is; the reader of `datasets` would change the ends of lines."""
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file())
        for file in files:
            if not file.exists():
                raise PatchgenError("PG815", Location(str(file)), "does not exist")
            try:
                yield disk.read_bytes(file, disk.DATA).decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"is no text in UTF-8: {error}"
                raise PatchgenError("PG815", Location(str(file)), what) from error


def _text_column(options: Options, part: Any, source: str) -> str:
    names = [options.text_column] if options.text_column else ["text", "messages"]
    column = next((name for name in names if name in part.column_names), None)
    if column is None:
        what = f"has no column {' or '.join(names)}, but {', '.join(part.column_names) or 'none'}"
        raise PatchgenError("PG815", Location(source), what, "--text_column NAME")
    return column


def _text(value: Any, number: int, column: str, source: str) -> str:
    if not isinstance(value, str):
        what = f"row {number} of {column} is no text, but {type(value).__name__}: {value!r:.60}"
        hint = "readers of JSON take some texts for dates: Parquet and CSV keep them"
        raise PatchgenError("PG815", Location(source), what, hint)
    return value


def _labels(options: Options, part: Any, source: str) -> tuple[str, ...]:
    column = options.label_column
    if column not in part.column_names:
        what = f"has no column {column}, but {', '.join(part.column_names)}"
        raise PatchgenError("PG815", Location(source), what, "--label_column NAME")
    names = getattr(part.features[column], "names", None)
    labels = tuple(names or sorted({str(value) for value in part[column]}))
    if len(labels) < 2:
        what = f"classification tells labels apart, and here is one: {', '.join(labels)}"
        raise PatchgenError("PG815", Location(source), what)
    return labels


def _documents(
    options: Options, part: Any, column: str, tokenizer: Any, labels: Sequence[str], source: str
) -> Iterator[Document]:
    named = labels and hasattr(part.features[options.label_column], "names")
    keys = range(len(labels)) if named else labels
    numbers = {str(key): number for number, key in enumerate(keys)}
    for number, row in enumerate(part):
        value = row[column]
        if isinstance(value, list):
            if options.task != "causal-lm":
                what = f"row {number} of {column} is a conversation, and {options.task} takes texts"
                raise PatchgenError("PG815", Location(source), what)
            yield conversation(value, tokenizer, f"{source}: row {number}")
            continue
        text = _text(value, number, column, source)
        # What looks like a special token in a text is text.
        encoded = tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, verbose=False
        )
        label = str(row[options.label_column]) if labels else ""
        if labels and label not in numbers:
            what = f"row {number} has the label {label}, which no row for training has"
            raise PatchgenError("PG815", Location(source), what)
        if encoded["input_ids"]:
            yield Document(encoded["input_ids"], numbers.get(label, 0))


def conversation(messages: list[Any], tokenizer: Any, source: str) -> Document:
    """Return a conversation as the chat template writes it; the loss counts what is answered.

    Raises PatchgenError PG815 without a template, and where the template writes the beginning of a
    conversation in another way than the whole, so that no answer has a place.
    """
    if not getattr(tokenizer, "chat_template", None):
        what = "is a conversation, and the tokenizer has no chat template"
        hint = "--tokenizer NAME of a chat model, or --text_column of a column with texts"
        raise PatchgenError("PG815", Location(source), what, hint)

    def applied(count: int, **more: Any) -> list[int]:
        try:
            return list(tokenizer.apply_chat_template(messages[:count], return_dict=False, **more))
        except Exception as error:  # templates raise errors of their own
            what = f"the chat template refuses it: {one_line(error)}"
            raise PatchgenError("PG815", Location(source), what) from error

    tokens = applied(len(messages))
    answers = [False] * len(tokens)
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        begin = applied(number, add_generation_prompt=True)
        end = applied(number + 1)
        if tokens[: len(begin)] != begin or tokens[: len(end)] != end:
            what = f"the chat template writes message {number} in another way in the whole"
            hint = "take a template that only adds text to what it wrote before"
            raise PatchgenError("PG815", Location(source), what, hint)
        answers[len(begin) : len(end)] = [True] * (len(end) - len(begin))
    if not any(answers):
        raise PatchgenError("PG815", Location(source), "has no answer of an assistant to learn")
    return Document(tokens, answers=answers)


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens that the tokenizer puts before a text and behind it."""
    whole = tokenizer("a")["input_ids"]
    text = tokenizer("a", add_special_tokens=False)["input_ids"]
    begin = next(at for at in range(len(whole)) if whole[at : at + len(text)] == text)
    return whole[:begin], whole[begin + len(text) :]


def make_rows(documents: Sequence[Document], tokenizer: Any, options: Options) -> list[Row]:
    """Return the rows, in the order of the documents; isolated ones are packed by length.

    Nothing is cut off but what of a classified text or of a conversation exceeds a row.
    """
    before, behind = frame(tokenizer)
    end = tokenizer.eos_token_id
    if options.task == "causal-lm" and not behind and end is not None:
        behind = [end]
    pieces: list[Row] = []
    for document in documents:
        pieces += _pieces(document, before, behind, options)
    rows: Iterable[Row] = pieces
    if options.packing == "concatenated":
        rows = _concatenated(pieces, options.length)
    elif options.packing == "isolated":
        rows = _isolated(pieces, options.length, tokenizer.pad_token_id)
    # From a row without a label nothing can be learned; of its first token there is no loss.
    return [row for row in rows if options.task != "causal-lm" or has_label(row)]


def has_label(row: Row) -> bool:
    """Return whether a token behind the first has a label."""
    return bool((row["labels"][1:] != IGNORED).any())


def _pieces(
    document: Document, before: list[int], behind: list[int], options: Options
) -> Iterator[Row]:
    """Yield a document as rows of at most `length` tokens."""
    length = options.length
    if document.answers is not None:  # the template has written what is around it
        tokens = numpy.asarray(document.tokens[:length], dtype=numpy.int64)
        answers = numpy.asarray(document.answers[:length])
        yield {"input_ids": tokens, "labels": numpy.where(answers, tokens, IGNORED)}
        return
    tokens = document.tokens
    if options.task == "causal-lm":
        tokens = [*before, *tokens, *behind]
        before = []
        behind = []
    room = length - len(before) - len(behind)
    for part in _parts(len(tokens), room):
        piece = [*before, *tokens[part], *behind]
        row: Row = {"input_ids": numpy.asarray(piece, dtype=numpy.int64)}
        if options.task == "classification":
            yield {**row, "labels": document.label}
            return
        if options.task == "causal-lm":
            row["labels"] = row["input_ids"]
        yield row


def _concatenated(pieces: Sequence[Row], length: int) -> Iterator[Row]:
    """Yield all pieces as one stream, cut into rows; tokens see the documents before theirs."""
    if not pieces:
        return
    stream = {}
    for name in pieces[0]:
        stream[name] = numpy.concatenate([piece[name] for piece in pieces])
    for part in _parts(len(stream["input_ids"]), length):
        yield {name: values[part] for name, values in stream.items()}


def _parts(count: int, room: int) -> Iterator[slice]:
    """Yield parts of at most `room` tokens; none of one token, which has nothing to predict it."""
    begin = 0
    while begin < count:
        size = room
        if count - begin == room + 1:
            size -= 1
        end = begin + max(1, size)
        yield slice(begin, end)
        begin = end


def _isolated(pieces: Sequence[Row], length: int, padding: int) -> Iterator[Row]:
    """Put each piece into the row where it leaves the least space, longest first.

    Positions restart at each piece, so transformers masks the others.  What stays empty is padding.
    """
    free: dict[int, list[list[Row]]] = defaultdict(list)  # rows by the tokens that still fit
    rows: list[list[Row]] = []
    for piece in sorted(pieces, key=_size, reverse=True):
        size = _size(piece)
        room = size
        while room < length and not free[room]:
            room += 1
        row: list[Row] = []
        if room < length:
            row = free[room].pop()
        else:
            rows.append(row)
        row.append(piece)
        free[room - size].append(row)
    for row in rows:
        yield _joined(row, length, padding)


def _size(piece: Row) -> int:
    return len(piece["input_ids"])


def _joined(pieces: Sequence[Row], length: int, padding: int) -> Row:
    """Return a row of several pieces: nothing predicts the first token of any."""
    row: Row = {
        "input_ids": numpy.full(length, padding),
        "position_ids": numpy.zeros(length, dtype=numpy.int64),
        "labels": numpy.full(length, IGNORED),
    }
    begin = 0
    for piece in pieces:
        end = begin + _size(piece)
        row["input_ids"][begin:end] = piece["input_ids"]
        row["position_ids"][begin:end] = numpy.arange(end - begin)
        labels: Any = piece.get("labels", piece["input_ids"])
        row["labels"][begin + 1 : end] = labels[1:]
        begin = end
    row["position_ids"][begin:] = numpy.arange(length - begin)
    return row


@dataclass(frozen=True, slots=True)
class Collate:
    """Makes a batch of rows.

    The masks of masked-lm are seeded by the batch itself, so they are the same wherever the batch
    is made: in a worker, ahead of its step, or after a resume.
    """

    tokenizer: Any
    task: str
    masked: float = 0.0

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return tensors of shape (B, L); the labels of classification have shape (B,)."""
        if self.task == "masked-lm":
            return self._hidden(rows)
        return self._padded(rows)

    def _padded(self, rows: Sequence[Row]) -> dict[str, Any]:
        fill = {"input_ids": self.tokenizer.pad_token_id, "labels": IGNORED, "position_ids": 0}
        batch = {}
        for name, first in rows[0].items():
            values = [row[name] for row in rows]
            if numpy.ndim(first) == 0:
                batch[name] = torch.tensor(values)
                continue
            tensors = [*map(torch.as_tensor, values)]
            batch[name] = pad_sequence(tensors, batch_first=True, padding_value=fill[name])
        if "position_ids" not in batch:  # with positions, those say what sees what
            real = [torch.ones(_size(row), dtype=torch.int64) for row in rows]
            batch["attention_mask"] = pad_sequence(real, batch_first=True)
        return batch

    def _hidden(self, rows: Sequence[Row]) -> dict[str, Any]:
        batch = self._padded(rows)
        seed = zlib.crc32(batch["input_ids"].numpy().tobytes())
        hide = DataCollatorForLanguageModeling(
            self.tokenizer, mlm=True, mlm_probability=self.masked
        )
        for draw in range(DRAWS):
            hide.generator = torch.Generator().manual_seed(seed + draw)
            tokens, labels = hide.torch_mask_tokens(batch["input_ids"].clone())
            if (labels != IGNORED).any():
                break
        return {**batch, "input_ids": tokens, "labels": labels}


def text_lengths(row: Mapping[str, Any]) -> list[int]:
    """Return the lengths of the texts in a row that do not see each other."""
    lengths = row.get("seq_lengths")  # of the packing of TRL
    if lengths is not None:
        return list(lengths)
    places = row.get("position_ids")
    if places is None:
        return [len(row["input_ids"])]
    begins = numpy.flatnonzero(numpy.asarray(places) == 0)
    between: list[int] = numpy.diff(begins, append=len(places)).tolist()
    return between


def shipped_tokenizer() -> Any:
    """Return the byte-level tokenizer of 1,024 tokens that patchgen ships with its text.

    It puts `<s>` and `</s>` around a text, which are also BERT's class and separator tokens.
    """
    return PreTrainedTokenizerFast(
        tokenizer_file=str(SHIPPED / "tokenizer.json"),
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        mask_token="<mask>",
        cls_token="<s>",
        sep_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of that name or checkpoint.

    Raises PatchgenError PG813 where there is none, and PG812 where it cannot pad.
    """
    folder, packed = place_of(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **packed)
    except (OSError, ValueError, KeyError):  # what transformers raises where it finds none
        tokenizer = ()
    if len(tokenizer) < 2:  # none, or one made of nothing but a name, without a vocabulary
        hint = "`patchgen train` takes another by --tokenizer"
        raise PatchgenError("PG813", Location(name), "has no tokenizer to be had", hint)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise PatchgenError("PG812", Location(name), "its tokenizer has no token to pad with")
    return tokenizer

"""Text in is text out, byte for byte; a conversation is what its template writes."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")

import torch
from torch.utils.data import DataLoader

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.options import Options
from patchgen.training.loop.texts import IGNORED, prepare_data

DOCUMENTS = [
    "def f(x):\n    if x:\n\treturn 1\n\n\n    # two empty lines above\n",
    "a,b|c\r\n| --- | :-: |\r\n\r\n",
    "NA",
    "007",
    "2020-01-01 00:00:00 \u2028 \xa0é 日本 \U0001f600",
    " what looks like a token: </s><s><pad> ",
    "word " * 90,
]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = [
    {"role": "system", "content": "Answer in a word."},
    {"role": "user", "content": "What is\n  2 + 2?"},
    {"role": "assistant", "content": "Four.\n"},
    {"role": "user", "content": "And 3?"},
    {"role": "assistant", "content": "Nine"},
]


def as_csv(place):
    with open(place / "a.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "number"])
        writer.writerows((text, number) for number, text in enumerate(DOCUMENTS))
    return "a.csv"


def as_jsonl(place):
    lines = (json.dumps({"text": text}) + "\n" for text in DOCUMENTS)
    (place / "a.jsonl").write_text("".join(lines), encoding="utf-8")
    return "a.jsonl"


def as_parquet(place):
    datasets.Dataset.from_dict({"text": DOCUMENTS}).to_parquet(str(place / "a.parquet"))
    return "a.parquet"


def as_folder(place):
    (place / "texts" / "deep").mkdir(parents=True)
    for number, text in enumerate(DOCUMENTS):
        (place / "texts" / ("deep" if number > 3 else "") / f"{number}.py").write_bytes(
            text.encode()
        )
    return "texts"


def as_saved(place):
    datasets.Dataset.from_dict({"text": DOCUMENTS}).save_to_disk(str(place / "saved"))
    return "saved"


def read(place, name, **options):
    given = {"data": [str(place / name)], "length": 24, **options}
    return prepare_data(Options(**given), "", evaluated=False)


@pytest.mark.parametrize("packing", ["none", "concatenated"])
@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_parquet, as_folder, as_saved])
def test_what_is_trained_on_is_the_text(tmp_path, write, packing):
    data = read(tmp_path, write(tmp_path), packing=packing)
    tokens = []
    for batch in DataLoader(data.train, batch_size=3, collate_fn=data.collate):
        for row, seen, labels in zip(
            batch["input_ids"], batch["attention_mask"].bool(), batch["labels"], strict=True
        ):
            tokens += row[seen].tolist()
            assert torch.equal(labels[seen], row[seen]) and (labels[~seen] == IGNORED).all()
    begin, end = data.tokenizer.bos_token_id, data.tokenizer.eos_token_id
    cuts = [-1, *(at for at, token in enumerate(tokens) if token == end)]
    parts = [tokens[before + 1 : at] for before, at in pairwise(cuts)]
    assert cuts[-1] == len(tokens) - 1 and all(part[0] == begin for part in parts)
    decoded = [data.tokenizer.decode(part[1:]) for part in parts]
    assert sorted(decoded) == sorted(DOCUMENTS) if write is as_folder else decoded == DOCUMENTS
    full = [len(row["input_ids"]) == 24 for row in data.train]
    assert all(full[:-1]) == (packing == "concatenated")


def test_documents_that_are_isolated_are_whole(tmp_path):
    data = read(tmp_path, as_parquet(tmp_path), packing="isolated", length=64)
    pieces = []
    for row in data.train:
        begins = [*(at for at, place in enumerate(row["position_ids"]) if place == 0), 64]
        for begin, end in pairwise(begins):
            assert row["labels"][begin] == IGNORED
            pieces.append(
                data.tokenizer.decode(row["input_ids"][begin:end], skip_special_tokens=True)
            )
    joined = "".join(sorted(pieces, key="".join(DOCUMENTS).find))
    assert len(joined) == len("".join(DOCUMENTS))


def test_each_row_of_a_masked_model_is_framed(tmp_path):
    data = read(tmp_path, as_parquet(tmp_path), task="masked-lm")
    batch = data.collate(data.train[:4])
    assert (batch["input_ids"][:, 0] == data.tokenizer.cls_token_id).all()
    again = data.collate(data.train[:4])
    assert all(torch.equal(batch[name], again[name]) for name in batch)
    tokens = [token for row in data.train for token in row["input_ids"]]  # a cut may be in a letter
    assert data.tokenizer.decode(tokens, skip_special_tokens=True) == "".join(DOCUMENTS)


@pytest.mark.parametrize("packing", ["none", "concatenated"])
def test_no_token_is_alone_in_a_row(tmp_path, packing):
    """Nothing predicts it: a batch of such a row would have a loss that is no number."""
    (tmp_path / "a.txt").write_text(DOCUMENTS[0], encoding="utf-8")
    (whole,) = read(tmp_path, "a.txt", length=1000).train
    for length in range(3, 12):
        rows = read(tmp_path, "a.txt", length=length, packing=packing).train
        sizes = [len(row["input_ids"]) for row in rows]
        assert 1 < min(sizes) <= max(sizes) <= length
        assert sum(sizes) == len(whole["input_ids"])


@pytest.fixture
def chat(tmp_path):
    """A tokenizer with a template, and conversations."""
    tokenizer = read(tmp_path, as_parquet(tmp_path)).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": TALK}) + "\n", encoding="utf-8")
    return tokenizer


@pytest.mark.parametrize("packing", ["none", "concatenated"])
def test_a_conversation_is_what_its_template_writes(tmp_path, chat, packing):
    given = {"tokenizer": str(tmp_path / "tokenizer"), "length": 300, "packing": packing}
    (row,) = read(tmp_path, "talks.jsonl", **given).train
    whole = chat.apply_chat_template(TALK, return_dict=True)["input_ids"]
    assert row["input_ids"].tolist() == list(whole)
    learned = row["labels"] != IGNORED
    assert (row["labels"][learned] == row["input_ids"][learned]).all()
    answered = chat.decode(row["input_ids"][learned])
    assert answered == "Four.\n</assistant>\nNine</assistant>\n"


def test_rows_in_which_nothing_is_answered_are_left_out(tmp_path, chat):
    """What is answered may be behind the end of a row."""
    short = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Yes"}]
    lines = "".join(json.dumps({"messages": each}) + "\n" for each in (TALK, short))
    (tmp_path / "talks.jsonl").write_text(lines, encoding="utf-8")
    (row,) = read(tmp_path, "talks.jsonl", tokenizer=str(tmp_path / "tokenizer"), length=40).train
    assert chat.decode(row["input_ids"]).startswith("<user>?")


def test_conversations_that_cannot_be_trained_on(tmp_path, chat):
    path = str(tmp_path / "tokenizer")
    with pytest.raises(PatchgenError, match="PG815.*no chat template"):
        read(tmp_path, "talks.jsonl")
    with pytest.raises(PatchgenError, match="PG815.*masked-lm takes texts"):
        read(tmp_path, "talks.jsonl", tokenizer=path, task="masked-lm")
    chat.chat_template = (
        "{{ messages | length }} {% for m in messages %}{{ m.content }}{% endfor %}"
    )
    chat.save_pretrained(path)
    with pytest.raises(PatchgenError, match="PG815.*in another way in the whole"):
        read(tmp_path, "talks.jsonl", tokenizer=path)
    chat.chat_template = None
    chat.save_pretrained(tmp_path / "plain")
    with pytest.raises(PatchgenError, match="PG815.*no chat template"):
        read(tmp_path, "talks.jsonl", tokenizer=str(tmp_path / "plain"))


def test_labels(tmp_path):
    part = datasets.Dataset.from_dict({"text": list("abcdef"), "label": ["x", "y"] * 3})
    part.to_parquet(str(tmp_path / "a.parquet"))
    data = read(tmp_path, "a.parquet", task="classification")
    assert data.labels == ("x", "y")
    assert data.collate(data.train)["labels"].tolist() == [0, 1] * 3


def test_what_is_kept_for_evaluation(tmp_path):
    many = datasets.Dataset.from_dict({"text": [f"Text {n}" for n in range(40)]})
    split = datasets.DatasetDict({"train": many, "validation": many.select(range(3))})
    many.save_to_disk(str(tmp_path / "many"))
    split.save_to_disk(str(tmp_path / "split"))
    (tmp_path / "one.txt").write_text("A word. " * 400, encoding="utf-8")
    for name, kept in (("many", 4), ("split", 3), ("one.txt", None)):
        options = Options(data=[str(tmp_path / name)], length=24)
        data = prepare_data(options, "", evaluated=True)
        assert len(data.kept) == (len(data.train) + len(data.kept)) // 10 if kept is None else kept
        assert not prepare_data(options, "", evaluated=False).kept


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"text": ["a"]}, {"text_column": "body"}, "no column body, but text"),
        ({"words": ["a"]}, {}, "no column text or messages, but words"),
        ({"text": []}, {}, "no data"),
        ({"text": [1, 2]}, {}, "row 0 of text is no text, but int"),
        ({"text": ["a", None]}, {}, "row 1 of text is no text, but NoneType"),
        ({"text": ["a"]}, {"task": "classification"}, "no column label"),
        ({"text": ["a"], "label": [1]}, {"task": "classification"}, "here is one: 1"),
    ],
    ids=str,
)
def test_data_that_cannot_be_trained_on(tmp_path, content, options, message):
    datasets.Dataset.from_dict(content).to_parquet(str(tmp_path / "a.parquet"))
    with pytest.raises(PatchgenError, match="PG815") as refused:
        read(tmp_path, "a.parquet", **options)
    assert message in str(refused.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "b.json").write_text("{", encoding="utf-8")
    (tmp_path / "dates.jsonl").write_text('{"text": "2020-01-01 00:00:00"}\n', encoding="utf-8")
    for name, message in (
        ("a.txt", "no text in UTF-8"),
        ("empty.txt", "is empty"),
        ("b.json", "cannot be read"),
        ("dates.jsonl", "no text, but datetime"),
    ):
        with pytest.raises(PatchgenError, match="PG815") as refused:
            read(tmp_path, name)
        assert message in str(refused.value)

"""What becomes of text: passages, tokens, rows, batches."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.corpus import KEPT, read_corpus
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import IGNORED, Collate, make_rows
from patchgen.training.loop.vocabulary import train_tokenizer

LENGTH = 48


@pytest.fixture(scope="module")
def corpus():
    return read_corpus(Recipe(model="any"))


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer((passage.text for passage in corpus.train), 512)


def made(corpus, tokenizer, **switches):
    recipe = Recipe(model="any", length=LENGTH, **switches)
    labels = corpus.labels if recipe.task == "classification" else ()
    return make_rows(corpus.train, tokenizer, recipe, labels)


def test_the_shipped_text(corpus):
    assert corpus.labels == ("northanger_abbey", "persuasion", "pride_and_prejudice")
    assert len(corpus.train) + len(corpus.kept) == 482 and len(corpus.kept) == 482 // KEPT
    assert any(
        passage.text.startswith("It is a truth universally acknowledged")
        for passage in corpus.train
    )
    assert not {p.text for p in corpus.kept} & {p.text for p in corpus.train if len(p.text) > 20}


def test_tokens_give_the_text_back(corpus, tokenizer):
    for text in (corpus.train[1].text, "Ærøskøbing\t☃  two blanks"):
        ids = tokenizer(text)["input_ids"]
        assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
        assert tokenizer.decode(ids[1:-1], clean_up_tokenization_spaces=False) == text


def test_a_vocabulary_without_room_for_bytes():
    with pytest.raises(PatchgenError, match="PG813.*every byte"):
        train_tokenizer(["x"], 100)


def test_nothing_of_a_passage_is_cut_away(corpus, tokenizer):
    rows = made(corpus, tokenizer)
    assert max(len(row["input_ids"]) for row in rows) == LENGTH
    inner = [token for row in rows for token in row["input_ids"][1:-1]]
    whole = [
        token for passage in corpus.train for token in tokenizer(passage.text)["input_ids"][1:-1]
    ]
    assert inner == whole


def test_rows_that_are_isolated_hold_each_piece_once_and_waste_little(corpus, tokenizer):
    pieces = sorted(tuple(row["input_ids"]) for row in made(corpus, tokenizer))
    rows = made(corpus, tokenizer, packing="isolated")
    found = []
    for row in rows:
        assert len(row["input_ids"]) == len(row["position_ids"]) == len(row["labels"]) == LENGTH
        begins = [place for place, position in enumerate(row["position_ids"]) if position == 0]
        for begin, end in zip(begins, [*begins[1:], LENGTH], strict=True):
            piece, labels = row["input_ids"][begin:end], row["labels"][begin:end]
            assert row["position_ids"][begin:end] == list(range(end - begin))
            if piece[0] == tokenizer.pad_token_id:
                assert set(labels) == {IGNORED} and set(piece) == {tokenizer.pad_token_id}
            else:
                assert labels == [IGNORED, *piece[1:]]
                found.append(tuple(piece))
    assert sorted(found) == pieces
    assert sum(map(len, pieces)) > 0.97 * LENGTH * len(rows)


def test_rows_that_are_joined_are_full_and_one_text(corpus, tokenizer):
    rows = made(corpus, tokenizer, packing="concatenated")
    tokens = [token for row in rows for token in row["input_ids"]]
    whole = [token for row in made(corpus, tokenizer) for token in row["input_ids"]]
    assert {len(row["input_ids"]) for row in rows} == {LENGTH}
    assert tokens == whole[: len(tokens)] and len(whole) - len(tokens) < LENGTH


def test_labels_of_a_causal_batch_are_its_tokens_but_for_padding(corpus, tokenizer):
    rows = made(corpus, tokenizer)[:5]
    batch = Collate(tokenizer, "causal-lm", "none")(rows)
    assert torch.equal(batch["labels"] == IGNORED, batch["attention_mask"] == 0)
    assert (batch["labels"] == batch["input_ids"])[batch["attention_mask"] == 1].all()


def test_labels_of_passages(corpus, tokenizer):
    rows = made(corpus, tokenizer, task="classification")
    batch = Collate(tokenizer, "classification", "none")(rows[:2] + rows[-2:])
    assert batch["labels"].tolist() == [0, 0, 2, 2]


def test_masks_are_the_same_for_the_same_batch_and_others_for_another(corpus, tokenizer):
    rows = made(corpus, tokenizer, task="masked-lm")
    collate = Collate(tokenizer, "masked-lm", "none", 0.15)
    first = collate(rows[:4])
    torch.manual_seed(1)
    torch.rand(3)
    again, other = collate(rows[:4]), collate(rows[1:4] + rows[:1])
    assert torch.equal(first["labels"], again["labels"]) and torch.equal(
        first["input_ids"], again["input_ids"]
    )
    assert not torch.equal(first["labels"], other["labels"].roll(1, 0))
    many = collate(rows[:200])
    share = (many["labels"] != IGNORED).sum() / many["attention_mask"].sum()
    assert 0.12 < share < 0.16


def test_a_short_batch_hides_at_least_one_token(tokenizer):
    collate = Collate(tokenizer, "masked-lm", "none", 0.15)
    for token in range(300, 320):
        batch = collate([{"input_ids": [tokenizer.bos_token_id, token, tokenizer.eos_token_id]}])
        assert (batch["labels"] != IGNORED).sum() == 1


@pytest.mark.parametrize("kind", ["files", "folder", "csv", "saved"])
def test_other_texts(tmp_path, kind):
    texts = {
        "one": [f"the first, {n}" for n in range(15)],
        "two": [f"the second, {n}" for n in range(15)],
    }
    for name, paragraphs in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    if kind in ("csv", "saved"):
        pytest.importorskip("datasets")
    flat = [(text, label) for label, paragraphs in texts.items() for text in paragraphs]
    if kind == "csv":
        lines = "".join(f'"{text}",{label}\n' for text, label in flat)
        (tmp_path / "table.csv").write_text(f"words,kind\n{lines}", encoding="utf-8")
    if kind == "saved":
        import datasets

        columns = {"words": [text for text, _ in flat], "kind": [label for _, label in flat]}
        datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "set")
    data = {
        "files": ("one.txt", "two.txt"),
        "folder": (".",),
        "csv": ("table.csv",),
        "saved": ("set",),
    }[kind]
    named = {"text_column": "words", "label_column": "kind"} if kind in ("csv", "saved") else {}
    asked = Recipe(
        model="any",
        task="classification",
        data=tuple(str(tmp_path / name) for name in data),
        **named,
    )
    found = read_corpus(asked)
    assert (len(found.train), len(found.kept), found.labels) == (27, 3, ("one", "two"))
    assert found.train[0].text == "the first, 0" and found.train[0].label == "one"


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (None, "does not exist|cannot be read"),
        ("", "0 passages"),
        ("one\n\ntwo", "2 passages"),
        (b"\xff\xfe\xff", "text"),
    ],
)
def test_texts_that_cannot_be_trained_on(tmp_path, content, tokens):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PatchgenError, match=f"(?s)PG815.*({tokens})"):
        read_corpus(Recipe(model="any", data=(str(path),)))


def test_a_column_that_is_not_there(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "t.csv").write_text("words\n" + "x\n" * 20, encoding="utf-8")
    with pytest.raises(PatchgenError, match="PG815.*has no column text, but words"):
        read_corpus(Recipe(model="any", data=(str(tmp_path / "t.csv"),)))

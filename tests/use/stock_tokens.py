"""Which variants of the installed gallery generate what the stock models do; printed as JSON, by name.

    python stock_tokens.py RELEASE [NAME ...]

Run in a process of its own, with another transformers.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

import patchgen
from patchgen.runtime.classes import ModelClass, pairs
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import find_variant, known_variants

TOKENS = 3, 90  # above the special ones, within each tiny vocabulary


def outcome(name: str, folder: str) -> str:
    """ "equal", "differs", or why the variant is not there."""
    try:
        variant = find_variant(name)
    except ImportError as error:
        return str(error)
    assert variant.is_installed
    heads = [(ours, stock) for ours, stock in pairs(variant) if makes_tokens(stock)]
    assert heads, name
    return "equal" if all(is_equal(name, *pair, folder) for pair in heads) else "differs"


def makes_tokens(model: ModelClass) -> bool:
    return model.can_generate() or model.__name__.endswith("ForMaskedLM")


def is_equal(name: str, ours: ModelClass, stock: ModelClass, folder: str) -> bool:
    torch.manual_seed(0)
    stock(tiny_config(stock.config_class)).save_pretrained(folder)
    expected = stock.from_pretrained(folder).eval()
    model = patchgen.load(name, folder, head=ours.__name__).eval()
    if model.config.model_type != expected.config.model_type:
        # A mixture: itself, passing nothing on from step to step.
        return made_by(model) == made_by(model, use_cache=False)
    return made_by(model) == made_by(expected)


def made_by(model: PreTrainedModel, **more: Any) -> list[Any] | str:
    """The tokens that the model generates or fills in, or the error in a release that has a fault."""
    torch.manual_seed(1)
    ids = torch.randint(*TOKENS, (2, 9))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if not model.can_generate():
        return model(**given).logits.argmax(-1).tolist()
    given |= {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, **more}
    try:
        return model.generate(**given).tolist()
    except (
        AttributeError
    ) as error:  # 5.24.0 asks Llama 4 for `image_outputs` where there is no image
        return str(error)


def main() -> None:
    release, *names = sys.argv[1:]
    assert transformers.__version__ == release
    with tempfile.TemporaryDirectory() as folder:
        names = names or [variant.name for variant in known_variants(Path(folder))]
        print(json.dumps({name: outcome(name, f"{folder}/{name}") for name in names}))


if __name__ == "__main__":
    main()

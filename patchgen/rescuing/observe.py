# ruff: noqa: E501, B905
# mypy: ignore-errors
"""Build one model and record what it computes: run in the old environment, and in the new one.

    python observe.py before FOLDER PLAN
    python observe.py after FOLDER PLAN

The code is in `FOLDER/before` or `FOLDER/after`, PLAN names its classes.  `FOLDER/before.pt` gets the
weights and what was observed.  Each observation is one class of what a model
does, and one that fails says so by itself.  This file stands alone: it imports torch and whichever
transformers is there, and nothing of patchgen.
"""

import contextlib
import importlib
import json
import sys
import traceback
from pathlib import Path

import torch

SIZES = {
    "vocab_size": 96, "hidden_size": 32, "n_embd": 32, "d_model": 32, "dim": 32, "intermediate_size": 48,
    "moe_intermediate_size": 24, "ffn_dim": 48, "n_inner": 48, "hidden_dim": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "n_positions": 64,
    "n_ctx": 64, "max_seq_len": 64, "max_sequence_length": 64, "head_dim": 8, "rotary_dim": 4, "word_embed_proj_dim": 32,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 4, "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "kv_channels": 8, "padded_vocab_size": 96, "ffn_hidden_size": 48, "seq_length": 64, "embedding_size": 32,
}  # fmt: skip
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 95, "decoder_start_token_id": 1}


def tiny(config_class, given):
    """A small configuration of a class, by the names of its arguments."""
    usual = config_class(**given).to_dict()
    sizes = {k: v for k, v in SIZES.items() if isinstance(usual.get(k), int) and usual[k] > v}
    sizes |= {k: SIZES[k] for k in ("num_key_value_heads",) if k in usual and usual[k] is None}
    sizes |= {k: v for k, v in ENDS.items() if k in usual}
    rates = {k: 0.0 for k, v in usual.items() if "drop" in k and isinstance(v, float)}
    if "num_key_value_heads" in sizes and "kv_lora_rank" in sizes:
        sizes["num_key_value_heads"] = 4
    return {**given, **rates, **sizes}


def load_class(repository, reference, side):
    """A class of the repository, as `trust_remote_code` loads it."""
    if side == "before":  # whose loader asks for packages that are imported under a condition
        sys.path.insert(0, str(repository.parent))
        module, _, name = reference.rpartition(".")
        return getattr(importlib.import_module(f"{repository.name}.{module}"), name)
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    return get_class_from_dynamic_module(reference, str(repository))


def states(cache):
    """The tensors of a cache of any kind, layer by layer."""
    if cache is None:
        return []
    if hasattr(cache, "tuples"):
        cache = cache.tuples
    if hasattr(cache, "layers"):
        return [t for one in cache.layers for t in (one.keys, one.values)]
    if hasattr(cache, "key_cache"):
        return [t for pair in zip(cache.key_cache, cache.value_cache) for t in pair]
    return [t for layer in cache for t in layer if isinstance(t, torch.Tensor)]


def build(model_class, config):
    """The model, with the attention that is spelled out where the usual one is not there."""
    try:
        return model_class(config).float()
    except KeyError as error:
        if "sdpa" not in str(error):
            raise
        config._attn_implementation = "eager"
        return model_class(config).float()


def inputs_of(config):
    """Two texts, the first padded on the left."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 90, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    return {"input_ids": ids.masked_fill(mask == 0, ENDS["pad_token_id"]), "attention_mask": mask}


def observations(model):
    """Name by name: a function that computes a list of tensors."""
    given = inputs_of(model.config)
    real = given["attention_mask"].bool()
    ids = given["input_ids"]

    def forward():
        out = model(**given, return_dict=True)
        logits = out.logits if "logits" in out else out[0]
        return [logits[real] if logits.shape[:2] == real.shape else logits]

    def loss():
        labels = ids.masked_fill(~real, -100)
        out = model(**given, labels=labels, return_dict=True)
        return [out.loss]

    def gradients():
        model.zero_grad()
        out = model(**given, labels=ids.masked_fill(~real, -100), return_dict=True)
        out.loss.backward()
        return {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}

    def hidden_states():
        out = model(**given, output_hidden_states=True, return_dict=True)
        return [state[real] for state in out.hidden_states]

    def cache():
        out = model(input_ids=ids[1:], use_cache=True, return_dict=True)
        more = model(
            input_ids=ids[1:, :1],
            past_key_values=out.past_key_values,
            use_cache=True,
            return_dict=True,
        )
        return [more.logits, *states(more.past_key_values)]

    def generate():
        return [
            model.generate(
                **given, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=95
            )
        ]

    def beams():
        asked = {
            "max_new_tokens": 5,
            "num_beams": 3,
            "do_sample": False,
            "pad_token_id": 0,
            "eos_token_id": 95,
        }
        return [model.generate(**given, **asked, use_cache=use) for use in (True, False)]

    def checkpointing():
        model.gradient_checkpointing_enable()
        model.train()
        try:
            return gradients()
        finally:
            model.gradient_checkpointing_disable()
            model.eval()

    return {
        "logits": forward, "loss": loss, "gradients": gradients, "hidden states": hidden_states,
        "cache": cache, "generate": generate, "beam search": beams, "checkpointing": checkpointing,
    }  # fmt: skip


def observe(model):
    """What each observation gives: tensors, or the error that it ends with."""
    seen = {}
    model.eval()
    for name, compute in observations(model).items():
        try:
            with (
                contextlib.nullcontext()
                if name in ("gradients", "checkpointing")
                else torch.no_grad()
            ):
                found = compute()
                seen[name] = found if isinstance(found, dict) else dict(enumerate(found))
        except Exception as error:  # each model raises its own
            seen[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            traceback.print_exc()
    return seen


def read_weights(folder):
    """The tensors of a checkpoint, from its files."""
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        from safetensors.torch import load_file

        weights |= load_file(path)
    for path in sorted(folder.glob("pytorch_model*.bin")) if not weights else ():
        weights |= torch.load(path, map_location="cpu", weights_only=True)
    if not weights:
        raise SystemExit(f"{folder} has no weights")
    return weights


def load_saved(folder, side, plan, model, eager):
    """The model as a user loads it: written, and read by the auto class."""
    import transformers

    saved = folder / "saved"
    model.save_pretrained(saved)
    for path in (folder / side).glob("*.py"):
        (saved / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    settings = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    settings["auto_map"] = {"AutoConfig": plan["config"], plan["auto"]: plan["model"]}
    (saved / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    asked = {"attn_implementation": "eager"} if eager else {}
    auto = getattr(transformers, plan["auto"])
    return auto.from_pretrained(saved, trust_remote_code=True, **asked)


def main():
    side, folder, plan = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config_class = load_class(folder / side, plan["config"], side)
    model_class = load_class(folder / side, plan["model"], side)
    recorded = folder / "before.pt"
    before = torch.load(recorded, weights_only=False) if recorded.exists() else {}
    sizes = before.get("sizes") or plan["given"]
    if not before and not plan["checkpoint"]:
        sizes = tiny(config_class, plan["given"])
    config = config_class(**sizes)
    model = build(model_class, config)
    weights = before.get("weights")
    if weights is None and plan["checkpoint"]:
        weights = {name: t.float() for name, t in read_weights(Path(plan["checkpoint"])).items()}
    keys = {"missing": [], "unexpected": []}
    if weights is not None:
        loaded = model.load_state_dict(weights, strict=False)
        keys = {"missing": loaded.missing_keys, "unexpected": loaded.unexpected_keys}
    result = {"sizes": sizes, "keys": keys}
    if side == "before":
        result["weights"] = {name: t.clone() for name, t in model.state_dict().items()}
    else:
        model = load_saved(folder, side, plan, model, config._attn_implementation == "eager")
    result["seen"] = observe(model.float())
    torch.save(result, folder / f"{side}.pt")


if __name__ == "__main__":
    main()

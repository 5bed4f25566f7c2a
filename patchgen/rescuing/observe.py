"""Build one model and record what it computes: run in the old environment, and in the new one.

    python -m patchgen.rescuing.observe before|after FOLDER PLAN

The code is in `FOLDER/before` or `FOLDER/after`, PLAN names its classes.  `FOLDER/before.pt` gets
the weights and what was observed; an observation that fails says so by itself.  This file stands
alone: it imports torch and whichever transformers is there, and nothing of patchgen.
"""

import importlib
import itertools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

Tensors = dict[Any, torch.Tensor]  # by their places, or by names
# What makes a model tiny: the arguments of configurations, by the size that they get.
NAMES = {
    1: "n_group topk_group",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers"
    " num_key_value_heads num_experts_per_tok",
    5: "sliding_window",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads"
    " decoder_attention_heads rotary_dim n_routed_experts num_local_experts num_experts",
    8: "head_dim qk_rope_head_dim qk_nope_head_dim v_head_dim kv_channels",
    16: "q_lora_rank kv_lora_rank",
    24: "moe_intermediate_size",
    32: "hidden_size n_embd d_model dim word_embed_proj_dim embedding_size",
    48: "intermediate_size ffn_dim n_inner hidden_dim encoder_ffn_dim decoder_ffn_dim"
    " ffn_hidden_size",
    64: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length seq_length",
    96: "vocab_size padded_vocab_size",
}
SIZES = {name: size for size, names in NAMES.items() for name in names.split()}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 95, "decoder_start_token_id": 1}
GREEDY = {"do_sample": False, "pad_token_id": 0, "eos_token_id": 95}


def tiny(config_class: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A small configuration of a class, by the names of its arguments."""
    usual = config_class(**given).to_dict()
    # Some say FlashAttention, which runs on no CPU.
    small = {name: value for name, value in given.items() if name != "_attn_implementation"}
    for name, value in usual.items():
        if "drop" in name and isinstance(value, float):
            small[name] = 0.0
    sizes = {}
    for name, size in SIZES.items():
        value = usual.get(name)
        if isinstance(value, int) and value > size:
            sizes[name] = size
    if usual.get("embedding_size", 0) >= usual.get("vocab_size", sys.maxsize):  # rows, not columns
        sizes["embedding_size"] = SIZES["vocab_size"]
    if usual.get("num_key_value_heads", 0) is None:
        sizes["num_key_value_heads"] = SIZES["num_key_value_heads"]
    if "num_key_value_heads" in sizes and "kv_lora_rank" in sizes:
        sizes["num_key_value_heads"] = 4
    ends = {name: token for name, token in ENDS.items() if name in usual}
    scaling = usual.get("rope_scaling")
    if isinstance(scaling, dict):
        # Phi-3 and MiniCPM have a factor for each frequency: one for two columns of a head.
        columns = SIZES["head_dim"] // 2
        factors = {}
        for name, value in scaling.items():
            factors[name] = value[:columns] if isinstance(value, list) else value
        small["rope_scaling"] = factors
    return {**small, **sizes, **ends}


def load_class(repository: Path, reference: str, side: str) -> Any:
    """A class of the repository, as `trust_remote_code` loads it."""
    if side == "before":  # whose loader asks for packages that are imported under a condition
        sys.path.insert(0, str(repository.parent))
        module, _, name = reference.rpartition(".")
        return getattr(importlib.import_module(f"{repository.name}.{module}"), name)
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    return get_class_from_dynamic_module(reference, str(repository))


def states(cache: Any) -> list[torch.Tensor]:
    """The tensors of a cache of any kind, layer by layer."""
    cache = getattr(cache, "tuples", cache) or ()
    if hasattr(cache, "layers"):
        cache = [(layer.keys, layer.values) for layer in cache.layers]
    elif hasattr(cache, "key_cache"):
        cache = zip(cache.key_cache, cache.value_cache, strict=True)
    return [t for t in itertools.chain.from_iterable(cache) if isinstance(t, torch.Tensor)]


def build(model_class: Any, config: Any, is_eager: bool) -> Any:
    """The model, with the attention that is spelled out where the usual one is not there."""
    if is_eager:
        config._attn_implementation = "eager"
    try:
        return model_class(config).float()
    except KeyError as error:
        if "sdpa" not in str(error):
            raise
        config._attn_implementation = "eager"
        return model_class(config).float()


def observations(model: Any, way: int) -> dict[str, Callable[[], Iterable[torch.Tensor] | Tensors]]:
    """Name by name: a function that computes tensors.

    The model is given texts with a mask, texts alone, or a series of numbers, by `way`.
    """
    # Two texts, the first padded on the left.
    ids = torch.randint(3, 90, (2, 9), generator=torch.Generator().manual_seed(3))
    real = torch.ones_like(ids).bool()
    real[0, :3] = False
    ids = ids.masked_fill(~real, ENDS["pad_token_id"])
    ways: tuple[Tensors, ...] = ({"attention_mask": real.long()}, {}, {"input_ids": ids / 96})
    texts = {"input_ids": ids, **ways[way]}
    is_pair = getattr(model.config, "is_encoder_decoder", False)
    given = {**texts, "decoder_input_ids": ids} if is_pair else texts
    labelled = {**texts, "labels": ids.masked_fill(~real, -100)}

    def generated(words: int, **how: Any) -> list[torch.Tensor]:
        return [model.generate(**texts, **GREEDY, max_new_tokens=words, **how)]

    def forward() -> list[torch.Tensor]:
        out = model(**given, return_dict=True)
        logits = out.logits if "logits" in out else out[0]
        several = [logits] if isinstance(logits, torch.Tensor) else logits
        return [part[real] if part.shape[:2] == real.shape else part for part in several]

    def gradients() -> Tensors:
        model.zero_grad()
        model(**labelled, return_dict=True).loss.backward()
        return {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}

    def hidden_states() -> list[torch.Tensor]:
        out = model(**given, output_hidden_states=True, return_dict=True)
        kept = out.decoder_hidden_states if is_pair else out.hidden_states
        return [state[real] for state in kept]

    def cache() -> list[torch.Tensor]:
        text = "decoder_input_ids" if is_pair else "input_ids"
        usual = {"input_ids": ids[1:], "use_cache": True, "return_dict": True}
        out = model(**{**usual, text: ids[1:]})
        more = model(**{**usual, text: ids[1:, :1]}, past_key_values=out.past_key_values)
        whole = model(**{**usual, text: torch.cat([ids[1:], ids[1:, :1]], 1)})
        return [more.logits, whole.logits[:, -1:], *states(more.past_key_values)]

    def checkpointing() -> Tensors:
        model.gradient_checkpointing_enable()
        model.train()
        try:
            return gradients()
        finally:
            model.gradient_checkpointing_disable()
            model.eval()

    return {
        "logits": forward,
        "loss": lambda: [model(**labelled, return_dict=True).loss.detach()],
        "gradients": gradients,
        "hidden states": hidden_states,
        "cache": cache,
        "generate": lambda: generated(6),
        "generate without a cache": lambda: generated(6, use_cache=False),
        "beam search": lambda: generated(5, num_beams=3)
        + generated(5, num_beams=3, use_cache=False),
        "checkpointing": checkpointing,
    }


def choose_way(model: Any) -> int:
    """The first kind of inputs that the model takes; 0 where it takes none."""
    for way in range(3):
        try:
            with torch.no_grad():
                observations(model, way)["logits"]()
            return way
        except Exception:  # each model raises its own; `observe` tells
            continue
    return 0


def observe(model: Any, way: int) -> dict[str, Tensors | str]:
    """What each observation gives: tensors, or the error that it ends with."""
    seen: dict[str, Tensors | str] = {}
    model.eval()
    for name, compute in observations(model, way).items():
        try:
            with torch.set_grad_enabled(name in ("gradients", "checkpointing")):
                computed = compute()
            seen[name] = computed if isinstance(computed, dict) else dict(enumerate(computed))
        except Exception as error:  # each model raises its own
            seen[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            traceback.print_exc()
    return seen


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint, from its files, in float32."""
    weights: dict[str, torch.Tensor] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            from safetensors.torch import load_file

            weights |= load_file(path)
        if not weights:
            for path in sorted(folder.glob("pytorch_model*.bin")):
                weights |= torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of safetensors, pickle or the file system
        first = str(error).partition("\n")[0]
        raise SystemExit(f"the checkpoint's {path.name} cannot be read: {first}") from error
    return {name: tensor.float() for name, tensor in weights.items()}


def load_checkpoint(model: Any, weights: Mapping[str, torch.Tensor]) -> dict[str, list[str]]:
    """Load weights, and say which names are missing or unexpected, as `from_pretrained` does."""
    state = model.state_dict()
    for name in state.keys() & weights.keys():
        shape = tuple(weights[name].shape)
        wanted = tuple(state[name].shape)
        if shape != wanted:
            raise SystemExit(f"the checkpoint's {name} is {shape}, the model's {wanted}")
    loaded = model.load_state_dict(weights, strict=False)
    # A tied weight is in a checkpoint once.
    filled = {tensor.data_ptr() for name, tensor in state.items() if name in weights}
    unfilled = [name for name in loaded.missing_keys if state[name].data_ptr() not in filled]
    missing = _without_ignored(unfilled, model, "missing")
    unexpected = _without_ignored(loaded.unexpected_keys, model, "unexpected")
    if missing and unexpected:
        raise SystemExit(
            f"the checkpoint has other names: missing {len(missing)}, such as {missing[0]}; "
            f"unexpected {len(unexpected)}, such as {unexpected[0]}"
        )
    return {"missing": missing, "unexpected": unexpected}


def _without_ignored(names: Iterable[str], model: Any, kind: str) -> list[str]:
    """The names that the model does not say are to be ignored."""
    patterns = getattr(model, f"_keys_to_ignore_on_load_{kind}", None) or ()
    kept = []
    for name in names:
        if not any(re.search(pattern, name) for pattern in patterns):
            kept.append(name)
    return kept


def load_saved(folder: Path, side: str, plan: Mapping[str, Any], model: Any) -> Any:
    """The model as a user loads it: written, and read by the auto class."""
    import transformers

    saved = folder / "saved"
    model.save_pretrained(saved)
    # Saving writes it for models that generate; repositories have it for others, too.
    if not (saved / "generation_config.json").exists():
        transformers.GenerationConfig().save_pretrained(saved)
    for path in (folder / side).glob("*.py"):
        (saved / path.name).write_text(
            path.read_text(encoding="utf-8"), encoding="utf-8", newline="\n"
        )
    settings = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    settings["auto_map"] = {"AutoConfig": plan["config"], plan["auto"]: plan["model"]}
    (saved / "config.json").write_text(json.dumps(settings), encoding="utf-8", newline="\n")
    is_eager = model.config._attn_implementation == "eager"
    asked = {"attn_implementation": "eager"} if is_eager else {}
    auto = getattr(transformers, plan["auto"])
    return auto.from_pretrained(saved, trust_remote_code=True, **asked)


def main() -> None:
    side = sys.argv[1]
    folder = Path(sys.argv[2])
    plan = json.loads(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # Some files leave their weights as memory happens to be, for a checkpoint to fill.
    torch.nn.utils.skip_init = lambda kind, *args, **kwargs: kind(*args, **kwargs)
    config_class = load_class(folder / side, plan["config"], side)
    model_class = load_class(folder / side, plan["model"], side)
    recorded = folder / "before.pt"
    before = torch.load(recorded, weights_only=False) if recorded.exists() else {}
    sizes = before.get("sizes") or plan["given"]
    if not before and not plan["checkpoint"]:
        sizes = tiny(config_class, plan["given"])
    model = build(model_class, config_class(**sizes), plan["eager"])
    weights = before.get("weights")
    if weights is None and plan["checkpoint"]:
        weights = read_weights(Path(plan["checkpoint"]))
    keys = load_checkpoint(model, weights) if weights is not None else {}
    result = {"sizes": sizes, "keys": keys}
    if side == "before":
        result["weights"] = {name: t.clone() for name, t in model.state_dict().items()}
    else:
        model = load_saved(folder, side, plan, model)
    model = model.float()
    # Both releases are given the same.
    result["way"] = before["way"] if before else choose_way(model)
    result["seen"] = observe(model, result["way"])
    torch.save(result, folder / f"{side}.pt")


if __name__ == "__main__":
    main()

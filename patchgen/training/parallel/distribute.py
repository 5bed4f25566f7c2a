"""Distributes a model over the processes by transformers' own plans.

All processes start with equal weights, and each keeps its part of them as DTensors.  So training
starts with the weights of a run on one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather
from patchgen.verify.plans import generic, require_plans

FREED = "free_full_weight"  # of transformers: free a layer's gathered weights after use
HEADS = ("num_attention_heads", "num_key_value_heads")


def distribute(model: Any, engine: Engine, device: str) -> Any:
    """Return the model as the engine lays it out.

    Raises PatchgenError PG832 where that is not possible, and PG835 where the weights differ.
    """
    check_equal_weights(model, engine)
    if not engine.shards_weights:
        return model
    from transformers.distributed import DistributedConfig

    _check_sizes(model, engine)
    try:
        asked = DistributedConfig(
            tp_size=engine.tp,
            ep_size=engine.ep,
            fsdp_size=engine.fsdp,
            fsdp_plan=make_layers_plan(model) if engine.fsdp > 1 else None,
            fsdp_mixed_precision=engine.mixed,
        )
        config, _, mesh = type(model).prepare_distribute_model(asked)
        model = type(model).maybe_distribute_model(model, config, mesh)
    except (AttributeError, KeyError, NotImplementedError, ValueError) as error:
        raise _not_laid_out(model, engine, error) from error
    model.tie_weights()
    if engine.fsdp == 1:  # FSDP2 has moved its shards already
        model.to(device)
    return model


def _not_laid_out(model: Any, engine: Engine, error: Exception) -> PatchgenError:
    name, message = type(model).__name__, " ".join(str(error).split())
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    if (
        isinstance(error, KeyError) and error.args[0] in tied
    ):  # transformers 5.23 looks for it where it is no more
        weight = error.args[0]
        what = f"transformers does not split {weight} of {name}, which is tied to {tied[weight]}"
        return PatchgenError(
            "PG832", _at(engine), what, "--config tie_word_embeddings=false, or --engine fsdp2"
        )
    return PatchgenError("PG832", _at(engine), f"transformers does not lay {name} out: {message}")


def _at(engine: Engine) -> Location:
    return Location(f"--engine {engine.name}")


def check_equal_weights(model: Any, engine: Engine) -> None:
    """Raise PG835 where a process has a different weight than the first process."""
    if not engine.is_distributed:
        return
    digests = gather(engine, digest(model))
    for rank, of_rank in enumerate(digests):
        wrong = [name for name in digests[0] if of_rank.get(name) != digests[0][name]]
        if wrong or of_rank.keys() != digests[0].keys():
            names = ", ".join(wrong[:3]) or "other names"
            what = f"process {rank} has other weights than process 0: {names}"
            raise PatchgenError(
                "PG835", _at(engine), what, "the checkpoint must be the same on each machine"
            )


def digest(model: Any) -> Mapping[str, str]:
    """Return a digest of each parameter and buffer that is saved."""
    return {name: _digest(tensor) for name, tensor in model.state_dict().items()}


def _digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.blake2b(data.numpy().data, digest_size=16).hexdigest()


def make_layers_plan(model: Any) -> dict[str, str] | None:
    """Return a plan that shards each layer by itself; None where the model's own plan does.

    Without such a plan transformers gathers all weights at once, with a warning only.
    """
    layers = {generic(name) for name, module in model.named_modules() if is_layer(model, module)}
    if not layers:
        what = f"{type(model).__name__} does not say what its layers are (_no_split_modules)"
        raise PatchgenError("PG832", Location("--engine fsdp2"), what)
    return None if layers <= set(model.fsdp_plan) else dict.fromkeys(sorted(layers), FREED)


def is_layer(model: Any, module: Any) -> bool:
    """Return whether the module is one that transformers does not split.

    Embeddings, which the head may share, are no layers.
    """
    if type(module).__name__ not in (model._no_split_modules or ()):
        return False
    return all(inner is not model.get_input_embeddings() for inner in module.modules())


def _check_sizes(model: Any, engine: Engine) -> None:
    """Raise PG84x for a missing or wrong plan, and PG832 where heads cannot be divided evenly."""
    if engine.tp > 1:
        require_plans(model, "tp")
        config = model.config.get_text_config()
        for heads in HEADS:
            number = getattr(config, heads, None)
            if isinstance(number, int) and number % engine.tp:
                what = f"{heads} is {number}, which {engine.tp} processes cannot share evenly"
                raise PatchgenError(
                    "PG832", _at(engine), what, "a number of processes that divides it"
                )
    if engine.ep > 1:
        require_plans(model, "ep")

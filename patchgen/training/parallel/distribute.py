"""Distributes a model over the processes by transformers' own plans.

All processes start with equal weights, and each keeps its part of them as DTensors.  So training
starts with the weights of a run on one process.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from patchgen.runtime.plans import generic, require_plans
from patchgen.syntax.errors import Location, PatchgenError, one_line
from patchgen.training.parallel.engine import SHARDED, Engine
from patchgen.training.parallel.process_group import gather

FREED = "free_full_weight"  # of transformers: free a layer's gathered weights after use
HEADS = ("num_attention_heads", "num_key_value_heads")


def distribute(model: Any, engine: Engine, device: str) -> Any:
    """Return the model as the engine lays it out.

    Raises PatchgenError PG832 where that is not possible, PG84x for a missing or wrong plan, and
    PG835 where the weights differ.
    """
    check_equal_weights(model, engine)
    if not engine.shards_weights:
        return model
    from transformers.distributed import DistributedConfig

    world = engine.launch.world
    where = Location(f"--engine {engine.name}")
    if engine.name in ("tp", "ep"):
        require_plans(model, "tp" if engine.name == "tp" else "ep")
    if engine.name == "tp":
        for heads in HEADS:
            number = getattr(model.config.get_text_config(), heads, None)
            if isinstance(number, int) and number % world:
                what = f"{heads} is {number}, which {world} processes cannot share evenly"
                raise PatchgenError("PG832", where, what, "a number of processes that divides it")
    try:
        asked = DistributedConfig(
            tp_size=world if engine.name == "tp" else 1,
            ep_size=world if engine.name == "ep" else 1,
            fsdp_size=world if engine.name in SHARDED else 1,
            fsdp_plan=make_layers_plan(model) if engine.name in SHARDED else None,
            fsdp_mixed_precision=engine.mixed,
        )
        config, _, mesh = type(model).prepare_distribute_model(asked)
        model = type(model).maybe_distribute_model(model, config, mesh)
    except (AttributeError, KeyError, NotImplementedError, ValueError) as error:
        name = type(model).__name__
        message = one_line(error)
        what = f"transformers does not lay {name} out: {message}"
        hint = "--engine fsdp2; or, for a head tied to the embedding, "
        hint += "--config tie_word_embeddings=false"
        raise PatchgenError("PG832", where, what, hint) from error
    model.tie_weights()
    if engine.name == "tp":  # FSDP2 has moved its shards already
        model.to(device)
    return model


def check_equal_weights(model: Any, engine: Engine) -> None:
    """Raise PG835 where a process has a different weight than the first process."""
    if not engine.is_distributed:
        return
    ours = {name: _digest(tensor) for name, tensor in model.state_dict().items()}
    first, *others = gather(engine, ours)
    for rank, digests in enumerate(others, 1):
        if wrong := [name for name, _ in digests.items() ^ first.items()]:
            names = ", ".join(sorted(set(wrong))[:3])
            what = f"process {rank} has other weights than process 0: {names}"
            hint = "the checkpoint must be the same on each machine"
            raise PatchgenError("PG835", Location(f"--engine {engine.name}"), what, hint)


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

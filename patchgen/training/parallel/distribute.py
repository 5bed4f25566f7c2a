"""A whole model, the same on every process, laid out over them by transformers' own plans.

In: a model whose weights are equal everywhere, and an engine.  Out: the model, with DTensors for what is spread; each
process keeps its part of the weights that it had, so that training begins with those of one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from patchgen.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather
from patchgen.verify.plans.plans import generic, require_plans

FREED = "free_full_weight"  # transformers' word: a layer's weights are whole while it computes, and no longer
HEADS = ("num_attention_heads", "num_key_value_heads")


def distribute(model: Any, engine: Engine, device: str) -> Any:
    """The model as the engine lays it out.  Raises PatchgenError PG832 where it cannot, PG835 where weights differ."""
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
        told, _, mesh = type(model).prepare_distribute_model(asked)
        model = type(model).maybe_distribute_model(model, told, mesh)
    except (AttributeError, KeyError, NotImplementedError, ValueError) as error:
        raise _not_laid_out(model, engine, error) from error
    model.tie_weights()
    if engine.fsdp == 1:  # what is sharded has been moved already
        model.to(device)
    return model


def _not_laid_out(model: Any, engine: Engine, error: Exception) -> PatchgenError:
    name, told = type(model).__name__, " ".join(str(error).split())
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    if (
        isinstance(error, KeyError) and error.args[0] in tied
    ):  # transformers 5.23 looks for it where it is no more
        what = f"transformers does not split {error.args[0]} of {name}, which is tied to {tied[error.args[0]]}"
        return PatchgenError(
            "PG832", _at(engine), what, "--config tie_word_embeddings=false, or --engine fsdp2"
        )
    return PatchgenError("PG832", _at(engine), f"transformers does not lay {name} out: {told}")


def _at(engine: Engine) -> Location:
    return Location(f"--engine {engine.name}")


def check_equal_weights(model: Any, engine: Engine) -> None:
    """PG835 where a process holds another weight than the first one."""
    if not engine.is_distributed:
        return
    digests = gather(engine, digest(model))
    for rank, told in enumerate(digests):
        wrong = [name for name in digests[0] if told.get(name) != digests[0][name]]
        if wrong or told.keys() != digests[0].keys():
            what = f"process {rank} has other weights than process 0: {', '.join(wrong[:3]) or 'other names'}"
            raise PatchgenError(
                "PG835", _at(engine), what, "the checkpoint must be the same on each machine"
            )


def digest(model: Any) -> Mapping[str, str]:
    """Of each parameter and buffer that is saved."""
    return {name: _digest(tensor) for name, tensor in model.state_dict().items()}


def _digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.blake2b(data.numpy().data, digest_size=16).hexdigest()


def make_layers_plan(model: Any) -> dict[str, str] | None:
    """A plan that shards each layer by itself, where the model's own names none of its layers; None where it does.

    Without one all weights would be gathered at once: transformers says so in a warning, and goes on.
    """
    layers = {generic(name) for name, module in model.named_modules() if is_layer(model, module)}
    if not layers:
        what = f"{type(model).__name__} does not say what its layers are (_no_split_modules)"
        raise PatchgenError("PG832", Location("--engine fsdp2"), what)
    return None if layers <= set(model.fsdp_plan) else dict.fromkeys(sorted(layers), FREED)


def is_layer(model: Any, module: Any) -> bool:
    """Whether transformers calls it one that is not to be split; embeddings, which a head may share, are none."""
    if type(module).__name__ not in (model._no_split_modules or ()):
        return False
    return all(inner is not model.get_input_embeddings() for inner in module.modules())


def _check_sizes(model: Any, engine: Engine) -> None:
    """PG84x where the model's plan is not right of it, or none; PG832 where its heads do not come out even."""
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

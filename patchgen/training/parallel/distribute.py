"""Distributes a model over the processes by transformers' own plans.

All processes start with equal weights, and each keeps its part of them as DTensors.  So training
starts with the weights of a run on one process.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from patchgen.compiler.flat import is_generated
from patchgen.runtime.variants import Variant
from patchgen.syntax.errors import Location, PatchgenError, Refusals
from patchgen.training.parallel.engine import SHARDED, Engine
from patchgen.training.parallel.process_group import gather
from patchgen.verify.plans import (
    CALLED,
    Finding,
    Kind,
    find_plan_faults,
    generic,
    lost_findings,
    own_faults,
    plan_of,
    refusal_of,
)

FREED = "free_full_weight"  # of transformers: free a layer's gathered weights after use
HEADS = ("num_attention_heads", "num_key_value_heads")
BASE = "PreTrainedModel"
# Of a configuration, what is of its own class and not of its parent's.
OWN = ("model_type", "architectures", "transformers_version")


def distribute(model: Any, engine: Engine, device: str) -> Any:
    """Return the model as the engine lays it out.

    Raises PatchgenError PG832 where that is not possible, PG84x for a missing or wrong plan, and
    PG835 where the weights differ.
    """
    check_equal_weights(model, engine)
    if not engine.shards_weights:
        return model
    from transformers.distributed import DistributedConfig

    world, where = engine.launch.world, Location(f"--engine {engine.name}")
    if engine.name in ("tp", "ep"):
        require_plans(model, "tp" if engine.name == "tp" else "ep")
    for heads in HEADS if engine.name == "tp" else ():
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
        name, message = type(model).__name__, " ".join(str(error).split())
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


# --- plans, before anything is split


def require_plans(model: Any, which: Kind, parent: Any = None) -> tuple[Finding, ...]:
    """Refuse a model with a wrong plan for `which`, before anything is split.

    A rule that matches nothing in the parent either is no reason to refuse; a layer that the
    parent splits must be split.  In a model of transformers, rules that match nothing are an error
    only if all do: some are for other sizes.  Returns the faults that were let pass.

    Raises PatchgenError: PG842 for a model without a plan, PG840 for a rule that matches nothing,
    PG841 for one that does not fit, PG843 for a layer that stays whole.
    """
    name, plan = type(model).__name__, plan_of(model, which)
    if (reason := refusal_of(model, which)) or not plan:
        hint = "run the same model on one process, or under FSDP2, which needs no plan"
        what = f"has no plan for {CALLED[which]}{': ' if reason else ''}{reason}"
        raise PatchgenError("PG842", Location(name), what, "" if reason else hint)
    faults = [fault for fault in find_plan_faults(model) if fault.kind == which]
    parent = parent_on_meta(model) if parent is None else parent
    if parent is not None:
        wrong, passed = own_faults(faults, parent)
        wrong += lost_findings(model, parent, which)
    else:
        passed = [fault for fault in faults if fault.code == "PG840"]
        wrong = [fault for fault in faults if fault not in passed]
    if len(passed) >= len(plan):
        wrong, passed = [*wrong, *passed], []
    if wrong:
        raise Refusals(fault.at(name) for fault in wrong)
    return tuple(passed)


def parent_on_meta(model: Any) -> Any | None:
    """The parent of `model` on the meta device; None for a model that is not generated."""
    kind = parent_class(type(model))
    if kind is None:
        return None
    values = {name: value for name, value in model.config.to_dict().items() if name not in OWN}
    config = kind.config_class.from_dict(values)
    with torch.device("meta"):
        return kind(config)


def parent_class(kind: type) -> Any | None:
    """The parent's class that a generated one stands for, by the file's banner; else None."""
    path = Path(inspect.getsourcefile(kind) or "")
    if not (path.is_file() and is_generated(path.read_text(encoding="utf-8"))):
        return None
    variant = Variant(path.stem, kind.__module__, path, path.parent)
    try:
        parent = importlib.import_module(variant.parent)
    except ValueError:
        return None
    own, theirs = _prefix(sys.modules[kind.__module__]), _prefix(parent)
    names = (kind.__name__, theirs + kind.__name__.removeprefix(own))
    return next((getattr(parent, name) for name in names if hasattr(parent, name)), None)


def _prefix(module: ModuleType) -> str:
    """What the names of a model's classes begin with: "Llama" of LlamaPreTrainedModel."""
    names = [name for name in vars(module) if name.endswith(BASE) and name != BASE]
    return min(names, key=len, default=BASE).removesuffix(BASE)

"""Runs the first of many ranks alone: a process group that sends nothing, and a model laid out on
it.

On fake tensors this is what every rank does and holds.  A real process group that exists already is
used as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import distributed, nn
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from patchgen.runtime.checkpointing import is_on
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.memory.layout import Layout
from patchgen.training.parallel.distribute import make_layers_plan
from patchgen.training.patching import Patch, patched

_Result = TypeVar("_Result")
_PROPAGATE = "_propagate_tensor_meta_non_cached"


@contextmanager
def simulate_first_rank(layout: Layout | None) -> Iterator[None]:
    """Make this process rank 0 of `layout.ranks`, in a group that sends nothing."""
    if layout is None or layout.computed:
        yield
        return
    if not distributed.is_available() or distributed.is_initialized():
        why = (
            "belongs to a group already"
            if distributed.is_available()
            else "has a torch without torch.distributed"
        )
        raise PatchgenError("PG851", Location(f"--engine {layout.engine}"), f"this process {why}")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    importlib.import_module(
        "torch.distributed._tools.fake_collectives"
    )  # what shapes collectives give

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=layout.ranks)
    try:
        with _meshes_are_real():
            yield
    finally:
        distributed.destroy_process_group()


@contextmanager
def _meshes_are_real() -> Iterator[None]:
    """Compute device meshes and DTensor's global shapes outside of all dispatch modes."""
    from torch.distributed import device_mesh
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp._fully_shard import _fsdp_param
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    patches: list[Patch] = [
        (DeviceMesh, "__getitem__", _unseen(DeviceMesh.__getitem__)),
        (DeviceMesh, "mesh", property(_unseen(DeviceMesh.mesh.fget))),
        (ShardingPropagator, _PROPAGATE, _unseen(getattr(ShardingPropagator, _PROPAGATE))),
        (device_mesh, "new_group", _own_group),
    ]
    if hasattr(_fsdp_param, "_chunk_with_empty"):
        patches.append((_fsdp_param, "_chunk_with_empty", _own_chunk))
    with patched(*patches):
        yield


_new_group = distributed.new_group


def _own_group(ranks: Sequence[int], **more: Any) -> Any:
    """Create the group only if this rank is in it: with a thousand ranks, others take minutes."""
    return _new_group(ranks, **more) if distributed.get_rank() in ranks else None


def _own_chunk(tensor: torch.Tensor, chunks: int, dim: int) -> list[torch.Tensor]:
    """Return this rank's chunk, the first: making those of a thousand ranks takes minutes."""
    return [tensor.narrow(dim, 0, -(-tensor.shape[dim] // chunks))]


def _unseen(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return `function`, running outside of all dispatch modes."""

    def alone(*args: Any, **kwargs: Any) -> _Result:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return alone


def distribute(
    model: PreTrainedModel, layout: Layout, device: str, mixed: bool = False
) -> nn.Module:
    """Return what a step calls: the model with sharded weights, or DDP around it.

    With `mixed`, FSDP2 gathers weights in bfloat16.  Raises PatchgenError PG852 where the model
    does not support the layout.
    """
    engine = layout.parts
    if not engine.shards_weights:
        return _replicated(model)
    from transformers.distributed import DistributedConfig
    from transformers.distributed.utils import TransformersDeviceMesh

    where = Location(f"--engine {layout.engine}")
    try:
        asked = DistributedConfig(
            tp_size=engine.tp,
            ep_size=engine.ep,
            fsdp_size=engine.fsdp,
            fsdp_plan=make_layers_plan(model) if engine.fsdp > 1 else None,
            fsdp_mixed_precision=mixed,
        )
        dense = (asked.pp_size, asked.dp_replicate_size, asked.fsdp_size, asked.tp_size)
        experts = (asked.pp_size, asked.dp_replicate_size, asked.efsdp_size, asked.ep_size)
        make = _unseen(distributed.init_device_mesh)
        mesh = TransformersDeviceMesh(
            make(device, dense, mesh_dim_names=("pp", "dp_replicate", "fsdp", "tp")),
            make(device, experts, mesh_dim_names=("pp", "dp_replicate", "efsdp", "ep")),
        )
        spread: PreTrainedModel = type(model).maybe_distribute_model(model, asked, mesh)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        what = f"transformers does not lay {type(model).__name__} out: {reason}"
        raise PatchgenError(
            "PG852", where, what, "--engine fsdp2 and ddp ask less of a model"
        ) from error
    spread.tie_weights()
    return spread


def _replicated(model: PreTrainedModel) -> nn.Module:
    """Wrap the model in DDP as Trainer does.

    DDP looks for parameters without gradients, unless layers are checkpointed.
    """
    looked_for = not is_on(model)
    real = (
        distributed.get_backend() != "fake"
    )  # only then are there values that the first rank could send to others
    wrapped = nn.parallel.DistributedDataParallel(
        model, find_unused_parameters=looked_for, init_sync=real
    )
    if not real:
        wrapped.register_comm_hook(None, lambda state, bucket: _summed(bucket))
    return wrapped


def _summed(bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket as DDP does, which expects a future that the fake group does not return."""
    whole = bucket.buffer().div_(distributed.get_world_size())
    distributed.all_reduce(whole)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(whole)
    return done

"""transformers' Trainer with engines: checkpoints of sharded weights, and the right loss.

Trainer itself writes no such checkpoint: it refuses to save the optimizer's states of a model that
was sharded when it was loaded.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import Trainer, TrainerCallback
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME
from transformers.trainer_pt_utils import nested_truncate
from transformers.utils import SAFE_WEIGHTS_NAME

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.checkpoints import clear_checkpoint
from patchgen.training.loop.texts import IGNORED
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather, wait

STATES = "optimizer"  # the folder of a sharded optimizer's states


class RngStateSharing(TrainerCallback):
    """Shares the RNG states before the first step after a resume, when Trainer has loaded them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_resumed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Called by Trainer when the state of the checkpoint is there, and no RNG state yet."""
        self.is_resumed = state.global_step > 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Called by Trainer right after it has loaded the RNG states."""
        if self.is_resumed:
            share_rng_state(self.engine)
        self.is_resumed = False


class EngineTrainer(Trainer):
    """Trainer on an engine.  Each engine loads the checkpoints of the others.

    With `scale_loss`, each batch counts by its share of the step's labels, for models that ignore
    the number of labels.
    """

    def __init__(self, *, engine: Engine, args: Any, scale_loss: bool = False, **rest: Any) -> None:
        self.engine, self.scale_loss = engine, scale_loss
        keeps, args.save_only_model = (
            args.save_only_model,
            args.save_only_model or engine.shards_weights,
        )
        super().__init__(args=args, **rest)
        self.args.save_only_model = keeps
        self.add_callback(RngStateSharing(engine))
        if scale_loss:
            self.model_accepts_loss_kwargs = True  # so that Trainer counts the labels of a step

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Scale the loss where the model does not."""
        if not self.scale_loss or num_items_in_batch is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs["labels"]
        counted = labels[..., 1:] if self._loss_shifts_labels and labels.dim() > 1 else labels
        # Gradients are averaged over the processes that see rows of their own.
        scale = (counted != IGNORED).sum() / num_items_in_batch * self.engine.data_groups
        loss, outputs = super().compute_loss(model, inputs, True, None)
        return (loss * scale, outputs) if return_outputs else loss * scale

    def evaluation_loop(self, *given: Any, **rest: Any) -> Any:
        """Evaluate; where all processes compute all rows, do not gather what each of them has."""
        if self.engine.tp > 1 and self.engine.data_groups == 1:
            self.gather_function = self._own_rows
        return super().evaluation_loop(*given, **rest)

    def _own_rows(self, outputs: Any, **rest: Any) -> Any:
        """Return what this process has computed, without the rows that fill up the last batch."""
        state = self.accelerator.gradient_state
        return (
            nested_truncate(outputs, state.remainder)
            if state.end_of_dataloader and state.remainder > 0
            else outputs
        )

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; in a checkpoint of sharded weights, what this process holds."""
        is_checkpoint = _internal_call and output_dir is not None
        if is_checkpoint:
            # The first thing that Trainer writes of a checkpoint.  With `--at`, an earlier
            # attempt may have written a checkpoint of the same step.
            if self.engine.is_first:
                clear_checkpoint(Path(str(output_dir)))
            wait(self.engine)
        if is_checkpoint and self.engine.shards_weights:
            write_weights(self.model, Path(str(output_dir)), first=self.engine.is_first)
            return
        if self.engine.shards_weights:  # `save_pretrained` gathers DTensors, on all processes
            folder = output_dir or self.args.output_dir
            self.model.save_pretrained(folder, is_main_process=self.engine.is_first)
            if self.engine.is_first and self.processing_class is not None:
                self.processing_class.save_pretrained(folder)
            return
        super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.engine.shards_weights:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        write_states(self.model, self.optimizer.optimizer, Path(output_dir))
        if self.engine.is_first:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir, SCHEDULER_NAME))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        if is_sharded(folder):
            read_weights(self.model, folder)
        elif self.engine.shards_weights:
            self._take_whole_weights(folder)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _take_whole_weights(self, folder: Path) -> None:
        missing = take_weights(self.model, load_file(folder / SAFE_WEIGHTS_NAME))
        if missing:
            raise PatchgenError("PG818", Location(str(folder)), f"has no {', '.join(missing[:3])}")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or not (is_sharded(Path(checkpoint)) or self.engine.shards_weights):
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        folder, optimizer = Path(checkpoint), self.optimizer.optimizer
        if is_sharded(folder):
            read_states(self.model, optimizer, folder)
        else:
            whole = torch.load(folder / OPTIMIZER_NAME, map_location="cpu", weights_only=True)
            take_states(optimizer, self._weights_in_order(), whole)
        scheduler_state = torch.load(folder / SCHEDULER_NAME, weights_only=True)
        self.lr_scheduler.load_state_dict(of_groups(scheduler_state, len(optimizer.param_groups)))
        wait(self.engine)

    def _weights_in_order(self) -> list[Any]:
        """Return the weights in Trainer's order: those with weight decay, then the others."""
        decaying = set(self.get_decay_parameter_names(self.model))
        trained = [
            (name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad
        ]
        first = [weight for name, weight in trained if name in decaying]
        return first + [weight for name, weight in trained if name not in decaying]


OF_GROUPS = (
    "base_lrs",
    "_last_lr",
    "lr_lambdas",
)  # in a schedule's state, lists of one value for each group


def of_groups(state: dict[str, Any], groups: int) -> dict[str, Any]:
    """Return a schedule's state for another number of parameter groups.

    Engines divide groups into DTensors and other tensors.  The schedule of all groups is the same,
    since Trainer has one learning rate.
    """
    return {key: value[:1] * groups if key in OF_GROUPS else value for key, value in state.items()}


def share_rng_state(engine: Engine) -> None:
    """Give each process the RNG states of the first process that computes the same rows.

    Where processes see different rows these states differ, as dropout has drawn more or fewer
    numbers.  When an engine whose processes compute the same rows goes on from such a checkpoint,
    each of them would drop different values, and their weights would drift apart.
    """
    if engine.tp == 1:
        return
    # Ranks of a group are consecutive: tensor parallelism is the innermost mesh dimension.
    first = engine.launch.rank - engine.launch.rank % engine.tp
    of_python, of_numpy, of_torch, of_cuda = gather(engine, _states())[first]
    random.setstate(of_python)
    numpy.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    if of_cuda is not None:
        torch.cuda.set_rng_state(of_cuda)


def _states() -> tuple[Any, Any, torch.Tensor, torch.Tensor | None]:
    """Return the states of Python, numpy, torch, and CUDA where it is in use."""
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    of_cuda = torch.cuda.get_rng_state() if on_cuda else None
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state(), of_cuda


# Sharded weights and states are saved in transformers' own format: `shard-*.safetensors` with the
# configuration, which `from_pretrained` loads too, and the states by torch.distributed.checkpoint.
# Several processes also load what one process has saved whole.


def is_sharded(folder: Path) -> bool:
    """Return whether several processes have saved the checkpoint, each its part."""
    from transformers.distributed.checkpoint import is_sharded_checkpoint

    return bool(is_sharded_checkpoint(str(folder)))


def write_weights(model: Any, folder: Path, *, first: bool) -> None:
    """Save this process's part; the first process saves the configuration too."""
    folder.mkdir(parents=True, exist_ok=True)
    if first:
        model.config.save_pretrained(folder)
    model.save_pretrained(folder, distributed_checkpoint=True)


def read_weights(model: Any, folder: Path) -> None:
    """Load a sharded checkpoint into a model with any layout, or none."""
    from transformers.distributed.checkpoint import _load_model_checkpoint_distributed

    _load_model_checkpoint_distributed(model, str(folder))


def take_weights(model: Any, whole: dict[str, torch.Tensor]) -> tuple[str, ...]:
    """Copy this process's part of whole weights into the model; return missing names."""
    held = model.state_dict()
    with torch.no_grad():
        for name in held.keys() & whole.keys():
            held[name].copy_(like(whole[name], held[name]))
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    return tuple(sorted(held.keys() - whole.keys() - tied))


def like(whole: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return this process's part of a whole tensor, laid out as `model` is."""
    if not isinstance(model, DTensor) or whole.shape != model.shape:
        return whole
    # Nothing is sent: each process has the whole tensor.
    return distribute_tensor(
        whole.to(model.device), model.device_mesh, model.placements, src_data_rank=None
    )


def write_states(model: Any, optimizer: Any, folder: Path) -> None:
    """Save the optimizer states of this process's part."""
    from transformers.distributed.checkpoint import save_optimizer_distributed

    save_optimizer_distributed(model, optimizer, str(folder / STATES))


def read_states(model: Any, optimizer: Any, folder: Path) -> None:
    """Load what `write_states` has saved on any number of processes."""
    from transformers.distributed.checkpoint import load_optimizer_distributed

    load_optimizer_distributed(model, optimizer, str(folder / STATES))


def take_states(optimizer: Any, names: Sequence[Any], whole: dict[str, Any]) -> None:
    """Load the states of an optimizer over whole weights.

    `names` are the weights in the order in which that optimizer numbered them.
    """
    settings = {
        key: value
        for key, value in whole["param_groups"][0].items()
        if key not in ("params", "weight_decay")
    }
    for group in optimizer.param_groups:
        group |= settings
    for number, states in whole["state"].items():
        weight = names[number]
        optimizer.state[weight] = {
            key: like(value, weight) if isinstance(value, torch.Tensor) and value.dim() else value
            for key, value in states.items()
        }

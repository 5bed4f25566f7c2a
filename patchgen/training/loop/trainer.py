"""transformers' Trainer with engines: checkpoints of sharded weights, and the right loss.

Trainer itself writes no such checkpoint: it refuses to save the optimizer's states of a model that
was sharded when it was loaded.  They are in transformers' own format: `shard-*.safetensors` with
the configuration, which `from_pretrained` loads too, and the states by
torch.distributed.checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import Trainer
from transformers.trainer import SCHEDULER_NAME
from transformers.trainer_pt_utils import nested_truncate

from patchgen import disk
from patchgen.training.loop.checkpoints import clear_checkpoint
from patchgen.training.loop.texts import IGNORED
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import wait

STATES = "optimizer"  # the folder of a sharded optimizer's states


class EngineTrainer(Trainer):
    """Trainer on an engine, with a loss that is the mean over all labels of a step.

    Trainer hands the number of these labels to the model (`num_items_in_batch`), and some models
    ignore it, such as BERT: a step of two batches then has twice the gradient.  Here each batch
    counts by its share of the labels, whatever the model does.
    """

    def __init__(self, *, engine: Engine, args: Any, **rest: Any) -> None:
        self.engine = engine
        keeps = args.save_only_model
        args.save_only_model = keeps or engine.shards_weights
        super().__init__(args=args, **rest)
        self.args.save_only_model = keeps
        self.model_accepts_loss_kwargs = True  # so that Trainer counts the labels of a step

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Weigh the mean loss of a batch; in an evaluation there is nothing to weigh."""
        if num_items_in_batch is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs["labels"]
        if self._loss_shifts_labels and labels.dim() > 1:
            labels = labels[..., 1:]
        counted = (labels != IGNORED).sum()
        # Gradients are averaged over the processes that see rows of their own.
        scale = counted / num_items_in_batch * self.engine.data_groups
        loss, outputs = super().compute_loss(model, inputs, True, None)
        loss = loss * scale
        return (loss, outputs) if return_outputs else loss

    def evaluation_loop(self, *given: Any, **rest: Any) -> Any:
        """Evaluate; where all processes compute all rows, do not gather what each of them has."""
        if self.engine.is_distributed and self.engine.data_groups == 1:
            self.gather_function = self._own_rows
        return super().evaluation_loop(*given, **rest)

    def _own_rows(self, outputs: Any, **rest: Any) -> Any:
        """Return what this process has computed, without the rows that fill up the last batch."""
        state = self.accelerator.gradient_state
        if state.end_of_dataloader and state.remainder > 0:
            return nested_truncate(outputs, state.remainder)
        return outputs

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; in a checkpoint of sharded weights, what this process holds."""
        folder = Path(output_dir or self.args.output_dir)
        first = self.engine.is_first
        is_checkpoint = _internal_call and output_dir is not None
        if is_checkpoint:
            # The first thing that Trainer writes of a checkpoint.  An earlier attempt may have
            # written one of the same step.
            if first:
                clear_checkpoint(folder)
            wait(self.engine)
        if not self.engine.shards_weights:
            super().save_model(output_dir, _internal_call)
        elif is_checkpoint:
            disk.make_folder(folder)
            if first:
                self.model.config.save_pretrained(folder)
            self.model.save_pretrained(folder, distributed_checkpoint=True)
        else:  # `save_pretrained` gathers DTensors, on all processes
            self.model.save_pretrained(folder, is_main_process=first)
            if first and self.processing_class is not None:
                self.processing_class.save_pretrained(folder)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.engine.shards_weights:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        from transformers.distributed import checkpoint

        states = str(Path(output_dir, STATES))
        checkpoint.save_optimizer_distributed(self.model, self.optimizer.optimizer, states)
        if self.engine.is_first:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir, SCHEDULER_NAME))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.engine.shards_weights:
            from transformers.distributed import checkpoint

            checkpoint._load_model_checkpoint_distributed(self.model, resume_from_checkpoint)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or not self.engine.shards_weights:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        from transformers.distributed.checkpoint import load_optimizer_distributed

        states = str(Path(checkpoint, STATES))
        load_optimizer_distributed(self.model, self.optimizer.optimizer, states)
        schedule = torch.load(Path(checkpoint, SCHEDULER_NAME), weights_only=True)
        self.lr_scheduler.load_state_dict(schedule)
        wait(self.engine)

"""What patchgen adds to transformers' Trainer, as one callback for any Trainer::

    trainer = Trainer(model, args, train_dataset=rows)  # or TRL's SFTTrainer
    trainer.add_callback(VariantCallback(trainer))
    trainer.train(resume_from_checkpoint=find_checkpoint(args.output_dir))

- Before the first step it refuses arguments that would do nothing (PG812 to PG814), and an engine
  other than the one that was asked for (PG834).
- It logs tokens a second, MFU and peak memory with the loss, and stops where the loss is not finite
  (PG820).  Only real tokens are counted, not padding.  Time is that of the steps, from the end of
  one to the end of the next: it includes waiting for data, and excludes evaluation and saving.
- It seals each checkpoint when every process has written its part, so that `find_checkpoint` tells
  whole ones from others.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from patchgen.runtime.checkpointing import is_on
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.device_memory import peak_memory, reset_peak_memory
from patchgen.training.loop.checkpoints import find_checkpoint, write_seal
from patchgen.training.loop.texts import IGNORED, text_lengths
from patchgen.training.parallel.engine import Engine, parse_engine, read_launch
from patchgen.training.parallel.engine_check import check_engine
from patchgen.training.parallel.process_group import wait
from patchgen.training.rate.flops import count_forward_flops, count_pairs
from patchgen.training.rate.peak import product_flops

__all__ = ["VariantCallback", "find_checkpoint"]

WARM = 2  # first steps, not counted: they allocate and compile
TYPICAL = 1000  # rows that are enough to average over


class VariantCallback(TrainerCallback):
    """Checks a run, measures it, and seals its checkpoints.

    `engine` is what `patchgen train --engine` takes; by default it is what the Trainer's arguments
    say: DeepSpeed, FSDP, or DDP on several processes.
    """

    def __init__(self, trainer: Any, engine: Engine | str | None = None) -> None:
        self.trainer = trainer
        if isinstance(engine, str):
            engine = parse_engine(engine, os.environ)
        self.engine: Engine = engine or _engine(trainer)
        if trainer.args.include_num_input_tokens_seen == "no":
            trainer.args.include_num_input_tokens_seen = "non_padding"
        self.report: dict[str, Any] = {}
        self.rates: tuple[float, float] | None = None
        self.seconds = 0.0
        self.tokens = 0
        self.warm = WARM
        self.logged = (0.0, 0)  # what the last log has counted
        self.since = 0.0
        self.tokens_before = 0
        check_arguments(trainer.args, trainer.model, trainer.args.device.type)

    @property
    def device(self) -> str:
        """Return the type of the device."""
        return str(self.trainer.args.device.type)

    @property
    def tokens_a_second(self) -> float:
        """Return the mean over all steps after the warm-up; 0 where there are none."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def figures(self, tokens_a_second: float) -> dict[str, float]:
        """Return speed, MFU where the FLOPs are known, and the peak memory of this process."""
        figures = {"tokens_a_second": round(tokens_a_second, 1)} if tokens_a_second else {}
        if self.rates is not None and tokens_a_second:
            per_token, peak = self.rates
            done = tokens_a_second * per_token / self.engine.launch.world
            figures["mfu"] = round(done / peak, 5)
        return {**figures, "peak_bytes": peak_memory(self.device)}

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Check what runs: the model is wrapped and distributed now."""
        handler = self.trainer.callback_handler
        # Others get the figures too if this callback is called first; the list in use stays.
        others = [callback for callback in handler.callbacks if callback is not self]
        handler.callbacks = [self, *others]
        model = self.trainer.model
        if args.gradient_checkpointing and not is_on(_inner(model)):
            _refuse_checkpointing(model)
        self.report = check_engine(model, self.trainer.model_wrapped, self.engine)
        if self.rates is None:
            devices = [torch.cuda.current_device()] if self.device == "cuda" else []
            with torch.random.fork_rng(devices):  # what is drawn here must not change the run
                self.rates = measure_rates(self.trainer, self.device)
        reset_peak_memory(self.device)
        self.seconds = 0.0
        self.tokens = 0
        self.warm = WARM
        self.logged = (0.0, 0)
        self._resume_clock(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Count a step."""
        seconds = time.perf_counter() - self.since
        tokens = self._tokens_of(state) - self.tokens_before
        if self.warm:
            self.warm -= 1
        else:
            self.seconds += seconds
            self.tokens += tokens
        self._resume_clock(state)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **rest: Any
    ) -> None:
        """Add figures to what is logged, and stop the run where the loss is not finite."""
        if "loss" in logs:
            seconds = self.seconds - self.logged[0]
            tokens = self.tokens - self.logged[1]
            figures = self.figures(tokens / seconds if seconds else 0.0)
            self.logged = (self.seconds, self.tokens)
            logs |= figures
            if state.log_history:
                state.log_history[-1] |= figures
        self._resume_clock(state)
        check_loss(logs, state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Restart the clock: evaluation is not part of a step."""
        self._resume_clock(state)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Seal the checkpoint, after Trainer has written the last file."""
        wait(self.engine)
        folder = Path(
            self.trainer._get_output_dir(trial=None), f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        )
        if self.engine.is_first and folder.is_dir():
            write_seal(folder)
        wait(self.engine)
        self._resume_clock(state)

    def _tokens_of(self, state: Any) -> int:
        # Trainer adds up the tokens of all processes, also of those that compute the same rows.
        return (
            int(state.num_input_tokens_seen) * self.engine.data_groups // self.engine.launch.world
        )

    def _resume_clock(self, state: Any) -> None:
        self.since = time.perf_counter()
        self.tokens_before = self._tokens_of(state)


def _engine(trainer: Any) -> Engine:
    """Return the engine that the Trainer's own arguments ask for."""
    launch = read_launch(os.environ)
    if trainer.is_deepspeed_enabled:
        plugin = trainer.accelerator.state.deepspeed_plugin
        config = plugin.deepspeed_config["zero_optimization"]
        offload = ""
        for key, part in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
            if config.get(key, {}).get("device", "none") != "none":
                offload = part
        return Engine(f"zero{config['stage']}", launch, offload=offload)
    if launch.world == 1:
        return Engine()
    if trainer.is_fsdp_enabled:
        # Accelerate chooses the dtypes that weights are gathered in.
        return Engine("fsdp2", launch, mixed=None)
    if trainer.is_distributed_loading_by_transformers:
        what = "the model is laid out by transformers: say how"
        hint = 'VariantCallback(trainer, "tp")'
        raise PatchgenError("PG830", Location("VariantCallback"), what, hint)
    return Engine("ddp", launch)


def _inner(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # of LoRA


def _refuse_checkpointing(model: Any) -> None:
    what = f"no layer of {type(_inner(model)).__name__} is checkpointed"
    hint = "`patchgen new MODEL --with checkpoint` writes a variant that can"
    raise PatchgenError("PG812", Location("--activation_checkpointing"), what, hint)


def check_arguments(args: Any, model: Any, device: str) -> None:
    """Refuse arguments that would do nothing with this model or on this device."""
    model = _inner(model)
    optimizer = str(getattr(args.optim, "value", args.optim))

    def refuse(code: str, name: str, what: str, hint: str = "") -> None:
        raise PatchgenError(code, Location(f"--{name}"), what, hint)

    if args.gradient_checkpointing and not getattr(model, "supports_gradient_checkpointing", True):
        _refuse_checkpointing(model)
    if device == "cpu" and args.fp16:
        refuse("PG814", "fp16", "scales its loss, which is there for CUDA alone", "--bf16")
    if device == "cpu" and ("bnb" in optimizer or "8bit" in optimizer):
        refuse("PG814", f"optim {optimizer}", "keeps its states in 8 bits on CUDA; this is a CPU")
    if args.use_liger_kernel and not type(model).__module__.startswith("transformers."):
        what = "would replace methods that the variant has changed"
        refuse("PG813", "use_liger_kernel", what, "`patchgen new MODEL --with kernels`")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        refuse("PG812", "model", f"no weight of {type(model).__name__} is trained")


def check_loss(logs: Mapping[str, Any], step: int) -> None:
    """Raise PG820 where the loss is not finite."""
    for name in ("loss", "eval_loss"):
        if name in logs and not math.isfinite(float(logs[name])):
            what = f"{name} is {logs[name]} at step {step}"
            hint = "a smaller --learning_rate, --warmup_steps, or another precision"
            raise PatchgenError("PG820", Location("patchgen train"), what, hint)


def measure_rates(trainer: Any, device: str) -> tuple[float, float] | None:
    """Return the FLOPs of a token, and the FLOP/s of the device in a product of this precision.

    None where the FLOPs do not follow from shapes, or rows are not read from a list.
    """
    args = trainer.args
    model = _inner(trainer.model)
    rows = trainer.train_dataset
    per_token = _flops_per_token(model, rows)
    if per_token is None:
        return None
    weights = next(model.parameters()).dtype
    dtype = "bfloat16" if args.bf16 else "float16" if args.fp16 else str(weights).partition(".")[2]
    tf32 = torch.get_float32_matmul_precision() != "highest"
    return per_token, product_flops(device, dtype, tf32=tf32)


def _flops_per_token(model: Any, rows: Any) -> float | None:
    """Return the FLOPs of a training step for each token, from the first rows."""
    if not (hasattr(rows, "__getitem__") and hasattr(rows, "__len__") and len(rows)):
        return None
    sample = [rows[number] for number in range(min(len(rows), TYPICAL))]
    if not (isinstance(sample[0], Mapping) and "input_ids" in sample[0]):
        return None
    lengths = [length for row in sample for length in text_lengths(row)]
    kind = next(base for base in type(model).__mro__ if not base.__name__.startswith("FSDP"))
    forward = count_forward_flops(kind, model.config, max(len(row["input_ids"]) for row in sample))
    if forward is None:
        return None
    name = kind.__name__
    tokens = sum(lengths)
    if "Classification" in name:
        labelled = len(lengths)
    else:
        labelled = sum(_labelled(row) for row in sample)
    causal = "CausalLM" in name or "LMHead" in name
    frozen = not all(parameter.requires_grad for parameter in model.parameters())
    pairs = count_pairs(lengths)
    work = forward.step(tokens=tokens, labelled=labelled, pairs=pairs, causal=causal, frozen=frozen)
    return work / tokens


def _labelled(row: Mapping[str, Any]) -> int:
    """Return the tokens of a row that the head computes the loss of."""
    labels = row.get("labels")
    if labels is None:
        mask = row.get("assistant_masks") or row.get("completion_mask")
        return int(sum(mask)) if mask is not None else len(row["input_ids"])
    return sum(int(label) != IGNORED for label in labels)


def describe_environment(device: str) -> dict[str, Any]:
    """Return the device, and the releases of the packages that a run depends on."""
    packages = {}
    for name in "torch transformers accelerate tokenizers datasets peft deepspeed".split():
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "python": sys.version.partition(" ")[0],
        "packages": packages,
    }

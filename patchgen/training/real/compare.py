"""Compares a variant with its parent on a checkpoint, in a process of its own.

One model is in memory at a time.  What takes least comes first, so that a machine with too little
memory still says what it could: the outputs of both, then a few steps of training of both.
"""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, set_seed

from patchgen import disk
from patchgen.syntax.errors import Location, PatchgenError, describe_error
from patchgen.training.device_memory import is_of_memory
from patchgen.training.loop.models import find_source, load_weights, read_configuration
from patchgen.training.loop.options import Options
from patchgen.training.loop.run import Job, prepare
from patchgen.training.parallel.engine import Engine
from patchgen.training.real.found import Place, RealRun, Step
from patchgen.training.real.outputs import WIDE, Seen, find_layers, find_places, measure, see
from patchgen.verifying.case_runner import say_error
from patchgen.verifying.checks.context import REORDERING
from patchgen.verifying.differences import NARROW, ROUNDINGS
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.parts.combine import merge_routes
from patchgen.verifying.parts.part_check import PartCheck, shorten_names
from patchgen.verifying.report import MISSING, Result, Status, number
from patchgen.verifying.run import Answers, silence_child

ROWS = 2  # of a batch
PROMPT, NEW_TOKENS = 32, 24  # of the text that is continued, and behind it
# How far losses may be apart, relative, after steps that round differently; gradients ten times.
CURVE = {"float32": 1e-4, "bfloat16": 2e-2}
ARGUMENTS = {
    "per_device_train_batch_size": ROWS,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "lr_scheduler_type": "constant",
}


def do_run(run: RealRun, answers: Answers) -> None:
    """Compare as `run` says; each answer names what it tells (`verifying.run.answers_of`)."""
    silence_child()
    gc.enable()
    try:
        with disk.scratch() as folder:
            Comparison(run, lambda **answer: answers.send(answer), folder).compare()
        answers.send({"done": True})
    except PatchgenError as error:
        answers.send({"refused": error})
    except Exception as error:  # a model raises what it likes
        if not is_of_memory(error):
            answers.send({"fault": describe_error(error, 300)})
            return
        what = f"there is not enough memory: {describe_error(error, 200)}"
        hint = "a smaller --length, --steps 0, --dtype bfloat16, or a larger machine"
        answers.send({"refused": PatchgenError("PG816", Location(run.checkpoint), what, hint)})


@dataclass(frozen=True)
class Comparison:
    """A run, where its answers go, and a folder for what Trainer writes."""

    run: RealRun
    say: Callable[..., None]
    folder: Path

    @functools.cached_property
    def ours(self) -> Job:
        """Return the variant with the data.  Raises PatchgenError as `patchgen train` does."""
        run = self.run
        configuration = read_configuration(run.checkpoint)
        kind = configuration.get("model_type")
        known = CONFIG_MAPPING[kind]().to_dict() if kind in CONFIG_MAPPING else {}
        # Dropout is off: a variant may draw random numbers in another order.
        rates = [name for name in known if "drop" in name and isinstance(known[name], float)]
        heads = [*(configuration.get("architectures") or ()), *run.variant.heads]
        head = next((name for name in heads if "For" in name or "Head" in name), "")
        options = Options(
            model=run.variant.module,
            weights=run.checkpoint,
            task="masked-lm" if head.endswith("MaskedLM") else "causal-lm",
            data=[run.data],
            length=run.length,
            dtype=run.dtype,
            config=[f"{name}=0.0" for name in rates],
        )
        given = {"output_dir": str(self.folder), "max_steps": run.steps or 1, "seed": run.seed}
        return prepare(options, {**ARGUMENTS, **given, "use_cpu": run.device == "cpu"}, Engine())

    @functools.cached_property
    def theirs(self) -> Job:
        """Return transformers' own model with the same data."""
        options = replace(self.ours.options, model=self.run.checkpoint, weights="")
        return replace(self.ours, options=options, source=find_source(options))

    @functools.cached_property
    def batch(self) -> dict[str, Tensor]:
        """Return the first rows of the data, without labels."""
        batch = self.ours.data.collate(self.ours.data.train[:ROWS])
        del batch["labels"]
        return {name: tensor.to(self.run.device) for name, tensor in batch.items()}

    @property
    def prompt(self) -> Tensor:
        """Return the first tokens of the first row, (1, L)."""
        is_real = self.batch["attention_mask"][0].bool()
        return self.batch["input_ids"][:1, is_real][:, :PROMPT]

    @property
    def checks(self) -> tuple[PartCheck, ...]:
        """Return those of the variant's parts."""
        return Pair(self.run.variant, self.run.variant.heads[0]).part_checks

    @functools.cached_property
    def allowed(self) -> float:
        """Return how many of the parent's noises may lie between both (see `differences`)."""
        routes = merge_routes(self.checks, self.theirs.source.model_class)
        bound = max(route.bound for route in routes)
        is_narrow = getattr(torch, self.run.dtype) in NARROW
        return bound.noises if is_narrow else REORDERING * bound.roundings / ROUNDINGS

    def load(self, job: Job, copies: int) -> tuple[Any, tuple[str, ...]]:
        """Return a model on its device, and the names of weights that the checkpoint lacks.

        Raises PatchgenError PG816 where its weights do not fit `copies` times.
        """
        gc.collect()  # another model may have gone
        set_seed(self.run.seed)
        device = torch.device(self.run.device)
        model, missing = load_weights(job.source, job.options, job.data, copies, device.type)
        if job is self.theirs:
            for check in self.checks:
                check.prepare(model)
        return model.to(device), missing

    def tell(
        self, case: str, difference: float, bound: float, unit: str, note: str, cause: str = ""
    ) -> None:
        """Tell a result.  What differs on purpose does not fail: its figures are told."""
        variant = self.run.variant
        status: Status = "PASS"
        if not difference <= bound:
            status = "NONE" if variant.differs else "FAIL"
        case = f"real {self.run.dtype} {case}"
        self.say(result=Result(variant.name, case, status, difference, bound, unit, note, cause))
        if status == "NONE":
            what = f"it differs on purpose: {case}, {number(difference)} {unit}"
            self.say(result=Result(variant.name, MISSING, status, note=what))

    def compare(self) -> None:
        """Tell what both sides compute of the first rows, how they continue a text, and train."""
        self.say(begun="reading the data")
        rows, length = self.batch["input_ids"].shape
        model_class = self.theirs.source.model_class.__name__
        weights, text = (Path(name).name for name in (self.run.checkpoint, self.run.data))
        self.say(about=f"{model_class} of {weights}, {rows} rows of {length} tokens of {text}")
        self.say(begun="the parent's outputs")
        model, lacking = self.load(self.theirs, 2)
        stock = see(model, self.batch)
        wanted = self.continue_text(model)
        exact = see(model.to(WIDE[model.dtype]), self.batch)
        del model
        self.say(begun="the variant's outputs")
        try:
            model, missing = self.load(self.ours, 2)
            seen = see(model, self.batch)
            tokens = self.continue_text(model)
        except Exception as error:  # a model raises what it likes
            if isinstance(error, PatchgenError) or is_of_memory(error):
                raise
            self.tell("outputs", math.inf, 0, "", say_error(error))
            return
        del model
        self.judge_weights(lacking, missing)
        self.judge_outputs(stock, exact, seen)
        rounding = (stock["logits"].double() - exact["logits"].double()).abs().max()
        self.judge_texts(wanted, tokens, 2 * self.allowed * float(rounding))
        if self.run.steps:
            self.judge_training()

    def continue_text(self, model: Any) -> Any:
        """Return greedy tokens behind the beginning of the text, with the logits of each."""
        return model.can_generate() and model.generate(
            self.prompt,
            attention_mask=torch.ones_like(self.prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )

    def judge_weights(self, lacking: Sequence[str], missing: Sequence[str]) -> None:
        """Tell of weights that were drawn, because the checkpoint has none of them."""
        own = [name for name in missing if name not in lacking]
        if own:
            self.tell("weights", len(own), 0, "", f"{shorten_names(own)} is in no checkpoint")
        if lacking:
            what = f"{shorten_names(lacking)} is not in the checkpoint, and was drawn for both"
            self.say(result=Result(self.run.variant.name, MISSING, "NONE", note=what))

    def judge_outputs(self, stock: Seen, exact: Seen, seen: Seen) -> None:
        """Tell how far logits and states of the first rows are from the parent's."""
        noises = measure(stock, exact, seen)
        layers = find_layers(stock, seen, noises)
        positions = self.batch["attention_mask"].nonzero()[:, 1].cpu()
        places = find_places(stock["logits"], seen["logits"], positions)
        own = find_places(exact["logits"], stock["logits"], positions)
        self.say(figures={"places": places, "layers": layers})
        most = max(layers, key=lambda layer: layer.noises)
        where = f"most behind {most.behind}"
        cause = ""
        drifting = [layer for layer in layers if not layer.noises <= self.allowed]
        if drifting:
            where = cause = f"first drifts behind {drifting[0].behind}"
        divergence = _mean_divergence(places)
        own_divergence = _mean_divergence(own)
        note = f"KL {divergence} nats a token, {own_divergence} of the parent's own rounding"
        self.tell("logits", noises["logits"], self.allowed, "noises", note, cause)
        self.tell("states", most.noises, self.allowed, "noises", where, cause)

    def judge_texts(self, wanted: Any, made: Any, rounding: float) -> None:
        """Tell whether both go on with the same tokens, but where rounding decides between two."""
        if not wanted:
            return
        begin = self.prompt.shape[1]
        theirs = wanted.sequences[0, begin:].tolist()
        ours = made.sequences[0, begin:].tolist()
        decode = self.ours.data.tokenizer.decode
        texts = [decode(tokens) for tokens in (self.prompt[0], theirs, ours)]
        self.say(figures={"texts": texts})
        margin = 0.0
        note = f"{len(theirs)} tokens, all the same"
        for logits, token, own in zip(wanted.logits, theirs, ours, strict=False):
            if token != own:
                margin = float(logits[0, token] - logits[0, own])
                note = f"{decode(token)!r} and {decode(own)!r} are {number(margin)} apart"
                break
        self.tell("greedy text", margin, rounding, "logits", note)

    def judge_training(self) -> None:
        """Train both for a few steps, and tell how far their losses are apart."""
        theirs = self.train(self.theirs)
        ours = self.train(self.ours)
        steps: list[Step] = []
        for parent, own in zip(theirs, ours, strict=True):
            number = len(steps) + 1
            losses = parent["loss"], own["loss"]
            norms = parent["grad_norm"], own["grad_norm"]
            steps.append(Step(number, *losses, *norms))
        self.say(figures={"steps": steps})
        loss_error = _most(step.loss / step.parent_loss - 1 for step in steps)
        norm_error = _most(step.norm / step.parent_norm - 1 for step in steps)
        first = steps[0].loss
        last = steps[-1].loss
        note = f"{len(steps)} steps, the loss from {first:.4f} to {last:.4f}"
        bound = CURVE[self.run.dtype]
        self.tell("losses", loss_error, bound, "relative", note)
        norm_bound = 10 * bound
        note = "the norm of all, at each step"
        self.tell("gradients", norm_error, norm_bound, "relative", note)

    def train(self, job: Job) -> list[dict[str, float]]:
        """Return what Trainer logs of each step."""
        self.say(begun=f"training the {'variant' if job is self.ours else 'parent'}")
        model, _ = self.load(job, 4)  # with gradients, and two averages of AdamW
        model.config.use_cache = False
        trainer = job.trainer(model=model)
        trainer.train()
        return [each for each in trainer.state.log_history if "grad_norm" in each]


def _most(apart: Iterable[float]) -> float:
    """Return the largest of all; what is no number is far apart."""
    return max(math.inf if math.isnan(each) else abs(each) for each in apart)


def _mean_divergence(places: Sequence[Place]) -> str:
    return number(sum(place.divergence for place in places) / len(places))

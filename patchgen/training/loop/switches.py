"""Parses the switches of `patchgen train`, such as `--compile regional,mode=max-autotune`.

Raises PatchgenError PG813 for a switch that cannot be parsed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.training import precision
from patchgen.training.loop.recipe import AUTO, Recipe

SEEDS = 2**32


def refuse(switch: str, text: object, what: str, hint: str = "", code: str = "PG813") -> NoReturn:
    """Raise the problem of one switch."""
    raise PatchgenError(code, Location(f"--{switch} {text}".rstrip()), what, hint)


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """What a layer saves for its backward pass.

    "none" saves everything, "full" only the inputs, "selective" also expensive results.
    """

    policy: str = "none"
    every: int = 1  # every how many layers one is checkpointed


@dataclass(frozen=True, slots=True)
class Compiling:
    """What `torch.compile` compiles: nothing, the whole model, or each repeated layer."""

    scope: str = "none"
    mode: str = "default"
    backend: str = "inductor"


@dataclass(frozen=True, slots=True)
class Loading:
    """How batches are loaded: in this process (0 workers), or by workers that prefetch."""

    workers: int = 0
    pinned: bool = True
    prefetch: int = 2


@dataclass(frozen=True, slots=True)
class Adapting:
    """The sizes of LoRA's matrices, and the layers that get them.

    "all-linear" is every linear layer but the head.
    """

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all-linear",)


@dataclass(frozen=True, slots=True)
class Searching:
    """The number of trials, and the objectives."""

    trials: int = 10
    objectives: tuple[str, ...] = ("loss",)
    steps: int = 0  # of each; 0: as many as the recipe says


def checkpointing(text: str) -> Checkpointing:
    """Parse `none`, `full`, `selective`, `every=K`, or a policy with it: `selective,every=2`."""
    words, options = _split_words("checkpoint", text, {"every": int})
    policy = _one_of(
        "checkpoint", text, words, ("none", "full", "selective"), "full" if options else "none"
    )
    found = Checkpointing(policy, options.get("every", 1))
    if found.every < 1 or (policy == "none" and options):
        refuse(
            "checkpoint",
            text,
            "checkpoints every k-th layer from k = 1 on, and none under the policy none",
        )
    return found


def compiling(text: str) -> Compiling:
    """Parse `none`, or `whole` or `regional` with `mode=` and `backend=`."""
    words, options = _split_words("compile", text, {"mode": str, "backend": str})
    return Compiling(
        _one_of("compile", text, words, ("none", "whole", "regional"), "whole"), **options
    )


def loading(text: str) -> Loading:
    """Parse `workers=N`, `prefetch=N`, and `pinned` or `pageable`."""
    words, options = _split_words("loader", text, {"workers": int, "prefetch": int})
    pinned = _one_of("loader", text, words, ("pinned", "pageable"), "pinned") == "pinned"
    if options.get("workers", 0) < 0 or options.get("prefetch", 1) < 1:
        refuse(
            "loader", text, "takes no fewer than 0 workers, and prefetches no fewer than 1 batch"
        )
    if "prefetch" in options and not options.get("workers"):
        refuse("loader", text, "nothing is fetched ahead without workers", "workers=2,prefetch=2")
    return Loading(pinned=pinned, **options)


def adapting(text: str) -> Adapting | None:
    """Parse any of `rank=8`, `alpha=16`, `dropout=0.05`, `targets=q_proj+v_proj`; None without
    LoRA.
    """
    if not text:
        return None
    of: dict[str, Callable[[str], Any]] = {
        "rank": int,
        "alpha": int,
        "dropout": float,
        "targets": lambda given: tuple(given.split("+")),
    }
    words, options = _split_words("lora", text, of)
    _one_of("lora", text, words, ("on",), "on")
    return Adapting(**options)


def searching(text: str) -> Searching:
    """Parse `trials=N`, `steps=N`, and the objectives `loss` and `throughput`."""
    words, options = _split_words("search", text, {"trials": int, "steps": int})
    for word in words:
        _one_of("search", text, [word], ("loss", "throughput"), "loss")
    if options.get("trials", 1) < 1 or options.get("steps", 1) < 1:
        refuse("search", text, "tries at least 1 trial of at least 1 step")
    return Searching(objectives=tuple(dict.fromkeys(words)) or ("loss",), **options)


def config_changes(recipe: Recipe, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `--config key=value` changes; a value is JSON, or else text."""
    changes: dict[str, Any] = {}
    for text in recipe.config:
        name, equals, value = text.partition("=")
        if not equals:
            refuse("config", text, "is not of the form key=value")
        if name not in known:
            refuse("config", text, f"the configuration has no {name}", did_you_mean(name, known))
        try:
            changes[name] = json.loads(value)
        except json.JSONDecodeError:
            changes[name] = value
    return changes


def check_switches(recipe: Recipe) -> None:
    """Refuse recipes that are impossible everywhere, before anything is read or built."""
    for parse, text in (
        (checkpointing, recipe.checkpoint),
        (compiling, recipe.compile),
        (loading, recipe.loader),
        (adapting, recipe.lora),
    ):
        parse(text)
    if recipe.precision not in precision.NAMES:  # in a saved recipe
        refuse(
            "precision", recipe.precision, "is not known", f"there are {_listed(precision.NAMES)}"
        )
    if recipe.batch_size != AUTO and not (recipe.batch_size.isdecimal() and int(recipe.batch_size)):
        refuse("batch-size", recipe.batch_size, "is neither a number of rows nor auto")
    if recipe.packing != "none" and recipe.task == "classification":
        refuse(
            "packing",
            recipe.packing,
            "packs passages into rows, and in classification each has a label of its own",
        )
    for name in ("length", "grad_accum", "keep"):
        if getattr(recipe, name) < 1:
            refuse(name.replace("_", "-"), getattr(recipe, name), "must be at least 1")
    if not 0 <= recipe.seed < SEEDS:
        refuse("seed", recipe.seed, f"numpy takes numbers below {SEEDS}")
    for name in ("learning_rate", "weight_decay", "warmup"):
        if not 0 <= getattr(recipe, name) < math.inf:
            refuse(name.replace("_", "-"), getattr(recipe, name), "is to be a number from 0 on")
    for name in ("log_every", "eval_every", "save_every"):
        every = getattr(recipe, name)
        if not 0 <= every < math.inf or (every > 1 and every % 1):
            refuse(
                name.replace("_", "-"),
                every,
                "is a whole number of steps, or below 1 a share of all",
            )
    if recipe.steps <= 0 and recipe.epochs <= 0:
        refuse("epochs", recipe.epochs, "trains nothing")
    if recipe.task == "masked-lm" and not 0 < recipe.masked < 1:
        refuse("masked", recipe.masked, "is a share of the tokens, between 0 and 1")


def _split_words(
    switch: str, text: str, readers: Mapping[str, Callable[[str], Any]]
) -> tuple[list[str], Any]:
    """Split `a,b,key=value` into words and options."""
    words, options = [], {}
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            words.append(name)
            continue
        if name not in readers:
            refuse(
                switch,
                text,
                f"{name} is no option",
                did_you_mean(name, readers) or f"it takes {_listed(readers)}",
            )
        try:
            options[name] = readers[name](value)
        except ValueError:
            refuse(switch, text, f"{value} is no value of {name}")
    return words, options


def _one_of(
    switch: str, text: str, words: list[str], allowed: tuple[str, ...], default: str
) -> str:
    if len(words) > 1 or (words and words[0] not in allowed):
        wrong = next((word for word in words if word not in allowed), "")
        refuse(switch, text, f"{wrong or ','.join(words)}: is to be one of {_listed(allowed)}")
    return words[0] if words else default


def _listed(names: Any) -> str:
    return ", ".join(names)

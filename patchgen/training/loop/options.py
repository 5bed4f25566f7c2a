"""Reads the command line of `patchgen train`: `Options`, and any of `TrainingArguments`.

Both are parsed by transformers' `HfArgumentParser`.  A run writes what it was given to
`arguments.json`, and `patchgen train RUN/arguments.json` reads it again.
"""

import argparse
import dataclasses
import importlib
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from transformers import HfArgumentParser, TrainingArguments

from patchgen import disk
from patchgen.project.origin import install_hint
from patchgen.runtime.checkpointing import options_of
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean, one_line
from patchgen.training.parallel.engine import NAMES

ARGUMENTS = "arguments.json"
# Rates at which models of this kind learn: from random weights, fine-tuned, and by LoRA.
RATES = {"random": 5e-4, "weights": 2e-5, "lora": 2e-4}
OBJECTIVES = ("loss", "throughput")


def _option(help: str, default: Any = None, **rest: Any) -> Any:
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": help}, **rest)
    return field(default=default, metadata={"help": help}, **rest)


# The annotations of this class are read when the program runs: the module does not postpone them.
@dataclass(kw_only=True)
class Options:
    """What a run needs beside `TrainingArguments`."""

    model: str = _option("A variant, a model type of transformers, or a checkpoint.", "")
    weights: str = _option("Start from this checkpoint: a folder, or an id of the Hub.", "")
    task: Literal["causal-lm", "masked-lm", "classification"] = _option(
        "What the model learns.", "causal-lm"
    )
    data: list[str] = _option(
        "Text files, folders of them, tables (csv, json, parquet), or one data set; "
        "default: three novels that patchgen ships.",
        [],
    )
    text_column: str = _option(
        "The column with the texts, or with conversations; default: text, else messages.", ""
    )
    label_column: str = _option("The column with the labels, for classification.", "label")
    length: int = _option("Tokens of a row.", 512)
    packing: Literal["none", "isolated", "concatenated"] = _option(
        "Put several documents into a row: isolated, so that none sees another, or concatenated.",
        "none",
    )
    masked: float = _option("Share of the tokens that masked-lm hides.", 0.15)
    tokenizer: str = _option(
        "Default: that of the checkpoint, else a byte-level one of 1,024 tokens.", ""
    )
    tiny: bool = _option("A small model that a CPU trains in seconds.", False)
    config: list[str] = _option("Changes of the configuration, key=value.", [])
    dtype: Literal["float32", "bfloat16"] = _option(
        "Of weights, gradients and states; --bf16 and --fp16 are autocast over it.", "float32"
    )
    attention: str = _option(
        "sdpa, flash_attention_2, varlen, ..., or fastest: the best FlashAttention that is "
        "installed; default: what the model chooses.",
        "",
    )
    lora_rank: int = _option("Train LoRA adapters of this rank only; 0: all weights.", 0)
    lora_kwargs: str = _option("Other arguments of peft's LoraConfig, as a JSON object.", "{}")
    muon: bool = _option("Muon for the matrices of the layers, AdamW for all else.", False)
    engine: str = _option(
        f"How processes share the work: {', '.join(NAMES)}; auto: ddp on several.",
        "auto",
    )
    search: list[str] = _option("Search for settings: loss, throughput, or both.", [])
    trials: int = _option("Of a search.", 10)


def refuse(name: str, value: object, what: str, hint: str = "", code: str = "PG813") -> NoReturn:
    """Raise the problem of one argument."""
    raise PatchgenError(code, Location(f"--{name} {value}".rstrip()), what, hint)


def needs(package: str, where: str) -> Any:
    """Return a package of the extra `train`; raise PG814 where it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        what = f"needs the package {package}"
        hint = install_hint("train")
        raise PatchgenError("PG814", Location(where), what, hint) from error


class _Parser(HfArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PatchgenError("PG813", Location("patchgen train"), message)


def make_parser() -> HfArgumentParser:
    """Return the parser; what is not given is not in its namespace."""
    usage = "patchgen train MODEL [--NAME VALUE ...]"
    return _Parser((Options, TrainingArguments), usage=usage, allow_abbrev=False, add_help=False)


def parse(argv: Sequence[str]) -> tuple[Options, dict[str, Any]]:
    """Return the options, and what is given of TrainingArguments.

    The first word is MODEL, or the `arguments.json` of a run.  Raises PatchgenError PG813 for what
    cannot be understood.
    """
    first, *rest = argv
    values = _read(first) if first.endswith(".json") else {"model": first}
    parser = make_parser()
    names = {each.name for each in dataclasses.fields(Options)}
    trainer_names = {each.name for each in dataclasses.fields(TrainingArguments)}
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    namespace, unknown = parser.parse_known_args(rest)
    values |= vars(namespace)
    # The name of an option says more than a value behind one.
    unknown.sort(key=lambda word: not word.startswith("--"))
    unknown += [name for name in values if name not in names | trainer_names]
    if unknown:
        word = unknown[0]
        name = word.removeprefix("--").partition("=")[0]
        nearly = did_you_mean(name, names | trainer_names)
        hint = nearly or "`patchgen train --help` lists the arguments"
        raise PatchgenError("PG813", Location(word), "is no argument of patchgen train", hint)
    options = Options(**{name: values.pop(name) for name in names if name in values})
    _check(options)
    return options, values


def _read(path: str) -> dict[str, Any]:
    try:
        values = disk.read_json(Path(path))
    except (OSError, ValueError) as error:
        raise PatchgenError("PG817", Location(path), f"cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise PatchgenError("PG817", Location(path), "holds no arguments of a run")
    return values


def _check(options: Options) -> None:
    """Refuse what is impossible everywhere, before anything is read or built."""
    for name in ("length", "trials"):
        if getattr(options, name) < 1:
            refuse(name, getattr(options, name), "must be at least 1")
    if not 0 < options.masked < 1:
        refuse("masked", options.masked, "is a share of the tokens, between 0 and 1")
    if options.task == "classification" and options.packing != "none":
        what = "packs documents into rows, and in classification each has a label of its own"
        refuse("packing", options.packing, what)
    if options.lora_kwargs != Options.lora_kwargs and not options.lora_rank:
        refuse("lora_kwargs", options.lora_kwargs, "does nothing without --lora_rank")
    for objective in options.search:
        if objective not in OBJECTIVES:
            refuse("search", objective, f"is no objective: {' or '.join(OBJECTIVES)}")


def output_of(options: Options, given: Mapping[str, Any]) -> Path:
    """Return the folder of the run."""
    return Path(os.path.expanduser(given.get("output_dir") or f"runs/{Path(options.model).name}"))


def make_arguments(
    options: Options, given: Mapping[str, Any], *, from_weights: bool = False, **more: Any
) -> TrainingArguments:
    """Return Trainer's arguments: those that are given, and defaults that suit a run here.

    Raises PatchgenError PG813 where Trainer refuses one.
    """
    if given.get("save_total_limit") == 1:
        what = "removes the last checkpoint before the new one is sealed"
        refuse("save_total_limit", 1, what, "--save_total_limit 2")
    kind = "lora" if options.lora_rank else "weights" if from_weights else "random"
    values: dict[str, Any] = {
        "learning_rate": RATES[kind],
        "use_cpu": not torch.cuda.is_available(),
        "logging_steps": 0.02,
        "logging_nan_inf_filter": False,
        "disable_tqdm": not sys.stderr.isatty(),
        "prediction_loss_only": options.task != "classification",
        # `patchgen.training.loop.texts` makes batches of exactly what a model takes.
        "remove_unused_columns": False,
        **given,
        **more,
        "output_dir": str(output_of(options, given)),
    }
    values |= _recomputing(values)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a name of before transformers 5.23
            return TrainingArguments(**values)
    except (ValueError, ImportError, TypeError) as error:
        what = one_line(error)
        raise PatchgenError("PG813", Location("TrainingArguments"), what) from error


def _recomputing(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of checkpointing, with a "policy" translated for torch."""
    given = [name for name in KWARGS if values.get(name)]
    if not given:
        return {}
    name = given[0]
    text = values[name]
    try:
        options = dict(json.loads(text) if isinstance(text, str) else text)
    except (ValueError, TypeError) as error:
        refuse(name, text, f"is no object of JSON: {error}")
    policy = options.pop("policy", "full")
    if policy not in ("full", "selective"):
        refuse(name, text, f"{policy} is no policy: full or selective")
    return {name: options | options_of(policy)}


KWARGS = ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")

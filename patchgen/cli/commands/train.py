"""`patchgen train`."""

from __future__ import annotations

import click

from patchgen.cli.requirements import needs_models


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("model")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--arguments", "lists", is_flag=True, help="List every argument, with MODEL `all`.")
@needs_models("train")
def train(model: str, arguments: tuple[str, ...], lists: bool) -> int:
    """Train a variant, another model or a checkpoint.

    transformers' Trainer trains it.  MODEL is a variant, a model type of transformers, a
    checkpoint, or the arguments.json of a run.  ARGUMENTS are any of Trainer's TrainingArguments,
    and those of patchgen: --data, --task, --length, --packing, --weights, --tokenizer, --tiny,
    --config, --dtype, --lora_rank, --muon, --engine, --search and more.  Needs pip install
    'patchgen[train]'.

    \b
    Example:
      patchgen train llama_loss --tiny --max_steps 100
      patchgen train llama_loss --weights meta-llama/Llama-3.2-1B --data chats.jsonl --bf16
      patchgen train runs/llama_loss/arguments.json --resume_from_checkpoint last
      patchgen train all --arguments
    """
    from patchgen.cli.train import show_help
    from patchgen.cli.train import train as run

    if lists:
        show_help()
        return 0
    return run((model, *arguments))

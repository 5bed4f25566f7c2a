"""`patchgen memory`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.requirements import needs_models
from patchgen.training import precision


@click.command()
@click.argument("name", metavar="MODEL")
@click.option(
    "--head",
    metavar="CLASS",
    help="The class, or the end of its name; default: a language-model head, if any.",
)
@click.option(
    "--config", metavar="SIZE|FILE", help="A published size, such as llama-1b, or a config.json."
)
@click.option("--tiny", is_flag=True, help="A configuration that any machine can run.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change the configuration; may be repeated.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Rows of a batch.",
)
@click.option(
    "--length",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of a row; default: 512, or fewer if the model has fewer positions.",
)
@click.option(
    "--precision",
    type=click.Choice(precision.NAMES),
    default="fp32",
    show_default=True,
    help="As in `train`; amp: autocast over float32 weights; pure: weights and states too.",
)
@click.option(
    "--optimizer",
    metavar="NAME",
    default="adamw",
    show_default=True,
    help="The optimizer: adamw, sgd, momentum, adafactor, ...",
)
@click.option(
    "--checkpoint",
    metavar="POLICY",
    default="none",
    show_default=True,
    help="What the backward pass computes again: none, full or selective.",
)
@click.option(
    "--every", type=click.IntRange(1), default=1, metavar="K", help="Checkpoint each K-th layer."
)
@click.option(
    "--accumulate",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Batches whose gradients are summed for one step.",
)
@click.option(
    "--attention",
    metavar="NAME",
    default="",
    help="The attention: eager, sdpa, ...; default: what the model chooses.",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Whose kernels run; default: cuda with --card or if there is one, else cpu.",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Show one rank of several, by its share of weights, gradients and states: fsdp2, ...",
)
@click.option("--ranks", type=int, metavar="N", help="How many ranks the engine has.")
@click.option("--card", metavar="SIZE", help="Print the largest batch that fits: --card 24GB.")
@click.option("--measure", is_flag=True, help="Also run the step and measure it.")
@click.option("--predict/--no-predict", default=True, help="Predict, or only measure.")
@click.option(
    "--figure",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Draw the step: .svg or .png.",
)
@click.option("--output-format", "form", type=click.Choice(["text", "json"]), default="text")
@needs_models()
def memory(name: str, **rest: Any) -> int:
    """Predict the memory of a training step of MODEL.

    MODEL is a variant, a model type of transformers or a published size, such as llama-8b.  It
    runs on shapes only, so it need not fit on this machine.

    \b
    Example:
      patchgen memory llama-8b --precision pure-bf16 --checkpoint full --card 80GB
    """
    from patchgen.cli.memory import memory as run

    return run(name, **rest)

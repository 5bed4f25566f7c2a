"""`patchgen verify`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import limits, text_or_json
from patchgen.cli.requirements import needs_models

DTYPES = ("float64", "float32", "bfloat16")  # those of `verify.plan`, which imports torch


@click.command()
@click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option("--all", "everything", is_flag=True, help="Every variant that patchgen.lock records.")
@click.option(
    "--full",
    is_flag=True,
    help="All cases, heads and ways to generate, inductor, however long it takes.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(DTYPES),
    help="Only this dtype; may be repeated.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of weights, inputs and dropout.")
@click.option("--device", metavar="NAME", help="Where models run; default: cuda if present.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Variants at a time; default: one for each core, or one on a GPU.",
)
@click.option(
    "--mutants",
    metavar="N|all|none",
    default="25",
    show_default=True,
    help="Errors to plant in the changed lines.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["unseen"]),
    help="Fail too if no case notices one of these errors.",
)
@text_or_json
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write parity.md, parity.json and mutants.md into DIR.",
)
@limits("a case", seconds=60, clock="Processor time")
@click.option("-v", "--verbose", is_flag=True, help="Print every case as it ends.")
@needs_models()
def verify(names: tuple[str, ...], **rest: Any) -> int:
    """Compare outputs, losses and gradients with the parent's.

    Both models are tiny and have random weights.  The cases that tell most come first, and a case
    that fails is printed at once.  Without --full a variant gets a minute of the processor.  The
    report says which changed lines ran.  patchgen also plants small errors in those lines, to see
    that the comparison notices them.  This needs torch and transformers.  Exit code 1: a case
    failed, or nothing of a variant was compared.

    \b
    Example:
      patchgen verify llama_loss --dtype float32 --report report
    """
    from patchgen.cli.verify import verify as run

    return run(names, **rest)

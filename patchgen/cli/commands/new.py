"""`patchgen new`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import package_root

# Those of `author.declare.request`, which `--help` need not import.
PARTS = {
    "sdpa": "attention that is written out is one call of SDPA",
    "checkpoint": "activation checkpointing",
    "loss": "no logits in training: the loss is taken in chunks",
    "norm": "each RMSNorm is one kernel, and LayerNorms follow autocast",
    "moe": "a new model with a mixture of experts in the place of the MLP",
    "grouped": "says whether experts run in grouped matrix products",
    "flash": "no padding is computed, and packed texts are kept apart",
    "flex": "says whether transformers has flex attention",
    "liger": "Liger's kernels for norms, rotations, gated products and the loss",
}
ALSO = {"fast": "loss, flash and norm: for a decoder that is trained"}  # several parts


@click.command(
    epilog="\b\nParts:\n" + "\n".join(f"  {part:12}{what}" for part, what in (PARTS | ALSO).items())
)
@click.argument("model", required=False)
@click.option("--with", "parts", metavar="PART,...", help="The parts; default: list what fits.")
@click.option(
    "--name",
    metavar="NAME",
    help="The end of the file's name, modular_MODEL_NAME.py; default: the parts.",
)
@click.option(
    "--from-gallery", "variant", metavar="VARIANT", help="Copy the modular file of this variant."
)
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
@click.option("--no-proof", is_flag=True, help="Write it unverified: seconds less.")
@click.option("--force", is_flag=True, help="Write redundant parts too; replace an existing file.")
@package_root
def new(model: str | None, parts: str | None, variant: str | None, **rest: Any) -> int:
    """Write the modular file that puts parts into MODEL.

    It is verified on a tiny model first.  MODEL is a modeling module of the installed transformers,
    such as roformer.  Code of it that patchgen does not understand is named with its line.  Without
    --with: which parts fit MODEL, and why others do not.

    \b
    Example:
      patchgen new roformer --with sdpa,loss --dry-run
      patchgen new --from-gallery llama_loss
    """
    from patchgen.cli.new import copy_from_gallery, list_parts, write_new

    if variant is not None:
        return copy_from_gallery(variant, rest["force"], rest["package_root"])
    if model is None:
        what = "patchgen new MODEL lists the parts that fit it, such as patchgen new roformer; "
        raise click.UsageError(what + "patchgen new --from-gallery VARIANT copies one of ours")
    if parts is None:
        return list_parts(model, rest["package_root"], PARTS)
    return write_new(model, parts, **rest)

"""The goals of the parts, and which models come first for them."""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.author.anatomy.module import Module
from patchgen.author.coverage.grouped import GROUPED
from patchgen.author.coverage.lacking import CHECKPOINTING, FLASH, SDPA, Flags, attends
from patchgen.author.coverage.page import Target
from patchgen.syntax.locate import Environment

# Experts in a Python loop, or all of them for each token.
LOOPING = (
    "dbrx",
    "doge",
    "jetmoe",
    "llama4",
    "longcat_flash",
    "nllb_moe",
    "step3p7",
    "switch_transformers",
)


def targets(env: Environment, names: Iterable[str]) -> tuple[Target, ...]:
    """Of the modules of these dotted names."""
    flags = Flags(env)
    modules = [
        module for name in names if (module := flags.open(name)) is not None and attends(module)
    ]
    neither = [m for m in modules if not flags.supports(m, SDPA) and not flags.supports(m, FLASH)]
    unchecked = [m for m in modules if not flags.supports(m, CHECKPOINTING)]
    return (
        Target(
            "sdpa", f"{len(neither)} that have neither SDPA nor FlashAttention", 63, _named(neither)
        ),
        Target(
            "checkpoint",
            f"{len(unchecked)} that attend and have no checkpointing",
            45,
            _named(unchecked),
        ),
        Target("loss", "language-model heads", 150, heads=True),
        Target("moe", "dense language models", 40),
        Target(
            GROUPED, f"{len(LOOPING)} with experts of their own", len(LOOPING), frozenset(LOOPING)
        ),
    )


def _named(modules: Iterable[Module]) -> frozenset[str]:
    return frozenset(module.alias for module in modules)

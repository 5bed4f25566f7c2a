"""How each kind of case is decided: one function of a `CheckContext` for each kind.

A check never raises for what a model does wrong: that is a FAIL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.checks.interface import (
    check_attention_weights,
    check_attn_implementation,
    check_cache,
    check_generation,
    check_interface,
)
from patchgen.verify.checks.itself import check_itself
from patchgen.verify.checks.numbers import (
    check_dropout,
    check_isolation,
    check_loss_beside_logits,
    check_norms,
    check_numbers,
    check_padding,
    check_planted_error,
)
from patchgen.verify.checks.speed import (
    check_choices,
    check_compiled,
    check_effect,
    check_fast_path,
    check_operators,
    check_recompilation,
    check_recompute,
    check_work,
)
from patchgen.verify.checks.state import check_checkpoints, check_initialization, check_plans

CHECKS: Mapping[str, Callable[[CheckContext], Verdict]] = {
    "numbers": check_numbers,
    "weights": check_attention_weights,
    "planted": check_planted_error,
    "effect": check_effect,
    "kept": check_recompute,
    "choices": check_choices,
    "operators": check_operators,
    "checkpoints": check_checkpoints,
    "fresh": check_initialization,
    "plans": check_plans,
    "cache": check_cache,
    "generated": check_generation,
    "attention": check_attn_implementation,
    "interface": check_interface,
    "compiled": check_compiled,
    "zeros": check_padding,
    "drops": check_dropout,
    "pace": check_fast_path,
    "work": check_work,
    "loss beside logits": check_loss_beside_logits,
    "isolation": check_isolation,
    "itself": check_itself,
    "norms": check_norms,
    "compiled over lengths": check_recompilation,
}

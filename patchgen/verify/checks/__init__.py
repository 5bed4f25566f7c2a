"""How each kind of case is decided: one function of a `CheckContext` for each kind.

A check never raises for what a model does wrong: that is a FAIL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgen.verify.checks.attention import check_attention_weights, check_attn_implementation
from patchgen.verify.checks.checkpoints import check_checkpoints
from patchgen.verify.checks.choices import check_choices
from patchgen.verify.checks.compiled import check_compiled
from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.checks.dropout import check_dropout
from patchgen.verify.checks.effects import check_effect
from patchgen.verify.checks.fresh import check_initialization
from patchgen.verify.checks.generation import check_cache, check_generation
from patchgen.verify.checks.interface import check_interface
from patchgen.verify.checks.isolation import check_isolation
from patchgen.verify.checks.itself import check_itself
from patchgen.verify.checks.losses import check_loss_beside_logits
from patchgen.verify.checks.norms import check_norms
from patchgen.verify.checks.numbers import check_numbers
from patchgen.verify.checks.operators import check_operators
from patchgen.verify.checks.pace import check_fast_path, check_recompilation, check_work
from patchgen.verify.checks.padding import check_padding
from patchgen.verify.checks.plans import check_plans
from patchgen.verify.checks.planted import check_planted_error
from patchgen.verify.checks.recompute import check_recompute

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

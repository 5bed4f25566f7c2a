"""How each kind of case is decided: a function that never raises for what a model does wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgen.verify.checks import interface, itself, numbers, running
from patchgen.verify.checks.context import CheckContext, Verdict

CHECKS: Mapping[str, Callable[[CheckContext], Verdict]] = {
    "numbers": numbers.check_numbers,
    "planted": numbers.check_planted_error,
    "zeros": numbers.check_padding,
    "drops": numbers.check_dropout,
    "loss beside logits": numbers.check_loss_beside_logits,
    "norms": numbers.check_norms,
    "itself": itself.check_itself,
    "weights": interface.check_attention_weights,
    "cache": interface.check_cache,
    "generated": interface.check_generation,
    "attention": interface.check_attn_implementation,
    "interface": interface.check_interface,
    "effect": running.check_effect,
    "work": running.check_work,
    "choices": running.check_choices,
    "operators": running.check_operators,
    "compiled": running.check_compiled,
    "checkpoints": running.check_checkpoints,
    "fresh": running.check_initialization,
    "plans": running.check_plans,
}

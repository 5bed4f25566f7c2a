"""How each kind of case is decided: a function of a `Trial` for each, under the name that cases call it by.

A check never raises for what a model does wrong: that is a FAIL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgen.verify.checks.attention import accepts, weights
from patchgen.verify.checks.checkpoints import loads
from patchgen.verify.checks.compiled import compiles
from patchgen.verify.checks.context import Trial, Verdict
from patchgen.verify.checks.dropout import drops_as_parent
from patchgen.verify.checks.effects import shows_effect
from patchgen.verify.checks.fresh import begins_as_parent
from patchgen.verify.checks.generation import generates, keeps_cache
from patchgen.verify.checks.interface import computes_by
from patchgen.verify.checks.numbers import equals_parent
from patchgen.verify.checks.pace import compiles_once, keeps_pace
from patchgen.verify.checks.padding import zeros_at_padding
from patchgen.verify.checks.plans import means_what_is_there
from patchgen.verify.checks.planted import sees_plant
from patchgen.verify.checks.recompute import keeps_what_it_says

CHECKS: Mapping[str, Callable[[Trial], Verdict]] = {
    "numbers": equals_parent,
    "weights": weights,
    "planted": sees_plant,
    "effect": shows_effect,
    "kept": keeps_what_it_says,
    "checkpoints": loads,
    "fresh": begins_as_parent,
    "plans": means_what_is_there,
    "cache": keeps_cache,
    "generated": generates,
    "attention": accepts,
    "interface": computes_by,
    "compiled": compiles,
    "zeros": zeros_at_padding,
    "drops": drops_as_parent,
    "pace": keeps_pace,
    "compiled over lengths": compiles_once,
}

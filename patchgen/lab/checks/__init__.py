"""How each kind of case is decided: a function of a `Trial` for each, under the name that cases call it by.

A check never raises for what a model does wrong: that is a FAIL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgen.lab.checks.attention import accepts, weights
from patchgen.lab.checks.checkpoints import loads
from patchgen.lab.checks.compiled import compiles
from patchgen.lab.checks.dropout import drops_as_parent
from patchgen.lab.checks.effects import shows_effect
from patchgen.lab.checks.generation import generates, keeps_cache
from patchgen.lab.checks.interface import computes_by
from patchgen.lab.checks.kept import keeps_what_it_says
from patchgen.lab.checks.numbers import equals_parent
from patchgen.lab.checks.pace import compiles_once, keeps_pace
from patchgen.lab.checks.padding import zeros_at_padding
from patchgen.lab.checks.plans import means_what_is_there
from patchgen.lab.checks.plants import sees_plant
from patchgen.lab.checks.trial import Trial, Verdict

CHECKS: Mapping[str, Callable[[Trial], Verdict]] = {
    "numbers": equals_parent,
    "weights": weights,
    "planted": sees_plant,
    "effect": shows_effect,
    "kept": keeps_what_it_says,
    "checkpoints": loads,
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

"""Step 3.7 whose experts run by transformers' interface, in grouped GEMMs instead of a loop over experts.

For those who train it on a GPU: two products for all experts, and no synchronisation to find out which of them were
chosen.  `experts_implementation` takes every name that transformers has: "grouped_mm" is the default, "eager" the
loop.  Router, the limits of the gates and checkpoints are the parent's.

Written by hand: no two loops over experts are alike, and these limit their gates.
"""

from transformers.integrations import use_experts_implementation
from transformers.models.step3p7 import modeling_step3p7 as step3p7


@use_experts_implementation
class Step3p7Experts(step3p7.Step3p7Experts):
    pass

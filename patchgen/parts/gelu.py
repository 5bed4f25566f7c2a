"""The tanh form of GELU as one operation.

    class GPT2MLP(FusedGelu, gpt2.GPT2MLP): ...

`gelu_new` and its like are computed in float32 by one operation, where the parent rounds each of
eight: closer to the exact value in bfloat16, equal up to rounding in float32.  `gelu_fast`, whose
constant is another one, is left as it is.
"""

from typing import Any

from transformers.activations import ACT2FN

from patchgen.edits import Hole, edit, new, old

# Formulas that are written out in Python, and are one operation of torch.
TANH_GELUS = ("gelu_new", "gelu_accurate", "gelu_python_tanh")


class FusedGelu:
    @edit("__init__")
    def use_one_operation(self: Any, name: Hole) -> None:
        with old:
            ACT2FN[name]
        with new:
            ACT2FN["gelu_pytorch_tanh" if name in TANH_GELUS else name]

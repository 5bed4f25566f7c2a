"""Look inside operators that are written in Python (`torch.library.custom_op`).

A dispatch mode sees such an operator as one call.  To see what it computes, run its body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef, _maybe_get_opdef


def find_python_body(operation: Any) -> Callable[..., Any] | None:
    """Return the Python function that `operation` runs; None where it has none."""
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace == "aten":
        return None
    found: CustomOpDef | None = _maybe_get_opdef(operation)
    return None if found is None else found._init_fn

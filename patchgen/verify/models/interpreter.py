"""Complete Triton's interpreter, so that Liger's kernels run on a CPU: `TRITON_INTERPRET=1`.

Triton 3.9's interpreter gives kernels a float as Python's own, without methods, and has none of
libdevice's functions.  Triton's own functions take their place.  All else is Liger's code as it is.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any


def is_interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache  # once: it wraps a function of the interpreter
def complete_interpreter() -> None:
    """Give the interpreter what Liger's kernels need and it lacks, before a kernel runs."""
    import liger_kernel.ops.cross_entropy
    import liger_kernel.ops.geglu
    import liger_kernel.ops.rms_norm
    import numpy
    import triton.language as tl
    from triton.runtime import interpreter

    convert = interpreter._implicit_cvt

    def with_floats(value: Any) -> Any:
        if not isinstance(value, float):
            return convert(value)
        handle = interpreter.TensorHandle(numpy.array([value], dtype=numpy.float32), tl.float32)
        return tl.tensor(handle, tl.float32)

    interpreter._implicit_cvt = with_floats
    liger_kernel.ops.rms_norm.rsqrt = lambda x: tl.rsqrt(x)
    for module in (liger_kernel.ops.cross_entropy, liger_kernel.ops.geglu):
        module.tanh = lambda x: 2 * tl.sigmoid(2 * x) - 1

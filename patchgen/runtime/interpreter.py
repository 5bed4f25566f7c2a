"""Triton's interpreter, in which Liger's kernels run on a CPU: `TRITON_INTERPRET=1`."""

from __future__ import annotations

import functools
import os
from typing import Any


def is_interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache  # once: it wraps a function of the interpreter
def complete_interpreter() -> None:
    """Give the interpreter what Liger's kernels need and it lacks, before a kernel runs."""
    import liger_kernel.ops.cross_entropy
    import liger_kernel.ops.geglu
    import liger_kernel.ops.rms_norm
    import numpy
    import triton.language as tl
    from triton.runtime import autotuner, interpreter

    # There is no driver to time kernels with.
    autotuner.Autotuner.prune_configs = lambda self, kwargs: self.configs[:1]
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

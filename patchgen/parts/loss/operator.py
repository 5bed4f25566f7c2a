"""Functions as operators of torch."""

from collections.abc import Callable
from typing import Any

import torch


def operator(body: Callable[..., Any]) -> Any:
    """`body` as an operator of torch, named by its module: of two generated files each has its own."""
    return torch.library.custom_op(
        f"{body.__module__.replace('.', '_')}::{body.__name__}", body, mutates_args=()
    )

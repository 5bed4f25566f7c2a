"""Make a function an operator of torch."""

from collections.abc import Callable
from typing import Any

import torch


def operator(body: Callable[..., Any]) -> Any:
    """`body` as an operator of torch.  Its name has the module, so that no two files share one."""
    name = f"{body.__module__.replace('.', '_')}::{body.__name__}"
    return torch.library.custom_op(name, body, mutates_args=())

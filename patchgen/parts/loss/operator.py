"""Make a function an operator of torch."""

from typing import Any

import torch


def operator(body: Any) -> Any:
    """`body` as an operator of torch.  Its name has the module, so that no two files share one."""
    return torch.library.custom_op(
        f"{body.__module__.replace('.', '_')}::{body.__name__}", body, mutates_args=()
    )

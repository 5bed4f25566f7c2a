"""Check that a style of a parallel plan fits a module or a parameter.

Each function returns a sentence on what would fail or compute something else, or an empty string.
The styles are those of transformers 5.23 (`transformers.distributed.tensor_parallel` and
`expert_parallel`).  A style that is unknown here is only compared with transformers' own list.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from torch import nn

COLUMNS = ("colwise", "colwise_rep", "colwise_gather_output")
ROWS = ("rowwise", "rowwise_rep", "rowwise_split_input")
EMBEDDINGS = ("embedding_rowwise", "embedding_colwise")
# Styles that split a parameter.  The others only change the inputs and outputs of a module.
SPLITTING = (*COLUMNS, *ROWS, *EMBEDDINGS, "packed_colwise", "packed_rowwise", "grouped_gemm")


def known_styles() -> frozenset[str]:
    """The styles of the installed transformers; empty if its list is not found."""
    try:
        from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES
    except ImportError:
        return frozenset()
    return frozenset(ALL_PARALLEL_STYLES)


def unfit_module(style: str, module: nn.Module, rules: Mapping[str, str]) -> str:
    """What is wrong with a module under `style`; `rules` are those of its parameters."""
    if style in COLUMNS and not hasattr(module, "out_features"):
        return f"{style} is for linear layers, and {_named(module)} has no out_features"
    if style in ROWS and not hasattr(module, "in_features"):
        return f"{style} is for linear layers, and {_named(module)} has no in_features"
    if style in EMBEDDINGS and not isinstance(module, nn.Embedding):
        return f"{style} is for embeddings, and this is a {_named(module)}"
    if style in ("moe_tp_experts", "ep_dispatch_experts"):
        return _unfit_experts(style, module, rules)
    return ""


def _unfit_experts(style: str, module: nn.Module, rules: Mapping[str, str]) -> str:
    whole = [
        name
        for name, _ in module.named_parameters(recurse=False)
        if rules.get(name) not in SPLITTING
    ]
    if style == "moe_tp_experts":
        # What each rank adds whole is in the sum of all ranks as many times as there are ranks.
        return f"each rank would add its {_listed(whole)}, and outputs are summed" if whole else ""
    if not isinstance(getattr(module, "num_experts", None), int):
        return f"{_named(module)} does not say num_experts"
    if whole:
        return f"its {_listed(whole)} would not be split by expert"
    given = inspect.signature(module.forward).parameters.values()
    taken = sum(each.default is each.empty for each in given)
    called = "is not called with tokens, their experts and gates"
    return "" if taken == 3 else f"{_named(module)} {called}, but takes {taken} arguments"


def unfit_parameter(style: str, owner: nn.Module, name: str) -> str:
    """What is wrong with the parameter `name` of `owner` under `style`."""
    size = tuple(owner.get_parameter(name).shape)
    if style == "grouped_gemm" and size[0] != getattr(owner, "num_experts", size[0]):
        return f"its first axis, {size[0]}, is not that of the {owner.num_experts} experts"
    if style in ("packed_colwise", *COLUMNS) and len(size) == 2 and hasattr(owner, "num_experts"):
        return f"{style} would split a matrix {size} of experts by expert"
    if style == "packed_colwise" and len(size) > 1 and size[-2] % 2:
        return f"{size[-2]} rows are not two halves"
    return ""


def _named(module: nn.Module) -> str:
    return type(module).__name__


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

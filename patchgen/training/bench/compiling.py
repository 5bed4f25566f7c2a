"""Compiles models as a whole or by layers, and records the masks that SDPA gets in their graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from patchgen.training.bench.entry import Compiled
from patchgen.verify.observe.recorder import Args, Given, Listener, listening

MOST_GRAPHS = 512  # of one function: layers times entries
Masks = list[str]  # "none", "causal", "bool", "float", one for each call


def find_layers(model: nn.Module) -> list[nn.Module]:
    """Return the modules in all lists of the class that fills the longest list."""
    lists = [
        m
        for m in model.modules()
        if isinstance(m, nn.ModuleList) and len({type(x) for x in m}) == 1 and len(m)
    ]
    if not lists:
        raise LookupError(f"{type(model).__name__} has no list of layers")
    kind = type(max(lists, key=len)[0])
    return [layer for each in lists if type(each[0]) is kind for layer in each]


def compile_model(
    model: nn.Module, how: Compiled, masks: Masks, *, traced_only: bool, lengths: bool = False
) -> None:
    """Compile the model or its layers at their first run, and record the masks of the graphs.

    With `traced_only` graphs run as traced, without a compiler; for machines without a GPU.  With
    `lengths` batches differ, so torch may make a graph for all lengths, as it does by default for
    the second length.
    """
    backend = _backend(masks, how, traced_only)
    for module in find_layers(model) if how == "layers" else [model]:
        module.compile(backend=backend, dynamic=None if lengths else False)


def allow_many_models() -> None:
    """Allow any number of compiled models of a class; raise where torch would stop compiling.

    By default torch runs the ninth model of a class uncompiled without a message, and it would be
    timed as compiled.
    """
    config = torch._dynamo.config
    config.recompile_limit, config.accumulated_recompile_limit = MOST_GRAPHS, MOST_GRAPHS
    config.fail_on_recompile_limit_hit = True


def forget_graphs() -> None:
    """Free all compiled graphs, and the memory of CUDA graphs."""
    torch._dynamo.reset()
    if torch.cuda.is_available():
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


def _backend(masks: Masks, how: Compiled, traced_only: bool) -> Callable[..., Any]:
    def compiled(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        masks.extend(_masks_of(graph))
        if traced_only:
            return graph.forward
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        patches = list_mode_options("reduce-overhead") if how == "graphs" else None
        return compile_fx(graph, inputs, config_patches=patches)

    return compiled


def _masks_of(graph: torch.fx.GraphModule) -> Masks:
    calls = [node for node in graph.graph.nodes if node.target is F.scaled_dot_product_attention]
    return [_kind(*_mask_and_causal(node.args, node.kwargs)) for node in calls]


def _mask_and_causal(args: Sequence[Any], kwargs: Given) -> tuple[Any, Any]:
    mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
    return mask, kwargs.get("is_causal", args[5] if len(args) > 5 else False)


def _kind(mask: Any, causal: Any) -> str:
    if mask is None:
        return "causal" if causal else "none"
    value = mask.meta.get("example_value") if isinstance(mask, torch.fx.Node) else mask
    return "bool" if getattr(value, "dtype", None) == torch.bool else "float"


@dataclass
class MaskListener(Listener):
    """Notes the masks of SDPA calls that Python makes."""

    masks: Masks

    def called(self, function: Any, args: Args, given: Given) -> None:
        if function is F.scaled_dot_product_attention:
            self.masks.append(_kind(*_mask_and_causal(args, given)))


def record_masks(masks: Masks) -> AbstractContextManager[None]:
    """A context in which the masks of SDPA calls that Python makes come into `masks`."""
    return listening(MaskListener(masks))

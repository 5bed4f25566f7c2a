# What mixins and edits name is the parent's, or of the class beside.
# mypy: disable-error-code="attr-defined, misc"
"""The routing of a mixture of experts, recorded in one forward pass and replayed in another.

For reinforcement learning: the rollout and the training step compute the logits of a router in
other kernels or another precision, and a token whose logits are close goes to other experts in the
two.  Then the ratio of their probabilities is of two models.  Replay takes the experts of the
rollout in training, with weights of the router as it is now (R3, arXiv:2510.11370):

    with model.record_routing() as forwards:
        model.generate(...)
    experts = forwards[0]                    # of the first forward pass: (tokens, layers, K)

    model(input_ids, labels=labels, routed_experts=experts)

`routed_experts` is (B, L, layers, K) as engines give it, or (tokens, layers, K), of any integers;
layers are all of the model, those without experts too.  Where it is negative the router chooses,
as for tokens that the rollout has not seen.  Scores, auxiliary losses and `router_logits` are the
parent's.

The argument goes from the head to each layer as all further arguments do, and a layer hands it to
its routers before it runs.  So a recompute under activation checkpointing replays what its own
forward pass was given, also where another forward pass came between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class ReplayingRouter:
    """Takes the experts that it is given, and notes those that it takes where it is asked to."""

    replayed: torch.Tensor | None = None
    recorded: list[torch.Tensor] | None = None

    def choose(
        self, scores: torch.Tensor, k: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`torch.topk`, or scores and numbers of the experts that are replayed."""
        chosen, experts = torch.topk(scores, k, *args, **kwargs)
        if self.replayed is not None:
            given = self.replayed.to(experts).view(experts.shape)
            experts = torch.where(given < 0, experts, given)
            chosen = scores.gather(-1, experts)
        if self.recorded is not None:
            self.recorded.append(experts.detach())
        return chosen, experts


class ReplayingLayer:
    """Hands its part of `routed_experts` to the routers inside."""

    def routers(self) -> list[nn.Module]:
        return [module for module in self.modules() if hasattr(module, "replayed")]

    def forward(self, *args: Any, routed_experts: torch.Tensor | None = None, **kwargs: Any) -> Any:
        for router in self.routers():
            router.replayed = None
            if routed_experts is not None:
                router.replayed = routed_experts[..., self.layer_idx, :]
        return super().forward(*args, **kwargs)


class RecordsRouting:
    @contextmanager
    def record_routing(self) -> Iterator[list[torch.Tensor]]:
        """A list that has, at the end, the experts of each forward pass: (tokens, layers, K).

        Numbers are -1 in layers without a router.
        """
        layers = [module for module in self.modules() if hasattr(module, "routers")]
        routers = [(layer.layer_idx, router) for layer in layers for router in layer.routers()]
        for _, router in routers:
            router.recorded = []
        forwards: list[torch.Tensor] = []
        try:
            yield forwards
            for chosen in zip(*(router.recorded for _, router in routers), strict=True):
                experts = chosen[0].new_full((len(chosen[0]), len(layers), chosen[0].shape[-1]), -1)
                for (index, _), of_layer in zip(routers, chosen, strict=True):
                    experts[:, index] = of_layer
                forwards.append(experts)
        finally:
            for _, router in routers:
                router.recorded = None

# What mixins read is the parent's, and what an edit names is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-any-return"
"""Liger's kernels, imported by the file that runs them: nothing is patched at run time.

    LigerRMSNorm and its kin   each RMSNorm is one kernel, by where it casts and what it adds; it
                               leaves the gradient that it is given as it is (`in_place=False`),
                               which a residual or a hook may read too
    LigerSwiGLU, LigerGeGLU    the activation of the gate times the other half, in one kernel
    LigerLoss and its kin      in training with labels the loss is taken without the logits
    LigerRotary                queries and keys are rotated in one kernel

The kernels run on GPUs (in Triton's interpreter, `TRITON_INTERPRET=1`, on a CPU too).  Without
liger-kernel the file is an ImportError with the command that installs it.

What differs from the parent:

- The kernels compute in float32 and round at the end, so bfloat16 differs in the last bits.
- In the backward pass the product of gate and up overwrites what it has kept.  A second backward
  pass through the same graph (`retain_graph=True`) is wrong, as with Liger's own patches.
- Queries and keys are rotated in place.  A hook that keeps the output of `q_proj` sees them rotated.
- An activation that the kernel does not compute is a ValueError when the model is built.
- `outputs.logits` is None in training with labels, and keeps its place in a tuple.  The parent's
  statements run, and give logits, in evaluation, without labels, with `logits_to_keep` that keeps
  less than everything, and where the user has set a `loss_function` or a hook on the head.
- The loss reads the weight of the head.  A head that is more than a plain linear layer is a
  ValueError, because what it adds would not learn: an adapter of LoRA on `lm_head`, and a head that
  is quantized, sharded or wrapped.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.loss.heads import PlaceForLogits

try:
    from liger_kernel.transformers import functional as liger
except ImportError as error:
    raise ImportError("Liger's kernels are not installed: pip install liger-kernel") from error


def liger_loss(
    model: Any, head: Any, states: Tensor, labels: Any, cap: Any = None, bias: Any = None
) -> Any:
    """The loss function of `head(states)` that needs no logits; None where logits are needed."""
    hooked = head._forward_hooks or head._forward_pre_hooks or "forward" in vars(head)
    called = hooked or head._backward_hooks or head._backward_pre_hooks
    if called or not model.training or model.loss_function is not ForCausalLMLoss:
        return None
    if labels is None or labels.shape != states.shape[:-1]:
        return None
    plain = type(head) is nn.Linear and type(head.weight.data) is Tensor and head.bias is bias
    if not plain:
        raise ValueError(
            f"Liger's loss reads the weight of a linear head, and what else {type(head).__name__} "
            "has would not learn: leave the head out of the adapter, or use the part `loss`"
        )
    return partial(liger_causal_loss, states, head.weight, bias, cap)


def liger_causal_loss(
    states: Tensor,
    weight: Tensor,
    bias: Any,
    cap: Any,
    logits: None,
    labels: Tensor,
    *_: Any,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: Any = None,
    **kwargs: Any,
) -> Tensor:
    """`ForCausalLMLoss` of the logits of `states`, which are never there as a whole."""
    items = num_items_in_batch
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    loss = liger.liger_fused_linear_cross_entropy(
        states.flatten(0, -2),
        weight,
        shift_labels.flatten().to(states.device),
        bias=bias,
        ignore_index=ignore_index,
        reduction="mean" if items is None else "sum",
        softcap=cap,
    )
    return loss if items is None else loss / torch.as_tensor(items, device=loss.device)


class LigerRMSNorm:
    # Cast to the dtype of the input, then multiplied by the weight.
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        weight, eps = self.weight, self.variance_epsilon
        return liger.liger_rms_norm(hidden_states, weight, eps, in_place=False)


class LigerScaledRMSNorm:
    # Multiplied by the weight in float32, then cast.
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, weight, eps = hidden_states, self.weight, self.variance_epsilon
        return liger.liger_rms_norm(x, weight, eps, casting_mode="gemma", in_place=False)


class LigerScaledEpsRMSNorm:
    # The same, of norms that call their epsilon `eps`.
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return liger.liger_rms_norm(x, self.weight, self.eps, casting_mode="gemma", in_place=False)


class LigerOffsetRMSNorm:
    # Multiplied by one plus the weight in float32, then cast.
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return liger.liger_rms_norm(
            x, self.weight, self.eps, offset=1.0, casting_mode="gemma", in_place=False
        )


class LigerRotary:
    # The kernel reads the first half of cosines and sines: the second has to be the same.
    @edit("forward")
    def rotate_in_one_kernel(self, query_states, key_states, cos, sin, rotate: Hole):
        with old:
            query_states, key_states = rotate(query_states, key_states, cos, sin)
        with new:
            query_states, key_states = liger.liger_rope(query_states, key_states, cos, sin)


class LigerSwiGLU:
    @edit("__init__")
    def require_silu(self, name: Hole):
        with old:
            self.act_fn = ACT2FN[name]
        with new:
            self.act_fn = ACT2FN[name]
            if name not in ("silu", "swish"):
                raise ValueError(f"Liger's SwiGLU computes SiLU, and not {name}")

    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            liger.liger_swiglu(gate, up)


class LigerChunkedSwiGLU:
    # The halves of one product, as in Phi-3.
    @edit("__init__")
    def require_silu(self, name: Hole):
        with old:
            self.activation_fn = ACT2FN[name]
        with new:
            self.activation_fn = ACT2FN[name]
            if name not in ("silu", "swish"):
                raise ValueError(f"Liger's SwiGLU computes SiLU, and not {name}")

    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            up * self.activation_fn(gate)
        with new:
            liger.liger_swiglu(gate, up)


class LigerGeGLU:
    # By the tanh form of GELU.
    @edit("__init__")
    def require_gelu_by_tanh(self, name: Hole):
        with old:
            self.act_fn = ACT2FN[name]
        with new:
            self.act_fn = ACT2FN[name]
            if name not in ("gelu_pytorch_tanh", "gelu_new"):
                raise ValueError(f"Liger's GeGLU computes GELU by tanh, and not {name}")

    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            liger.liger_geglu(gate, up)


class LigerLoss(PlaceForLogits):
    # The head's logits go to the loss as they are.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states, labels)
            logits = head(states) if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerBiasedLoss(PlaceForLogits):
    # The head has a bias, or its configuration says whether.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            bias = getattr(head, "bias", None)
            loss_function = liger_loss(self, head, states, labels, bias=bias)
            logits = head(states) if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerScaledLoss(PlaceForLogits):
    # The head multiplies its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, scale: Hole
    ):
        with old:
            logits = head(states)
            logits = logits * scale
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states * scale, labels)
            logits = head(states) * scale if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerDividedLoss(PlaceForLogits):
    # The head divides its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, divisor: Hole
    ):
        with old:
            logits = head(states)
            logits = logits / divisor
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states / divisor, labels)
            logits = head(states) / divisor if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerSoftcappedLoss(PlaceForLogits):
    # The head caps its logits where the configuration says so.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, cap: Hole
    ):
        with old:
            logits = head(states)
            if cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states, labels, cap)
            logits = head(states) if loss_function is None else None
            if logits is not None and cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerAlwaysCappedLoss(PlaceForLogits):
    # The head caps its logits, whatever the configuration says.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, cap: Hole
    ):
        with old:
            logits = head(states)
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states, labels, cap)
            logits = torch.tanh(head(states) / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class LigerScaledCappedLoss(PlaceForLogits):
    # The head multiplies its logits, and caps what that gives.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, scale: Hole, cap: Hole
    ):
        with old:
            logits = head(states)
            logits = logits * scale
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = liger_loss(self, head, states * scale, labels, cap)
            logits = torch.tanh(head(states) * scale / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)

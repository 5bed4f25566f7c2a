"""Cross entropy over the logits of a linear layer, which exist for one chunk of tokens at a time.

Axes: T tokens (all leading axes as one), D size of a hidden state, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

# Logits that exist at once.  A smaller chunk costs time: the gradient of the weight, V x D in float32, is read and
# written once for each.
LOGITS_AT_ONCE = 2**27


def mean_loss(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """total / count; where nothing is counted NaN, with gradients of zero, as transformers has it."""
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan).to(total.dtype)


def linear_cross_entropy(
    head: nn.Module,
    states: torch.Tensor,
    labels: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    ignore_index: int = -100,
    upcast: bool = True,
    chunk: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of cross entropies of `softcap * tanh(scale * (head(states) + bias) / softcap)`, and how many there are.

    Tokens whose label is `ignore_index` do not count.  The sum is float32 where `upcast`, as transformers has it; else
    it is of the logits' dtype where that is wider.

    A plain `nn.Linear` is not called: its gradients are computed with its loss, chunk by chunk, that of the weight
    added up in float32 at least.  Its `forward` does not run.  Every other head (with hooks, an adapter of LoRA,
    quantised, sharded, or with layers before the last) is called on each chunk, and once more in the backward pass.
    """
    if isinstance(scale, torch.Tensor) and scale.requires_grad:
        raise ValueError("a scale that is trained would get no gradient here: compute the logits")
    states_TD, labels_T = states.flatten(0, -2), labels.flatten().to(states.device)
    if states_TD.shape[0] != labels_T.shape[0]:
        raise ValueError(f"{states_TD.shape[0]} states have {labels_T.shape[0]} labels")
    form = LogitsForm(scale, softcap, ignore_index, upcast)
    count = (labels_T != ignore_index).sum()

    if not _is_plain_linear(head):
        return _sum_by_calling(head, states_TD, labels_T, bias, form, chunk), count
    if bias is not None:
        bias = bias.flatten() if head.bias is None else head.bias + bias.flatten()
    else:
        bias = head.bias
    dtype = _autocast_dtype(states.device.type) or states.dtype
    chunks = _number_of_chunks(states_TD.shape[0], head.weight.shape[0], chunk)
    return _LinearCrossEntropy.apply(states_TD, head.weight, bias, labels_T, form, dtype, chunks), count


class LogitsForm:
    """How logits come from what the head gives, and what does not count.  Constants to autograd."""

    def __init__(self, scale: float | None, softcap: float | None, ignore_index: int, upcast: bool) -> None:
        self.scale, self.softcap, self.ignore_index, self.upcast = scale, softcap, ignore_index, upcast

    def widen(self, logits: torch.Tensor) -> torch.Tensor:
        # The parent's own spelling: float64 becomes float32 as well.
        return logits.float() if self.upcast or logits.dtype.itemsize < 4 else logits


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum of cross entropies over the logits of a linear layer.  Its gradients are computed in the forward pass.

    They are those of the sum: a mean's divisor, a loss scale and the like come in backward, in the gradients' own
    dtype, so that nothing underflows in float16.  What is saved has the shapes of states, weight and bias.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_TD: torch.Tensor,
        weight_VD: torch.Tensor,
        bias_V: torch.Tensor | None,
        labels_T: torch.Tensor,
        form: LogitsForm,
        dtype: torch.dtype,
        chunks: int,
    ) -> torch.Tensor:
        wants_states, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        tokens, size = states_TD.shape[0], -(-states_TD.shape[0] // chunks)
        weight = weight_VD.to(dtype)
        bias = None if bias_V is None else bias_V.to(dtype)
        wide = form.widen(weight[:0]).dtype
        total = torch.zeros((), dtype=wide, device=states_TD.device)
        of_states = torch.empty_like(states_TD) if wants_states else None
        of_weight = torch.zeros_like(weight_VD, dtype=wide) if wants_weight else None
        of_bias = torch.zeros_like(bias_V, dtype=wide) if wants_bias else None

        with torch.autocast(states_TD.device.type, enabled=False):
            for start in range(0, tokens, size):
                states = states_TD[start : start + size].to(dtype)
                loss, of_logits = _loss_of_chunk(states, weight, bias, labels_T[start : start + size], form)
                total = total + loss
                if of_bias is not None:
                    of_bias += of_logits.sum(0)
                of_logits = of_logits.to(dtype)
                if of_states is not None:
                    of_states[start : start + size] = of_logits @ weight
                if of_weight is not None:
                    of_weight += of_logits.t() @ states

        ctx.save_for_backward(of_states, of_weight, of_bias)
        ctx.dtypes = (states_TD.dtype, weight_VD.dtype, None if bias_V is None else bias_V.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, of_total: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        # `once_differentiable` lets this pass where the loss is the end of the graph, and second derivatives are lost.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "the loss in chunks has no second derivative (create_graph=True); config.loss_chunk_size = 0 has one"
            )
        # Not in place: the graph may be walked again.
        given = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        gradients = [None if each is None else (each * of_total).to(dtype) for each, dtype in given]
        return *gradients, None, None, None, None


def _loss_of_chunk(
    states_TD: torch.Tensor,
    weight_VD: torch.Tensor,
    bias_V: torch.Tensor | None,
    labels_T: torch.Tensor,
    form: LogitsForm,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of cross entropies of these tokens, and its gradient by what the linear layer gave, (T, V)."""
    logits = form.widen(nn.functional.linear(states_TD, weight_VD, bias_V))
    if form.scale is not None:
        logits = logits * form.scale
    if form.softcap is not None:
        capped = torch.tanh(logits / form.softcap)
        logits = capped * form.softcap
    ignored_T1 = (labels_T == form.ignore_index).unsqueeze(1)
    labels_T1 = labels_T.unsqueeze(1).masked_fill(ignored_T1, 0)

    logits = torch.log_softmax(logits, dim=-1)
    loss = -logits.gather(1, labels_T1).masked_fill(ignored_T1, 0).sum()

    slope = logits.exp_()
    slope.scatter_add_(1, labels_T1, slope.new_full((), -1.0).expand(labels_T1.shape))
    slope.masked_fill_(ignored_T1, 0)
    if form.softcap is not None:
        slope *= 1 - capped * capped
    if form.scale is not None:
        slope *= form.scale
    return loss, slope


def _sum_by_calling(
    head: Callable[[torch.Tensor], torch.Tensor],
    states_TD: torch.Tensor,
    labels_T: torch.Tensor,
    bias_V: torch.Tensor | None,
    form: LogitsForm,
    chunk: int | None,
) -> torch.Tensor:
    """The sum of cross entropies over `head(states)`; each chunk's logits are computed again in the backward pass."""
    wide = form.widen(states_TD[:0]).dtype

    def loss(states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = head(states)
        logits = (logits if bias_V is None else logits + bias_V.flatten()).to(wide)
        logits = logits if form.scale is None else logits * form.scale
        logits = logits if form.softcap is None else form.softcap * torch.tanh(logits / form.softcap)
        labels = labels.to(logits.device)
        return nn.functional.cross_entropy(logits, labels, ignore_index=form.ignore_index, reduction="sum")

    chunks = _number_of_chunks(states_TD.shape[0], _logits_of_a_token(head), chunk)
    size = -(-states_TD.shape[0] // chunks)
    pairs = ((states_TD[at : at + size], labels_T[at : at + size]) for at in range(0, states_TD.shape[0], size))
    losses = [checkpoint(loss, states, labels, use_reentrant=False) for states, labels in pairs]
    return torch.stack(losses).sum()


def _logits_of_a_token(head: Any) -> int:
    """How many logits a token has: as many as the last matrix of `head` has rows; where none says so, many."""
    sizes = [getattr(module, "out_features", 0) for module in head.modules()]
    return max(sizes, default=0) or 2**17


def _number_of_chunks(tokens: int, vocabulary: int, chunk: int | None) -> int:
    size = chunk or max(1, LOGITS_AT_ONCE // vocabulary)
    return max(1, -(-tokens // size))


def _is_plain_linear(head: nn.Module) -> bool:
    """Whether `head(x)` is nothing but `F.linear(x, head.weight, head.bias)`, on ordinary tensors."""
    if type(head) is not nn.Linear or "forward" in vars(head):
        return False
    hooks = (head._forward_hooks, head._forward_pre_hooks, head._backward_hooks, head._backward_pre_hooks)
    # A DTensor's gradient is summed over ranks by what its module does, not by us.
    return not any(hooks) and type(head.weight.data) is torch.Tensor


def _autocast_dtype(device: str) -> torch.dtype | None:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

"""Which operations' outputs a policy keeps from the forward pass, and how they take their place in the recompute."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import CheckpointPolicy

# Operations by their names in torch's registry: one that an installation does not have is never met.
CHOICES = frozenset({"aten::topk", "aten::sort", "aten::argmax", "aten::max"})
PRODUCTS = frozenset(
    {
        "aten::mm",
        "aten::addmm",
        "aten::convolution",
        "aten::_grouped_mm",
        "aten::_scaled_mm",
        "aten::_scaled_grouped_mm",
        "transformers::grouped_mm_fallback",
    }
)
BATCHED_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
ATTENTIONS = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_flash_attention_forward",
        "aten::_efficient_attention_forward",
        "aten::_cudnn_attention_forward",
        "torch_attn::_varlen_attn",
        "flash_attn::_flash_attn_forward",
        "flash_attn::_flash_attn_varlen_forward",
        "flex_attention",
    }
)
CHECKPOINT_POLICIES = {"full": CHOICES, "selective": CHOICES | PRODUCTS | BATCHED_PRODUCTS | ATTENTIONS}

# Stands for an output that the layer has changed since.
FORGOTTEN = object()


def is_kept(policy: str, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the output of `operation` is kept from the forward pass: the same answer in the recompute."""
    name = name_of(operation)
    if name not in CHECKPOINT_POLICIES[policy]:
        return False
    if name in BATCHED_PRODUCTS:
        # Scores of attention are dear to keep and cheap to make; what comes of them is the other way round.
        (*_, rows, inner), columns = args[-2].shape, args[-1].shape[-1]
        return bool(rows * columns <= inner * (rows + columns))
    # Left out of the recompute, attention with dropout would not draw, and all dropout after it would change.
    return name not in ATTENTIONS or not argument_of(operation, "dropout_p", args, kwargs)


def keep_or_recompute(policy: str, context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """`is_kept`, as a compiler asks."""
    kept = is_kept(policy, operation, args, kwargs)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


class Keeping(TorchDispatchMode):
    """Stands around the forward of a layer: holds what the policy keeps, by operation, in the order of the calls.

    torch's own contexts are not for layers as they come: they give back a product that the layer has changed in place
    since, and stop at casts that autocast makes once for several layers.
    """

    supports_higher_order_operators = True

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.policy = policy
        self.used = self.met_a_choice = False
        self.outputs: dict[Any, list[Any]] = {}
        self.places: dict[int, tuple[list[Any], int]] = {}  # by storage: where in `outputs`

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, self.used = kwargs or {}, True
        if self.places:
            self.forget(written_by(operation, args, kwargs))
        output = operation(*args, **kwargs)
        if is_kept(self.policy, operation, args, kwargs):
            self.keep(operation, output)
        return output

    def keep(self, operation: Any, output: Any) -> None:
        calls = self.outputs.setdefault(operation, [])
        if name_of(operation) in CHOICES:
            # A router may scale in place what it chose, and is not to choose again: a copy, which is small.
            self.met_a_choice = True
            calls.append(tree_map_only(torch.Tensor, torch.clone, output))
            return
        for tensor in tensors_in(output):
            self.places[storage_of(tensor)] = calls, len(calls)
        # Not the tensor itself, which autograd ties to its graph.
        calls.append(tree_map_only(torch.Tensor, torch.Tensor.detach, output))

    def forget(self, changing: Iterable[torch.Tensor]) -> None:
        """What shares its storage with one of `changing` will be computed again."""
        for tensor in changing:
            calls, index = self.places.pop(storage_of(tensor), ([None], 0))
            calls[index] = FORGOTTEN


class Replaying(TorchDispatchMode):
    """Stands around each recompute: what is kept takes the place of the calls that gave it."""

    supports_higher_order_operators = True

    def __init__(self, kept: Keeping) -> None:
        super().__init__()
        self.kept = kept

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __enter__(self) -> Any:
        self.left = {operation: iter(outputs) for operation, outputs in self.kept.outputs.items()}
        return super().__enter__()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not is_kept(self.kept.policy, operation, args, kwargs):
            return operation(*args, **kwargs)
        output = next(self.left.get(operation, iter(())), None)
        if output is None:
            raise RuntimeError(f"{operation} is called more often in the recompute than in the forward pass")
        if output is FORGOTTEN:
            return operation(*args, **kwargs)
        anew = torch.clone if name_of(operation) in CHOICES else torch.Tensor.detach
        return tree_map_only(torch.Tensor, anew, output)


def name_of(operation: Any) -> str:
    """`aten::max` for each overload of it."""
    return str(operation.name()).partition(".")[0]


def parameters_of(operation: Any) -> Sequence[Any]:
    """As its schema has them; an operation of higher order has no schema."""
    return operation._schema.arguments if hasattr(operation, "_schema") else ()


def argument_of(operation: Any, wanted: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of an argument in a call of `operation`; None where it takes none of that name."""
    for index, each in enumerate(parameters_of(operation)):
        if each.name == wanted:
            return kwargs.get(wanted, args[index] if index < len(args) else each.default_value)
    return None


def written_by(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that a call of `operation` changes in place."""
    for index, each in enumerate(parameters_of(operation)):
        if each.alias_info is not None and each.alias_info.is_write:
            yield from tensors_in(kwargs.get(each.name, args[index] if index < len(args) else None))


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int:
    """One number for all views of it, also for those that torch does not count as views (`_unsafe_view`)."""
    return int(tensor.untyped_storage()._cdata)

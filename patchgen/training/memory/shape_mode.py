"""Runs a model on shapes, with the values that follow from its inputs.

Fake tensors have no values, so a model cannot ask whether a mask is all ones, or which tokens go to
which expert.  This mode answers with known values (`values`), and the shapes that follow from them.
An unknown condition, such as whether a number is infinite, is assumed to be false and reported. An
unknown number or shape is an error.
"""

from __future__ import annotations

import builtins
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers.utils import import_utils

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.memory.values import NOT_KNOWN, Values

aten = torch.ops.aten


class Known(TorchDispatchMode):
    """A mode above a `FakeTensorMode`; `assumed` lists the places where a condition was assumed."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.device = device  # whose kernels run
        self.assumed: list[str] = []
        self.values = Values()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is aten._local_scalar_dense.default:
            return self._scalar(args[0])
        if func is aten.embedding.default:
            self._check_rows(*args[:2])
        if func is aten.index.Tensor:
            places = self._as_integers(args[1])
            args = (args[0], places)
        elif func is aten.masked_select.default:
            return self._selected(*args)
        elif func is aten._grouped_mm.default:
            return _product_of_groups(*args[:2], *kwargs.values(), *args[2:])
        elif torch.Tag.dynamic_output_shape in func.tags:
            return self._of_unknown_shape(func, args, kwargs)
        out = func(*args, **kwargs)
        if func is aten.native_batch_norm.default and self.device == "cpu":
            # torch's shape rule keeps the strides of the input, and the kernel does not.
            laid_out = torch.empty_like(args[0], memory_format=torch.contiguous_format)
            out = (laid_out, *out[1:])
        self.values.learn(func, args, kwargs, out)
        if func is aten._is_all_true.default and self.values.of(out) is None:
            self.values.fill(out, 1)  # only checks ask for it, and raise where it is false
        return out

    def _check_rows(self, weight: Tensor, indices: Tensor) -> None:
        """Raise IndexError as a real embedding does for an index without a row."""
        value = self.values.of(indices)
        if value is None:
            return
        with _disable_current_modes():
            asked = value.unique().tolist()
        for row in asked[:1] + asked[-1:]:
            if not 0 <= row < len(weight):
                raise IndexError(f"row {row} of an embedding of {len(weight)} rows")

    def _scalar(self, tensor: Tensor) -> Any:
        value = self.values.of(tensor)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        if tensor.dtype == torch.bool:
            self.assumed.append(str(find_caller()))
            return False
        raise _unknowable("asks for a number that depends on weights")

    def _of_unknown_shape(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        leaves = tree_leaves((args, kwargs))
        tensors = (leaf for leaf in leaves if isinstance(leaf, Tensor))
        device = next(tensors).device
        computed = self.values.compute(func, args, kwargs)
        if computed is NOT_KNOWN:
            operation = func.overloadpacket
            what = f"gives a tensor whose shape depends on weights ({operation})"
            raise _unknowable(what)
        return tree_map_only(Tensor, lambda value: self._made(value, device), computed)

    def _as_integers(self, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return masks among the indices as positions, whose number is then known."""
        places = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            value = self._mask(index)
            with _disable_current_modes():
                axes = value.bool().nonzero(as_tuple=True)
            places += [self._made(axis, index.device) for axis in axes]
        return places

    def _mask(self, mask: Tensor) -> Tensor:
        value = self.values.of(mask)
        if value is None:
            raise _unknowable("takes the elements where a mask is true that depends on weights")
        return value

    def _selected(self, tensor: Tensor, mask: Tensor) -> Tensor:
        value = self._mask(mask)
        with _disable_current_modes():
            count = int(value.expand(torch.broadcast_shapes(tensor.shape, mask.shape)).sum())
        return tensor.new_empty(count)

    def _made(self, value: Tensor, device: torch.device) -> Tensor:
        """Return a fake tensor with the known value."""
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        self.values.tell(copy, value)
        return copy


@contextmanager
def shapes_only(*modules: ModuleType, device: str = "cpu") -> Iterator[Known]:
    """Create tensors without memory, by the rules of `device`; yields what is known of them.

    Fake tensors pass as plain ones, so that code runs as in a real step: transformers makes masks
    for fake tensors that it omits for real ones, some models take a shorter way with plain tensors
    (`modules` ask for their type), modules that already have the right dtype would get new
    parameters, and a number that becomes part of a name would be formatted as a tensor.
    """
    values = Known(device)
    with FakeTensorMode(allow_non_fake_inputs=True), values, ExitStack() as stack:
        stack.enter_context(patch.object(nn.Module, "_apply", _converted))
        stack.enter_context(patch.object(FakeTensor, "__format__", _formatted))
        for module in modules:
            stack.enter_context(patch.object(module, "type", OrdinaryType))
        if hasattr(import_utils, "is_fake_tensor"):
            stack.enter_context(patch.object(import_utils, "is_fake_tensor", lambda tensor: False))
        yield values


_convert = nn.Module._apply


def _converted(
    module: nn.Module, to: Callable[[Tensor], Tensor], recurse: bool = True
) -> nn.Module:
    held = [*module.parameters(recurse), *module.buffers(recurse)]
    return module if all(to(item) is item for item in held) else _convert(module, to, recurse)


def _formatted(tensor: Tensor, spec: str) -> str:
    return format(tensor.item(), spec) if tensor.dim() == 0 else object.__format__(tensor, spec)


class _Asked(builtins.type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, builtins.type)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], FakeTensor):
            return nn.Parameter if isinstance(args[0], nn.Parameter) else torch.Tensor
        return builtins.type(*args, **kwargs)


class OrdinaryType(metaclass=_Asked):
    """Python's `type`, which reports fake tensors as plain tensors and parameters."""


def _product_of_groups(
    left: Tensor, right: Tensor, offsets: Tensor | None = None, *rest: Any
) -> Tensor:
    """Return the shape that torch returns; its own shape rule supports bfloat16 only."""
    product = (left.shape[-2], right.shape[-1])
    if left.dim() + right.dim() == 5:  # rows of all groups, by the matrix of each
        return left.new_empty(product)
    groups = len(left if offsets is None else offsets)
    return left.new_empty(groups, *product)


def _unknowable(what: str) -> PatchgenError:
    hint = "the memory does not follow from shapes alone: measure it with --measure --no-predict"
    return PatchgenError("PG821", find_caller(), f"the forward {what}", hint)


_NOT_THE_MODEL = (
    "/torch/",
    "/patchgen/training/memory/",
    "/patchgen/cli/",
    "/click/",
    "<",
    "/transformers/utils/",
    "/transformers/modeling_layers.py",
)


def is_code_of_a_model(file: str) -> bool:
    """Return whether a file is of a model, and not of what calls it."""
    return not any(part in file.replace("\\", "/") for part in _NOT_THE_MODEL)


def find_caller() -> Location:
    """Return the line of the model that is running now."""
    for frame, line in traceback.walk_stack(inspect.currentframe()):
        if is_code_of_a_model(frame.f_code.co_filename):
            return Location(Path(frame.f_code.co_filename).name, line, 1)
    return Location("the model")

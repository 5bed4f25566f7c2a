"""Running a model on shapes alone, and still knowing what follows from its inputs.

Fake tensors have no values: a model that asks whether a mask is all ones, or which tokens go to which expert, cannot
go on.  Whatever is computed from inputs and constants alone is therefore computed for real beside the fake tensors;
whatever depends on weights is not.  Where a model chooses by scores that nobody knows, the choices are dealt out in
turn, which is a balanced routing.  A condition that nobody knows, such as whether something is infinite, is taken as
not given, and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from patchgen.errors import PatchgenError
from patchgen.memory.alike import from_each, written_and_sent
from patchgen.memory.exchange import is_collective
from patchgen.memory.ledger import is_spread
from patchgen.memory.ordinary import taken_for_real
from patchgen.memory.place import called_from

aten = torch.ops.aten

# What is larger is not computed: it would take the time and the memory that shapes are to save.
MOST_INTEGERS = 2**26
MOST_FLOATS = 2**20

# Their values are those of the operation, whatever the tensor is that they take shape or type from.
_FILLED: dict[Any, float] = {
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}
_NOT_KNOWN = object()
_UNSET = frozenset(
    {aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default}
)
# Which output says what was chosen, and along which axis, by position among the arguments or by name.
_CHOICES: dict[Any, int] = {
    aten.topk.default: 1,
    aten.sort.default: 1,
    aten.sort.stable: 1,
    aten.max.dim: 1,
    aten.min.dim: 1,
    aten.argmax.default: 0,
    aten.argmin.default: 0,
    aten.argsort.default: 0,
    aten.multinomial.default: 0,
}


class Known(TorchDispatchMode):
    """A mode above a `FakeTensorMode`; `assumed` has the places whose condition was taken as not given."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.device = device  # whose kernels run
        self.assumed: list[str] = []
        self._values: Any = WeakTensorKeyDictionary()
        self._spoilt: dict[int, Any] = {}  # storages of values that something unknown was written into, kept alive

    def tell(self, tensor: Tensor, value: Tensor) -> None:
        """`tensor` has this value."""
        self._values[tensor] = value

    def value_of(self, tensor: Tensor) -> Tensor | None:
        """The value of `tensor`, if it is known."""
        found: Tensor | None = self._values.get(tensor)
        return None if found is None or found.untyped_storage()._cdata in self._spoilt else found

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if any(map(is_spread, types)):
            return NotImplemented  # its parts come here
        if is_collective(func):
            return self._between_ranks(func, args, given)
        if func is aten._local_scalar_dense.default:
            return self._scalar(args[0])
        if func is aten.embedding.default:
            self._insist_on_rows(*args[:2])
        if func is aten.index.Tensor:
            args = (args[0], self._as_integers(args[1]))
        elif func is aten.masked_select.default:
            return self._selected(*args)
        elif func is aten._grouped_mm.default:
            return _product_of_groups(*args[:2], *given.values(), *args[2:])
        elif torch.Tag.dynamic_output_shape in func.tags:
            return self._of_unknown_shape(func, args, given)
        out = func(*args, **given)
        if func is aten.native_batch_norm.default and self.device == "cpu":
            # torch's rule for shapes lays it out as its input is, and the kernel does not.
            out = (torch.empty_like(args[0], memory_format=_laid_out(args[0])), *out[1:])
        self._learn(func, args, given, out)
        if func is aten._is_all_true.default and self.value_of(out) is None:
            self._fill(out, 1)  # asked where something is checked, before it is refused
        return out

    def _insist_on_rows(self, weight: Tensor, indices: Tensor) -> None:
        """As a real embedding does: there is a row for each index."""
        value = self.value_of(indices)
        if value is not None and value.numel():
            with _disable_current_modes():
                least, most = value.min().item(), value.max().item()
            if least < 0 or most >= weight.shape[0]:
                raise IndexError(f"row {most if least >= 0 else least} of an embedding of {weight.shape[0]} rows")

    # --- what cannot be computed without values

    def _scalar(self, tensor: Tensor) -> Any:
        value = self.value_of(tensor)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        if tensor.dtype == torch.bool:
            self.assumed.append(str(called_from()))
            return False
        raise _unknowable("asks for a number that depends on weights")

    def _of_unknown_shape(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        device = next(leaf.device for leaf in _leaves(args, kwargs) if isinstance(leaf, Tensor))
        computed = self._computed(func, args, kwargs)
        if computed is _NOT_KNOWN:
            raise _unknowable(f"gives a tensor whose shape depends on weights ({func.overloadpacket})")
        return tree_map_only(Tensor, lambda value: self._made(value, device), computed)

    def _as_integers(self, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
        """A mask that is an index, as the places where it is true: their number is then known."""
        if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            return list(indices)
        places: list[Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            value = self.value_of(index)
            if value is None:
                raise _unknowable("takes the elements where a mask is true that depends on weights")
            with _disable_current_modes():
                found = value.bool().nonzero(as_tuple=True)
            places += [self._made(each, index.device) for each in found]
        return places

    def _selected(self, tensor: Tensor, mask: Tensor) -> Tensor:
        value = self.value_of(mask)
        if value is None:
            raise _unknowable("takes the elements where a mask is true that depends on weights")
        with _disable_current_modes():
            count = int(value.expand(torch.broadcast_shapes(tensor.shape, mask.shape)).sum())
        return tensor.new_empty(count)

    def _made(self, value: Tensor, device: torch.device) -> Tensor:
        """A fake tensor that is known to be `value`."""
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        self.tell(made, value)
        return made

    def _between_ranks(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result on fake tensors; its values are known where this rank knows what it sends."""
        out = func(*args, **kwargs)
        written, sent = written_and_sent(func, args, out)
        for tensor in written:
            self._values.pop(tensor, None)
        value = self.value_of(sent) if sent is not None else None
        if value is not None:
            with _disable_current_modes():
                self.tell(written[0], from_each(func, args, kwargs, value))
        return out

    # --- what is known of a result

    def _learn(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        written = _written(func, args, kwargs)
        if written:
            if self._computed(func, args, kwargs) is _NOT_KNOWN:
                self._spoil(written)
            return
        outs, _ = tree_flatten(out)
        tensors = [each for each in outs if isinstance(each, Tensor)]
        if not tensors or not all(map(_is_small, tensors)) or func in _UNSET or _is_drawn(func):
            return
        if func in _FILLED:
            self._fill(tensors[0], _FILLED[func])
            return
        computed = self._computed(func, args, kwargs)
        if computed is not _NOT_KNOWN:
            values, _ = tree_flatten(computed)
            for fake, value in zip(outs, values, strict=True):
                if isinstance(fake, Tensor) and isinstance(value, Tensor):
                    self.tell(fake, value)
        elif func in _CHOICES:
            chosen = tensors[_CHOICES[func] if len(tensors) > 1 else 0]
            self._deal(chosen, args[0], _axis(func, args, kwargs))

    def _computed(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of `func` on values; `_NOT_KNOWN` where one is not known."""
        flat, spec = tree_flatten((args, dict(kwargs)))
        values = [self._real(each) for each in flat]
        if any(value is None and each is not None for each, value in zip(flat, values, strict=True)):
            return _NOT_KNOWN
        real_args, real_kwargs = torch.utils._pytree.tree_unflatten(values, spec)
        with _disable_current_modes():
            return func(*real_args, **real_kwargs)

    def _real(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if not isinstance(leaf, Tensor):
            return leaf
        if not torch._subclasses.fake_tensor.is_fake(leaf):
            return leaf
        return self.value_of(leaf)

    def _spoil(self, written: Sequence[Tensor]) -> None:
        for each in written:
            value = self._values.get(each)
            if value is not None:
                storage = value.untyped_storage()
                self._spoilt[storage._cdata] = storage

    def _fill(self, fake: Tensor, value: float) -> None:
        with _disable_current_modes():
            self.tell(fake, torch.full(fake.shape, value, dtype=fake.dtype))

    def _deal(self, chosen: Tensor, scores: Tensor, axis: int) -> None:
        """Choices in turn: of E the first k in the first row, the next k in the second, and so on."""
        with _disable_current_modes():
            if scores.dim() == 0 or chosen.numel() == 0:
                return self.tell(chosen, torch.zeros(chosen.shape, dtype=chosen.dtype))
            many = scores.shape[axis]
            if chosen.shape == scores.shape or many == 0:  # all of them: their order
                order = torch.arange(many).reshape(
                    [-1 if i == axis % scores.dim() else 1 for i in range(scores.dim())]
                )
                return self.tell(chosen, order.expand(chosen.shape).clone())
            keeps_axis = chosen.dim() == scores.dim()
            moved = torch.empty(chosen.shape, dtype=chosen.dtype)
            rows = moved.movedim(axis, -1) if keeps_axis else moved
            rows.copy_((torch.arange(rows.numel()) % many).reshape(rows.shape))
            self.tell(chosen, moved)


@contextmanager
def shapes_only(*modules: ModuleType, device: str = "cpu") -> Iterator[Known]:
    """A context in which tensors are made without memory, by `device`'s rules; gives what is known of them.

    In `modules` they pass for ordinary tensors where a type is asked for.
    """
    known = Known(device)
    with FakeTensorMode(allow_non_fake_inputs=True), known, taken_for_real(modules):
        yield known


def _product_of_groups(left: Tensor, right: Tensor, offsets: Tensor | None = None, *rest: Any) -> Tensor:
    """The shape that torch gives; its own rule for shapes knows bfloat16 alone."""
    groups = [] if left.dim() + right.dim() == 5 else [left.shape[0] if offsets is None else offsets.shape[0]]
    return left.new_empty([*groups, left.shape[-2], right.shape[-1]])


def _laid_out(given: Tensor) -> torch.memory_format:
    """The order of elements that most kernels of the CPU give a result."""
    if given.dim() == 4 and given.is_contiguous(memory_format=torch.channels_last) and not given.is_contiguous():
        return torch.channels_last
    return torch.contiguous_format


def _leaves(args: Any, kwargs: Any) -> list[Any]:
    return list(tree_flatten((args, kwargs))[0])


def _is_small(tensor: Tensor) -> bool:
    return bool(tensor.numel() <= (MOST_FLOATS if tensor.is_floating_point() else MOST_INTEGERS))


def _is_drawn(func: Any) -> bool:
    """Whether the values are random: a layer that is left out by chance is thought to be there."""
    return torch.Tag.nondeterministic_seeded in func.tags


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that `func` changes."""
    found: list[Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        found += [each for each in tree_flatten(value)[0] if isinstance(each, Tensor)]
    return found


def _axis(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    for position, argument in enumerate(func._schema.arguments):
        if argument.name == "dim":
            value = args[position] if position < len(args) else kwargs.get("dim", argument.default_value)
            return -1 if value is None else int(value)
    return -1


def _unknowable(what: str) -> PatchgenError:
    return PatchgenError(
        "PG821",
        called_from(),
        f"the forward {what}",
        "shapes alone do not say how much memory this takes: measure it with --measure --no-predict",
    )

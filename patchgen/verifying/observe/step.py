"""Run one training step in a scenario, and return everything that can be observed.

Also: the ways to call a model that change the model itself, and which tokens its outputs depend on.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, set_seed

from patchgen.facts.modules import CACHES
from patchgen.runtime.checkpointing import is_on, switch_off, switch_on
from patchgen.verifying.inputs.arguments import BOUNDARY, OF_ARGUMENTS, CannotBuild, Inputs, takes
from patchgen.verifying.observe.recorder import compute_in_float64
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.reached import note_step

SEED = 11  # of dropout
TRAINED_ONLY = ("reformer",)  # their reversible layers have a backward pass in training alone


def observe_step(
    model: PreTrainedModel,
    inputs: Inputs,
    scenario: Scenario,
    *,
    weights: bool = False,
    checkpointing: bool = True,
) -> dict[str, Tensor]:
    """Every floating output of `model` by path, and the gradient of every parameter, in `scenario`.

    Outputs per token are kept at real tokens.  Without a loss, the gradients are those of a fixed
    random sum of the outputs.  A parameter without a gradient has no entry.
    """
    model.train(scenario.train or model.config.model_type in TRAINED_ONLY)
    if is_on(model):
        switch_off(model)
    if checkpointing and scenario.checkpointing is not None:
        # Non-reentrant is transformers' default, which given options replace.
        switch_on(model, {"use_reentrant": False, **scenario.checkpointing})
    model.zero_grad(set_to_none=True)
    set_seed(SEED)  # of Python and numpy too: some models draw from them
    wide: AbstractContextManager[Any] = (
        compute_in_float64() if model.dtype == torch.float64 else nullcontext()
    )
    styles = apply_model_styles(model, scenario.ways)
    given = {name: tensor.clone() for name, tensor in inputs.given.items()}
    with wide, kept(model), styles:
        if scenario.accumulate > 1:
            observed = _accumulated(model, inputs, scenario)
        else:
            observed = _step(model, inputs, scenario, weights)
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        note_step(model, inputs.given, gradients)
    observed |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    for name, tensor in given.items():
        if not torch.equal(tensor, inputs.given[name]):
            observed[f"{name}, changed in place"] = inputs.given[name].double()
            inputs.given[name].copy_(tensor)
    return {name: tensor.detach().clone() for name, tensor in observed.items()}


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """A context after which weights, buffers, hooks, configurations and caches are as before."""
    modules = list(model.modules())
    attributes = [(vars(module), dict(vars(module))) for module in modules]
    tables = []
    for named, _ in attributes:
        for value in named.values():
            if isinstance(value, dict):
                tables.append((value, dict(value)))
    for module, (_, named) in zip(modules, attributes, strict=True):
        for name, value in named.items():
            if name != "config" and type(value).__module__ == type(module).__module__:
                named[name] = copy.deepcopy(value)
    tensors: list[Tensor] = [*model.parameters(), *model.buffers()]
    values = [(tensor, tensor.detach().clone()) for tensor in tensors]
    own = {id(config): config for each in modules if (config := getattr(each, "config", None))}
    configs = [(vars(config), copy.deepcopy(vars(config))) for config in own.values()]
    try:
        yield
    finally:
        for table, before in (*attributes, *tables):
            _refill(table, before)
        with torch.no_grad():
            for tensor, value in values:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for settings, before in configs:
            if settings != before:
                _refill(settings, before)


def _refill(table: dict[str, Any], values: dict[str, Any]) -> None:
    table.clear()
    table.update(values)


def _step(
    model: PreTrainedModel, inputs: Inputs, scenario: Scenario, weights: bool
) -> dict[str, Tensor]:
    found = dict(outputs(_forward(model, inputs, scenario, weights)))
    loss = found.get("loss")
    if loss is not None:
        loss.sum().backward()  # first: logits that nobody has read are part of what is checked
    with torch.set_grad_enabled(loss is None):
        observed = {n: _at_real_tokens(n, tensor, inputs.real) for n, tensor in found.items()}
    if loss is None:
        _random_sum(observed).backward()
    return observed


def _accumulated(model: PreTrainedModel, inputs: Inputs, scenario: Scenario) -> dict[str, Tensor]:
    """Micro-batches whose losses are of all labels, as `Trainer` makes them."""
    rows = len(next(iter(inputs.given.values())))
    is_labelled = inputs.given["labels"] != -100
    labelled = is_labelled.sum()
    total = torch.zeros((), device=labelled.device)
    step = math.ceil(rows / scenario.accumulate)
    for first in range(0, rows, step):
        part = inputs.rows(first, first + step)
        loss = _forward(model, part, scenario, False, num_items_in_batch=labelled).loss
        loss.backward()
        total = total + loss.detach()
    return {"loss": total}


def _forward(
    model: PreTrainedModel, inputs: Inputs, scenario: Scenario, weights: bool, **more: Any
) -> Any:
    asked: dict[str, Any] = {"return_dict": True, "output_hidden_states": scenario.states}
    if takes_cache(type(model)):
        asked["use_cache"] = False
    if weights and BY_CONFIGURATION not in scenario.ways:
        asked["output_attentions"] = True
    asked |= inputs.options
    parameters = inspect.signature(type(model).forward).parameters.values()
    if all(each.kind is not each.VAR_KEYWORD for each in parameters):
        asked = {each.name: asked[each.name] for each in parameters if each.name in asked}
    device = inputs.given[next(iter(inputs.given))].device.type
    with torch.autocast(device, scenario.autocast_to, enabled=scenario.autocast):
        try:
            return model(**inputs.given, **asked, **more)
        except ValueError as error:
            if "'output_hidden_states' option cannot be set" not in str(error):
                raise
            del asked["output_hidden_states"]  # a backbone from timm that gives its features alone
            return model(**inputs.given, **asked, **more)


def run(model: PreTrainedModel, given: Mapping[str, Any], **asked: Any) -> dict[str, Tensor]:
    """All outputs of a forward without gradients and without a cache, in eval mode."""
    if takes_cache(type(model)):
        asked = {"use_cache": False, **asked}
    with torch.no_grad(), compute_in_float64():
        out = model.eval()(**given, **{"return_dict": True, **asked})
    return dict(outputs(out))


def takes_cache(model_class: type[PreTrainedModel]) -> bool:
    return bool({"use_cache", *CACHES} & takes(model_class))


def outputs(out: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Each floating tensor of an output by its path, caches left out."""
    items = out.items() if isinstance(out, Mapping) else enumerate(out)
    for key, value in items:
        name = f"{prefix}{key}"
        if name in CACHES or value is None:
            continue
        if isinstance(value, Tensor):
            if value.dtype.is_floating_point:
                yield name, value
        elif isinstance(value, Mapping | tuple | list):
            yield from outputs(value, f"{name}.")


def _at_real_tokens(name: str, tensor: Tensor, real: tuple[Tensor, ...]) -> Tensor:
    for mask in real:
        if tensor.shape[:2] == mask.shape:
            return tensor[mask]
        # (rows, heads, queries, keys)
        if "attentions" in name and tensor.dim() == 4 and tensor.shape[:3:2] == mask.shape:
            return tensor.transpose(1, 2)[mask]
    return tensor


def _random_sum(observed: Mapping[str, Tensor]) -> Tensor:
    """A scalar for classes without a loss: it depends on every output that has a gradient."""
    terms = []
    for i, (name, tensor) in enumerate(sorted(observed.items())):
        if not tensor.requires_grad or "hidden_states." in name:
            continue
        draw = torch.Generator().manual_seed(i)
        factors = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
        weighted = tensor * factors.to(tensor)
        terms.append(weighted.mean())
    return torch.stack(terms).sum()


# --- ways to call a model that change it

FROZEN = "a frozen head"  # it does not learn, as under LoRA; nor do the embeddings that it shares
VECTORS = re.compile(r"bias$|norm", re.IGNORECASE)
# Which parameters alone learn, by their names in the model and in its base model.
LEARNING: Mapping[str, Callable[[str, bool], bool]] = {
    "a head alone that learns": lambda name, is_inner: not is_inner,
    "biases and norms alone that learn": lambda name, is_inner: bool(VECTORS.search(name)),
}
BY_CONFIGURATION = "weights by configuration"


def _halve(head: nn.Module, gradients: tuple[Tensor, ...], *_: Any) -> tuple[Tensor, ...]:
    return tuple(gradient / 2 for gradient in gradients)


# Hooks that change their inputs: it shows if a head is not called, or its hook is skipped.
_HOOKS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "a head with a hook": ("forward_hook", lambda head, given, logits: logits / 2),
    "a head with a hook before it": ("forward_pre_hook", lambda head, given: given[0] / 2),
    "a head with a hook at its gradient": ("full_backward_hook", _halve),
    "a head with a hook before its gradient": ("full_backward_pre_hook", _halve),
}
_HEADS = ("a wrapped head", "a head of another class", "a head with a bias", FROZEN, *_HOOKS)
OF_MODELS = frozenset({"a loss function of one's own", BY_CONFIGURATION, *LEARNING, *_HEADS})


class _HalvedLinear(nn.Linear):
    """A head with a forward of its own, as layers with quantized weights have."""

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(states) / 2


@contextmanager
def apply_model_styles(model: PreTrainedModel, ways: tuple[str, ...]) -> Iterator[None]:
    """A context in which `model` is changed by all of `ways` that change models."""
    with ExitStack() as stack:
        for way in ways:
            if way in OF_MODELS:
                stack.callback(_change(model, way))
            elif way not in OF_ARGUMENTS:
                raise KeyError(way)
        yield


def _change(model: PreTrainedModel, way: str) -> Callable[[], object]:
    """Change the model in this way; what is returned undoes it."""
    if way == BY_CONFIGURATION:
        return _set(model.config, "_output_attentions", True)
    if way in LEARNING:
        inner = set(map(id, model.base_model.parameters()))
        named = dict(model.named_parameters())
        frozen = [p for name, p in named.items() if not LEARNING[way](name, id(p) in inner)]
        if len(frozen) == len(named):
            raise CannotBuild("it has none")
        undo = [_set(each, "requires_grad", False) for each in frozen if each.requires_grad]
        return lambda: [back() for back in undo]
    if way not in _HEADS:  # a user's loss, which gets what the model's own gets
        loss = model.loss_function
        model.loss_function = lambda *args, **kwargs: loss(*args, **kwargs) / 3
        return partial(delattr, model, "_loss_function")
    head: Any = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise CannotBuild("it has no linear head of words")
    if way in _HOOKS:
        kind, hook = _HOOKS[way]
        return getattr(head, f"register_{kind}")(hook).remove
    if way == FROZEN:
        return _set(head.weight, "requires_grad", False)
    if way == "a head of another class":
        return _set(head, "__class__", _HalvedLinear)
    if way == "a wrapped head":  # as accelerate does: `forward` is an attribute of the instance
        forward = head.forward
        head.forward = lambda *args, **kwargs: forward(*args, **kwargs) / 2
        return partial(delattr, head, "forward")
    if head.bias is not None:
        raise CannotBuild("its head has a bias anyway")
    draw = torch.Generator().manual_seed(8)
    drawn = torch.randn(head.out_features, generator=draw, dtype=torch.float64)
    return _set(head, "bias", nn.Parameter(drawn.to(head.weight)))


def _set(owner: Any, name: str, value: Any) -> Callable[[], object]:
    was = getattr(owner, name)
    setattr(owner, name, value)
    return partial(setattr, owner, name, was)


# --- which tokens of a text outputs depend on


def is_causal(model: PreTrainedModel, full: Inputs) -> bool:
    return _is_independent(model, full, changed=-1, looked_at=slice(0, -1))


def isolates_packed_texts(model: PreTrainedModel, packed: Inputs) -> bool:
    """Neither of two texts in a row sees the other."""
    first = slice(0, BOUNDARY)
    second = slice(BOUNDARY, None)
    return _is_independent(model, packed, 0, second) and _is_independent(model, packed, -1, first)


def _is_independent(model: PreTrainedModel, inputs: Inputs, changed: int, looked_at: slice) -> bool:
    given = inputs.given
    if "input_ids" not in given or "MultipleChoice" in type(model).__name__:
        return False
    asked = {"output_hidden_states": True, "return_dict": True}
    if takes_cache(type(model)):
        asked["use_cache"] = False
    states: list[Tensor] = []
    with torch.no_grad():
        for shift in (0, 1):
            ids = given["input_ids"].clone()
            ids[:, changed] = (ids[:, changed] + shift - 3) % 90 + 3
            out = model.eval()(**{**given, "input_ids": ids}, **asked)
            hidden = getattr(out, "hidden_states", None)
            hidden = hidden or getattr(out, "encoder_hidden_states", None)
            if hidden:
                states.append(_of_text(hidden[-1]))
            else:
                # BLT's patcher gives a tuple, of which no entry has a name.
                of_tokens = (each for _, each in outputs(out) if each.shape[:2] == ids.shape)
                states.append(next(of_tokens))
    before, after = (state[:, looked_at] for state in states)
    # A masked term more or less changes a sum by rounding; a token that is seen moves it far more.
    return torch.allclose(before, after, rtol=1e-4, atol=1e-4)


def _of_text(states: Any) -> Tensor:
    """Layers that keep text and image apart give a pair, the text first."""
    while isinstance(states, tuple | list):
        states = states[0]
    return states

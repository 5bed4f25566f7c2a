"""Hold the model of a flat file against the patched one: equal weights and inputs, two processes.

The patched model writes what it computes, in its own process.  Then the flat file is loaded where
nothing is patched: `python -m patchgen.unpatching.equal FOLDER modeling_llama_patched.py`.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from patchgen.runtime.interpreter import complete_interpreter, is_interpreted
from patchgen.runtime.tiny import tiny_config
from patchgen.unpatching.capture import Difference, own_module
from patchgen.verifying.differences import differences as differences_of
from patchgen.verifying.differences import worst
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models.build import build_parent
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.part_check import Scenario

SCENARIOS = {"evaluation": Scenario(), "training": Scenario(train=True)}


def observe_patched(
    model: nn.Module, differences: Sequence[Difference], folder: Path
) -> dict[str, str]:
    """Write what tiny patched models compute, head by head; why those that are missing are."""
    if is_interpreted():
        complete_interpreter()
    module = sys.modules[own_module(model)]
    usual = next(base for base in type(model).__mro__ if base.__module__ == module.__name__)
    heads = []
    for value in map(vars(module).get, getattr(module, "__all__", ())):
        if isinstance(value, type) and issubclass(value, PreTrainedModel):
            if not value.__name__.endswith("PreTrainedModel"):
                heads.append(value)
    missing = {}
    with _as_built(model, differences):
        for head in dict.fromkeys([usual, *heads]):
            try:
                state = _observe(head, model, differences)
            except Exception as error:  # each model raises its own
                missing[head.__name__] = f"{type(error).__name__}: {error}".splitlines()[0]
                continue
            torch.save(state, folder / f"{head.__qualname__}.pt")
    return missing


@contextlib.contextmanager
def _as_built(model: nn.Module, differences: Sequence[Difference]) -> Iterator[None]:
    """The modules as they were when the model was built: without classes that came too late."""
    built = {
        (type(part).__module__, type(part).__qualname__): type(part) for part in model.modules()
    }
    late: list[Difference] = []
    for patch in differences:
        if patch.dead and (patch.module, patch.target) in built:
            late.append(patch)
            setattr(sys.modules[patch.module], patch.target, built[patch.module, patch.target])
    try:
        yield
    finally:
        for patch in late:
            setattr(sys.modules[patch.module], patch.target, patch.value)


def _observe(
    head: type[PreTrainedModel], model: nn.Module, differences: Sequence[Difference]
) -> dict[str, Any]:
    theirs: Any = model.config
    config = tiny_config(head.config_class, **_own_settings(theirs, head))
    if theirs._attn_implementation in ("eager", "sdpa"):
        config._attn_implementation = theirs._attn_implementation
    # A copy: a model writes into it which implementations it chose.
    tiny = build_parent(head, copy.deepcopy(config), torch.float32)
    for patch in differences:
        owner, _, key = patch.target.partition(".")
        if patch.why_not or patch.dead:
            continue
        for part in tiny.modules():
            if type(part).__qualname__ != owner:
                continue
            if patch.kind == "class" and issubclass(patch.value, type(part)):
                part.__class__ = patch.value
            elif patch.kind == "instance":
                part.__dict__[key] = MethodType(patch.value, part)
            elif patch.kind == "attribute" and key not in vars(type(part)):
                part.__dict__[key] = patch.value
    weights = {name: value.clone() for name, value in tiny.state_dict().items()}
    inputs = {key: make_inputs(head, config, scenario) for key, scenario in SCENARIOS.items()}
    observed = {key: observe_step(tiny, inputs[key], kind) for key, kind in SCENARIOS.items()}
    return {"config": config, "weights": weights, "inputs": inputs, "observed": observed}


def _own_settings(config: Any, head: type[PreTrainedModel]) -> dict[str, Any]:
    """The plain settings that a configuration of the head's class has, and usually has not."""
    if head.config_class is not type(config):
        return {}
    usual = type(config)().to_dict()
    added = {}
    for name, value in config.to_dict().items():
        if name not in usual and isinstance(value, int | float | str):
            added[name] = value
    return added


def compare_flat(folder: Path, flat: Path) -> dict[str, dict[str, Any]]:
    """For each head that was observed: the largest relative difference, or what is in the way."""
    if is_interpreted():
        complete_interpreter()
    spec = importlib.util.spec_from_file_location(flat.stem, flat)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[flat.stem] = module
    spec.loader.exec_module(module)
    results: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.pt")):
        state = torch.load(path, weights_only=False)
        try:
            model = getattr(module, path.stem)(state["config"]).eval()
            model.load_state_dict(state["weights"])
            differing = []
            for key, theirs in state["observed"].items():
                ours = observe_step(model, state["inputs"][key], SCENARIOS[key])
                differing.append(differences_of(theirs, ours))
        except Exception as error:  # each model raises its own
            results[path.stem] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
            continue
        first = max(chain.from_iterable(differing), key=lambda d: d.largest)
        results[path.stem] = {"largest": max(map(worst, differing)), "where": first.name}
    return results


if __name__ == "__main__":
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        results = compare_flat(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps(results))

"""Blocks of every model, taken by Llama: are they initialised as their own model does it?

Each module of a tiny model is initialised anew by its model's `_init_weights`, by that of the flat file that takes it,
and by transformers' general one.  Where the first and the last differ, the flat file has to do as the model does.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment
from patchgen.verify.oracle.judge import imported
from tests.population.models import Model

TEXT = """
from transformers.models.llama import modeling_llama as hf
from {module} import {block}


class LlamaDecoderLayer(hf.LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.taken = {block}({arguments})
"""


def find_blocks(model: Model) -> Iterator[tuple[Any, nn.Module]]:
    """A module of each class of a model's file that its `_init_weights` treats in a way of its own, with its model."""
    head = getattr(importlib.import_module(model.module), model.head)
    torch.manual_seed(0)
    made = head._from_config(tiny_config(head.config_class))
    seen = set()
    owner: dict[str, Any] = {}
    for place, module in made.named_modules():
        above = place.rpartition(".")[0]
        owner[place] = (
            module if isinstance(module, PreTrainedModel) else owner[above] if place else made
        )
        kind = type(module)
        if kind in seen or kind.__module__ != model.module or isinstance(module, PreTrainedModel):
            continue
        seen.add(kind)
        if initialise(owner[place], type(owner[place]), module) != initialise(
            owner[place], PreTrainedModel, module
        ):
            yield owner[place], module


def initialise(model: Any, kind: Any, module: nn.Module) -> list[tuple[str, str]]:
    """What `_init_weights` of a class makes of a module, as text; the module alone, without those within it."""
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.fill_(7.0)
            tensor.__dict__.pop("_is_hf_initialized", None)
        torch.manual_seed(1)
        try:
            kind._init_weights(model, module)
        except Exception as error:
            return [("error", repr(error)[:100])]
    return [(name, str(tensor.sum().item())) for name, tensor in module.named_parameters()]


def judge_blocks(model: Model, folder: Path) -> dict[str, str]:
    """By class: equal, told (by a note or a warning), refused, or how it is wrong."""
    results = {}
    for number, (owner, module) in enumerate(find_blocks(model)):
        name = type(module).__name__
        required = [
            p
            for p in inspect.signature(type(module)).parameters.values()
            if p.default is p.empty and p.kind < 2
        ]
        arguments = ", ".join("config" if "config" in p.name else "4" for p in required)
        path = folder / f"modular_llama_{model.name}{number}.py"
        path.write_text(TEXT.format(module=model.module, block=name, arguments=arguments))
        result = flatten(path, make_environment(folder), Settings())
        if result.problems:
            results[name] = f"refused: {result.problems[0]}"
            continue
        (file,) = result.files
        said = " ".join(map(str, [*file.notes, *file.warnings]))
        with imported({file.name: file.text}) as modules:
            assert not isinstance(modules, str), modules
            pretrained = modules[file.name].LlamaPreTrainedModel
        made = pretrained.__new__(pretrained)
        nn.Module.__init__(made)
        made.config = owner.config
        wanted = initialise(owner, type(owner), module)
        given = initialise(made, pretrained, module)
        is_told = "cannot be written here" in said or bool(re.search(r"PG421", said))
        results[name] = (
            "equal" if wanted == given else "told" if is_told else f"wrong: {wanted} {given}"
        )
    return results

"""Which weights nothing fills, told by NaN: memory that `from_pretrained` reserves holds it.

Each file adds tensors of all kinds to a class of a model.  The checkpoint of the parent is loaded
into what is converted from it, by transformers' own `from_pretrained`; what is still NaN has to be
what PG421 names, and the other way round.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.errors import Problem
from patchgen.syntax.locate import make_environment
from patchgen.verifying.oracle.judge import imported
from tests.population.models import Model, arguments_of

# What `__init__` adds, one line each; `Own` is a module of the file.
ADDED = """
self.own = Own()
self.deep = nn.ModuleList([Own() for _ in range(2)])
self.register_parameter("registered", nn.Parameter(torch.ones(2)))
self.register_parameter("nothing", None)
self.listed = nn.ParameterList([nn.Parameter(torch.zeros(2)) for _ in range(2)])
self.grown = nn.ParameterList(); self.grown.append(torch.zeros(2))
self.named = nn.ParameterDict({"a": nn.Parameter(torch.zeros(2)), "b": nn.Parameter(torch.ones(2))})
local = nn.Parameter(torch.ones(3)); self.scale = local
self.first, self.second = nn.Parameter(torch.ones(1)), nn.Linear(2, 2)
setattr(self, "by_name", nn.Parameter(torch.ones(1)))
[setattr(self, f"numbered_{i}", nn.Parameter(torch.ones(1))) for i in range(2)]
self.register_buffer("kept", torch.ones(2))
self.register_buffer("unkept", torch.ones(2), persistent=False)
self.register_buffer("none", None, persistent=False)
table = torch.arange(4.0); self.register_buffer("table", table, False)
self.linear = nn.Linear(2, 2)
self.unbiased = nn.Linear(2, 2, bias=False)
self.norm = nn.LayerNorm(2)
self.rms = nn.RMSNorm(2)
self.embedding = nn.Embedding(2, 2)
self.conv = nn.Conv1d(2, 2, 1)
self.deconv = nn.ConvTranspose3d(2, 2, 1)
self.batch = nn.BatchNorm1d(2)
self.lstm = nn.LSTM(2, 2)
self.gru = nn.GRU(2, 2)
self.attention_of_torch = nn.MultiheadAttention(2, 1)
self.prelu = nn.PReLU()
self.normed = nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 1))
self.normed_as_before = nn.utils.weight_norm(nn.Conv1d(2, 2, 1))
self.rows = nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.PReLU())
self.own_norm = OwnRMSNorm()
self.rotary_of_own = OwnRotaryEmbedding()
self.inherited = OwnLinear(2, 2)
self.built = build(2)
self.maybe = nn.Parameter(torch.ones(1)) if config_like else None
self.filled = Filled()
self.filled_by_name = FilledByName()
self.filled_in_loop = FilledInLoop()
self.half_filled = HalfFilled()
self.filled_by_path = FilledByPath()
""".strip().split("\n")

OWN = """
config_like = True


def build(size):
    layer = nn.Bilinear(size, size, size)
    return layer


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2))


class OwnRMSNorm(Own):
    pass


class OwnLinear(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.extra = nn.Parameter(torch.zeros(1))


class OwnRotaryEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", torch.ones(2), persistent=False)


class Filled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(2))
        self.register_buffer("steps", torch.arange(3.0), persistent=False)


class FilledByName(Filled):
    pass


class FilledInLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.zeros(2))
        self.b = nn.Parameter(torch.zeros(2))
        self.inner = nn.ModuleList([nn.PReLU() for _ in range(2)])


class HalfFilled(FilledInLoop):
    def __init__(self):
        super().__init__()
        self.left = nn.Parameter(torch.zeros(2))


class FilledByPath(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.PReLU()])
        for name in ("0", "1"):
            self.add_module(name, nn.PReLU())
"""

FILLING = """
    @torch.no_grad()
    def _init_weights(self, module):
        {first}
        std = getattr(self.config, "initializer_range", 0.02)
        if isinstance(module, FilledInLoop):
            for name, parameter in module.named_parameters():
                if name != "left" and "inner" not in name:
                    nn.init.normal_(parameter, std=std)
            for layer in module.inner:
                layer.reset_parameters() if False else nn.init.ones_(layer.weight)
        elif isinstance(module, Filled):
            for name in ("gate",):
                nn.init.zeros_(getattr(module, name))
            steps = torch.arange(3.0)
            init.copy_(module.steps, steps)
        elif isinstance(module, FilledByPath):
            init.ones_(module.get_submodule("0").weight)
            init.ones_(module.get_parameter("layers.0.weight"))
"""

RESERVED = 77  # in place of NaN, where there is none


@dataclass
class Told:
    """What a file leaves unset, as (class, place), by NaN and by PG421."""

    by_nan: set[tuple[str, str]]
    by_warning: set[tuple[str, str]]
    why: str = ""  # nothing was compared

    @property
    def missed(self) -> list[tuple[str, str]]:
        return sorted(
            nan for nan in self.by_nan if not any(map(partial(_fits, nan), self.by_warning))
        )

    @property
    def wrong(self) -> list[tuple[str, str]]:
        return sorted(w for w in self.by_warning if not any(_fits(nan, w) for nan in self.by_nan))


def _fits(nan: tuple[str, str], warning: tuple[str, str]) -> bool:
    """Whether a warning about a class is about a tensor of it, or of a subclass."""
    return warning[0] in nan[0].split() and fnmatchcase(nan[1], warning[1])


def write_file(model: Model, owner: str, lines: list[str], first: str = "") -> str:
    """A modular file in which the class `owner` makes more; `first` begins an `_init_weights`."""
    init = model.method(owner, "__init__")
    text = f"from transformers.models.{model.path.parent.name} import modeling_{model.name} as hf\n\n{OWN}\n\n"
    text += f"class {owner}(hf.{owner}):\n    def __init__({model.signature(init)}):\n"
    body = [f"super().__init__({arguments_of(init)})", *lines]
    names = {
        name
        for name in model.imports.keys() - {"torch", "nn", "init"}
        if re.search(rf"\b{name}\b", text)
    }
    above = {model.imports[name] for name in names} - {""}
    above |= {
        "import torch",
        "from torch import nn",
        "from transformers import initialization as init",
    }
    text += "".join(f"        {line}\n" for line in body)
    if first:
        text += f"\n\nclass {model.pretrained}(hf.{model.pretrained}):{FILLING.format(first=first)}"
    return "\n".join(sorted(above)) + "\n" + text


def find_classes(model: Model) -> list[str]:
    """The classes of the modules of a head that are no models, the one in the middle first."""
    parent = importlib.import_module(model.module)
    head = getattr(parent, model.head)
    config = tiny_config(head.config_class)
    with torch.device("meta"):
        made = head._from_config(config)
    names = {}
    for module in made.modules():
        kind = type(module)
        is_model = hasattr(module, "_init_weights")
        if kind.__module__ == model.module and kind.__name__ in model.classes and not is_model:
            names[kind.__name__] = None
    found = list(names)
    return found[len(found) // 2 :] + found[: len(found) // 2]


def judge(model: Model, name: str, text: str, folder: Path) -> Told:
    """Convert a file, load the checkpoint of the parent, and look for what nothing filled."""
    path = folder / f"modular_{model.name}_{name}.py"
    path.write_text(text)
    result = flatten(path, make_environment(folder), Settings())
    if result.problems:
        return Told(set(), set(), " | ".join(map(str, result.problems)))
    warnings = [warning for file in result.files for warning in file.warnings]
    (file,) = [file for file in result.files if file.kind == "modeling"]
    theirs = importlib.import_module(model.module)
    with imported({file.name: file.text}) as modules:
        assert not isinstance(modules, str), modules
        by_nan = find_nan(model, modules[file.name], theirs) - find_nan(model, theirs, theirs)
    return Told(by_nan, _read(warnings))


def _read(warnings: list[Problem]) -> set[tuple[str, str]]:
    told = set()
    for warning in warnings:
        if warning.code == "PG421":
            (named,) = re.findall(r"^(.*?) (?:is|are) in no ", warning.what)
            owner, _, places = named.partition(".")
            told |= {(owner, _without_numbers(place)) for place in re.split(", | and ", places)}
    return told


def find_nan(model: Model, ours: ModuleType, theirs: ModuleType) -> set[tuple[str, str]]:
    """The tensors of the head of `ours` that are NaN after the checkpoint of `theirs` is loaded."""
    kind = getattr(theirs, model.head)
    config = tiny_config(kind.config_class)
    torch.manual_seed(0)
    state = kind._from_config(config).state_dict()
    state = {name: torch.ones_like(value) for name, value in state.items()}
    reserve = torch.empty_like

    def reserve_nan(tensor: torch.Tensor, **options: Any) -> torch.Tensor:
        made = reserve(tensor, **options)
        if made.device.type == "meta":
            return made
        return made.fill_(float("nan") if made.is_floating_point() else RESERVED)

    with patch.object(torch, "empty_like", reserve_nan), torch.no_grad():
        flat = getattr(ours, model.head).from_pretrained(None, config=config, state_dict=state)
    found = set()
    for name, tensor in [*flat.named_parameters(), *flat.named_buffers()]:
        unset = tensor.isnan() if tensor.is_floating_point() else tensor == RESERVED
        if tensor.dtype != torch.bool and unset.any():
            found.add(_place(flat, name))
    return found


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+|\[\]", "*", name)


def _place(root: nn.Module, name: str) -> tuple[str, str]:
    """The innermost class of a model's file that has a tensor, and the way from it."""
    steps = name.split(".")
    for count in range(len(steps) - 1, -1, -1):
        owner = root.get_submodule(".".join(steps[:count]))
        if type(owner).__module__.startswith(("flat_", "transformers.models.")):
            names = " ".join(kind.__name__ for kind in type(owner).__mro__)
            return names, _without_numbers(".".join(steps[count:]))
    return "", name


# By the name of a file, how its `_init_weights` begins; "" where it has none.
FIRSTS = {"plain": "", "filling": "super()._init_weights(module)", "anew": "pass"}


def judge_model(model: Model, folder: Path) -> dict[str, Told]:
    """What the files of one model leave unset, by their names; the first class takes all that is added."""
    owner = find_classes(model)[0]
    return {
        name: judge(model, name, write_file(model, owner, ADDED, first), folder)
        for name, first in FIRSTS.items()
    }

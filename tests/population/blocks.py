"""Blocks of every model, taken by another: are they initialised as their own model does it?

A block is a module of a tiny model with all within it.  It is initialised anew by its own model, the inner modules
first as transformers does, and by the flat file that takes it: both have to fill each tensor with the same.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment
from patchgen.verifying.oracle.judge import imported
from tests.population.models import Model, find_models

LAYER = """

class {prefix}DecoderLayer(hf.LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.taken = {taken}({arguments})
"""
IMPORT = (
    "from transformers.models.llama import modeling_llama as hf\nfrom {module} import {block}\n"
)
# How Llama takes a block: as it stands, as a class of its own, and in a new model.
FORMS = {
    "taken": IMPORT + LAYER,
    "subclass": IMPORT + "\n\nclass LlamaTaken({block}):\n    pass\n" + LAYER,
    "new": IMPORT
    + "from transformers.models.llama import configuration_llama as cf\n"
    + '\n\nclass TinyConfig(cf.LlamaConfig):\n    model_type = "tiny"\n'
    + LAYER
    + "\n\nclass TinyModel(hf.LlamaModel):\n    pass\n",
}
# What each model takes: the file, the class and its arguments.
GIVEN = (
    ("qwen3", "Qwen3RMSNorm", "4"),
    ("llama", "LlamaMLP", "config"),
    ("mixtral", "MixtralSparseMoeBlock", "config"),
    ("bert", "BertEmbeddings", "config"),
    ("siglip", "SiglipMLP", "config"),
)
HEAD = """
from {own} import {head} as Parent


class {head}(Parent):
    def __init__(self, config):
        super().__init__(config)
"""


UNTOUCHED = "untouched"


@lru_cache(8)  # models take memory
def build(model: Model) -> Any:
    """A tiny model of a file: of its head, or of the first class for which the tiny sizes fit."""
    module = importlib.import_module(model.module)
    refusals = []
    for name in dict.fromkeys([model.head, model.base, *model.public]):
        head = getattr(module, name, None)
        if inspect.isclass(head) and issubclass(head, PreTrainedModel):
            torch.manual_seed(0)
            try:
                return head._from_config(tiny_config(head.config_class))
            except Exception as error:  # tiny sizes do not fit every model
                refusals.append(error)
    raise refusals[0]


def find_blocks(model: Model) -> Iterator[tuple[Any, nn.Module]]:
    """A module of each class of a file in which its model treats something in a way of its own, with this model."""
    made = build(model)
    seen = set()
    owners: dict[str, Any] = {"": made}
    for place, module in made.named_modules():
        owner = owners[place.rpartition(".")[0]]
        owners[place] = owner = module if isinstance(module, PreTrainedModel) else owner
        kind = type(module)
        if kind in seen or kind.__module__ != model.module or isinstance(module, PreTrainedModel):
            continue
        seen.add(kind)
        # What is below a class of the file is told of this class too.
        others = [each for each in module.children() if type(each).__module__ != model.module]
        own = fill(owner, type(owner), module, [*others, module])
        if own != fill(owner, PreTrainedModel, module, [*others, module]):
            yield owner, module


def list_inside(module: nn.Module) -> list[nn.Module]:
    """A block and what is in it but for other models, the innermost first."""
    below = [
        each
        for child in module.children()
        if not isinstance(child, PreTrainedModel)
        for each in list_inside(child)
    ]
    return [*below, module]


def fill(model: Any, kind: Any, block: nn.Module, inside: list[nn.Module]) -> dict[str, str]:
    """What `_init_weights` of a class makes of the tensors of a block."""
    with torch.no_grad():
        for tensor in block.parameters():
            tensor.fill_(7.0)
            tensor.__dict__.pop("_is_hf_initialized", None)
        try:
            for module in inside:
                torch.manual_seed(1)
                kind._init_weights(model, module)
        except Exception as error:
            return {"error": repr(error)[:100]}
    return {
        name: UNTOUCHED if bool((tensor == 7.0).all()) else str(tensor.sum().item())
        for name, tensor in block.named_parameters()
    }


def judge_blocks(model: Model, folder: Path) -> dict[str, str]:
    """How Llama initialises the blocks of a model, each taken in another form."""
    results = {}
    forms = cycle(FORMS.items())
    for owner, block in find_blocks(model):
        form, text = next(forms)
        name, prefix = type(block).__name__, "Tiny" if form == "new" else "Llama"
        required = [
            p
            for p in inspect.signature(type(block)).parameters.values()
            if p.default is p.empty and p.kind < 2
        ]
        written = text.format(
            module=model.module,
            block=name,
            arguments=", ".join("config" if "config" in p.name else "4" for p in required),
            prefix=prefix,
            taken="LlamaTaken" if form == "subclass" else name,
        )
        path = folder / f"modular_{prefix.lower()}_{model.name}{len(results)}.py"
        path.write_text(written)
        (found,) = judge(path, f"{prefix}PreTrainedModel", tiny_config("llama"), [(owner, block)])
        results[f"{name} {form}"] = found
    return results


def judge_receiver(model: Model, folder: Path) -> dict[str, str]:
    """How a model initialises a few blocks of others."""
    made = build(model)
    head = type(made).__name__
    written = HEAD.format(own=model.module, head=head)
    taken = []
    for number, (name, kind, argument) in enumerate(GIVEN):
        (giver,) = [each for each in find_models() if each.name == name]
        written = f"from {giver.module} import {kind}\n{written}"
        written += f"        self.taken_{number} = {kind}({argument})\n"
        owner = build(giver)
        blocks = [each for each in owner.modules() if type(each).__name__ == kind]
        taken.append((owner, blocks[0]))
    path = folder / f"modular_{model.name}_taking.py"
    path.write_text(written)
    results = judge(path, head, made.config, taken, made)
    return dict(zip([kind for _, kind, _ in GIVEN], results, strict=True))


def judge(
    path: Path, name: str, config: Any, taken: list[tuple[Any, nn.Module]], parent: Any = None
) -> Iterator[str]:
    """Of each block: equal, told (by a note or a warning), refused, raises as `parent`, or how it is wrong.

    `taken` has the blocks with their models; the class `name` of the flat file initialises them, as
    a model of `config`.
    """
    result = flatten(path, make_environment(path.parent), Settings())
    if result.problems:
        yield from [f"refused: {result.problems[0]}"] * len(taken)
        return
    (file,) = [each for each in result.files if each.name.startswith("modeling")]
    with imported({each.name: each.text for each in result.files}) as modules:
        assert not isinstance(modules, str), modules
        flat = modules[file.name]
    said = [str(each) for each in [*file.notes, *file.warnings]]
    for owner, block in taken:
        wanted = fill(owner, type(owner), block, list_inside(block))
        given = fill_flat(block, flat, getattr(flat, name), owner.config, config)
        module = type(block).__module__
        is_noted = any(f"of {module} are initialised as" in each for each in said)
        is_named = any("PG421" in each for each in said)
        wrong = {each: value for each, value in given.items() if value != wanted.get(each)}
        if given == wanted:
            yield "equal"
        elif is_noted or (is_named and {*wrong.values()} == {UNTOUCHED}):
            yield "told"
        # xLSTM's own method asks each model with an embedding for `self.embeddings`.
        elif parent and given == fill(parent, type(parent), block, list_inside(block)):
            yield "raises" if "error" in given else "wrong: as the parent does it"
        else:
            yield f"wrong: {wrong} {[wanted.get(each) for each in wrong]}"


def fill_flat(block: nn.Module, flat: Any, kind: Any, theirs: Any, config: Any) -> dict[str, str]:
    """What a model of a flat file makes of the tensors of a block, with what its configuration lets it know."""
    copied = copy.deepcopy(block)
    own = {name: each for name, each in vars(flat).items() if inspect.isclass(each)}
    if "LlamaTaken" in own:
        own[type(block).__name__] = own["LlamaTaken"]
    for module in copied.modules():
        module.__class__ = own.get(type(module).__name__, type(module))
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    made.config = copy.deepcopy(config)
    # The sizes of a tiny model, and the spread of its weights, are no difference.
    # The configurations of parts stay: they have other fields.
    sizes = {k: v for k, v in vars(theirs).items() if not isinstance(v, PreTrainedConfig)}
    vars(made.config).update({k: v for k, v in sizes.items() if hasattr(config, k)})
    return fill(made, kind, copied, list_inside(copied))

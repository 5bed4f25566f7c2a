"""Models with an `_init_weights` of their own start as the parent does, keep what they load, and are named.

GPT-2 scales layers from the module that holds them, T5 initialises whole layers by their class, and
CLIP by the factor of a configuration: all in modules without parameters of their own.
"""

import importlib.util
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment

MODELS = [
    ("gpt2", "GPT2", "LMHeadModel"),
    ("t5", "T5", "ForConditionalGeneration"),
    ("clip", "CLIP", "Model"),
]
MODULAR = """
import torch
from torch import nn

from transformers.models.{model} import modeling_{model} as hf


class {prefix}PreTrainedModel(hf.{parent}PreTrainedModel):
    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.constant_(module.bias, 0.25)


class {prefix}{model_class}(hf.{parent}{model_class}):
    pass
"""

# transformers prints that `strange` is not documented.
UNDOCUMENTED = """
from transformers.utils import auto_docstring


class SoloScorer(SoloPreTrainedModel):
    @auto_docstring
    def forward(self, input_ids=None, strange: int = 3):
        return self.transformer(input_ids)
"""


def converted(model, parent, model_class, prefix, folder, more=""):
    """The module that a modular file with an `_init_weights` gives, imported."""
    path = folder / f"modular_{prefix.lower()}.py"
    path.write_text(
        MODULAR.format(model=model, parent=parent, model_class=model_class, prefix=prefix) + more
    )
    result = flatten(path, make_environment(folder), Settings())
    assert not result.problems, "\n".join(map(str, result.problems))
    (file,) = result.files
    output = folder / file.name
    output.write_text(file.text)
    spec = importlib.util.spec_from_file_location(output.stem, output)
    module = importlib.util.module_from_spec(spec)
    sys.modules[output.stem] = module  # decorators look classes up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=MODELS, ids=lambda case: case[0])
def pair(request, tmp_path):
    """The class of transformers and that of its variant."""
    model, parent, model_class = request.param
    theirs = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    ours = converted(model, parent, model_class, parent, tmp_path)
    return getattr(theirs, parent + model_class), getattr(ours, parent + model_class)


def test_only_what_the_variant_initialises_starts_otherwise(pair):
    config = tiny_config(pair[0].config_class)
    states = []
    for model_class in pair:
        torch.manual_seed(0)
        states.append(model_class(config).state_dict())
    theirs, ours = states
    assert theirs.keys() == ours.keys()
    changed = {name for name in theirs if not torch.equal(theirs[name], ours[name])}
    assert all(name.endswith("bias") and ours[name].eq(0.25).all() for name in changed)


def test_loaded_weights_stay(pair, tmp_path):
    theirs = pair[0](tiny_config(pair[0].config_class))
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    theirs.save_pretrained(tmp_path)
    ours = pair[1].from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in theirs.state_dict().items())


def test_a_new_model_is_documented_by_its_name_and_prints_nothing(tmp_path, capsys):
    module = converted("gpt2", "GPT2", "LMHeadModel", "Solo", tmp_path, UNDOCUMENTED)
    assert capsys.readouterr().out == ""
    assert "SoloLMHeadModel" in module.SoloLMHeadModel.forward.__doc__
    assert "bare Solo Model" in module.SoloModel.__doc__
    assert "([`GPT2Config`])" in module.SoloModel.forward.__doc__

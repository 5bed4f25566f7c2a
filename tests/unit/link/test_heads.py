"""Which models a model of models builds: those of the flat file, or what AutoModel knows."""

import sys

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.toytree import Tree

TABLE = """class AutoModel:
    pass


MODEL_MAPPING_NAMES = OrderedDict([("toy", "ToyModel"), ("toy_text", "ToyTextModel")])
"""
CONFIGURATION = """class ToyTextConfig:
    model_type = "toy_text"


class ToyConfig:
    model_type = "toy"
    {table}
"""
PARENT = """from transformers.models.auto import AutoModel
from transformers.models.toy.configuration_toy import ToyConfig


class ToyNorm:
    def f(self):
        return 1


class ToyTextModel:
    def __init__(self, config):
        self.norm = ToyNorm()


class ToyModel:
    def __init__(self, config: ToyConfig):
        self.text = {call}{more}


__all__ = ["ToyModel", "ToyTextModel"]
"""
VARIANT = """from transformers.models.toy import modeling_toy as toy


class {changed}(toy.{changed}):
    def f(self):
        return 2
"""
FIXED = 'sub_configs_defaults = {"text_config": ToyTextConfig}'
CALL = "AutoModel.from_config(config.text_config)"
OWN = "ToyTextModel._from_config(config.text_config)"


def built(tmp_path, table=FIXED, call=CALL, more="", changed="ToyNorm", ending=""):
    """What the flat model builds, with the imports and the notes of the file."""
    tree = Tree(tmp_path)
    for name in ("", "models", "models/toy"):
        tree.write(f"transformers/{name}/__init__.py", "")
    tree.write("transformers/models/auto/__init__.py", "from .modeling_auto import AutoModel\n")
    tree.write("transformers/models/auto/modeling_auto.py", TABLE)
    toy = "transformers/models/toy"
    tree.write(f"{toy}/configuration_toy.py", CONFIGURATION.format(table=table))
    tree.write(f"{toy}/modeling_toy.py", PARENT.format(call=call, more=more))
    path = tree.write("modular_toy_x.py", VARIANT.format(changed=changed) + ending)
    result = flatten(path, make_environment(tmp_path, search=[]), Settings())
    assert result.problems == ()
    (file,) = [file for file in result.files if file.kind == "modeling"]
    value = file.text.partition("self.text = ")[2].splitlines()[0]
    imported = "import AutoModel\n" in file.text
    return value, imported, any("AutoModel" in note.what for note in file.notes)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="a model behind a changed class"),
        pytest.param({"changed": "ToyTextModel"}, id="a changed model"),
        pytest.param({"table": f"sub_configs{FIXED[20:]}"}, id="as older releases write it"),
        pytest.param(
            {"table": FIXED.replace("ToyTextConfig", "Spec(config_class=ToyTextConfig)")},
            id="with defaults",
        ),
    ],
)
def test_the_file_builds_its_own_model(given, tmp_path):
    assert built(tmp_path, **given) == (OWN, False, False)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"table": FIXED.replace("ToyTextConfig", "AutoConfig")}, id="of any type"),
        pytest.param({"table": ""}, id="nothing said"),
        pytest.param(
            {
                "table": FIXED
                + '\n\n\nclass OtherConfig:\n    sub_configs = {"text_config": ToyConfig}'
            },
            id="two classes for one part",
        ),
        pytest.param(
            {"table": FIXED.replace("ToyTextConfig", "ImportedConfig")}, id="of another model"
        ),
        pytest.param({"call": CALL.replace("config.text", "self.config.text")}, id="not the given"),
        pytest.param({"call": CALL.replace("from_config", "from_pretrained")}, id="loaded"),
    ],
)
def test_auto_model_stays(given, tmp_path):
    call = given.get("call", CALL)
    assert built(tmp_path, **given) == (call, True, True)


def test_auto_model_is_right_where_the_model_is_the_parents(tmp_path):
    value, imported, _ = built(tmp_path, changed="ToyModel")
    assert (value, imported) == (CALL, True)


def test_more_arguments_are_passed_on(tmp_path):
    value, _, _ = built(tmp_path, call=CALL.replace(")", ", dtype=None)"))
    assert value == OWN.replace(")", ", dtype=None)")


def test_a_part_of_any_type_is_of_the_file_where_it_has_its_usual_type(tmp_path):
    table = FIXED.replace("ToyTextConfig", 'Spec(config_class=AutoConfig, model_type="toy_text")')
    value, imported, noted = built(tmp_path, table=table)
    assert (value, imported, noted) == ("(", True, False)


def test_auto_model_knows_no_configuration_of_its_own(tmp_path):
    own = (
        "\n\nfrom transformers.models.toy import configuration_toy\n\n\n"
        'class ToyConfig(configuration_toy.ToyConfig):\n    model_type = "toy_x"\n'
    )
    assert built(tmp_path, changed="ToyModel", ending=own) == (OWN, False, False)


@pytest.mark.parametrize("model", ["", "class TinyModel(hf.LlamaModel): ...\n"])
def test_a_new_head_brings_its_base_model(model, tmp_path):
    pytest.importorskip("transformers")
    text = "from transformers.models.llama import modeling_llama as hf\n"
    norm = "class TinyRMSNorm(hf.LlamaRMSNorm): ...\n"
    head = "class TinyForTokenClassification(hf.LlamaForTokenClassification): ...\n"
    path = Tree(tmp_path).write("modular_tiny.py", text + norm + model + head)
    (file,) = flatten(path, make_environment(tmp_path, search=sys.path), Settings()).files
    assert "TinyModel._from_config(config)" in file.text
    assert "self.norm = TinyRMSNorm(" in file.text
    assert not any("AutoModel" in note.what for note in file.notes)


@pytest.mark.parametrize("has_configuration", [True, False])
def test_a_part_that_auto_model_cannot_build_is_refused(has_configuration, tmp_path):
    """Gemma 3n's vision model is transformers' wrapper of timm, whatever its configuration."""
    pytest.importorskip("transformers")
    text = (
        "from transformers.models.gemma3n import configuration_gemma3n as cf\n"
        "from transformers.models.gemma3n import modeling_gemma3n as hf\n"
        "class TinyForConditionalGeneration(hf.Gemma3nForConditionalGeneration): ...\n"
    )
    if has_configuration:
        text += 'class TinyConfig(cf.Gemma3nConfig):\n    model_type = "tiny"\n'
    path = Tree(tmp_path).write("modular_tiny.py", text)
    problems = flatten(path, make_environment(tmp_path, search=sys.path), Settings()).problems
    assert [problem.code for problem in problems] == ["PG416"] * has_configuration


def test_a_kernel_of_a_replaced_function_is_dropped_with_a_note(tmp_path):
    pytest.importorskip("transformers")
    path = Tree(tmp_path).write(
        "modular_llama_x.py",
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):\n    return q, k\n\n\n"
        "class LlamaMLP(llama.LlamaMLP):\n    def forward(self, x):\n        return 2 * x\n",
    )
    (file,) = flatten(path, make_environment(tmp_path, search=sys.path), Settings()).files
    assert "use_kernelized_func" not in file.text
    assert any("use_kernelized_func" in note.what for note in file.notes), file.notes

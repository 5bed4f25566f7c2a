"""The plans of fused layers: those that `patchgen new` writes out, and those that a mixin makes.

They are compared in every class of a model, on the meta device.
"""

import importlib
import importlib.util
import re
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.anatomy.module import every_module
from patchgen.author.declare.request import answer
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.parts import fused
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import make_environment
from patchgen.verify.checks.state import on_meta
from patchgen.verify.configs.tiny import tiny_config
from patchgen.verify.plans.plans import compared
from tests.corpus.corpus import find_package

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_package() is None, reason="needs the release of the lock"),
]

WRITTEN_AT_LEAST = 42  # models whose plan is written out


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A function that gives each class of a modular file, and its parent, on the meta device."""
    (tmp_path / "pyproject.toml").write_text('[tool.patchgen]\nsources = ["."]\n')

    def build(text):
        path = tmp_path / "modular_x.py"
        path.write_text(text, encoding="utf-8")
        flat = flatten(path, make_environment(tmp_path), Settings())
        assert not flat.problems
        [file] = flat.files
        (tmp_path / file.name).write_text(file.text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("written_plan", tmp_path / file.name)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "written_plan", module)
        spec.loader.exec_module(module)
        monkeypatch.setattr(fused, "FusedLinear", module.FusedLinear)
        [parents] = re.findall(r"from (transformers\.models\.\w+) import (modeling_\w+)", text)
        return on_both_sides(module, importlib.import_module(".".join(parents)))

    return build


def on_both_sides(module, parents):
    names = [name for name in module.__all__ if hasattr(getattr(module, name), "post_init")]
    for name in names:
        parent = getattr(parents, name)
        if not name.endswith("PreTrainedModel"):
            config = tiny_config(parent.config_class)
            yield on_meta(getattr(module, name), config), on_meta(parent, config)


def compare_plans(pairs):
    """How many classes were compared."""
    count = 0
    for model, parent in pairs:
        made = fused.gather_fused(model, parent._tp_plan)
        # Where no rule is needed, the mixin has one that changes nothing.
        made = {path: style for path, style in made.items() if style != "replicate"}
        assert model._tp_plan == made, type(model).__name__
        assert "colwise_gather_output" in made.values()
        count += 1
    return count


@pytest.mark.parametrize("model", ["llama", "qwen3", "mixtral"])
def test_the_plan_is_the_one_that_the_mixin_makes(build, tmp_path, model):
    text = answer(make_environment(tmp_path), model, ["fused"]).text
    assert "SplitProjections" not in text and compare_plans(build(text)) >= 5


@pytest.mark.slow
def test_so_are_the_plans_of_all_models(build, tmp_path):
    env = make_environment(tmp_path)
    written = []
    for module in every_module(env):
        try:
            text = answer(env, module, ["fused"]).text
        except PatchgenError:  # the part does not fit
            continue
        if "._tp_plan = {" in text:
            assert compare_plans(build(text)) > 0
            written.append(module)
    assert len(written) >= WRITTEN_AT_LEAST


# A plan for experts that names parts, and configurations in configurations.
@pytest.mark.parametrize("model", ["gemma4", pytest.param("qwen2_vl", marks=pytest.mark.slow)])
def test_the_mixin_makes_all_plans_of_a_model_of_several(build, tmp_path, model):
    text = answer(make_environment(tmp_path), model, ["fused"]).text
    assert "SplitProjections" in text
    for variant, parent in build(text):
        wrong = compared(variant, parent).wrong
        assert not wrong, (type(variant).__name__, *map(str, wrong))

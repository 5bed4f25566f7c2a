"""In which outputs the decorated base of a configuration stands."""

import sys

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment

FILES = {
    "__init__.py": "",
    "mixture.py": """from huggingface_hub.dataclasses import strict


@strict
class MixtureOptions:
    num_experts: int = 8
""",
    "configuration_toy.py": """class ToyConfig:
    hidden_size: int = 4
""",
    "modeling_toy.py": """from .configuration_toy import ToyConfig


class ToyMLP:
    def __init__(self, config: ToyConfig):
        self.size = config.hidden_size
""",
}
MODULAR = """from huggingface_hub.dataclasses import strict

from . import configuration_toy, modeling_toy
from .mixture import MixtureOptions


@strict
class ToyMixedConfig(MixtureOptions, configuration_toy.ToyConfig):
    every: int = 1


class ToyMixedMLP(modeling_toy.ToyMLP):
    def __init__(self, config{annotation}):
        super().__init__(config)
        self.experts = config.num_experts
"""


@pytest.mark.parametrize(
    ("annotation", "standing"),
    [
        (": ToyMixedConfig", ["configuration_toy_mixed.py"]),
        # No import runs the configuration's file: the decorator has to run here too.
        ("", ["configuration_toy_mixed.py", "modeling_toy_mixed.py"]),
    ],
)
def test_it_stands_again_only_where_the_configuration_is_not_imported(
    annotation, standing, tmp_path
):
    folder = tmp_path / "toy"
    folder.mkdir()
    files = {**FILES, "modular_toy_mixed.py": MODULAR.format(annotation=annotation)}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    environment = make_environment(tmp_path, search=sys.path)
    made = flatten(folder / "modular_toy_mixed.py", environment, Settings())
    assert not made.problems
    assert [each.name for each in made.files if "class MixtureOptions" in each.text] == standing

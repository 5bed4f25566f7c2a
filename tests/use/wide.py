"""A project with one variant: a Llama with a model type of its own."""

import subprocess
import sys

from tests.toytree import environment

WIDE = {
    "pyproject.toml": '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n',
    "modular/wide/modular_wide.py": '''"""A Llama whose feed-forward outputs count twice."""

from transformers.models.llama import modeling_llama as llama
from transformers.models.llama.configuration_llama import LlamaConfig


class WideConfig(LlamaConfig):
    model_type = "wide"


class WideMLP(llama.LlamaMLP):
    def forward(self, x):
        return 2 * super().forward(x)


class WideForCausalLM(llama.LlamaForCausalLM):
    pass
''',
}


def make_project(top, monkeypatch, more=()):
    """The project in `top`, with `more` files, converted; the current folder, whose `generated` Python imports."""
    for name, text in (WIDE | dict(more)).items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "patchgen", "convert"], cwd=top, env=environment(), check=True
    )
    for name in [
        name for name in sys.modules if name.startswith(("generated.wide", "generated.blip"))
    ]:
        monkeypatch.delitem(sys.modules, name)  # of another test
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(top)

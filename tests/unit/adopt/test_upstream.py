"""`patchgen adopt --upstream` drafts modular files in the dialect of transformers."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from patchgen.author.adopt.lineage import find_heirs
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.upstream import Draft, draft_model
from patchgen.cli.adopt import adopt_any
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError

PARENT = '''\
import abc

import torch
from torch import nn


class ToyMLP(nn.Module):
    """A feed-forward layer."""

    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden, config.inner)
        self.gate = nn.Linear(config.hidden, config.inner)
        self.down = nn.Linear(config.inner, config.hidden)

    def forward(self, x):
        return self.down(self.up(x) * self.gate(x))


class ToyLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP(config)
        self.norm = nn.LayerNorm(config.hidden)

    def forward(self, x):
        return x + self.mlp(self.norm(x))

    def reset(self):
        self.norm.reset_parameters()


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyLayer(config) for _ in range(config.layers)])

    @torch.no_grad()
    def forward(self, x):
        scale = 1.0
        chosen = [layer for layer in self.layers if layer.training]
        chosen = chosen or self.layers
        for layer in chosen:
            x = layer(x)
        return x * scale
'''
SHRINK = "def shrink(x):\n    return x / {}\n\n\n"
# Another model, whose function of that name is not the same.
HEAD = """\
class GalaHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.out = nn.Linear(config.hidden, config.words)
        self.words = config.words

    def forward(self, x):
        return shrink(self.out(x))


"""
CHANGES = {
    "an equal model": ("", ""),
    "another layer": ("nn.LayerNorm(config.hidden)", "nn.LayerNorm(config.hidden, eps=1e-6)"),
    "a method that goes": (
        "\n    def reset(self):\n        self.norm.reset_parameters()\n",
        "",
    ),
    "an order of its own": (
        "        super().__init__()\n        self.mlp",
        "        super().__init__()\n        assert config.hidden\n        self.mlp",
    ),
    "a new class": ("class ToyModel", "class NovaHead(nn.Linear):\n    pass\n\n\nclass ToyModel"),
    "another signature": (
        "    def forward(self, x):\n        scale",
        "    def forward(self, x, mask=None):\n        scale",
    ),
    "another value": ("scale = 1.0", "scale = 2.0"),
    "one of two values of a name": ("chosen = chosen or self", "chosen = chosen and self"),
    "more at the top": ("        scale = 1.0", "        assert x is not None\n        scale = 1.0"),
    "another value with an annotation": (
        "scale = 1.0",
        "scale: float = abs(\n            2.0\n        )",
    ),
    "a parameter before the others": (
        "    def forward(self, x):\n        scale = 1.0",
        "    def forward(self, mask, x):\n        scale = 2.0",
    ),
    "a docstring of its own": (
        "    def forward(self, x):\n        scale = 1.0",
        '    def forward(self, x):\n        """Doubled."""\n        scale = 2.0',
    ),
    "another base": ("class ToyLayer(nn.Module)", "class ToyLayer(nn.Module, abc.ABC)"),
    "a base that is not the parent's": ("class ToyMLP(nn.Module)", "class ToyMLP(abc.ABC)"),
}


def _write(folder: Path, model: str) -> Path:
    for name, text in (("toy", PARENT), ("nova", model)):
        path = folder / "transformers" / "models" / name / f"modeling_{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    (folder / "transformers" / "__init__.py").write_text('__version__ = "5.0.0"\n')
    return folder / "transformers" / "models" / "nova" / "modeling_nova.py"


def _draft(folder: Path, change: str) -> Draft:
    old, new = CHANGES[change]
    path = _write(folder, PARENT.replace(old, new, 1).replace("Toy", "Nova"))
    return draft_model(path, Release("5.0.0", folder), Settings())


@pytest.mark.parametrize("change", CHANGES)
def test_a_draft_regenerates_the_model(change: str, tmp_path: Path) -> None:
    made = _draft(tmp_path, change)
    assert made.proof.holds, made.report()
    assert made.share < 0.9
    assert made.parents == ("toy.modeling_toy",)


def test_what_another_class_brings_is_not_declared(tmp_path: Path) -> None:
    text = _draft(tmp_path, "an equal model").text
    assert "class NovaModel(ToyModel):\n    pass" in text
    assert "class NovaMLP" not in text


def test_an_init_is_said_by_what_it_assigns_again(tmp_path: Path) -> None:
    text = _draft(tmp_path, "another layer").text
    assert "super().__init__(config)\n        self.norm = nn.LayerNorm(" in text
    assert "self.mlp" not in text


def test_a_method_is_said_by_what_it_assigns_again(tmp_path: Path) -> None:
    text = _draft(tmp_path, "another value").text
    assert "super().forward(x)\n        # In the place" in text
    assert "scale = 2.0" in text
    assert "chosen" not in text


def test_what_is_new_at_the_top_stands_above_the_call(tmp_path: Path) -> None:
    text = _draft(tmp_path, "more at the top").text
    assert "        assert x is not None\n        return super().forward(x)" in text


def test_an_annotation_is_left_out_where_an_assignment_takes_the_parents_place(
    tmp_path: Path,
) -> None:
    text = _draft(tmp_path, "another value with an annotation").text
    assert "        scale = abs(2.0)\n" in text


def test_what_the_parents_method_takes_is_passed_in_its_order(tmp_path: Path) -> None:
    text = _draft(tmp_path, "a parameter before the others").text
    assert "def forward(self, mask, x):\n        super().forward(x)\n" in text


def test_a_long_call_passes_what_the_parents_statements_read(tmp_path: Path) -> None:
    names = [f"{letter * 30}=None" for letter in "abcd"]
    signature = f"def forward(self, x, {', '.join(names)})"
    toy = PARENT.replace(
        "def forward(self, x):\n        scale = 1.0", f"{signature}:\n        scale = 1.0"
    )
    path = _write(tmp_path, toy.replace("Toy", "Nova").replace("scale = 1.0", "scale = 2.0"))
    (path.parent.parent / "toy" / "modeling_toy.py").write_text(toy, encoding="utf-8")
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "        super().forward(x)\n" in made.text


def test_a_docstring_of_its_own_is_kept(tmp_path: Path) -> None:
    made = _draft(tmp_path, "a docstring of its own")
    assert '"""Doubled."""' in made.text
    assert '"""Doubled."""' in made.proof.output


def test_an_equal_body_under_another_signature_is_called(tmp_path: Path) -> None:
    text = _draft(tmp_path, "another signature").text
    assert "def forward(self, x, mask=None):\n        return super().forward(x)" in text


def test_decorators_of_the_parents_method_are_not_repeated(tmp_path: Path) -> None:
    text = _draft(tmp_path, "another signature").text
    assert "no_grad" not in text


def test_a_base_is_added_to_the_parents(tmp_path: Path) -> None:
    text = _draft(tmp_path, "another base").text
    assert "class NovaLayer(ToyLayer, abc.ABC):\n    pass" in text


def test_the_init_of_a_layer_is_called_without_an_import_of_its_base(tmp_path: Path) -> None:
    layer = "from ...modeling_layers import GradientCheckpointingLayer\n"
    toy = PARENT.replace("from torch import nn\n", f"from torch import nn\n\n{layer}")
    toy = toy.replace("class ToyLayer(nn.Module)", "class ToyLayer(GradientCheckpointingLayer)")
    nova = toy.replace(
        "super().__init__()\n        self.mlp", "super().__init__(1)\n        self.mlp"
    )
    path = _write(tmp_path, nova.replace("Toy", "Nova"))
    (path.parent.parent / "toy" / "modeling_toy.py").write_text(toy, encoding="utf-8")
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "        nn.Module.__init__(self, 1)\n" in made.text
    assert "GradientCheckpointingLayer" not in made.text


def test_decorators_of_its_own_stand_for_the_parents(tmp_path: Path) -> None:
    path = _write(tmp_path, PARENT.replace("Toy", "Nova"))
    toy = tmp_path / "transformers" / "models" / "toy" / "modeling_toy.py"
    path.write_text(
        path.read_text().replace("class NovaModel", "@auto_docstring\nclass NovaModel"),
    )
    toy.write_text(toy.read_text().replace("class ToyModel", "@requires\nclass ToyModel"))
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "@auto_docstring\nclass NovaModel(ToyModel):\n    pass" in made.text


def test_what_the_parents_method_is_annotated_to_return_is_not_repeated(tmp_path: Path) -> None:
    parent = PARENT.replace("def forward(self, x):", "def forward(self, x) -> abc.ABC:")
    path = _write(tmp_path, parent.replace("Toy", "Nova").replace("scale = 1.0", "scale = 2.0"))
    toy = tmp_path / "transformers" / "models" / "toy" / "modeling_toy.py"
    toy.write_text(parent)
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "    def forward(self, x):\n        super()" in made.text
    assert "abc" not in made.text
    assert made.proof.output.count("def forward(self, x) -> abc.ABC:") == 3


def test_a_part_of_a_model_is_derived_under_its_own_name(tmp_path: Path) -> None:
    """`NovaVisionMLP` is called so where `NovaVisionLayer`, which is not written, reads it."""
    path = _write(tmp_path, PARENT.replace("Toy", "NovaVision"))
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "class NovaVisionModel(ToyModel):\n    pass" in made.text
    assert "class NovaVisionMLP" not in made.text


def test_a_class_of_another_name_is_derived(tmp_path: Path) -> None:
    path = _write(tmp_path, PARENT.replace("Toy", "Nova").replace("NovaMLP", "NovaFeedForward"))
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "class NovaFeedForward(ToyMLP):\n    pass" in made.text


def test_one_of_two_functions_of_a_name_is_imported(tmp_path: Path) -> None:
    toy = PARENT.replace("class ToyMLP", SHRINK.format(2) + "class ToyMLP", 1)
    toy = toy.replace("return x * scale", "return shrink(x * scale)")
    nova = toy.replace("class ToyMLP", f"{HEAD}class ToyMLP", 1)
    path = _write(tmp_path, nova.replace("Toy", "Nova").replace("Gala", "Nova"))
    models = path.parent.parent
    (models / "toy" / "modeling_toy.py").write_text(toy, encoding="utf-8")
    (models / "gala").mkdir()
    gala = f"from torch import nn\n\n\n{SHRINK.format(3)}{HEAD}"
    (models / "gala" / "modeling_gala.py").write_text(gala, encoding="utf-8")
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds, made.report()
    assert "def shrink" not in made.text
    assert "from ..toy.modeling_toy import ToyModel, shrink\n" in made.text


def test_a_function_that_no_class_reads_is_named(tmp_path: Path) -> None:
    unread = "\n\ndef count(model):\n    return len(model.layers)\n"
    path = _write(tmp_path, PARENT.replace("Toy", "Nova") + unread)
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert (made.proof.holds, made.is_whole, made.unread) == (False, True, ("count",))
    assert "without functions that none of its classes reads" in made.report()
    assert "missing: count" in made.report()


def test_the_command_prints_the_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "release", PARENT.replace("Toy", "Nova"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert _adopt(model="nova") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["regenerates"], data["parents"]) == (True, ["toy.modeling_toy"])
    assert Path(data["file"]).read_text(encoding="utf-8") == data["declaration"]


def test_a_fork_and_a_model_are_not_adopted_together() -> None:
    with pytest.raises(click.UsageError):
        _adopt(model="nova", file="fork.py")


def test_a_model_with_a_modular_file_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, PARENT.replace("Toy", "Nova"))
    path.with_name("modular_nova.py").touch()
    with pytest.raises(PatchgenError) as error:
        draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert error.value.problem.code == "PG806"


def _adopt(*, model: str, file: str | None = None) -> int:
    return adopt_any(
        file,
        model=model,
        parent=None,
        package_root="release",
        asked=(),
        download=False,
        folder="drafts",
        force=False,
        form="json",
    )


def _with_heir(folder: Path) -> Path:
    """Toy derives from Nova by its modular file."""
    path = _write(folder, PARENT.replace("Toy", "Nova"))
    toy = path.parent.parent / "toy" / "modular_toy.py"
    toy.write_text("from ..nova.modeling_nova import NovaModel\n", encoding="utf-8")
    return path


def test_a_parent_that_derives_from_the_model_is_named(tmp_path: Path) -> None:
    made = draft_model(_with_heir(tmp_path), Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds
    assert made.circular == made.parents == ("toy.modeling_toy",)
    assert "circular: toy.modeling_toy derives from this model" in made.report()


@pytest.mark.parametrize(
    ("old", "new", "parent"),
    [
        ("", "", "gala"),
        ("scale = 1.0", "scale = 2.0", "gala"),
        # All methods differ: the draft would be long.
        ("(self, ", "(self, /, ", "toy"),
    ],
)
def test_a_parent_that_does_not_derive_from_the_model_is_preferred(
    old: str, new: str, parent: str, tmp_path: Path
) -> None:
    path = _with_heir(tmp_path)
    gala = path.parent.parent / "gala" / "modeling_gala.py"
    gala.parent.mkdir()
    gala.write_text(PARENT.replace("Toy", "Gala").replace(old, new), encoding="utf-8")
    made = draft_model(path, Release("5.0.0", tmp_path), Settings())
    assert made.proof.holds
    assert made.parents == (f"{parent}.modeling_{parent}",)
    assert bool(made.circular) == (parent == "toy")


def test_a_model_derives_from_another_through_a_third() -> None:
    lineage = {"b.modeling_b": ["a.modeling_a"], "c.modeling_c": ["b.modeling_b"], "d": ["e"]}
    assert find_heirs("a.modeling_a", lineage) == {"b.modeling_b", "c.modeling_c"}

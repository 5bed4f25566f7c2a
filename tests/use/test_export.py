"""Exported folders load where there is no patchgen and no project: another folder, offline, `python -I`."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from click.testing import CliRunner
from transformers import LlamaForCausalLM, Qwen3MoeForCausalLM

from patchgen.cli.commands import patchgen as command_line
from patchgen.project.lock import read_lock
from patchgen.project.parity import files_of
from patchgen.runtime.export import code_files
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import Variant
from patchgen.verifying.models.build import draw_weights
from tests.toytree import REPOSITORY, environment
from tests.use.wide import make_project
from tests.use.words import word_tokenizer

# What patchgen and the project have on the path is taken off it, and refused where something else brings it.
ALONE = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("patchgen", "generated", "modular"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

repository, folder = sys.argv[1:]
sys.path = [entry for entry in sys.path if entry and entry != repository]
sys.meta_path.insert(0, Refuse())

import torch
import transformers

def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([[5, 9, 3, 44, 17, 8], [7, 7, 20, 31, 4, 6]])).logits
"""
QWEN3_MOE = """
ours = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
assert type(ours).__module__.startswith("transformers_modules."), type(ours)
assert type(theirs) is transformers.Qwen3MoeForCausalLM
assert torch.equal(logits(ours), logits(theirs))

words = transformers.AutoTokenizer.from_pretrained(folder)("5 9 3", return_tensors="pt")
assert words.input_ids.tolist() == [[5, 9, 3]]
ours.generate(**words, max_new_tokens=3)

config = transformers.AutoConfig.from_pretrained(folder)
for name, reference in config.auto_map.items():
    model = getattr(transformers, name).from_config(config, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules."), name
    assert reference == "modeling_qwen3_moe_checkpoint_loss." + type(model).__name__

ours.save_pretrained("again")
again, loading = transformers.Qwen3MoeForCausalLM.from_pretrained("again", output_loading_info=True)
assert not any(loading.values()), loading
assert torch.equal(logits(again), logits(theirs))
"""
MIXTURE = """
config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
assert (config.model_type, config.num_experts) == ("llama_moe", 8), config
ours, loading = transformers.AutoModelForCausalLM.from_pretrained(
    folder, trust_remote_code=True, output_loading_info=True
)
assert type(ours).__name__ == "LlamaMoeForCausalLM"
assert not any(loading.values()), loading
dense = transformers.LlamaForCausalLM.from_pretrained(folder + "/../dense")
torch.testing.assert_close(logits(ours), logits(dense), rtol=1e-4, atol=1e-4)
"""


BLIP = {
    "modular/blip/modular_blip_text_x.py": """from transformers.models.blip import modeling_blip_text as blip


class BlipTextModel(blip.BlipTextModel):
    pass
""",
}


def run_alone(script, folder, cwd):
    cwd.mkdir()
    env = environment(
        HF_HUB_OFFLINE="1",
        HF_HOME=str(cwd / "hf"),
        OMP_NUM_THREADS="1",
        TRANSFORMERS_VERBOSITY="error",
        NO_COLOR="1",
    )
    argv = [sys.executable, "-I", "-c", ALONE + script, str(REPOSITORY), str(folder)]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(*arguments):
    return CliRunner().invoke(command_line, [*map(str, arguments)], standalone_mode=False)


def saved(parent, kind, folder):
    model = parent(tiny_config(kind))
    draw_weights(model)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def qwen3_moe(tmp_path):
    folder = saved(Qwen3MoeForCausalLM, "qwen3_moe", tmp_path / "checkpoint")
    word_tokenizer().save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    (folder / "LICENSE").write_text("as you like\n", encoding="utf-8")
    return folder


@pytest.mark.slow
def test_qwen3_moe_offline(qwen3_moe, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    folder = tmp_path / "tiny-qwen3_moe-sdpa"
    assert (
        run("export", "qwen3_moe_checkpoint_loss", folder, "--checkpoint", qwen3_moe).return_value
        == 0
    )
    run_alone(QWEN3_MOE, folder, tmp_path / "elsewhere")
    configuration = json.loads((folder / "config.json").read_text())
    assert set(configuration["auto_map"]) == {"AutoModel"} | {
        f"AutoModelFor{task}"
        for task in (
            "CausalLM",
            "QuestionAnswering",
            "SequenceClassification",
            "TokenClassification",
        )
    }
    assert (folder / "LICENSE").read_text() == "as you like\n"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\nlicense: mit\n")
    diff = (REPOSITORY / "generated/qwen3_moe/modeling_qwen3_moe_checkpoint_loss.diff").read_text(
        encoding="utf-8"
    )
    for part in (
        diff.rstrip(),
        "Apache License 2.0",
        "The Qwen team, Alibaba Group and the HuggingFace Inc. team",
        "transformers 5.",
    ):
        assert part in card
    assert str(tmp_path) not in card


@pytest.mark.slow
def test_a_mixture_offline(tmp_path, monkeypatch):
    """Upcycled from a dense checkpoint: configuration and model in files of their own, weights under their names."""
    monkeypatch.chdir(REPOSITORY)
    dense = saved(LlamaForCausalLM, "llama", tmp_path / "dense")
    folder = tmp_path / "mixture"
    assert run("export", "llama_moe", folder, "--checkpoint", dense).return_value == 0
    assert {"configuration_llama_moe.py", "modeling_llama_moe.py"} <= set(os.listdir(folder))
    run_alone(MIXTURE, folder, tmp_path / "elsewhere")


def test_a_project_with_a_report(tmp_path, monkeypatch):
    make_project(tmp_path, monkeypatch)
    (tmp_path / "docs/parity").mkdir(parents=True)
    report = "# Parity\n\nAs run somewhere.\n\n## other\n\nnothing\n\n## wide\n\n| case |\n"
    (tmp_path / "docs/parity/cpu.md").write_text(report, encoding="utf-8")
    (record,) = [
        r
        for r in read_lock(tmp_path / "patchgen.lock").values()
        if r.output.endswith("modeling_wide.py")
    ]
    about = {
        "command": "",
        "device": "cpu",
        "cases": [],
        "about": {"wide": files_of(tmp_path, record.modular)},
    }
    (tmp_path / "docs/parity/parity.json").write_text(json.dumps(about), encoding="utf-8")
    folder = tmp_path / "wide"
    assert run("export", "wide", folder).return_value == 0
    configuration = json.loads((folder / "config.json").read_text())
    assert configuration["auto_map"]["AutoConfig"] == "configuration_wide.WideConfig"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "A Llama whose feed-forward outputs count twice." in card
    assert "As run somewhere." in card and "| case |" in card and "nothing" not in card
    about["about"]["wide"] = dict.fromkeys(about["about"]["wide"], "0" * 64)
    (tmp_path / "docs/parity/parity.json").write_text(json.dumps(about), encoding="utf-8")
    assert run("export", "wide", tmp_path / "again").return_value == 0
    card = (tmp_path / "again/README.md").read_text(encoding="utf-8")
    assert "before its last change, and not since" in card and "| case |" not in card


def test_without_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert run("export", "bert_mlm", tmp_path / "bert").return_value == 0
    configuration = json.loads((tmp_path / "bert/config.json").read_text())
    assert configuration["model_type"] == "bert"
    assert configuration["architectures"] == ["BertForMaskedLM"]
    assert configuration["auto_map"]["AutoModelForMaskedLM"] == "modeling_bert_mlm.BertForMaskedLM"
    assert not list((tmp_path / "bert").glob("*.safetensors"))


def test_refusals_leave_nothing(qwen3_moe, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    folder = tmp_path / "new" / "out"
    for arguments, message in (
        (("qwen3_moe_chekpoint_loss", folder), "did you mean qwen3_moe_checkpoint_loss"),
        (("llama_loss", folder, "--checkpoint", qwen3_moe), "the checkpoint is a qwen3_moe"),
        (("qwen3_moe_checkpoint_loss", qwen3_moe), "not an empty folder"),
        (("qwen3_moe_checkpoint_loss", folder, "--checkpoint", tmp_path / "none"), ""),
        (("qwen3_moe_checkpoint_loss", "."), "is the current folder"),
    ):
        done = CliRunner().invoke(command_line, ["export", *map(str, arguments)])
        assert done.exit_code == 2 and message in done.output, done.output
        assert not folder.exists() and not list(folder.parent.glob(".*"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda source: (source / "model.safetensors").unlink(),
            "has no weights: *.safetensors or pytorch",
        ),
        (lambda source: (source / "config.json").write_text("{"), "config.json is no JSON"),
        (
            lambda source: (source / "config.json").write_text("{}"),
            "config.json names no model_type",
        ),
        (lambda source: (source / "config.json").unlink(), "No such file or directory"),
    ],
    ids=["without weights", "half a configuration", "without a type", "without a configuration"],
)
def test_a_checkpoint_that_lacks_something(qwen3_moe, tmp_path, monkeypatch, damage, message):
    monkeypatch.chdir(REPOSITORY)
    damage(qwen3_moe)
    argv = [
        "export",
        "qwen3_moe_checkpoint_loss",
        str(tmp_path / "out"),
        "--checkpoint",
        str(qwen3_moe),
    ]
    done = CliRunner().invoke(command_line, argv)
    assert done.exit_code == 2 and message in done.output, done.output
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_into_a_folder_by_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert run("export", "bert_mlm", tmp_path / "link").return_value == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "empty/modeling_bert_mlm.py").is_file()


@pytest.mark.slow
def test_a_variant_that_no_auto_class_could_load(tmp_path, monkeypatch):
    """BLIP's text model is part of another: transformers has its type, and nothing that builds it."""
    make_project(tmp_path, monkeypatch, BLIP)
    done = CliRunner().invoke(command_line, ["export", "blip_text_x", str(tmp_path / "out")])
    assert (
        done.exit_code == 2
        and "no auto class builds transformers.models.blip.modeling_blip_text" in done.output
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "line", ["from ..other import x", "from generated.llama.modeling_llama_loss import LlamaModel"]
)
def test_code_that_needs_the_project_is_refused(line, tmp_path):
    path = tmp_path / "modeling_x.py"
    path.write_text(f"import torch\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"{path}:2: imports"):
        code_files(Variant("x", "x", path, tmp_path))

"""Which module a checkpoint stands for, by its configuration."""

import json
import os
import re
from pathlib import Path

import pytest

from patchgen.author.published import find_published
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)
REVISION = "0123456789abcdef0123456789abcdef01234567"
TYPES = {
    "llama": "llama.modeling_llama",
    "gemma3_text": "gemma3.modeling_gemma3",
    "openai-gpt": "openai.modeling_openai",
    "donut-swin": "donut.modeling_donut_swin",
    "qwen2_5_vl_text": "qwen2_5_vl.modeling_qwen2_5_vl",
}


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """Writes the configuration of ./checkpoint, and goes where that is."""
    monkeypatch.chdir(tmp_path)

    def write(text, folder="checkpoint"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(text, encoding="utf-8")

    return write


@pytest.mark.parametrize(("kind", "module"), TYPES.items(), ids=TYPES)
def test_a_folder_is_of_the_type_that_it_says(env, kind, module, checkpoint, tmp_path):
    checkpoint(json.dumps({"model_type": kind}))
    assert find_published(env, "./checkpoint", tmp_path) == f"transformers.models.{module}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_type_of_transformers_is_found(env, checkpoint, tmp_path):
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    missing = set()
    for kind, name in auto.MODEL_MAPPING_NAMES.items():
        checkpoint(json.dumps({"model_type": kind}), kind)
        try:
            text = env.path(find_published(env, f"./{kind}", tmp_path)).read_text(encoding="utf-8")
        except PatchgenError:
            missing.add(kind)
        else:
            # Gemma 3n takes its images' model from timm.
            several = [name] if isinstance(name, str) else name
            known = any(re.search(rf"^class {each}\(", text, re.M) for each in several)
            assert known or kind == "gemma3n_vision", kind
    # They have no configuration of their own: transformers names that of another model.
    assert missing == {"glmga", "gpt-sw3", "internlm3", "iquestcoder"}


def test_a_model_of_the_hubs_cache(checkpoint, tmp_path, monkeypatch, capsys):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub/models--meta-llama--Llama-3.2-1B"
    checkpoint('{"model_type": "llama"}', f"{home.name}/blobs")
    (tmp_path / "hub").mkdir()
    (tmp_path / home.name).rename(home)
    snapshot = home / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/config.json")
    (home / "refs").mkdir()
    (home / "refs/main").write_text(REVISION, encoding="utf-8")
    argv = ["new", "meta-llama/Llama-3.2-1B", "--with", "loss", "--dry-run"]
    assert main(argv) == 0
    assert "class LlamaForCausalLM(" in capsys.readouterr().out
    (snapshot / "config.json").unlink()
    (tmp_path / "secret").write_text('{"model_type": "llama"}', encoding="utf-8")
    (snapshot / "config.json").symlink_to(tmp_path / "secret")
    assert main(argv) != 0
    assert "PG904" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("meta-llama/Llama-3.2-1B", "perhaps llama"),
        ("google/gemma-3-4b-it", "perhaps gemma3"),
        ("deepseek-ai/DeepSeek-V3", "perhaps deepseek_v3"),
        ("x/y", "the model_type of its configuration"),
        ("../..", "the model_type of its configuration"),
    ],
)
def test_the_hint_says_which_type_to_give(env, model, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PatchgenError) as error:
        find_published(env, model, tmp_path)
    assert error.value.problem.code == "PG801"
    assert error.value.problem.hint.endswith(hint)


WRONG = {
    "no JSON": "{",
    "no object": "[]",
    "no type": "{}",
    "no name": '{"model_type": ["llama"]}',
    "of no release": '{"model_type": "from_tomorrow"}',
    "a pattern": '{"model_type": ".*"}',
    "a path": '{"model_type": "../llama"}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_configuration_is_named(env, text, checkpoint, tmp_path):
    checkpoint(text)
    with pytest.raises(PatchgenError, match="PG801") as error:
        find_published(env, "./checkpoint", tmp_path)
    assert error.value.problem.at.path == os.path.join("checkpoint", "config.json")


def test_a_folder_that_leads_out_of_the_project_is_refused(env, checkpoint, tmp_path):
    checkpoint('{"model_type": "llama"}', "outside")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/link").symlink_to("../outside")
    with pytest.raises(PatchgenError, match="PG904"):
        find_published(env, "./project/link", tmp_path / "project")

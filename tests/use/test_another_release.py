"""Under another release of transformers the gallery fits it, and what does not fit says so.

The other release is the installed one with a changed line; those that people have are in
`test_releases.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen.runtime.variants import find_variant
from tests.toytree import REPOSITORY, environment
from tests.use.releases import make_release
from tests.use.wide import make_project

GENERATED = REPOSITORY / "generated"
CHANGED = ("class LlamaMLP(nn.Module):\n", "class LlamaMLP(nn.Module):\n    is_another = True\n\n")
# Finds the file of a model and imports nothing of models.
FIND = """
import json, sys
from importlib.util import find_spec
from pathlib import Path
files = [find_spec(f"patchgen.gallery.{name}").origin for name in sys.argv[1:]]
assert not {"torch", "transformers"} & set(sys.modules)
print(json.dumps(files))
"""


@pytest.fixture(scope="module")
def same(tmp_path_factory) -> Path:
    """A release with another number and the same models."""
    return make_release(tmp_path_factory.mktemp("same"))


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> Path:
    """A release with another Llama, and with a GPT-2 that edits do not fit."""
    loss = ("self.loss_function(", "self.another_loss(")
    return make_release(tmp_path_factory.mktemp("changed"), llama=CHANGED, gpt2=loss)


def start(release: Path, script: str, *argv: str, cwd: Path | None = None, **env: str):
    env = environment(PYTHONPATH=f"{release}:{REPOSITORY}", **env)
    command = [sys.executable, "-P", "-c", script, *argv]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=env, cwd=cwd or release, **options)


def finish(process: subprocess.Popen[str]) -> str:
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return printed


def find(release: Path, *models: str, **env: str) -> list[Path]:
    return [Path(path) for path in json.loads(finish(start(release, FIND, *models, **env)))]


LOSS, MOE = "llama.modeling_llama_loss", "llama.modeling_llama_moe"


def test_the_same_files_are_the_same_models(same):
    models = [LOSS, "bert.modeling_bert_mlm"]
    assert find(same, *models) == [GENERATED / f"{m.replace('.', '/')}.py" for m in models]


def test_a_changed_parent_is_in_the_model(changed, tmp_path):
    loss, moe, configuration, bert = find(
        changed,
        LOSS,
        MOE,
        "llama.configuration_llama_moe",
        "bert.modeling_bert_mlm",
        PATCHGEN_CACHE_DIR=str(tmp_path),
    )
    for path in (loss, moe):
        assert path.is_relative_to(tmp_path) and "is_another = True" in path.read_text()
    assert configuration.parent == moe.parent  # which imports it from there
    assert bert == GENERATED / "bert/modeling_bert_mlm.py"
    assert (tmp_path / "gallery").stat().st_mode & 0o777 == 0o700
    with_line = (GENERATED / "llama/modeling_llama_loss.py").read_text().replace(*CHANGED)
    assert loss.read_text() == with_line


def test_it_is_converted_once_and_at_any_time(changed, tmp_path):
    """Two processes at once, a third later, and one after a file was cut off."""
    env = {"PATCHGEN_CACHE_DIR": str(tmp_path)}
    together = [start(changed, FIND, LOSS, **env) for _ in range(2)]
    (path,), other = (map(Path, json.loads(finish(process))) for process in together)
    assert [path] == [*other]
    text, written = path.read_text(), path.stat().st_mtime_ns
    assert find(changed, LOSS, **env) == [path]
    assert path.stat().st_mtime_ns == written
    path.write_text(text[:1000])
    assert find(changed, LOSS, **env) == [path]
    assert path.read_text() == text
    assert not [*path.parent.glob("*.tmp")]


def test_a_folder_that_others_can_write_to_is_not_used(changed, tmp_path):
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery").chmod(0o777)
    (path,) = find(changed, LOSS, PATCHGEN_CACHE_DIR=str(tmp_path))
    assert not path.is_relative_to(tmp_path) and not path.exists()  # it went with its process


def test_a_model_that_does_not_fit_says_what_to_do(changed):
    process = start(changed, "from patchgen.gallery.gpt2 import modeling_gpt2_loss")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    lines = errors[errors.index("ImportError: ") :].splitlines()
    installed = find_variant("llama_loss").transformers
    assert lines[0] == (
        f"ImportError: modeling_gpt2_loss.py of patchgen.gallery was made for transformers {installed}, "
        "and modular/gpt2/modular_gpt2_loss.py cannot be converted for the installed 5.99.0:"
    )
    assert "PG301 `with old:` does not occur in GPT2LMHeadModel.forward" in lines[1]
    assert "`patchgen new --from-gallery gpt2_loss`" in lines[-1]


# One process runs all that needs torch: the gallery's by `load`, a project's, and an exported folder.
USE = """
import json, sys, warnings
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig
import patchgen

def warned(use):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            use()
    return [str(each.message) for each in caught if issubclass(each.category, UserWarning)]

def use_gallery():
    model = patchgen.load("llama_loss", "tiny")
    assert hasattr(model.model.layers[0].mlp, "is_another") == (sys.argv[1] == "changed")
    with patchgen.register("llama_loss"):
        assert type(AutoModelForCausalLM.from_config(model.config)) is type(model)

print(json.dumps({
    "gallery": warned(use_gallery),
    "project": warned(lambda: patchgen.register("wide").undo()),
    "exported": warned(lambda: AutoModelForCausalLM.from_pretrained("exported", trust_remote_code=True)),
}))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project, with an exported folder that has weights."""
    pytest.importorskip("torch")
    from patchgen.runtime.export import export
    from patchgen.runtime.tiny import tiny_config

    top = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        make_project(top, patch)
        from transformers import LlamaForCausalLM

        LlamaForCausalLM(tiny_config("llama")).save_pretrained("tiny")
        export("llama_loss", Path("exported"), "tiny")
    return top


def use(release: Path, project: Path, kind: str, tmp_path: Path) -> dict[str, list[str]]:
    env = {
        "HF_MODULES_CACHE": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    return json.loads(finish(start(release, USE, kind, cwd=project, **env)))


def test_another_parent_is_said_once(project, changed, tmp_path):
    said = use(changed, project, "changed", tmp_path)
    releases = (
        f"was made for transformers {find_variant('llama_loss').transformers}, and this is 5.99.0"
    )
    assert said["gallery"] == []  # it fits
    (message,) = said["project"]
    assert message.startswith(f"modeling_wide.py {releases}")
    assert "transformers.models.llama.modeling_llama is another" in message
    assert "`patchgen convert`" in message and "`patchgen rebase`" in message
    (message,) = said["exported"]
    assert message.startswith(f"this code {releases}")
    assert "`patchgen export llama_loss`" in message


def test_of_the_same_parent_nothing_is_said(project, same, tmp_path):
    said = use(same, project, "same", tmp_path)
    assert said == {"gallery": [], "project": [], "exported": []}

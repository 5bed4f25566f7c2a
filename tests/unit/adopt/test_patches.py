"""One file a patch: what it makes of Llama of the installed transformers, or why it is refused.

Below `# says:` stands what a person reads of the patch file, the places that it names, and the diff
between the parent and the fork that the patch stands for.  PATCHGEN_REFRESH=1 writes what is so
now.  Each fork is regenerated from its declaration, and each flat model computes what the patched
classes of transformers compute.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from patchgen.author.adopt.patched import Patched, find_patched
from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.cli import main
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.errors import PatchgenError, problems_of

CASES = sorted((Path(__file__).parent / "patches" / "cases").glob("*.py"))
REFUSED = [case for case in CASES if case.stem.startswith("refused_")]
APPLIED = [case for case in CASES if case not in REFUSED]
NAME = "modular_patch.py"
REFRESH = bool(os.environ.get("PATCHGEN_REFRESH"))


def _installed() -> Release:
    spec = find_spec("transformers")
    assert spec is not None and spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0]).parent
    return releases_in(root, root)[0]


def _read(case: Path, folder: Path) -> Patched:
    text = case.read_text(encoding="utf-8").partition("\n# says:\n")[0]
    path = folder / "patch.py"
    path.write_text(f"{text}\n", encoding="utf-8")
    apply = re.search(r"^# apply: (.*)$", text, re.MULTILINE)
    given = apply[1] if apply else None
    found = find_patched(path, "patch.py", given, [_installed()], None, Settings())
    assert found is not None
    return found


@functools.cache
def _adopted(case: Path) -> tuple[Patched, Adopted]:
    with tempfile.TemporaryDirectory() as folder:
        found = _read(case, Path(folder))
    root = found[0].release.root()
    return found, adopt(found[0].forked, NAME, root, Settings())


def _compare(case: Path, lines: list[str]) -> None:
    said = "\n# says:\n" + "".join(f"#{' ' if line else ''}{line}\n" for line in lines)
    text = case.read_text(encoding="utf-8")
    if REFRESH:
        case.write_text(text.partition("\n# says:\n")[0] + said, encoding="utf-8")
        return
    assert said == "\n# says:\n" + text.partition("\n# says:\n")[2]


def _diff(found: Patched) -> list[str]:
    forked = found[0].forked
    text = re.sub(r"\A(#.*\n|\n)*", "", forked.parent.source.text)
    parent = format_texts({"parent.py": text}, Settings())["parent.py"].split("\n")
    lines = difflib.unified_diff(parent, forked.fork.source.text.split("\n"), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize("case", APPLIED, ids=lambda path: path.stem)
def test_a_patch_becomes_a_declaration(case: Path) -> None:
    found, made = _adopted(case)
    _compare(case, [*found[1], *_diff(found)])
    assert made.proof.holds, (made.text, made.proof)


@pytest.mark.parametrize("case", REFUSED, ids=lambda path: path.stem)
def test_a_patch_is_refused_where_it_stands(case: Path, tmp_path: Path) -> None:
    with pytest.raises(PatchgenError) as error:
        _read(case, tmp_path)
    _compare(case, [line for one in problems_of(error.value) for line in str(one).split("\n")])


_RUN = """
import importlib, os, sys
from pathlib import Path
import torch
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

config = LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=64, attn_implementation="eager",
)

def logits(model_class, change):
    torch.manual_seed(0)
    model = model_class(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    change(model)
    with torch.no_grad():
        return model(input_ids=torch.arange(32).reshape(2, 16)).logits

def check(name):
    stock = logits(modeling_llama.LlamaForCausalLM, lambda model: None)
    flat = importlib.import_module(f"flat_{name}")
    mine = logits(flat.LlamaForCausalLM, lambda model: None)
    patch = {"__name__": name}
    text = Path(f"{name}.py").read_text()
    exec(text, patch)
    for function in ("patch", "apply"):
        if function in patch and f"# apply: {function}" not in text:
            patch[function]()
    exec("".join(l[9:] for l in text.split("\\n") if l.startswith("# apply: ")), patch)
    theirs = logits(modeling_llama.LlamaForCausalLM, patch.get("enable", lambda model: None))
    assert not torch.equal(stock, theirs), "the patch changes nothing"
    assert torch.equal(mine, theirs), (mine - theirs).abs().max()

failed = []
for name in sys.argv[1:]:
    # Each patch changes the one transformers that the process has.
    pid = os.fork()
    if not pid:
        try:
            check(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    failed += [name] if os.waitpid(pid, 0)[1] else []
sys.exit(len(failed))
"""


def test_flat_models_compute_what_the_patches_do(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for case in APPLIED:
        output = _adopted(case)[1].proof.output
        (tmp_path / f"flat_{case.stem}.py").write_text(output, encoding="utf-8")
        (tmp_path / f"{case.stem}.py").write_bytes(case.read_bytes())
    names = [case.stem for case in APPLIED]
    script = tmp_path / "run_patches.py"
    script.write_text(_RUN, encoding="utf-8")
    command = [sys.executable, str(script), *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


_TWO = (Path(__file__).parent / "patches" / "cases" / "refused_two_parents.py").read_text("utf-8")
_METHODS = "import transformers\n\n\ndef forward(self, x):\n    return x\n"


def _run(folder: Path, text: str, *options: str) -> int:
    (folder / "patch.py").write_text(text, encoding="utf-8")
    return main(["adopt", str(folder / "patch.py"), "--out", str(folder / "out"), *options])


def test_one_of_several_models_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, _TWO, "--parent", "mistral") == 0
    written = (tmp_path / "out" / "modular_patch.py").read_text(encoding="utf-8")
    assert "class MistralMLP(mistral.MistralMLP)" in written and "Llama" not in written
    assert "MistralMLP" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (_TWO, (), "PG808 patches llama and mistral"),
        (_METHODS, (), "patch.py:4:1: PG810 defines the method forward, and says not of which"),
        (_METHODS, ("--apply", "print(1)"), "--apply: PG810 assigns nothing"),
        (_METHODS, ("--apply", "x.forward ="), "--apply:1:12: PG006"),
        ("import transformers\nx = 1\n", (), "PG806 is no fork"),
        ("import transformers\nx = (\n", (), "patch.py:2:5: PG006"),
    ],
)
def test_nothing_is_written_for_what_cannot_be_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: tuple[str, ...],
    says: str,
) -> None:
    assert _run(tmp_path, text, *options) == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


_TOY = """\
from torch import nn


class ToyMLP(nn.Module):
    def forward(self, x):
        return x

    def NAME(self, x):
        return x


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP()

    def forward(self, x):
        return self.mlp(x)
"""
_PATCH = """\
from transformers.models.toy.modeling_toy import ToyMLP


def forward(self, x):
    return self.scale(x) * 2


ToyMLP.forward = forward
"""


def test_the_release_is_the_one_that_the_patch_fits(tmp_path: Path) -> None:
    for version, name in (("4.1.0", "scale"), ("4.2.0", "shift")):
        models = tmp_path / "releases" / version / "transformers" / "models"
        (models / "toy").mkdir(parents=True)
        for folder in (models.parent, models, models / "toy"):
            (folder / "__init__.py").touch()
        (models.parent / "__init__.py").write_text(f'__version__ = "{version}"\n')
        (models / "toy" / "modeling_toy.py").write_text(_TOY.replace("NAME", name))
    path = tmp_path / "patch.py"
    path.write_text(_PATCH, encoding="utf-8")
    releases = releases_in(tmp_path / "releases", tmp_path)
    found = find_patched(path, "patch.py", None, releases, None, Settings())
    assert found is not None and found[0].release.version == "4.1.0"
    found = find_patched(path, "patch.py", None, releases[1:], None, Settings())
    says = "patch.py:4:1: reads self.scale, which ToyMLP of this release does not set"
    assert found is not None and found[1] == (says,)
    assert not adopt(found[0].forked, NAME, found[0].release.root(), Settings()).proof.holds

"""Transformers' own modular files: every generated file of the wheel comes out byte for byte.

The oracle is the wheel itself.  `ratchet.toml` names the outputs that are not equal yet.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.corpus.corpus import (
    RATCHET,
    copy_package,
    find_package,
    generated_in,
    is_generated,
    modulars_in,
    snapshot,
)
from tests.toytree import REPOSITORY, environment

PACKAGE = find_package()
pytestmark = pytest.mark.skipif(
    PACKAGE is None, reason=f"transformers {RATCHET['release']} is not installed"
)
# A chain: gemma2 derives from what gemma gives, and both from llama.
CHAIN = ("llama", "gemma", "gemma2", "mistral")


def script(name, tree, *argv, **more):
    """Runs one of the two scripts on `tree`; more are variables of its environment."""
    command = [
        sys.executable,
        str(REPOSITORY / "utils" / name),
        "--package-root",
        str(tree),
        *map(str, argv),
    ]
    cache = {"PATCHGEN_CACHE_DIR": str(tree.parent / "cache"), **more}
    return subprocess.run(
        command, cwd=tree, env=environment(**cache), capture_output=True, text=True, check=False
    )


def unequal_outputs(paths):
    """Of these modular files: what is not as in the wheel, and what is there without being made."""
    from patchgen.syntax.locate import make_environment
    from patchgen.upstream.repository import flatten_repository

    made, problems = {}, []
    for path, flattened in zip(
        paths, flatten_repository(paths, make_environment(PACKAGE.parent), jobs=2), strict=True
    ):
        problems += flattened.problems
        made |= {
            f"models/{path.parent.name}/{file.name}": file.text.encode() for file in flattened.files
        }
    assert [str(problem) for problem in problems] == []
    folders = {f"models/{path.parent.name}" for path in paths}
    wheel = {
        name: data
        for name, data in generated_in(PACKAGE).items()
        if name.rpartition("/")[0] in folders
    }
    return sorted(name for name in made.keys() | wheel.keys() if made.get(name) != wheel.get(name))


def test_an_output_is_the_one_in_the_wheel():
    """Of every twelfth model."""
    models = sorted({path.parent for path in modulars_in(PACKAGE)})[::12]
    paths = [path for path in modulars_in(PACKAGE) if path.parent in models]
    assert len(paths) > 20
    assert set(unequal_outputs(paths)) <= set(RATCHET["unequal"])


@pytest.mark.slow
def test_every_output_is_the_one_in_the_wheel():
    paths = modulars_in(PACKAGE)
    assert (len(paths), len(generated_in(PACKAGE))) == (RATCHET["files"], RATCHET["outputs"])
    assert unequal_outputs(paths) == RATCHET["unequal"], (
        "shorten the list if it is only longer than what is unequal"
    )


@pytest.fixture
def chain(tmp_path):
    """A tree with a few models whose generated files are missing, and those files."""
    package = copy_package(PACKAGE, tmp_path / "tree", CHAIN)
    wheel = generated_in(package)
    for name in wheel:
        (package / name).unlink()
    return package, wheel


def test_missing_parents_come_from_the_same_run(chain):
    package, wheel = chain
    before = snapshot(package.parent)
    done = script("modular_converter.py", package.parent, *modulars_in(package))
    assert done.returncode == 0, done.stdout + done.stderr
    assert snapshot(package.parent) == before | {
        f"transformers/{name}": data for name, data in wheel.items()
    }


def test_models_need_not_be_importable(chain, tmp_path):
    package, wheel = chain
    for name in ("torch", "transformers"):
        broken = tmp_path / "broken" / f"{name}.py"
        broken.parent.mkdir(exist_ok=True)
        broken.write_text(f"raise ImportError('{name} is not here')\n", encoding="utf-8")
    path = {"PYTHONPATH": f"{tmp_path / 'broken'}:{REPOSITORY}"}
    for name in ("modular_converter.py", "check_modular.py"):
        done = script(name, package.parent, *modulars_in(package), **path)
        assert done.returncode == 0, done.stdout + done.stderr
    assert generated_in(package) == wheel


def test_a_changed_parent_reaches_what_derives_from_it(chain):
    """With and without a cache: what derives from a file that changes is made again, the rest is believed."""
    package, _ = chain
    script("modular_converter.py", package.parent, *modulars_in(package))
    modular = package / "models/gemma/modular_gemma.py"
    text = modular.read_text(encoding="utf-8")
    assert "class GemmaRMSNorm(nn.Module):\n" in text
    modular.write_text(text.replace("x.pow(2)", "x.square()"), encoding="utf-8")
    names = ["gemma/modeling_gemma.py", "gemma2/modeling_gemma2.py"]
    for option in ("--no-cache", "--quiet", "--quiet"):
        done = script("check_modular.py", package.parent, option, *modulars_in(package))
        assert done.returncode == 1
        assert [name for name in names if f"transformers/models/{name}:" in done.stdout] == names, (
            option
        )
        assert done.stdout.count("PG501") == 2, option
    assert script("modular_converter.py", package.parent, *modulars_in(package)).returncode == 0
    assert script("check_modular.py", package.parent, *modulars_in(package)).returncode == 0
    modular.write_text(text, encoding="utf-8")
    assert (
        script("check_modular.py", package.parent, *modulars_in(package)).stdout.count("PG501") == 2
    )


def test_a_cycle_is_an_error_that_prints_it(chain):
    package, _ = chain
    modular = package / "models/mistral/modular_mistral.py"
    text = modular.read_text(encoding="utf-8")
    modular.write_text(f"from ..gemma2.modeling_gemma2 import Gemma2MLP\n{text}", encoding="utf-8")
    gemma = package / "models/gemma/modular_gemma.py"
    added = "from ..mistral.modeling_mistral import MistralMLP\n"
    gemma.write_text(gemma.read_text(encoding="utf-8") + added, encoding="utf-8")
    done = script("modular_converter.py", package.parent, *modulars_in(package))
    assert done.returncode == 1
    assert (
        "PG630 derives from itself: modular_gemma.py -> modular_mistral.py -> modular_gemma2.py"
        in done.stdout
    )


@pytest.mark.slow
def test_the_whole_tree_comes_back(tmp_path):
    package = copy_package(PACKAGE, tmp_path / "tree")
    before = snapshot(package)
    for path in [path for path in package.glob("models/*/*.py") if is_generated(path)]:
        path.unlink()
    converted = script("modular_converter.py", package.parent, "--jobs", "2", *modulars_in(package))
    assert converted.returncode == 0, converted.stdout[-2000:] + converted.stderr
    assert snapshot(package) == before
    again = script("modular_converter.py", package.parent, "--jobs", "2", *modulars_in(package))
    assert "0 written, 0 removed, 667 unchanged" in again.stdout + again.stderr
    assert snapshot(package) == before
    checked = script("check_modular.py", package.parent, *modulars_in(package))
    assert (checked.returncode, "667 outputs: 667 ok" in checked.stdout + checked.stderr) == (
        0,
        True,
    )
    for name in (
        "modeling_llava_next.py",
        "modeling_gemma.py",
        "configuration_vivit.py",
        "processing_aria.py",
    ):
        edited = next(path for path in package.glob(f"models/*/{name}"))
        if not is_generated(edited):
            continue
        text = edited.read_text(encoding="utf-8")
        edited.write_text(f"{text}\n# by hand\n", encoding="utf-8")
        checked = script("check_modular.py", package.parent, *modulars_in(package))
        assert checked.returncode == 1
        stale = [line for line in checked.stdout.splitlines() if ": PG5" in line]
        assert len(stale) == 1 and edited.name in stale[0], checked.stdout[-2000:]
        edited.write_text(text, encoding="utf-8")

"""A variant of another project is verified by the path of its modular file."""

import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.models.pair import module_of
from patchgen.verifying.variants import Plan, find_variants, home_of
from tests.gallery import variant_at
from tests.toytree import REPOSITORY, toy_project

PYPROJECT = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
NAME = "modular_mpnet_checkpoint.py"


@pytest.fixture
def elsewhere(tmp_path):
    """The modular file of another project, converted."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    path = tmp_path / "modular" / "other" / NAME
    path.parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / "modular" / "mpnet" / NAME, path)
    subprocess.run(
        [sys.executable, "-m", "patchgen", "convert"], cwd=tmp_path, check=True, capture_output=True
    )
    return path


@pytest.mark.usefixtures("own_generated")
def test_a_module_is_imported_once(elsewhere, monkeypatch):
    # Once its folder is no longer searched, its package seems to be that of this repository.
    monkeypatch.syspath_prepend(str(REPOSITORY))
    variant = variant_at(elsewhere)
    assert module_of(variant) is module_of(variant)


@pytest.mark.slow
@pytest.mark.usefixtures("own_generated")
def test_a_variant_of_another_project_is_verified_here(elsewhere, monkeypatch):
    # A package of the same name is there already, of this project.
    monkeypatch.syspath_prepend(str(REPOSITORY))
    import generated.mpnet.modeling_mpnet_checkpoint as ours

    variant = variant_at(elsewhere)
    cases = select_cases(
        variant, find_part_checks(variant.checked_parts), Plan(dtypes=("float64",))
    )
    bench = CaseRunner(variant)
    endings = ("t closest", "of checkpoint")
    results = [bench.run(case) for case in cases if case.name.endswith(endings)]
    theirs = sys.modules["generated.other.modeling_mpnet_checkpoint"]
    assert theirs.__file__.startswith(str(elsewhere.parents[2])) and theirs is not ours
    assert {result.status for result in results} == {"PASS"}, results
    assert len(results) == 3


def test_a_file_that_no_record_has_is_said(elsewhere):
    assert variant_at(elsewhere).home == str(home_of([str(elsewhere)])) == str(elsewhere.parents[2])
    other = elsewhere.with_name("modular_other.py")
    other.write_text("")
    with pytest.raises(PatchgenError, match="PG916 is no variant that patchgen.lock records"):
        variant_at(other)


def test_a_variant_without_a_parent_in_transformers_is_said(tmp_path, monkeypatch):
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    for wanted in ([], ["v1"]):
        with pytest.raises(PatchgenError, match="v1: PG917 has no parent in transformers"):
            find_variants(tree.top, wanted)


def test_a_file_of_no_project_has_its_record_beside_it(tmp_path, monkeypatch):
    """`patchgen new` and `patchgen convert FILE` in an empty folder write it there."""
    folder = tmp_path / "modular" / "mpnet"
    folder.mkdir(parents=True)
    modular = folder / "modular_mpnet_checkpoint.py"
    shutil.copy("modular/mpnet/modular_mpnet_checkpoint.py", modular)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", str(modular)]) == 0
    (variant,) = find_variants(home_of([str(modular)]), [str(modular)])
    assert variant.name == "mpnet_checkpoint"

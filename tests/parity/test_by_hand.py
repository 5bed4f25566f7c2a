"""A variant written by hand, with no part of patchgen in it: what its diff turns on is switched on and compared."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.mutation.prove import MutationTest
from patchgen.verifying.variants import Plan
from tests.gallery import variant_at

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

LAYER = "AlbertLayer(albert.AlbertLayer, GradientCheckpointingLayer)"
MODULAR = """\
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.albert import modeling_albert as albert


class {layer}:
    pass


class AlbertPreTrainedModel(albert.AlbertPreTrainedModel):
    supports_gradient_checkpointing = True
"""
PYPROJECT = '[tool.patchgen]\nsources = ["by_hand"]\noutputs = {{ by_hand = "{made}" }}\n'
CASES = (
    "effect of checkpoint",
    "float64 full closest",
    "float32 checkpointed",
    "planted: gradient cut off",
)


def converted(folder: Path, made: str, layer: str) -> CaseRunner:
    (folder / "pyproject.toml").write_text(PYPROJECT.format(made=made))
    modular = folder / "by_hand" / "modular_albert_checkpointed.py"
    modular.parent.mkdir()
    modular.write_text(MODULAR.format(layer=layer))
    subprocess.run(
        [sys.executable, "-m", "patchgen", "convert"], cwd=folder, check=True, capture_output=True
    )
    return CaseRunner(variant_at(modular))


def run_work(bench: CaseRunner):
    variant = bench.variant
    every = select_cases(
        variant, find_part_checks(variant.checked_parts), Plan(dtypes=("float64", "float32"))
    )
    head = variant.heads[0]
    wanted = [
        case for case in every if case.head == head and any(name in case.name for name in CASES)
    ]
    return [(case, bench.run(case)) for case in wanted]


def test_checkpointing_is_switched_on_and_compared(tmp_path):
    bench = converted(tmp_path, "made_by_hand", LAYER)
    assert (bench.variant.parts, bench.variant.changes) == ((), ("checkpoint",))
    found = run_work(bench)
    assert {result.status for _, result in found} == {"PASS"}, found
    compared = [(case, result) for case, result in found if case.kind == "numbers"]
    assert compared and all(case.scenario.checkpointing is not None for case, _ in compared)


@pytest.mark.slow
def test_a_flag_without_layers_that_heed_it_fails(tmp_path):
    found = run_work(converted(tmp_path, "made_in_vain", "AlbertLayer(albert.AlbertLayer)"))
    assert any(result.status == "FAIL" for _, result in found)


@pytest.mark.slow
def test_its_few_changed_lines_ran(tmp_path):
    bench = converted(tmp_path, "made_to_run", LAYER)
    proof = MutationTest(bench.variant, bench.pair)
    cases = proof.cases(Plan(dtypes=("float64",)))
    proof.watch(next(case for case in cases if case.name.endswith("full closest")))
    lines = proof.lines_run()
    assert not lines.not_run and lines.changed == lines.ran > 2
    possible, _ = proof.mutants(None)
    assert any(mutant.says == "False becomes True" for mutant in possible)

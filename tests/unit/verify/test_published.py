"""The settings of published checkpoints use names that the models read, and they run."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patchgen.author.declare.registry import PARTS, find_part_checks
from patchgen.facts.published import PUBLISHED
from patchgen.verifying.cases import select_cases
from tests.gallery import BY_NAME
from tests.toytree import REPOSITORY

MODELS = Path(transformers.__file__).parent / "models"
EVERYWHERE = (
    "rope_parameters",
    "tie_word_embeddings",
    "num_key_value_heads",
    "pad_token_id",
    "bos_token_id",
)


@pytest.mark.parametrize("family", PUBLISHED)
def test_the_model_reads_every_name(family):
    texts = [path.read_text(encoding="utf-8") for path in sorted((MODELS / family).glob("*.py"))]
    changed = {name for setting in PUBLISHED[family] for name in setting.changes}
    names = {name.rpartition(".")[2] for name in changed} - set(EVERYWHERE)  # "text_config.x"
    assert not [
        name for name in names if not any(re.search(rf"\b{name}\b", text) for text in texts)
    ]


def test_every_family_of_the_gallery_is_there():
    assert {variant.parent.split(".")[-2] for variant in BY_NAME.values()} <= set(PUBLISHED)


@pytest.mark.parametrize("name", [name for part in PARTS.values() for name in part.settings])
def test_parts_read_what_is_said_of_them(name):
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "patchgen/parts").rglob("*.py"))
    ]
    assert any(f'"{name}"' in text for text in texts)


def test_disentangled_attention_runs():
    variant = BY_NAME["deberta_v2_sdpa_checkpoint"]
    made = [
        case
        for case in select_cases(variant, find_part_checks(variant.parts))
        if "pos_att_type" in dict(case.changes) and not case.drawn
    ]
    assert {case.scenario.rows for case in made} >= {"full", "left"}
    assert any(case.scenario.dropout and case.scenario.train for case in made)
    assert any(case.scenario.dropout and not case.scenario.train for case in made)
    assert {dict(case.changes)["pos_att_type"] for case in made} >= {"p2c|c2p", "c2p", "p2c"}

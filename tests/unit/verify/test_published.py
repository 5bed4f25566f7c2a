"""Configurations of published checkpoints: each is of names that the model reads, and they are run."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patchgen.verify.cases.select import cases
from patchgen.verify.configs.published import OF_PARTS, PUBLISHED
from patchgen.verify.parts.combine import claims_of
from patchgen.verify.variants import subjects
from tests.toytree import REPOSITORY

MODELS = Path(transformers.__file__).parent / "models"
GALLERY = {subject.name: subject for subject in subjects(REPOSITORY)}
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
    names = {name for setting in PUBLISHED[family] for name in setting.changes} - set(EVERYWHERE)
    assert not [
        name for name in names if not any(re.search(rf"\b{name}\b", text) for text in texts)
    ]


def test_every_family_of_the_gallery_is_there():
    assert {subject.parent.split(".")[-2] for subject in GALLERY.values()} <= set(PUBLISHED)


@pytest.mark.parametrize("part", OF_PARTS)
def test_parts_read_what_is_said_of_them(part):
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "patchgen/parts").rglob("*.py"))
    ]
    assert any(f'"{part}"' in text for text in texts)


def test_disentangled_attention_runs():
    subject = GALLERY["deberta_v2_sdpa_checkpoint"]
    made = [
        case
        for case in cases(subject, claims_of(subject.parts))
        if dict(case.changes).get("relative_attention")
    ]
    assert {case.scene.rows for case in made} == {"full", "left"}
    assert any(case.scene.dropout and case.scene.train for case in made)
    assert any(case.scene.dropout and not case.scene.train for case in made)
    assert {dict(case.changes)["pos_att_type"] for case in made} >= {"p2c|c2p", "c2p", "p2c"}

"""Every draft of a part converts, over all models that it fits; every nth is verified as `patchgen new` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.anatomy.module import every_module, open_module
from patchgen.author.declare.registry import PARTS as REGISTERED
from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import Draft, flatten_draft
from patchgen.author.proof import prove
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(find_package() is None, reason="the counts are of another transformers"),
]
# How many drafts there are at least, and every how many one is verified.
PARTS = {"bidirectional": (128, 9), "replay": (60, 5), "packed": (21, 4), "logprobs": (248, 12)}


def drafts(part: str) -> list[Draft]:
    env = make_environment(Path.cwd())
    writer = REGISTERED[part].writer
    assert writer is not None
    found = []
    for name in every_module(env):
        written = writer(open_module(env, name))
        if written.fits and not written.redundant:
            found.append(answer(env, name, [part]).draft)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_every_draft_converts(part: str, tmp_path: Path) -> None:
    every = drafts(part)
    assert len(every) >= PARTS[part][0]
    for draft in every:
        flatten_draft(draft, tmp_path / draft.alias)  # raises what the converter refuses


@pytest.mark.parametrize("part", PARTS)
def test_every_nth_draft_is_verified(part: str, tmp_path: Path) -> None:
    least, step = PARTS[part]
    proofs = {each.alias: prove(each, tmp_path / each.alias) for each in drafts(part)[::step]}
    failed = {name: proof.why for name, proof in proofs.items() if proof.status == "failed"}
    assert not failed
    verified = sum(proof.status == "verified" for proof in proofs.values())
    assert verified >= 0.75 * len(proofs), {n: p.why for n, p in proofs.items()}

"""A flat file of this repository is declared by patchgen's parts, as its modular file is."""

from __future__ import annotations

from patchgen.author.adopt.mixins import read_parts
from patchgen.author.adopt.parents import candidate, find_file
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import releases_in
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.toytree import REPOSITORY


def _adopted(model: str, variant: str) -> Adopted:
    path = REPOSITORY / "generated" / model / f"modeling_{variant}.py"
    package = make_environment(REPOSITORY).path("transformers")
    assert package is not None
    (release,) = releases_in(package.parent.parent, package.parent)
    fork = read_fork(path, path.name, Settings(), generated=True)
    found = candidate(fork, release, *find_file(release, model))
    return adopt(found.forked, f"modular_{variant}.py", release.root(), Settings())


def _code(text: str) -> str:
    """The text below the docstring."""
    return text.split('"""', 2)[2].strip()


def test_a_mixin_of_edits_is_found_again() -> None:
    made = _adopted("llama", "llama_loss")
    assert made.proof.holds
    assert dict(made.forked.mixins) == {"LlamaForCausalLM": ("ChunkedLoss",)}
    assert _code(made.text).endswith(
        "class LlamaForCausalLM(ChunkedLoss, llama.LlamaForCausalLM):\n    pass"
    )


def test_what_an_edit_reads_of_a_part_is_imported() -> None:
    made = _adopted("gpt2", "gpt2_gelu")
    assert made.proof.holds
    assert dict(made.forked.mixins) == {"GPT2MLP": ("FusedGelu",)}
    assert "from patchgen.parts.gelu import FusedGelu" in made.text
    assert "TANH_GELUS" not in made.text


def test_alternatives_of_one_part_are_distinguished() -> None:
    made = _adopted("gemma2", "gemma2_norm")
    assert made.proof.holds
    assert dict(made.forked.mixins) == {"Gemma2RMSNorm": ("FusedOffsetRMSNorm",)}


def test_a_mixin_brings_the_words_that_the_parent_does_not_fill_in() -> None:
    words = read_parts().mixins["ChunkedLoss"].words
    assert {"loss_without_logits", "with_place_for_logits"} <= words
    assert not words & {"head", "states", "logits", "loss", "self"}


def test_a_mixin_that_edits_what_another_brings_stands_in_front_of_it() -> None:
    made = _adopted("bert", "bert_padding_free")
    assert made.proof.holds
    assert made.forked.mixins["BertModel"] == ("PoolsEachText", "PaddingFreeEncoder")

"""A modular file as Python runs it, beside right flat files and beside those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verify.oracle.judge import judge
from tests.toytree import REPOSITORY

GALLERY = sorted(REPOSITORY.glob("modular/*/modular_*.py"))
QUICK = ("llama_loss", "llama_moe", "mpnet_sdpa_checkpoint", "gpt2_gelu_loss")


def flat_texts(modular: Path) -> dict[str, str]:
    """The generated files of a variant of the gallery, by their names."""
    stem = modular.stem.removeprefix("modular_")
    outputs = (REPOSITORY / "generated" / modular.parent.name).glob(f"*_{stem}.py")
    return {path.name: path.read_text(encoding="utf-8") for path in outputs}


def of_gallery(name: str) -> Path:
    (path,) = [path for path in GALLERY if path.stem == f"modular_{name}"]
    return path


@pytest.mark.parametrize("name", QUICK)
def test_the_gallery_is_as_python_runs_it(name: str) -> None:
    modular = of_gallery(name)
    assert judge(modular, flat_texts(modular), REPOSITORY) == []


@pytest.mark.slow
@pytest.mark.parametrize("modular", GALLERY, ids=lambda path: path.stem)
def test_the_whole_gallery_is_as_python_runs_it(modular: Path) -> None:
    assert judge(modular, flat_texts(modular), REPOSITORY) == []


# Errors in the flat file of `llama_loss`: what is replaced, by what, and what is said of it.
WRONG = {
    "a base in another order": (
        "class LlamaForCausalLM(LlamaPreTrainedModel, GenerationMixin):",
        "class LlamaForCausalLM(GenerationMixin, LlamaPreTrainedModel):",
        "LlamaForCausalLM has the order",
    ),
    "a base is lost": (
        "class LlamaForCausalLM(LlamaPreTrainedModel, GenerationMixin):",
        "class LlamaForCausalLM(LlamaPreTrainedModel):",
        "LlamaForCausalLM lacks the base GenerationMixin",
    ),
    "a member is missing": (
        "    def extra_repr(self):",
        "    def _extra_repr(self):",
        "LlamaRMSNorm has _extra_repr",
    ),
    "another signature": (
        "    def loss_from_states(self, head: Any, states: Tensor, labels: Any, given: Any, cap:",
        "    def loss_from_states(self, head: Any, labels: Any, states: Tensor, given: Any, cap:",
        "LlamaForCausalLM.loss_from_states takes",
    ),
    "another default": (
        "def __init__(self, hidden_size, eps: float = 1e-6)",
        "def __init__(self, hidden_size, eps: float = 1e-5)",
        "LlamaRMSNorm.__init__ takes",
    ),
    "another class attribute": (
        '_no_split_modules = ["LlamaDecoderLayer"]',
        '_no_split_modules = ["LlamaAttention"]',
        "_no_split_modules is",
    ),
    "another body": (
        "variance = hidden_states.pow(2).mean(-1, keepdim=True)",
        "variance = hidden_states.pow(2).mean(-1, keepdim=True) * 1.001",
        "is not what Python computes",
    ),
    "no such name": ("class LlamaModel(LlamaPreTrainedModel)", "class LlamaModel(Llama)", "import"),
}


@pytest.mark.parametrize("error", WRONG)
def test_a_wrong_flat_file_is_seen(error: str) -> None:
    right, wrong, said = WRONG[error]
    modular = of_gallery("llama_loss")
    texts = flat_texts(modular)
    (name,) = texts
    assert right in texts[name]
    found = judge(modular, {name: texts[name].replace(right, wrong)}, REPOSITORY)
    assert any(said in each for each in found), found

"""`patchgen new`: what is written for real models, and what is said where nothing is."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.declare.registry import PARTS
from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import flatten_draft
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def declared(text):
    return {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }


def test_parts_of_one_model_share_its_classes(env):
    found = answer(env, "mpnet", ["sdpa", "checkpoint", "loss"])
    assert declared(found.text) == {
        "MPNetPreTrainedModel": ["MPNetPreTrainedModel"],
        "MPNetSelfAttention": ["MPNetSelfAttention"],
        "MPNetEncoder": ["MPNetEncoder"],
        "MPNetLayer": ["MPNetLayer", "GradientCheckpointingLayer"],
        "MPNetForMaskedLM": ["LabelledTokens", "MPNetForMaskedLM"],
    }
    assert found.draft.parts == ("sdpa", "checkpoint", "loss")


# What "fast" is for models that people train: what fits of sdpa, loss, flash, kernels and norm.
FAST = {
    "loss flash kernels": (
        "qwen2 qwen3 gemma2 gemma3 llama mistral ministral ministral3 glm4 phi3 smollm3 olmo2 olmo3"
        " granite ernie4_5 cohere2"
    ),
    "loss flash norm": "xlm_roberta bert",
    "loss kernels": (
        "qwen2_moe qwen2_vl qwen2_5_vl qwen3_moe qwen3_next qwen3_vl qwen3_5 qwen3_5_moe glm4_moe"
        " deepseek_v3 phi4_multimodal granitemoehybrid lfm2 ernie4_5_moe internvl mixtral gemma4"
    ),
    "loss norm": "llama4 modernbert whisper gpt2",
    "sdpa loss kernels": "gpt_oss",
    "sdpa loss norm": "deberta_v2",
    "loss": "llava",
    "kernels": "nemotron_h falcon_h1 mamba2",
}
FAST_OF = {model: parts.split() for parts, models in FAST.items() for model in models.split()}
QUICK = ("llama", "qwen3_moe", "gpt_oss", "nemotron_h")


@pytest.mark.parametrize(
    "model",
    [model if model in QUICK else pytest.param(model, marks=pytest.mark.slow) for model in FAST_OF],
)
def test_fast_is_the_sum_of_what_fits(env, model, tmp_path):
    draft = answer(env, model, ["fast"]).draft
    assert list(draft.parts) == FAST_OF[model]
    assert draft.place.name == f"modular_{model}_fast.py"
    first, *_, why = ast.get_docstring(ast.parse(draft.text)).split("\n\n")
    assert all(part in first for part in draft.parts)
    for part in {"sdpa", "loss", "flash", "kernels", "norm"}.difference(draft.parts):
        included = part == "norm" and "kernels" in draft.parts
        assert (f"- {part}: " in why) is not included
    flatten_draft(draft, tmp_path)  # raises what the converter refuses


def test_nothing_of_a_sum_is_refused_with_each_reason(env):
    with pytest.raises(PatchgenError) as error:
        answer(env, "paligemma", ["fast"])
    reasons = {problem.what.partition(":")[0] for problem in problems_of(error.value)}
    assert reasons == {"sdpa", "loss", "flash", "kernels", "norm"}


def test_a_part_that_is_named_beside_a_sum_must_fit(env):
    with pytest.raises(PatchgenError, match="flash: the losses of its routers"):
        answer(env, "qwen3_moe", ["fast", "flash"])


CALLS = {
    "fsmt": "attn_mask, ~reshaped if key_padding_mask is not None else None, scaling=1.0",
    "mpt": "position_bias, ~attention_mask if attention_mask is not None else None, scaling=",
    "swinv2": "relative_position_bias.unsqueeze(0), (attention_mask.unsqueeze(1).unsqueeze(0) if",
}


@pytest.mark.parametrize(("model", "call"), CALLS.items(), ids=CALLS)
def test_what_is_added_to_the_scores_is_passed_on(env, model, call):
    text = ast.unparse(ast.parse(answer(env, model, ["sdpa"]).text))
    calls = "".join(line for line in text.splitlines() if "attend(" in line)
    assert re.sub(r"[()]", "", call) in re.sub(r"[()]", "", calls)


@pytest.mark.parametrize(
    ("model", "call"),
    [
        # Its attention returns the context alone where weights are not asked for.
        ("grounding_dino", "(*self.self_attn(..., output_attentions=output_attentions), None)[:2]"),
        ("flava", ""),
    ],
)
def test_a_layer_that_takes_weights_gets_none_where_nobody_asks(env, model, call):
    text = answer(env, model, ["sdpa"]).text
    assert call in text and ("None)[:2]" in text) == bool(call)


FLASH, FLEX, BOTH = "_supports_flash_attn = True", "_supports_flex_attn = True", "is_causal=self."
CONNECTED = {
    "deberta_v2": ("self.num_attention_heads)) if isinstance(rel_att, torch.Tensor) else None", ""),
    "bloom": (f"is_causal = True|allow_is_causal_skip=False|alibi = None|{FLEX}", FLASH),
    "mpnet": (f"is_causal = False|position_bias = None|{FLEX}", FLASH),
    "gptj": (
        f"key.to(value.dtype), value|scaling=1 / self.scale_attn|{FLASH}|{FLEX}",
        "is_causal = ",
    ),
    "roformer": (f"{BOTH}is_decoder and (not is_cross_attention)|{FLASH}", "is_causal = "),
    "lxmert": ("is_causal = False|attention_mask,", FLEX),  # its own masks
    "pvt_v2": (f"None, dropout=|context_layer.reshape(batch_size, seq_len|{FLASH}", ""),
    "perceiver": ("v_head_dim\n            if self.config._attn", ""),
}


@pytest.mark.parametrize(("model", "said"), CONNECTED.items(), ids=CONNECTED)
def test_attention_of_one_mask_calls_the_interface(env, model, said):
    text = ast.unparse(ast.parse(answer(env, model, ["sdpa"]).text))
    assert "ALL_ATTENTION_FUNCTIONS.get_interface(" in text and "attend(" not in text
    said, unsaid = said
    assert all(part in text for part in said.split("|"))
    assert not unsaid or unsaid not in text


REFUSED = {
    "nystromformer": "would stay eager",
    "vits": "the scores go into",
    "gemma2": "`softcap`, which SDPA does not compute",
}


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_traps_are_reasons(env, model, why):
    with pytest.raises(PatchgenError) as error:
        answer(env, model, ["sdpa"])
    problems = problems_of(error.value)
    assert any(why in problem.what for problem in problems), problems
    assert all(problem.at.line and problem.code == "PG803" for problem in problems)


def test_what_calls_sdpa_itself_is_redundant(env):
    found = answer(env, "falcon", ["sdpa"])
    assert not found.text
    assert "calls scaled_dot_product_attention itself" in found.left_out[0].redundant
    with pytest.raises(PatchgenError):
        answer(env, "falcon", ["sdpa"], force=True)


WHOLE = {
    "mpt": "its mask is made boolean where it is made",
    "nllb_moe": "its router reads the mask",
    "clvp": "its encoder and decoder share an attention",
    "groupvit": "its attention also looks at another sequence",
}


@pytest.mark.parametrize("model", WHOLE, ids=WHOLE.values())
def test_masks_that_more_than_attention_reads_stay_those_of_eager(env, model):
    text = answer(env, model, ["sdpa"]).text
    assert "for_eager(create_causal_mask)" in text
    assert "additive_mask" not in text and "causal=" not in text
    assert ", whole_mask=True)" in text or "sdpa_attention" not in text


SAID = {
    "gpt_oss": "sink_attention(..., eager",
    "granite_swa": "sink_attention(..., eager",
    "splinter": "is_causal = False",
    "align": "is_causal = False",
    "dab_detr": "self.self_attn(..., output_attentions=output_attentions)",
    "flaubert": "scores = blank_scores(q, k)\n                mask = (mask == 0)",
    # Models of other files are let be.
    "tvp": "class TvpPreTrainedModel(SdpaAroundModels,",
    "mpt": "class MptPreTrainedModel(SdpaOrEager,",
    # A table without a class for SDPA gives its eager one.
    "superglue": "with new:\n            SuperGlueSelfAttention\n",
    "git": "with new:\n            GitSelfAttention\n",
}


@pytest.mark.parametrize(("model", "said"), SAID.items(), ids=SAID)
def test_what_goes_with_the_call(env, model, said):
    assert said in answer(env, model, ["sdpa"]).text


@pytest.mark.parametrize(
    ("model", "part", "code"), [("llamaa", "sdpa", "PG801"), ("llama", "sdpaa", "PG802")]
)
def test_what_there_is_not(env, model, part, code):
    with pytest.raises(PatchgenError, match=code):
        answer(env, model, [part])


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.patchgen]\nsources = ["modular"]\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_what_converts(project, capsys):
    assert main(["new", "mpnet", "--with", "sdpa,checkpoint", "--no-proof"]) == 0
    assert "wrote modular/mpnet/modular_mpnet_sdpa_checkpoint.py" in capsys.readouterr().out
    assert main(["convert", "-q", "--no-cache", "--jobs", "1"]) == 0
    assert main(["check", "-q", "--no-cache", "--jobs", "1"]) == 0
    # Once more is the same; what somebody changed is not replaced.
    assert main(["new", "mpnet", "--with", "sdpa,checkpoint", "--no-proof"]) == 0
    path = project / "modular/mpnet/modular_mpnet_sdpa_checkpoint.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# mine\n", encoding="utf-8")
    assert main(["new", "mpnet", "--with", "sdpa,checkpoint", "--no-proof"]) != 0
    assert "PG804" in capsys.readouterr().err


def test_a_project_without_sources_is_asked_what_to_convert(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mpnet", "--with", "checkpoint", "--no-proof"]) == 0
    output = capsys.readouterr().err
    (named,) = re.findall(r"run patchgen (convert \S+),", output)
    assert main([*named.split(), "-q", "--no-cache", "--jobs", "1"]) == 0
    (tmp_path / "pyproject.toml").write_text(
        '[tool.patchgen]\nsources = ["modular"]\n', encoding="utf-8"
    )
    assert main(["new", "mpnet", "--with", "checkpoint", "--no-proof"]) == 0
    assert "names no sources" not in capsys.readouterr().err


def test_a_draft_is_verified_before_it_is_written(project, capsys):
    pytest.importorskip("torch")
    assert main(["new", "MPNet", "--with", "loss"]) == 0
    told = capsys.readouterr().err
    assert "verified in MPNetForMaskedLM: the same as the parent" in told
    assert re.search(r"counted with the default sizes, full rows: 0\.\d\d of the memory", told)


@pytest.mark.slow
def test_a_draft_that_saves_too_little_is_not_written(project, capsys):
    """GPT-2 keeps so much for its own GELU that the norms of LayerNorms are a small part."""
    pytest.importorskip("torch")
    assert main(["new", "gpt2", "--with", "norm"]) == 1
    assert "that saves less than 5%" in capsys.readouterr().err
    assert not (project / "modular").exists()
    assert main(["new", "gpt2", "--with", "norm", "--force"]) == 0
    assert "of the arithmetic" in capsys.readouterr().err
    assert (project / "modular/gpt2/modular_gpt2_norm.py").exists()


def test_a_draft_that_is_wrong_is_not_written(project, capsys, monkeypatch):
    pytest.importorskip("torch")
    norm = PARTS["norm"]

    def wrong(module):
        found = norm.writer(module)
        member = "def forward(self, x):\n    return 2 * super().forward(x)"
        return replace(found, declared=(replace(found.declared[0], members=(member,)),))

    monkeypatch.setitem(PARTS, "norm", replace(norm, writer=wrong))
    assert main(["new", "llama", "--with", "norm"]) == 1
    assert "it is wrong here: Llama" in capsys.readouterr().err
    assert not (project / "modular").exists()


def test_a_model_alone_lists_the_parts(project, capsys):
    assert main(["new", "bert"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^loss +fits +no logits in training", out, re.M)
    assert re.search(r"^sdpa +redundant +bert calls", out, re.M)
    assert (
        "bert_padding_free is in the gallery: patchgen new --from-gallery bert_padding_free" in out
    )


def test_a_model_alone_lists_what_the_gallery_has_by_hand(project, capsys):
    assert main(["new", "jetmoe"]) == 0
    assert "patchgen new --from-gallery jetmoe_grouped\n" in capsys.readouterr().out


def test_the_parts_that_fit_are_offered(env):
    with pytest.raises(PatchgenError) as error:
        answer(env, "bert", ["loss", "kernels", "norm"])
    (problem,) = problems_of(error.value)
    assert problem.hint.endswith("the others fit: --with loss,norm")


def test_dry_run_and_redundant_write_nothing(project, capsys):
    assert main(["new", "roformer", "--with", "sdpa", "--dry-run"]) == 0
    assert "class RoFormerSelfAttention" in capsys.readouterr().out
    assert main(["new", "llama", "--with", "sdpa"]) == 1
    assert "redundant" in capsys.readouterr().err
    assert not (project / "modular").exists()


@pytest.mark.parametrize("model", ["mpnet", "deberta_v2", "xglm", "roformer", "megatron_bert"])
def test_no_more_than_twelve_lines_are_the_parents(env, model):
    found = answer(env, model, ["sdpa", "checkpoint"])
    parent = {line.strip() for line in found.module.source.lines}
    longest = run = 0
    for line in found.text.splitlines():
        run = run + 1 if line.strip() and line.strip() in parent else 0
        longest = max(longest, run)
    assert longest <= 12


NORMS = {
    "llama": {"LlamaRMSNorm": ["FusedRMSNorm", "LlamaRMSNorm"]},
    "gemma2": {"Gemma2RMSNorm": ["FusedOffsetRMSNorm", "Gemma2RMSNorm"]},
    "gpt2": {
        "GPT2Block": ["GPT2Block"],
        "GPT2Model": ["LowPrecisionNorm", "GPT2Model"],
    },  # a block makes two or three
}


@pytest.mark.parametrize(("model", "classes"), NORMS.items(), ids=NORMS)
def test_each_norm_gets_what_computes_the_same(env, model, classes):
    assert declared(answer(env, model, ["norm"]).text) == classes


def test_a_norm_that_rounds_otherwise_is_left_alone(env):
    with pytest.raises(PatchgenError) as error:
        answer(env, "t5", ["norm"])
    assert "T5LayerNorm stays" in problems_of(error.value)[0].what


def test_a_part_of_an_earlier_version_says_what_takes_its_place(env):
    with pytest.raises(PatchgenError) as error:
        answer(env, "llama", ["liger"])
    assert "--with kernels,loss" in error.value.problem.hint

"""Variants that are found, limits of time and memory, and what is reported."""

import json
import math
import threading
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.errors import PatchgenError
from patchgen.verifying.differences import EQUAL, REFORMULATED, REORDERED
from patchgen.verifying.inputs.arguments import CannotBuild, Inputs
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.observe.recorder import compute_in_float64
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.combine import (
    ATTENTION,
    merge_routes,
    training_scenario,
    weights_route,
)
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.report import (
    Result,
    RunDescription,
    as_data,
    as_markdown,
    causes,
    counts,
    describe,
    find_proofs,
    from_json,
    make_open_results,
)
from patchgen.verifying.run import (
    Limits,
    Wanted,
    Work,
    _do_work,
    answers_of,
    run_work,
    verify,
)
from patchgen.verifying.variants import Plan, Variant, find_heads, find_towers, find_variants
from tests.toytree import REPOSITORY


def named(*names):
    return [variant.name for variant in find_variants(REPOSITORY, names)]


def test_a_variant_is_found_by_name_module_output_and_modular_file(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    for name in (
        "llama_loss",
        "generated.llama.modeling_llama_loss",
        "generated/llama/modeling_llama_loss.py",
        "modular/llama/modular_llama_loss.py",
    ):
        assert named(name) == ["llama_loss"]
    assert {"bert_mlm"} <= set(named("modular/bert")) <= set(named())
    with pytest.raises(PatchgenError, match="llama_loss"):
        named("lama_loss")


def test_to_verify_all_of_nothing_is_an_error(tmp_path):
    with pytest.raises(PatchgenError, match="no variant\n.*run patchgen convert"):
        find_variants(tmp_path)


def test_parent_parts_and_heads_are_read_from_the_record():
    (found,) = find_variants(REPOSITORY, ["bert_mlm"])
    assert (found.parent, found.parts) == ("transformers.models.bert.modeling_bert", ("loss",))
    assert found.heads[:2] == ("BertForMaskedLM", "BertModel")


def test_a_language_model_comes_before_a_decoder_made_of_an_encoder():
    listed = [
        "XForCausalLM",
        "XForMaskedLM",
        "XModel",
        "XPreTrainedModel",
        "XForTokenClassification",
    ]
    assert find_heads(f"__all__ = {listed}") == (
        "XForMaskedLM",
        "XModel",
        "XForCausalLM",
        "XForTokenClassification",
    )


def test_without_a_list_all_models_are_public():
    bases = {
        "XMLP": "nn.Module",
        "XPreTrainedModel": "PreTrainedModel",
        "XModel": "XPreTrainedModel",
        "XForCausalLM_KV": "XPreTrainedModel, GenerationMixin",
        "XForRegression": "XModel",
    }
    text = "\n".join(f"class {name}({above}): ..." for name, above in bases.items())
    assert find_heads(text) == ("XForCausalLM_KV", "XModel", "XForRegression")


def test_towers_are_the_public_models_that_are_no_heads():
    classes = "".join(f"\nclass {name}(XPreTrainedModel): ...\n" for name in ("XEncoder", "XModel"))
    listed = ["XConfig", "XPreTrainedModel", "XModel", "XEncoder", "imported"]
    assert find_towers(f"{classes}\n__all__ = {listed}") == ("XEncoder",)


LLAMA = Variant(
    "llama", *["transformers.models.llama.modeling_llama"] * 2, ("sdpa",), ("LlamaModel",), "."
)


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        (Limits(megabytes=1), "MB of memory, more than 1"),
        pytest.param(Limits(seconds=0.0), "took more than 0 seconds", marks=pytest.mark.slow),
    ],
    ids=["memory", "time"],
)
def test_a_case_beyond_its_limits_fails_and_is_reported(limits, note):
    first = next(run_work(Work(LLAMA, Plan(dtypes=("float32",)), "cpu"), limits))
    assert first.status == "FAIL" and note in first.note


def test_what_a_child_could_not_do_is_said_and_not_how_it_ended():
    without_a_plan = Work(LLAMA, None, "cpu")
    (answer,) = answers_of(_do_work, without_a_plan, Limits(), threading.Event())
    assert "AttributeError" in answer["fault"]


@pytest.mark.slow
def test_a_part_without_a_claim_fails():
    unclaimed = Variant("x", LLAMA.module, LLAMA.parent, ("unheard_of",), LLAMA.heads, ".")
    (result,) = verify([unclaimed], Wanted())
    assert (result.status, result.case) == ("FAIL", "all") and "unheard_of" in result.note


RESULTS = (
    Result("llama", "a", "PASS", 0.0, 1e-5, "relative", "well"),
    Result("llama", "b", "FAIL", float("inf"), 1e-5, "relative", "a|b"),
)


def test_results_go_through_json_infinity_included():
    data = json.loads(json.dumps(as_data(RESULTS, RunDescription("patchgen verify", "cpu", ()))))
    assert data["counts"] == counts(RESULTS) == {"PASS": 1, "WARN": 0, "FAIL": 1, "NONE": 0}
    assert [from_json(case) for case in data["cases"]] == list(RESULTS)


SILENT = Result("llama", "LlamaModel float32 full closest", "NONE", note="it cannot be built")
PLANTED = Result(
    "llama",
    "LlamaModel float32 planted: scale (sdpa)",
    "PASS",
    math.inf,
    1e-5,
    "relative",
)
LOADED = Result("llama", "LlamaModel checkpoints", "PASS")


NEVER_RUN = tuple(make_open_results("llama", ["no image was fed"], {}))
LATE = tuple(make_open_results("llama", [], {"cases": 78, "planted errors": 3}))


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ((SILENT, RESULTS[0]), "proven"),
        ((SILENT, PLANTED, LOADED), "not proven: nothing was compared"),
        ((RESULTS[0], *NEVER_RUN), "not proven: no image was fed"),
        ((RESULTS[0], *LATE), "not proven: 78 cases did not fit"),
        ((*RESULTS, *NEVER_RUN), "fails: 1 of 3 cases"),
    ],
)
def test_a_variant_is_proven_only_where_all_that_it_needs_has_run(results, words):
    proofs = find_proofs(["llama", "other"], results)
    assert str(proofs["llama"]).startswith(words)
    assert str(proofs["other"]).startswith("not proven: nothing was compared")


def test_combinations_and_planted_errors_that_are_left_out_change_no_verdict():
    late = make_open_results("llama", [], {"cases": 0, "combinations": 90, "planted errors": 3})
    assert str(find_proofs(["llama"], [RESULTS[0], *late])["llama"]) == "proven"


def test_fails_of_one_cause_are_one_line_the_most_first():
    fails = [
        Result("x", "one", "FAIL", note="other tokens"),
        *(Result("x", case, "FAIL", note=case, cause="`A` differs") for case in ("two", "three")),
    ]
    found = [(cause, len(results)) for cause, results in causes([*fails, RESULTS[0]])]
    assert found == [("x: `A` differs", 2), ("x: other tokens", 1)]


def test_an_edited_file_and_what_differs_are_said_first():
    variant = replace(LLAMA, edited=True, differs=(("training", "noise"),))
    edited, declared = describe(variant)
    assert edited.status == "WARN" and "is not what patchgen.lock records" in edited.note
    assert declared.note == "training (noise)"


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((SILENT, LOADED), 4),
        ((SILENT, RESULTS[0]), 0),
        ((RESULTS[0], *NEVER_RUN), 4),
        ((RESULTS[1], *NEVER_RUN), 1),
    ],
)
def test_what_is_not_proven_has_a_code_of_its_own(results, code, monkeypatch, capsys):
    monkeypatch.setattr("patchgen.verifying.run.verify", lambda *args: results)
    monkeypatch.setattr("patchgen.verifying.variants.find_variants", lambda *args: (LLAMA,))
    from patchgen.cli.commands.verify import verify as command

    switches = {
        "everything": True,
        "full": False,
        "dtypes": (),
        "device": "cpu",
        "jobs": 1,
        "form": "text",
    }
    switches |= {"mutants": "none", "seed": 0}
    assert (
        command.callback([], **switches, report=None, verbose=False, seconds=1, megabytes=1) == code
    )
    first = capsys.readouterr().out.partition("\n")[0]
    assert first == f"llama: {find_proofs(['llama'], results)['llama']}"


def test_a_page_says_whether_a_gpu_was_there():
    for device, words in [("cpu", "No GPU"), ("NVIDIA H100", "The kernels of NVIDIA H100 ran")]:
        assert words in as_markdown([LLAMA], RESULTS, RunDescription("patchgen verify", device, ()))


def test_the_loosest_bound_of_several_parts_counts():
    assert max(EQUAL, REFORMULATED, REORDERED) is REFORMULATED
    assert EQUAL.at(torch.float32) == EQUAL.at(torch.bfloat16) == 0
    assert REORDERED.at(torch.float64) < REORDERED.at(torch.float32) < REORDERED.at(torch.bfloat16)


def test_nothing_is_computed_in_float32_where_all_is_widened():
    x = torch.full((3,), 1 / 3, dtype=torch.float64)
    assert x.float().dtype == torch.float32
    with compute_in_float64():
        for wide in (x.float(), x.to(torch.float32), torch.softmax(x, -1, dtype=torch.float32)):
            assert wide.dtype == torch.float64


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("T5ForConditionalGeneration", {"input_ids", "labels"}),
        ("T5Model", {"input_ids", "decoder_input_ids"}),
        ("ViTForImageClassification", {"pixel_values", "labels"}),
        ("BertForMultipleChoice", {"input_ids", "labels"}),
        ("BertForQuestionAnswering", {"input_ids", "start_positions", "end_positions"}),
        ("BertForPreTraining", {"input_ids", "labels", "next_sentence_label"}),
        ("T5ForSequenceClassification", {"input_ids", "labels"}),
        # Its processor says where images are, not a token of its configuration.
        ("MiniCPMV4_6ForConditionalGeneration", {"input_ids", "labels"}),
    ],
)
def test_a_model_of_any_kind_is_given_what_it_takes(model, names):
    import transformers

    model_class = getattr(transformers, model)
    config = tiny_config(model_class.config_class)
    inputs = make_inputs(model_class, config, Scenario())
    assert set(inputs.given) == names
    with torch.no_grad():
        model_class(config)(
            **{n: t.float() if t.is_floating_point() else t for n, t in inputs.given.items()}
        )


def test_each_choice_is_a_row_of_its_own_where_it_is_padded():
    import transformers

    config = tiny_config("bert")
    inputs = make_inputs(transformers.BertForMultipleChoice, config, Scenario(rows="right"))
    (real,) = inputs.real
    assert torch.equal(inputs.given["attention_mask"].flatten(0, 1).bool(), real)
    observed = observe_step(
        transformers.BertForMultipleChoice(config), inputs, Scenario(rows="right")
    )
    assert observed["hidden_states.1"].shape == (int(real.sum()), config.hidden_size)


def test_what_cannot_be_made_is_said():
    import transformers

    vit = transformers.ViTForImageClassification
    with pytest.raises(CannotBuild, match="no text to pad"):
        make_inputs(vit, tiny_config("vit"), Scenario(rows="left"))


def test_what_is_run_again_in_the_backward_pass_is_wide_too():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    observed = []

    class Layer(torch.nn.Module):
        def forward(self, given):
            wide = given.float() * 2
            observed.append(wide.dtype)
            return wide.sin().float()  # the recompute ends before its end

    with compute_in_float64():
        torch.utils.checkpoint.checkpoint(Layer(), x, use_reentrant=False).sum().backward()
    assert observed == [torch.float64] * 2


def test_buffers_are_as_before_after_a_step():
    class Normed(torch.nn.BatchNorm1d):
        dtype = torch.float32

        def forward(self, x, return_dict, output_hidden_states):
            return {"logits": super().forward(x)}

    model, x = Normed(4), torch.randn(5, 4)
    before = model.running_mean.clone()
    for _ in range(2):
        observe_step(model, Inputs({"x": x}), Scenario(train=True))
        assert torch.equal(model.running_mean, before) and model.num_batches_tracked == 0


def test_parts_that_leave_attention_alone_follow_one_that_does_not():
    mpnet = Variant(
        "mpnet",
        *["transformers.models.mpnet.modeling_mpnet"] * 2,
        ("sdpa", "checkpoint"),
        ("X",),
        ".",
    )
    from transformers import MPNetForMaskedLM

    part_checks = find_part_checks(mpnet.parts)
    closest, independent = merge_routes(part_checks, MPNetForMaskedLM)
    assert closest == independent
    assert (closest.parent, closest.variant) == ({ATTENTION: "eager"}, {ATTENTION: "sdpa"})
    assert training_scenario(part_checks, "left") == Scenario(
        rows="left", train=True, checkpointing={}
    )
    alone = part_checks[1:]
    along = weights_route(alone, merge_routes(alone, MPNetForMaskedLM))
    assert along.parent == along.variant == {ATTENTION: "eager"}


def test_a_part_that_needs_an_attention_decides_it_for_those_that_do_not():
    from transformers import LlamaForCausalLM

    for parts in (("flash", "loss", "norm"), ("norm", "flash"), ("checkpoint", "flash", "tiles")):
        _, independent = merge_routes(find_part_checks(parts), LlamaForCausalLM)
        along = independent.parent[ATTENTION], independent.variant[ATTENTION]
        assert along == ("eager", "varlen"), parts


def test_attention_weights_are_asked_of_the_path_that_gives_them():
    from transformers import LlamaForCausalLM

    for parts, asked in ((("sdpa",), "sdpa"), (("flash",), "eager"), (("flash", "loss"), "eager")):
        part_checks = find_part_checks(parts)
        along = weights_route(part_checks, merge_routes(part_checks, LlamaForCausalLM))
        assert (along.parent[ATTENTION], along.variant[ATTENTION]) == ("eager", asked), parts

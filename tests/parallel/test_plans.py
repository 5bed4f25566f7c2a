"""Plans and names of models, for several processes, devices and checkpoints, exist; errors are
found.
"""

import importlib
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (
    BertConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
)

from patchgen.runtime.plans import (
    compared,
    find_plan_faults,
    generic,
    parent_on_meta,
    plan_of,
    require_plans,
    splits,
)
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.checks.context import Case
from patchgen.verifying.checks.running import both_on_meta
from patchgen.verifying.models.build import on_meta
from patchgen.verifying.models.pair import Pair
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
}


def generated(name):
    return importlib.import_module(BY_NAME[name].module)


def codes(model):
    return [(one.kind, one.rule, one.code) for one in find_plan_faults(model)]


def splits_of(model):
    return splits(model, plan_of(model, "tp"))


def llama(**changes):
    return on_meta(LlamaForCausalLM, LlamaConfig(**SIZES, **changes))


def mixture(**changes):
    module = generated("llama_moe")
    config = module.LlamaMoeForCausalLM.config_class(**SIZES, **changes)
    return on_meta(module.LlamaMoeForCausalLM, config)


def refusal(*args, **kwargs):
    with pytest.raises(PatchgenError) as refused:
        require_plans(*args, **kwargs)
    return problems_of(refused.value)


# --- the gallery


@pytest.mark.parametrize("name", BY_NAME)
def test_the_first_class_of_each_variant_carries_what_is_there(name):
    insist_on_what_is_there(BY_NAME[name], BY_NAME[name].heads[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_every_other_class_of_the_gallery_carries_what_is_there(name):
    for head in BY_NAME[name].heads[1:]:
        insist_on_what_is_there(BY_NAME[name], head)


def insist_on_what_is_there(variant, head):
    parent, model = both_on_meta(Pair(variant, head))
    found = compared(model, parent)
    assert not found.wrong, (head, *map(str, found.wrong))
    assert found.checked or not find_plan_faults(parent), head
    found_by_itself = parent_on_meta(model)
    assert type(found_by_itself) is type(parent) and splits_of(found_by_itself) == splits_of(
        parent
    ), head


def test_the_gallery_has_plans_of_each_kind():
    """Or nothing would be shown by it."""
    model = mixture()
    assert all(plan_of(model, kind) for kind in ("tp", "ep"))
    checked = compared(
        *[on_meta(generated("llama_loss").LlamaForCausalLM, LlamaConfig(**SIZES)), llama()]
    ).checked
    assert checked >= 10


def test_verify_has_a_case_for_every_head():
    from patchgen.author.declare.registry import find_part_checks
    from patchgen.verifying.cases import select_cases

    variant = BY_NAME["bert_mlm"]
    made = [
        case.head
        for case in select_cases(variant, find_part_checks(variant.parts))
        if case.kind == "plans"
    ]
    assert sorted(made) == sorted(variant.heads) and len(made) > 5


def verdict(name, head):
    return CaseRunner(replace(BY_NAME[name])).run(Case(f"{head} plans", "plans", head))


def test_verify_counts_what_it_looked_up():
    found = verdict("llama_moe", "LlamaMoeForCausalLM")
    assert found.status == "PASS" and "each of something that is there" in found.note
    assert int(found.note.split()[0]) > 10


def test_verify_warns_of_what_the_parent_has_dead_too():
    found = verdict("qwen3_moe_checkpoint_loss", "Qwen3MoeForCausalLM")
    assert (
        found.status == "WARN"
        and "mlp.gate_proj" in found.note
        and "the parent has these too" in found.note
    )


# --- planted errors


def test_verify_sees_a_rule_that_matches_nothing(monkeypatch):
    monkeypatch.setattr(
        generated("llama_loss").LlamaForCausalLM, "_tp_plan", {"lm_haed": "colwise_gather_output"}
    )
    found = verdict("llama_loss", "LlamaForCausalLM")
    assert found.status == "FAIL" and "lm_haed" in found.note
    assert "lm_head.weight: is whole on every process" in found.note


def test_verify_sees_a_class_of_the_parent_that_is_renamed(monkeypatch):
    module = generated("llama_moe")
    assert module.LlamaMoePreTrainedModel._no_split_modules == ["LlamaMoeDecoderLayer"]
    monkeypatch.setattr(module.LlamaMoePreTrainedModel, "_no_split_modules", ["LlamaDecoderLayer"])
    found = verdict("llama_moe", "LlamaMoeForCausalLM")
    assert (
        found.status == "FAIL"
        and "no_split LlamaDecoderLayer: no module is of this class" in found.note
    )


def test_verify_sees_a_part_that_drops_the_rules(monkeypatch):
    models = generated("llama_loss").LlamaPreTrainedModel
    make = models.post_init

    def drop(model):
        make(model)
        model.base_model._tp_plan = {"embed_tokens": "embedding_rowwise"}

    monkeypatch.setattr(models, "post_init", drop)
    found = verdict("llama_loss", "LlamaForCausalLM")
    assert found.status == "FAIL"
    assert "self_attn.q_proj.weight: is whole on every process" in found.note


def test_a_plan_for_other_layers_is_seen():
    model = llama()
    assert codes(model) == []
    model._tp_plan["model.layers.*.self_attn.qkv_proj"] = "colwise"
    assert codes(model) == [("tp", "model.layers.*.self_attn.qkv_proj", "PG840")]


@pytest.mark.parametrize(
    ("rule", "style", "message"),
    [
        ("model.layers.*.mlp", "colwise", "LlamaMLP has no out_features"),
        ("model.layers.*.mlp", "rowwise", "LlamaMLP has no in_features"),
        ("lm_head", "embedding_rowwise", "this is a Linear"),
        ("lm_head", "columnwise", "there is no style columnwise"),
        ("model.layers.*.mlp", "ep_dispatch_experts", "does not say num_experts"),
        ("model.layers.*.mlp.experts", "moe_tp_experts", "no module"),
    ],
)
def test_a_style_that_does_not_fit_is_seen(rule, style, message):
    model = llama()
    model._tp_plan[rule] = style
    assert [one.what for one in find_plan_faults(model) if message in one.what], find_plan_faults(
        model
    )


def test_rules_for_experts_leave_nothing_that_every_process_would_add():
    model = mixture(mlp_bias=True)
    experts = "model.layers.*.mlp.experts"
    assert codes(model) == []
    del model._ep_plan[f"{experts}.down_proj_bias"]
    assert codes(model) == [("ep", experts, "PG841")]
    model._ep_plan = {}
    model._tp_plan = {experts: "moe_tp_experts", f"{experts}.gate_up_proj": "packed_colwise"}
    [found] = find_plan_faults(model)
    assert "each rank would add its" in found.what and "down_proj" in found.what
    model._tp_plan = {f"{experts}.gate_up_proj_bias": "packed_colwise"}
    [found] = find_plan_faults(model)
    assert "by expert" in found.what


def test_a_layer_that_is_said_to_stay_whole_is_there():
    model = llama()
    model._no_split_modules = {"LlamaLayer"}
    assert codes(model) == [("no_split", "LlamaLayer", "PG844")]


# --- before a run


def test_a_run_needs_a_plan():
    bert = on_meta(importlib.import_module("transformers").BertForMaskedLM, BertConfig(**SIZES))
    [problem] = refusal(bert, "tp")
    assert (
        problem.code == "PG842"
        and "BertForMaskedLM: PG842 has no plan for tensor parallelism" in str(problem)
    )
    assert require_plans(llama(), "tp") == ()


def test_a_part_says_why_it_has_no_plan():
    [problem] = refusal(mixture(mlp_bias=True), "tp")
    assert problem.code == "PG842" and "experts with biases are split whole" in problem.what
    assert require_plans(mixture(mlp_bias=True), "ep") == ()


def test_a_rule_without_a_layer_ends_a_run_unless_it_is_the_parents():
    parent, model = llama(), llama()
    model._tp_plan["model.layers.*.mlp.gate"] = "colwise"
    [problem] = refusal(model, "tp", parent)
    assert problem.code == "PG840" and "mlp.gate" in problem.what
    assert [one.rule for one in require_plans(model, "tp", model)] == ["model.layers.*.mlp.gate"]
    assert [one.rule for one in require_plans(model, "tp")] == ["model.layers.*.mlp.gate"]
    model._tp_plan = {"layers.*.mlp.gate": "colwise"}
    assert refusal(model, "tp")[0].code == "PG840"  # nothing would be split


def test_a_layer_that_the_parent_splits_ends_a_run():
    parent, model = llama(), llama()
    del model._tp_plan["model.layers.*.mlp.down_proj"]
    [problem] = refusal(model, "tp", parent)
    assert problem.code == "PG843" and "model.layers.*.mlp.down_proj.weight" in problem.what
    model._tp_plan["model.layers.*.mlp.down_proj"] = "rows"
    assert {problem.code for problem in refusal(model, "tp", parent)} == {"PG841", "PG843"}


def test_a_generated_model_is_held_against_its_parent(monkeypatch):
    """Whoever trains it need not say which one that is."""
    module = generated("llama_moe")
    assert require_plans(mixture(), "tp") == ()
    monkeypatch.setattr(module, "split_experts", lambda model: None)
    assert {problem.code for problem in refusal(mixture(), "tp")} == {"PG840", "PG843"}
    assert parent_on_meta(llama()) is None


# --- the parts' own rules


def rules(plan, within):
    return {path.partition(within)[2]: style for path, style in plan.items() if within in path}


def test_a_mixture_is_split_as_mixtral_is():
    model = mixture()
    tp, ep = MixtralConfig.base_model_tp_plan, MixtralConfig.base_model_ep_plan
    assert rules(plan_of(model, "tp"), "layers.*.") == rules(tp, "layers.*.")
    assert rules(plan_of(model, "ep"), "layers.*.") == rules(ep, "layers.*.")
    assert plan_of(model, "tp").keys() > {"lm_head", "model.embed_tokens"}
    # Every matrix but the routers', as in Mixtral.
    whole = {generic(name) for name, each in model.named_parameters() if each.dim() > 1}
    whole -= {generic(name) for name in splits_of(model)}
    assert whole == {"model.layers.*.mlp.router.weight"}


def test_layers_without_experts_keep_the_rules_of_their_ffn():
    model = mixture(moe_every=2)
    assert rules(plan_of(model, "tp"), ".mlp.").keys() == {
        *("gate_proj", "up_proj", "down_proj"),
        *("experts", "experts.gate_up_proj", "experts.down_proj"),
    }
    assert codes(model) == []


def test_a_mixture_whose_parent_has_no_plan_is_split_by_expert_alone():
    module = generated("bert_moe")
    model = on_meta(module.BertMoeForMaskedLM, module.BertMoeForMaskedLM.config_class(**SIZES))
    assert plan_of(model, "tp") == {} and refusal(model, "tp")[0].code == "PG842"
    assert set(rules(plan_of(model, "ep"), "bert.encoder.layer.*.intermediate.")) == {
        *(
            "experts",
            "experts.up_proj",
            "experts.up_proj_bias",
            "experts.down_proj",
            "experts.down_proj_bias",
        )
    }
    assert require_plans(model, "ep") == ()

"""`patchgen new --with linears`: loops over experts that the part knows, and those that it refuses."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, open_module
from patchgen.author.declare.linears import linears
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

WRITTEN = {
    "mixtral": ("GateAndUp", "InitializedAsLinears"),
    "qwen3_moe": ("GateAndUp", "InitializedAsLinears"),
    "deepseek_v3": ("GateAndUp", "InitializedAsLinears"),
    "deepseek_v4": ("GateUpTogether", "InitializedAsLinears"),  # it has an `_apply_gate`
    "step3p7": ("GateUpTogether", "InitializedAsLinears"),
    "nemotron_h": ("UpAlone", "UngatedInitializedAsLinears"),
}
REFUSED = {
    "llama": "no class here has the weights of experts in stacked parameters",
    "dbrx": "no class here has the weights of experts in stacked parameters",
    "gpt_oss": "torch.empty(self.num_experts, self.hidden_size, 2 * self.intermediate_size)",
    "aria": "torch.empty(self.num_experts, self.hidden_dim, 2 * self.intermediate_dim)",
    "longcat_flash": "torch.empty(self.total_experts, 2 * self.intermediate_size",
    "diffusion_gemma": "names stacked weights of experts: encoder.language_model",
}


def declared(model):
    env = make_environment(Path.cwd())
    return linears(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "mixins"), WRITTEN.items(), ids=WRITTEN)
def test_experts_and_their_model_get_the_mixins_that_fit(model, mixins):
    found = declared(model)
    experts, begins = mixins
    assert found.fits and not found.missing
    assert [one.mixins for one in found.declared] == [(experts,), ("ModelOfLinears", begins)]


def test_every_class_of_models_is_told_and_every_rule_for_experts_goes():
    found = {one.name: one.mixins for one in declared("qwen3_omni_moe").declared}
    assert found["Qwen3OmniMoeThinkerTextExperts"] == found["Qwen3OmniMoeTalkerTextExperts"]
    assert found["Qwen3OmniMoePreTrainedModel"] == ("ModelOfLinears", "InitializedAsLinears")


def test_experts_that_run_on_all_tokens_stay_as_they_are():
    found = declared("inkling")
    (missing,) = found.missing
    assert found.fits and not missing.fatal
    assert missing.what.startswith("InklingSharedExperts: ")
    models = [one.mixins for one in found.declared if one.name == "InklingPreTrainedModel"]
    assert models == [("ModelOfLinears", "InitializedAsLinears")]


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_weights_in_another_layout_are_refused_with_their_statement(model, why):
    (missing,) = declared(model).missing
    assert missing.fatal and why in missing.what
    assert (missing.at.line > 0) is ("no class here" not in why)

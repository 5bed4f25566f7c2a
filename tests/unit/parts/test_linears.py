"""Experts as Linears: checkpoints go both ways, and adapters on experts learn what stacked weights would."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file

from tests.drafts import both_classes, tiny

pytestmark = pytest.mark.filterwarnings("ignore")

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
MODELS = {
    # Checkpoints of experts by themselves: under other names, and under those of Linears.
    "mixtral": "MixtralForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    # Of stacked weights: under other names, transposed, and as the model has them.
    "granitemoe": "GraniteMoeForCausalLM",
    "qwen3_vl_moe": "Qwen3VLMoeForConditionalGeneration",
    "gemma4": "Gemma4ForCausalLM",
    # Without a gate; and of two kinds of experts in one list.
    "nemotron_h": "NemotronHForCausalLM",
    "ernie4_5_vl_moe": "Ernie4_5_VLMoeForConditionalGeneration",
}
# Else a tiny Gemma has no experts.
CHANGES = {"enable_moe_block": True}
LINEARS = ["gate_linear", "up_linear", "down_linear"]
IDS = torch.arange(10, 34).view(2, 12)
models = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    home = tmp_path_factory.mktemp("linears")
    kept = {}

    def both(model):
        if model not in kept:
            kept[model] = both_classes(model, "linears", MODELS[model], home / model)
        return kept[model]

    return both


def saved(model, folder, **how):
    model.save_pretrained(folder, **how)
    return {n: t for path in folder.glob("*.safetensors") for n, t in load_file(path).items()}


def loaded(kind, folder, **how):
    model, report = kind.from_pretrained(folder, output_loading_info=True, **how)
    assert not any(report.values()), report
    return model.eval()


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@models
def test_checkpoints_go_both_ways(classes, model, tmp_path):
    parent, variant = classes(model)
    stock = tiny(parent, "eager", **CHANGES)
    theirs = saved(stock, tmp_path / "theirs")
    saved(stock, tmp_path / "stacked", save_original_format=False)
    ours = loaded(variant, tmp_path / "theirs")
    assert any(name.endswith(".experts.1.up_linear.weight") for name in ours.state_dict())
    assert equal(loaded(variant, tmp_path / "stacked").state_dict(), ours.state_dict())
    # Twice: transformers turns conversions round in place.
    for folder in ("once", "again"):
        assert equal(saved(ours, tmp_path / folder), theirs)
    assert equal(loaded(parent, tmp_path / "once").state_dict(), stock.state_dict())


@models
def test_a_model_that_was_not_loaded_is_saved_as_the_parent(classes, model, tmp_path):
    parent, variant = classes(model)
    names = saved(tiny(parent, "eager", **CHANGES), tmp_path / "theirs").keys()
    assert saved(tiny(variant, "eager", **CHANGES), tmp_path / "ours").keys() == names
    loaded(parent, tmp_path / "ours")


def test_a_head_takes_the_checkpoint_of_the_base_model(classes, tmp_path):
    parent, variant = classes("mixtral")
    saved(tiny(parent, "eager").model, tmp_path)
    head = variant.from_pretrained(tmp_path)
    base = head.model.state_dict()
    stock = parent.from_pretrained(tmp_path).model.state_dict()
    down = stock["layers.0.mlp.experts.down_proj"]
    assert torch.equal(base["layers.0.mlp.experts.2.down_linear.weight"], down[2])


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_model_has_its_own_number_of_experts(classes, tmp_path, number):
    parent, variant = classes("granitemoe")
    stock = tiny(parent, "eager", num_local_experts=4, num_experts_per_tok=max(number, 1))
    saved(stock, tmp_path)
    ours = loaded(variant, tmp_path, **EAGER)
    assert torch.allclose(ours(IDS).logits, stock(IDS).logits, atol=1e-5)


# --- adapters


def adapted(model, **how):
    peft = pytest.importorskip("peft")
    config = {"r": 2, "lora_alpha": 6, "init_lora_weights": False, **how}
    return peft.get_peft_model(model, peft.LoraConfig(**config))


def step(model):
    model(input_ids=IDS, labels=IDS).loss.backward()


def test_adapters_find_experts_here_and_not_in_the_parent(classes):
    parent, variant = classes("mixtral")
    stock, ours = tiny(parent, "eager"), tiny(variant, "eager")
    linears = [n for n, each in stock.named_modules() if isinstance(each, torch.nn.Linear)]
    assert linears and not any(".experts." in name for name in linears)
    with pytest.raises(ValueError, match="not found in the base model"):
        adapted(stock, target_modules=LINEARS)
    weights = [n for n, _ in adapted(ours, target_modules=LINEARS).named_parameters()]
    experts, layers = ours.config.num_local_experts, ours.config.num_hidden_layers
    assert sum("lora_A" in name for name in weights) == 3 * experts * layers


@pytest.mark.parametrize("model", ["mixtral", "qwen3_moe"])
def test_every_linear_is_one_of_an_expert_too(classes, model):
    """PEFT takes `gate_proj` and `w1` of these models for stacked weights; these names it leaves."""
    _, variant = classes(model)
    ours = adapted(tiny(variant, "eager"), target_modules="all-linear")
    step(ours)
    trained = [name for name, each in ours.named_parameters() if each.grad is not None]
    for linear in ("q_proj", *LINEARS):
        assert any(f".{linear}.lora_A" in name for name in trained)


def test_adapters_learn_what_stacked_weights_would(classes, tmp_path):
    """By the gradients of the parent's stacked weights, where adapters are merged into them."""
    parent, variant = classes("mixtral")
    saved(tiny(parent, "eager"), tmp_path / "base")
    ours = adapted(loaded(variant, tmp_path / "base", **EAGER), target_modules=LINEARS).double()
    step(ours)
    saved(copy.deepcopy(ours).merge_and_unload(), tmp_path / "merged")
    stock = loaded(parent, tmp_path / "merged", dtype=torch.float64, **EAGER)
    step(stock)
    assert torch.allclose(stock(IDS).logits, ours(IDS).logits, atol=1e-12)
    stacked = dict(stock.named_parameters())
    compared = 0
    for name, layer in ours.get_base_model().named_modules():
        experts, _, own = name.rpartition(".experts.")
        if not hasattr(layer, "lora_A"):
            continue
        expert, linear = own.split(".")
        weight = "down_proj" if linear == "down_linear" else "gate_up_proj"
        rows = stacked[f"{experts}.experts.{weight}"].grad[int(expert)]
        if weight == "gate_up_proj":
            rows = rows.chunk(2)[linear == "up_linear"]
        first, second = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        if first.grad is None:  # no token chose the expert
            assert not rows.any()
            continue
        assert torch.allclose(first.grad, 3 * second.T @ rows, atol=1e-12)
        assert torch.allclose(second.grad, 3 * rows @ first.T, atol=1e-12)
        compared += bool(rows.any())
    assert compared > 6


def test_an_adapter_is_saved_and_loaded(classes, tmp_path):
    peft = pytest.importorskip("peft")
    parent, variant = classes("qwen3_moe")
    saved(tiny(parent, "eager"), tmp_path / "base")
    ours = adapted(loaded(variant, tmp_path / "base"), target_modules=LINEARS).eval()
    ours.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(loaded(variant, tmp_path / "base"), tmp_path / "adapter")
    assert torch.equal(again.eval()(IDS).logits, ours(IDS).logits)


def test_four_bits_reach_experts(classes, tmp_path):
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    parent, variant = classes("mixtral")
    # Its kernels for CPUs take blocks of 32 rows.
    sizes = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32}
    saved(tiny(parent, "eager", **sizes), tmp_path / "base")
    four = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)
    how = {"quantization_config": four, "device_map": "cpu"}
    stock, ours = (loaded(kind, tmp_path / "base", **how) for kind in (parent, variant))
    assert ours.get_memory_footprint() < stock.get_memory_footprint() / 2
    saved(ours, tmp_path / "four")
    assert torch.equal(loaded(variant, tmp_path / "four")(IDS).logits, ours(IDS).logits)
    trained = adapted(ours, target_modules=LINEARS)
    step(trained)
    assert any("lora_A" in n and p.grad is not None for n, p in trained.named_parameters())

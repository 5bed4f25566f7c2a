"""The fused part: checkpoints both ways, what is refused, and GELU by one operation."""

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file
from transformers import (
    GPT2Config,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.activations import ACT2FN
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import Chunk, PermuteForRope, Split, WeightConverter

from patchgen.parts.fused import (
    TANH_GELUS,
    FusedLinear,
    FusedProjections,
    KnownConversions,
    Rows,
)
from patchgen.verify.models.weights import draw_weights
from patchgen.verify.parts.part_check import load_strictly

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "vocab_size": 50,
}
BIASED = LlamaConfig(**SIZES, num_key_value_heads=2, attention_bias=True, mlp_bias=True, head_dim=4)


@pytest.fixture(scope="module")
def fused():
    return importlib.import_module("generated.llama.modeling_llama_fused")


@pytest.fixture
def parent():
    model = LlamaForCausalLM(BIASED).double().eval()
    draw_weights(model)
    return model


IDS = torch.arange(14).view(2, 7)


def test_rows_are_joined_and_split():
    q, k, v = torch.randn(8, 3), torch.randn(2, 3), torch.randn(2, 3)
    names = ["q", "k", "v"]
    join = Rows(dict(zip(names, (8, 2, 2), strict=True)))
    # The order of the names counts, not that of the checkpoint.
    joined = join.convert(
        {"v": [v], "q": [q], "k": [k]}, source_patterns=names, target_patterns=["qkv"]
    )["qkv"]
    assert torch.equal(joined, torch.cat((q, k, v)))
    back = join.reverse_op.convert(
        {"qkv": [joined]}, source_patterns=["qkv"], target_patterns=names
    )
    assert all(torch.equal(back[name], each) for name, each in zip(names, (q, k, v), strict=True))


def test_biased_projections_keep_their_biases(fused, parent, tmp_path):
    """The tiny Llama of `patchgen verify` has none."""
    parent.save_pretrained(tmp_path)
    model = load_strictly(fused.LlamaForCausalLM, tmp_path, dtype=torch.float64).eval()
    torch.testing.assert_close(model(IDS).logits, parent(IDS).logits, rtol=1e-12, atol=1e-12)
    layer = model.model.layers[0].self_attn.qkv_proj
    layer.bias.data.zero_()
    assert (model(IDS).logits - parent(IDS).logits).abs().max() > 0.1


@pytest.mark.parametrize(
    "name", ["LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"]
)
@pytest.mark.parametrize("saved", [LlamaModel, LlamaForCausalLM], ids=lambda each: each.__name__)
def test_every_class_reads_the_base_model_and_a_head(fused, parent, tmp_path, name, saved):
    (parent.model if saved is LlamaModel else parent).save_pretrained(tmp_path)
    _, report = getattr(fused, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["mismatched_keys"] and not {"qkv", "gate", "up_proj"} & {
        part for key in report["missing_keys"] for part in key.split(".")
    }
    assert all("head" in key or "score" in key for key in report["missing_keys"])


def test_a_new_model_is_saved_as_the_parent_reads_it(fused, tmp_path):
    model = fused.LlamaForCausalLM(BIASED).eval()
    model.save_pretrained(tmp_path / "new")
    assert not any(
        "qkv" in key or "gate_up" in key
        for key in load_file(tmp_path / "new" / "model.safetensors")
    )
    back = load_strictly(LlamaForCausalLM, tmp_path / "new").eval()
    torch.testing.assert_close(back(IDS).logits, model(IDS).logits)
    model.save_pretrained(tmp_path / "fused", save_original_format=False)
    again = load_strictly(fused.LlamaForCausalLM, tmp_path / "fused").eval()
    assert torch.equal(again(IDS).logits, model(IDS).logits)


def test_transformers_own_llama_stays_as_it_is(fused, parent, tmp_path):
    fused.LlamaForCausalLM(BIASED)
    parent.save_pretrained(tmp_path)
    load_strictly(LlamaForCausalLM, tmp_path)
    _, report = LlamaModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]


def test_plans_name_what_is_there(fused):
    model = fused.LlamaForCausalLM(BIASED)
    assert sum(isinstance(layer, fused.FusedLinear) for layer in model.modules()) == 4
    # Phi-3 is built so from the start: its layers are the ones that are meant, and biases leave no other way.
    theirs = {f"model.{path}": style for path, style in Phi3Config.base_model_tp_plan.items()}
    assert theirs.items() <= model.tp_plan.items() and theirs.keys() == {
        path for path in model.tp_plan if "layers" in path
    }


def test_quantised_and_sharded_loading_are_refused(fused, parent):
    model = fused.LlamaForCausalLM(BIASED)
    from transformers.modeling_utils import LoadStateDictConfig

    with pytest.raises(ValueError, match="loaded whole"):
        model._load_pretrained_model(model, None, None, LoadStateDictConfig(hf_quantizer=object()))
    with pytest.raises(ValueError, match="split them afterwards"):
        model._load_pretrained_model(model, None, None, LoadStateDictConfig(device_mesh=object()))


def test_a_fused_layer_is_a_linear_layer():
    layer = FusedLinear(3, {"a": 4, "b": 1}, bias=False)
    assert layer.weight.shape == (5, 3) and layer.bias is None
    assert list(layer.state_dict()) == ["weight"]


class ToyConfig(PreTrainedConfig):
    model_type = "patchgen_toy"
    num_attention_heads = 2


ATTENTION, FFN = dict.fromkeys(("q_proj", "k_proj", "v_proj"), 8), {"gate_proj": 6, "up_proj": 6}


class Toy(PreTrainedModel):
    config_class, base_model_prefix = ToyConfig, "toy"

    def __init__(self, config):
        super().__init__(config)
        self.attn = self.made("qkv_proj", ATTENTION)
        self.mlp = self.made("gate_up_proj", FFN)
        self.other = Toy.made("", FFN)
        self.post_init()

    @staticmethod
    def made(fused, parts):
        layers = {name: torch.nn.Linear(8, width) for name, width in parts.items()}
        return torch.nn.ModuleDict(layers)


class FusedToy(KnownConversions, FusedProjections, Toy):
    @staticmethod
    def made(fused, parts):
        return torch.nn.ModuleDict({fused: FusedLinear(8, parts)})


def register(*conversions):
    register_checkpoint_conversion_mapping(ToyConfig.model_type, [*conversions], overwrite=True)


# Its parts have another order than those of the fused layer, and half of one is permuted.
PERMUTED = [Chunk(0), PermuteForRope(permute_layer_names=["q_proj"])]
KNOWN = {"chunks": [Chunk(0)], "widths of the model": [Split(0)], "permuted": PERMUTED}


@pytest.mark.parametrize("operations", KNOWN.values(), ids=KNOWN)
class TestKnownConversions:
    """Transformers makes the parts of a fused layer of one tensor of the checkpoint."""

    @pytest.fixture(autouse=True)
    def registered(self, operations):
        register(
            WeightConverter("in_proj", ["attn.k_proj", "attn.q_proj", "attn.v_proj"], operations),
            # The second name is also the end of `gate_up_proj`.
            WeightConverter("w12", ["gate_proj", "up_proj"], [Chunk(0)]),
        )

    def test_a_checkpoint_of_the_parent_is_loaded_and_saved_as_it_was(self, tmp_path):
        parent = Toy(ToyConfig())
        parent.save_pretrained(tmp_path / "parent")
        model = load_strictly(FusedToy, tmp_path / "parent")
        rows = [parent.attn[name].weight for name in ATTENTION]
        assert torch.equal(model.attn.qkv_proj.weight, torch.cat(rows))
        model.save_pretrained(tmp_path / "model")
        saved = load_file(tmp_path / "model" / "model.safetensors")
        assert saved.keys() == {
            f"{layer}.{kind}"
            for layer in ("in_proj", "mlp.w12", "other.w12")
            for kind in ("weight", "bias")
        }
        theirs = load_file(tmp_path / "parent" / "model.safetensors")
        assert all(torch.equal(saved[name], theirs[name]) for name in theirs)

    def test_a_new_model_is_saved_as_the_parent_reads_it(self, tmp_path):
        model = FusedToy(ToyConfig())
        model.save_pretrained(tmp_path)
        rows = [layer.weight for layer in load_strictly(Toy, tmp_path).attn.values()]
        assert torch.equal(model.attn.qkv_proj.weight, torch.cat(rows))

    def test_a_checkpoint_of_parts_stays_one(self, tmp_path):
        Toy(ToyConfig()).save_pretrained(tmp_path / "parent", save_original_format=False)
        load_strictly(FusedToy, tmp_path / "parent").save_pretrained(tmp_path / "model")
        saved = load_file(tmp_path / "model" / "model.safetensors")
        assert {"attn.q_proj.weight", "mlp.up_proj.bias"} <= saved.keys()


def test_a_conversion_of_one_part_alone_is_refused():
    register(WeightConverter("wq", "attn.q_proj", [PermuteForRope()]))
    with pytest.raises(ValueError, match=r"attn.qkv_proj.weight cannot be loaded .*'wq'"):
        FusedToy(ToyConfig())


def activation_of(name):
    config = GPT2Config(n_embd=8, n_head=2, activation_function=name)
    return importlib.import_module("generated.gpt2.modeling_gpt2_gelu").GPT2MLP(16, config).act


class TestGelu:
    @pytest.mark.parametrize("name", TANH_GELUS)
    def test_is_the_same_function(self, name):
        x = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
        ours, theirs = activation_of(name)(x), ACT2FN[name](x)
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)
        (one,), (two,) = (torch.autograd.grad(each.sum(), x) for each in (ours, theirs))
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("name", ["gelu", "gelu_fast", "quick_gelu", "relu"])
    def test_others_stay(self, name):
        assert type(activation_of(name)) is type(ACT2FN[name])

    def test_keeps_its_input_only(self):
        assert [kept(activation_of("gelu_new")), kept(ACT2FN["gelu_new"])] == [1, 4]


def kept(activation):
    """Tensors that are kept for the backward pass, the input included."""
    places = set()
    hold = []

    def pack(tensor):
        if tensor.dim():
            hold.append(tensor)
            places.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        activation(torch.randn(10, requires_grad=True) * 1)
    return len(places)

"""The checkpoint part: the same numbers, fewer of them kept, and what it refuses."""

import gc
import importlib
from collections import Counter
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import library, nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from transformers import (  # noqa: E402
    DynamicCache,
    EncoderDecoderCache,
    Gemma3nForCausalLM,
    LlamaForCausalLM,
    MixtralForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    XLNetConfig,
)
from transformers.modeling_layers import GradientCheckpointingLayer  # noqa: E402
from transformers.models.patchtst import modeling_patchtst as patchtst  # noqa: E402

from patchgen.lab.parity import differences, worst  # noqa: E402
from patchgen.lab.tiny import batch, tiny_config  # noqa: E402
from patchgen.lab.weights import draw_weights  # noqa: E402
from patchgen.parts.checkpoint import Checkpointing, keeping  # noqa: E402
from patchgen.parts.checkpoint import model as switching  # noqa: E402
from patchgen.parts.checkpoint.keeping import Keeping, is_kept, tensors_in  # noqa: E402
from patchgen.parts.checkpoint.layer import checkpoint_contexts, checkpoint_layer, copied, owner_of  # noqa: E402
from patchgen.parts.checkpoint.model import read_options  # noqa: E402

# Stray seeds, threads and warnings of transformers are not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore")

FULL, SELECTIVE, SECOND = {}, {"policy": "selective"}, {"every": 2}
EACH = [FULL, SECOND, SELECTIVE, {"policy": "selective", "every": 2}]
policies = pytest.mark.parametrize("options", [FULL, SELECTIVE], ids=["full", "selective"])


def enabled(model, options):
    model.activation_checkpointing_enable(options or None)
    return model


def drawn(model_class, config, *args):
    model = model_class(config, *args)
    draw_weights(model)
    return model.train()


def mixed(model_class):
    """The class with the part before it, as a modular file declares it; transformers reads the module's source."""
    return type(model_class.__name__, (Checkpointing, model_class), {"__module__": model_class.__module__})


def step(model, inputs=None, *, autocast=False, **more):
    """Loss, logits, every gradient and every buffer after one step with dropout."""
    torch.manual_seed(11)
    model.zero_grad()
    inputs = batch("right", length=24).inputs() if inputs is None else inputs
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = model(**inputs, **more)
    out.loss.backward()
    seen = {"loss": out.loss, "logits": getattr(out, "logits", out.loss)}
    seen |= {f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    seen |= {f"buffer {name}": b.double() for name, b in model.named_buffers()}
    return {name: tensor.detach().clone() for name, tensor in seen.items()}


def apart(one, other):
    return worst(differences(one, other))


def kept_bytes(model):
    """What is alive for the backward pass: saved by autograd, or held by a policy."""
    storages, own = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}

    def note(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage  # alive, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = model(**batch(length=24).inputs())
    # By name: a generated file has a class of its own.
    for held in [each for each in gc.get_objects() if type(each).__name__ == "Keeping"]:
        for outputs in held.outputs.values():
            for tensor in tensors_in(outputs):
                note(tensor)
    total = sum(storage.nbytes() for place, storage in storages.items() if place not in own)
    out.loss.backward()
    return total


# --- gallery: class, what runs once in a layer, changes of the tiny configuration

GALLERY = {
    "llama": ("LlamaForCausalLM", "LlamaMLP", {"attention_dropout": 0.1}),
    "mixtral": ("MixtralForCausalLM", "MixtralTopKRouter", {"output_router_logits": True, "attention_dropout": 0.1}),
    "mpnet": ("MPNetForMaskedLM", "MPNetIntermediate", {}),
    "albert": ("AlbertForMaskedLM", "AlbertAttention", {"num_hidden_groups": 3}),
    "openai": ("OpenAIGPTLMHeadModel", "MLP", {}),
    "xlnet": ("XLNetLMHeadModel", "XLNetRelativeAttention", {}),
}


MORE = ("mpnet", "albert", "openai")  # only a quick case of the gallery runs these in make test


def gallery(name, **changes):
    """The parent's class, the variant's, and a configuration of three layers with dropout."""
    class_name, _, given = GALLERY[name]
    given = {**given, **changes}
    if name == "xlnet":
        config = XLNetConfig(vocab_size=97, d_model=32, n_layer=3, n_head=4, d_inner=44, dropout=0.1, pad_token_id=0)
    else:
        config = tiny_config({"openai": "openai-gpt"}.get(name, name), dropout=0.1, **given)
    parent = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    variant = importlib.import_module(f"generated.{name}.modeling_{name}_checkpoint")
    return getattr(parent, class_name), getattr(variant, class_name), config


@pytest.mark.parametrize(
    "name", ["llama", "mixtral", "xlnet", *(pytest.param(each, marks=pytest.mark.slow) for each in MORE)]
)
def test_the_same_step_from_fewer_kept_bytes(name):
    parent, variant, config = gallery(name)
    reference = step(drawn(parent, config))
    everything = kept_bytes(drawn(parent, config))
    bytes_of = []
    for options in EACH:
        model, runs = enabled(drawn(variant, config), options), Counter()
        inner = [module for module in model.modules() if type(module).__name__ == GALLERY[name][1]]
        for index, module in enumerate(inner):
            module.register_forward_pre_hook(lambda *_, runs=runs, index=index: runs.update([index]))
        assert apart(reference, step(model)) == 0.0, options
        assert apart(reference, step(model)) == 0.0, options  # once what a layer chooses is known
        every = options.get("every", 1)
        assert [runs[index] for index in range(3)] == [2 * (1 + (index % every == 0)) for index in range(3)]
        bytes_of.append(kept_bytes(model))
    full, second, selective, both = bytes_of
    assert full < second < everything
    assert full < selective < both < everything


@policies
def test_autocast_casts_shared_weights_once(options):
    parent, variant, config = gallery("albert", num_hidden_groups=1)
    reference = step(drawn(parent, config), autocast=True)
    assert apart(reference, step(enabled(drawn(variant, config), options), autocast=True)) == 0.0


def test_two_of_one_shared_layer_cannot_be_told_apart():
    _, variant, config = gallery("albert", num_hidden_groups=1)
    with pytest.raises(ValueError, match="every=2: AlbertForMaskedLM has no two layers"):
        enabled(drawn(variant, config), {"every": 2})


@pytest.mark.parametrize("frozen", ["embeddings", "embeddings and the first layer"])
@policies
def test_n5_layers_behind_frozen_ones_have_gradients(options, frozen):
    parent, variant, config = gallery("llama")

    def freeze(model):
        model.model.embed_tokens.requires_grad_(False)
        model.model.layers[0].requires_grad_("layer" not in frozen)
        return model

    reference = step(freeze(drawn(parent, config)))
    assert apart(reference, step(freeze(enabled(drawn(variant, config), options)))) == 0.0


@policies
def test_off_again(options):
    parent, variant, config = gallery("llama")
    model = enabled(drawn(variant, config), options)
    model.activation_checkpointing_disable()
    assert not model.is_activation_checkpointing
    assert apart(step(drawn(parent, config)), step(model)) == 0.0


@policies
def test_one_graph_twice_and_nothing_left_over(options):
    _, variant, config = gallery("mixtral")
    model = enabled(drawn(variant, config), options)
    once, _ = step(model), gc.collect()
    torch.manual_seed(11)
    loss = model(**batch("right", length=24).inputs()).loss
    for _ in range(2):
        model.zero_grad()
        loss.backward(retain_graph=True)
        again = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
        assert apart({name: once[name] for name in again}, again) == 0.0
    gc.collect()
    held = [each for each in gc.get_objects() if type(each).__name__ == "Keeping" and each.outputs]
    assert held
    del held
    gc.disable()
    try:
        del loss
        assert not [each for each in gc.get_objects() if type(each).__name__ == "Keeping" and each.outputs]
    finally:
        gc.enable()


@pytest.mark.parametrize("options", [pytest.param(FULL, marks=pytest.mark.slow), SELECTIVE], ids=["full", "selective"])
def test_compiled(options):
    parent, variant, config = gallery("llama")
    reference = step(drawn(parent, config))
    model = enabled(drawn(variant, config), options)
    torch._dynamo.reset()
    model.forward = torch.compile(model.forward, backend="aot_eager", fullgraph=True)
    assert apart(reference, step(model, use_cache=False)) == 0.0


def test_trainer_passes_the_options_on(tmp_path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    _, variant, config = gallery("llama")
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"policy": "selective", "every": 2},
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in batch().input_ids]
    model = drawn(variant, config)
    Trainer(model, arguments, train_dataset=rows).train()
    layers = model.model.layers
    assert [layer.gradient_checkpointing for layer in layers] == [True, False, True]
    assert layers[0]._gradient_checkpointing_func.args[1] == "selective"
    assert layers[0].makes_choices is False


# --- planted errors


def plant(monkeypatch, **changes):
    """Every checkpoint of the part runs with these arguments."""

    def wrong(run, policy, function, *args, **passed_on):
        layer = owner_of(function)
        kept = lambda: checkpoint_contexts(layer, Keeping(policy))  # noqa: E731
        return checkpoint(function, *args, **{"use_reentrant": False, "context_fn": kept, **changes})

    monkeypatch.setattr(switching, "checkpoint_layer", wrong)


@policies
def test_dropout_reseeded_in_the_recompute_is_seen(options, monkeypatch):
    config = tiny_config("llama", attention_dropout=0.1)
    reference, model_class = step(drawn(LlamaForCausalLM, config)), mixed(LlamaForCausalLM)
    plant(monkeypatch)
    assert apart(reference, step(enabled(drawn(model_class, config), options))) == 0.0
    plant(monkeypatch, preserve_rng_state=False)
    assert apart(reference, step(enabled(drawn(model_class, config), options))) > 0.1


class Indecisive(nn.Module):
    """In place of a router: each call after the first sees other logits, as a recompute in another kernel might."""

    def __init__(self, router):
        super().__init__()
        self.router, self.calls = router, 0

    def forward(self, hidden_states):
        self.calls += 1
        noise = torch.randn(hidden_states.shape, generator=torch.Generator().manual_seed(self.calls))
        # In the value alone, so that gradients are still those of the router.
        return self.router(hidden_states + (self.calls > 1) * 3 * noise.to(hidden_states))


def routed(model):
    """By layer, which experts each of its forwards used."""
    used = {}
    for index, layer in enumerate(model.model.layers):
        layer.mlp.gate = Indecisive(layer.mlp.gate)
        layer.mlp.experts.register_forward_pre_hook(
            lambda _, given, index=index: used.setdefault(index, []).append(given[1].clone())
        )
    step(model)
    return used


@policies
def test_n4_the_recompute_takes_the_experts_that_were_chosen(options):
    # Loops over experts stop on other shapes; grouped products do not.
    config = tiny_config("mixtral", experts_implementation="grouped_mm")
    used = routed(enabled(drawn(mixed(MixtralForCausalLM), config), options))
    assert all(torch.equal(first, second) for first, second in used.values())
    planted = routed(enabled(drawn(MixtralForCausalLM, config), FULL))
    assert not any(torch.equal(first, second) for first, second in planted.values())


def gemma3n():
    return tiny_config(
        "gemma3n_text", num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2,
        num_kv_shared_layers=2, sliding_window=8, intermediate_size=44, activation_sparsity_pattern=[0.0] * 4,
        vocab_size_per_layer_input=97, hidden_size_per_layer_input=6, laurel_rank=5,
    )  # fmt: skip


@pytest.mark.parametrize("options", EACH, ids=str)
def test_n3_layers_that_share_keys_and_values(options):
    # Gemma 3n also adds in place to the output of a matrix product, which torch's own contexts do not notice.
    config = gemma3n()
    reference = step(drawn(Gemma3nForCausalLM, config))
    assert apart(reference, step(enabled(drawn(mixed(Gemma3nForCausalLM), config), options))) == 0.0


# --- layers of a few lines


class Model(Checkpointing, PreTrainedModel):
    """Layers in a row, each called as `call` says."""

    config_class = PreTrainedConfig
    main_input_name = "inputs"

    def __init__(self, config, layers, call=lambda layer, x: layer(x)):
        super().__init__(config)
        self.layers, self.call = nn.ModuleList(layers), call
        self.post_init()

    def forward(self, inputs):
        for layer in self.layers:
            inputs = self.call(layer, inputs)
        return SimpleNamespace(loss=inputs.square().mean())


class Layer(GradientCheckpointingLayer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6, bias=False)

    def forward(self, x, cache=None):
        return x + nn.functional.dropout(self.linear(x).tanh(), 0.3)


class Normed(Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return super().forward(x + self.norm(x.transpose(1, 2)).transpose(1, 2))


class InPlace(Layer):
    def forward(self, x):
        y = self.linear(x)
        y += x.sin()
        return nn.functional.dropout(self.linear(y * y.cos()), 0.3)


class Counting(Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        self.scale.mul_(0.5)
        return self.scale * super().forward(x)


INPUTS = {"inputs": torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0))}


def model_of(kind, **more):
    return drawn(Model, PreTrainedConfig(), [kind() for _ in range(3)], *more.values())


@pytest.mark.parametrize("kind", [Layer, Normed, InPlace])
@policies
def test_the_same_step(kind, options):
    """`Normed`: running statistics too, which move once.  `InPlace`: a product that changes after it was made."""
    reference = step(model_of(kind), INPUTS)
    assert apart(reference, step(enabled(model_of(kind), options), INPUTS)) == 0.0


@policies
def test_batch_norm_in_a_model_that_switches_in_the_old_style(options, monkeypatch):
    config = patchtst.PatchTSTConfig(
        num_input_channels=2, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_hidden_layers=3,
        num_attention_heads=4, ffn_dim=32, norm_type="batchnorm", dropout=0.1, attention_dropout=0.1, ff_dropout=0.1,
    )  # fmt: skip
    inputs = {"past_values": torch.randn(3, 32, 2, generator=torch.Generator().manual_seed(0))}
    reference = step(drawn(patchtst.PatchTSTForPretraining, config), inputs)
    layer = type("PatchTSTEncoderLayer", (patchtst.PatchTSTEncoderLayer, GradientCheckpointingLayer), {})
    monkeypatch.setattr(patchtst, "PatchTSTEncoderLayer", layer)
    model, runs = enabled(drawn(mixed(patchtst.PatchTSTForPretraining), config), options), Counter()
    model.model.encoder.layers[0].self_attn.register_forward_hook(lambda *_: runs.update("x"))
    assert apart(reference, step(model, inputs)) == 0.0
    assert runs["x"] == 2


@policies
def test_a_layer_that_changes_its_buffers_is_refused(options):
    with pytest.raises(NotImplementedError, match="Counting cannot be checkpointed: Counting changes its scale"):
        step(enabled(model_of(Counting), options), INPUTS)


@policies
def test_called_with_keywords_alone(options):
    def by_name(layer, x):
        return layer(x=x)

    reference = step(model_of(Layer), INPUTS)
    assert apart(reference, step(enabled(model_of(Layer, call=by_name), options), INPUTS)) == 0.0


def test_torch_sees_a_tensor_whose_device_has_the_random_state():
    seen = []

    def run(function, *args, **_):
        seen.append([type(each) for each in args])
        return function(*args)

    layer, x = Layer().train(), torch.ones(1, 2, 6)
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = lambda function, *args: checkpoint_layer(run, "full", function, *args)
    assert layer(x=x, cache=None).shape == x.shape
    assert layer(x).shape == x.shape
    assert seen == [[torch.Tensor], [torch.Tensor]]


@pytest.mark.parametrize("name", [None, "layer_state"], ids=["by position", "by a name of its own"])
@pytest.mark.parametrize("both", [False, True], ids=["", "of encoder and decoder"])
@policies
def test_each_run_of_a_layer_fills_a_cache_of_its_own(options, both, name):
    """A recompute would see its keys twice."""
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache()) if both else DynamicCache()
    given, left = [], []

    class Filling(Layer):
        def forward(self, x, layer_state):
            given.append(layer_state)
            own = layer_state.self_attention_cache if both else layer_state
            keys, _ = own.update(x[:, None], x[:, None], 0)
            return super().forward(keys.sum(1) + x), layer_state

    def call(layer, x):
        out, after = layer(x, cache) if name is None else layer(x, **{name: cache})
        left.append(after)
        return out

    def alone(layer, x):
        made = EncoderDecoderCache(DynamicCache(), DynamicCache()) if both else DynamicCache()
        return layer(x, made)[0]

    reference = step(model_of(Filling, call=alone), INPUTS)
    given.clear()
    model = enabled(model_of(Filling, call=call), options)
    assert apart(reference, step(model, INPUTS)) == 0.0
    assert len(set(map(id, given))) == len(given) > len(left)
    assert all(each is cache for each in left) and not cache.get_seq_length()
    ones = torch.ones(1, 1, 2, 4)
    (cache.self_attention_cache if both else cache).update(ones, ones, 0)
    with pytest.raises(ValueError, match="Filling is checkpointed and was given a cache with something in it"):
        step(model, INPUTS)


def test_what_another_layer_wrote_is_not_copied():
    cache, written = DynamicCache(), torch.ones(1, 1, 2, 4, requires_grad=True) * 2
    cache.update(written, written, 1)
    own = copied(cache)
    assert own is not cache and own.layers[1] is not cache.layers[1]
    assert own.layers[1].keys is cache.layers[1].keys
    own.update(written, written, 0)
    assert own.get_seq_length() == 2 and not cache.get_seq_length()


def test_keys_shared_through_a_cache_are_refused():
    config = PreTrainedConfig(num_kv_shared_layers=1)
    with pytest.raises(ValueError, match="the layers of Model share keys and values through a cache"):
        enabled(drawn(Model, config, [Layer(), Layer()]), FULL)


# --- what is kept


def test_what_is_kept():
    aten, ones = torch.ops.aten, torch.ones
    attention = aten._scaled_dot_product_flash_attention.default
    query, key, value = ones(2, 4, 50, 8), ones(2, 4, 8, 50), ones(2, 4, 50, 8)

    def kept(operation, *args, policy="selective", **kwargs):
        return is_kept(policy, operation, args, kwargs)

    assert kept(aten.mm.default, ones(9, 2), ones(2, 9))
    assert not kept(aten.mm.default, ones(9, 2), ones(2, 9), policy="full")
    assert not kept(aten.bmm.default, query[0], key[0]), "scores"
    assert kept(aten.bmm.default, ones(4, 50, 50), value[0])
    assert kept(attention, query, query, query)
    assert kept(attention, query, query, query, 0.0, True)
    assert not kept(attention, query, query, query, 0.1), "it would not draw in the recompute"
    assert not kept(attention, query, query, query, dropout_p=0.1)
    assert all(kept(aten.topk.default, ones(9), 2, policy=policy) for policy in ("full", "selective"))
    assert not kept(aten.tanh.default, ones(9))


@library.custom_op("a_checkpointed::attention", mutates_args=())
def attention_that_draws(x: torch.Tensor, dropout_p: float) -> torch.Tensor:
    return x * (torch.rand_like(x) > dropout_p)


attention_that_draws.register_autograd(lambda ctx, gradient: (gradient, None))


def test_attention_that_draws_is_not_left_out_of_the_recompute(monkeypatch):
    class Drawing(Layer):
        def forward(self, x):
            return super().forward(attention_that_draws(x, 0.3))

    name = "a_checkpointed::attention"
    with_it = {**keeping.CHECKPOINT_POLICIES, "selective": keeping.CHECKPOINT_POLICIES["selective"] | {name}}
    monkeypatch.setattr(keeping, "CHECKPOINT_POLICIES", with_it)
    reference = step(model_of(Drawing), INPUTS)
    planted = step(enabled(model_of(Drawing), SELECTIVE), INPUTS)
    assert apart(reference, planted) > 0.1
    monkeypatch.setattr(keeping, "ATTENTIONS", keeping.ATTENTIONS | {name})
    assert apart(reference, step(enabled(model_of(Drawing), SELECTIVE), INPUTS)) == 0.0


# --- options


def test_options():
    assert read_options({}) == ("full", 1)
    assert read_options({"use_reentrant": False, "preserve_rng_state": True}) == ("full", 1)
    assert read_options({"policy": "selective", "every": 3}) == ("selective", 3)
    assert read_options({}, every_n_layers=3) == read_options({"every": 3}, every_n_layers=3) == ("full", 3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"policy": "some"}, r"policy='some': there are 'full', 'selective'"),
        ({"policy": ["full"]}, r"policy=\['full'\]: there are"),
        ({"polcy": "full"}, "unknown options of checkpointing: polcy. There are policy, every"),
        ({"every": 0}, "every=0: it takes a whole number from 1 on"),
        ({"every": True}, "every=True: it takes"),
        ({"every": "2"}, "every='2': it takes"),
        ({"use_reentrant": True}, "use_reentrant=True is refused: .* no gradient"),
        ({"preserve_rng_state": False}, "preserve_rng_state=False is refused: .* dropout masks"),
        ({"policy": "selective", "debug": True}, "debug=True is for"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_wrong_options(given, says):
    with pytest.raises(ValueError, match=says):
        read_options(given)
    with pytest.raises(ValueError, match=says):
        enabled(model_of(Layer), given)


def test_two_names_of_one_number():
    with pytest.raises(ValueError, match="every=2 and every_n_layers=3 are two names for one number"):
        read_options({"every": 2}, every_n_layers=3)


def test_debug_goes_on_to_torch():
    reference = step(model_of(Layer), INPUTS)
    assert apart(reference, step(enabled(model_of(Layer), {"debug": True}), INPUTS)) == 0.0

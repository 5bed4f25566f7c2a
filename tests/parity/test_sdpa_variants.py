"""What is particular to the generated SDPA variants; what holds of every variant is in test_gallery.

Against transformers' own classes, which they must equal on CPU.  Under "sdpa" everything is bit for bit equal; under
"eager" another order of sums gives other roundings.
"""

import importlib
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import DynamicCache, EncoderDecoderCache, StaticCache  # noqa: E402
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402

from patchgen.lab.parity import differences, observe, worst  # noqa: E402
from patchgen.lab.tiny import SIZES, Batch, batch, tiny_config  # noqa: E402
from patchgen.lab.tolerance import BIT_EQUAL, rounding  # noqa: E402
from patchgen.lab.trace import traced  # noqa: E402
from patchgen.lab.weights import draw_weights  # noqa: E402

PADDINGS = ["none", "right", "left"]
DTYPES = [torch.float64, torch.float32]
MEMORY = 7  # tokens of an encoder


@dataclass(frozen=True)
class Case:
    """A model class, in transformers and generated, and how it is built and called."""

    model: str
    head: str
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def crosses(self) -> bool:
        return bool(self.changes.get("add_cross_attention"))

    @property
    def attentions(self) -> int:
        return SIZES["num_hidden_layers"] * (2 if self.crosses else 1)

    def module(self, side: str):
        name = {
            "parent": f"transformers.models.{self.model}.modeling_{self.model}",
            "variant": f"generated.{self.model}.modeling_{self.model}_sdpa",
        }
        return importlib.import_module(name[side])

    def config(self, attention: str | None = "sdpa", **changes):
        if self.model == "mixtral":  # grouped matmul has no float64
            changes = {"experts_implementation": "eager"} | changes
        return tiny_config(self.model, attn_implementation=attention, **self.changes | changes)

    def build(self, side: str, attention: str = "sdpa", dtype=torch.float32, **changes):
        model = getattr(self.module(side), self.head)(self.config(attention, **changes)).to(dtype).eval()
        draw_weights(model)
        return model

    def inputs(self, dtype=torch.float32) -> dict[str, torch.Tensor]:
        """Arguments beside the batch: an encoder's states, one of which is padding."""
        if not self.crosses:
            return {}
        states = torch.randn(3, MEMORY, SIZES["hidden_size"], generator=torch.Generator().manual_seed(1), dtype=dtype)
        mask = torch.ones(3, MEMORY, dtype=torch.long)
        mask[1, -2:] = 0
        return {"encoder_hidden_states": states, "encoder_attention_mask": mask}

    def see(self, model, given: Batch, **more) -> dict[str, torch.Tensor]:
        return observe(model, given, **self.inputs(model.dtype), **more)


CASES = {
    "llama": Case("llama", "LlamaForCausalLM"),
    "bert": Case("bert", "BertForMaskedLM"),
    "bert decoder": Case("bert", "BertLMHeadModel", {"is_decoder": True, "add_cross_attention": True}),
    "gpt2": Case("gpt2", "GPT2LMHeadModel"),
    "gpt2 cross": Case(
        "gpt2", "GPT2LMHeadModel", {"add_cross_attention": True, "scale_attn_by_inverse_layer_idx": True}
    ),
    "mixtral": Case("mixtral", "MixtralForCausalLM"),
    "mixtral window": Case("mixtral", "MixtralForCausalLM", {"sliding_window": 5}),
}
FAMILIES = ["llama", "bert", "gpt2", "mixtral"]
GENERATING = [name for name in CASES if name != "bert"]
STATIC = ["llama", "gpt2", "mixtral"]  # where transformers makes a static cache

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_family = pytest.mark.parametrize("case", [CASES[name] for name in FAMILIES], ids=FAMILIES)
each_generating = pytest.mark.parametrize("case", [CASES[name] for name in GENERATING], ids=GENERATING)
each_padding = pytest.mark.parametrize("padding", PADDINGS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])


def assert_equal(reference, candidate, bound):
    found = differences(reference, candidate)
    assert worst(found) <= bound, "\n".join(str(difference) for difference in found[:5])


# --- the numbers


@each_padding
@each_dtype
def test_a_scale_of_its_own_for_each_layer_is_kept(dtype, padding):
    case = CASES["gpt2 cross"]
    parent, variant = case.build("parent", dtype=dtype), case.build("variant", dtype=dtype)
    assert_equal(case.see(parent, batch(padding)), case.see(variant, batch(padding)), BIT_EQUAL)


@each_case
@each_padding
def test_eager_is_bit_equal_to_the_parent_under_eager(case, padding):
    parent, variant = case.build("parent", "eager"), case.build("variant", "eager")
    assert_equal(
        case.see(parent, batch(padding), weights=True), case.see(variant, batch(padding), weights=True), BIT_EQUAL
    )


@each_family
def test_weights_asked_for_by_the_configuration_are_given(case):
    model = case.build("variant", attention=None, output_attentions=True)
    assert model.config._attn_implementation == "sdpa"
    parent = case.build("parent", "eager", output_attentions=True)
    given = batch("right").inputs()
    for ours, theirs in zip(model(**given).attentions, parent(**given).attentions, strict=True):
        assert torch.equal(ours, theirs)


def test_weights_of_gpt2_are_upcast_and_reordered_where_the_configuration_says_so():
    case, changes = CASES["gpt2 cross"], {"reorder_and_upcast_attn": True}
    reference = case.see(case.build("parent", "eager", **changes), batch("left"), weights=True)
    for attention in ("sdpa", "eager"):
        variant = case.build("variant", attention, **changes)
        assert_equal(reference, case.see(variant, batch("left"), weights=True), BIT_EQUAL)
    # Without weights, transformers' sdpa does not look at the setting, and neither does the variant.
    parent, variant = case.build("parent", **changes), case.build("variant", **changes)
    assert_equal(case.see(parent, batch("left")), case.see(variant, batch("left")), BIT_EQUAL)


# --- what ran


@each_case
def test_the_eager_path_is_seen_as_softmaxes(case):
    variant, given = case.build("variant", "eager"), batch()
    with traced() as trace:
        case.see(variant, given)
    over = trace.softmaxes_over(given.input_ids.shape[1]) + trace.softmaxes_over(MEMORY)
    assert (len(trace.sdpa), over) == (0, case.attentions)


@pytest.mark.parametrize(
    ("name", "padding", "masks", "native"),
    [
        ("llama", "none", {"causal"}, True),
        ("llama", "right", {"bool"}, False),
        ("bert", "none", {"none"}, False),
        ("bert decoder", "none", {"causal", "bool"}, False),  # the encoder's states are padded
        ("gpt2", "none", {"causal"}, False),
        ("mixtral", "none", {"causal"}, True),
        ("mixtral window", "none", {"bool"}, False),
    ],
)
def test_no_mask_is_made_where_none_is_needed(name, padding, masks, native):
    variant = CASES[name].build("variant")
    with traced() as trace:
        CASES[name].see(variant, batch(padding))
    assert {call.mask for call in trace.sdpa} == masks
    assert {call.native_gqa for call in trace.sdpa} == {native}


class Graphs:
    """A backend that runs a graph as it is; how each call of SDPA in it is masked is in `masks`."""

    def __init__(self):
        self.masks: list[str] = []

    def __call__(self, graph, _):
        for node in graph.graph.nodes:
            if "scaled_dot_product" in str(node.target):
                with_mask = node.kwargs.get("attn_mask") is not None
                self.masks.append("mask" if with_mask else "causal" if node.kwargs["is_causal"] else "none")
        return graph.forward


@pytest.fixture(autouse=True)
def forgotten_graphs():
    yield
    torch._dynamo.reset()


def compiled_step(model, given):
    """The loss and a gradient of a compiled step, and how its attentions were masked."""
    graphs = Graphs()
    loss = torch.compile(model, backend=graphs, fullgraph=True)(**given, use_cache=False).loss
    loss.backward()
    return loss, model.get_input_embeddings().weight.grad, graphs.masks


GROUPED = {"experts_implementation": "grouped_mm"}  # the loop over experts is no single graph
COUNTED = torch.arange(13)[None]
ORDER = {  # model, batch, configuration: how the variant is masked when it is compiled
    "llama": ("llama", batch().inputs(), {}, "causal"),
    "positions may tell of packed rows": ("llama", batch().inputs() | {"position_ids": COUNTED}, {}, "mask"),
    "padding on the left": ("llama", batch("left").inputs(), {}, "mask"),
    "padding on the right": ("llama", batch("right").inputs(), {}, "mask"),
    "padding is said to be right": ("llama", batch("right").inputs(), {"assume_right_padding": True}, "causal"),
    "no window": ("mixtral", batch().inputs(), GROUPED | {"sliding_window": None}, "causal"),
    "a window that holds all": ("mixtral", batch().inputs(), GROUPED | {"sliding_window": 14}, "causal"),
    "a window that does not": ("mixtral", batch().inputs(), GROUPED | {"sliding_window": 13}, "mask"),
}


@pytest.mark.parametrize(("name", "given", "changes", "masked"), ORDER.values(), ids=ORDER)
def test_a_compiled_model_gets_a_mask_only_where_order_does_not_say_all(name, given, changes, masked):
    case = CASES[name]
    parent = case.build("parent", **changes)
    reference = parent(**given, use_cache=False).loss
    reference.backward()
    loss, gradient, masks = compiled_step(case.build("variant", **changes), given)
    assert masks == [masked] * case.attentions
    bound = rounding(torch.float32)
    assert abs(loss - reference) <= bound * abs(reference)
    expected = parent.get_input_embeddings().weight.grad
    assert (gradient - expected).abs().max() <= bound * expected.abs().max()


def test_a_compiled_parent_gets_a_mask_all_the_same():
    """What the variants are for: when this fails, transformers has mended it."""
    case = CASES["llama"]
    assert compiled_step(case.build("parent"), batch().inputs())[2] == ["mask"] * case.attentions


def test_padding_on_the_left_is_not_said_to_be_right():
    variant = CASES["llama"].build("variant", assume_right_padding=True)
    with pytest.raises(RuntimeError, match="padding before a real token"):
        variant(**batch("left").inputs())


# --- checkpoints


@each_case
def test_checkpoints_go_both_ways(case, tmp_path):
    from safetensors.torch import load_file

    parent = case.build("parent")
    parent.save_pretrained(tmp_path / "parent")
    variant_class, parent_class = (getattr(case.module(side), case.head) for side in ("variant", "parent"))
    saved = load_file(tmp_path / "parent" / "model.safetensors")

    variant, report = variant_class.from_pretrained(tmp_path / "parent", output_loading_info=True)
    assert not any(report.values()), report
    assert type(variant).__module__.startswith("generated.")
    loaded = variant.state_dict()
    assert loaded.keys() == parent.state_dict().keys()
    for name, value in parent.state_dict().items():
        assert torch.equal(loaded[name], value), name

    for made, folder in [(variant, "loaded"), (case.build("variant"), "built")]:
        made.save_pretrained(tmp_path / folder)
        again = load_file(tmp_path / folder / "model.safetensors")
        assert again.keys() == saved.keys()
        assert all(torch.equal(again[name], value) for name, value in saved.items())
    _, report = parent_class.from_pretrained(tmp_path / "loaded", output_loading_info=True)
    assert not any(report.values()), report


@each_case
def test_a_new_model_starts_from_the_parents_weights(case):
    made = []
    for side in ("parent", "variant"):
        torch.manual_seed(0)
        model = getattr(case.module(side), case.head)(case.config())
        made.append(model.state_dict() | {"the generator": torch.get_rng_state()})
    for name, value in made[0].items():
        assert torch.equal(made[1][name], value), name


# --- what is refused

OTHERS = [
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
    "paged|eager",
    "paged|sdpa",
    "kernels-community/flash-attn2",
    "somebody/kernel:function",
    "registered_by_a_user",
    "misspelt",
]


@pytest.fixture
def registered():
    ALL_ATTENTION_FUNCTIONS.register("registered_by_a_user", lambda *args, **kwargs: None)
    yield
    del ALL_ATTENTION_FUNCTIONS._global_mapping["registered_by_a_user"]


@each_family
@pytest.mark.parametrize("name", OTHERS)
def test_other_attention_is_refused(case, name, registered, tmp_path):
    words = re.escape(f'attn_implementation="{name}"` is not supported') + '.*takes "sdpa" or "eager"'
    refused = partial(pytest.raises, ValueError, match=words)
    variant_class = getattr(case.module("variant"), case.head)
    with refused():
        variant_class(case.config(name))
    with refused():
        variant_class._from_config(case.config(None), attn_implementation=name)

    model = case.build("variant")
    with refused():
        model.set_attn_implementation(name)
    assert model.config._attn_implementation == "sdpa"
    model(**batch().inputs())
    model.save_pretrained(tmp_path)
    with refused():
        variant_class.from_pretrained(tmp_path, attn_implementation=name)
    # Behind the model's back: found when it runs.
    model.config._attn_implementation = name
    mask = batch("right").attention_mask[:, None, None, :].bool()
    with refused():
        model(**batch().inputs() | {"attention_mask": mask})


@each_family
def test_attention_can_be_switched_between_sdpa_and_eager(case):
    model, given = case.build("variant"), batch("right")
    with traced() as before:
        case.see(model, given)
    model.set_attn_implementation("eager")
    with traced() as eager:
        case.see(model, given)
    model.set_attn_implementation("sdpa")
    with traced() as after:
        case.see(model, given)
    assert (len(before.sdpa), len(eager.sdpa), len(after.sdpa)) == (case.attentions, 0, case.attentions)


@pytest.mark.parametrize("side", ["parent", "variant"])
def test_the_flags_say_what_is_supported(side):
    for name in FAMILIES:
        model = getattr(CASES[name].module(side), CASES[name].head)
        others = (model._supports_flash_attn, model._supports_flex_attn, model._supports_attention_backend)
        assert model._supports_sdpa and any(others) == (side == "parent")


def test_a_mask_of_flash_attention_is_refused():
    # Two axes broadcast against scores at batch 1 or by chance: padding is kept, causality is lost.
    case = CASES["llama"]
    variant, given = case.build("variant"), batch("right")
    attention = variant.model.layers[0].self_attn
    states = variant.model.embed_tokens(given.input_ids)
    positions = variant.model.rotary_emb(states, torch.arange(states.shape[1])[None])
    with pytest.raises(ValueError, match=r"four dimensions, not one of shape \(3, 13\)"):
        attention(states, positions, given.attention_mask.bool())


# --- generation


@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize(
    ("case", "how"),
    [
        pytest.param(CASES[name], how, id=f"{name} {how}")
        for name in GENERATING
        for how in ["greedy", "sampled", "beams", "no cache"] + ["static cache"] * (name in STATIC)
    ],
)
def test_generation_equals_the_parents(case, how, padding):
    ways = {
        "greedy": {"do_sample": False},
        "sampled": {"do_sample": True, "top_k": 20},
        "beams": {"num_beams": 3, "do_sample": False},
        "no cache": {"use_cache": False, "do_sample": False},
        "static cache": {"cache_implementation": "static", "do_sample": False},
    }
    given = batch(padding).inputs()
    del given["labels"]
    made = []
    for side in ("parent", "variant"):
        model = case.build(side)
        if (
            case.model == "bert" and case.crosses and how != "no cache"
        ):  # transformers makes one without cross-attention
            caches = (DynamicCache(config=model.config), DynamicCache(config=model.config))
            ways[how]["past_key_values"] = EncoderDecoderCache(*caches)
        torch.manual_seed(0)
        out = model.generate(
            **given, **case.inputs(), max_new_tokens=6, output_logits=True, return_dict_in_generate=True, **ways[how]
        )
        made.append((out.sequences, *(out.logits or ())))
    assert len(made[0]) == 7
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*made, strict=True))


@each_generating
@pytest.mark.parametrize("padding", PADDINGS)
def test_a_prompt_in_chunks_gives_what_the_whole_gives(case, padding):
    # Queries that are neither one nor all: `is_causal` alone would let them see too little.
    variant, given = case.build("variant", dtype=torch.float64), batch(padding)
    more = case.inputs(torch.float64)
    whole = variant(**given.inputs(), **more).logits
    cache, chunks = None, []
    for first, last in [(0, 4), (4, 9), (9, 12), (12, 13)]:
        mask = None if given.attention_mask is None else given.attention_mask[:, :last]
        out = variant(
            given.input_ids[:, first:last], attention_mask=mask, past_key_values=cache, use_cache=True, **more
        )
        cache = out.past_key_values
        chunks.append(out.logits)
    apart = (torch.cat(chunks, 1) - whole)[given.real].abs().max() / whole.abs().max()
    # Rotary embeddings and RMS norms are computed in float32.
    assert apart <= rounding(torch.float32 if case.model in ("llama", "mixtral") else torch.float64)


@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_a_static_cache_is_filled_and_read_as_by_the_parent(name):
    case, ids, made = CASES[name], batch().input_ids, []
    for side in ("parent", "variant"):
        model = case.build(side)
        cache = StaticCache(config=model.config, max_cache_len=20)
        made.append([model(part, past_key_values=cache).logits for part in (ids[:, :9], ids[:, 9:12], ids[:, 12:])])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*made, strict=True))


# --- training


@each_case
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_training_follows_the_parent(case, dropout):
    rates = {name for name, value in case.config().to_dict().items() if "drop" in name and isinstance(value, float)}
    losses = {}
    for side, attention in [("parent", "sdpa"), ("variant", "sdpa"), ("parent", "eager")]:
        model = case.build(side, attention, **dict.fromkeys(rates, dropout)).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        torch.manual_seed(0)
        steps = []
        for step in range(5):
            optimizer.zero_grad()
            loss = model(**batch(PADDINGS[step % 3], seed=step % 3).inputs(), **case.inputs(), use_cache=False).loss
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses[side, attention] = steps
    assert losses["variant", "sdpa"] == losses["parent", "sdpa"]
    assert len(set(losses["variant", "sdpa"])) == 5
    if not dropout:  # eager draws other random numbers
        # Adam divides by the size of a gradient: what is rounding in a small one is a step of the same size in another
        # direction.  Losses stay together, gradients need not.
        assert losses["variant", "sdpa"] == pytest.approx(losses["parent", "eager"], rel=1e-3)


# --- the tests can see


@pytest.mark.parametrize("name", ["llama", "gpt2", "mixtral"])
def test_a_key_forgotten_while_generating_is_seen(name, monkeypatch):
    ids, case = batch().input_ids, CASES[name]
    variant, module = case.build("variant"), case.module("variant")
    cache = variant(ids[:, :-1], use_cache=True).past_key_values
    right = variant(ids).logits[:, -1]
    real = module.sdpa
    monkeypatch.setattr(
        module, "sdpa", lambda q, k, v, mask, **more: real(q, k[:, :, :-1], v[:, :, :-1], mask, **more)
    )
    wrong = variant(ids[:, -1:], past_key_values=cache).logits[:, -1]
    assert (wrong - right).abs().max() / right.abs().max() > 0.01

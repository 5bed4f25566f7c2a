"""The loss in chunks and the head on labelled tokens, against transformers' own losses over whole logits."""

import importlib
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402
from transformers.loss.loss_utils import ForCausalLMLoss  # noqa: E402

from patchgen.lab.parity import differences, worst  # noqa: E402
from patchgen.lab.tiny import batch, tiny_config  # noqa: E402
from patchgen.lab.weights import draw_weights  # noqa: E402
from patchgen.lab.wide import widened  # noqa: E402
from patchgen.parts import loss as part  # noqa: E402

ROWS, TOKENS, SIZE, WORDS = 3, 11, 8, 37
CHUNK = 5  # which ROWS * TOKENS is no multiple of
NEAR = {torch.float64: 1e-13, torch.float32: 2e-6}
FORMS = {
    "plain": {},
    "bias": {"bias": True},
    "scaled": {"scale": 0.3},
    "capped": {"softcap": 2.0},
    "all": {"bias": True, "scale": 3.0, "softcap": 2.0},
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
each_dtype = pytest.mark.parametrize("dtype", NEAR, ids=["float64", "float32"])


class Model(nn.Module):
    """What the part asks of a model: its mode, its configuration, its loss, and a head."""

    def __init__(self, bias=False, dtype=torch.float32, loss=ForCausalLMLoss, chunk=CHUNK, called=False):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.lm_head = nn.Linear(SIZE, WORDS, bias=bias, dtype=dtype)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        self.states = torch.randn(ROWS, TOKENS, SIZE, generator=generator, dtype=torch.float64).to(dtype)
        self.states.requires_grad_()
        self.labels = torch.randint(WORDS, (ROWS, TOKENS), generator=generator)
        self.labels[0, :4] = self.labels[2, 7:] = -100
        self.loss_function = loss
        self.config = type("Config", (), {"loss_chunk_size": chunk})()
        if called:  # a hook, so that the head must be called
            self.lm_head.register_forward_hook(lambda module, given, out: None)

    def gradients(self, value):
        self.zero_grad()
        self.states.grad = None
        value.backward()
        seen = {f"gradient of {name}": parameter.grad for name, parameter in self.named_parameters()}
        seen |= {"loss": value.detach(), "gradient of states": self.states.grad}
        return {name: None if tensor is None else tensor.clone() for name, tensor in seen.items()}


def logits(model, scale=None, softcap=None, bias=None):
    given = model.lm_head(model.states)
    given = given if scale is None else given * scale
    return given if softcap is None else softcap * torch.tanh(given / softcap)


def reference(model, form, **kwargs):
    return model.gradients(model.loss_function(logits(model, **form), model.labels, WORDS, **kwargs))


def candidate(model, form, **kwargs):
    form = {name: value for name, value in form.items() if name != "bias"}
    value = part.loss_from_states(model, model.lm_head, model.states, None, model.labels, WORDS, **form, **kwargs)
    return model.gradients(value)


def apart(expected, found):
    return worst(differences(expected, found))


# --- the numbers


@each_form
@each_dtype
@pytest.mark.parametrize("items", [None, 50, torch.tensor(50)], ids=["mean", "int", "tensor"])
@pytest.mark.parametrize("called", [False, True], ids=["linear", "called"])
def test_the_loss_is_that_of_transformers(form, dtype, items, called):
    model = Model("bias" in form, dtype, called=called)
    wide = widened() if dtype == torch.float64 else nullcontext()  # its loss is float32 in a float64 model too
    with wide:
        expected = reference(model, form, num_items_in_batch=items)
        assert apart(expected, candidate(model, form, num_items_in_batch=items)) < NEAR[dtype]


def test_a_float64_model_has_a_float32_loss_as_in_transformers():
    model = Model(dtype=torch.float64)
    found, expected = candidate(model, {}), reference(model, {})
    assert found["loss"].dtype == expected["loss"].dtype == torch.float32
    assert apart(expected, found) < NEAR[torch.float32]


@each_form
def test_bfloat16_is_as_near_to_float32_as_transformers_is(form):
    wide, narrow = Model("bias" in form), Model("bias" in form, torch.bfloat16)
    wide.load_state_dict(narrow.state_dict())
    wide.states.data.copy_(narrow.states.data)
    truth = reference(wide, form)
    noise = apart(truth, {name: tensor.float() for name, tensor in reference(narrow, form).items()})
    assert apart(truth, {name: tensor.float() for name, tensor in candidate(narrow, form).items()}) < 2 * noise


@each_dtype
def test_a_head_with_its_own_cross_entropy_is_not_shifted_and_not_upcast(dtype):
    model = Model(dtype=dtype)
    more = torch.randn(1, WORDS, dtype=dtype)
    expected = model.gradients(F.cross_entropy((logits(model) + more).flatten(0, 1), model.labels.flatten()))
    for called in (False, True):
        head = nn.Sequential(model.lm_head) if called else model.lm_head
        value = part.unshifted_loss_from_states(model, head, model.states, None, model.labels, bias=more)
        assert value.dtype == dtype
        assert apart(expected, model.gradients(value)) < NEAR[dtype]


def test_labels_can_be_shifted_by_the_caller():
    model, shifted = Model(), torch.randint(WORDS, (ROWS, TOKENS))
    assert apart(reference(model, {}, shift_labels=shifted), candidate(model, {}, shift_labels=shifted)) < 2e-6
    model.labels[model.labels == -100] = 3
    assert apart(reference(model, {}, ignore_index=3), candidate(model, {}, ignore_index=3)) < 2e-6


@pytest.mark.parametrize("called", [False, True], ids=["linear", "called"])
def test_no_label_at_all_gives_nan_and_gradients_of_zero_as_in_transformers(called):
    model = Model(called=called)
    model.labels.fill_(-100)
    for seen in (reference(model, {}), candidate(model, {})):
        assert seen["loss"].isnan()
        assert not seen["gradient of states"].any() and not seen["gradient of lm_head.weight"].any()


@pytest.mark.parametrize("chunk", [1, 7, ROWS * TOKENS, 1000, None])
def test_the_size_of_a_chunk_does_not_matter(chunk):
    model = Model(chunk=chunk)
    assert apart(reference(model, {}), candidate(model, {})) < 2e-6


@pytest.mark.parametrize("size", [-1, 2.5, True, "many"])
def test_the_size_of_a_chunk_is_a_natural_number(size):
    with pytest.raises(ValueError, match="loss_chunk_size"):
        candidate(Model(chunk=size), {})


# --- autograd


def test_accumulated_gradients_are_those_of_one_batch():  # N7
    model = Model()
    items = (F.pad(model.labels, (0, 1), value=-100)[:, 1:] != -100).sum()
    expected = reference(model, {})
    model.zero_grad()
    for row in range(ROWS):
        states, labels = model.states[row : row + 1], model.labels[row : row + 1]
        part.loss_from_states(model, model.lm_head, states, labels=labels, num_items_in_batch=items).backward()
    found = {"gradient of lm_head.weight": model.lm_head.weight.grad}
    assert apart({name: expected[name] for name in found}, found) < 2e-6


def test_autocast_gives_gradients_in_the_dtype_of_the_weights():
    model = Model(bias=True)
    truth = reference(model, {})
    with torch.autocast("cpu", torch.bfloat16):
        noise, found = apart(truth, reference(model, {})), candidate(model, {})
    assert noise > 1e-4
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert apart(truth, found) < 2 * noise


def test_half_precision_does_not_underflow_before_the_loss_is_scaled():
    model = Model(dtype=torch.float16)
    seen = candidate(model, {}, num_items_in_batch=2**30)
    assert not seen["gradient of states"].any()
    value = part.loss_from_states(model, model.lm_head, model.states, labels=model.labels, num_items_in_batch=2**30)
    assert model.gradients(value * 2**30)["gradient of states"].any(dim=-1)[1, :-1].all()


def test_the_gradient_of_the_weight_is_added_up_in_float32():
    model = Model(dtype=torch.bfloat16, chunk=1)
    states = torch.ones(1, 4097, SIZE, dtype=torch.bfloat16)
    labels = torch.zeros(1, 4097, dtype=torch.long)
    part.loss_from_states(model, model.lm_head, states, labels=labels, num_items_in_batch=1).backward()
    slope = torch.softmax(model.lm_head(states[0, :1]).float(), -1)[0, 1:, None].bfloat16() * 4096
    torch.testing.assert_close(
        model.lm_head.weight.grad[1:].float(), slope.float().expand(-1, SIZE), rtol=0.01, atol=0
    )


@pytest.mark.parametrize("called", [False, True], ids=["linear", "called"])
def test_nothing_of_tokens_by_words_is_saved(called):
    model, saved = Model(called=called), []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = part.loss_from_states(model, model.lm_head, model.states, labels=model.labels)
    value.backward()
    assert saved and max(tensor.numel() for tensor in saved) <= max(SIZE * WORDS, ROWS * TOKENS * SIZE)


def test_a_frozen_weight_costs_no_gradient():
    model = Model()
    model.lm_head.requires_grad_(False)
    value = part.loss_from_states(model, model.lm_head, model.states, labels=model.labels)
    assert [None if each is None else each.shape[-1] for each in _node(value).saved_tensors] == [SIZE, None, None]
    model.gradients(value)


def _node(value):
    """The node of autograd that has our gradients."""
    queue = [value.grad_fn]
    while queue:
        node = queue.pop()
        if "LinearCrossEntropy" in type(node).__name__:
            return node
        queue += [each for each, _ in node.next_functions if each is not None]
    raise AssertionError("no LinearCrossEntropy behind this loss")


def test_the_graph_can_be_walked_twice_but_not_differentiated_twice():
    model = Model()
    value = part.loss_from_states(model, model.lm_head, model.states, labels=model.labels)
    (first,) = torch.autograd.grad(value, model.states, retain_graph=True)
    (second,) = torch.autograd.grad(value, model.states, retain_graph=True)
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(value, model.states, create_graph=True)


def test_compiles_to_one_graph():
    model = Model("bias")
    expected = candidate(model, FORMS["capped"])
    run = torch.compile(part.loss_from_states, backend="aot_eager", fullgraph=True)
    value = run(model, model.lm_head, model.states, labels=model.labels, softcap=2.0)
    assert apart(expected, model.gradients(value)) < 2e-6


# --- heads that are no plain linear layer


def test_heads_that_do_more_than_a_product_are_called():
    model = Model()
    normed = nn.Sequential(nn.LayerNorm(SIZE), model.lm_head)
    value = part.loss_from_states(model, normed, model.states, labels=model.labels)
    expected = model.loss_function(normed(model.states), model.labels, WORDS)
    torch.testing.assert_close(value, expected)

    parametrizations.weight_norm(model.lm_head)
    value = part.loss_from_states(model, model.lm_head, model.states, labels=model.labels)
    assert (
        apart(model.gradients(model.loss_function(logits(model), model.labels, WORDS)), model.gradients(value)) < 2e-6
    )


def test_a_trained_scale_is_refused():
    model = Model()
    with pytest.raises(ValueError, match="scale"):
        candidate(model, {"scale": nn.Parameter(torch.ones(()))})


# --- planted errors


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"num_items_in_batch": 25}, id="loss scaled by accumulation"),
        pytest.param({"shift_labels": Model().labels}, id="shift lost"),
        pytest.param({"softcap": None}, id="soft-cap left out"),
        pytest.param({"scale": None}, id="scale left out"),
    ],
)
def test_planted_errors_are_far_outside_the_bounds(wrong):
    model, form = Model(), {"scale": 3.0, "softcap": 2.0}
    assert (
        apart(
            reference(model, form, num_items_in_batch=50), candidate(model, form | {"num_items_in_batch": 50} | wrong)
        )
        > 0.1
    )


# --- in models


GALLERY = {
    "llama": ("LlamaForCausalLM", "loss", {}),
    "gemma2": ("Gemma2ForCausalLM", "loss", {"final_logit_softcapping": 2.0}),
    "gpt2": ("GPT2LMHeadModel", "loss", {}),
    "bert": ("BertForMaskedLM", "mlm", {}),
    "roberta": ("RobertaForMaskedLM", "mlm", {}),
}
CAUSAL, MASKED = ("llama", "gemma2", "gpt2"), ("bert", "roberta")


def built(name, side, dtype=torch.float32, **changes):
    head, what, own = GALLERY[name]
    module = f"transformers.models.{name}.modeling_{name}"
    module = module if side == "parent" else f"generated.{name}.modeling_{name}_{what}"
    model = getattr(importlib.import_module(module), head)(tiny_config(name, **own)).to(dtype).train()
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    for option, value in changes.items():
        setattr(model.config, option, value)
    draw_weights(model)
    return model


def given(name, **more):
    """A batch, padded on the right; for a masked language model one real token of three has a label."""
    inputs = batch("right").inputs()
    if name in MASKED:
        inputs["labels"] = inputs["labels"].clone()
        inputs["labels"][:, 1::3] = inputs["labels"][:, 2::3] = -100
    return inputs | more


def seen(model, **inputs):
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    gradients = {f"gradient of {n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    return gradients | {"loss": loss.detach()}


@pytest.mark.parametrize("name", GALLERY)
@each_dtype
@pytest.mark.parametrize("how", [{}, {"num_items_in_batch": 20}], ids=["mean", "sum"])
def test_a_model_trains_as_its_parent(name, dtype, how):
    with widened() if dtype == torch.float64 else nullcontext():
        expected = seen(built(name, "parent", dtype), **given(name, **how))
        found = seen(built(name, "variant", dtype, loss_chunk_size=4), **given(name, **how))
    assert apart(expected, found) < 10 * NEAR[dtype]


@pytest.mark.parametrize("name", GALLERY)
def test_logits_have_their_place_in_training_and_their_value_in_evaluation(name):
    model, parent = built(name, "variant"), built(name, "parent")
    inputs = given(name, output_hidden_states=True)
    out, pair = model(**inputs), model(**inputs, return_dict=False)
    assert out.logits is None and pair[1] is None
    assert [type(each) for each in pair[2:]] == [type(each) for each in parent(**inputs, return_dict=False)[2:]]
    without = {key: value for key, value in inputs.items() if key != "labels"}
    for mode, asked in ((True, without), (False, without), (False, inputs)):
        expected, found = parent.train(mode)(**asked), model.train(mode)(**asked)
        assert torch.equal(expected.logits, found.logits)
        assert expected.loss is None or torch.equal(expected.loss, found.loss)


@pytest.mark.parametrize("name", GALLERY)
def test_logits_can_be_kept_in_training(name):
    model, parent = built(name, "variant", loss_chunk_size=0), built(name, "parent")
    assert torch.equal(model(**given(name)).logits, parent(**given(name)).logits)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_loss_that_the_user_has_set_gets_logits(name):
    model, got = built(name, "variant"), []
    model.loss_function = lambda logits, labels, vocab_size, **kwargs: got.append(logits) or logits.sum()
    assert model(**given(name)).logits is got[0] is not None


@pytest.mark.parametrize("name", GALLERY)
def test_no_model_saves_tokens_by_words(name):
    words = tiny_config(name).vocab_size

    def largest(side):
        model, sizes = built(name, side, loss_chunk_size=4), [0]
        own = {parameter.data_ptr() for parameter in model.parameters()}

        def pack(tensor):
            if tensor.shape[-1:] == (words,) and tensor.data_ptr() not in own:
                sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(**given(name)).loss.backward()
        return max(sizes)

    labelled, tokens = (given(name)["labels"] != -100).sum(), given(name)["labels"].numel()
    assert largest("parent") == tokens * words
    assert largest("variant") == (labelled * words if name in MASKED else 0)


@pytest.mark.parametrize("name", MASKED)
def test_no_labelled_token_gives_what_the_parent_gives(name):
    nothing = torch.full_like(given(name)["labels"], -100)
    expected = seen(built(name, "parent"), **given(name, labels=nothing))
    found = seen(built(name, "variant"), **given(name, labels=nothing))
    assert expected.pop("loss").isnan() and found.pop("loss").isnan()
    assert expected.keys() == found.keys() and not any(g.any() for g in (*expected.values(), *found.values()))


@pytest.mark.parametrize(
    ("name", "compiled"),
    [("bert", False), ("roberta", False), pytest.param("bert", True, marks=pytest.mark.slow)],
)
def test_a_fixed_number_of_tokens_is_exact_or_nan(name, compiled):
    def trained(fraction):
        model = built(name, "variant", max_labelled_fraction=fraction)
        run = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        loss = run(**given(name)).loss
        loss.backward()
        return loss, model.get_input_embeddings().weight.grad

    expected = built(name, "parent")
    expected(**given(name)).loss.backward()
    loss, gradient = trained(0.5)
    want = expected.get_input_embeddings().weight.grad
    assert (gradient - want).abs().max() < 2e-5 * want.abs().max()
    loss, gradient = trained(0.1)
    assert loss.isnan() and gradient.isnan().any()


@pytest.mark.parametrize("fraction", [0, 1.5, -0.1])
def test_the_labelled_fraction_is_one(fraction):
    with pytest.raises(ValueError, match="max_labelled_fraction"):
        built("bert", "variant", max_labelled_fraction=fraction)(**given("bert"))

"""The loss in chunks and the head on labelled tokens, against transformers' own losses over whole logits."""

import importlib
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from torch.nn.utils import parametrizations
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.parts.loss.biased import biased_losses
from patchgen.parts.loss.kernels import compiled, entropies_of, slopes_of
from patchgen.parts.loss.linear import linear_losses
from patchgen.parts.loss.states import loss_without_logits
from patchgen.runtime.tiny import tiny_config
from patchgen.verify.differences import differences, worst
from patchgen.verify.inputs.arguments import batch
from patchgen.verify.models.build import draw_weights
from patchgen.verify.observe.recorder import compute_in_float64

ROWS, TOKENS, SIZE, WORDS = 3, 11, 8, 37
CHUNK = 5  # of which neither the tokens nor the words are a multiple
NEAR = {torch.float64: 1e-13, torch.float32: 2e-6}
FORMS = {"plain": {}, "bias": {"bias": True}, "capped": {"cap": 2.0}, "no cap": {"cap": 0.0}}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
each_dtype = pytest.mark.parametrize("dtype", NEAR, ids=["float64", "float32"])


class Model(nn.Module):
    """What the part asks of a model: its mode, its configuration, its loss, and a head."""

    def __init__(self, bias=False, cap=None, dtype=torch.float32, chunk=CHUNK):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.lm_head, self.cap = nn.Linear(SIZE, WORDS, bias=bias, dtype=dtype), cap
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(
                    torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                )
        self.states = torch.randn(ROWS, TOKENS, SIZE, generator=generator, dtype=torch.float64).to(
            dtype
        )
        self.states.requires_grad_()
        self.labels = torch.randint(WORDS, (ROWS, TOKENS), generator=generator)
        self.labels[0, :4] = self.labels[2, 7:] = -100
        self.loss_function = ForCausalLMLoss
        self.config = type("Config", (), {"loss_chunk_size": chunk})()

    def losses(self):
        if self.lm_head.bias is not None:
            return partial(biased_losses, bias=self.lm_head.bias)
        return linear_losses if self.cap is None else partial(linear_losses, cap=self.cap)

    def without_logits(self):
        return loss_without_logits(
            self,
            self.lm_head,
            self.states,
            self.labels,
            {},
            self.losses(),
            getattr(self.lm_head, "bias", None),
        )

    def gradients(self, value):
        self.zero_grad()
        self.states.grad = None
        value.backward()
        seen = {
            f"gradient of {name}": parameter.grad for name, parameter in self.named_parameters()
        }
        seen |= {"loss": value.detach(), "gradient of states": self.states.grad}
        return {name: tensor.clone() for name, tensor in seen.items() if tensor is not None}

    def reference(self, **kwargs):
        logits = self.lm_head(self.states)
        logits = self.cap * torch.tanh(logits / self.cap) if self.cap else logits
        return self.gradients(self.loss_function(logits, self.labels, WORDS, **kwargs))

    def candidate(self, **kwargs):
        return self.gradients(
            self.without_logits()(logits=None, labels=self.labels, vocab_size=WORDS, **kwargs)
        )


def apart(expected, found):
    return worst(differences(expected, found))


# --- the numbers


@each_form
@each_dtype
@pytest.mark.parametrize("items", [None, 50, torch.tensor(50)], ids=["mean", "int", "tensor"])
def test_the_loss_is_that_of_transformers(form, dtype, items):
    model = Model(**form, dtype=dtype)
    with (
        compute_in_float64() if dtype == torch.float64 else nullcontext()
    ):  # its loss is float32 in a float64 model too
        expected = model.reference(num_items_in_batch=items)
        assert apart(expected, model.candidate(num_items_in_batch=items)) < NEAR[dtype]


@each_form
def test_bfloat16_is_as_near_to_the_truth_as_transformers(form):
    narrow, wide = Model(**form, dtype=torch.bfloat16), Model(**form)
    for mine, other in zip(wide.parameters(), narrow.parameters(), strict=True):
        mine.data.copy_(other.data)
    wide.states.data.copy_(narrow.states.data)
    truth = wide.reference()
    noise = apart(truth, {name: tensor.float() for name, tensor in narrow.reference().items()})
    found = narrow.candidate()
    assert found["gradient of lm_head.weight"].dtype == torch.bfloat16
    assert apart(truth, {name: tensor.float() for name, tensor in found.items()}) < 2 * noise


def test_labels_can_be_shifted_by_the_caller_and_ignored_by_another_number():
    model, shifted = Model(), torch.randint(WORDS, (ROWS, TOKENS))
    assert (
        apart(model.reference(shift_labels=shifted), model.candidate(shift_labels=shifted)) < 2e-6
    )
    model.labels[model.labels == -100] = 3
    assert apart(model.reference(ignore_index=3), model.candidate(ignore_index=3)) < 2e-6


def test_a_label_that_is_no_word_is_an_error():
    model = Model()
    model.labels[1, 3] = -1
    with pytest.raises((IndexError, RuntimeError)):
        model.candidate()


@each_form
def test_the_log_probability_of_each_label(form):
    model = Model(**form)
    logits = model.lm_head(model.states)
    logits = model.cap * torch.tanh(logits / model.cap) if model.cap else logits
    labels = nn.functional.pad(model.labels, (0, 1), value=-100)[:, 1:]
    expected = nn.functional.cross_entropy(logits.mT, labels, reduction="none")
    found = model.without_logits()(None, model.labels, WORDS, reduction="none")
    torch.testing.assert_close(found, expected)
    slopes = torch.randn(ROWS, TOKENS, generator=torch.Generator().manual_seed(0))
    want, have = (model.gradients((slopes * each).sum()) for each in (expected, found))
    assert apart(want, have) < 2e-5  # slopes of both signs cancel


def test_no_label_at_all_gives_nan_and_gradients_of_zero_as_in_transformers():
    model = Model()
    model.labels.fill_(-100)
    for seen in (model.reference(), model.candidate()):
        assert seen["loss"].isnan()
        assert not seen["gradient of states"].any() and not seen["gradient of lm_head.weight"].any()


@each_form
@pytest.mark.parametrize("chunk", [1, 7, ROWS * TOKENS, 1000, None])
def test_the_size_of_a_chunk_does_not_matter(form, chunk):
    model = Model(**form, chunk=chunk)
    assert apart(model.reference(), model.candidate()) < 2e-6


# --- autograd


def test_autocast_gives_gradients_in_the_dtype_of_the_weights():
    model = Model(bias=True)
    truth = model.reference()
    with torch.autocast("cpu", torch.bfloat16):
        noise, found = apart(truth, model.reference()), model.candidate()
    assert noise > 1e-4
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert apart(truth, found) < 2 * noise


def test_the_gradient_of_the_weight_is_added_up_in_float32():
    model = Model(dtype=torch.bfloat16, chunk=1)
    states, labels = (
        torch.ones(4097, SIZE, dtype=torch.bfloat16),
        torch.zeros(4097, dtype=torch.long),
    )
    linear_losses(states, model.lm_head.weight, labels, 1)[0].sum().backward()
    slope = torch.softmax(model.lm_head(states[:1]).float(), -1)[0, 1:, None].bfloat16() * 4097
    found = model.lm_head.weight.grad[1:].float()
    torch.testing.assert_close(found, slope.float().expand(-1, SIZE), rtol=0.02, atol=0)


@each_form
def test_states_and_a_number_a_token_are_kept_and_neither_logits_nor_a_copy_of_the_weight(form):
    model, saved = Model(**form), []
    own = {parameter.data_ptr() for parameter in model.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = model.without_logits()(None, model.labels, WORDS)
    assert saved and max(tensor.numel() for tensor in saved) == ROWS * TOKENS * SIZE
    value.backward()


def test_the_graph_can_be_walked_twice_but_not_differentiated_twice():
    model = Model()
    value = model.without_logits()(None, model.labels, WORDS)
    first, second = (
        torch.autograd.grad(value, model.states, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)
    (slope,) = torch.autograd.grad(value, model.states, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        slope.sum().backward()


@pytest.mark.slow
@each_form
def test_the_operators_keep_the_rules_of_torch(form):
    model = Model(**form)
    more = {"bias": model.lm_head.bias} if "bias" in form else form
    losses = biased_losses if "bias" in form else linear_losses
    states = model.states.detach().flatten(0, 1).requires_grad_()
    torch.library.opcheck(
        losses, (states, model.lm_head.weight, model.labels.clamp(0).flatten(), CHUNK), more
    )


@pytest.mark.slow
def test_one_graph_takes_every_length():
    from torch._dynamo.testing import CompileCounterWithBackend

    model, counter = (
        built("llama", "variant", loss_chunk_size=4),
        CompileCounterWithBackend("aot_eager"),
    )
    torch._dynamo.reset()  # it remembers which lengths vary, for all models of one class
    run = torch.compile(model, backend=counter, fullgraph=True)
    for length in (7, 9, 12, 15):
        ids = torch.arange(2 * length).view(2, length)
        value = run(input_ids=ids, labels=ids, use_cache=False).loss
        torch.testing.assert_close(value, model(input_ids=ids, labels=ids).loss)
        value.backward()
    assert counter.frame_count == 2  # as its parent's: the first length, and any


# --- the compiler


def _kernels(dtype, cap=0.0, words=300):
    """What the operators run between two products, and its inputs."""
    logits = torch.randn(5, words, dtype=dtype)
    labels, slopes = torch.randint(words, (5,)), torch.randn(5)
    log_sums = entropies_of(logits, labels, cap)[1]
    return (
        (entropies_of, (logits, labels, cap)),
        (slopes_of, (logits, labels, log_sums, slopes, cap)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("cap", [0.0, 2.0])
def test_compiled_kernels_compute_the_same(cap):
    for kernel, inputs in _kernels(torch.float32, cap):
        expected = kernel(inputs[0].clone(), *inputs[1:])
        torch.testing.assert_close(compiled(kernel)(inputs[0].clone(), *inputs[1:]), expected)


@pytest.mark.slow
def test_a_logit_is_moved_as_few_times_as_by_liger():
    """Bytes of a logit in bfloat16: by inductor's count of its kernels, and by the products."""
    from torch._inductor import config, metrics

    words = 2**14
    torch._dynamo.reset()
    metrics.reset()
    torch._logging.set_logs(inductor_metrics=True)  # it counts for this log alone
    with config.patch(force_disable_caches=True):
        for kernel, inputs in _kernels(torch.bfloat16, words=words):
            torch.compile(kernel)(*inputs)
    torch._logging.set_logs()
    moved = metrics.num_bytes_accessed / (5 * words)
    products = 2 + 2 + 2 + 2  # written twice, and read for two gradients
    assert 6 <= moved and moved + products <= 16.1, moved


@pytest.mark.slow
def test_without_a_compiler_it_runs_as_it_is_written(tmp_path):
    code = (
        "import torch; from patchgen.parts.loss.kernels import entropies_of, in_one_kernel\n"
        "logits, labels = torch.randn(256, 2**16), torch.zeros(256, dtype=torch.long)\n"
        "found = in_one_kernel(entropies_of, logits, labels, 0.0)\n"
        "assert all(map(torch.equal, found, entropies_of(logits, labels, 0.0)))\n"
    )
    nowhere = {"CXX": "/nowhere/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=os.environ | nowhere, check=True)


# --- heads that are no plain linear layer


def _with_hook(model):
    model.lm_head.register_forward_hook(lambda module, given, out: None)


def _as_accelerate(model):
    model.lm_head.forward = model.lm_head.forward


def _normed(model):
    parametrizations.weight_norm(model.lm_head)


def _another_class(model):
    model.lm_head.__class__ = type("Quantised", (nn.Linear,), {})


def _with_bias(model):
    model.lm_head.bias = nn.Parameter(torch.ones(WORDS))


def _kept(model):
    model.config.loss_chunk_size = 0


def _own_loss(model):
    model.loss_function = lambda *args, **kwargs: None


def _fewer(model):
    model.labels = model.labels[:, 1:]


NEEDED = (
    _with_hook,
    _as_accelerate,
    _normed,
    _another_class,
    _with_bias,
    _kept,
    _own_loss,
    _fewer,
)


@pytest.mark.parametrize("change", NEEDED)
def test_logits_are_computed_where_they_are_needed(change):
    model = Model()
    change(model)
    assert (
        loss_without_logits(
            model, model.lm_head, model.states, model.labels, {}, linear_losses, None
        )
        is None
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
    model = (
        getattr(importlib.import_module(module), head)(tiny_config(name, **own)).to(dtype).train()
    )
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
    gradients = {
        f"gradient of {n}": p.grad for n, p in model.named_parameters() if p.grad is not None
    }
    return gradients | {"loss": loss.detach()}


@pytest.mark.parametrize("name", GALLERY)
def test_logits_have_their_place_where_they_are_not_computed(name):
    model, parent = built(name, "variant"), built(name, "parent")
    inputs = given(name, output_hidden_states=True)
    out, pair = model(**inputs), model(**inputs, return_dict=False)
    assert out.logits == pair[1] == () and out.logits is not None
    assert [type(each) for each in pair[2:]] == [
        type(each) for each in parent(**inputs, return_dict=False)[2:]
    ]
    without = {key: value for key, value in inputs.items() if key != "labels"}
    for mode in (True, False):
        expected, found = parent.train(mode)(**without), model.train(mode)(**without)
        assert torch.equal(expected.logits, found.logits)


@pytest.mark.parametrize("name", GALLERY)
def test_evaluation_with_labels_gives_logits_where_they_are_asked_for(name):
    """A masked model gives them always: its head runs on labelled tokens in training alone."""
    model, parent = built(name, "variant").eval(), built(name, "parent").eval()
    expected, found = parent(**given(name)), model(**given(name), skip_logits=False)
    assert torch.equal(expected.logits, found.logits) and torch.equal(expected.loss, found.loss)
    torch.testing.assert_close(model(**given(name)).loss, expected.loss)
    if name in CAUSAL:
        assert torch.equal(model.train()(**given(name), skip_logits=False).logits, expected.logits)
        assert len(model.eval()(**given(name)).logits) == 0


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_code_that_reads_logits_is_told_what_brings_them(name):
    logits = built(name, "variant")(**given(name)).logits
    for read in (lambda: logits[:, :-1], lambda: logits.argmax(-1), lambda: logits.shape):
        with pytest.raises(AttributeError, match="loss_chunk_size = 0"):
            read()


def test_an_adapter_on_the_head_is_trained():
    peft = pytest.importorskip("peft")
    model = built("llama", "variant")
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=2, target_modules=["lm_head"], init_lora_weights=False)
    )
    out = adapted.train()(**given("llama"))
    out.loss.backward()
    training_scenario = {name: p.grad for name, p in adapted.named_parameters() if "lora" in name}
    assert (
        out.logits is not None
        and len(training_scenario) == 2
        and all(grad.any() for grad in training_scenario.values())
    )


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_model_keeps_logits_of_labelled_tokens_alone(name):
    model, sizes = built(name, "variant"), [0]
    own = {parameter.data_ptr() for parameter in model.parameters()}
    words = model.config.vocab_size

    def pack(tensor):
        if tensor.shape[-1:] == (words,) and tensor.data_ptr() not in own:
            sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(**given(name)).loss.backward()
    assert max(sizes) == (given(name)["labels"] != -100).sum() * words


@pytest.mark.parametrize("name", MASKED)
def test_no_labelled_token_gives_what_the_parent_gives(name):
    nothing = torch.full_like(given(name)["labels"], -100)
    expected = seen(built(name, "parent"), **given(name, labels=nothing))
    found = seen(built(name, "variant"), **given(name, labels=nothing))
    assert expected.pop("loss").isnan() and found.pop("loss").isnan()
    assert expected.keys() == found.keys() and not any(
        g.any() for g in (*expected.values(), *found.values())
    )


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fixed_number_of_tokens_is_exact_or_nan(compiled):
    def training_scenario(fraction):
        model = built("bert", "variant", max_labelled_fraction=fraction)
        run = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        loss = run(**given("bert")).loss
        loss.backward()
        return loss, model.get_input_embeddings().weight.grad

    expected = built("bert", "parent")
    expected(**given("bert")).loss.backward()
    loss, gradient = training_scenario(0.5)
    want = expected.get_input_embeddings().weight.grad
    assert (gradient - want).abs().max() < 2e-5 * want.abs().max()
    loss, gradient = training_scenario(0.1)
    assert loss.isnan() and gradient.isnan().any()


@pytest.mark.parametrize("fraction", [1.5, 0, -0.1])
def test_the_labelled_fraction_is_one(fraction):
    with pytest.raises(ValueError, match="max_labelled_fraction"):
        built("bert", "variant", max_labelled_fraction=fraction)(**given("bert"))

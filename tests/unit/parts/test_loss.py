"""The loss in chunks and the head on labelled tokens, against transformers' own losses over whole logits."""

import copy
import importlib
import os
import pickle
import subprocess
import sys
import warnings
from contextlib import nullcontext
from inspect import getclosurevars

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from torch.nn.utils import parametrizations
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.parts.loss.biased import InBiasedChunks, biased_losses
from patchgen.parts.loss.kernels import compiled, losses_and_grads
from patchgen.parts.loss.linear import InChunks, linear_losses
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.differences import differences, worst
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.recorder import compute_in_float64

ROWS, TOKENS, SIZE, WORDS = 3, 11, 8, 37
CHUNK = 5  # of which neither the tokens nor the words are a multiple
NEAR = {torch.float64: 1e-13, torch.float32: 2e-6}
FORMS = {"plain": {}, "bias": {"bias": True}, "capped": {"cap": 2.0}, "no cap": {"cap": 0.0}}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
each_dtype = pytest.mark.parametrize("dtype", NEAR, ids=["float64", "float32"])


class Model(InChunks, nn.Module):
    """What the part asks of a model: its mode, its configuration, its loss, and a head."""

    def __new__(cls, bias=False, **form):
        return super().__new__(Biased if bias else Model)

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

    def logits(self, head=None):
        logits = (head or self.lm_head)(self.states)
        return self.cap * torch.tanh(logits / self.cap) if self.cap else logits

    def pair(self):
        return self.loss_from_states(self.lm_head, self.states, self.labels, self.logits, self.cap)

    def without_logits(self):
        return self.pair()[0]

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
        return self.gradients(self.loss_function(self.logits(), self.labels, WORDS, **kwargs))

    def candidate(self, **kwargs):
        return self.gradients(
            self.without_logits()(logits=None, labels=self.labels, vocab_size=WORDS, **kwargs)
        )


class Biased(Model):
    token_losses = InBiasedChunks.token_losses


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
    labels = nn.functional.pad(model.labels, (0, 1), value=-100)[:, 1:]
    expected = nn.functional.cross_entropy(model.logits().mT, labels, reduction="none")
    found = model.without_logits()(None, model.labels, WORDS, reduction="none")
    torch.testing.assert_close(found, expected)
    grad_losses = torch.randn(ROWS, TOKENS, generator=torch.Generator().manual_seed(0))
    want, have = (model.gradients((grad_losses * each).sum()) for each in (expected, found))
    assert apart(want, have) < 2e-5  # grad_losses of both signs cancel


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
    ones = torch.ones(4097)
    _, total, *_ = linear_losses(states, model.lm_head.weight, labels, ones, 1, 0.0, True, False)
    total.backward()
    slope = torch.softmax(model.lm_head(states[:1]).float(), -1)[0, 1:, None].bfloat16() * 4097
    found = model.lm_head.weight.grad[1:].float()
    torch.testing.assert_close(found, slope.float().expand(-1, SIZE), rtol=0.02, atol=0)


def _saved(model, **options):
    """How many numbers each tensor has that is kept between the passes, but for parameters."""
    saved = []
    own = {parameter.data_ptr() for parameter in model.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = model.without_logits()(None, model.labels, WORDS, **options)
    value.sum().backward()
    return sorted(saved)


@each_form
def test_two_gradients_are_kept_and_no_logits(form):
    (*small, of_states, of_weight) = _saved(Model(**form))
    assert max(small) <= WORDS  # the gradient of a bias
    assert of_weight == WORDS * SIZE and of_states == ROWS * TOKENS * SIZE


@each_form
def test_losses_of_tokens_keep_states_and_no_copy_of_the_weight(form):
    assert max(_saved(Model(**form), reduction="none")) == ROWS * TOKENS * SIZE


def test_a_weight_that_is_not_trained_costs_no_product_and_no_memory():
    model = Model()
    model.lm_head.weight.requires_grad_(False)
    assert WORDS * SIZE not in _saved(model)
    assert model.candidate().keys() == {"loss", "gradient of states"}


def test_small_gradients_of_float16_are_scaled_before_they_are_rounded():
    model, scale = Model(dtype=torch.float16), 2.0**14
    truth = Model().reference()["gradient of states"]
    model.gradients(scale * model.without_logits()(None, model.labels, WORDS) / 2**20)
    assert apart({"states": truth / 2**6}, {"states": model.states.grad.float()}) < 2e-3


@each_form
def test_the_graph_can_be_walked_twice_but_not_differentiated_twice(form):
    model = Model(**form)
    value = model.without_logits()(None, model.labels, WORDS)
    first, second = (
        torch.autograd.grad(value, model.states, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(value, model.states, create_graph=True)


@pytest.mark.slow
@each_form
def test_the_operators_keep_the_rules_of_torch(form):
    model = Model(**form)
    states = model.states.detach().flatten(0, 1).requires_grad_()
    labels, token_weights = model.labels.clamp(0).flatten(), torch.rand(ROWS * TOKENS)
    for is_summed in (True, False):
        if "bias" in form:
            operands = states, model.lm_head.weight, model.lm_head.bias, labels, token_weights
            torch.library.opcheck(biased_losses, (*operands, CHUNK, is_summed, not is_summed))
        else:
            operands = states, model.lm_head.weight, labels, token_weights
            cap = form.get("cap") or 0.0
            torch.library.opcheck(linear_losses, (*operands, CHUNK, cap, is_summed, not is_summed))


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


@pytest.mark.slow
def test_a_graph_that_breaks_at_the_loss_function_goes_on_without_logits():
    """As GPT-2's does, whose configuration names no loss: transformers warns once."""

    def break_graph(model):
        torch._dynamo.graph_break()
        return ForCausalLMLoss

    model = built("llama", "variant", loss_chunk_size=4)
    model.__class__ = type("Breaks", (type(model),), {"loss_function": property(break_graph)})
    ids = torch.arange(14).view(2, 7)
    expected = model(input_ids=ids, labels=ids).loss
    out = torch.compile(model, backend="aot_eager")(input_ids=ids, labels=ids)
    torch.testing.assert_close(out.loss, expected)
    out.loss.backward()


# --- the compiler


def _chunk(dtype, words=300):
    """Logits of a chunk, labels, and the weights of tokens."""
    return torch.randn(5, words, dtype=dtype), torch.randint(words, (5,)), torch.randn(5)


@pytest.mark.slow
@pytest.mark.parametrize("computes_grads", [True, False])
@pytest.mark.parametrize("cap", [0.0, 2.0])
def test_the_compiled_kernel_computes_the_same(cap, computes_grads):
    logits, *operands = *_chunk(torch.float32), cap, computes_grads
    pairs = []
    for kernel in (losses_and_grads, compiled(losses_and_grads)):
        grad_logits = logits.clone()
        pairs.append((kernel(grad_logits, *operands), grad_logits))
    torch.testing.assert_close(*pairs)
    assert computes_grads is not torch.equal(grad_logits, logits)


@pytest.mark.slow
def test_a_logit_is_moved_fewer_times_than_by_liger():
    """Bytes of a logit in bfloat16: by inductor's count of its kernel, and by the products."""
    from torch._inductor import config, metrics

    words = 2**14
    torch._dynamo.reset()
    metrics.reset()
    torch._logging.set_logs(inductor_metrics=True)  # it counts for this log alone
    with config.patch(force_disable_caches=True):
        torch.compile(losses_and_grads)(*_chunk(torch.bfloat16, words), 0.0, True)
    torch._logging.set_logs()
    moved = metrics.num_bytes_accessed / (5 * words)
    products = 2 + 2 + 2  # written once, and read for two gradients
    assert 6 <= moved and moved + products <= 12.1, moved


@pytest.mark.slow
def test_without_a_compiler_it_runs_as_it_is_written(tmp_path):
    code = (
        "import torch; from patchgen.parts.loss.kernels import in_one_kernel, losses_and_grads\n"
        "logits, labels = torch.randn(256, 2**16), torch.zeros(256, dtype=torch.long)\n"
        "operands = labels, torch.ones(256), 0.0, True\n"
        "losses = in_one_kernel(losses_and_grads, logits.clone(), *operands)\n"
        "assert torch.equal(losses, losses_and_grads(logits, *operands))\n"
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


def _split_and_a_group(model):
    """Of tensor parallelism, which gives it a forward, and of FSDP2, which gives it a class."""
    model.lm_head.__class__ = type("FSDPLinear", (nn.Linear,), {"unshard": None})
    model.lm_head.forward = model.lm_head.forward


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
    _split_and_a_group,
    _with_bias,
    _kept,
    _own_loss,
    _fewer,
)


@pytest.mark.parametrize("change", NEEDED)
def test_logits_are_computed_where_they_are_needed_and_a_head_says_so_once(change):
    model = Model()
    change(model)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        pairs = [model.pair() for _ in range(3)]
    assert all(function is None and type(logits) is torch.Tensor for function, logits in pairs)
    of_the_head = change in NEEDED[: NEEDED.index(_kept)]
    assert [str(each.message)[:21] for each in said] == ["the loss reads logits"] * of_the_head


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


# --- logits that nobody has read


def is_read(logits):
    return bool(getclosurevars(logits.read).nonlocals["values"])


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_logits_are_those_of_the_parent_with_their_gradient(name, train):
    models = [built(name, side).train(train) for side in ("parent", "variant")]
    inputs = given(name, output_hidden_states=True)
    parent, variant = (model(**inputs) for model in models)
    if train or name in CAUSAL:
        assert not is_read(variant.logits)
    assert (variant.logits.shape, variant.logits.dtype) == (parent.logits.shape, torch.float32)
    assert torch.equal(parent.logits, variant.logits)
    pairs = [model(**inputs, return_dict=False) for model in models]
    assert all(type(a) is type(b) or is_read(b) is False for a, b in zip(*pairs, strict=True))
    for model, out in zip(models, (parent, variant), strict=True):
        model.zero_grad()
        out.logits.float().logsumexp(-1).sum().backward()
    for a, b in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name", GALLERY)
def test_without_labels_the_parents_statements_run(name):
    models = [built(name, side) for side in ("parent", "variant")]
    without = {key: value for key, value in given(name).items() if key != "labels"}
    for mode in (True, False):
        expected, found = (model.train(mode)(**without).logits for model in models)
        assert type(found) is torch.Tensor and torch.equal(expected, found)


def test_what_engines_do_to_outputs_reads_nothing():
    """DDP clones outputs, accelerate makes them float32, FSDP2 casts those that float."""
    out = built("llama", "variant", torch.bfloat16)(**given("llama"))
    narrow, wide = out.logits.clone(), out.logits.float()
    assert torch.is_floating_point(narrow) and not narrow.requires_grad and narrow.is_leaf
    assert (narrow.dtype, wide.dtype) == (torch.bfloat16, torch.float32)
    assert wide.to(torch.bfloat16).dtype == torch.bfloat16 and wide.device.type == "cpu"
    assert not any(map(is_read, (out.logits, narrow, wide)))
    assert (
        torch.equal(wide, out.logits.float()) and is_read(out.logits) and wide.sum().requires_grad
    )
    narrow.zero_()  # a clone is one
    assert out.logits.any()


def test_a_reader_without_gradients_keeps_none_and_a_later_one_has_its_own():
    model = built("llama", "variant")
    logits = model(**given("llama")).logits
    with torch.no_grad():
        assert not logits.softmax(-1).requires_grad and not logits.read().requires_grad
    assert logits.sum().requires_grad
    with torch.no_grad():
        logits = model(**given("llama")).logits
    assert logits.numpy().shape == logits.shape


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return logits.detach() * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize("name", GALLERY)
def test_a_function_that_would_lose_their_gradient_is_an_error(name):
    """It takes tensors without asking them, and computes without a gradient."""
    model = built(name, "variant")
    logits = model(**given(name)).logits
    with pytest.raises(RuntimeError, match=r"autograd.Function .* loses their gradient"):
        Doubled.apply(logits)
    assert Doubled.apply(logits.contiguous()).requires_grad
    with torch.no_grad():
        logits = model(**given(name)).logits
    Doubled.apply(logits)
    with torch.inference_mode():
        assert model(**given(name)).logits.softmax(-1).isfinite().all()


def test_copies_and_files_have_the_values(tmp_path):
    logits = built("llama", "variant").eval()(**given("llama")).logits.detach()
    for way in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), on_disk(tmp_path)):
        with torch.no_grad():
            out = built("llama", "variant").eval()(**given("llama"))
        found = way({"logits": out.logits})["logits"]
        assert type(found) is torch.Tensor and torch.equal(found, logits)


def on_disk(folder):
    def way(saved):
        torch.save(saved, folder / "saved.pt")
        return torch.load(folder / "saved.pt")

    return way


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_logits_of_other_weights_are_an_error(name):
    model = built(name, "variant")
    out = model(**given(name))
    out.loss.backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    with pytest.raises(RuntimeError, match="after the weights of their head have changed"):
        out.logits.argmax(-1)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_autocast_is_that_of_the_forward_pass(name):
    parent, variant = (built(name, side) for side in ("parent", "variant"))
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = parent(**given(name)).logits, variant(**given(name)).logits
    assert found.dtype == torch.bfloat16 and torch.equal(expected, found)
    found = variant(**given(name)).logits
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(found.clone(), parent.float()(**given(name)).logits) is False
        assert found.sum().dtype == torch.float32


@pytest.mark.parametrize("labelled", ["the model", "a function of logits"])
def test_compiled_models_give_deferred_logits_and_compiled_functions_take_them(labelled):
    model, read = built("llama", "variant"), lambda logits: logits[:, :-1].logsumexp(-1).sum()
    torch._dynamo.reset()
    options = {"backend": "aot_eager", "fullgraph": True}
    if labelled == "the model":
        out = torch.compile(model, **options)(**given("llama"), use_cache=False)
        assert not is_read(out.logits)
        value = read(out.logits)
    else:
        value = torch.compile(read, **options)(model(**given("llama")).logits)
    parent = built("llama", "parent")
    expected = read(parent(**given("llama")).logits)
    for each in (expected, value):
        each.backward()
    torch.testing.assert_close(value, expected)
    for a, b in zip(parent.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


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

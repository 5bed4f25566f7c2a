"""Log-probabilities and entropies without logits: those of `log_softmax`, with gradients, in chunks."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn

from tests.drafts import both_classes, tiny

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, LENGTH, TEMPERATURE = 2, 9, 0.7
MODELS = {
    "llama": "LlamaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",  # caps its logits
    "granite": "GraniteForCausalLM",  # divides them
    "phi": "PhiForCausalLM",  # has a bias
}
models = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    home = tmp_path_factory.mktemp("logprobs")
    return {
        model: both_classes(model, "logprobs", head, home / model) for model, head in MODELS.items()
    }


@pytest.fixture
def build(classes):
    def built(model, side, chunk=5):
        made = tiny(classes[model][side], "eager")
        made.config.loss_chunk_size = chunk
        return made

    return built


def words():
    return torch.randint(3, 90, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))


def next_words():
    tokens = words().roll(-1, 1)
    tokens[:, -1] = -100
    return tokens


def selective_log_softmax(logits, index):
    """As TRL has it, and the entropy beside."""
    every = logits.log_softmax(-1)
    return every.gather(-1, index[..., None]).squeeze(-1), -(every.exp() * every).sum(-1)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@models
def test_they_are_those_of_the_logits_of_the_parent(build, model):
    parent, variant = build(model, 0), build(model, 1)
    index = next_words()[:, :-1]
    logits = parent(words(), use_cache=False).logits[:, :-1] / TEMPERATURE
    log_probs, entropy = selective_log_softmax(logits, index)
    out = variant(words(), use_cache=False, log_probs_of=next_words(), temperature=TEMPERATURE)
    ours = out.log_probs[:, :-1], out.entropy[:, :-1]
    torch.testing.assert_close(ours, (log_probs, entropy), rtol=1e-4, atol=1e-4)
    assert out.log_probs.dtype == torch.float32 and not out.log_probs[:, -1].any()
    # A policy's loss with a bonus for entropy: both have gradients.
    wanted = gradients(parent, log_probs.exp().sum() - entropy.square().sum())
    found = gradients(variant, ours[0].exp().sum() - ours[1].square().sum())
    assert wanted.keys() == found.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-3, atol=1e-3)


@models
def test_without_the_argument_it_is_the_parent(build, model):
    parent, variant = build(model, 0), build(model, 1)
    wanted, found = (each(words(), labels=words(), use_cache=False) for each in (parent, variant))
    assert torch.equal(wanted.logits, found.logits) and torch.equal(wanted.loss, found.loss)


def test_no_logits_of_all_tokens_exist(build):
    variant, sizes = build("llama", 1), []
    variant.lm_head.register_forward_hook(lambda head, given, logits: sizes.append(logits.shape[0]))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.shape[-1]) or t, lambda t: t
    ):
        out = variant(words(), use_cache=False, log_probs_of=next_words())
    assert sizes == [5, 5, 5, 3] and variant.config.vocab_size not in kept
    out.log_probs.sum().backward()
    assert sizes == [5, 5, 5, 3] + [3, 5, 5, 5]  # computed again, chunk by chunk


def test_the_last_places_alone(build):
    variant = build("llama", 1)
    whole = variant(words(), use_cache=False, log_probs_of=next_words())
    few = variant(words(), use_cache=False, log_probs_of=next_words()[:, -4:], logits_to_keep=4)
    torch.testing.assert_close(few.log_probs, whole.log_probs[:, -4:])
    with pytest.raises(ValueError, match=r"log_probs_of is \(2, 9\), and its places \(2, 4\)"):
        variant(words(), use_cache=False, log_probs_of=next_words(), logits_to_keep=4)


def test_an_adapter_of_the_head_is_called(build):
    """As LoRA has it: a module of another class in the place of the head."""

    class Adapted(nn.Module):
        def __init__(self, head):
            super().__init__()
            self.head = head
            self.more = nn.Linear(head.in_features, head.out_features, bias=False)

        @property
        def weight(self):
            return self.head.weight

        def forward(self, states):
            return self.head(states) + self.more(states)

    variant = build("llama", 1)
    before = variant(words(), use_cache=False, log_probs_of=next_words())
    variant.lm_head = Adapted(variant.lm_head)
    after = variant(words(), use_cache=False, log_probs_of=next_words())
    assert not torch.allclose(before.log_probs, after.log_probs)
    after.log_probs.sum().backward()
    assert variant.lm_head.more.weight.grad.abs().max() > 0


def test_a_checkpointed_model_under_autocast(build):
    variant = build("llama", 1).train()
    variant.activation_checkpointing_enable()
    with torch.autocast("cpu", torch.bfloat16):
        out = variant(words(), use_cache=False, log_probs_of=next_words())
    out.log_probs.sum().backward()
    assert out.log_probs.dtype == torch.float32 and variant.lm_head.weight.grad is not None


@pytest.mark.slow
def test_it_compiles(build):
    variant = build("llama", 1)
    wanted = variant(words(), use_cache=False, log_probs_of=next_words()).log_probs
    torch._dynamo.reset()
    variant.forward = torch.compile(variant.forward, backend="aot_eager", fullgraph=True)
    found = variant(words(), use_cache=False, log_probs_of=next_words()).log_probs
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)

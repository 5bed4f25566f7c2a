"""Errors of every kind, planted in transformers' own classes, which are then held against themselves.

What verify sees here it sees in a variant.  Errors of a part's own making are planted by its claim, and run for every
variant of the gallery (test_gallery).  Numbers such as N6 are those of the list of defects seen in other tools.
"""

import contextlib
import functools
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from patchgen.lab.bench import Bench  # noqa: E402
from patchgen.lab.cases import Case  # noqa: E402
from patchgen.lab.checks.numbers import compare  # noqa: E402
from patchgen.lab.checks.plants import planted  # noqa: E402
from patchgen.lab.claim import Plant, Scene, replaced, strictly_loaded  # noqa: E402
from patchgen.lab.claims.sdpa import CLAIM  # noqa: E402
from patchgen.lab.pair import Pair  # noqa: E402
from patchgen.lab.step import observe_step  # noqa: E402
from patchgen.lab.subject import Subject, subjects  # noqa: E402
from patchgen.lab.tolerance import MARGIN, REORDERED  # noqa: E402
from tests.toytree import REPOSITORY  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

DTYPES = [torch.float64, torch.float32]


@functools.cache
def pair(model: str, head: str) -> Pair:
    module = f"transformers.models.{model}.modeling_{model}"
    parts = () if model == "gemma2" else ("sdpa",)  # transformers' SDPA has no soft-cap
    return Pair(Subject(model, module, module, parts, (head,), "."), head)


def module_of(model):
    return sys.modules[type(model).__module__]


def parameters(model, ending):
    found = [p for name, p in model.named_parameters() if name.endswith(ending)]
    assert found, ending
    return found


@contextlib.contextmanager
def zeroed(ending, model):
    with torch.no_grad():
        parameters(model, ending)[0].zero_()
    yield


@contextlib.contextmanager
def swapped_experts(model):
    with torch.no_grad():
        weight = parameters(model, "experts.down_proj")[0]
        weight.copy_(weight[[1, 0, *range(2, len(weight))]])
    yield


def method(class_name, name, wrong):
    def apply(model):
        return replaced(
            getattr(module_of(model), class_name),
            name,
            lambda was: lambda self, *args, **kwargs: wrong(was, self, *args, **kwargs),
        )

    return apply


def without_added_one(was, self, x):
    return (self._norm(x.float()) * self.weight.float()).type_as(x)


@contextlib.contextmanager
def positions_shifted(model):
    table = model.transformer.wpe
    with replaced(type(table), "forward", lambda was: lambda self, x: was(self, x + 1 if self is table else x)):
        yield


def detached_router(was, self, *args):
    logits, weights, chosen = was(self, *args)
    return logits, weights.detach(), chosen


@contextlib.contextmanager
def without_softcap(model):
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    yield


@contextlib.contextmanager
def scaled_loss(model):
    was = model.loss_function
    model._loss_function = lambda *args, **kwargs: was(*args, **kwargs) / 2
    yield


class DoubledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def wrong_gradient(was, self, *args):
    return DoubledGradient.apply(was(self, *args))


def in_bfloat16(was, self, x):
    return was(self, x.bfloat16().to(x.dtype))


def reseeded(was, self, *args, **kwargs):
    self.calls = getattr(self, "calls", 0) + 1
    torch.manual_seed(self.calls)
    return was(self, *args, **kwargs)


DROPOUT = Scene(train=True, dropout=0.2, checkpointing={})
MIXTRAL, GEMMA, GPT2, BERT, LLAMA = (
    ("mixtral", "MixtralForCausalLM"),
    ("gemma2", "Gemma2ForCausalLM"),
    ("gpt2", "GPT2LMHeadModel"),
    ("bert", "BertForMaskedLM"),
    ("llama", "LlamaForCausalLM"),
)
PLANTED = [
    (BERT, Plant("dropped bias", "", functools.partial(zeroed, "attention.self.value.bias"))),
    (BERT, Plant("dropped bias of a norm", "", functools.partial(zeroed, "output.LayerNorm.bias"))),
    (GPT2, Plant("position shifted", "", positions_shifted)),
    (GEMMA, Plant("N6 norm without its added one", "", method("Gemma2RMSNorm", "forward", without_added_one))),
    (GEMMA, Plant("soft-cap left out", "", without_softcap)),
    (MIXTRAL, Plant("router gradient detached", "", method("MixtralTopKRouter", "forward", detached_router))),
    (MIXTRAL, Plant("experts swapped", "", swapped_experts)),
    (MIXTRAL, Plant("N11 missing expert weights", "", functools.partial(zeroed, "experts.gate_up_proj"))),
    (LLAMA, Plant("N1 a gradient alone is wrong", "", method("LlamaMLP", "forward", wrong_gradient))),
    (LLAMA, Plant("N7 loss scaled by accumulation", "", scaled_loss, Scene(train=True, accumulate=2))),
    (LLAMA, Plant("N13 a kernel that rounds to bfloat16", "", method("LlamaMLP", "forward", in_bfloat16))),
    (GPT2, Plant("dropout reseeded in recompute", "", method("GPT2MLP", "forward", reseeded), DROPOUT)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize(
    ("where", "plant"), PLANTED, ids=lambda given: given.name if isinstance(given, Plant) else given[0]
)
def test_a_planted_error_is_seen(where, plant, dtype):
    both = pair(*where)
    _, model = both.models(both.routes[0], dtype, plant.scene.dropout, fresh=True)
    with plant.apply(model):
        seen = both.variant_sees(both.routes[0], dtype, plant.scene, model=model)  # it runs, and is wrong
    apart = compare(both, both.routes[0], dtype, plant.scene, seen)[0].largest
    assert apart >= MARGIN * REORDERED.at(dtype)


@pytest.mark.parametrize("where", [MIXTRAL, GEMMA, GPT2, BERT, LLAMA], ids=lambda where: where[0])
def test_nothing_is_seen_where_nothing_is_planted(where):
    for scene in (Scene(), DROPOUT, Scene(train=True, accumulate=2)):
        nothing = Plant("nothing", "", lambda model: contextlib.nullcontext(), scene)
        assert planted(pair(*where), nothing, torch.float32) == 0


def test_n1_the_loss_of_a_wrong_gradient_looks_right():
    both = pair(*LLAMA)
    right = both.parent_sees(both.routes[0], torch.float32, Scene())
    _, model = both.models(both.routes[0], torch.float32, fresh=True)
    with method("LlamaMLP", "forward", wrong_gradient)(model):
        wrong = both.variant_sees(both.routes[0], torch.float32, Scene(), model=model)
    assert torch.equal(right["loss"], wrong["loss"]) and torch.equal(right["logits"], wrong["logits"])


def test_n5_layers_behind_frozen_ones_keep_their_gradients_under_checkpointing():
    both = pair(*LLAMA)
    seen = []
    for checkpointing in (False, True):
        _, model = both.models(both.routes[0], torch.float32, fresh=True)
        model.get_input_embeddings().requires_grad_(False)
        scene = Scene(train=True, checkpointing={})
        seen.append(observe_step(model, both.inputs(scene, torch.float32), scene, checkpointing=checkpointing))
    assert seen[0].keys() == seen[1].keys() and len([name for name in seen[0] if name.startswith("gradient")]) > 20
    assert all(torch.equal(seen[0][name], tensor) for name, tensor in seen[1].items())


def test_n8_packing_without_boundaries_is_seen():
    both = pair(*LLAMA)
    assert both.keeps_packed_apart
    packed, full = (both.parent_sees(both.routes[0], torch.float32, Scene(rows=rows)) for rows in ("packed", "full"))
    assert not torch.allclose(packed["logits"], full["logits"], atol=0.1)


def test_n9_packed_rows_are_kept_apart_under_compile():
    """A mask that is not made because nobody could look at positions while tracing would mix two texts of a row."""
    (subject,) = subjects(REPOSITORY, ["llama_sdpa"])
    bench = Bench(subject)
    case = Case("", "compiled", LLAMA[1], scene=Scene(rows="packed", train=True), detail="eager")
    both = bench.pair(case)
    assert both.keeps_packed_apart
    result = bench.run(case)
    assert result.status == "PASS", result


def test_n9_rows_that_are_mixed_under_compile_are_seen(monkeypatch):
    """By the same case: positions forgotten where a compiler traces."""
    (subject,) = subjects(REPOSITORY, ["llama_sdpa"])
    bench = Bench(subject)
    case = Case("", "compiled", LLAMA[1], scene=Scene(rows="packed", train=True), detail="eager")
    right = observe_step

    def wrong(model, inputs, scene, **how):
        compiled = getattr(model, "_compiled_call_impl", None) is not None
        given = {name: t for name, t in inputs.given.items() if not (compiled and name == "position_ids")}
        return right(model, replace(inputs, given=given), scene, **how)

    monkeypatch.setattr("patchgen.lab.checks.compiled.observe_step", wrong)
    result = bench.run(case)
    assert result.status == "FAIL" and result.apart > MARGIN * result.bound, result


def test_n11_a_checkpoint_that_lost_its_experts_is_refused(tmp_path):
    model = pair(*MIXTRAL).master(torch.float32)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({name: t for name, t in load_file(path).items() if "experts" not in name}, path, {"format": "pt"})
    with pytest.raises(ValueError, match="missing_keys"):
        strictly_loaded(type(model), tmp_path)


def test_n12_a_variant_that_does_nothing_has_no_effect():
    both = pair(*LLAMA)
    eager = replace(both.routes[0], **{side: {"attn_implementation": "eager"} for side in ("parent", "variant")})
    both.__dict__["routes"] = (replace(eager, name="nothing"), both.routes[1])
    try:
        told = list(CLAIM.effect(*both.evidence(Scene(train=True)), both.specimen))
    finally:
        del both.__dict__["routes"]
    assert told == ["0 calls of SDPA for 3 attentions", "3 softmaxes over scores"]


def test_a_case_fails_with_its_numbers_and_its_place(monkeypatch):
    """Not only the distance: verify's own verdict, and what a person is told."""
    case = Case("packed", "numbers", LLAMA[1], "float32", 1, Scene(rows="packed"))
    bench = Bench(pair(*LLAMA).subject)
    bench._pairs[LLAMA[1], ()] = replace(pair(*LLAMA))
    both = bench.pair(case)
    right = type(both).variant_sees

    def wrong(self, *args, **kwargs):
        seen = dict(right(self, *args, **kwargs))
        seen["logits"] = seen["logits"] + 1
        return seen

    monkeypatch.setattr(Pair, "variant_sees", wrong)
    monkeypatch.setattr(Bench, "smallest_planted", lambda self, case: 1.0)
    result = bench.run(case)
    assert result.status == "FAIL" and result.apart > result.bound > 0
    assert "logits: max" in result.note and "under eager" in result.note


def test_a_bound_that_no_planted_error_exceeds_tenfold_is_a_warning(monkeypatch):
    bench = Bench(pair(*LLAMA).subject)
    bench._pairs[LLAMA[1], ()] = pair(*LLAMA)
    case = Case("full", "numbers", LLAMA[1], "float32", 1, Scene())
    for smallest, status in [(9 * REORDERED.at(torch.float32), "WARN"), (None, "WARN"), (1.0, "PASS")]:
        monkeypatch.setattr(Bench, "smallest_planted", lambda self, case, told=smallest: told)
        assert bench.run(case).status == status

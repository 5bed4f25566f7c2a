"""Errors of every kind, planted in transformers' own classes, which are then held against themselves.

What verify sees here it sees in a variant.  Errors of attention are planted by the checks of its parts too,
and run for every variant of the gallery (test_gallery).
"""

import contextlib
import functools
import math
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from transformers import DataCollatorWithFlattening

from patchgen.runtime.grouped_gemm import GROUPED_MM, grouped_linear, sort_pairs
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.checks.context import Case, CheckContext, View
from patchgen.verifying.checks.numbers import measure_planted_error
from patchgen.verifying.checks.running import check_compiled
from patchgen.verifying.differences import MARGIN, REORDERED
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.attention import SDPA as PART_CHECK
from patchgen.verifying.parts.part_check import PlantedError, Scenario, load_strictly, replaced
from patchgen.verifying.variants import Variant
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

DTYPES = [torch.float64, torch.float32]


@functools.cache
def pair(model: str, head: str) -> Pair:
    module = f"transformers.models.{model}.modeling_{model}"
    parts = () if model == "gemma2" else ("sdpa",)  # transformers' SDPA has no soft-cap
    return Pair(Variant(model, module, module, parts, (head,), "."), head)


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
def positions_shifted(name, model):
    table = model.get_submodule(name)
    with replaced(
        type(table), "forward", lambda was: lambda self, x: was(self, x + 1 if self is table else x)
    ):
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


def row_not_written(was, self, *args):
    out = was(self, *args)
    return out.index_fill(0, torch.tensor([3]), torch.nan)


def token_without(was, self, x, *args):
    """What is computed is right; the gradient that one token brings is forgotten."""
    out = was(self, x, *args)
    kept = torch.arange(len(out))[:, None] != 3
    return torch.where(kept, out, out.detach())


def in_bfloat16(was, self, x):
    return was(self, x.bfloat16().to(x.dtype))


def reseeded(was, self, *args, **kwargs):
    self.calls = getattr(self, "calls", 0) + 1
    torch.manual_seed(self.calls)
    return was(self, *args, **kwargs)


ROBERTA_TABLE = "roberta.embeddings.position_embeddings"
DROPOUT = Scenario(train=True, dropout=0.2, checkpointing={})
MIXTRAL, GEMMA, GPT2, BERT, ROBERTA, LLAMA = (
    ("mixtral", "MixtralForCausalLM"),
    ("gemma2", "Gemma2ForCausalLM"),
    ("gpt2", "GPT2LMHeadModel"),
    ("bert", "BertForMaskedLM"),
    ("roberta", "RobertaForMaskedLM"),
    ("llama", "LlamaForCausalLM"),
)
PLANTED = [
    (
        BERT,
        PlantedError("dropped bias", "", functools.partial(zeroed, "attention.self.value.bias")),
    ),
    (
        BERT,
        PlantedError(
            "dropped bias of a norm", "", functools.partial(zeroed, "output.LayerNorm.bias")
        ),
    ),
    (
        GPT2,
        PlantedError(
            "position shifted", "", functools.partial(positions_shifted, "transformer.wpe")
        ),
    ),
    (
        GEMMA,
        PlantedError(
            "norm without its added one",
            "",
            method("Gemma2RMSNorm", "forward", without_added_one),
        ),
    ),
    (GEMMA, PlantedError("soft-cap left out", "", without_softcap)),
    (
        MIXTRAL,
        PlantedError(
            "router gradient detached", "", method("MixtralTopKRouter", "forward", detached_router)
        ),
    ),
    (MIXTRAL, PlantedError("experts swapped", "", swapped_experts)),
    (
        MIXTRAL,
        PlantedError(
            "missing expert weights", "", functools.partial(zeroed, "experts.gate_up_proj")
        ),
    ),
    (
        MIXTRAL,
        PlantedError(
            "rows left as they were found",
            "",
            method("MixtralExperts", "forward", row_not_written),
        ),
    ),
    (
        MIXTRAL,
        PlantedError(
            "an expert's gradient lacks a token",
            "",
            method("MixtralExperts", "forward", token_without),
        ),
    ),
    (
        ROBERTA,
        PlantedError(
            "positions of flattened texts",
            "",
            functools.partial(positions_shifted, ROBERTA_TABLE),
        ),
    ),
    (
        LLAMA,
        PlantedError(
            "a gradient alone is wrong", "", method("LlamaMLP", "forward", wrong_gradient)
        ),
    ),
    (
        LLAMA,
        PlantedError(
            "loss scaled by accumulation", "", scaled_loss, Scenario(train=True, accumulate=2)
        ),
    ),
    (
        LLAMA,
        PlantedError(
            "a kernel that rounds to bfloat16", "", method("LlamaMLP", "forward", in_bfloat16)
        ),
    ),
    (
        GPT2,
        PlantedError(
            "dropout reseeded in recompute", "", method("GPT2MLP", "forward", reseeded), DROPOUT
        ),
    ),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize(
    ("where", "planted_error"),
    PLANTED,
    ids=lambda given: given.name if isinstance(given, PlantedError) else given[0],
)
def test_a_planted_error_is_seen(where, planted_error, dtype):
    both = pair(*where)
    _, model = both.models(both.routes[0], dtype, planted_error.scenario.dropout, fresh=True)
    with planted_error.apply(model):
        observed = both.observe_variant(
            both.routes[0], dtype, planted_error.scenario, model=model
        )  # it runs, and is wrong
    largest = View(both, both.routes[0], dtype, planted_error.scenario).compare(observed)[0].largest
    assert largest >= MARGIN * REORDERED.at(dtype)


@pytest.mark.parametrize("where", [MIXTRAL, GEMMA, GPT2, BERT, LLAMA], ids=lambda where: where[0])
def test_nothing_is_seen_where_nothing_is_planted(where):
    for scenario in (Scenario(), DROPOUT, Scenario(train=True, accumulate=2)):
        nothing = PlantedError("nothing", "", lambda model: contextlib.nullcontext(), scenario)
        assert measure_planted_error(pair(*where), nothing, torch.float32) == 0


@pytest.fixture
def memory_of_nan():
    """Memory that nothing was written to reads as NaN, and not as what happened to be there."""
    was = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert torch.empty(3).isnan().all()
    yield
    torch.utils.deterministic.fill_uninitialized_memory = was
    torch.use_deterministic_algorithms(False)


def test_n1_the_loss_of_a_wrong_gradient_looks_right():
    both = pair(*LLAMA)
    right = both.observe_parent(both.routes[0], torch.float32, Scenario())
    _, model = both.models(both.routes[0], torch.float32, fresh=True)
    with method("LlamaMLP", "forward", wrong_gradient)(model):
        wrong = both.observe_variant(both.routes[0], torch.float32, Scenario(), model=model)
    assert torch.equal(right["loss"], wrong["loss"]) and torch.equal(
        right["logits"], wrong["logits"]
    )


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16], ids=str)
def test_n2_no_row_of_a_grouped_product_is_left_as_it_was_found(dtype, memory_of_nan):
    """Nor one of its gradients: an expert without tokens, and a choice that belongs to another device."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(9, 16, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(4, 24, 16, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
    choice = torch.tensor(
        [[0, 3], [3, 4], [4, 0], [1, 0], [1, 3], [4, 4], [0, 1], [3, 1], [1, 0]]
    )  # never 2
    pairs = sort_pairs(choice, 4)
    gates = (choice < 4).to(dtype)[..., None]
    out = (pairs.unpermute(grouped_linear(pairs.permute(x), weight, pairs)) * gates).sum(1)
    factors = torch.randn(out.shape, generator=draw, dtype=torch.float64).to(dtype)
    (out * factors).sum().backward()

    wide, dense = (each.detach().double().requires_grad_() for each in (x, weight))
    rows = [
        sum(dense[expert] @ token for expert in row if expert < 4)
        for token, row in zip(wide, choice, strict=True)
    ]
    zero = torch.zeros(24, dtype=torch.float64)
    loop = torch.stack([zero + row for row in rows])
    (loop * factors).sum().backward()
    for found, wanted in ((out, loop), (x.grad, wide.grad), (weight.grad, dense.grad)):
        assert torch.allclose(found.double(), wanted, rtol=0, atol=64 * torch.finfo(dtype).eps)


def test_n2_rows_past_the_last_expert_are_seen(memory_of_nan):
    """What the test before this one would find if such choices were left out of the groups."""
    x, weight = torch.ones(16, 16), torch.ones(2, 16, 16)
    ends = torch.tensor([4, 8], dtype=torch.int32)  # of sixteen rows
    assert not GROUPED_MM(x, weight, offs=ends).isfinite().all()


def test_n10_flattened_texts_have_the_positions_of_roberta():
    recorded = BY_NAME["roberta_padding_free"]
    both = Pair(recorded, ROBERTA[1])
    parent, variant = both.models(both.routes[0], torch.float64)
    texts = [
        torch.randint(5, 90, (length,), generator=torch.Generator().manual_seed(length))
        for length in (7, 3, 9)
    ]

    def flattened(**how):
        batch = DataCollatorWithFlattening(**how)([{"input_ids": text.tolist()} for text in texts])
        return {name: batch[name] for name in ("input_ids", "position_ids")}

    with torch.no_grad():
        alone = torch.cat([parent(input_ids=text[None]).logits[0] for text in texts])
        start = parent.config.pad_token_id + 1
        packed = variant(**flattened(position_ids_start=start)).logits[0]
        assert torch.allclose(packed, alone, rtol=0, atol=1e-10)
        with pytest.raises(ValueError, match=f"position_ids_start={start}"):
            variant(**flattened())


@pytest.mark.parametrize("broken", ["parent", "variant"])
def test_what_does_not_run_without_an_error_has_shown_none(broken, monkeypatch):
    """A crash counts as an error that is seen: it must be the error's."""
    bench, head = CaseRunner(pair(*LLAMA).variant), LLAMA[1]
    bench._pairs[head, "()"] = both = replace(pair(*LLAMA))
    case = Case("", "planted", head, "float32", detail="sdpa:boom")
    sides = {"parent": "observe_parent", "variant": "observe_variant"}

    def wrong(self, *args, **kwargs):
        raise (CannotBuild if broken == "parent" else RuntimeError)("it does not run")

    crash = PlantedError(
        "boom", "", method("LlamaMLP", "forward", lambda was, *args: torch.ones(2) @ torch.ones(3))
    )
    both.__dict__["part_checks"] = (replace(PART_CHECK, planted_errors=(crash,)),)
    assert bench.run(case).difference == math.inf
    monkeypatch.setattr(Pair, sides[broken], wrong)
    result = bench.run(case)
    assert result.status == "NONE" and "it does not run" in result.note


def test_n5_layers_behind_frozen_ones_keep_their_gradients_under_checkpointing():
    both = pair(*LLAMA)
    observed = []
    for checkpointing in (False, True):
        _, model = both.models(both.routes[0], torch.float32, fresh=True)
        model.get_input_embeddings().requires_grad_(False)
        scenario = Scenario(train=True, checkpointing={})
        observed.append(
            observe_step(
                model, both.inputs(scenario, torch.float32), scenario, checkpointing=checkpointing
            )
        )
    assert (
        observed[0].keys() == observed[1].keys()
        and len([name for name in observed[0] if name.startswith("gradient")]) > 20
    )
    assert all(torch.equal(observed[0][name], tensor) for name, tensor in observed[1].items())


def test_n8_packing_without_boundaries_is_seen():
    both = pair(*LLAMA)
    assert both.isolates_packed_texts
    packed, full = (
        both.observe_parent(both.routes[0], torch.float32, Scenario(rows=rows))
        for rows in ("packed", "full")
    )
    assert not torch.allclose(packed["logits"], full["logits"], atol=0.1)


@pytest.mark.slow
def test_packed_rows_are_isolated_under_compile():
    """A mask that is not made because nobody could look at positions while tracing would mix two texts of a row."""
    variant = BY_NAME["llama_loss"]
    bench = CaseRunner(variant)
    case = Case(
        "", "compiled", LLAMA[1], scenario=Scenario(rows="packed", train=True), detail="eager"
    )
    both = bench.pair(case)
    assert both.isolates_packed_texts
    result = bench.run(case)
    assert result.status == "PASS", result


@pytest.mark.slow
def test_rows_that_are_mixed_under_compile_are_seen(monkeypatch):
    """By the same case: positions forgotten where a compiler traces."""
    pair = CaseRunner(BY_NAME["llama_loss"]).pair
    case = Case(
        "", "compiled", LLAMA[1], scenario=Scenario(rows="packed", train=True), detail="eager"
    )
    right = observe_step

    def wrong(model, inputs, scenario, **how):
        compiled = getattr(model, "_compiled_call_impl", None) is not None
        given = {
            name: t for name, t in inputs.given.items() if not (compiled and name == "position_ids")
        }
        return right(model, replace(inputs, given=given), scenario, **how)

    monkeypatch.setattr("patchgen.verifying.checks.running.observe_step", wrong)
    verdict = check_compiled(CheckContext(pair(case), case))  # the parent would be wrong, too
    assert verdict.status == "FAIL" and verdict.difference > MARGIN * verdict.bound, verdict


def test_n11_a_checkpoint_that_lost_its_experts_is_refused(tmp_path):
    model = pair(*MIXTRAL).master(torch.float32)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(
        {name: t for name, t in load_file(path).items() if "experts" not in name},
        path,
        {"format": "pt"},
    )
    with pytest.raises(ValueError, match="is in no checkpoint"):
        load_strictly(type(model), tmp_path)


def test_n12_a_variant_that_does_nothing_has_no_effect():
    both = pair(*LLAMA)
    eager = replace(
        both.routes[0], **{side: {"attn_implementation": "eager"} for side in ("parent", "variant")}
    )
    both.__dict__["routes"] = (replace(eager, name="nothing"), both.routes[1])
    try:
        effects = list(PART_CHECK.effect(*both.evidence(Scenario(train=True)), both.facts))
    finally:
        del both.__dict__["routes"]
    assert effects == ["0 calls of SDPA for 3 attentions", "3 softmaxes over scores"]


def test_a_case_fails_with_its_numbers_and_its_place(monkeypatch):
    """Not only the distance: verify's own verdict, and what a person is told."""
    case = Case("packed", "numbers", LLAMA[1], "float32", 1, Scenario(rows="packed"))
    bench = CaseRunner(pair(*LLAMA).variant)
    bench._pairs[LLAMA[1], "()"] = replace(pair(*LLAMA))
    both = bench.pair(case)
    right = type(both).observe_variant

    def wrong(self, *args, **kwargs):
        observed = dict(right(self, *args, **kwargs))
        observed["logits"] = observed["logits"] + 1
        return observed

    monkeypatch.setattr(Pair, "observe_variant", wrong)
    result = bench.run(case)
    assert result.status == "FAIL" and result.difference > result.bound > 0
    assert "logits: max" in result.note and "under eager" in result.note


@pytest.mark.parametrize(("dtype", "autocast"), [("bfloat16", False), ("float32", True)])
def test_outputs_of_another_dtype_are_seen_unless_a_part_says_so(dtype, autocast, monkeypatch):
    """Their values are equal: bit for bit would not tell."""
    bench, head = CaseRunner(pair(*LLAMA).variant), LLAMA[1]
    bench._pairs[head, "()"] = both = replace(pair(*LLAMA))
    case = Case("", "numbers", head, dtype, scenario=Scenario(train=True, autocast=autocast))
    assert bench.run(case).status == "PASS"
    right = Pair.observe_variant

    def wide(self, *args, **how):
        return {
            name: t.double() if "gradient" not in name else t
            for name, t in right(self, *args, **how).items()
        }

    monkeypatch.setattr(Pair, "observe_variant", wide)
    result = bench.run(case)
    assert result.status == "FAIL" and "torch.float64 for torch." in result.note
    both.__dict__["part_checks"] = (replace(PART_CHECK, own_dtypes=lambda scenario: True),)
    assert bench.run(case).status == "PASS"

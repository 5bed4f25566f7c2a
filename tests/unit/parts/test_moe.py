"""Mixtures of experts: grouped against the loop, upcycled against dense, and what balances them."""

import importlib
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from transformers import BertForMaskedLM, LlamaForCausalLM
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from transformers.utils import logging

from patchgen.parts.moe import CopyToExperts, Mixture, upcycle, z_loss
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.differences import differences, worst
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.evidence import gather_evidence
from patchgen.verifying.observe.recorder import compute_in_float64

pytestmark = pytest.mark.filterwarnings("ignore")

NEAR = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 4e-2}
EXPERTS = 5

LLAMA = (
    "llama",
    LlamaForCausalLM,
    "generated.llama.modeling_llama_moe",
    "LlamaMoe",
    "ForCausalLM",
    {},
)
BERT = ("bert", BertForMaskedLM, "generated.bert.modeling_bert_moe", "BertMoe", "ForMaskedLM", {})
models = pytest.mark.parametrize("which", [LLAMA, BERT], ids=["llama", "bert"])


@pytest.fixture(autouse=True)
def quiet():
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def options(**changes):
    defaults = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "hidden_act": "silu",
        "num_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "moe_every": 1,
        "norm_topk_prob": True,
    }
    return SimpleNamespace(**{**defaults, **changes})


def mixture(gated=True, bias=False, dtype=torch.float32, **changes):
    made = Mixture(options(**changes), gated=gated, bias=bias).to(dtype)
    draw_weights(made)
    return made


def ran(layer, x, form, **how):
    """Output and every gradient of a mixture whose experts run as `form`."""
    layer.experts.config._experts_implementation = form
    layer.zero_grad()
    x = x.detach().clone().requires_grad_()
    out = layer(x, **how)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape).to(out.dtype)
    (out * weights).sum().backward()
    return {
        "out": out,
        "gradient of x": x.grad,
        **{f"gradient of {n}": p.grad for n, p in layer.named_parameters()},
    }


def dense_of(which):
    name, dense_class, module, prefix, head, _ = which
    made = importlib.import_module(module)
    return name, dense_class, getattr(made, prefix + head), made


def drawn(which, dtype, **changes):
    name, dense_class, mixture_class, _ = dense_of(which)
    dense = dense_class(tiny_config(name, **changes)).to(dtype).eval()
    draw_weights(dense)
    return dense, mixture_class


# --- the module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_grouped_is_the_loop(dtype, gated, bias):
    layer = mixture(gated, bias, dtype)
    x = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert worst(differences(ran(layer, x, "eager"), ran(layer, x, "grouped_mm"))) < NEAR[dtype]


@pytest.mark.parametrize("form", ["batched_mm"])
def test_implementations_of_transformers_fit(form):
    layer = mixture(bias=True)
    x = torch.randn(3, 7, 16)
    assert worst(differences(ran(layer, x, "eager"), ran(layer, x, form))) < NEAR[torch.float32]


def test_an_expert_without_tokens_has_a_gradient_of_zero():
    layer = mixture()
    with torch.no_grad():
        layer.router.weight[3] = 0
        layer.router.weight[:3] = layer.router.weight[:1].abs()
    seen = ran(layer, torch.rand(2, 7, 16) + 0.1, "grouped_mm")
    gradients = [seen[f"gradient of experts.{name}"] for name in ("gate_up_proj", "down_proj")]
    assert all(each.isfinite().all() for each in seen.values())
    assert all(not each[3:].any() and each[:2].any() for each in gradients)


def test_how_many_experts_there_are_changes_no_number_of_operations():
    counts = []
    for experts in (4, 16):
        layer = mixture(num_experts=experts)
        with gather_evidence(layer) as evidence:
            ran(layer, torch.randn(3, 7, 16), "grouped_mm")
        counts.append(dict(evidence.kernels))
    assert counts[0] == counts[1]


def test_the_router_is_computed_in_float32():
    layer = mixture(dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert {each.dtype for each in layer.router(torch.randn(3, 16).bfloat16())[:2]} == {
            torch.float32
        }
    assert (
        mixture(dtype=torch.float64).router(torch.randn(2, 16, dtype=torch.float64))[0].dtype
        == torch.float64
    )


@pytest.mark.parametrize("k", [0, 1, 6])
def test_refused(k):
    with pytest.raises(ValueError, match="num_experts_per_tok is from 2 to num_experts"):
        mixture(num_experts_per_tok=k)
    assert mixture(num_experts_per_tok=1, norm_topk_prob=False)


def test_padding_does_not_count_in_the_size_of_logits():
    logits = tuple(torch.randn(10, EXPERTS) for _ in range(2))
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    alone = tuple(each[mask.reshape(-1).bool()] for each in logits)
    assert torch.allclose(z_loss(logits, mask), z_loss(alone, None))


# --- models


@models
@pytest.mark.parametrize("every", [1, 2])
def test_an_upcycled_model_is_the_dense_one_at_step_0(which, every):
    dense, mixture_class = drawn(which, torch.float64)
    # torch has no grouped GEMM of float64.
    loop = {"experts_implementation": "eager"}
    made = upcycle(dense, mixture_class, num_experts=EXPERTS, moe_every=every, **loop).eval()
    given = batch("right")
    with compute_in_float64():
        theirs, ours = dense(**given.inputs()), made(**given.inputs())
    assert (theirs.logits - ours.logits)[given.real].abs().max() < 1e-12
    assert abs(theirs.loss - ours.loss) < 1e-12
    assert len(ours.router_logits) == 3 // every
    theirs.loss.backward()
    ours.loss.backward()
    names = [
        n
        for n, _ in made.named_parameters()
        if ".experts." in n or n in dict(dense.named_parameters())
    ]
    assert len(names) == len(dict(made.named_parameters())) - 3 // every  # all but the routers'
    summed = {f"gradient of {name}": experts_gradient(made, name) for name in names}
    expected = {f"gradient of {name}": dense_gradient(dense, made, name) for name in names}
    assert worst(differences(expected, summed)) < 1e-12


def experts_gradient(made, name):
    gradient = made.get_parameter(name).grad
    return gradient.sum(0) if ".experts." in name else gradient


def dense_gradient(dense, made, name):
    """Of the dense weights that are in the experts' weight called `name`."""
    if ".experts." not in name:
        return dense.get_parameter(name).grad
    weight = next(each for each in made._dense_weights if name.endswith(f".{each}"))
    layer = name.removesuffix(weight)
    return torch.cat(
        [dense.get_parameter(layer + each).grad for each in made._dense_weights[weight]]
    )


@models
@pytest.mark.parametrize("every", [1, 2])
def test_a_dense_checkpoint_loads_and_the_mixture_is_saved_as_it_is(which, every, tmp_path):
    dense, mixture_class = drawn(which, torch.float32)
    *_, module = dense_of(which)
    dense.save_pretrained(tmp_path / "dense")
    wanted = {"num_experts": EXPERTS, "moe_every": every}
    made, report = mixture_class.from_pretrained(
        tmp_path / "dense", output_loading_info=True, **wanted
    )
    assert made.config.model_type == f"{which[0]}_moe"
    assert all(name.endswith(".router.weight") for name in report["missing_keys"])
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    base_class = getattr(module, which[3] + "Model")
    _, report = base_class.from_pretrained(tmp_path / "dense", output_loading_info=True, **wanted)
    assert not [
        name for name in report["missing_keys"] if "router" not in name and "pooler" not in name
    ]

    draw_weights(made)
    made.save_pretrained(tmp_path / "mixture")
    again, report = mixture_class.from_pretrained(tmp_path / "mixture", output_loading_info=True)
    assert not any(report.values())
    assert made.state_dict().keys() == again.state_dict().keys()
    assert all(
        torch.equal(ours, again.state_dict()[name]) for name, ours in made.state_dict().items()
    )
    assert again.config.num_experts == EXPERTS and again.config.moe_every == every


def test_upcycling_refuses_another_function(tmp_path):
    dense, mixture_class = drawn(LLAMA, torch.float32)
    with pytest.raises(ValueError, match="norm_topk_prob=True"):
        upcycle(dense, mixture_class, norm_topk_prob=False)
    with pytest.raises(ValueError, match="becomes a mixture"):
        upcycle(dense, mixture_class, norm_topk_prob=False, num_experts_per_tok=1)
    dense.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError):
        mixture_class.from_pretrained(tmp_path, norm_topk_prob=False)


@models
def test_losses_are_added_in_training_with_labels(which):
    dense, mixture_class = drawn(which, torch.float32)
    made = upcycle(
        dense, mixture_class, num_experts=EXPERTS, router_aux_loss_coef=0.5, router_z_loss_coef=0.25
    )
    given = batch("left").inputs()
    plain = made.eval()(**given)
    assert plain.aux_loss is None and len(plain.router_logits) == 3
    trained = made.train()(**given)
    mask = given["attention_mask"]
    balance = load_balancing_loss_func(trained.router_logits, EXPERTS, 2, mask)
    assert torch.allclose(
        trained.aux_loss, 0.5 * balance + 0.25 * z_loss(trained.router_logits, mask)
    )
    assert torch.allclose(trained.loss, plain.loss + trained.aux_loss)
    assert made(**{**given, "labels": None}).loss is None
    assert len(made(**given, return_dict=False)) == len(trained)
    assert "router_logits" not in made(**given, output_router_logits=False)


def test_it_compiles_as_one_graph_as_its_parent_does():
    dense, mixture_class = drawn(LLAMA, torch.float32)
    made = upcycle(dense, mixture_class, num_experts=EXPERTS).train()
    given = batch("none").inputs()
    compiled = torch.compile(made, backend="eager", fullgraph=True, dynamic=False)
    assert torch.allclose(
        compiled(**given, use_cache=False).loss, made(**given, use_cache=False).loss
    )


@pytest.mark.parametrize("every", [False, True], ids=["some labels", "a label of every token"])
def test_accumulated_losses_are_those_of_one_batch(every):
    dense, mixture_class = drawn(LLAMA, torch.float64)
    loop = {"experts_implementation": "eager"}
    made = upcycle(
        dense, mixture_class, num_experts=EXPERTS, router_aux_loss_coef=1.0, **loop
    ).train()
    given = batch("none", rows=4).inputs()
    given["labels"] = given["input_ids"].clone() if every else given["labels"]
    items = (given["labels"][..., 1:] != -100).sum()  # as `Trainer` counts where labels are shifted
    halves = [
        {name: each[part] for name, each in given.items()} for part in (slice(0, 2), slice(2, 4))
    ]
    with compute_in_float64():
        outs = [made(**half, num_items_in_batch=items) for half in halves]
        plain = made.eval()(**given, num_items_in_batch=items).loss
    added = sum(out.loss for out in outs) - plain
    assert torch.allclose(added, sum(out.aux_loss for out in outs) / 2)


def spread(model, given):
    """How unevenly experts are loaded: the deviation of their shares, over the even share."""
    with torch.no_grad():
        logits = torch.stack(model.eval()(**given).router_logits)
    counts = torch.stack(
        [each.topk(2).indices.flatten().bincount(minlength=EXPERTS) for each in logits]
    )
    return float((counts / counts.sum(-1, keepdim=True)).std(-1).mean() * EXPERTS)


@pytest.mark.parametrize("which", [LLAMA], ids=["llama"])
def test_experts_are_split_and_the_balance_loss_evens_their_load(which):
    dense, mixture_class = drawn(which, torch.float32)
    given, ends = batch("none", rows=8, length=16).inputs(), {}
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        made = upcycle(
            dense,
            mixture_class,
            num_experts=EXPERTS,
            router_aux_loss_coef=weight,
            router_z_loss_coef=0.0,
        )
        with torch.no_grad():  # a load that is uneven from the start
            for layer in made.modules():
                if isinstance(layer, nn.Module) and type(layer).__name__ == "MixtureRouter":
                    nn.init.normal_(layer.weight, std=0.3)
        before = spread(made, given)
        optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3)
        losses = []
        for _ in range(30):
            out = made.train()(**given)
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(out.loss.detach()))
        assert losses[-1] < losses[0]
        experts = made.model.layers[1].mlp.experts.down_proj.detach()
        assert (experts[0] - experts[1]).abs().max() > 1e-3
        ends[weight] = before, spread(made, given)
    assert ends[1.0][1] < 0.7 * ends[1.0][0]
    assert ends[1.0][1] < 0.8 * ends[0.0][1]


def test_a_dense_checkpoint_is_not_loaded_split_by_expert():
    """A process that holds no first expert would be given no weights, and the others too many."""
    config = tiny_config(
        LlamaForCausalLM.config_class, num_experts_per_tok=2, norm_topk_prob=True, num_experts=4
    )
    model = SimpleNamespace(config=config, _dense_weights_transposed=False)
    given, names = (
        {"gate": [torch.ones(3, 2)]},
        {"source_patterns": ["gate"], "target_patterns": ["up"]},
    )
    assert CopyToExperts().convert(given, **names, model=model)["up"].shape == (4, 3, 2)
    config.distributed_config = SimpleNamespace(ep_size=2)
    with pytest.raises(ValueError, match="becomes a mixture whole"):
        CopyToExperts().convert(given, **names, model=model)

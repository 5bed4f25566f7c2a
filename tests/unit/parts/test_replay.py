"""Routing that one forward pass records and another takes, in recomputation too."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.models.build import draw_weights
from tests.drafts import both_classes, tiny

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, LENGTH = 2, 9
MODELS = {
    # Scores are taken with their numbers, and numbers alone, of a router with groups.
    "qwen3_moe": ("Qwen3MoeForCausalLM", {"num_experts_per_tok": 2}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {"first_k_dense_replace": 1}),
}
models = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    home = tmp_path_factory.mktemp("replay")
    return {
        model: both_classes(model, "replay", head, home / model)
        for model, (head, _) in MODELS.items()
    }


@pytest.fixture
def build(classes):
    def built(model, seed=0):
        made = tiny(classes[model][1], "eager", **MODELS[model][1])
        draw_weights(made, seed)
        return made

    return built


def words(seed=0):
    return torch.randint(3, 90, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))


def recorded(model, ids, **given):
    with torch.no_grad(), model.record_routing() as forwards:
        logits = model(ids, use_cache=False, **given).logits
    (experts,) = forwards
    return experts, logits


@models
def test_a_pass_records_the_experts_of_each_token_and_layer(build, model):
    made = build(model)
    experts, logits = recorded(made, words())
    layers = made.config.num_hidden_layers
    assert experts.shape[:2] == (ROWS * LENGTH, layers)
    is_dense = [not layer.routers() for layer in made.model.layers]
    assert [bool((experts[:, n] < 0).all()) for n in range(layers)] == is_dense
    assert any(is_dense) is (model == "deepseek_v3")
    again, same = recorded(made, words(), routed_experts=experts)
    assert torch.equal(again, experts) and torch.equal(logits, same)


@models
def test_another_model_takes_them(build, model):
    rollout, trained = build(model), build(model, seed=1)
    experts, _ = recorded(rollout, words())
    own, logits = recorded(trained, words())
    taken, replayed = recorded(trained, words(), routed_experts=experts)
    assert torch.equal(taken, experts) and not torch.equal(own, experts)
    assert not torch.allclose(logits, replayed)
    # What a pass was given holds for that pass alone.
    assert torch.equal(recorded(trained, words())[1], logits)


@models
def test_engines_give_small_numbers_by_row_and_none_for_some_tokens(build, model):
    rollout, trained = build(model), build(model, seed=1)
    experts, _ = recorded(rollout, words())
    own, _ = recorded(trained, words())
    rows = experts.view(ROWS, LENGTH, *experts.shape[1:]).to(torch.int16)
    rows[:, 3:5] = -1
    taken, _ = recorded(trained, words(), routed_experts=rows)
    taken = taken.view(rows.shape)
    assert torch.equal(taken[:, :3], rows[:, :3].long())
    first = next(n for n, layer in enumerate(trained.model.layers) if layer.routers())
    assert torch.equal(taken[:, 3:5, first], own.view(rows.shape)[:, 3:5, first])


def gradients(model, checkpointed, given):
    """Of one backward pass behind several forward passes, each with experts of its own."""
    model.train()
    if checkpointed:
        model.activation_checkpointing_enable()
    model.zero_grad()
    losses = [
        model(ids, labels=ids, use_cache=False, routed_experts=experts).loss
        for ids, experts in given
    ]
    sum(losses).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@models
def test_a_recompute_replays_what_its_own_pass_was_given(build, model):
    rollout, trained = build(model), build(model, seed=1)
    given = [(words(seed), recorded(rollout, words(seed))[0]) for seed in (0, 1)]
    wanted = gradients(trained, False, given)
    found = gradients(trained, True, given)
    assert wanted.keys() == found.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=1e-6)
    # The weights of the experts are those of the router as it is now, which learns of them.
    routers = [name for name in wanted if name.endswith("gate.weight")]
    assert routers and all(wanted[name].abs().max() > 0 for name in routers)


def test_a_rollout_records_each_of_its_passes(build):
    made = build("qwen3_moe")
    with made.record_routing() as forwards:
        made.generate(words()[:1], max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert [len(experts) for experts in forwards] == [LENGTH, 1, 1]
    assert all(router.recorded is None for layer in made.model.layers for router in layer.routers())


@pytest.mark.slow
def test_it_compiles_to_one_graph(build):
    rollout, trained = build("qwen3_moe"), build("qwen3_moe", seed=1)
    experts, _ = recorded(rollout, words())
    wanted = recorded(trained, words(), routed_experts=experts)[1]
    torch._dynamo.reset()
    trained.forward = torch.compile(trained.forward, backend="aot_eager")
    with torch.no_grad():
        found = trained(words(), use_cache=False, routed_experts=experts).logits
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)

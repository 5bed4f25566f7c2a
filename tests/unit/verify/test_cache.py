"""What a variant reads by its cache, held against what it reads at once."""

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.checks.context import Case
from patchgen.verifying.checks.interface import CUTS
from patchgen.verifying.parts.part_check import Scenario, replaced
from tests.gallery import BY_NAME

HEAD = "LlamaForCausalLM"
CASE = Case("", "cache", HEAD, "float64", scenario=Scenario(labels=False))


@pytest.fixture(scope="module")
def bench():
    variant = BY_NAME["llama_loss"]
    return CaseRunner(variant)


@pytest.fixture
def both(bench):
    pair = bench.pair(CASE)
    return pair.models(pair.routes[0], torch.float64)


def changed(model, monkeypatch, change):
    """Calls of `model` give what `change(was, **given)` gives."""
    was = model.forward
    monkeypatch.setattr(model, "forward", lambda **given: change(was, **given))


def without_cache(was, **given):
    out = was(**given)
    out["past_key_values"] = None
    return out


def one_token_alone(was, *, input_ids, past_key_values=None, **given):
    """Like a state space, it reads several tokens behind a cache as if nothing came before."""
    several = input_ids.shape[1] > 1
    return was(input_ids=input_ids, past_key_values=None if several else past_key_values, **given)


def test_it_is_read_in_pieces(bench):
    result = bench.run(CASE)
    assert result.status == "PASS" and result.note.startswith(
        "reordered to what the whole text gives"
    )


def test_a_cache_that_the_variant_alone_forgets_is_a_failure(bench, both, monkeypatch):
    changed(both[1], monkeypatch, without_cache)
    result = bench.run(CASE)
    assert (result.status, result.note) == ("FAIL", "it gives no cache, and the parent does")


def test_where_the_parent_has_none_there_is_nothing_to_compare(bench, both, monkeypatch):
    for model in both:
        changed(model, monkeypatch, without_cache)
    assert bench.run(CASE).status == "NONE"


def test_order_alone_behind_a_cache_is_seen(bench, both):
    """Of several queries behind a cache, the first would see only the first key."""
    module = sys.modules[type(both[1]).__module__]

    def without_masks(interfaces):
        right = interfaces.get_interface("sdpa", None)

        def attend(module, query, key, value, mask, **rest):
            several = 1 < query.shape[2] < key.shape[2]
            return right(module, query, key, value, None if several else mask, **rest)

        return SimpleNamespace(get_interface=lambda name, eager: attend)

    with replaced(module, "ALL_ATTENTION_FUNCTIONS", without_masks):
        result = bench.run(CASE)
    assert result.status == "FAIL" and result.difference > 1e-3, result


def test_what_the_parent_reads_token_by_token_alone_is_asked_so(bench, both, monkeypatch):
    for model in both:
        changed(model, monkeypatch, one_token_alone)
    assert [first - last for first, last in zip(CUTS[1], CUTS[1][1:], strict=False)] == [1] * 4
    assert bench.run(CASE).status == "PASS"

"""benchmarks/gains.py: what it counts, and that it runs."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.gallery import BY_NAME

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gains():
    spec = importlib.util.spec_from_file_location("gains", HERE / "benchmarks" / "gains.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gains"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_products_inside_operators_written_in_python_count(gains):
    from torch._subclasses.fake_tensor import FakeTensorMode

    from patchgen.parts.loss.linear import linear_losses

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        states, weight = (torch.randn(n, 4, requires_grad=True) for n in (6, 10))
    with gains.as_on_cuda(), gains.Counting(fake) as counting:
        losses, *_ = linear_losses(
            states, weight, torch.arange(6), torch.ones(6), 5, 0.0, False, True
        )
        losses.sum().backward()
    assert counting.flops == 4 * 2 * 6 * 4 * 10  # logits twice, and two gradients


def test_what_is_alive_after_the_forward_pass_counts_once_and_weights_do_not(gains):
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
        states = torch.randn(2, 4)
    with gains.Counting(fake) as counting:
        output = model(states)
    # The input of GELU, which autograd keeps, and its output.
    assert counting.alive(model) == 2 * (2 * 8 * 4) and output.shape == (2, 8)


def test_a_row_gains_by_what_it_keeps_computes_or_launches(gains):
    def row(*mine, padding=0.0):
        ours, theirs = gains.Step(*mine), gains.Step(100, 100.0, 100)
        return gains.Row("x", "sdpa", 12, "8 x 512", padding, ours, theirs)

    assert row(50, 120.0, 110).gains and row(100, 90.0, 110).gains and row(100, 100.0, 95).gains
    assert not row(96, 100.0, 100).gains
    text = gains.page([row(50, 120.0, 100), row(99, 99.0, 99, padding=0.44)], [("y", "large")])
    assert "| `x` | sdpa | 12 | 8 x 512 | 0% | **0.50** | 1.20 | 1.00 |" in text
    assert "| `x` | sdpa | 12 | 8 x 512 | 44% | 0.99 | 0.99 | 0.99 |" in text
    assert "- `y`: large" in text
    assert gains.picture([row(50, 120.0, 100)]).startswith("<svg")


def test_every_variant_of_a_model_gains_something(gains):
    rows = [line for line in gains.PAGE.read_text(encoding="utf-8").splitlines() if "| **" in line]
    gaining = {line.split("`")[1] for line in rows}
    assert {*BY_NAME} - gaining == {"bert_moe", "llama_moe"}  # new models, with no parent beside


@pytest.mark.slow
def test_it_counts_tiny_models(gains, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gains.py", "--quick", "llama_loss", "bert_mlm"])
    gains.main()
    printed = capsys.readouterr().out
    assert "llama_loss beside Liger" in printed and "bert_mlm beside sdpa" in printed
    assert "not counted" not in printed

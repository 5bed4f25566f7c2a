"""benchmarks/gains.py: what it counts, and that it runs."""

import importlib.util
import sys
from pathlib import Path

import pytest

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
    from patchgen.parts.loss.linear import linear_losses

    states, weight = torch.randn(6, 4, requires_grad=True), torch.randn(10, 4, requires_grad=True)
    with gains.count_fast_path() as pace:
        linear_losses(states, weight, torch.arange(6), 5)[0].sum().backward()
    assert pace.flops == 4 * 2 * 6 * 4 * 10  # logits twice, and two gradients


def test_a_row_gains_by_time_or_by_what_it_keeps(gains):
    def row(seconds, kept, flops=1.0):
        ours, theirs = gains.Side(seconds, kept, flops, 1), gains.Side((1.0, 1.0), 100, 1.0, 1)
        return gains.Row("x", ("loss",), "sdpa", ours, theirs)

    assert (
        row((0.8, 0.9), 100).gains and row((1.1, 1.2), 50).gains and row((1.1, 1.2), 100, 0.5).gains
    )
    assert not row((0.9, 1.1), 100).gains
    text = gains.page([row((0.8, 0.9), 100), row((1.1, 1.2), 100)], [("y", "it is large")])
    assert (
        "| `x` | loss | sdpa | 0.85 (0.83 to 0.88) |" in text
        and "| *`x`* |" in text
        and "- y: it is large" in text
    )
    assert gains.picture([row((0.8, 0.9), 100)]).startswith("<svg")


@pytest.mark.slow
def test_it_measures_tiny_models(gains, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gains.py", "--quick", "llama_loss", "bert_mlm"])
    gains.main()
    printed = capsys.readouterr().out
    assert "llama_loss: " in printed and "bert_mlm: " in printed and "not measured" not in printed

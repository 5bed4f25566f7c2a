"""The order of modular files, and how they are dealt to processes."""

from __future__ import annotations

from pathlib import Path

from patchgen.upstream.repository import make_order


def modular(name, folder=None):
    return Path("/t/transformers/models", folder or name, f"modular_{name}.py")


def test_a_cycle_is_printed_from_its_first_file():
    texts = {
        modular("a"): "from ..b.modeling_b import X\n",
        modular("b"): "from ..c.modeling_c import X\n",
        modular("c"): "from ..a.modeling_a import X\n",
        modular("d"): "from ..b.modeling_b import X\n",
        modular("e"): "",
    }
    order = make_order(texts)
    assert order.levels == ((modular("e"),),)
    assert [path.stem for path in order.cycle] == [
        "modular_a",
        "modular_b",
        "modular_c",
        "modular_a",
    ]
    assert order.stuck == tuple(map(modular, "abcd"))

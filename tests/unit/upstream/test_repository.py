"""The order of modular files, and how they are dealt to processes."""

from __future__ import annotations

from pathlib import Path

from patchgen.upstream.repository import make_order, partition


def modular(name, folder=None):
    return Path("/t/transformers/models", folder or name, f"modular_{name}.py")


def test_levels_follow_what_is_imported():
    texts = {
        modular("a"): "from ..hand.modeling_hand import X\n",
        modular("b"): "from ..a.modeling_a import A\nfrom ..b.configuration_b import B\n",
        modular("c_audio", "c"): "if x:\n    from transformers.models.b.processing_b import B\n",
        modular(
            "d"
        ): "from ...models.c.modeling_c_audio import C\nfrom ..a.image_processing_pil_a import A\n",
    }
    order = make_order(texts)
    assert [[path.stem for path in level] for level in order.levels] == [
        ["modular_a"],
        ["modular_b"],
        ["modular_c_audio"],
        ["modular_d"],
    ]
    assert order.needs[modular("d")] == {modular("a"), modular("c_audio", "c")}
    assert (order.stuck, order.cycle) == ((), ())


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


def test_noop_no_files():
    assert make_order({}).levels == ()


def test_files_are_dealt_in_runs_of_equal_size():
    paths = [Path(name) for name in "abcdef"]
    sizes = dict(zip(paths, (10, 1, 1, 4, 4, 0), strict=True))
    dealt = partition(paths, sizes.__getitem__, 2)
    assert dealt == [paths[:1], paths[1:]]
    assert partition(paths, lambda path: 0, 3) == [paths]

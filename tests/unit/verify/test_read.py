"""What changed lines read: names of the configuration, and the classes around them."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import CONFIG_MAPPING

from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.configs.read import find_defaults, find_reads
from patchgen.verifying.variants import find_touched_lines


def read(text: str, line: int, **defaults):
    return find_reads(text, frozenset({line}), defaults)


@pytest.mark.parametrize(
    ("test", "default", "values"),
    [
        ("self.config.share", False, (True,)),
        ("not config.share and x", True, (False,)),
        ("config.share == 'sum' or x", "mean", ("sum",)),
        ("getattr(config, 'share', False)", None, (True,)),
        ("config.share > 1", 4, (5, 0)),
        ("config.share > 0", -1, (0, 3)),
        ("x < config.share", 0.5, (0.25,)),
        ("config.share is None", None, (3, 1.5, True, 0)),
    ],
)
def test_a_test_names_what_it_reads(test, default, values):
    text = f"def f(self, config, x):\n    if {test}:\n        return x\n"
    known = {} if "getattr" in test else {"share": default}
    assert read(text, 3, **known).values == {"share": values}


def test_a_configuration_inside_and_a_local_name_are_read():
    text = (
        "def f(self, config, x):\n"
        "    folds = config.ffn_config.folds\n"
        "    return x if folds and self.config.ffn_config.kind == 'sum' else -x\n"
    )
    assert read(text, 3).values == {
        "ffn_config.folds": (3, 1.5, True, 0),
        "ffn_config.kind": (3, 1.5, True, 0),
    }
    assert getattr(tiny_config("dbrx", **{"ffn_config.folds": 3}).ffn_config, "folds", None) == 3


def test_integers_in_changed_functions_are_lengths():
    text = "def f(x, n=128):\n    y = x[:, :1024] + 5\n    return y\n\n\ndef g(x):\n    return x[:, :512]\n"
    assert read(text, 3).lengths == (128, 1024)


def test_what_is_given_to_a_changed_function_is_read():
    text = (
        "def scaled(rope, x):\n"
        "    return x * rope\n"
        "class A:\n"
        "    def __init__(self, config):\n"
        "        self.scale = scaled(config.tie_word_embeddings, config.size)\n"
    )
    found = read(text, 2, size=2)
    assert found.values == {"tie_word_embeddings": (True, False), "size": (3,)}
    assert (found.functions, found.classes) == (("scaled",), ())
    assert found.readers["size"] == {"A"}


def test_the_token_of_padding_is_another_one_where_something_depends_on_it():
    text = "class A:\n    def f(self, x, padding_idx):\n        return x + padding_idx\n"
    assert read(text, 3).values == {"pad_token_id": (1,)}


def test_a_flag_leads_to_the_configuration():
    text = (
        "class A:\n"
        "    def __init__(self, config):\n"
        "        self.shares = config.share_key\n"
        "    def forward(self, x):\n"
        "        return x if self.shares else -x\n"
    )
    assert read(text, 5, share_key=False).values == {"share_key": (True,)}


def test_what_is_read_without_a_test_may_be_something_else():
    text = (
        "class A:\n"
        "    def f(self, config):\n"
        "        inner = config.ffn_config\n"
        "        kind = inner.act_fn.get('name', 'silu')\n"
        "        return g(bias=config.a, eps=config.b, size=config.c, act=config.hidden_act)\n"
    )
    assert read(text, 5, a=False, b=1e-5, hidden_act="silu").values == {
        "a": (True,),
        "b": (0.5,),
        "hidden_act": ("relu", "gelu_python"),
        "ffn_config.act_fn": ({"name": "relu"}, {"name": "silu"}, {"name": "gelu_python"}),
    }


def test_what_the_parent_alone_reads_may_be_something_else():
    text, parent = "class A:\n    was = 1\n", "class A:\n    was = f(config.a)\n"
    lines = frozenset({2})
    assert find_reads(text, lines, {"a": True}, parent, lines).values == {"a": (False,)}


def test_what_is_not_changed_is_left_alone():
    text = "class A:\n    def f(self, config):\n        return config.a\n\n\n"
    text += "def g(config):\n    return 1 if config.b else 2\n"
    assert read(text, 3, a=False, b=False).values == {"a": (True,)}
    assert read(text, 3).classes == ("A",)
    assert read(text, 7, a=False, b=False).values == {"b": (True,)}
    assert read(text, 7).classes == ()


def test_lines_that_are_only_removed_change_a_class():
    diff = "--- a\n+++ b\n@@ -1,4 +1,3 @@\n class A:\n     def f(self):\n-        x()\n         return 1\n"
    lines = find_touched_lines(diff)
    assert lines == find_touched_lines(diff, of_old=True) == {3}
    assert find_reads("class A:\n    def f(self):\n        return 1\n", lines, {}).classes == ("A",)


def test_defaults_of_a_configuration():
    assert find_defaults(
        "class C(B):\n    a: int = 3\n    b: bool | None = None\n    c: str\n    d: float = 2 * 3\n"
    ) == {
        "a": 3,
        "b": None,
    }


# Configurations that make a size of another one, whatever they are given.
MADE = {("flaubert", "bos_index"), ("flaubert", "eos_index"), ("flaubert", "pad_index")}
MADE |= {("t5gemma2", "eoi_token_id"), ("t5gemma2", "eoi_token_index")}
MADE |= {("step3p5", "num_local_experts")}
FEW = ("qwen3_moe", "bart", "gpt2", "axk1", "autoformer", "mamba")


def ignored(model_types):
    """The names of sizes, each of two that a configuration has for it, that a change has not set."""
    for model_type in model_types:
        try:
            default = CONFIG_MAPPING[model_type]()
        except Exception:  # each that is made of other configurations alone, in its own way
            continue
        for two in default.attribute_map.items():
            if type(getattr(default, two[0], None)) is not int:
                continue
            for name in two:
                try:
                    size = 2 * getattr(tiny_config(model_type), two[0])
                    changed = tiny_config(model_type, **{name: size})
                except Exception:  # each configuration refuses in its own way
                    continue
                if getattr(changed, two[0]) != size:
                    yield model_type, name


def test_a_size_is_changed_by_either_of_its_names():
    assert not [*ignored(FEW)]


@pytest.mark.slow
def test_sizes_of_all_models_are_changed_by_either_of_their_names():
    assert {*ignored(CONFIG_MAPPING)} == MADE

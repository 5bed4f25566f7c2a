"""`patchgen rescue`: what becomes of code for transformers 4, rule by rule, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import libcst as cst
import pytest

from patchgen.author.adopt.releases import Release
from patchgen.rescuing.classes import Classes
from patchgen.rescuing.environment import compare
from patchgen.rescuing.observe import tiny
from patchgen.rescuing.port import port
from patchgen.rescuing.rescue import read_repository, release_of
from patchgen.rescuing.rewrite import rewrite
from patchgen.rescuing.sources import Sources

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
get_imports = pytest.importorskip("transformers.dynamic_module_utils").get_imports

# An old release, of which only what the tests read is there.
OLD = {
    "__init__.py": "from .modeling_utils import PreTrainedModel\n",
    "modeling_utils.py": (
        "import torch\nfrom torch import Tensor\n\n\n"
        "class ModuleUtilsMixin:\n"
        "    def get_head_mask(self, head_mask: Tensor, layers: int):\n"
        '        """Gone."""\n'
        "        return self._convert_head_mask_to_5d(head_mask) if head_mask else [None] * layers\n\n"
        "    def _convert_head_mask_to_5d(self, head_mask):\n"
        "        return head_mask[None]\n\n\n"
        "class PreTrainedModel(ModuleUtilsMixin):\n    pass\n"
    ),
    "pytorch_utils.py": (
        "import math\n\nLIMIT = 3\n\n\ndef inner(x):\n    return math.floor(x) + LIMIT\n\n\n"
        'def gone_helper(x):\n    """Gone."""\n    return inner(x)\n\n\n'
        "def gathered(x):\n    import deepspeed\n\n    return deepspeed.zero.GatheredParameters(x)\n\n\n"
        "class Early:\n    def other(self):\n        return Late\n\n\nclass Late(Early):\n    pass\n\n\n"
        "try:\n    from apex import Early\n\n    Early = Early\nexcept ImportError:\n    pass\n"
    ),
    "configuration_utils.py": (
        "class PretrainedConfig:\n    def __init__(self, **kwargs):\n"
        '        self.tie_word_embeddings = kwargs.pop("tie_word_embeddings", True)\n'
        '        self.pad_token_id = kwargs.pop("pad_token_id", None)\n'
    ),
    "cache_utils.py": "class HybridCache:\n    pass\n",
    "deepspeed.py": "def is_deepspeed_zero3_enabled():\n    return False\n",
}


@pytest.fixture
def old(tmp_path):
    package = tmp_path / "old/transformers"
    package.mkdir(parents=True)
    for name, text in OLD.items():
        (package / name).write_text(text, encoding="utf-8")
    return Sources(tmp_path / "old", "4.37.2")


@pytest.fixture
def new():
    return Sources(Path(transformers.__file__).parents[1], transformers.__version__)


def ported(text, old, new):
    (one,) = port({"modeling_x.py": text}, old, new).values()
    return one


LAYERS_OF_TUPLES = """
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast


class XLayer(torch.nn.Module):
    def forward(self, x, past_key_value=None):
        return x if past_key_value is None else torch.cat([past_key_value[0], x])


class XModel(PreTrainedModel):
    def forward(self, x, past_key_values=None):
        kept = [layer(x, past) for layer, past in zip(self.layers, past_key_values)]
        return BaseModelOutputWithPast(x, past_key_values=tuple(kept))

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None):
        if isinstance(past_key_values, Cache):
            input_ids = input_ids[:, past_key_values.get_seq_length() :]
        return {"input_ids": input_ids, "past_key_values": past_key_values}
"""


@pytest.mark.parametrize("update", ["", "        past_key_values.update(x, x, 0)\n"])
def test_a_model_that_knows_caches_may_keep_tuples(old, new, update):
    head, call, rest = LAYERS_OF_TUPLES.partition("        kept = ")
    text = ported(head + update + call + rest, old, new).text
    assert ("past_key_values = as_tuples(past_key_values)" in text) is (not update)
    assert ("past_key_values=as_cache(tuple(kept))" in text) is (not update)


def test_a_name_that_is_gone_is_copied_with_what_it_reads(old, new):
    text = "from transformers.pytorch_utils import Conv1D, gone_helper\n\n\nx = gone_helper(1), Conv1D\n"
    one = ported(text, old, new)
    assert [name for name, _ in one.copied] == ["LIMIT", "inner", "gone_helper"]
    assert "from transformers.pytorch_utils import Conv1D\n" in one.text
    assert "import math\n" in one.text and '"""Gone."""' not in one.text
    space = {}
    exec(one.text, space)
    assert space["x"][0] == 4


def test_a_name_that_moved_is_imported_from_where_it_is(old, new):
    text = "from transformers.deepspeed import is_deepspeed_zero3_enabled as zero3\n\nx = zero3()\n"
    one = ported(text, old, new)
    assert "from transformers.integrations.deepspeed import" in one.text
    assert not one.copied and not one.left


def test_the_package_of_a_copied_function_is_needed_where_it_runs(old, new, tmp_path):
    text = "from transformers.pytorch_utils import gathered\n\n\nx = gathered\n"
    file = tmp_path / "x.py"
    file.write_text(ported(text, old, new).text, encoding="utf-8")
    assert get_imports(file) == []  # what the loader of remote code asks for


def test_what_is_read_at_import_stands_above_and_a_definition_before_a_guard(old, new):
    space = {}
    exec(
        ported("from transformers.pytorch_utils import Early\n\n\nx = Early\n", old, new).text,
        space,
    )
    assert issubclass(space["x"]().other(), space["x"])


def test_a_setting_of_generate_that_config_json_alone_has_is_declared(old, new):
    text = (
        "from transformers import PretrainedConfig\n\n\nclass XConfig(PretrainedConfig):\n    pass\n\n\n"
        "def f(config):\n    return config.use_cache\n"
    )
    (one,) = port({"modeling_x.py": text}, old, new, {"use_cache": False}).values()
    space = {"__name__": "x"}
    exec(compile(one.text, "x", "exec", dont_inherit=True), space)
    assert space["f"](space["XConfig"]()) is False


def test_a_hybrid_cache_has_windows_in_some_layers(old, new):
    space = {}
    text = "from transformers.cache_utils import HybridCache\n\n\nx = HybridCache\n"
    exec(ported(text, old, new).text, space)
    config = transformers.PretrainedConfig(num_hidden_layers=4, sliding_window=3)
    cache = space["x"](config, max_cache_len=8)
    assert cache.is_sliding == [True, False, True, False]
    states = torch.arange(10.0).reshape(1, 1, 5, 2)
    sizes = [cache.update(states, states, layer)[0].shape[2] for layer in (0, 1)]
    assert sizes == [5, 8] and cache.limit == 8


def test_configurations_keep_what_generate_takes_and_refuse_what_nobody_has(old, new):
    text = """
from transformers import PretrainedConfig


class XConfig(PretrainedConfig):
    def __init__(self, n_layer=3, forced_eos_token_id=2, num_beams=None, **kwargs):
        self.n_layer = n_layer
        super().__init__(forced_eos_token_id=forced_eos_token_id, **kwargs)
        if len(kwargs) != 0:
            raise ValueError(f"Found unknown {kwargs=}")
"""
    space = {"__name__": "x"}
    exec(compile(ported(text, old, new).text, "x", "exec", dont_inherit=True), space)
    usual = transformers.PretrainedConfig().to_dict()
    config = space["XConfig"](**usual)
    assert (config.forced_eos_token_id, config.num_beams, config.num_hidden_layers) == (2, None, 3)
    assert transformers.GenerationConfig.from_model_config(config).forced_eos_token_id == 2
    with pytest.raises(ValueError, match="strange"):
        space["XConfig"](strange=1)


def test_a_tied_weight_stands_where_the_head_puts_its_model():
    text = """
class XPreTrainedModel(PreTrainedModel):
    base_model_prefix = "outer"


class XEncoder(XPreTrainedModel):
    def get_input_embeddings(self):
        return self.other


class XModel(XPreTrainedModel):
    def get_input_embeddings(self):
        return self.embed


class XForCausalLM(XPreTrainedModel):
    def __init__(self, config):
        self.inner = XModel(config)

    def get_output_embeddings(self):
        return self.head
"""
    classes = Classes()
    classes.read(cst.parse_module(text))
    line = "_tied_weights_keys = {'head.weight': 'inner.embed.weight'}"
    assert classes.tied_line("XForCausalLM") == line


def test_a_name_that_neither_release_has_is_left(old, new):
    one = ported("from transformers.utils import never_there\n\nx = never_there\n", old, new)
    assert one.left == ["`never_there` of transformers.utils: neither release has it"]


def test_lost_methods_and_defaults_come_back(old, new):
    text = """
from transformers import PretrainedConfig, PreTrainedModel


class XConfig(PretrainedConfig):
    pass


class XPreTrainedModel(PreTrainedModel):
    config_class = XConfig


class XModel(XPreTrainedModel):
    def forward(self, head_mask):
        return self.get_head_mask(head_mask, 2), self.config.pad_token_id
"""
    space = {"__name__": "x"}
    exec(compile(ported(text, old, new).text, "x", "exec", dont_inherit=True), space)
    assert space["XModel"].get_head_mask(None, None, 2) == [None, None]
    config = space["XConfig"]()
    assert (config.tie_word_embeddings, config.pad_token_id) == (True, None)


def test_defaults_of_releases_that_name_them_come_back(old, new, tmp_path):
    text = "from transformers import PretrainedConfig\n\n\nclass XConfig(PretrainedConfig):\n    pass\n"
    text += "\n\ndef pad(config):\n    return config.pad_token_id\n"
    (tmp_path / "old/transformers/configuration_utils.py").write_text(
        "class PretrainedConfig:\n"
        "    def __init__(self, *, tie_word_embeddings=True, pad_token_id=None, **kwargs):\n"
        "        self.tie_word_embeddings = tie_word_embeddings\n"
        "        self.pad_token_id = pad_token_id\n",
        encoding="utf-8",
    )
    space = {"__name__": "x"}
    exec(compile(ported(text, old, new).text, "x", "exec", dont_inherit=True), space)
    config = space["XConfig"]()
    assert (config.tie_word_embeddings, config.pad_token_id) == (True, None)


def test_a_small_model_has_as_many_factors_as_frequencies_and_no_flash_attention():
    # What config.json of Phi-3's remote code states.
    class XConfig:
        def __init__(self, **kwargs):
            self.kwargs = {"hidden_size": 3072, **kwargs}

        def to_dict(self):
            return self.kwargs

    scaling = {"type": "su", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    given = {"rope_scaling": scaling, "_attn_implementation": "flash_attention_2"}
    small = tiny(XConfig, given)
    assert small["rope_scaling"] == {
        "type": "su",
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
    }
    assert "_attn_implementation" not in small


HEAD = """
class X(PreTrainedModel):
    {}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(self, past): return past.get_usable_length(n, i)", "past.get_seq_length(i)"),
        ("def f(self, past): return past.get_max_length()", "return longest(past)"),
        ("def f(self, past): return past.seen_tokens", "past.get_seq_length()"),
        ("def f(self, t): return DynamicCache.from_legacy_cache(t)", "DynamicCache(t)"),
        ("def f(self, c): return c.to_legacy_cache()", "tuple((layer.keys, layer.values) for"),
        (
            "def f(self):\n        from .missing import x",
            "raise ImportError('from .missing import x')",
        ),
        ("def __init__(self):\n        self.heads = nn.ModuleList([])", "with_aliases(self, tied)"),
        (
            "_supports_sdpa = True\n    x = ALL_ATTENTION_FUNCTIONS(softcap=1)",
            "_supports_sdpa = False",
        ),
        (
            "def prepare_inputs_for_generation(self, input_ids, cache_position=None, **kwargs): pass",
            "past = 0 if kwargs.get('is_first_iteration', True) else input_ids.shape[1] - 1",
        ),
        (
            "def prepare_inputs_for_generation(self, input_ids, **kwargs): return {**kwargs}",
            "kwargs.pop('next_sequence_length', None)",
        ),
        ("def __init__(self): self.init_weights()", "self.post_init()"),
        ("def f(self): return self.config.sliding_window", "fit_masks(self, model_kwargs"),
        (
            "def _check_and_enable_sdpa(cls, c): return super()._check_and_enable_sdpa(c)",
            "def get_correct_attn_implementation",
        ),
        ("def __init__(self): pass", "self.post_init()"),
        ("def f(self):\n        import stream", "try:\n            import stream"),
        ("def tie_weights(self): pass", "def tie_weights(self, **kwargs)"),
        ("def prepare_inputs_for_generation(self): pass", "(PreTrainedModel, GenerationMixin)"),
        ("_supports_flash_attn_2 = True", "_supports_flash_attn = True"),
        ("def f(self, e): return create_causal_mask(input_embeds=e)", "with_old_arguments(create"),
        (
            "def _init_weights(self, module):\n        module.weight.data.zero_()",
            "if not getattr(module.weight, '_is_hf_initialized', False):",
        ),
        (
            "def forward(self, past_key_values): return Out(past_key_values=new)",
            "Out(past_key_values=as_cache(new))",
        ),
        (
            "def get_output_embeddings(self): return self.head\n"
            "    def get_input_embeddings(self): return self.model.embed",
            "_tied_weights_keys = {'head.weight': 'model.embed.weight'}",
        ),
    ],
)
def test_a_rule(before, after):
    text = HEAD.format(before)
    classes = Classes()
    classes.read(cst.parse_module(text))
    changed, notes = rewrite(text, classes, keeps_tuples=True)
    assert after in changed
    assert all(note.line > 1 and note.why for note in notes)


def test_what_stays_is_as_it_was():
    text = (
        "class Y(nn.Module):\n    # a comment\n    def __init__(self, size):\n"
        "        super().__init__()\n        self.w = nn.Parameter(torch.ones(size))\n"
    )
    classes = Classes()
    classes.read(cst.parse_module(text))
    assert rewrite(text, classes, keeps_tuples=True) == (text, [])


def test_the_release_is_the_stated_one_or_the_oldest_with_all_names(tmp_path):
    names = {"4.30.2": "A", "4.37.2": "A = B", "4.46.3": "A = B"}
    known = []
    for version, bound in names.items():
        package = tmp_path / version / "transformers"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"{bound} = 1\n", encoding="utf-8")
        known.append(Release(version, tmp_path / version))
    source = tmp_path / "source"
    source.mkdir()
    (source / "x.py").write_text("from transformers import A, B\n", encoding="utf-8")
    assert release_of(read_repository(source), known).version == "4.37.2"
    stated = json.dumps({"transformers_version": "4.40.0"})
    (source / "config.json").write_text(stated, encoding="utf-8")
    assert release_of(read_repository(source), known).version == "4.46.3"


def test_what_is_nan_on_both_sides_says_nothing(tmp_path):
    lost = float("nan")
    before = {"logits": [1.0, lost], "loss": [lost], "gradients": [1.0]}
    after = {"logits": [1.0, lost], "loss": [lost], "gradients": [lost]}
    for side, values in (("before", before), ("after", after)):
        seen = {name: {0: torch.tensor(numbers)} for name, numbers in values.items()}
        torch.save({"seen": seen}, tmp_path / f"{side}.pt")
    assert compare(tmp_path) == {
        "logits": "equal, bit for bit, where it is a number",
        "loss": "failed before, too: most of it is NaN",
        "gradients": "differs: by nan",
    }


def test_a_generation_config_is_validated_with_arguments():
    text = (
        "class XConfig(GenerationConfig):\n    def validate(self, is_init=False):\n        pass\n"
    )
    classes = Classes()
    classes.read(cst.parse_module(text))
    changed, notes = rewrite(text, classes, keeps_tuples=True)
    assert "def validate(self, is_init=False, **kwargs):" in changed
    assert [note.what for note in notes] == ["XConfig.validate"]

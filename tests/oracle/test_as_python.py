"""A modular file as Python runs it, beside right flat files and beside those that are wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.verifying.oracle.judge import NotJudged, judge
from tests.toytree import REPOSITORY

GALLERY = sorted(REPOSITORY.glob("modular/*/modular_*.py"))
QUICK = ("llama_loss", "llama_moe", "mpnet_sdpa_checkpoint", "gpt2_gelu_loss")


def flat_texts(modular: Path) -> dict[str, str]:
    """The generated files of a variant of the gallery, by their names."""
    stem = modular.stem.removeprefix("modular_")
    outputs = (REPOSITORY / "generated" / modular.parent.name).glob(f"*_{stem}.py")
    return {path.name: path.read_text(encoding="utf-8") for path in outputs}


def of_gallery(name: str) -> Path:
    (path,) = [path for path in GALLERY if path.stem == f"modular_{name}"]
    return path


@pytest.mark.parametrize("name", QUICK)
def test_the_gallery_is_as_python_runs_it(name: str) -> None:
    modular = of_gallery(name)
    assert judge(modular, flat_texts(modular), REPOSITORY) == []


@pytest.mark.slow
@pytest.mark.parametrize("modular", GALLERY, ids=lambda path: path.stem)
def test_the_whole_gallery_is_as_python_runs_it(modular: Path) -> None:
    assert judge(modular, flat_texts(modular), REPOSITORY) == []


# Errors in the flat file of `llama_loss`: what is replaced, by what, and what is said of it.
WRONG = {
    "a base in another order": (
        "class LlamaForCausalLM(LlamaPreTrainedModel, GenerationMixin):",
        "class LlamaForCausalLM(GenerationMixin, LlamaPreTrainedModel):",
        "LlamaForCausalLM has the order",
    ),
    "a base is lost": (
        "class LlamaForCausalLM(LlamaPreTrainedModel, GenerationMixin):",
        "class LlamaForCausalLM(LlamaPreTrainedModel):",
        "LlamaForCausalLM lacks the base GenerationMixin",
    ),
    "a member is missing": (
        "    def extra_repr(self):",
        "    def _extra_repr(self):",
        "LlamaRMSNorm has _extra_repr",
    ),
    "another signature": (
        "self: Any, head: Any, states: Tensor, labels: Any, compute_logits: Any, cap:",
        "self: Any, head: Any, labels: Any, states: Tensor, compute_logits: Any, cap:",
        "LlamaForCausalLM.loss_from_states takes",
    ),
    "another default": (
        "def __init__(self, hidden_size, eps: float = 1e-6)",
        "def __init__(self, hidden_size, eps: float = 1e-5)",
        "LlamaRMSNorm.__init__ takes",
    ),
    "another class attribute": (
        '_no_split_modules = ["LlamaDecoderLayer"]',
        '_no_split_modules = ["LlamaAttention"]',
        "_no_split_modules is",
    ),
    "another body": (
        "variance = hidden_states.pow(2).mean(-1, keepdim=True)",
        "variance = hidden_states.pow(2).mean(-1, keepdim=True) * 1.001",
        "is not what Python computes",
    ),
    "no such name": ("class LlamaModel(LlamaPreTrainedModel)", "class LlamaModel(Llama)", "import"),
}


@pytest.mark.parametrize("error", WRONG)
def test_a_wrong_flat_file_is_seen(error: str) -> None:
    right, wrong, said = WRONG[error]
    modular = of_gallery("llama_loss")
    texts = flat_texts(modular)
    (name,) = texts
    assert right in texts[name]
    found = judge(modular, {name: texts[name].replace(right, wrong)}, REPOSITORY)
    assert any(said in each for each in found), found


# Modular files, and how their flat files differ from the parent's text: rightly, and wrongly.
DOUBLED = """
from transformers.models.{0} import modeling_{0} as hf
class {1}(hf.{1}):
    def forward(self, x):
        return super().forward(x) * 2
"""
RETURNED = ("return down_proj\n", "return down_proj * 2\n")
TWO_FUNCTIONS = """
from transformers.models.glm.modeling_glm import rotate_half as interleaved
from transformers.models.llama import modeling_llama as llama
class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return super().forward(interleaved(x) + llama.rotate_half(x))
"""
CALL = "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n"
ROTATE = "def rotate_half(x):"
GLM = """def glm_rotate_half(x):
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


"""
NEW_FUNCTION = """
from transformers.models.llama import modeling_llama as llama
def rotate_half(x):
    return -x
"""
ROTATED = """    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)
"""
AUTO = "AutoModel.from_config(config.text_config)"
REMOVED = """
from transformers.models.llama import modeling_llama as llama
class LlamaRMSNorm(llama.LlamaRMSNorm):
    def extra_repr(self):
        raise AttributeError
"""
REPR = """
    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
"""
BASE = """
from transformers.models.llama import modeling_llama as llama
class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):
    supports_gradient_checkpointing = False
class LlamaModel(LlamaPreTrainedModel, llama.LlamaModel):
    pass
"""
FLAG = ("supports_gradient_checkpointing = True", "supports_gradient_checkpointing = False")
EDITED = """
from patchgen.edits import Hole, New, edit, new, old
from transformers.models.llama import modeling_llama as llama
LIMIT = 0.5
class LlamaMLP(llama.LlamaMLP):
    @edit("forward")
    def clamp(self, gate: Hole, limit: New[float] = LIMIT):
        with old:
            self.act_fn(gate)
        with new:
            self.act_fn(gate.clamp(max=limit))
"""
PLACED = """
from patchgen.edits import Hole, New, edit, new, old
from transformers.models.llama import modeling_llama as llama
class LlamaAttention(llama.LlamaAttention):
    @edit("forward")
    def scale(self, hidden_states, factor: New[float] = 1.0, *rest: Hole):
        with old:
            self.q_proj(hidden_states)
        with new:
            self.q_proj(hidden_states) * factor
"""
OTHERS = """
from patchgen.edits import New, edit, new, old
from transformers.models.llama import modeling_llama as llama
class LlamaMLP(llama.LlamaMLP):
    @edit("forward")
    def add_bias(self, x, **kwargs: New):
        with old:
            self.gate_proj(x)
        with new:
            self.gate_proj(x) + kwargs.get("bias", 0)
"""
STATES = "        hidden_states: torch.Tensor,\n"
BESIDE = "        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,\n"
FACTOR = "        factor: float = 1.0,\n"
GATE = "self.act_fn(self.gate_proj(x))"
MLP = "def forward(self, x):"
# The parent, the modular file, the right changes, what makes them wrong, and what is said of that.
PLANTED = {
    "a class is not replaced": (
        "llama",
        DOUBLED.format("llama", "LlamaMLP"),
        [RETURNED],
        [("down_proj * 2", "down_proj")],
        "is not what Python computes",
    ),
    "two functions have one body": (
        "llama",
        TWO_FUNCTIONS,
        [
            (ROTATE, GLM + ROTATE),
            (CALL, "        x = glm_rotate_half(x) + rotate_half(x)\n" + CALL),
        ],
        [("x = glm_rotate_half(x) +", "x = rotate_half(x) +")],
        "is not what Python computes",
    ),
    "a function is not replaced": (
        "llama",
        NEW_FUNCTION,
        [(ROTATED, "    return -x\n")],
        [("    return -x\n", ROTATED)],
        "is not what Python computes",
    ),
    "a part is of the auto classes": (
        "qwen3_vl",
        DOUBLED.format("qwen3_vl", "Qwen3VLTextMLP"),
        [RETURNED, (AUTO, "Qwen3VLTextModel._from_config(config.text_config)")],
        [("Qwen3VLTextModel._from_config(config.text_config)", AUTO)],
        "language_model is transformers.models.qwen3_vl",
    ),
    "what is removed is there": (
        "llama",
        REMOVED,
        [(REPR, "")],
        [
            (
                "class LlamaRotaryEmbedding",
                "LlamaRMSNorm.extra_repr = repr\n\n\nclass LlamaRotaryEmbedding",
            )
        ],
        "LlamaRMSNorm.extra_repr is",
    ),
    "bases without an order": (
        "llama",
        BASE,
        [FLAG],
        [("LlamaModel(LlamaPreTrainedModel)", "LlamaModel(PreTrainedModel, LlamaPreTrainedModel)")],
        "cannot be imported: TypeError",
    ),
    "an edit with another value": (
        "llama",
        EDITED,
        [
            ("class LlamaMLP", "LIMIT = 0.5\n\n\nclass LlamaMLP"),
            (MLP, "def forward(self, x, limit=LIMIT):"),
            (GATE, "self.act_fn(self.gate_proj(x).clamp(max=limit))"),
        ],
        [("LIMIT = 0.5", "LIMIT = 0.25")],
        "LlamaMLP.forward takes",
    ),
    "a parameter in another place": (
        "llama",
        PLACED,
        [
            (STATES + BESIDE, STATES + FACTOR + BESIDE),
            ("self.q_proj(hidden_states)", "(self.q_proj(hidden_states) * factor)"),
        ],
        [(FACTOR + BESIDE, BESIDE + FACTOR)],
        "LlamaAttention.forward takes",
    ),
    "a method that takes other keywords": (
        "llama",
        OTHERS,
        [
            (MLP, "def forward(self, x, **kwargs):"),
            ("self.gate_proj(x)", '(self.gate_proj(x) + kwargs.get("bias", 0))'),
        ],
        [("x, **kwargs", "x, kwargs")],
        "LlamaMLP.forward takes",
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_seen(error: str, tmp_path: Path) -> None:
    model, modular, right, wrong, said = PLANTED[error]
    spec = importlib.util.find_spec(f"transformers.models.{model}.modeling_{model}")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8").replace("from ...", "from transformers.")
    text = text.replace("from ..", "from transformers.models.")
    text = text.replace("from .", f"from transformers.models.{model}.")
    path = tmp_path / f"modular_{model}_x.py"
    path.write_text(modular, encoding="utf-8")
    for old, new in right:
        assert old in text, old
        text = text.replace(old, new)
    name = f"modeling_{model}_x.py"
    assert judge(path, {name: text}, tmp_path) == []
    for old, new in wrong:
        assert old in text, old
        text = text.replace(old, new)
    found = judge(path, {name: text}, tmp_path)
    assert any(said in each for each in found), found


# What engineers write in a modular file, beside what the populations draw.
WRITTEN = {
    "a norm with another signature": (
        "llama_x",
        """
import torch
from torch import nn
from transformers.models.llama import modeling_llama as llama
class LlamaRMSNorm(llama.LlamaRMSNorm):
    def __init__(self, hidden_size, eps=1e-6, unit_offset=True):
        super().__init__(hidden_size, eps)
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.offset = 3.0 if unit_offset else 0.0
    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return ((self.offset + self.weight) * x).to(dtype)
""",
    ),
    "a new model with a layer more": (
        "tiny",
        """
from torch import nn
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaMLP, LlamaModel
class TinyMLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.act_fn = nn.GELU()
        self.norm = nn.LayerNorm(config.hidden_size)
    def forward(self, x):
        return super().forward(self.norm(x)) * 2
class TinyModel(LlamaModel):
    def __init__(self, config):
        super().__init__(config)
        self.extra_norm = nn.LayerNorm(config.hidden_size)
    def forward(self, *args, **kwargs):
        outputs = super().forward(*args, **kwargs)
        outputs.last_hidden_state = self.extra_norm(outputs.last_hidden_state)
        return outputs
class TinyForCausalLM(LlamaForCausalLM):
    pass
""",
    ),
    "annotations from the future": (
        "llama_x",
        """
from __future__ import annotations
import torch
from torch import nn
from transformers.models.llama import modeling_llama as llama
class Gate(nn.Module):
    def __init__(self, size: int, start: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), start or 0.5))
    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return x * self.weight
class LlamaMLP(llama.LlamaMLP):
    def __init__(self, config: llama.LlamaConfig):
        super().__init__(config)
        self.gate: Gate = Gate(config.hidden_size)
    def forward(self, x: torch.Tensor | None) -> "LlamaMLP":
        return self.gate(super().forward(x))
""",
    ),
    "classes with an ending of their own": (
        "llama_kv",
        """
from transformers.models.llama import modeling_llama as llama
from patchgen.edits import edit, new, old
class LlamaAttention_KV(llama.LlamaAttention):
    @edit("__init__")
    def change_scaling(self):
        with old:
            self.head_dim ** (-0.5)
        with new:
            self.head_dim ** (-0.5) * 1.0
class LlamaDecoderLayer_KV(llama.LlamaDecoderLayer):
    @edit("__init__")
    def change_self_attn(self, config, layer_idx):
        with old:
            llama.LlamaAttention(...)
        with new:
            LlamaAttention_KV(...)
class LlamaPreTrainedModel_KV(llama.LlamaPreTrainedModel):
    _no_split_modules = ["LlamaDecoderLayer_KV"]
    _can_record_outputs = {
        "hidden_states": LlamaDecoderLayer_KV,
        "attentions": LlamaAttention_KV,
    }
class LlamaModel_KV(llama.LlamaModel, LlamaPreTrainedModel_KV):
    @edit("__init__")
    def change_layers(self):
        with old:
            llama.LlamaDecoderLayer(...)
        with new:
            LlamaDecoderLayer_KV(...)
class LlamaForCausalLM_KV(llama.LlamaForCausalLM, LlamaPreTrainedModel_KV, llama.GenerationMixin):
    @edit("__init__")
    def change_model(self, config):
        with old:
            self.model = llama.LlamaModel(config)
        with new:
            self.model = LlamaModel_KV(config)
class LlamaForTokenClassification_KV(
    llama.LlamaForTokenClassification, llama.GenericForTokenClassification, LlamaPreTrainedModel_KV
):
    pass
""",
    ),
    "embeddings without a part": (
        "bert_x",
        """
from torch import nn
from transformers.models.bert import modeling_bert as bert
class BertEmbeddings(bert.BertEmbeddings):
    def __init__(self, config):
        super().__init__(config)
        del self.token_type_embeddings
        self.position_embeddings = nn.Embedding(config.max_position_embeddings * 2, config.hidden_size)
    def forward(self, input_ids=None, token_type_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(self.LayerNorm(words + self.position_embeddings(self.position_ids[:, : words.shape[1]])))
class BertSelfAttention(bert.BertSelfAttention):
    def forward(self, hidden_states, *args, **kwargs):
        return super().forward(hidden_states * 2, *args, **kwargs)
class BertPooler(bert.BertPooler):
    def forward(self, hidden_states):
        pooled = super().forward(hidden_states)
        return pooled.relu()
""",
    ),
    "a new model with a block of another model, whose helper clashes": (
        "tiny",
        """
from transformers.models.arcee import modeling_arcee as arcee
from transformers.models.llama import modeling_llama as llama
class TinyDecoderLayer(llama.LlamaDecoderLayer):
    pass
class TinyForCausalLM(arcee.ArceeForCausalLM):
    pass
""",
    ),
    "a block that its own model initialises": (
        "gptj_x",
        """
from transformers.models.gpt2 import modeling_gpt2 as gpt2
from transformers.models.gptj import modeling_gptj as gptj
class GPTJMLP(gpt2.GPT2MLP):
    pass
class GPTJForCausalLM(gptj.GPTJForCausalLM):
    pass
""",
    ),
}

# The layer brings LlamaMLP, which is called LongcatFlashMLP: nothing reads upstream's any more.
HELPED = """
from transformers.models.llama import modeling_llama as llama
from transformers.models.longcat_flash import modeling_longcat_flash as longcat
class LongcatFlashDecoderLayer(llama.LlamaDecoderLayer):
    pass
class LongcatFlashForCausalLM(longcat.LongcatFlashForCausalLM):
    pass
"""


@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_converted_is_as_python_runs_it(what: str, tmp_path: Path) -> None:
    model, text = WRITTEN[what]
    path = tmp_path / f"modular_{model}.py"
    path.write_text(text, encoding="utf-8")
    result = flatten(path, make_environment(tmp_path), Settings())
    assert not result.problems
    assert judge(path, {file.name: file.text for file in result.files}, tmp_path) == []


# Files of a project, by their paths; the last is the one that is converted.
PROJECTS = {
    "a package, and a module that nothing reads at import": {
        "own/kit/__init__.py": "from .gates import Gate as Gate",
        "own/kit/gates.py": """
import torch
from torch import nn
START = 0.5
class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), START))
    def forward(self, x):
        return x * self.gamma
""",
        "own/modular_llama_x.py": """
from transformers import initialization as init
from transformers.models.llama import modeling_llama as llama
from .kit import Gate
from .kit import gates
class LlamaMLP(llama.LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.gate = Gate(config.hidden_size)
    def forward(self, x):
        return self.gate(super().forward(x))
class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, gates.Gate):
            init.constant_(module.gamma, gates.START)
""",
    },
    "modules that are imported by their whole names": {
        "own/kit/gates.py": "def halved(x):\n    return x / 2",
        "own/modular_mixtral_x.py": """
import transformers.models.mixtral.modeling_mixtral as mixtral
import own.kit.gates as gates
class MixtralSparseMoeBlock(mixtral.MixtralSparseMoeBlock):
    def forward(self, hidden_states):
        return gates.halved(super().forward(hidden_states))
""",
    },
    "a function over that of the file below, which it calls": {
        "own/modular_llama_scaled.py": """
from transformers.models.llama import modeling_llama as llama
def scale_of(layer_idx):
    return 0.9
class LlamaDecoderLayer(llama.LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scale = scale_of(layer_idx)
    def forward(self, hidden_states, *args, **kwargs):
        return super().forward(hidden_states, *args, **kwargs) * self.scale
""",
        "own/modular_llama_x.py": """
from . import modular_llama_scaled as below
def scale_of(layer_idx):
    return below.scale_of(layer_idx) ** layer_idx
class LlamaDecoderLayer(below.LlamaDecoderLayer):
    pass
""",
    },
    "a function of the model beside a configuration": {
        "own/modular_llama_x.py": """
from huggingface_hub.dataclasses import strict
from transformers.models.llama import configuration_llama
from transformers.models.llama import modeling_llama as llama
@strict
class LlamaConfig(configuration_llama.LlamaConfig):
    scale_by: float = 0.5
def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    scaling = scaling * module.config.scale_by
    return llama.eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout)
""",
    },
    "a block of a model whose others have the names of this one": {
        "modular_starcoder2_x.py": """
from transformers.models.mistral.modeling_mistral import MistralMLP
from transformers.models.starcoder2 import modeling_starcoder2 as starcoder2
class Starcoder2MLP(MistralMLP):
    pass
class Starcoder2DecoderLayer(starcoder2.Starcoder2DecoderLayer):
    pass
""",
    },
}


@pytest.mark.parametrize("what", PROJECTS)
def test_files_of_a_project_are_as_python_runs_them(what: str, tmp_path: Path) -> None:
    for name, text in PROJECTS[what].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    result = flatten(path, make_environment(tmp_path), Settings())
    assert not result.problems
    assert judge(path, {file.name: file.text for file in result.files}, tmp_path) == []


def test_a_block_that_begins_otherwise_is_seen(tmp_path: Path) -> None:
    model, text = WRITTEN["a block that its own model initialises"]
    path = tmp_path / f"modular_{model}.py"
    path.write_text(text, encoding="utf-8")
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    without = file.text.replace("if isinstance(module, GPTJMLP)", "if False")
    assert without != file.text
    found = judge(path, {file.name: without}, tmp_path)
    assert any("a new model's transformer.h.0.mlp.c_proj.weight" in each for each in found), found


def test_a_helper_takes_the_name_of_a_class_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "modular_longcat_flash_x.py"
    path.write_text(HELPED, encoding="utf-8")
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    assert "class LongcatFlashMLP" in file.text
    # All classes are equal; no configuration of LongCat has what Llama's layer reads.
    with pytest.raises(NotJudged, match="mlp_bias"):
        judge(path, {file.name: file.text}, tmp_path)

"""Packed texts of any lengths: one graph, no graph break, and no wait for the device."""

import copy
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DataCollatorWithFlattening

import patchgen.runtime  # noqa: F401  (registers "varlen")
from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import flatten_draft
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment

pytestmark = pytest.mark.filterwarnings("ignore")

HEADS = {
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "mistral": "MistralForCausalLM",
    "electra": "ElectraForMaskedLM",
}
VARIANTS = {
    "llama_packed": "llama",
    "llama_fast": "llama",
    "qwen3_fast": "qwen3",
    "bert_padding_free": "bert",
    "bert_mlm_padding_free": "bert",
    "roberta_padding_free": "roberta",
    "mistral": "mistral",  # what `new MODEL --with flash` writes
    "electra": "electra",
}
QUICK = ("llama_packed",)
PACKS = ((5, 6), (4, 9, 2), (3, 3, 3, 8), (12, 7), (10, 11, 4, 2, 1), (6, 6, 6, 7), (9, 21))
variants = pytest.mark.parametrize("variant", VARIANTS)
slowly = pytest.mark.parametrize(
    "variant", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in VARIANTS]
)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """The parent's head and the variant's."""

    def of(variant):
        model = VARIANTS[variant]
        parent = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        if variant == model:
            env = make_environment(Path.cwd())
            home = tmp_path_factory.mktemp(model)
            flat = flatten_draft(answer(env, model, ["flash"]).draft, home)
            path = home / f"modeling_{model}_of_new.py"
            path.write_text(flat.files[0].text, encoding="utf-8")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(f"generated.{model}.modeling_{variant}")
        return getattr(parent, HEADS[model]), getattr(module, HEADS[model])

    return of


def made(head, attention):
    config = copy.deepcopy(tiny_config(head.config_class.model_type))
    config._attn_implementation = attention
    # Otherwise BERT's part for labelled tokens asks the device how many there are.
    config.max_labelled_fraction = 1.0
    torch.manual_seed(0)
    return head(config).train()


def batches(model, lengths):
    """What transformers' collator makes of texts, with their lengths or with positions alone."""
    first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
    collate = DataCollatorWithFlattening(return_flash_attn_kwargs=lengths, position_ids_start=first)
    cache = (
        {} if model.config.model_type in ("bert", "roberta", "electra") else {"use_cache": False}
    )
    for pack in PACKS:
        words = torch.randint(3, model.config.vocab_size, (sum(pack),))
        yield dict(collate([{"input_ids": text.tolist()} for text in words.split(pack)])) | cache


class Waits(TorchDispatchMode):
    """Counts operations after which Python waits for the device."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        waits = {"_local_scalar_dense", "nonzero", "equal", "masked_select"}
        self.count += function.overloadpacket.__name__ in waits
        return function(*args, **(kwargs or {}))


def waits(head, attention, lengths):
    model, counts = made(head, attention), []
    for given in batches(model, lengths):
        with Waits() as mode:
            model(**given).loss.backward()
        counts.append(mode.count)
    return counts


def frames(head, attention, lengths, **options):
    model, counter = made(head, attention), CompileCounter()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(model, backend=counter, **options)
    for given in batches(model, lengths):
        compiled(**given).loss.backward()
    return counter.frame_count, dict(torch._dynamo.utils.counters["graph_break"])


@variants
@pytest.mark.parametrize("attention", ["sdpa", "eager", "varlen"])
def test_no_step_waits_for_the_device_where_lengths_are_given(classes, variant, attention):
    assert waits(classes(variant)[1], attention, True) == [0] * len(PACKS)


@slowly
@pytest.mark.parametrize("attention", ["sdpa", pytest.param("varlen", marks=pytest.mark.slow)])
@pytest.mark.parametrize("lengths", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_one_graph_for_all_lengths(classes, variant, attention, lengths):
    assert frames(classes(variant)[1], attention, lengths, fullgraph=True) == (2, {})


@pytest.mark.slow
@variants
@pytest.mark.parametrize("attention", ["sdpa", "varlen"])
def test_as_many_frames_as_the_parent(classes, variant, attention):
    parent, ours = (frames(head, attention, True) for head in classes(variant))
    assert ours == parent == (2, {})

"""transformers' common model tests on four models of the gallery, and on transformers' own for comparison.

Collected by test_common.py alone, in a process of its own, with the tests of transformers' source
distribution on the path as the package `upstream`.  Configurations are ours: those of transformers'
model tests are not distributed.
"""

import unittest

import torch
from transformers import BertConfig, GPT2Config, LlamaConfig, Qwen3MoeConfig
from transformers.models.bert import modeling_bert
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.qwen3_moe import modeling_qwen3_moe
from upstream.test_modeling_common import ModelTesterMixin
from upstream.test_training_mixin import TrainingTesterMixin

from generated.bert import modeling_bert_mlm
from generated.gpt2 import modeling_gpt2_loss
from generated.llama import modeling_llama_loss
from generated.qwen3_moe import modeling_qwen3_moe_checkpoint_loss

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 512,
    "type_vocab_size": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Tester:
    """What the mixins ask of a `model_tester`."""

    batch_size, seq_length, num_choices, is_training = 13, 7, 4, True
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4

    def __init__(self, config_class, causal_lm_class, **changes):
        self.config_class, self.causal_lm_class = config_class, causal_lm_class
        self.changes = changes

    def get_config(self):
        return self.config_class(**{**SIZES, **self.changes})

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        ids = torch.randint(3, config.vocab_size, (self.batch_size, self.seq_length))
        mask = torch.ones_like(ids)
        return config, {"input_ids": ids, "attention_mask": mask}


def heads(module):
    """The model classes of a module that `AutoModel...` would build."""
    return tuple(
        getattr(module, name)
        for name in module.__all__
        if issubclass(getattr(module, name), module.PreTrainedModel)
        and not name.endswith("PreTrainedModel")
    )


def with_own_inputs(given, model_class, tester, return_labels):
    """For the two heads whose forward differs, as transformers' own model tests have it."""
    shape = given["input_ids"].shape
    if model_class.__name__ == "BertForPreTraining" and return_labels:
        labels = {"labels": torch.zeros(shape), "next_sentence_label": torch.zeros(shape[0])}
        given |= {name: value.long() for name, value in labels.items()}
    if model_class.__name__ == "GPT2DoubleHeadsModel" and return_labels:
        ids = given["input_ids"][:, None].expand(-1, tester.num_choices, -1).contiguous()
        zeros = torch.zeros(shape[0], tester.num_choices, dtype=torch.long)
        given |= {
            "input_ids": ids,
            "labels": ids.clone(),
            "mc_token_ids": zeros,
            "mc_labels": zeros[:, 0].clone(),
        }
        given |= {"attention_mask": torch.ones_like(ids)}
    return given


def host(module, config_class, trained, **changes):
    """A test case over the heads of `module`."""

    class Host(ModelTesterMixin, TrainingTesterMixin, unittest.TestCase):
        all_model_classes = heads(module)
        model_tester = None
        # An expert that no token chose has no gradient.
        test_all_params_have_gradient = config_class is not Qwen3MoeConfig

        def setUp(self):
            self.model_tester = Tester(config_class, getattr(module, trained), **changes)

        def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
            given = super()._prepare_for_class(
                inputs_dict, model_class, return_labels=return_labels
            )
            return with_own_inputs(given, model_class, self.model_tester, return_labels)

    Host.__module__ = __name__
    return Host


# GPT-2 names its sizes otherwise and refuses none of these.
WAYS = {
    "Llama": (LlamaConfig, "LlamaForCausalLM", {"num_key_value_heads": 2}),
    "Bert": (BertConfig, "BertForMaskedLM", {}),
    "Gpt2": (GPT2Config, "GPT2LMHeadModel", {"n_inner": 40}),
    "Qwen3Moe": (
        Qwen3MoeConfig,
        "Qwen3MoeForCausalLM",
        {"num_key_value_heads": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2},
    ),
}


def hosted(kind, module):
    config_class, trained, changes = WAYS[kind]
    return host(module, config_class, trained, **changes)


class TestOwnLlama(hosted("Llama", modeling_llama)): ...


class TestGeneratedLlama(hosted("Llama", modeling_llama_loss)): ...


class TestOwnBert(hosted("Bert", modeling_bert)): ...


class TestGeneratedBert(hosted("Bert", modeling_bert_mlm)): ...


class TestOwnGpt2(hosted("Gpt2", modeling_gpt2)): ...


class TestGeneratedGpt2(hosted("Gpt2", modeling_gpt2_loss)): ...


class TestOwnQwen3Moe(hosted("Qwen3Moe", modeling_qwen3_moe)): ...


class TestGeneratedQwen3Moe(hosted("Qwen3Moe", modeling_qwen3_moe_checkpoint_loss)): ...

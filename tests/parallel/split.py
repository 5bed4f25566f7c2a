"""Two processes split tiny models by their plans, and compare loss and gradients with the whole
model.

`test_split.py` runs this program, which prints a line of JSON for each case: its difference, or an
error.
"""

import copy
import importlib
import json
import warnings
from dataclasses import dataclass, field

import torch
from torch import distributed
from transformers.distributed import DistributedConfig

from patchgen.verifying.models.build import draw_weights
from tests.parallel.forked import forked

WORLD = 2
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "use_cache": False,
}
EXPERTS = {"num_experts": 4, "router_aux_loss_coef": 0.0, "router_z_loss_coef": 0.0}
LLAMA_MOE = ("generated.llama.modeling_llama_moe", "LlamaMoeForCausalLM")
PHI3 = ("transformers.models.phi3.modeling_phi3", "Phi3ForCausalLM")
BERT_MOE = ("generated.bert.modeling_bert_moe", "BertMoeForMaskedLM")
TP, TP_AND_EP, EP = (
    {"tp_size": WORLD},
    {"tp_size": WORLD, "ep_size": WORLD},
    {"fsdp_size": WORLD, "ep_size": WORLD},
)


@dataclass(frozen=True)
class Case:
    """A head that is split over `sizes`, by `rules` beside its own."""

    head: tuple[str, str]
    sizes: dict[str, int]
    options: dict[str, object] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)
    # FSDP of torch 2.13 divides float64 gradients twice in a group of one process, and its grouped
    # product knows no float64.
    dtype: torch.dtype = torch.float64

    @property
    def kind(self) -> type[torch.nn.Module]:
        module, name = self.head
        return getattr(importlib.import_module(module), name)


CASES = {
    "llama_moe tp": Case(LLAMA_MOE, TP, EXPERTS, dtype=torch.float32),
    "llama_moe every other tp": Case(
        LLAMA_MOE, TP, {**EXPERTS, "moe_every": 2}, dtype=torch.float32
    ),
    "llama_moe tp+ep": Case(LLAMA_MOE, TP_AND_EP, EXPERTS, dtype=torch.float32),
    "llama_moe biased ep": Case(LLAMA_MOE, EP, {**EXPERTS, "mlp_bias": True}, dtype=torch.float32),
    "bert_moe ep": Case(BERT_MOE, EP, EXPERTS, dtype=torch.float32),
    # Slices across the parts of a joined layer, which the model's own plan gathers.
    "planted": Case(
        PHI3,
        TP,
        {"pad_token_id": 0},
        rules={
            "model.layers.*.mlp.gate_up_proj": "colwise",
            "model.layers.*.mlp.down_proj": "rowwise",
        },
    ),
}


def differ(case: Case) -> float:
    """Return the largest difference of the loss and of gradients, in rounding errors."""
    kind = case.kind
    model = kind(kind.config_class(**SIZES, **case.options)).to(case.dtype).train()
    for each in model.modules():
        if isinstance(each, torch.nn.Dropout):
            each.p = 0.0
    draw_weights(model)
    whole = copy.deepcopy(model)
    model._tp_plan |= case.rules
    config, _, mesh = kind.prepare_distribute_model(DistributedConfig(**case.sizes))
    model = kind.maybe_distribute_model(model, config, mesh)
    words = torch.randint(
        3, SIZES["vocab_size"], (2, 7), generator=torch.Generator().manual_seed(1)
    )
    losses = [each(input_ids=words, labels=words).loss for each in (model, whole)]
    for loss in losses:
        loss.backward()
    ours, theirs = (
        {name: each.grad for name, each in one.named_parameters()} for one in (model, whole)
    )
    assert ours.keys() == theirs.keys()
    assert any(hasattr(each, "full_tensor") for each in model.parameters()), "nothing is split"
    largest = max(each.abs().max() for each in theirs.values() if each is not None)
    gaps = [
        (_gathered(ours[name]) - each).abs().max() / largest
        for name, each in theirs.items()
        if each is not None
    ]
    return float(max(*gaps, (losses[0] - losses[1]).detach().abs())) / torch.finfo(case.dtype).eps


def _gathered(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def run() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    found = {}
    for name, case in CASES.items():
        found[name] = differ(case)
        distributed.barrier()
    if distributed.get_rank() == 0:
        print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    assert all(case.kind for case in CASES.values())  # imported, before there are two processes
    forked(run, WORLD)

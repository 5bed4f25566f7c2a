"""Errors that leave every number right: each is planted in a variant, and one case sees it."""

import gc
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.mutation.mutations import Mutant
from patchgen.verifying.mutation.prove import find_functions, plant_mutant
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

COMPILED = "a count that waits for the device while torch compiles"  # takes eight seconds
# The variant, the end of the case's name, the function, what it says, what it says with the error.
ERRORS = {
    "a router that chooses again in the recompute": (
        "qwen3_moe_checkpoint_loss",
        " choices",
        "Qwen3MoePreTrainedModel._set_gradient_checkpointing",
        "gradient_checkpointing_func = partial(gradient_checkpointing_func, context_fn=choices)",
        "pass",
    ),
    "a fake function that gives another shape than the operator": (
        "gpt2_loss",
        " operators with a frozen head",
        "_shapes",
        "torch.empty_like(weight[:0]",
        "torch.empty_like(weight[:1]",
    ),
    "a product that autocast does not make narrow": (
        "llama_loss",
        " work under autocast",
        "LlamaForCausalLM.loss_from_states",
        "states = states.to(torch.get_autocast_dtype(states.device.type))",
        "pass",
    ),
    "logits of labelled tokens in the place of all": (
        "roberta_mlm",
        " float64 right closest",
        "RobertaForMaskedLM.forward",
        "if tokens is not all_tokens:",
        "if False:",
    ),
    "a loss that is summed in the dtype of its states": (
        "gpt2_loss",
        "LMHeadModel bfloat16 loss beside logits",
        "losses_and_grads",
        ".to(token_weights.dtype)",
        "",
    ),
    "a loss in chunks of one token": (
        "gemma2_loss",
        " work in training",
        "Gemma2ForCausalLM.loss_from_states",
        "max(256, 2**27 // head.out_features // 256 * 256)",
        "1",
    ),
    "a pooler that reads the first token of a row for each of its texts": (
        "roberta_padding_free",
        "RobertaModel itself: packed rows",
        "RobertaModel.forward",
        "first_tokens(sequence_output, first)",
        "sequence_output",
    ),
    "a norm whose weight is rounded before it is added to one": (
        "gemma2_norm",
        "ForCausalLM bfloat16 norms alone",
        "Gemma2RMSNorm.forward",
        "self.weight.float()",
        "self.weight",
    ),
    COMPILED: (
        "bert_mlm",
        " compiled by aot_eager",
        "labelled_tokens",
        "return states, labels  # only the device",
        "pass  # only the device",
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == COMPILED)) for name in ERRORS],
)
def test_it_is_seen(name):
    variant, ending, function, right, wrong = ERRORS[name]
    bench = CaseRunner(BY_NAME[variant])
    checks = find_part_checks(bench.variant.checked_parts)
    case = next(case for case in select_cases(bench.variant, checks) if case.name.endswith(ending))
    assert bench.run(case).status == "PASS"

    module = bench.pair(case).module
    text = Path(module.__file__).read_text()
    start = text.index(right)
    line = text[:start].count("\n") + 1
    error = Mutant(name, line, function, start, start + len(right), wrong, line)
    # What is collected no more is found too: the command line freezes what it imported.
    gc.freeze()
    with plant_mutant(find_functions(module, text), error):
        result = CaseRunner(BY_NAME[variant]).run(case)
    assert result.status == "FAIL", result.note

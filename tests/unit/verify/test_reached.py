"""What cases have run of a variant: classes, forward and backward, and what the model was given."""

import os
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.llama import modeling_llama
from transformers.models.vilt import modeling_vilt
from transformers.models.wav2vec2 import modeling_wav2vec2

from patchgen.cli import main
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.reached import find_missing, noting

LAYERS = ("LlamaAttention", "LlamaMLP", "LlamaPreTrainedModel")


def happened_to(model_class):
    config = tiny_config(model_class.config_class)
    inputs = make_inputs(model_class, config, Scenario()).to("cpu", torch.float32)
    with noting(model_class.__module__) as happened:
        observe_step(model_class(config), inputs, Scenario())
    return happened


def test_what_runs_and_learns_is_noted():
    happened = happened_to(modeling_llama.LlamaModel)
    assert find_missing(modeling_llama, LAYERS, ["LlamaModel"], happened) == ()
    ran = {each for each in happened if each[0] != "learned"}
    assert find_missing(modeling_llama, LAYERS, ["LlamaModel"], ran) == (
        "no parameter of `LlamaAttention` had a gradient",
        "no parameter of `LlamaMLP` had a gradient",
    )
    assert find_missing(modeling_llama, ["LlamaForCausalLM"], ["LlamaForCausalLM"], happened) == (
        "`LlamaForCausalLM` never ran",
    )


def test_each_kind_of_input_that_a_head_takes_has_to_be_fed():
    heads = ["ViltForMaskedLM"]
    assert find_missing(modeling_vilt, [], heads, set()) == ("no image was fed",)
    happened = happened_to(modeling_vilt.ViltForMaskedLM)
    assert find_missing(modeling_vilt, [], heads, happened) == ()


def test_a_sound_has_to_be_padded():
    heads, fed = ["Wav2Vec2Model"], {("given", "input_values"), ("given", "attention_mask")}
    assert find_missing(modeling_wav2vec2, [], heads, fed) == ("no padded sound was fed",)
    padded = {*fed, ("padded", "attention_mask")}
    assert find_missing(modeling_wav2vec2, [], heads, padded) == ()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has such a device")
def test_a_device_that_is_not_there_is_a_usage_error(capsys):
    assert main(["verify", "llama_loss", "--device", "cuda"]) == 2
    assert "--device cuda" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupt_ends_it_at_once_and_is_no_case():
    command = [sys.executable, "-m", "patchgen", "verify", "llama_loss", "bert_mlm", "-v"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    )
    first = process.stdout.readline()
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: children get it too
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - begun < 10
    assert "FAIL" not in first + rest and "interrupted" in rest

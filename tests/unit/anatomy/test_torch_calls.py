"""Calls of torch's own attention function that ask for weights."""

import pytest

from patchgen.author.anatomy.module import make_module
from patchgen.author.anatomy.torch_calls import torch_calls
from patchgen.syntax.text import make_source

CLASS = """
class Attention(nn.Module):
    def forward(self, x):
        return F.multi_head_attention_forward(x, x, x, {keywords})[0]
"""
CASES = {
    "asks for weights": ("need_weights=True, use_separate_proj_weight=True", 1),
    "asks for none, and gets SDPA": ("need_weights=False, use_separate_proj_weight=True", 0),
    "one projection for all three": ("need_weights=True", 0),
}


@pytest.mark.parametrize(("keywords", "count"), CASES.values(), ids=CASES)
def test_calls_that_ask_for_weights(keywords, count):
    module = make_module("toy", make_source(CLASS.format(keywords=keywords), "toy.py"))
    assert len(torch_calls(module)) == count

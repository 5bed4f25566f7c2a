"""Attentions that are written out: what is found in them, and what prevents SDPA."""

import ast
import textwrap

import pytest

from patchgen.author.anatomy.module import make_module
from patchgen.author.anatomy.steps import chains
from patchgen.syntax.text import make_source

CLASS = """
class Attention(nn.Module):
    def __init__(self, config):
        self.dropout = nn.Dropout(config.rate)
        self.scale = config.size**-0.5
        self.mix = nn.Linear(4, 4) if config.mix else None
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((config.heads, 1, 1))))

    def add_bias(self, scores, q):
        scores = scores.view(3, 3, 4, 4) + self.table(q)
        return scores.view(9, 4, 4)

    def add_and_scale(self, scores, q):
        return (scores + self.table(q)) * 3

    def forward(self, q, k, v, mask=None, bias=None, output_attentions=False):
{body}
"""
PLAIN = """
scores = torch.matmul(q, k.transpose(-1, -2))
scores = scores / math.sqrt(8)
if mask is not None:
    scores = scores + mask
probs = nn.functional.softmax(scores, dim=-1)
probs = self.dropout(probs)
context = torch.matmul(probs, v)
return context, probs
"""


def found_in(body):
    text = CLASS.format(body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8))
    return chains(make_module("toy", make_source(text, "toy.py")).classes["Attention"])


def summary(chain):
    def text(node):
        return None if node is None else ast.unparse(node)

    scores = chain.scores
    return {
        "q": text(scores.query),
        "k": text(scores.key),
        "v": text(chain.value),
        "scaled": [factor.operator + text(factor.value) for factor in scores.factors],
        "terms": [(term.kind, text(term.value), text(term.condition)) for term in scores.terms],
        "dropout": text(scores.dropout),
    }


DROPOUT = "self.dropout.p if self.training else 0.0"
EXPECTED = {
    "q": "q",
    "k": "k",
    "v": "v",
    "scaled": ["/math.sqrt(8)"],
    "terms": [("add", "mask", "mask is not None")],
    "dropout": DROPOUT,
}
SAME = {
    "plain": PLAIN,
    "operators": """
        s = q @ k.transpose(1, 2) / math.sqrt(8)
        if mask is not None:
            s += mask
        p = s.softmax(dim=-1)
        return self.dropout(p) @ v
    """,
    "folded heads, views, a check": """
        w = torch.bmm(q, k.transpose(1, 2)).float()
        if w.size() != (3, 4):
            raise ValueError
        w = w / math.sqrt(8)
        if mask is not None:
            w = w.view(b, self.heads, t, s) + mask
            w = w.view(b * self.heads, t, s)
        w = w.softmax(dim=-1).to(q.dtype)
        if output_attentions:
            shown = w.view(b, self.heads, t, s)
            w = shown.view(b * self.heads, t, s)
        else:
            shown = None
        return torch.bmm(self.dropout(w), v), shown
    """,
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_spellings_of_one_attention(body):
    (chain,), missed = found_in(body)
    assert summary(chain) == EXPECTED
    assert not missed


OTHERS = {
    "the query is scaled before": (
        "s = torch.matmul(q * self.scale, k.transpose(-1, -2))",
        {"q": "q * self.scale"},
    ),
    "the key is transposed before": ("s = torch.matmul(q, k)", {"k": "k.transpose(-1, -2)"}),
    "the mask is scaled too": (
        "s = (q @ k.transpose(1, 2) + mask) * self.scale",
        {"scaled": ["*self.scale"]},
    ),
    "bools hide": (
        "s = (q @ k.transpose(1, 2)).masked_fill(mask == 0, -1e9)",
        {"terms": [("hide", "mask == 0", None)]},
    ),
    "hidden in place by a mask in the form of scores": (
        "s = q @ k.transpose(1, 2)\nm = (mask == 0).expand_as(s)\ns.masked_fill_(m, -1e9)",
        {"terms": [("hide", "m", None)]},
    ),
    "bools show": (
        "s = torch.where(mask, q @ k.transpose(1, 2), -1e9)",
        {"terms": [("hide", "~mask", None)]},
    ),
    "a scale for each head": (
        "s = q @ k.transpose(1, 2) * self.logit_scale.exp()",
        {"q": "q * self.logit_scale.exp()"},
    ),
    "a factor under a condition": (
        "s = q @ k.transpose(1, 2)\nif self.scaled:\n    s = s / 3",
        {"scaled": ["/3"]},
    ),
}


@pytest.mark.parametrize(("scores", "expected"), OTHERS.values(), ids=OTHERS)
def test_what_is_added_and_multiplied(scores, expected):
    (chain,), missed = found_in(f"{scores}\np = s.softmax(dim=-1)\nreturn p @ v")
    assert not missed
    assert {name: summary(chain)[name] for name in expected} == expected


REFUSED = {
    "two products are summed": (
        "s = q @ k.transpose(1, 2) / 3\nr = bias @ mask\ns = s + r\nreturn s.softmax(dim=-1) @ v",
        "`r`, which SDPA does not compute, is read here too",
    ),
    "a mask is subtracted": (
        "s = q @ k.transpose(1, 2) - mask\nreturn s.softmax(dim=-1) @ v",
        "the scores go into",
    ),
    "softmax over something else": (
        "p = self.gate(q).softmax(dim=-1)\nreturn p",
        "its softmax is not of a product",
    ),
    "not the last axis": ("s = q @ k.transpose(1, 2)\np = s.softmax(1)\nreturn p @ v", None),
    "weights are mixed": (
        "p = (q @ k.transpose(1, 2)).softmax(dim=-1)\np = self.mix(p)\nreturn p @ v",
        "the scores go into",
    ),
    "weights are masked": (
        "p = (q @ k.transpose(1, 2)).softmax(dim=-1)\np = p.masked_fill(mask, 0)\nreturn p @ v",
        "weights are changed",
    ),
    "other scores where a mask says so": (
        "s = torch.where(mask, q @ k.transpose(1, 2), bias)\nreturn s.softmax(dim=-1) @ v",
        "the scores go into",
    ),
    "a method that does more than add": (
        "s = self.add_and_scale(q @ k.transpose(1, 2), q)\nreturn s.softmax(dim=-1) @ v",
        "the scores go into",
    ),
    "scores are read by what is kept": (
        "s = q @ k.transpose(1, 2)\nseen = [s]\nreturn self.log(seen), s.softmax(dim=-1) @ v",
        "is read here too",
    ),
    "softmax over the queries": (
        "s = (q @ k.transpose(1, 2)).transpose(-1, -2)\nreturn s.softmax(dim=-1) @ v",
        "the scores go into",
    ),
    "a scale that may be a tensor": (
        "s = q @ k.transpose(1, 2) * bias\nreturn s.softmax(dim=-1) @ v",
        "more than one number",
    ),
    "a number that hides nothing": (
        "s = (q @ k.transpose(1, 2)).masked_fill(mask, 0)\nreturn s.softmax(dim=-1) @ v",
        "scores are set to",
    ),
    "soft-capping": (
        "s = q @ k.transpose(1, 2)\ns = torch.tanh(s / 3) * 3\nreturn s.softmax(dim=-1) @ v",
        "torch.tanh",
    ),
    "a name changes before it is used": (
        "s = q @ k.transpose(1, 2)\nq = self.log(q)\np = s.softmax(dim=-1)\nreturn p @ v",
        "bound again",
    ),
}


@pytest.mark.parametrize(("body", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_attention_or_more_than_one(body, why):
    found, missed = found_in(body)
    if why is None:
        assert len(found) <= 1
        return
    assert not found
    assert any(why in one.why for one in missed), [one.why for one in missed]

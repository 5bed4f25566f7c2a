"""The heads of a module that predict words, and how each computes its loss.

A head is a class whose forward takes labels, with a loss over a vocabulary.  transformers chooses
`self.loss_function` by the name of the class.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.author.anatomy.code import (
    called,
    dotted,
    last,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class, Module

# The suffixes that transformers looks for in the name of a class, in its order.  The first is the
# default.
LOSSES = (
    "ForCausalLM",
    "ForMaskedLM",
    "ForQuestionAnswering",
    "ForSequenceClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ForTokenClassification",
    "ForSegmentation",
    "ForObjectDetection",
    "ForConditionalGeneration",
    "DeformableDetrForObjectDetection",
)
# Words in the losses of classifiers, of question answering and of next-sentence prediction.
OTHER_LOSSES = ("num_labels", "pooled_logits", "start_", "num_choices", "seq_relationship")
WORDS = ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")


@dataclass(frozen=True, eq=False)
class Head:
    """A head: `loss` is the call that computes the loss.

    `kind` is "function" if that calls `self.loss_function`, and "own" if it calls a
    CrossEntropyLoss.  `shifted`: whether a token is compared with the label of the next one.
    """

    owner: Class
    method: ast.FunctionDef
    kind: str
    loss: ast.Call
    shifted: bool


def heads(module: Module) -> tuple[Head, ...]:
    """The heads over words, in the order of the file."""
    return tuple(head for owner in module.classes.values() for head in _heads(module, owner))


def loss_type(owner: Class) -> str:
    """The name of the loss that transformers chooses for `owner`."""
    for value in owner.attributes.get("loss_type", ()):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    found = re.search("|".join(LOSSES), owner.name)
    return found[0] if found is not None else WORDS[0]


def _heads(module: Module, owner: Class) -> Iterator[Head]:
    forward = owner.own.get("forward")
    if forward is None:
        return
    parameters = {arg.arg for arg in walk(forward.args, ast.arg)}
    if "labels" not in parameters:
        return
    tied = "_tied_weights_keys" in owner.settings
    for call, kind in _losses(forward):
        if not _is_over_words(owner, call, tied):
            continue
        if kind == "function" and loss_type(owner) not in WORDS:
            continue
        if kind == "own":
            shifted = _shifts_labels(forward)
        else:
            shifted = loss_type(owner) != "ForMaskedLM"
        yield Head(owner, forward, kind, call, shifted)


def _losses(forward: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a loss, each with the kind of its head."""
    criteria: set[str] = set()  # names for a CrossEntropyLoss
    for node in walk(forward.body, ast.Assign):
        if last(called(node.value)) == "CrossEntropyLoss":
            criteria |= stored(node)
    for call in walk(forward.body, ast.Call):
        if called(call) in ("self.loss_function", "self.loss_fn"):
            yield call, "function"
        elif dotted(call.func) in criteria or "CrossEntropyLoss" in called(call.func):
            yield call, "own"


def _shifts_labels(forward: ast.FunctionDef) -> bool:
    text = "\n".join(ast.unparse(statement) for statement in forward.body)
    return "[..., 1:]" in text or "[:, 1:]" in text


def _is_over_words(owner: Class, call: ast.Call, tied: bool) -> bool:
    text = ast.unparse(call)
    if any(word in text for word in OTHER_LOSSES):
        return False
    if "vocab" in text or "lm_head" in text:
        return True
    return tied or owner.method("get_output_embeddings") is not None

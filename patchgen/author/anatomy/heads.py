"""The heads of a module that predict words, and how each takes its loss.

A head is a class whose forward has labels, and whose loss is over a vocabulary.  Which loss `self.loss_function` is,
transformers decides by the name of the class.
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
    method_of,
    names,
    receiver,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class, Module

# The suffixes that transformers looks for in the name of a class, in its order; an unknown name gets the first.
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
WORDS = ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")


@dataclass(frozen=True, eq=False)
class Head:
    """A head: `loss` is the expression that gives the loss, `logits` the name of what goes into it.

    `kind`: "function" where `self.loss_function` is called, "own" where a CrossEntropyLoss is.  `shifted`: whether a
    token is compared with the next one's label.  `steps`: what happens to the logits between the head and the loss.
    """

    owner: Class
    method: ast.FunctionDef
    kind: str
    loss: ast.Call
    logits: str
    module: str
    shifted: bool
    steps: tuple[str, ...]
    keeps: bool
    tied: bool


def heads(module: Module) -> tuple[Head, ...]:
    """The heads over words, in the order of the file."""
    return tuple(head for owner in module.classes.values() for head in _heads(module, owner))


def loss_type(owner: Class) -> str:
    """The name of the loss that transformers takes for `owner`."""
    for value in owner.attributes.get("loss_type", ()):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    found = re.findall("|".join(f"({name})" for name in LOSSES), owner.name)
    return next((name for name in found[0] if name), WORDS[0]) if found else WORDS[0]


def _heads(module: Module, owner: Class) -> Iterator[Head]:
    forward = owner.own.get("forward")
    if forward is None or not any(arg.arg == "labels" for arg in walk(forward.args, ast.arg)):
        return
    tied = "_tied_weights_keys" in owner.settings
    keeps = any(arg.arg == "logits_to_keep" for arg in walk(forward.args, ast.arg))
    losses = {
        name
        for node in walk(forward.body, ast.Assign)
        if last(called(node.value)) == "CrossEntropyLoss"
        for name in stored(node)
    }
    for call in walk(forward.body, ast.Call):
        function = called(call) in ("self.loss_function", "self.loss_fn")
        own = dotted(call.func) in losses or (
            isinstance(call.func, ast.Call) and "CrossEntropyLoss" in called(call.func)
        )
        if not (function or own) or not _is_over_words(owner, call, forward, tied):
            continue
        if function and loss_type(owner) not in WORDS:
            continue
        logits = _logits(call)
        if not logits:
            continue
        steps, producer = _way(forward, logits)
        shifted = function and loss_type(owner) != "ForMaskedLM"
        if own:
            shifted = any(
                "[..., 1:]" in ast.unparse(node) or "[:, 1:]" in ast.unparse(node)
                for node in forward.body
            )
        kind = "function" if function else "own"
        yield Head(owner, forward, kind, call, logits, producer, shifted, steps, keeps, tied)


def _is_over_words(owner: Class, call: ast.Call, forward: ast.FunctionDef, tied: bool) -> bool:
    text = ast.unparse(call)
    if any(
        word in text
        for word in ("num_labels", "pooled_logits", "start_", "num_choices", "seq_relationship")
    ):
        return False
    if "vocab" in text or "lm_head" in text:
        return True
    return tied or owner.method("get_output_embeddings") is not None


def _logits(call: ast.Call) -> str:
    """The name of the logits that a loss is given."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "logits"), None)
    given = given if given is not None else (call.args[0] if call.args else None)
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        given = receiver(given)
    return given.id if isinstance(given, ast.Name) else ""


def _way(forward: ast.FunctionDef, name: str, depth: int = 0) -> tuple[tuple[str, ...], str]:
    """(what happens to the logits, the module of `self` that makes them), from the loss backwards."""
    steps: list[str] = []
    for node in reversed([one for one in walk(forward.body, ast.Assign) if name in stored(one)]):
        value = node.value
        if called(value).startswith("self.") and name not in names(value):
            return tuple(reversed(steps)), last(called(value))
        match value:
            case ast.BinOp(op=ast.Mult()) | ast.BinOp(op=ast.Div()):
                if dotted(value.left) == name or dotted(value.right) == name:
                    steps.append("scale")
                elif "tanh" in ast.unparse(value):
                    steps.append("softcap")
                elif inner := next(
                    (one for one in walk(value, ast.Call) if called(one).startswith("self.")), None
                ):
                    return tuple(reversed([*steps, "scale"])), last(called(inner))
            case ast.BinOp(op=ast.Add()):
                steps.append("bias")
                if inner := next(
                    (one for one in walk(value, ast.Call) if called(one).startswith("self.")), None
                ):
                    return tuple(reversed(steps)), last(called(inner))
            case ast.Call() if last(called(value)) == "tanh":
                steps.append("softcap")
            case ast.Call() if method_of(value) in (
                "float",
                "to",
                "contiguous",
                "view",
                "transpose",
            ):
                inner = next(
                    (one for one in walk(value, ast.Call) if called(one).startswith("self.")), None
                )
                steps.append("cast")
                if inner is not None:
                    return tuple(reversed(steps)), last(called(inner))
            case ast.Name(id=other) | ast.Subscript(value=ast.Name(id=other)) if (
                other != name and depth < 5
            ):
                before, producer = _way(forward, other, depth + 1)
                return (*before, *reversed(steps)), producer
            case _:
                steps.append(f"`{ast.unparse(value)[:40]}`")
    return tuple(reversed(steps)), ""

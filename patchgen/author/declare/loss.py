"""The loss part: for each head over words, the mixin that matches its statements and its loss.

A head is a class whose forward takes labels, with a loss over a vocabulary.  transformers chooses
`self.loss_function` by the name of the class.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.author.anatomy.code import called, last, names, stored, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import Mixin, mixins
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.compiler.edits.pattern import find
from patchgen.facts.published import Setting
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "With labels the loss is taken without logits, and `outputs.logits` are computed when "
    "something reads them; `config.loss_chunk_size` sets the tokens in a chunk, 0 takes the "
    "parent's loss. See `patchgen.parts.loss`."
)
# What is for heads that compare a token with its own label, by the loss that they take.
UNSHIFTED = "Unshifted"
LABELLED = "LabelledTokens"
BY_FUNCTION = "LabelledTokensByFunction"
BIASED = "Biased"
# The suffixes that transformers looks for in the name of a class, those of losses over words first.
WORDS = ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")
LOSSES = re.compile(
    f"{'|'.join(WORDS)}|For(Question|Sequence|Image|Video|Token|Segm|ObjectDetection)"
)
# Words in the losses of classifiers, of question answering and of next-sentence prediction.
OTHER_LOSSES = ("num_labels", "pooled_logits", "start_", "num_choices", "seq_relationship")


@dataclass(frozen=True, eq=False)
class Head:
    """A head: `loss` is the call that computes the loss, by `self.loss_function` or its own.

    `shifted`: whether a token is compared with the label of the next one.
    """

    owner: Class
    method: ast.FunctionDef
    loss: ast.Call
    by_function: bool
    shifted: bool


def heads(module: Module) -> Iterator[Head]:
    """The heads over words, in the order of the file."""
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        if forward is None or "labels" not in parameters(forward):
            continue
        assignments = walk(forward.body, ast.Assign)
        criteria = stored(n for n in assignments if last(called(n.value)) == "CrossEntropyLoss")
        text = ast.unparse(forward)
        kind = _loss_type(owner)
        for call in walk(forward.body, ast.Call):
            by_function = called(call) in ("self.loss_function", "self.loss_fn")
            if kind not in WORDS or not _is_over_words(owner, call):
                continue
            if by_function:
                yield Head(owner, forward, call, True, kind != "ForMaskedLM")
            elif called(call) in criteria or "CrossEntropyLoss" in called(call.func):
                shifted = "[..., 1:]" in text or "[:, 1:]" in text
                yield Head(owner, forward, call, False, shifted)


def _loss_type(owner: Class) -> str:
    """The name of the loss that transformers chooses for `owner`."""
    for value in owner.attributes.get("loss_type", ()):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    match = LOSSES.search(owner.name)
    return match[0] if match is not None else WORDS[0]


def _is_over_words(owner: Class, call: ast.Call) -> bool:
    text = ast.unparse(call)
    if any(word in text for word in OTHER_LOSSES):
        return False
    names_words = "vocab" in text or "lm_head" in text or "_tied_weights_keys" in owner.settings
    return names_words or owner.method("get_output_embeddings") is not None


@refusing
def loss(module: Module) -> Contribution:
    """What the part declares for `module`."""
    declared: dict[str, Declared] = {}
    left: list[tuple[Head, str]] = []
    for head in heads(module):
        name, why = _fitting(head)
        if name:
            declared[head.owner.name] = Declared(head.owner.name, mixins=(name,))
        else:
            left.append((head, why))
    missing = []
    for head, why in left:
        if head.owner.name not in declared:
            what = f"{head.owner.name}: {why}"
            missing.append(Missing(module.at(head.loss), what, not declared))
    if not declared and not missing:
        raise Unfit(None, "no head over words takes a loss here")
    says = SAYS if declared else ""
    return Contribution("loss", says, tuple(declared.values()), tuple(missing))


def _fitting(head: Head) -> tuple[str, str]:
    """(the mixin for `head`, why there is none)."""
    methods: dict[str, ast.FunctionDef] = {}
    for name in ("forward", "__init__"):
        method = head.owner.method(name)
        if method is not None:
            methods[name] = method
    for mixin in mixins("loss"):
        if not _is_for(mixin.name, head) or not mixin.fits(methods):
            continue
        if LABELLED in mixin.name:
            changed = _find_changed_logits(head)
            if changed is not None:
                return "", f"`{ast.unparse(changed)}` changes its logits"
            return mixin.name, ""
        module = _find_module(head, mixin)
        if not module.startswith("self."):
            continue
        # Setters assign a parameter, whose class is not known.
        values = head.owner.attributes.get(last(module), ())
        calls = [value for value in values if isinstance(value, ast.Call)]
        if {last(called(call)) for call in calls} != {"Linear"}:
            return "", f"`{module}`, which makes its logits, is no linear layer"
        may_have_bias = not all(ast.unparse(call).endswith("False)") for call in calls)
        if UNSHIFTED in mixin.name or (BIASED in mixin.name) == may_have_bias:
            return mixin.name, ""
    return "", "takes its loss in statements that the part does not know"


def _find_module(head: Head, mixin: Mixin) -> str:
    """The module that makes the logits, by the hole of that name: the last step may be another."""
    for pattern in mixin.patterns:
        for match in find(pattern.old, head.method, pattern.holes):
            module = dotted(match.bound.holes.get("head"))
            if module:
                return module
    return ""


def _find_changed_logits(head: Head) -> ast.Assign | None:
    """A statement between the head and its loss that changes the logits, as T5Gemma's cap does.

    The logits that are deferred are those of the head alone.
    """
    logits: str | None = None
    for assignment in walk(head.method.body, ast.Assign):
        target = dotted(assignment.targets[0])
        if isinstance(assignment.value, ast.Call) and called(assignment.value).startswith("self."):
            logits = target
        elif target == logits and logits in names(assignment.value):
            return assignment
    return None


def _is_for(mixin: str, head: Head) -> bool:
    """Whether the loss of a mixin is that of `head`; its statements are compared later."""
    if LABELLED in mixin:
        return not head.shifted and (mixin == BY_FUNCTION) == head.by_function
    unshifted = UNSHIFTED in mixin
    return head.by_function is not unshifted and head.shifted is not unshifted


def check() -> PartCheck:
    from patchgen.verifying.parts.layers import LOSS

    return LOSS


# 37 of 39 tokens have a label.
PLACES = Setting("a place for each label", {"max_labelled_fraction": 0.94}, ("full", "right"))
PART = Part(
    "loss",
    check,
    "no logits in training: the loss is taken in chunks",
    loss,
    counted=("checkpointing", "full rows"),
    settings={
        "loss_chunk_size": (
            Setting("several chunks", {"loss_chunk_size": 5}, ("full", "right")),
            Setting("no chunks", {"loss_chunk_size": 0}, ("right",)),
        ),
        "max_labelled_fraction": (
            PLACES,
            Setting("too few places", {"max_labelled_fraction": 0.5}),
        ),
    },
    of_heads=True,
    lends=("heads.",),
)

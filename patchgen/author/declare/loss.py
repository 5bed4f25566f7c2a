"""The loss part: for each head over words, the mixin that matches its statements and its loss."""

from __future__ import annotations

import ast
from functools import cache

from patchgen.author.anatomy.code import called, constant, dotted, last
from patchgen.author.anatomy.heads import Head, heads
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.fitting import Mixin, Pattern, mixins
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.compiler.edits.pattern import find

SAYS = (
    "In training with labels the loss is taken without logits, and `outputs.logits` is None; "
    "`config.loss_chunk_size` sets the tokens in a chunk, 0 brings the logits back. See "
    "`patchgen.parts.loss`."
)
# What is for heads that compare a token with its own label, by the loss that they take.
UNSHIFTED = "Unshifted"
LABELLED = "LabelledTokens"
BY_FUNCTION = "LabelledTokensByFunction"
BIASED = "Biased"


def loss(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = heads(module)
    if not found:
        return Contribution(
            "loss",
            missing=(
                Missing(module.at(module.tree), "no head over words takes a loss here", True),
            ),
        )
    declared: dict[str, Declared] = {}
    missing: list[Missing] = []
    for head in found:
        mixin, why = _fitting(head)
        if mixin is None:
            missing.append(Missing(module.at(head.loss), f"{head.owner.name}: {why}"))
        else:
            declared[head.owner.name] = Declared(head.owner.name, mixins=(mixin.name,))
    missing = [
        one for one in missing if not any(one.what.startswith(f"{name}:") for name in declared)
    ]
    if not declared:
        return Contribution(
            "loss", missing=tuple(Missing(one.at, one.what, True) for one in missing)
        )
    used = sorted({name for one in declared.values() for name in one.mixins})
    imports = (f"from patchgen.parts.loss import {', '.join(used)}",)
    return Contribution("loss", SAYS, tuple(declared.values()), imports, tuple(missing))


def _fitting(head: Head) -> tuple[Mixin | None, str]:
    """The mixin for `head`, or why there is none."""
    candidates = [one for one in _mixins() if _is_for(one.name, head)]
    methods = {
        name: method
        for name in ("forward", "__init__")
        if (method := head.owner.method(name)) is not None
    }
    for mixin in candidates:
        if not mixin.fits(methods) or not all(
            _takes_head(one, methods[one.method], head) for one in mixin.patterns
        ):
            continue
        if LABELLED not in mixin.name and not _is_linear(head):
            return None, f"`self.{head.module}`, which makes its logits, is no linear layer"
        return mixin, ""
    steps = f", with {' and '.join(head.steps)} in between" if head.steps else ""
    return None, f"takes its loss in statements that the part does not know{steps}"


def _is_for(mixin: str, head: Head) -> bool:
    """Whether the loss of a mixin is that of `head`; its statements are compared later."""
    if LABELLED in mixin:
        return not head.shifted and (mixin == BY_FUNCTION) == (head.kind == "function")
    if UNSHIFTED in mixin:
        return head.kind == "own" and not head.shifted
    return head.kind == "function" and head.shifted and (BIASED in mixin) == _may_have_bias(head)


def _takes_head(pattern: Pattern, method: ast.FunctionDef, head: Head) -> bool:
    """Whether the head in `pattern` is the module that computes the logits.

    Another step after it can look the same.
    """
    heads = [m.bound.holes.get("head") for m in find(pattern.old, method, pattern.holes)]
    return all(node is None or dotted(node) == f"self.{head.module}" for node in heads)


def _is_linear(head: Head) -> bool:
    # Setters assign a parameter, whose class is not known.
    made = [
        last(called(value)) for value in head.owner.attributes.get(head.module, ()) if called(value)
    ]
    return bool(made) and all(name == "Linear" for name in made)


def _may_have_bias(head: Head) -> bool:
    """Whether a linear layer that computes the logits is not created with bias=False."""
    made = [
        call
        for call in head.owner.attributes.get(head.module, ())
        if last(called(call)) == "Linear"
    ]
    return any(not _says_no_bias(call) for call in made if isinstance(call, ast.Call))


def _says_no_bias(call: ast.Call) -> bool:
    given = [
        *call.args[2:3],
        *(keyword.value for keyword in call.keywords if keyword.arg == "bias"),
    ]
    return any(constant(value) is False for value in given)


@cache
def _mixins() -> tuple[Mixin, ...]:
    return mixins("loss")

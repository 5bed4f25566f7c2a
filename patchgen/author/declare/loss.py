"""The loss part: for each head over words, the mixin that matches its statements and its loss."""

from __future__ import annotations

import ast
from functools import cache

from patchgen.author.anatomy.code import called, constant, dotted, last
from patchgen.author.anatomy.heads import Head, heads
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.fitting import Mixin, mixins
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.compiler.edits.pattern import find

SAYS = (
    "With labels the loss is taken without logits, and there are no `outputs.logits`; "
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
    own = {name: head.owner.method(name) for name in ("forward", "__init__")}
    methods = {name: method for name, method in own.items() if method is not None}
    for mixin in _mixins():
        if not _is_for(mixin.name, head) or not mixin.fits(methods):
            continue
        if LABELLED in mixin.name:
            return mixin, ""
        name = _head_of(mixin, head.method)
        if not name.startswith("self."):
            continue  # the last step alone looks like a head
        attribute = last(name)
        made = [v for v in head.owner.attributes.get(attribute, ()) if isinstance(v, ast.Call)]
        # Setters assign a parameter, whose class is not known.
        if not made or any(last(called(call)) != "Linear" for call in made):
            return None, f"`self.{attribute}`, which makes its logits, is no linear layer"
        may_have_bias = not all(map(_says_no_bias, made))
        if UNSHIFTED in mixin.name or (BIASED in mixin.name) == may_have_bias:
            return mixin, ""
    return None, "takes its loss in statements that the part does not know"


def _is_for(mixin: str, head: Head) -> bool:
    """Whether the loss of a mixin is that of `head`; its statements are compared later."""
    if LABELLED in mixin:
        return not head.shifted and (mixin == BY_FUNCTION) == (head.kind == "function")
    if UNSHIFTED in mixin:
        return head.kind == "own" and not head.shifted
    return head.kind == "function" and head.shifted


def _head_of(mixin: Mixin, method: ast.FunctionDef) -> str:
    """The module of the head, by the hole of that name."""
    for pattern in mixin.patterns:
        for match in find(pattern.old, method, pattern.holes):
            if (head := match.bound.holes.get("head")) is not None:
                return dotted(head)
    return ""


def _says_no_bias(call: ast.Call) -> bool:
    given = [
        *call.args[2:3],
        *(keyword.value for keyword in call.keywords if keyword.arg == "bias"),
    ]
    return any(constant(value) is False for value in given)


@cache
def _mixins() -> tuple[Mixin, ...]:
    return mixins("loss")

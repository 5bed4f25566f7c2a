"""The grouped part: the experts interface of transformers for experts that run one by one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.author.anatomy.code import dotted
from patchgen.author.anatomy.conventions import DECORATOR, decorator_of
from patchgen.author.anatomy.dispatch import NotDispatch, dispatch
from patchgen.author.anatomy.experts import Experts, experts
from patchgen.author.anatomy.module import Module
from patchgen.author.anatomy.split_rows import SplitRows, counting, split_rows
from patchgen.author.declare.edits import edit, imports_for
from patchgen.author.declare.variant import Contribution, Declared, Missing

SAYS = (
    "Experts run by transformers' interface, in grouped GEMMs for all of them, in place of a "
    "loop that waits to learn which experts were chosen. `experts_implementation` takes every name "
    "that transformers has. Router and checkpoints are the parent's."
)
ALONE = (
    "Experts run in one grouped GEMM for all of them, in place of a loop that waits to learn "
    "how many tokens each has. Router and checkpoints are the parent's."
)
BY_INTERFACE = """{name} runs its experts by transformers' interface, which has grouped GEMMs:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
BY_HAND = (
    f"lay the weights out as `gate_up_proj` and `down_proj` and put @{DECORATOR} on the class: "
    "modular/dbrx/modular_dbrx_grouped.py does so, and converts checkpoints"
)
_LINEAR = re.compile(
    r"(?:\w+\.)*linear\((?P<part>\w+)\[(?P<index>\w+)\], (?P<weight>self\.\w+)\[(?P=index)\]\)"
)


def grouped(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = experts(module)
    if not found:
        nothing = Missing(module.at(module.tree), "no experts are run in this file", True)
        return Contribution("grouped", missing=(nothing,))
    slow = [one for one in found if one.kind not in ("interface", "gathered")]
    if not slow:
        return Contribution(
            "grouped", redundant=_fast(found[0]), missing=tuple(_fixed(module, found))
        )
    declared: list[Declared] = []
    missing: list[Missing] = []
    for one in slow:
        try:
            declared += _written(module, one)
        except NotDispatch as no:
            missing.append(
                Missing(module.at(no.node), f"{one.owner.name}: {no.what}", hint=BY_HAND)
            )
    if not declared:
        return Contribution("grouped", missing=tuple(replace(one, fatal=True) for one in missing))
    says = SAYS if any(one.decorators for one in declared) else ALONE
    return Contribution("grouped", says, tuple(declared), _imports(declared), tuple(missing))


def _fast(one: Experts) -> str:
    template = BY_INTERFACE if one.kind == "interface" else GATHERED
    return template.format(name=one.owner.name)


def _fixed(module: Module, found: Sequence[Experts]) -> Iterator[Missing]:
    """Why nothing can be written, even with --force."""
    for one in found:
        if one.kind == "interface":
            yield Missing(
                module.at(one.owner.node),
                f"{one.owner.name} has its forward chosen by the interface",
                True,
            )
        else:
            yield Missing(
                module.at(one.owner.node), f"{one.owner.name} has no product for each expert", True
            )


def _written(module: Module, one: Experts) -> list[Declared]:
    """What is declared for a class of experts.

    Raises NotDispatch if it is not known how all of them can run together.
    """
    if one.kind == "dense":
        raise NotDispatch(one.owner.node, "every expert runs on every token, whichever were chosen")
    if (parts := split_rows(one.owner)) is not None:
        return _of_split_rows(module, one, parts)
    decorator = decorator_of(one.owner, dispatch(one.owner.own["forward"]))
    return [Declared(one.owner.name, decorators=(decorator,))]


def _of_split_rows(module: Module, one: Experts, found: SplitRows) -> list[Declared]:
    """One product for all experts, and no copy of the counts to the CPU."""
    product = _LINEAR.fullmatch(ast.unparse(found.each))
    if product is None or (product["part"], product["index"]) != (found.part, found.index):
        raise NotDispatch(
            found.each,
            f"`{ast.unparse(found.each)}` is not the product of its rows and its weights",
        )
    owner, method, statement = counting(module, one.owner, found)
    x, sizes = found.inputs, found.sizes
    split = next(
        each
        for each in found.method.body
        if found.part in map(dotted, getattr(each, "targets", ()))
    )
    fast = [
        "# torch's grouped product takes rows of whole 16 bytes, and no float64.",
        f"is_aligned = all(size % 8 == 0 for size in {product['weight']}.shape[1:])",
        f"if is_aligned and {x}.dtype != torch.float64:",
        f"    kind = {x}.device.type",
        "    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) "
        f"else {x}.dtype",
        f"    return _grouped_linear({x}.to(dtype), {product['weight']}.to(dtype), "
        f"{sizes}.cumsum(0).int())",
    ]
    slow = ast.unparse(split).replace(f"({sizes}", f"({sizes}.tolist()")
    together = edit(
        "run_them_together", found.method, [ast.unparse(split)], ["\n".join(fast), slow]
    )
    counts = edit("leave_the_counts_on_the_device", method, [ast.unparse(statement)], ["pass"])
    return [Declared(one.owner.name, members=(together,)), Declared(owner.name, members=(counts,))]


def _imports(declared: Sequence[Declared]) -> tuple[str, ...]:
    texts = [member for one in declared for member in one.members]
    lines = list(imports_for(texts))
    if texts:
        lines += [
            "from patchgen.edits import edit, new, old",
            "from transformers.integrations.moe import _grouped_linear",
        ]
    if any(one.decorators for one in declared):
        lines.append(f"from transformers.integrations import {DECORATOR}")
    return tuple(lines)

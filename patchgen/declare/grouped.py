"""The grouped part for a model: a forward for each class of experts that runs one of them after the other."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.anatomy.choice import one_hot_rows
from patchgen.anatomy.code import method_of, names, receiver, shortened, stored
from patchgen.anatomy.dispatch import Dispatch, NotDispatch, dispatch
from patchgen.anatomy.experts import Experts, experts
from patchgen.anatomy.module import Module
from patchgen.declare.edits import code, imports_for, local_names
from patchgen.declare.row_values import EXPERTS, PAIRS
from patchgen.declare.rows import Rows
from patchgen.declare.split_rows import of_split_rows, signature, split_rows
from patchgen.declare.variant import Contribution, Declared, Missing

SAYS = (
    "Experts run together: the tokens are sorted by expert, and each product of the experts is one grouped product "
    "for all of them, in place of a loop that waits to learn which experts were chosen. Router and checkpoints are "
    "the parent's. See `patchgen.parts.grouped`."
)
STACKED = "The experts are modules, whose weights are stacked in each forward pass: see `patchgen.parts.stacked`."
BY_INTERFACE = """{name} runs its experts by transformers' interface, which has grouped products:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
BY_HAND = "write the forward by `pairs_of` and `grouped_product` of patchgen.parts.grouped"
OF_STACKED = frozenset({"stacked", "stacked_linear", "too_few"})


def grouped(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = experts(module)
    if not found:
        return Contribution(
            "grouped", missing=(Missing(module.at(module.tree), "no experts are run in this file", True),)
        )
    slow = [one for one in found if one.kind not in ("interface", "gathered")]
    if not slow:
        return Contribution("grouped", redundant=_fast(found[0]), missing=tuple(_fixed(module, found)))
    declared: list[Declared] = []
    missing: list[Missing] = []
    used: set[str] = set()
    for one in slow:
        try:
            written, needed = _written(module, one)
        except NotDispatch as no:
            missing.append(Missing(module.at(no.node), f"{one.owner.name}: {no.what}", hint=BY_HAND))
            continue
        declared += written
        used |= needed
    if not declared:
        return Contribution("grouped", missing=tuple(replace(one, fatal=True) for one in missing))
    says = f"{SAYS} {STACKED}" if used & OF_STACKED else SAYS
    texts = [member for one in declared for member in one.members]
    return Contribution(
        "grouped", says, tuple(declared), (*_imports(used, texts), *imports_for(texts)), tuple(missing)
    )


def _fast(one: Experts) -> str:
    told = BY_INTERFACE if one.kind == "interface" else GATHERED
    return told.format(name=one.owner.name)


def _fixed(module: Module, found: Sequence[Experts]) -> Iterator[Missing]:
    """Why nothing is written where it is asked for all the same."""
    for one in found:
        if one.kind == "interface":
            yield Missing(module.at(one.owner.node), f"{one.owner.name} has its forward chosen by the interface", True)
        else:
            yield Missing(module.at(one.owner.node), f"{one.owner.name} has no product for each expert", True)


def _written(module: Module, one: Experts) -> tuple[list[Declared], set[str]]:
    """(what is declared for a class of experts, the names of the part that it needs).

    Raises NotDispatch where nobody can tell how all of them run together.
    """
    if one.kind == "dense":
        raise NotDispatch(one.owner.node, "every expert runs on every token, whichever were chosen")
    if (parts := split_rows(one.owner)) is not None:
        return of_split_rows(module, one.owner, parts), {"grouped_product"}
    text, used = _forward(module, one)
    return [Declared(one.owner.name, members=(text,))], used


def _forward(module: Module, one: Experts) -> tuple[str, set[str]]:
    """(the forward of a class of experts, the names of the part that it needs).

    Raises NotDispatch where the loop does what cannot be done for all experts at once.
    """
    found = dispatch(one.owner.own["forward"])
    method = found.method
    if not found.count and not one_hot_rows(module, one.owner, found.choice):
        raise NotDispatch(method, f"`{found.choice}` is not known to name one expert in each row")
    _insist(found)
    rows = Rows(module, found, one.owner, names=set(local_names(method)))
    for statement in found.body:
        rows.statement(statement)
    assert found.added is not None
    total = _sum(found, rows)
    statements = [*found.before, *_begin(found, rows), *rows.written, total, *found.after]
    known = (PAIRS, EXPERTS, "kept", "index", "pairs_of", *rows.used, *rows.locals)
    body = [code(module, method, ast.fix_missing_locations(statement), known) for statement in _returned(statements)]
    head = f"def forward({signature(method)}):"
    return "\n".join([head, *(textwrap.indent(text, "    ") for text in body)]), {"pairs_of", *rows.used}


def _insist(found: Dispatch) -> None:
    """Raises NotDispatch where names would mean something else than they do in the loop."""
    taken = {PAIRS, EXPERTS, "idle", "kept"} & local_names(found.method)
    if taken:
        raise NotDispatch(found.method, f"it has a `{taken.pop()}` of its own")
    for node in (*found.before, *found.after):
        if names(node) & (found.hidden | ({found.total} if node in found.before else set())):
            raise NotDispatch(node, f"`{shortened(node)}` reads what only the loop has")
    if changed := {found.choice, found.like} & stored(found.body):
        raise NotDispatch(found.method, f"the loop binds `{changed.pop()}` anew")


def _sum(found: Dispatch, rows: Rows) -> ast.stmt:
    """What all experts give a token, added up."""
    added = found.added
    assert added is not None
    if isinstance(added, ast.Call) and method_of(added) == "to":
        added = receiver(added)
    states = ast.unparse(rows.back(rows.value(added)))
    states = states if found.count else f"torch.where(kept, {states}, 0)"
    summed = f"{found.total} = ({states}).to({found.like}.dtype).sum(1)"
    return ast.parse(summed).body[0]


def _begin(found: Dispatch, rows: Rows) -> list[ast.stmt]:
    """The pairs, and the experts where those are modules."""
    lines = []
    if (rows.absent or rows.by_module) and stored(found.before):
        raise NotDispatch(found.method, "it prepares its arguments, and the parent is to be given them as they came")
    parent = f"return super().forward({', '.join(arg.arg for arg in found.method.args.args[1:])})"
    if rows.absent:
        lines.append(f"if {' or '.join(rows.absent)}:\n    {parent}")
    if rows.by_module:
        lines.append(f"{EXPERTS} = {rows.by_module}")
        lines.append(f"if too_few({found.like}, {EXPERTS}):\n    {parent}")
        rows.used.add("too_few")
    if found.count:
        lines.append(f"{PAIRS} = pairs_of({found.choice}, {found.count})")
    else:
        # A row of zeros is a token that no expert takes.
        lines.append(f"kept = {found.choice}.amax(-1, keepdim=True) > 0")
        lines.append(f"{PAIRS} = pairs_of({found.choice}.argmax(-1), {found.choice}.shape[-1])")
    return list(ast.parse("\n".join(lines)).body)


def _returned(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The last value returned at once."""
    match statements:
        case [*first, ast.Assign(targets=[ast.Name(id=name)], value=value), ast.Return(value=ast.Name(id=same))] if (
            name == same
        ):
            return [*first, ast.Return(value)]
        case _:
            return statements


def _imports(used: set[str], texts: Sequence[str]) -> tuple[str, ...]:
    lines = ["from patchgen.edits import edit, new, old"] if any("@edit" in text for text in texts) else []
    lines += [f"from patchgen.parts.grouped import {', '.join(sorted(used - OF_STACKED))}"]
    if stacked := sorted(used & OF_STACKED):
        lines.append(f"from patchgen.parts.stacked import {', '.join(stacked)}")
    return tuple(lines)

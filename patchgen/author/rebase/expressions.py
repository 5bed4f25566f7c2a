"""Three versions of an expression as one, part by part.

    base     self.attn(x, mask)
    ours     self.attn(x, mask, seq=seq)
    theirs   self.attn(x, mask=mask)
    merged   self.attn(x, mask=mask, seq=seq)

Arguments and elements are merged one by one.  Two changes within one sum, one condition or one
comparison are a clash: there the parts mean something together.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TypeVar

from patchgen.author.rebase.code import Clash, clash
from patchgen.syntax.same import plain_text

_Node = TypeVar("_Node", bound=ast.AST)
_Entry = ast.expr | None
_BOTH = "both changed this expression"


def merge_expression(base: ast.expr, ours: ast.expr, theirs: ast.expr) -> ast.expr | Clash:
    """An expression with the changes of both sides."""
    if _same(base, ours) or _same(ours, theirs):
        return theirs
    # The declaration does what upstream does, and more.
    if _same(base, theirs) or (_holds(ours, theirs) and not _holds(base, theirs)):
        return ours
    match base, ours, theirs:
        case ast.Call(), ast.Call(), ast.Call():
            return _merge_call(base, ours, theirs)
        case (ast.List() | ast.Set(), ast.List() | ast.Set(), ast.List() | ast.Set()) if all(
            isinstance(element, ast.Constant) and isinstance(element.value, str)
            for element in (*base.elts, *ours.elts, *theirs.elts)
        ):
            return _merge_names(base, ours, theirs)
        case _ if type(base) is type(ours) is type(theirs):
            return _merge_parts(base, ours, theirs)
        case _:
            return clash(_BOTH, base, ours, theirs)


def exchanged(node: _Node, new: Mapping[ast.AST, ast.AST]) -> _Node:
    """A node with others in the places of some that are in it."""

    def part(value: object) -> object:
        if isinstance(value, list):
            return [*map(part, value)]
        return new.get(value) or exchanged(value, new) if isinstance(value, ast.AST) else value

    new_node = type(node)(**{name: part(value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(new_node, node)


def _merge_parts(base: ast.expr, ours: ast.expr, theirs: ast.expr) -> ast.expr | Clash:
    """An expression in which both changed one part, and nothing else differs."""
    parts = [list(ast.iter_child_nodes(node)) for node in (base, ours, theirs)]
    is_alike = _bare(base) == _bare(ours) == _bare(theirs)
    if not is_alike or len({len(one) for one in parts}) > 1:
        return clash(_BOTH, base, ours, theirs)
    differ = [
        (a, b, c) for a, b, c in zip(*parts, strict=True) if not (_same(a, b) and _same(a, c))
    ]
    if len(differ) > 1 and not isinstance(base, ast.Tuple | ast.List | ast.Set):
        return clash(_BOTH, base, ours, theirs)
    merged: dict[ast.AST, ast.AST] = {}
    for a, b, c in differ:
        if not (isinstance(a, ast.expr) and isinstance(b, ast.expr) and isinstance(c, ast.expr)):
            return clash(_BOTH, base, ours, theirs)
        part = merge_expression(a, b, c)
        if isinstance(part, Clash):
            return part
        merged[c] = part
    return exchanged(theirs, merged)


def _bare(node: ast.AST) -> str:
    """What a node says itself, beside the nodes in it."""
    fields = {k: v for k, v in ast.iter_fields(node) if not isinstance(v, ast.AST | list)}
    return f"{type(node).__name__} {fields}"


def _same(one: ast.AST | None, other: ast.AST | None) -> bool:
    if one is None or other is None:
        return one is other
    return plain_text(one) == plain_text(other)


def _holds(one: ast.expr, other: ast.expr) -> bool:
    return any(_same(node, other) for node in ast.walk(one) if isinstance(node, ast.expr))


# Calls


def _merge_call(base: ast.Call, ours: ast.Call, theirs: ast.Call) -> ast.expr | Clash:
    called = merge_expression(base.func, ours.func, theirs.func)
    if isinstance(called, Clash):
        return called
    # The arguments of the other side are not meant for another function.
    calls = base, ours, theirs
    names = [
        n.func.attr if isinstance(n.func, ast.Attribute) else plain_text(n.func) for n in calls
    ]
    texts = [[*map(plain_text, n.args), *sorted(map(plain_text, n.keywords))] for n in calls]
    if (names[0] != names[1] and texts[0] != texts[2]) or (
        names[0] != names[2] and texts[0] != texts[1]
    ):
        what = "one side calls something else, the other changed the arguments"
        return clash(what, base, ours, theirs)
    merged = _merge_positional(base, ours, theirs)
    if isinstance(merged, Clash):
        return merged
    before, mine, upstream = (
        {k.arg or f"**{plain_text(k.value)}": k.value for k in node.keywords} for node in calls
    )
    added = mine.keys() - before.keys(), upstream.keys() - before.keys()
    if all(added) and added[0] != added[1] and "**" in "".join([*added[0], *added[1]]):
        what = "one side added unpacked arguments, which may hold what the other added"
        return clash(what, base, ours, theirs)
    # By their names, unpacked ones last.
    keywords: list[ast.keyword] = []
    every = dict.fromkeys([*upstream, *mine, *before])
    for name in sorted(every, key=lambda name: name.startswith("**")):
        value = _merge_entry(before.get(name), mine.get(name), upstream.get(name))
        if isinstance(value, Clash):
            return value
        arg = None if name.startswith("**") else name
        keywords += [ast.keyword(arg, value)] if value is not None else []
    return ast.Call(called, merged, keywords)


def _merge_positional(base: ast.Call, ours: ast.Call, theirs: ast.Call) -> list[ast.expr] | Clash:
    texts = [[plain_text(a) for a in node.args] for node in (base, ours, theirs)]
    if texts[0] in texts[1:]:
        return theirs.args if texts[0] == texts[1] else ours.args
    shared = len(base.args)
    if min(len(ours.args), len(theirs.args)) != shared:
        return clash("both changed the positional arguments", base, ours, theirs)
    merged: list[ast.expr] = []
    for arguments in zip(base.args, ours.args, theirs.args, strict=False):
        argument = merge_expression(*arguments)
        if isinstance(argument, Clash):
            return argument
        merged.append(argument)
    return [*merged, *ours.args[shared:], *theirs.args[shared:]]


def _merge_entry(base: _Entry, ours: _Entry, theirs: _Entry) -> _Entry | Clash:
    """One keyword argument; None where it is gone."""
    if _same(base, ours) or _same(ours, theirs):
        return theirs
    if _same(base, theirs):
        return ours
    if base is None or ours is None or theirs is None:
        what = "one side removed what the other changed" if base else "both added this"
        return clash(what, base, ours, theirs)
    return merge_expression(base, ours, theirs)


def _merge_names(
    base: ast.List | ast.Set, ours: ast.List | ast.Set, theirs: ast.List | ast.Set
) -> ast.expr:
    """Names, such as those of layers that are not split: added and removed one by one."""
    before, mine = {*map(plain_text, base.elts)}, {*map(plain_text, ours.elts)}
    kept = [e for e in theirs.elts if plain_text(e) in mine or plain_text(e) not in before]
    known = before | {*map(plain_text, theirs.elts)}
    kept += [e for e in ours.elts if plain_text(e) not in known]
    return ast.List(kept) if isinstance(base, ast.List) else ast.Set(kept)

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
from collections.abc import Mapping, Sequence

from patchgen.author.rebase.code import Clash, Three, as_operand
from patchgen.syntax.same import plain_text

_BOTH = "both changed this expression"
_Entry = ast.expr | None


def merge_expression(three: Three, base: ast.expr, ours: ast.expr, theirs: ast.expr) -> str | Clash:
    """The text of an expression with the changes of both sides."""
    if _same(base, ours) or _same(ours, theirs):
        return three.theirs.code(theirs)
    if _same(base, theirs):
        return _standing(three.ours.code(ours))
    if _holds(ours, theirs) and not _holds(base, theirs):
        # The declaration does what upstream does, and more.
        return _standing(three.ours.code(ours))
    match base, ours, theirs:
        case ast.Call(), ast.Call(), ast.Call():
            return _merge_call(three, base, ours, theirs)
        case (ast.List() | ast.Set(), ast.List() | ast.Set(), ast.List() | ast.Set()) if (
            _are_strings([*base.elts, *ours.elts, *theirs.elts])
        ):
            return _merge_names(three, base, ours, theirs)
        case _ if type(base) is type(ours) is type(theirs):
            return _merge_parts(three, base, ours, theirs)
        case _:
            return three.clash(_BOTH, base, ours, theirs)


def _merge_parts(three: Three, base: ast.expr, ours: ast.expr, theirs: ast.expr) -> str | Clash:
    """An expression in which both changed one part, and nothing else differs."""
    parts = [list(ast.iter_child_nodes(node)) for node in (base, ours, theirs)]
    is_alike = _bare(base) == _bare(ours) == _bare(theirs)
    if not is_alike or len({len(one) for one in parts}) > 1:
        return three.clash(_BOTH, base, ours, theirs)
    differ = [
        (a, b, c) for a, b, c in zip(*parts, strict=True) if not (_same(a, b) and _same(a, c))
    ]
    if len(differ) > 1 and not isinstance(base, ast.Tuple | ast.List | ast.Set):
        return three.clash(_BOTH, base, ours, theirs)
    pieces: list[tuple[ast.expr, str]] = []
    for a, b, c in differ:
        if not (isinstance(a, ast.expr) and isinstance(b, ast.expr) and isinstance(c, ast.expr)):
            return three.clash(_BOTH, base, ours, theirs)
        text = merge_expression(three, a, b, c)
        if isinstance(text, Clash):
            return text
        tree = ast.parse(f"({text})" if "\n" in text else text.lstrip("*"), mode="eval").body
        is_whole = isinstance(theirs, ast.Tuple | ast.List | ast.Set | ast.Starred)
        pieces.append((c, text if is_whole else as_operand(tree, text)))
    return three.theirs.spliced(theirs, pieces)


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


def _standing(text: str) -> str:
    """`text` as it can stand in any place of an expression that is an argument or a whole value."""
    if "\n" in text and not text.endswith((")", "]", "}")):
        return f"({text})"
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return text if text.startswith("*") else f"({text})"
    return text


# Calls


def _merge_call(three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call) -> str | Clash:
    called = merge_expression(three, base.func, ours.func, theirs.func)
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
        return three.clash(what, base, ours, theirs)
    merged = _merge_positional(three, base, ours, theirs)
    if isinstance(merged, Clash):
        return merged
    before, mine, upstream = ({_key(k): k.value for k in node.keywords} for node in calls)
    added = mine.keys() - before.keys(), upstream.keys() - before.keys()
    if all(added) and added[0] != added[1] and "**" in "".join([*added[0], *added[1]]):
        what = "one side added unpacked arguments, which may hold what the other added"
        return three.clash(what, base, ours, theirs)
    entries = _merge_entries(three, before, mine, upstream)
    if isinstance(entries, Clash):
        return entries
    named = [f"**{v}" if k.startswith("**") else f"{k}={v}" for k, v in entries.items()]
    return f"{called}({', '.join([*merged, *named])})"


def _merge_positional(
    three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call
) -> list[str] | Clash:
    texts = [[plain_text(a) for a in node.args] for node in (base, ours, theirs)]
    if texts[0] == texts[1]:
        return [three.theirs.code(a) for a in theirs.args]
    if texts[0] == texts[2]:
        return [three.ours.code(a) for a in ours.args]
    shared = len(base.args)
    if min(len(ours.args), len(theirs.args)) != shared:
        return three.clash("both changed the positional arguments", base, ours, theirs)
    found: list[str] = []
    for one in zip(base.args, ours.args, theirs.args, strict=False):
        merged = merge_expression(three, *one)
        if isinstance(merged, Clash):
            return merged
        found.append(merged)
    more = [three.ours.code(a) for a in ours.args[shared:]]
    return [*found, *more, *(three.theirs.code(a) for a in theirs.args[shared:])]


def _key(keyword: ast.keyword) -> str:
    return keyword.arg or f"**{plain_text(keyword.value)}"


def _merge_entries(
    three: Three,
    before: Mapping[str, ast.expr],
    mine: Mapping[str, ast.expr],
    upstream: Mapping[str, ast.expr],
) -> dict[str, str] | Clash:
    """Keyword arguments by their names, unpacked ones last."""
    names = dict.fromkeys([*upstream, *mine, *before])
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name.startswith("**")):
        one = _merge_entry(three, before.get(name), mine.get(name), upstream.get(name))
        if isinstance(one, Clash):
            return one
        if one is not None:
            found[name] = one
    return found


def _merge_entry(three: Three, base: _Entry, ours: _Entry, theirs: _Entry) -> str | Clash | None:
    """One keyword argument; None where it is gone."""
    if _same(base, ours) or _same(ours, theirs):
        return None if theirs is None else three.theirs.code(theirs)
    if _same(base, theirs):
        return None if ours is None else _standing(three.ours.code(ours))
    if base is None or ours is None or theirs is None:
        what = "one side removed what the other changed" if base else "both added this"
        return three.clash(what, base, ours, theirs)
    return merge_expression(three, base, ours, theirs)


# Lists of names


def _are_strings(elements: Sequence[ast.expr]) -> bool:
    return all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements)


def _merge_names(
    three: Three, base: ast.List | ast.Set, ours: ast.List | ast.Set, theirs: ast.List | ast.Set
) -> str:
    """Names, such as those of layers that are not split: added and removed one by one."""
    before, mine = {*map(plain_text, base.elts)}, {*map(plain_text, ours.elts)}
    kept = [e for e in theirs.elts if plain_text(e) in mine or plain_text(e) not in before]
    known = {*map(plain_text, theirs.elts)}
    more = [e for e in ours.elts if plain_text(e) not in before | known]
    text = ", ".join([*map(three.theirs.code, kept), *map(three.ours.code, more)])
    return f"[{text}]" if isinstance(base, ast.List) else f"{{{text}}}"

"""Merge three versions of an expression; arguments and elements are merged one by one.

    base     self.attn(x, mask)
    ours     self.attn(x, mask, seq=seq)
    theirs   self.attn(x, mask=mask)
    merged   self.attn(x, mask=mask, seq=seq)

Two changes within one arithmetic expression, one condition or one comparison are a clash: there the
parts mean something together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set

from patchgen.author.rebase.sides import Clash, Three, as_operand
from patchgen.syntax.same import plain_text

_BOTH = "both changed this expression"


def merge_expression(three: Three, base: ast.expr, ours: ast.expr, theirs: ast.expr) -> str | Clash:
    """The text of an expression with the changes of both sides."""
    if _same(base, ours) or _same(ours, theirs):
        return three.theirs.code(theirs)
    if _same(base, theirs):
        return _standing(three.ours.code(ours))
    clash = three.clash(_BOTH, base, ours, theirs)
    if _holds(ours, theirs) and not _holds(base, theirs):
        return _standing(three.ours.code(ours))
    match base, ours, theirs:
        case ast.Call(), ast.Call(), ast.Call():
            return _merge_call(three, base, ours, theirs)
        case ast.Attribute(attr=a), ast.Attribute(attr=b), ast.Attribute(attr=c) if a == b == c:
            value = merge_expression(three, base.value, ours.value, theirs.value)
            return _put(three, theirs, theirs.value, value)
        case ast.Subscript(), ast.Subscript(), ast.Subscript():
            if not _same(base.slice, ours.slice) or not _same(base.slice, theirs.slice):
                return clash
            value = merge_expression(three, base.value, ours.value, theirs.value)
            return _put(three, theirs, theirs.value, value)
        case (
            ast.List() | ast.Tuple() | ast.Set(),
            ast.List() | ast.Tuple() | ast.Set(),
            ast.List() | ast.Tuple() | ast.Set(),
        ) if type(base) is type(ours) is type(theirs):
            return _merge_elements(three, base, ours, theirs)
        case ast.Dict(), ast.Dict(), ast.Dict():
            return _merge_dict(three, base, ours, theirs)
        case ast.Starred(), ast.Starred(), ast.Starred():
            merged = merge_expression(three, base.value, ours.value, theirs.value)
            return merged if isinstance(merged, Clash) else f"*{merged}"
        case _:
            return _merge_operand(three, base, ours, theirs) or clash


def _merge_operand(
    three: Three, base: ast.expr, ours: ast.expr, theirs: ast.expr
) -> str | Clash | None:
    """An operation whose one operand both changed, where all else of it is as it was."""
    kinds = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
    if not isinstance(base, kinds) or not type(base) is type(ours) is type(theirs):
        return None
    parts = [list(ast.iter_child_nodes(node)) for node in (base, ours, theirs)]
    if len({len(one) for one in parts}) > 1:
        return None
    differ = [
        (a, b, c) for a, b, c in zip(*parts, strict=True) if not (_same(a, b) and _same(a, c))
    ]
    match differ:
        case [(ast.expr() as a, ast.expr() as b, ast.expr() as c)]:
            return _put(three, theirs, c, merge_expression(three, a, b, c))
        case _:
            return None


def _holds(one: ast.AST, other: ast.AST) -> bool:
    """Whether an expression is another with more calls of methods, as `a.float() * b` to `a`."""
    if plain_text(one) == plain_text(other):
        return True
    if type(one) is type(other):
        parts = [list(ast.iter_child_nodes(node)) for node in (one, other)]
        bare = ast.dump(_without_parts(one)) == ast.dump(_without_parts(other))
        if bare and len(parts[0]) == len(parts[1]) and all(map(_holds, *parts)):
            return True
    match one:
        case ast.Call(func=ast.Attribute(value=value)):
            return _holds(value, other)
        case _:
            return False


def _without_parts(node: ast.AST) -> ast.AST:
    """What a node says itself, beside the nodes in it."""
    fields = {k: v for k, v in ast.iter_fields(node) if not isinstance(v, ast.AST | list)}
    return type(node)(**fields)


def _same(one: ast.AST | None, other: ast.AST | None) -> bool:
    if one is None or other is None:
        return one is other
    return plain_text(one) == plain_text(other)


def _standing(text: str) -> str:
    """`text` as it can stand in any place of an expression that is an argument or a whole value."""
    if "\n" in text and not text.endswith((")", "]", "}")):
        return f"({text})"
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return text if text.startswith("*") else f"({text})"
    return text


def _put(three: Three, node: ast.expr, inner: ast.expr, text: str | Clash) -> str | Clash:
    """`node` of the new parent with `text` in the place of `inner`."""
    if isinstance(text, Clash):
        return text
    operand = as_operand(ast.parse(text, mode="eval").body, text)
    return three.theirs.spliced(node, [(inner, operand)])


# Calls


def _merge_call(three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call) -> str | Clash:
    called = _merge_called(three, base, ours, theirs)
    if isinstance(called, Clash):
        return called
    given = _merge_positional(three, base, ours, theirs)
    if isinstance(given, Clash):
        return given
    named = _merge_keywords(three, base, ours, theirs)
    if isinstance(named, Clash):
        return named
    return f"{called}({', '.join([*given, *named])})"


def _merge_called(three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call) -> str | Clash:
    """What is called.  The arguments of the other side are not meant for another function."""
    names = [_called(node.func) for node in (base, ours, theirs)]
    arguments = [_arguments(node) for node in (base, ours, theirs)]
    mine, upstream = names[0] != names[1], names[0] != names[2]
    if (mine and arguments[0] != arguments[2]) or (upstream and arguments[0] != arguments[1]):
        what = "one side calls something else, the other changed the arguments"
        return three.clash(what, base, ours, theirs)
    return merge_expression(three, base.func, ours.func, theirs.func)


def _called(node: ast.expr) -> str:
    """The name that a call ends in; the text of what has none."""
    return node.attr if isinstance(node, ast.Attribute) else plain_text(node)


def _arguments(node: ast.Call) -> list[str]:
    return [*map(plain_text, node.args), *sorted(map(plain_text, node.keywords))]


def _merge_positional(
    three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call
) -> list[str] | Clash:
    texts = [[plain_text(a) for a in node.args] for node in (base, ours, theirs)]
    if texts[0] == texts[1]:
        return [three.theirs.code(a) for a in theirs.args]
    if texts[0] == texts[2]:
        return [three.ours.code(a) for a in ours.args]
    shared = len(base.args)
    if len(ours.args) < shared or len(theirs.args) < shared:
        return three.clash("both changed the positional arguments", base, ours, theirs)
    if len(ours.args) > shared and len(theirs.args) > shared:
        return three.clash("both added positional arguments", base, ours, theirs)
    found: list[str] = []
    for three_of in zip(base.args, ours.args, theirs.args, strict=False):
        merged = merge_expression(three, *three_of)
        if isinstance(merged, Clash):
            return merged
        found.append(merged)
    more = [three.ours.code(a) for a in ours.args[shared:]]
    return [*found, *more, *(three.theirs.code(a) for a in theirs.args[shared:])]


def _merge_keywords(
    three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call
) -> list[str] | Clash:
    before, mine, upstream = map(_keywords, (base, ours, theirs))
    if _may_repeat(mine.keys() - before.keys(), upstream.keys() - before.keys()):
        return _merge_unpacked(three, base, ours, theirs)
    found: list[str] = []
    for name in dict.fromkeys([*upstream, *mine, *before]):
        one = _merge_entry(three, before.get(name), mine.get(name), upstream.get(name))
        if isinstance(one, Clash):
            return one
        if one is not None:
            found.append(f"**{one}" if name.startswith("**") else f"{name}={one}")
    # What is unpacked comes last, as it did.
    return [k for k in found if not k.startswith("**")] + [k for k in found if k.startswith("**")]


def _keywords(node: ast.Call) -> dict[str, ast.expr]:
    return {_key(k): k.value for k in node.keywords}


def _may_repeat(mine: Set[str], upstream: Set[str]) -> bool:
    """Whether what one side added unpacked may hold what the other added: the call would fail."""
    unpacked = [any(name.startswith("**") for name in names) for names in (mine, upstream)]
    return mine != upstream and bool((unpacked[0] and upstream) or (unpacked[1] and mine))


def _merge_unpacked(
    three: Three, base: ast.Call, ours: ast.Call, theirs: ast.Call
) -> list[str] | Clash:
    """The keywords where upstream added only what its method passes on; a clash otherwise."""
    before = _keywords(base).keys()
    if _keywords(theirs).keys() - before != {f"**{plain_text(ast.Name(three.rest))}"}:
        what = "one side added unpacked arguments, which may hold what the other added"
        return three.clash(what, base, ours, theirs)
    shared = _with_keywords(ours, before), _with_keywords(theirs, before)
    merged = _merge_keywords(three, base, *shared)
    if isinstance(merged, Clash):
        return merged
    more = [k for k in ours.keywords if _key(k) not in before]
    return [*merged, _both_passed_on(three, more)]


def _with_keywords(node: ast.Call, names: Iterable[str]) -> ast.Call:
    """A call with some of its keywords."""
    keywords = [k for k in node.keywords if _key(k) in names]
    return ast.copy_location(ast.Call(node.func, node.args, keywords), node)


def _both_passed_on(three: Three, keywords: Sequence[ast.keyword]) -> str:
    """What upstream passes on of its own arguments, with those that the declaration gives by name.

    `**{**kwargs, "layer": self}`: the declaration's are the ones that count where both have one.
    """
    given = [
        f"**{three.ours.code(k.value)}"
        if k.arg is None
        else f'"{k.arg}": {three.ours.code(k.value)}'
        for k in keywords
    ]
    return f"**{{**{three.rest}, {', '.join(given)}}}"


def _key(keyword: ast.keyword) -> str:
    return keyword.arg or f"**{plain_text(keyword.value)}"


def _merge_entry(
    three: Three, base: ast.expr | None, ours: ast.expr | None, theirs: ast.expr | None
) -> str | Clash | None:
    """One keyword argument, or one entry of a dictionary; None where it is gone."""
    if _same(base, ours) or _same(ours, theirs):
        return None if theirs is None else three.theirs.code(theirs)
    if _same(base, theirs):
        return None if ours is None else _standing(three.ours.code(ours))
    if base is None or ours is None or theirs is None:
        what = "one side removed what the other changed" if base else "both added this"
        return three.clash(what, base, ours, theirs)
    return merge_expression(three, base, ours, theirs)


# Lists, tuples, sets, dictionaries


def _merge_elements(
    three: Three,
    base: ast.List | ast.Tuple | ast.Set,
    ours: ast.List | ast.Tuple | ast.Set,
    theirs: ast.List | ast.Tuple | ast.Set,
) -> str | Clash:
    if len(base.elts) == len(ours.elts) == len(theirs.elts):
        pieces: list[tuple[ast.expr, str]] = []
        for one in zip(base.elts, ours.elts, theirs.elts, strict=True):
            merged = merge_expression(three, *one)
            if isinstance(merged, Clash):
                return merged
            pieces.append((one[2], merged))
        return three.theirs.spliced(theirs, pieces)
    if isinstance(base, ast.Tuple) or not _are_strings([*base.elts, *ours.elts, *theirs.elts]):
        return three.clash("both changed the elements", base, ours, theirs)
    # Names in a list, such as those of layers that are not split: added and removed one by one.
    before, mine = {*map(plain_text, base.elts)}, {*map(plain_text, ours.elts)}
    kept = [e for e in theirs.elts if plain_text(e) in mine or plain_text(e) not in before]
    known = {*map(plain_text, theirs.elts)}
    more = [e for e in ours.elts if plain_text(e) not in before | known]
    texts = [*map(three.theirs.code, kept), *map(three.ours.code, more)]
    return f"[{', '.join(texts)}]" if isinstance(base, ast.List) else f"{{{', '.join(texts)}}}"


def _are_strings(elements: Sequence[ast.expr]) -> bool:
    return all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements)


def _merge_dict(three: Three, base: ast.Dict, ours: ast.Dict, theirs: ast.Dict) -> str | Clash:
    sides = []
    for node, side in ((base, three.base), (ours, three.ours), (theirs, three.theirs)):
        if any(k is None for k in node.keys):
            return three.clash(_BOTH, base, ours, theirs)
        keys = [(plain_text(k), side.code(k)) for k in node.keys if k is not None]
        sides.append({k: (text, v) for (k, text), v in zip(keys, node.values, strict=True)})
    before, mine, upstream = sides
    found: list[str] = []
    for name in dict.fromkeys([*upstream, *mine, *before]):
        values = [side[name][1] if name in side else None for side in sides]
        one = _merge_entry(three, values[0], values[1], values[2])
        if isinstance(one, Clash):
            return one
        if one is not None:
            text = (upstream.get(name) or mine[name])[0]
            found.append(f"{text}: {one}")
    return f"{{{', '.join(found)}}}"

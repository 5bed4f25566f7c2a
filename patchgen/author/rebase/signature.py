"""Three versions of what stands above a method's body: decorators, parameters, what it returns.

base     def forward(self, x, mask=None):
ours     def forward(self, x, mask=None, seq=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, mask=None, cache=None, seq=None):
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from patchgen.author.rebase.sides import Clash, Side, Three
from patchgen.syntax.same import Function, is_documenting, plain_text


@dataclass(frozen=True)
class _Parameter:
    """One parameter: its kind ("p", "k", "*", "**"), its text without the default, its default."""

    kind: str
    text: str
    default: ast.expr | None


def merge_signature(
    three: Three, base: Function, ours: Function, theirs: Function
) -> list[str] | Clash:
    """The lines above the body of the merged method, without indentation."""
    decorators = _merge_decorators(three, base, ours, theirs)
    if isinstance(decorators, Clash):
        return decorators
    if any(f.args.posonlyargs for f in (base, ours, theirs)):
        return Clash("both changed a signature with positional-only parameters")
    parameters = _merge_parameters(three, base, ours, theirs)
    if isinstance(parameters, Clash):
        return parameters
    returns = theirs.returns or ours.returns
    side = three.theirs if theirs.returns else three.ours
    arrow = f" -> {side.code(returns)}" if returns is not None else ""
    word = "async def" if isinstance(theirs, ast.AsyncFunctionDef) else "def"
    return [*decorators, f"{word} {theirs.name}({', '.join(parameters)}){arrow}:"]


def _merge_decorators(
    three: Three, base: Function, ours: Function, theirs: Function
) -> list[str] | Clash:
    texts = [
        [plain_text(d) for d in f.decorator_list if not is_documenting(d)]
        for f in (base, ours, theirs)
    ]
    upstream = [f"@{three.theirs.code(d)}" for d in theirs.decorator_list]
    if texts[0] == texts[1] or texts[1] == texts[2]:
        return upstream
    if texts[0] == texts[2]:
        decorators = [
            f"@{three.theirs.code(d)}" for d in theirs.decorator_list if is_documenting(d)
        ]
        own = [f"@{three.ours.code(d)}" for d in ours.decorator_list if not is_documenting(d)]
        return [*own, *decorators]
    before, mine, upstream_texts = map(set, texts)
    dropped = before - mine
    # What one side put in the place of a decorator that the other dropped may be that decorator.
    if mine - before or (dropped - upstream_texts and upstream_texts - before):
        words = [[f"@{ast.unparse(d)}" for d in f.decorator_list] for f in (base, ours, theirs)]
        return Clash("both changed the decorators", *map("\n".join, words))
    wanted = [d for d in theirs.decorator_list if plain_text(d) not in dropped]
    return [f"@{three.theirs.code(d)}" for d in wanted]


def _parameters(function: Function, side: Side) -> dict[str, _Parameter]:
    a = function.args
    found: dict[str, _Parameter] = {}
    defaults = [None] * (len(a.args) - len(a.defaults)) + list(a.defaults)
    for one, default in zip(a.args, defaults, strict=True):
        found[one.arg] = _Parameter("p", side.code(one), default)
    if a.vararg:
        found["*"] = _Parameter("*", f"*{side.code(a.vararg)}", None)
    for one, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found[one.arg] = _Parameter("k", side.code(one), value)
    if a.kwarg:
        found["**"] = _Parameter("**", f"**{side.code(a.kwarg)}", None)
    return found


def _merge_parameters(
    three: Three, base: Function, ours: Function, theirs: Function
) -> list[str] | Clash:
    before = _parameters(base, three.base)
    mine = _parameters(ours, three.ours)
    upstream = _parameters(theirs, three.theirs)
    both = [n for n in mine if n in upstream and n not in before]
    if any(_text(mine[n]) != _text(upstream[n]) for n in both):
        return _clash("both added a parameter of one name", base, ours, theirs)
    if [n for n in mine if n in before] != [n for n in before if n in mine]:
        return _clash("the declaration has the parameters in another order", base, ours, theirs)
    found: dict[str, tuple[str, str]] = {}
    for name in _order(before, mine, upstream):
        old, own, new = before.get(name), mine.get(name), upstream.get(name)
        if old is not None and (own is None or new is None):
            gone, left = ("declaration", new) if own is None else ("upstream", own)
            if left is not None and _text(left) != _text(old):
                return _clash(f"{gone} removed a parameter that was changed", base, ours, theirs)
            continue
        merged = _merge_one(three, old, own, new)
        if merged is None:
            return _clash(f"both changed the parameter {name}", base, ours, theirs)
        found[name] = merged
    return _without_default_last(_order_by_kind(found.values())) or _clash(
        "no order of the parameters suits both", base, ours, theirs
    )


def _order_by_kind(parameters: Collection[tuple[str, str]]) -> list[str]:
    """The texts of parameters, given with their kinds, as a signature has them.

    `x`, `*rest`, `key=1`, `**more`; without `*rest`, a bare `*` stands before `key`.
    """
    by_kind = {
        wanted: [text for kind, text in parameters if kind == wanted]
        for wanted in ("p", "*", "k", "**")
    }
    if by_kind["k"] and not by_kind["*"]:
        by_kind["*"] = ["*"]
    return [text for texts in by_kind.values() for text in texts]


def _order(
    before: dict[str, _Parameter], mine: dict[str, _Parameter], upstream: dict[str, _Parameter]
) -> list[str]:
    """The declaration's order if upstream did not change it, else upstream's.

    In that, what the declaration adds in front of a parameter of the parent, or without a default,
    stands behind what it stood behind: the declaration's calls may count on its place.
    """
    if list(before) == list(upstream):
        return list(dict.fromkeys([*mine, *before]))
    order = list(upstream)
    names = list(mine)
    for place, name in enumerate(names):
        if name in upstream or name in before:
            continue
        known = [n for n in names[:place] if n in order]
        in_front = any(mine[n].kind == "p" and n in before for n in names[place + 1 :])
        is_placed = mine[name].kind == "p" and (in_front or mine[name].default is None)
        if is_placed and known:
            order.insert(order.index(known[-1]) + 1, name)
        else:
            order.append(name)
    return [*order, *(n for n in before if n not in order)]


def _without_default_last(texts: list[str]) -> list[str] | None:
    try:
        ast.parse(f"def f({', '.join(texts)}): pass")
    except SyntaxError:
        return None
    return texts


def _merge_one(
    three: Three, old: _Parameter | None, own: _Parameter | None, new: _Parameter | None
) -> tuple[str, str] | None:
    """The kind and the text of a parameter; None where both changed its default."""
    if own is None or new is None:
        one, side = (own, three.ours) if own is not None else (new, three.theirs)
        assert one is not None
        default = side.code(one.default) if one.default is not None else None
        return one.kind, _joined(one.text, default)
    texts = [_text(p) if p is not None else None for p in (old, own, new)]
    if texts[0] == texts[1] or texts[1] == texts[2]:
        default = three.theirs.code(new.default) if new.default is not None else None
        return new.kind, _joined(new.text, default)
    if texts[0] == texts[2]:
        default = three.ours.code(own.default) if own.default is not None else None
        return own.kind, _joined(new.text, default)
    return None


def _text(parameter: _Parameter) -> str:
    """What of a parameter is compared: its annotation documents, its default does not."""
    default = plain_text(parameter.default) if parameter.default is not None else "-"
    return f"{parameter.kind} {default}"


def _joined(text: str, default: str | None) -> str:
    if default is None:
        return text
    return f"{text} = {default}" if ":" in text else f"{text}={default}"


def _clash(what: str, base: Function, ours: Function, theirs: Function) -> Clash:
    return Clash(what, *(ast.unparse(f.args) for f in (base, ours, theirs)))

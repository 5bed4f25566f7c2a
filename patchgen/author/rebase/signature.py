"""Three versions of what stands above a method's body: decorators, parameters, what it returns.

base     def forward(self, x, mask=None):
ours     def forward(self, x, mask=None, seq=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, mask=None, cache=None, seq=None):
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.author.rebase.code import Clash, Code, Three
from patchgen.syntax.same import Function, is_documenting, plain_text


@dataclass(frozen=True)
class _Parameter:
    """One parameter: its kind ("p", "k", "*", "**"), its text without the default, its default."""

    kind: str
    text: str
    default: str

    @property
    def says(self) -> str:
        """What of it is compared: its annotation documents, its default does not."""
        default = plain_text(ast.parse(self.default, mode="eval")) if self.default else ""
        return f"{self.kind} {default}"

    @property
    def code(self) -> str:
        if not self.default:
            return self.text
        return (
            f"{self.text} = {self.default}" if ":" in self.text else f"{self.text}={self.default}"
        )


def merge_signature(three: Three) -> list[str] | Clash:
    """The lines above the body of the merged method, without indentation."""
    functions = three.functions
    assert functions is not None
    decorators = _merge_decorators(three, functions)
    if isinstance(decorators, Clash):
        return decorators
    parameters = _merge_parameters(three, functions)
    if isinstance(parameters, Clash):
        return parameters
    _, ours, theirs = functions
    returns = theirs.returns or ours.returns
    side = three.theirs if theirs.returns else three.ours
    arrow = f" -> {side.code(returns)}" if returns is not None else ""
    word = "async def" if isinstance(theirs, ast.AsyncFunctionDef) else "def"
    return [*decorators, f"{word} {theirs.name}({', '.join(parameters)}){arrow}:"]


def _merge_decorators(
    three: Three, functions: tuple[Function, Function, Function]
) -> list[str] | Clash:
    """Upstream's decorators, apart from those that the declaration drops, or the declaration's."""
    _, ours, theirs = functions
    before, mine, upstream = (
        [plain_text(d) for d in f.decorator_list if not is_documenting(d)] for f in functions
    )
    if before == upstream != mine:
        documenting = [d for d in theirs.decorator_list if is_documenting(d)]
        own = [f"@{three.ours.code(d)}" for d in ours.decorator_list if not is_documenting(d)]
        return [*own, *(f"@{three.theirs.code(d)}" for d in documenting)]
    dropped = {*before} - {*mine}
    is_replaced = dropped - {*upstream} and {*upstream} - {*before}
    if mine != upstream and ({*mine} - {*before} or is_replaced):
        texts = [[f"@{ast.unparse(d)}" for d in f.decorator_list] for f in functions]
        return Clash("both changed the decorators", *map("\n".join, texts))
    wanted = [d for d in theirs.decorator_list if plain_text(d) not in dropped]
    return [f"@{three.theirs.code(d)}" for d in wanted]


def _parameters(function: Function, side: Code) -> dict[str, _Parameter]:
    a = function.args
    found: dict[str, _Parameter] = {}
    defaults = [None] * (len(a.args) - len(a.defaults)) + list(a.defaults)
    for one, default in zip(a.args, defaults, strict=True):
        found[one.arg] = _Parameter("p", side.code(one), side.code(default) if default else "")
    if a.vararg:
        found["*"] = _Parameter("*", f"*{side.code(a.vararg)}", "")
    for one, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found[one.arg] = _Parameter("k", side.code(one), side.code(value) if value else "")
    if a.kwarg:
        found["**"] = _Parameter("**", f"**{side.code(a.kwarg)}", "")
    return found


def _merge_parameters(
    three: Three, functions: tuple[Function, Function, Function]
) -> list[str] | Clash:
    def clash(what: str) -> Clash:
        return Clash(what, *(ast.unparse(f.args) for f in functions))

    if any(f.args.posonlyargs for f in functions):
        return clash("a signature with positional-only parameters")
    before, mine, upstream = (
        _parameters(f, side) for f, side in zip(functions, three.sides, strict=True)
    )
    if any(mine[n].says != upstream[n].says for n in mine if n in upstream and n not in before):
        return clash("both added a parameter of one name")
    if [n for n in mine if n in before] != [n for n in before if n in mine]:
        return clash("the declaration has the parameters in another order")
    found: list[_Parameter] = []
    for name in _order(before, mine, upstream):
        old, own, new = before.get(name), mine.get(name), upstream.get(name)
        if old is None:
            found += [one for one in (own or new,) if one is not None]
        elif own is None or new is None:
            gone, left = ("the declaration", new) if own is None else ("upstream", own)
            if left is not None and left.says != old.says:
                return clash(f"{gone} removed a parameter that was changed")
        elif old.says == own.says or own.says == new.says:
            found.append(new)
        elif old.says == new.says:
            found.append(_Parameter(own.kind, new.text, own.default))
        else:
            return clash(f"both changed the parameter {name}")
    texts = {kind: [p.code for p in found if p.kind == kind] for kind in ("p", "*", "k", "**")}
    if texts["k"] and not texts["*"]:
        texts["*"] = ["*"]
    merged = [text for of_kind in texts.values() for text in of_kind]
    try:
        ast.parse(f"def f({', '.join(merged)}): pass")
    except SyntaxError:
        return clash("no order of the parameters suits both")
    return merged


def _order(
    before: Mapping[str, _Parameter],
    mine: Mapping[str, _Parameter],
    upstream: Mapping[str, _Parameter],
) -> list[str]:
    """The declaration's order if upstream did not change it, else upstream's.

    In that, what the declaration adds in front of a parameter of the parent, or without a default,
    stands behind what it stood behind: the declaration's calls may count on its place.
    """
    if list(before) == list(upstream):
        return list(dict.fromkeys([*mine, *before]))
    order, names = list(upstream), list(mine)
    for place, name in enumerate(names):
        if name in upstream or name in before:
            continue
        known = [n for n in names[:place] if n in order]
        in_front = any(mine[n].kind == "p" and n in before for n in names[place + 1 :])
        if mine[name].kind == "p" and known and (in_front or not mine[name].default):
            order.insert(order.index(known[-1]) + 1, name)
        else:
            order.append(name)
    return [*order, *(n for n in before if n not in order)]

"""Three versions of what stands above a method's body: decorators, parameters, what it returns.

base     def forward(self, x, mask=None):
ours     def forward(self, x, mask=None, seq=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, mask=None, cache=None, seq=None):
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from patchgen.author.rebase.code import Clash, Three
from patchgen.syntax.same import Function, is_documenting, plain_text

_Functions = tuple[Function, Function, Function]


class _Parameter(NamedTuple):
    """One parameter: its kind ("p", "k", "*", "**"), its default, and its name with a type."""

    kind: str
    default: str
    text: str

    @property
    def code(self) -> str:
        equals = " = " if ":" in self.text else "="
        return f"{self.text}{equals}{self.default}" if self.default else self.text


def merge_signature(three: Three, functions: _Functions) -> list[str] | Clash:
    """The lines above the body of the merged method, without indentation."""
    decorators = _merge_decorators(three, functions)
    parameters = _merge_parameters(functions)
    if isinstance(decorators, Clash) or isinstance(parameters, Clash):
        return decorators if isinstance(decorators, Clash) else parameters
    _, ours, theirs = functions
    returns = theirs.returns or ours.returns
    arrow = f" -> {ast.unparse(returns)}" if returns is not None else ""
    word = "async def" if isinstance(theirs, ast.AsyncFunctionDef) else "def"
    return [*decorators, f"{word} {theirs.name}({', '.join(parameters)}){arrow}:"]


def _merge_decorators(three: Three, functions: _Functions) -> list[str] | Clash:
    """The decorators of the side that changed them.

    A decorator that the declaration drops may have another name and the same arguments now.
    """
    base, ours, theirs = functions
    before, mine, upstream = (
        [plain_text(d) for d in f.decorator_list if not is_documenting(d)] for f in functions
    )
    if not mine and len(base.decorator_list) == len(theirs.decorator_list):
        pairs = zip(base.decorator_list, theirs.decorator_list, strict=True)
        if all(_arguments(one) == _arguments(other) for one, other in pairs):
            kept = [d for d in theirs.decorator_list if is_documenting(d)]
            return [f"@{three.theirs.code(d)}" for d in kept]
    if before == upstream != mine:
        documenting = [d for d in theirs.decorator_list if is_documenting(d)]
        own = [f"@{three.ours.code(d)}" for d in ours.decorator_list if not is_documenting(d)]
        return [*own, *(f"@{three.theirs.code(d)}" for d in documenting)]
    if mine not in (before, upstream):
        texts = [[f"@{ast.unparse(d)}" for d in f.decorator_list] for f in functions]
        return Clash("both changed the decorators", *map("\n".join, texts))
    return [f"@{three.theirs.code(d)}" for d in theirs.decorator_list]


def _arguments(decorator: ast.expr) -> list[str]:
    calls = [decorator] if isinstance(decorator, ast.Call) else []
    return [plain_text(one) for call in calls for one in (*call.args, *call.keywords)]


def _parameters(function: Function) -> dict[str, _Parameter]:
    a = function.args
    defaults = [*[None] * (len(a.args) - len(a.defaults)), *a.defaults]
    every = [("p", *one) for one in zip(a.args, defaults, strict=True)]
    every += [("*", a.vararg, None)] if a.vararg else []
    every += [("k", *one) for one in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    every += [("**", a.kwarg, None)] if a.kwarg else []
    found = {}
    for kind, argument, default in every:
        stars = kind if "*" in kind else ""
        value = ast.unparse(default) if default else ""
        name = stars or argument.arg
        found[name] = _Parameter(kind, value, f"{stars}{ast.unparse(argument)}")
    return found


def _merge_parameters(functions: _Functions) -> list[str] | Clash:
    def clash(what: str) -> Clash:
        return Clash(what, *(ast.unparse(f.args) for f in functions))

    if any(f.args.posonlyargs for f in functions):
        return clash("a signature with positional-only parameters")
    before, mine, upstream = map(_parameters, functions)
    if [n for n in mine if n in before] != [n for n in before if n in mine]:
        return clash("the declaration has the parameters in another order")
    # Without a change of upstream, the order is the declaration's.
    is_changed = list(before) != list(upstream)
    new = [name for name in mine if name not in before and mine[name].kind == "p"]
    if is_changed and new and new != [n for n in mine if mine[n].kind == "p"][-len(new) :]:
        return clash("the declaration has a new parameter in front of others")
    names = [*upstream, *mine, *before] if is_changed else [*mine, *before]
    found: list[_Parameter] = []
    for name in dict.fromkeys(names):
        # An annotation documents, a default does not.
        old, own, theirs = before.get(name), mine.get(name), upstream.get(name)
        says = [one[:2] if one is not None else None for one in (old, own, theirs)]
        if own is None or theirs is None:
            left = own or theirs
            if old is None and left is not None:
                found.append(left)
            elif left is not None and says[0] != left[:2]:
                return clash(f"one side removed the parameter {name}, the other changed it")
        elif says[0] == says[1] or says[1] == says[2]:
            found.append(theirs)
        elif says[0] == says[2]:
            found.append(theirs._replace(kind=own.kind, default=own.default))
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

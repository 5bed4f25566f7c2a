"""Three versions of a member as one, if nothing of it is in doubt: its head here, its body apart.

base     def forward(self, x, mask=None):
ours     def forward(self, x, mask=None, seq=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, mask=None, cache=None, seq=None):

Names that upstream, or the declaration, changed throughout are changed in all versions first.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from patchgen.author.align.file import Cut, of_lines
from patchgen.author.align.suites import exchanged
from patchgen.author.rebase.code import (
    Clash,
    Code,
    Three,
    assigned,
    clash,
    flow_of,
    in_place_of,
    parameters_of,
    replacing,
)
from patchgen.author.rebase.meaning import doubts_of
from patchgen.author.rebase.statements import head_end, merge_expression, merge_suites
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import local_names, names_in
from patchgen.syntax.same import Function, is_documenting, plain_text, without_docstring

_FIELD = re.compile(r"{[^{}]*}")  # of an f-string
_PLAIN = re.compile(r"(?<![\w.'\"])[a-zA-Z_]\w*")
# What stands for a variable and for a keyword in a plain text.
_WORD = re.compile(r"N:(\w+);|keyword\(arg='(\w+)'")

_Functions = tuple[Function, Function, Function]


# Names that are changed throughout
#
#     base     gate = self.act(self.gate(x))        ours     gate = self.act(self.gate(x))
#              return self.down(gate * up)                   return self.down(cap(gate) * up)
#     theirs   gated = self.act(self.gate(x))
#              return self.down(gated * up)         said     return self.down(cap(gated) * up)
#
# A variable, a parameter or a keyword is renamed where the old name is gone, the new one is new,
# and statements are the same again by the new name.


@dataclass(frozen=True)
class Renames:
    """New names of the variables of a method, and of the keywords that it passes on."""

    variables: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.variables or self.keywords)

    def made_in(self, code: Code) -> Code:
        """The code by the new names."""
        cuts: list[Cut] = []
        waiting: list[ast.AST] = list(code.nodes)
        while waiting:
            node = waiting.pop()
            match node:
                case ast.JoinedStr():
                    # Python 3.11 does not say where in an f-string a name stands.
                    text = ast.unparse(node)
                    new = _FIELD.sub(self._in_field, text)
                    cuts += [replacing(node, new)] if new != text else []
                    continue
                case ast.Name(id=name) if name in self.variables:
                    cuts.append(replacing(node, self.variables[name]))
                case ast.arg(arg=name) if name in self.variables:
                    cuts.append(_beginning(node, name, self.variables[name]))
                case ast.keyword(arg=str(name)) if name in self.keywords:
                    cuts.append(_beginning(node, name, self.keywords[name]))
            waiting += ast.iter_child_nodes(node)
        return code.changed(cuts)

    def _in_field(self, field: re.Match[str]) -> str:
        return _PLAIN.sub(lambda name: self.variables.get(name[0], name[0]), field[0])

    def told(self) -> str:
        """What was renamed, in words; empty for nothing."""
        pairs = {**self.keywords, **self.variables}
        return ", ".join(f"{old} is {new} now" for old, new in sorted(pairs.items()))


def _beginning(node: ast.arg | ast.keyword, old: str, new: str) -> Cut:
    start = node.lineno, node.col_offset
    return Cut(start, (node.lineno, node.col_offset + len(old.encode())), new)


def _by_one_name(three: Three) -> tuple[Three, Renames]:
    """The versions with the renames of both sides made in all, and those of upstream."""
    base, ours, theirs = three.sides
    functions = three.functions
    if functions is None:
        return three, Renames()
    upstream = _renames(functions[0], functions[2], functions[1])
    base, ours = upstream.made_in(base), upstream.made_in(ours)
    assert base.function is not None and ours.function is not None
    own = _renames(base.function, ours.function, functions[2])
    return replace(three, base=own.made_in(base), ours=ours, theirs=own.made_in(theirs)), upstream


def _renames(base: Function, side: Function, other: Function) -> Renames:
    """What `side` calls otherwise than `base`; `other` is the version that would have to follow."""
    gone = (local_names(base) | parameters_of(base)) - names_in([side]) - parameters_of(side)
    new = (local_names(side) | parameters_of(side)) - names_in([base, other]) - parameters_of(base)
    dropped, added = _keywords(base) - _keywords(side), _keywords(side) - _keywords(base)
    if not ((gone and new) or (dropped and added)):
        return Renames()
    votes: Counter[tuple[str, str, str]] = Counter()
    before = [_masked(spot.text, gone, dropped) for spot in flow_of(base)]
    after = [_masked(spot.text, new, added) for spot in flow_of(side)]
    matcher = difflib.SequenceMatcher(
        None, [text for text, _ in before], [text for text, _ in after], autojunk=False
    )
    for i, j, count in matcher.get_matching_blocks():
        for (_, mine), (_, theirs) in zip(before[i : i + count], after[j : j + count], strict=True):
            for (kind, old), (_, name) in zip(mine, theirs, strict=True):
                votes[kind, old, name] += 1
    votes.update(_renamed_parameters(base, side, gone, new))
    return Renames(_elected(votes, "variable"), _elected(votes, "keyword"))


def _keywords(function: Function) -> set[str]:
    return {n.arg for n in ast.walk(function) if isinstance(n, ast.keyword) and n.arg}


def _masked(
    text: str, variables: Collection[str], keywords: Collection[str]
) -> tuple[str, list[tuple[str, str]]]:
    """A plain text with a mark for each of some names, and the names."""
    found: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        kind, name = ("variable", match[1]) if match[1] else ("keyword", match[2])
        if name not in (variables if match[1] else keywords):
            return match[0]
        found.append((kind, name))
        return f"<{kind}>"

    return _WORD.sub(mark, text), found


def _renamed_parameters(
    base: Function, side: Function, gone: Collection[str], new: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """The parameters that stand in the place of others, where nothing else of them changed."""
    mine, theirs = ([a.arg for a in f.args.args] for f in (base, side))
    if len(mine) == len(theirs):
        pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a != b]
        if all(a in gone and b in new for a, b in pairs):
            yield from (("variable", a, b) for a, b in pairs)


def _elected(votes: Mapping[tuple[str, str, str], int], wanted: str) -> dict[str, str]:
    """The names that most places agree on; where two became one, that with the most places."""
    best: dict[str, str] = {}
    for old in {old for kind, old, _ in votes if kind == wanted}:
        mine = {new: n for (kind, name, new), n in votes.items() if (kind, name) == (wanted, old)}
        name = max(sorted(mine), key=lambda new: mine[new])
        rivals = [n for (_, other, new), n in votes.items() if new == name and other != old]
        if mine[name] * 2 > sum(mine.values()) and mine[name] > max(rivals, default=0):
            best[old] = name
    return best


# The member


@dataclass(frozen=True)
class Merge:
    """The merged member, or what is in doubt of it.

    `three` are the versions by one name for each variable, `renames` those of upstream.
    """

    three: Three
    code: Code | None = None
    clashes: tuple[Clash, ...] = ()
    renames: Renames = field(default_factory=Renames)


def merge(three: Three) -> Merge:
    """The new parent's member with the declaration's changes, or what is in doubt of it."""
    three, renames = _by_one_name(three)
    functions = three.functions
    merged = _merge_methods(three, functions) if functions is not None else _merge_values(three)
    if isinstance(merged, tuple):
        return Merge(three, None, merged, renames)
    doubts = doubts_of(merged, three, is_merge=True)
    return Merge(three, None if doubts else merged, doubts, renames)


def _merge_methods(three: Three, functions: _Functions) -> Code | tuple[Clash, ...]:
    head = _merge_signature(functions)
    changes = merge_suites(three, *(without_docstring(one.body) for one in functions))
    clashes = tuple(one for one in (head, *changes) if isinstance(one, Clash))
    if clashes or isinstance(head, Clash):
        return clashes
    node = functions[2]
    above = (" " * node.col_offset + line for line in head)
    cuts = [one for one in changes if isinstance(one, Cut)]
    cuts.append(of_lines(first_line(node), head_end(three.theirs, node), above))
    try:
        return three.theirs.changed(cuts)
    except SyntaxError:
        return (Clash("the two changes give no valid Python together"),)


def _merge_values(three: Three) -> Code | tuple[Clash, ...]:
    """An attribute."""
    nodes = [side.nodes for side in three.sides]
    pairs = [assigned(one[0]) if len(one) == 1 else None for one in nodes]
    base, ours, theirs = (pair[1] if pair is not None else None for pair in pairs)
    if base is None or ours is None or theirs is None:
        return (clash("the member is of another kind now", *nodes),)
    merged = merge_expression(base, ours, theirs)
    if isinstance(merged, Clash):
        return (merged,)
    (node,) = three.theirs.nodes
    text = " " * node.col_offset + ast.unparse(exchanged(node, {theirs: merged})) + "\n"
    return in_place_of(node, text)


# What stands above the body: decorators, parameters, what it returns


class _Parameter(NamedTuple):
    """One parameter: its kind ("p", "k", "*", "**"), its default, and its name with a type."""

    kind: str
    default: str
    text: str

    @property
    def code(self) -> str:
        equals = " = " if ":" in self.text else "="
        return f"{self.text}{equals}{self.default}" if self.default else self.text


def _merge_signature(functions: _Functions) -> list[str] | Clash:
    """The lines above the body of the merged method, without indentation."""
    decorators = _merge_decorators(functions)
    parameters = _merge_parameters(functions)
    if isinstance(decorators, Clash) or isinstance(parameters, Clash):
        return decorators if isinstance(decorators, Clash) else parameters
    _, ours, theirs = functions
    returns = theirs.returns or ours.returns
    arrow = f" -> {ast.unparse(returns)}" if returns is not None else ""
    word = "async def" if isinstance(theirs, ast.AsyncFunctionDef) else "def"
    return [*decorators, f"{word} {theirs.name}({', '.join(parameters)}){arrow}:"]


def _merge_decorators(functions: _Functions) -> list[str] | Clash:
    """The decorators of the side that changed them.

    A decorator that the declaration drops may have another name and the same arguments now.
    """
    _, ours, theirs = functions
    before, mine, upstream = (
        [plain_text(d) for d in f.decorator_list if not is_documenting(d)] for f in functions
    )
    documenting = [f"@{ast.unparse(d)}" for d in theirs.decorator_list if is_documenting(d)]
    arguments = [
        [
            [*map(plain_text, (*d.args, *d.keywords))]
            for d in f.decorator_list
            if isinstance(d, ast.Call)
        ]
        for f in functions
    ]
    if before == upstream != mine or (not mine and arguments[0] == arguments[2]):
        own = [f"@{ast.unparse(d)}" for d in ours.decorator_list if not is_documenting(d)]
        return [*own, *documenting]
    if mine not in (before, upstream):
        texts = [[f"@{ast.unparse(d)}" for d in f.decorator_list] for f in functions]
        return Clash("both changed the decorators", *map("\n".join, texts))
    return [f"@{ast.unparse(d)}" for d in theirs.decorator_list]


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
    arguments = [function.args for function in functions]
    if any(f.args.posonlyargs for f in functions):
        return clash("a signature with positional-only parameters", *arguments)
    before, mine, upstream = map(_parameters, functions)
    if [n for n in mine if n in before] != [n for n in before if n in mine]:
        return clash("the declaration has the parameters in another order", *arguments)
    # Without a change of upstream, the order is the declaration's.
    is_changed = list(before) != list(upstream)
    new = [name for name in mine if name not in before and mine[name].kind == "p"]
    if is_changed and new and new != [n for n in mine if mine[n].kind == "p"][-len(new) :]:
        return clash("the declaration has a new parameter in front of others", *arguments)
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
                return clash(
                    f"one side removed the parameter {name}, the other changed it", *arguments
                )
        elif says[0] == says[1] or says[1] == says[2]:
            found.append(theirs)
        elif says[0] == says[2]:
            found.append(theirs._replace(kind=own.kind, default=own.default))
        else:
            return clash(f"both changed the parameter {name}", *arguments)
    texts = {kind: [p.code for p in found if p.kind == kind] for kind in ("p", "*", "k", "**")}
    if texts["k"] and not texts["*"]:
        texts["*"] = ["*"]
    merged = [text for of_kind in texts.values() for text in of_kind]
    try:
        ast.parse(f"def f({', '.join(merged)}): pass")
    except SyntaxError:
        return clash("no order of the parameters suits both", *arguments)
    return merged

"""Names that upstream, or the declaration, changed throughout a method: the other versions follow.

    base     gate = self.act(self.gate(x))        ours     gate = self.act(self.gate(x))
             return self.down(gate * up)                   return self.down(cap(gate) * up)
    theirs   gated = self.act(self.gate(x))
             return self.down(gated * up)         said     return self.down(cap(gated) * up)

A variable, a parameter or a keyword is renamed where the old name is gone, the new one is new, and
statements are the same again by the new name.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from patchgen.author.align.file import Cut
from patchgen.author.rebase.code import Code, Three, beginning, flow_of, parameters_of, replacing
from patchgen.syntax.bound import local_names, names_in
from patchgen.syntax.same import Function

_FIELD = re.compile(r"{[^{}]*}")  # of an f-string
_PLAIN = re.compile(r"(?<![\w.'\"])[a-zA-Z_]\w*")
# What stands for a variable and for a keyword in a plain text.
_WORD = re.compile(r"N:(\w+);|keyword\(arg='(\w+)'")


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
                    cuts.append(beginning(node, name, self.variables[name]))
                case ast.keyword(arg=str(name)) if name in self.keywords:
                    cuts.append(beginning(node, name, self.keywords[name]))
            waiting += ast.iter_child_nodes(node)
        return code.changed(cuts)

    def _in_field(self, field: re.Match[str]) -> str:
        return _PLAIN.sub(lambda name: self.variables.get(name[0], name[0]), field[0])

    def told(self) -> str:
        """What was renamed, in words; empty for nothing."""
        pairs = {**self.keywords, **self.variables}
        return ", ".join(f"{old} is {new} now" for old, new in sorted(pairs.items()))


def by_one_name(three: Three) -> tuple[Three, Renames]:
    """The versions with the renames of both sides made in all, and those of upstream."""
    base, ours, theirs = three.sides
    functions = three.functions
    if functions is None:
        return three, Renames()
    upstream = renames(functions[0], functions[2], functions[1])
    base, ours = upstream.made_in(base), upstream.made_in(ours)
    assert base.function is not None and ours.function is not None
    own = renames(base.function, ours.function, functions[2])
    return replace(three, base=own.made_in(base), ours=ours, theirs=own.made_in(theirs)), upstream


def renames(base: Function, side: Function, other: Function) -> Renames:
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

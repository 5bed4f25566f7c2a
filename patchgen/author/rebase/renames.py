"""A variable that one side renamed: the other versions say it by the new name, too.

    base     gate = self.act(self.gate(x))        ours     gate = self.act(self.gate(x))
             return self.down(gate * up)                   return self.down(cap(gate) * up)
    theirs   gated = self.act(self.gate(x))
             return self.down(gated * up)         said     return self.down(cap(gated) * up)

A rename is one where all of the old variable is gone, the new name is new to every version, and
statements are the same again by the new name.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from patchgen.author.align.file import File
from patchgen.author.rebase.flow import flow_of, parameters_of
from patchgen.author.rebase.versions import Cut, MethodText, Versions
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.same import Function, plain_text


def with_one_name(versions: Versions) -> Versions | None:
    """The versions with the renames of both sides made in all; None where there are none."""
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    upstream = _renames(base.function, theirs.function, ours.function)
    if upstream:
        base, ours = _renamed(base, upstream), _renamed(ours, upstream)
    own = _renames(base.function, ours.function, theirs.function)
    if own:
        base, theirs = _renamed(base, own), _renamed(theirs, own)
    return replace(versions, base=base, ours=ours, theirs=theirs) if upstream or own else None


def imported_renames(base: File, theirs: File) -> dict[str, str]:
    """The functions that upstream imports by another name now, and calls with the same arguments.

    Every call by the old name is there by the new name, and was not before.
    """
    gone = base.imports.keys() - theirs.imports.keys() - theirs.definitions.keys()
    before, after = _calls(base), _calls(theirs)
    found: dict[str, str] = {}
    for old in gone & {name for name, _ in before}:
        given = {text for name, text in before if name == old}
        names = [
            new
            for new in {name for name, _ in after} & theirs.imports.keys()
            if all((new, text) in after and (new, text) not in before for text in given)
            and _module(base, old) == _module(theirs, new)
        ]
        if len(names) == 1:
            found[old] = names[0]
    return found


def _calls(file: File) -> set[tuple[str, str]]:
    """The names that a file calls as decorators, with the arguments."""
    return {
        (one.func.id, "".join(map(plain_text, [*one.args, *one.keywords])))
        for node in ast.walk(file.tree)
        if isinstance(node, Function | ast.ClassDef)
        for one in node.decorator_list
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    }


def _module(file: File, name: str) -> str:
    node, _ = file.imports[name]
    return f"{node.level} {node.module}" if isinstance(node, ast.ImportFrom) else ""


def with_names(versions: Versions, names: Mapping[str, str]) -> Versions:
    """The versions with new names for what the old parent and the declaration know by old ones."""
    base, ours = _renamed(versions.base, names), _renamed(versions.ours, names)
    return replace(versions, base=base, ours=ours)


def _renames(base: Function, side: Function, other: Function) -> dict[str, str]:
    """The variables that `side` calls otherwise, with their new names."""
    gone = _variables(base) - names_in([side])
    new = _variables(side) - names_in([base, other])
    found = {old: name for old in sorted(gone) if (name := _successor(base, side, old, new))}
    # Two variables that became one are no renames.
    taken = Counter(found.values())
    return {old: name for old, name in found.items() if taken[name] == 1}


def _variables(function: Function) -> set[str]:
    return set(bound_names(function.body)) - parameters_of(function)


def _successor(base: Function, side: Function, old: str, new: Iterable[str]) -> str | None:
    """The new name by which most statements of the old variable are there again."""
    there = Counter(spot.text for spot in flow_of(side).spots)
    mine = [s.text for s in flow_of(base).spots if old in s.reads | s.binds]
    gains = {
        name: sum(min(count, there[text]) for text, count in _texts(mine, old, name).items())
        for name in sorted(new)
    }
    best = max(gains.values(), default=0)
    names = [name for name, gain in gains.items() if gain == best > 0]
    return names[0] if len(names) == 1 else None


def _texts(texts: Iterable[str], old: str, name: str) -> Counter[str]:
    before, after = (plain_text(ast.Name(one)) for one in (old, name))
    return Counter(text.replace(before, after) for text in texts)


def _renamed(text: MethodText, names: Mapping[str, str]) -> MethodText:
    """A version in which variables have other names."""
    return text.changed(_cuts(text.function, names))


def _cuts(function: Function, names: Mapping[str, str]) -> Iterator[Cut]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names:
            start = node.lineno, node.col_offset
            yield Cut(start, (node.lineno, node.end_col_offset or 0), names[node.id])

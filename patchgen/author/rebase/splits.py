"""Where one side renames a variable that is assigned again, rename it in all versions.

    base     x = self.weight(x)              ours     x = self.weight(x)
             x = softmax(x)                           p = softmax(x)
             return topk(x), x                        return topk(p), x
    theirs   x = self.weight(x)
             x = softmax(x)                  merged   p = softmax(x)
             return topk(x, self.k), x                return topk(p, self.k), p

What follows an assignment at the top of a method reads the value that it assigned, or a later one.
So from there on the variable can have another name, and the method does what it did.  Where all
versions use one name, their texts show what each side changed: here, `ours` returns another value
under the same name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.rebase.versions import MethodText, Versions, replacing
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.same import plain_text

# What may read a variable when it has another value already.
_LATE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)
_BY_NAME = frozenset({"locals", "vars", "eval", "exec"})
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class _Assigned:
    """An assignment to one name at the top of a method, and its place among the statements."""

    place: int
    target: ast.Name
    value: ast.expr

    @property
    def text(self) -> str:
        return plain_text(self.value)


def with_split_names(versions: Versions) -> Versions | None:
    """The versions with the new names of both sides in all of them; None where there are none.

    If both sides have a new name for a value, it gets the declaration's.
    """
    done = versions
    for _ in range(_MOST_ROUNDS):
        split = next(_splits(done), None)
        if split is None:
            break
        done = split
    return None if done is versions else done


def _splits(versions: Versions) -> Iterator[Versions]:
    """The versions with one more name in all of them."""
    for old in _assigned_again(versions.base):
        mine, upstream = (_named(one, old.text) for one in (versions.ours, versions.theirs))
        if mine is None or upstream is None:
            continue
        names = [one.target.id for one in (mine, upstream) if one.target.id != old.target.id]
        if not names:
            continue
        base = _renamed_from(versions.base, old, names[0])
        ours = _renamed_from(versions.ours, mine, names[0])
        theirs = _renamed_from(versions.theirs, upstream, names[0])
        if base is not None and ours is not None and theirs is not None:
            yield Versions(base, ours, theirs)


def _assigned_again(version: MethodText) -> Iterator[_Assigned]:
    """The assignments to variables that had another value before."""
    body = version.function.body
    for one in _assigned(version):
        known = {*names_in([version.function.args]), *bound_names(body[: one.place])}
        if one.target.id in known and _named(version, one.text) is not None:
            yield one


def _assigned(version: MethodText) -> Iterator[_Assigned]:
    for place, node in enumerate(version.function.body):
        match node:
            case (
                ast.Assign(targets=[ast.Name() as target], value=value)
                | ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value)
            ):
                yield _Assigned(place, target, value)


def _named(version: MethodText, text: str) -> _Assigned | None:
    """What gives a value a name; None if nothing does, or more than one statement."""
    found = [one for one in _assigned(version) if one.text == text]
    return found[0] if len(found) == 1 else None


def _renamed_from(version: MethodText, assigned: _Assigned, name: str) -> MethodText | None:
    """A version whose variable has another name from an assignment on; None if it cannot have."""
    old, body = assigned.target.id, version.function.body
    if old == name:
        return version
    every = names_in([version.function])
    before = [*body[: assigned.place], assigned.value]
    inside = [n for one in body[assigned.place + 1 :] for n in ast.walk(one)]
    if name in every or every & _BY_NAME or _reads_late(old, before):
        return None
    if any(_says_otherwise(old, node) for node in inside):
        return None
    names = [n for n in inside if isinstance(n, ast.Name) and n.id == old]
    return version.changed([replacing(node, name) for node in (assigned.target, *names)])


def _reads_late(name: str, nodes: Iterable[ast.AST]) -> bool:
    """Whether a function or a generator among `nodes` reads `name` when it runs."""
    late: Sequence[ast.AST] = [n for one in nodes for n in ast.walk(one) if isinstance(n, _LATE)]
    return name in names_in(late)


def _says_otherwise(name: str, node: ast.AST) -> bool:
    """Whether a node has the name of a variable in it that cannot be replaced alone."""
    if isinstance(node, ast.JoinedStr):
        # Python 3.11 does not say where in an f-string a name stands.
        return name in names_in([node])
    if isinstance(node, ast.Name | ast.Attribute | ast.keyword | ast.Constant):
        return False
    # Parameters, functions, handlers, patterns, imports and `nonlocal` say names as strings.
    return any(
        value == name or (isinstance(value, list) and name in value)
        for _, value in ast.iter_fields(node)
    )

"""Whether the names in a merged method still mean what they meant to the side that wrote them.

A merge can fit and be wrong: upstream assigns another value to a variable, and the declaration's
statement below goes on to read it.  So for each statement that one side wrote, the names that it
reads must come from the same assignments as in that side's own version.  What is called may be
given more or fewer arguments; another value is refused:

    ours      scores = scores * self.scale            written below  scores = q @ k
    theirs    scores = (q @ k) * self.scale           so `scores` means something else now
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence

from patchgen.author.rebase.flow import Flow, Spot, flow_of
from patchgen.author.rebase.pairing import alikeness
from patchgen.author.rebase.sides import Clash
from patchgen.syntax.bound import local_names
from patchgen.syntax.same import Function, plain_text

_ENOUGH = 0.5
_ALWAYS = frozenset(dir(builtins)) | {"__class__", "super"}
_NAME = re.compile(r"N:(\w+);")  # a name in a plain text


def changed_meanings(
    merged: Function, base: Function, ours: Function, theirs: Function, known: Mapping[str, str]
) -> tuple[Clash, ...]:
    """The doubts about a merged method.

    `known` are the global names that it may read, with the paths of what is imported by them.
    """
    flow, old, mine, upstream = (flow_of(one) for one in (merged, base, ours, theirs))
    found = [*_unbound(flow, (mine, upstream), known)]
    local = {name for one in (merged, base, ours, theirs) for name in local_names(one)}
    paths = {name: path for name, path in known.items() if path and name not in local}
    found += _moved_meanings(flow, mine, upstream, old, paths, "the declaration")
    found += _moved_meanings(flow, upstream, mine, old, paths, "upstream")
    return tuple(dict.fromkeys(found))


# Names that nothing gives a value


def _unbound(merged: Flow, sides: Sequence[Flow], known: Mapping[str, str]) -> Iterator[Clash]:
    """Names that are read before anything binds them, or that no file has."""
    local = local_names(merged.function)
    foreign = [local_names(side.function) - local for side in sides]
    for place, spot in enumerate(merged.spots):
        for name in sorted(spot.reads):
            if name in local:
                is_early = merged.binder(name, place) is None
                # A side may read it early too, in a loop.
                if is_early and not any(_is_early(side, name) for side in sides):
                    yield Clash(f"{name} is read before it is assigned", ours=_code(spot))
                continue
            was_local = any(name in names for names in foreign)
            if was_local and name not in known and name not in _ALWAYS:
                yield Clash(f"{name} is assigned nowhere any more", ours=_code(spot))


def _is_early(version: Flow, name: str) -> bool:
    """Whether a version itself reads `name` above what assigns it, as in a loop."""
    return name in local_names(version.function) and any(
        name in spot.reads and version.binder(name, place) is None
        for place, spot in enumerate(version.spots)
    )


# Names that mean something else


def _moved_meanings(
    merged: Flow, side: Flow, other: Flow, old: Flow, paths: Mapping[str, str], who: str
) -> Iterator[Clash]:
    """Where a statement that `side` wrote would read what the other side made of a name."""
    elsewhere = {spot.text for spot in other.spots}
    for place, spot in enumerate(merged.spots):
        if spot.text in elsewhere:
            continue
        origins = _origins(spot, side)
        for name in sorted(_own_reads(spot, old)):
            before = [side.binder(name, n) for n in origins if name in side.spots[n].reads]
            now = merged.binder(name, place)
            if before and not any(_is_same(one, now, paths) for one in before):
                yield Clash(
                    f"{name} means something else where {who} reads it",
                    base=_code(before[0]),
                    ours=_code(spot),
                    theirs=_code(now),
                )


def _own_reads(spot: Spot, old: Flow) -> set[str]:
    """What a statement reads that the old parent's statement, which it was made from, does not.

    What stands in both is read by both sides: `self.mlp(x).clamp(max=7)` was made from
    `self.mlp(x)`, and reads nothing of its own; nor does a call with an argument more read the
    others.
    """
    heads = [head for n in _origins(spot, old) for head in old.spots[n].heads]
    known = [n for head in heads for n in ast.walk(head) if isinstance(n, ast.expr)]
    texts = {plain_text(n) for n in known if not isinstance(n, ast.Name)}
    arguments = {
        plain_text(n.func): {*map(plain_text, n.args), *map(plain_text, n.keywords)}
        for n in known
        if isinstance(n, ast.Call)
    }
    found: set[str] = set()
    waiting: list[ast.AST] = list(spot.heads)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.Call) and plain_text(node) not in texts:
            shared = arguments.get(plain_text(node.func), set())
            waiting.append(node.func)
            waiting += [n for n in (*node.args, *node.keywords) if plain_text(n) not in shared]
        elif not isinstance(node, ast.expr) or plain_text(node) not in texts:
            waiting += ast.iter_child_nodes(node)
    return found & spot.reads


def _origins(spot: Spot, side: Flow) -> list[int]:
    """Where `side` has the statement, or the one that is most like it."""
    same = [n for n, one in enumerate(side.spots) if one.text == spot.text]
    if same:
        return same
    alike = [(alikeness(one.node, spot.node), n) for n, one in enumerate(side.spots)]
    best = max(alike, default=(0.0, 0))
    return [best[1]] if best[0] >= _ENOUGH else []


def _is_same(before: Spot | str | None, now: Spot | str | None, paths: Mapping[str, str]) -> bool:
    """Whether a name comes from the same statement, or a call with more or fewer arguments."""
    if not isinstance(before, Spot) or not isinstance(now, Spot):
        return before == now
    if _in_full(before.text, paths) == _in_full(now.text, paths):
        return True
    match before.node, now.node:
        case (
            (ast.Assign(targets=[a], value=one) | ast.AnnAssign(target=a, value=ast.expr() as one)),
            (
                ast.Assign(targets=[b], value=other)
                | ast.AnnAssign(target=b, value=ast.expr() as other)
            ),
        ):
            return plain_text(a) == plain_text(b) and is_same_value(one, other)
        case ast.For(target=a, iter=one), ast.For(target=b, iter=other):
            return plain_text(a) == plain_text(b) and is_same_value(one, other)
        case _:
            return False


def _in_full(text: str, paths: Mapping[str, str]) -> str:
    """A plain text by whole paths: `F.linear` is `torch.nn.functional.linear`."""
    return _NAME.sub(lambda found: _whole(found, paths), text)


def _whole(found: re.Match[str], paths: Mapping[str, str]) -> str:
    return f"N:{paths.get(found[1], found[1]).replace('.', ';.')};"


def is_same_value(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are equal, or one call with equal values for common arguments."""
    if plain_text(one) == plain_text(other):
        return True
    match one, other:
        case ast.Attribute(value=a, attr=x), ast.Attribute(value=b, attr=y):
            return x == y and is_same_value(a, b)
        case ast.Call(), ast.Call():
            return _is_same_call(one, other)
        case _:
            return False


def _is_same_call(one: ast.Call, other: ast.Call) -> bool:
    if plain_text(one.func) != plain_text(other.func):
        return False
    shared = zip(one.args, other.args, strict=False)
    if any(plain_text(a) != plain_text(b) for a, b in shared):
        return False
    mine, theirs = dict(_named(one)), dict(_named(other))
    return all(mine[name] == theirs[name] for name in mine.keys() & theirs.keys())


def _named(call: ast.Call) -> Iterator[tuple[str, str]]:
    """The arguments that a call gives by name; `**{**a, "b": c}` is `**a, b=c`."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg=str(name), value=value):
                yield name, plain_text(value)
            case ast.keyword(value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant):
                        yield str(key.value), plain_text(value)
                    else:
                        yield f"**{plain_text(value)}", ""
            case _:
                yield f"**{plain_text(keyword.value)}", ""


def _code(spot: Spot | str | None) -> str:
    if not isinstance(spot, Spot):
        return spot or "nothing"
    text = ast.unparse(spot.node)
    return text.partition("\n")[0]

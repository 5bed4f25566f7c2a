"""Whether the names that a declaration reads still mean what they meant when it was written.

A merge can fit and be wrong: upstream assigns another value to a variable, and the declaration's
statement below goes on to read it.  So for each statement that the declaration wrote, the names
that it reads must come from the same assignments as before, and so must the attributes of `self`.
What is called may be given more or fewer arguments; another value is refused:

    ours      scores = scores * self.scale            written below  scores = q @ k
    theirs    scores = (q @ k) * self.scale           so `scores` means something else now
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from patchgen.author.align.file import Definition
from patchgen.author.align.suites import measure_similarity, suites_of
from patchgen.author.rebase.code import Clash, Code, Flow, Spot, Three, assigned, binder, flow_of
from patchgen.author.rebase.releases import Tree
from patchgen.syntax.same import plain_text, plain_texts
from patchgen.syntax.trees import Function

_ENOUGH = 0.5
_WORD = re.compile(r"\w+")


def doubts_of(merged: Code, three: Three, *, is_merge: bool = False) -> tuple[Clash, ...]:
    """What the names in a merged method may mean otherwise than its authors meant.

    In a merge, upstream's new statements are looked at, too.
    """
    if three.functions is None or merged.function is None:
        return ()
    flow = flow_of(merged.function)
    old, mine, upstream = map(flow_of, three.functions)
    doubts = [*_unbound(flow, (mine, upstream))]
    doubts += _moved_meanings(flow, mine, upstream, old, "the declaration")
    if is_merge:
        doubts += _moved_meanings(flow, upstream, mine, old, "upstream")
    return tuple(dict.fromkeys(doubts))


def _unbound(merged: Flow, sides: Sequence[Flow]) -> Iterator[Clash]:
    """Names that nothing gives a value where they are read, and that are no global of a side."""
    global_names: set[str] = set()
    for side in sides:
        for _, name in _free_reads(side):
            global_names.add(name)
    for spot, name in _free_reads(merged):
        if name not in global_names:
            yield Clash(f"{name} has no value where it is read", ours=_code(spot))


def _free_reads(flow: Flow) -> Iterator[tuple[Spot, str]]:
    """The names that nothing in a method gives a value, each with a spot that reads it."""
    for number, spot in enumerate(flow):
        for name in sorted(spot.reads):
            if binder(flow, name, number) is None:
                yield spot, name


# Names that mean something else


def _moved_meanings(merged: Flow, side: Flow, other: Flow, old: Flow, who: str) -> Iterator[Clash]:
    """Where a statement that one side wrote would read what the other side made of a name."""
    elsewhere = {spot.text for spot in other}
    for number, spot in enumerate(merged):
        if spot.text in elsewhere:
            continue
        origins = _origins(spot, side)
        for name in sorted(_own_reads(spot, old)):
            before = [binder(side, name, n) for n in origins if name in side[n].reads]
            now = binder(merged, name, number)
            if before and not any(_is_same(origin, now) for origin in before):
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
    texts: set[str] = set()  # of the old parent's expressions
    arguments: dict[str, list[str]] = {}  # of its calls, by what they call
    for number in _origins(spot, old):
        for head in old[number].heads:
            for node in ast.walk(head):
                if isinstance(node, ast.expr) and not isinstance(node, ast.Name):
                    texts.add(plain_text(node))
                if isinstance(node, ast.Call):
                    arguments[plain_text(node.func)] = plain_texts([*node.args, *node.keywords])
    names: set[str] = set()
    waiting: list[ast.AST] = list(spot.heads)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if isinstance(node, ast.expr) and plain_text(node) in texts:
            continue
        if not isinstance(node, ast.Call):
            waiting += ast.iter_child_nodes(node)
            continue
        shared = arguments.get(plain_text(node.func), [])
        waiting.append(node.func)
        for argument in (*node.args, *node.keywords):
            if plain_text(argument) not in shared:
                waiting.append(argument)
    return names & spot.reads


def _origins(spot: Spot, side: Flow) -> list[int]:
    """Where `side` has the statement, or the one that is most like it."""
    same = [n for n, other in enumerate(side) if other.text == spot.text]
    if same:
        return same
    alike = [(_alikeness(other.node, spot.node), n) for n, other in enumerate(side)]
    best = max(alike, default=(0.0, 0))
    return [best[1]] if best[0] >= _ENOUGH else []


def _alikeness(old: ast.stmt, new: ast.stmt) -> float:
    """How much two statements say the same, from 0 to 1.3."""
    if _kind(old) is not _kind(new):
        return 0.0
    if suites_of(old):
        return measure_similarity(old, new)
    before = ast.unparse(old)
    after = ast.unparse(new)
    words = Counter(_WORD.findall(before))
    others = Counter(_WORD.findall(after))
    common = (words & others).total()
    share = common * 2 / max(words.total() + others.total(), 1)
    # Two assignments to the same names are versions of one more often than not.
    target, is_assigned, _ = before.partition(" = ")
    if is_assigned and target == after.partition(" = ")[0]:
        return share + 0.3
    return share


def _kind(node: ast.stmt) -> type[ast.stmt]:
    """The type of a statement; an annotation makes no other assignment."""
    return ast.Assign if isinstance(node, ast.AnnAssign) else type(node)


def _is_same(before: Spot | None, now: Spot | None) -> bool:
    """Whether a name comes from the same statement, or a call with more or fewer arguments."""
    if before is None or now is None:
        return before is now
    if before.text == now.text:
        return True
    was = assigned(before.node)
    other = assigned(now.node)
    if was is None or other is None or isinstance(now.node, ast.AugAssign):
        return False
    return was[0] == other[0] and is_same_value(was[1], other[1])


def is_same_value(left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions are equal, or one call with equal values for common arguments."""
    if plain_text(left) == plain_text(right):
        return True
    match left, right:
        case ast.Attribute(value=a, attr=x), ast.Attribute(value=b, attr=y):
            return x == y and is_same_value(a, b)
        case ast.Call(), ast.Call():
            mine = _arguments(left)
            theirs = _arguments(right)
            return all(mine[name] == theirs[name] for name in mine.keys() & theirs.keys())
        case _:
            return False


def _arguments(call: ast.Call) -> dict[int | str | None, str]:
    """What a call is given, as text, by place and by name, and what it calls at place -1."""
    given: dict[int | str | None, str] = {-1: plain_text(call.func)}
    given |= enumerate(plain_texts(call.args))
    return given | {keyword.arg: plain_text(keyword.value) for keyword in call.keywords}


def _code(spot: Spot | None) -> str:
    if spot is None or not spot.heads:
        return "nothing" if spot is None else spot.text
    return ast.unparse(spot.node).partition("\n")[0]


# What it uses of its class and its file


def changed_uses(
    three: Three, trees: tuple[Tree, Tree], parent: tuple[str, str]
) -> Iterator[Clash]:
    """Attributes and functions that the declaration uses more often than the parent's method.

    They have to have the value that they had, and to take the arguments that they took.
    """
    of_parent, declared = (Counter(_uses(side.nodes)) for side in three.sides[:2])
    added = declared - of_parent
    if not added:
        return
    before, after = (set_by(tree, parent) for tree in trees)
    for name in sorted(added):
        attribute = name.removeprefix("self.")
        old: ast.stmt | None
        new: ast.stmt | None
        if attribute != name:
            old = before.get(attribute)
            new = after.get(attribute)
        else:
            old, new = _definitions_of(name, trees, parent[0])
        was = _first_line_of(old)
        now = _first_line_of(new)
        if old is not None and new is None:
            yield Clash(f"{name}, which the change uses, is gone", was, now)
        elif old is not None and new is not None and not _is_same_use(old, new):
            is_call = isinstance(old, Function) and isinstance(new, Function)
            what = "calls, takes other arguments" if is_call else "uses, means something else"
            yield Clash(f"{name}, which the change {what} now", was, "", now)


def _definitions_of(
    name: str, trees: tuple[Tree, Tree], module: str
) -> tuple[ast.stmt | None, ast.stmt | None]:
    """What a name of a module stands for, in the release before and in the one after."""
    before, after = trees
    # What the parent imported may be where it was, although the parent needs it no more.
    home = before.names.follow(module, name)
    old = before.definition(module, name)
    new = after.definition(module, name) or after.definition(*home)
    old_node = old[1].node if old is not None else None
    new_node = new[1].node if new is not None else None
    return old_node, new_node


def _first_line_of(node: ast.AST | None) -> str:
    return ast.unparse(node).partition("\n")[0] if node is not None else ""


def _uses(nodes: Sequence[ast.stmt]) -> Iterator[str]:
    for root in nodes:
        for node in ast.walk(root):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                    yield f"self.{name}"
                case ast.Call(func=ast.Name(id=name)):
                    yield name


def set_by(tree: Tree, parent: tuple[str, str]) -> dict[str, ast.stmt]:
    """What gives each attribute of a class its value: a member, or an assignment in a method."""
    setters: dict[str, ast.stmt] = {}
    for _, definition in tree.ancestry(*parent):
        setters = _own_setters(definition) | setters
    return setters


@cache  # the bases of all models are the same few classes
def _own_setters(definition: Definition) -> dict[str, ast.stmt]:
    setters: dict[str, ast.stmt] = {}
    for name, member in definition.members.items():
        inside = ast.walk(member.method) if member.method is not None else ()
        for node in inside:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for attribute in _attributes_of_self(targets):
                setters.setdefault(attribute, node)
        setters.setdefault(name, member.nodes[-1])
    return setters


def _attributes_of_self(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The attributes of `self` anywhere in some nodes."""
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    yield name


def _is_same_use(old: ast.stmt, new: ast.stmt) -> bool:
    """Whether an attribute has the same value, or a function takes what it took."""
    if isinstance(old, Function) and isinstance(new, Function):
        return takes_the_same(old, new)
    was = assigned(old)
    now = assigned(new)
    if was is None or now is None:
        return type(old) is type(new)
    before = was[1]
    after = now[1]
    if isinstance(before, ast.Call) and isinstance(after, ast.Call):
        # Two calls of one class make the same kind of module.
        if plain_text(before.func) == plain_text(after.func):
            return True
    return is_same_value(before, after)


def takes_the_same(old: Function, new: Function) -> bool:
    """Whether every call that fits the one function fits the other, with the same meaning."""
    before = old.args
    after = new.args
    places = [arg.arg for arg in before.args]
    new_places = [arg.arg for arg in after.args]
    if new_places[: len(places)] != places:
        return False
    always = len(places) - len(before.defaults)  # that many are given by each call
    if len(new_places) - len(after.defaults) > always:
        return False
    named = {arg.arg for arg in before.kwonlyargs}
    new_named = {arg.arg for arg in after.kwonlyargs}
    for argument, default in zip(after.kwonlyargs, after.kw_defaults, strict=True):
        if default is None and argument.arg not in named:
            return False
    takes_more = after.kwarg is not None or before.kwarg is None
    return type(old) is type(new) and takes_more and named <= {*new_places, *new_named}

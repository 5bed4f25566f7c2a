"""What a change uses outside its method: attributes, methods and functions of the parent's file.

They have to mean in the new release what they meant in the old one: an attribute that is set
otherwise, a method that takes other arguments, a function that is gone put the change in doubt.
So does a module, as `self.mlp`, whose `forward` takes other arguments.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from patchgen.author.align.file import File, Member
from patchgen.author.rebase.meaning import is_same_value
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.sides import Clash
from patchgen.syntax.same import Function, plain_text


def changed_surroundings(
    base: Member,
    ours: Member,
    theirs: Member,
    trees: tuple[Tree, Tree],
    parent: tuple[str, str],
    files: tuple[File, File],
) -> tuple[Clash, ...]:
    """What is in doubt of what `ours` uses beyond what `base` does."""
    new = _own_nodes(base.nodes, ours.nodes)
    found = [*_attributes(new, trees, parent), *_functions(new, files)]
    found += _modules(new, (base, ours, theirs), trees, parent)
    return tuple(dict.fromkeys(found))


def _own_nodes(base: Iterable[ast.stmt], ours: Iterable[ast.stmt]) -> list[ast.AST]:
    """The expressions of the declaration that the parent's method does not have."""
    known = {plain_text(n) for s in base for n in ast.walk(s) if isinstance(n, ast.expr)}
    found = [n for s in ours for n in ast.walk(s) if isinstance(n, ast.expr)]
    return [n for n in found if plain_text(n) not in known]


# Attributes of self


def _attributes(
    nodes: Iterable[ast.AST], trees: tuple[Tree, Tree], parent: tuple[str, str]
) -> Iterator[Clash]:
    names = {
        inner.attr
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
        and isinstance(inner.ctx, ast.Load)
    }
    if not names:
        return
    before, after = (set_by(tree, parent) for tree in trees)
    for name in sorted(names & before.keys()):
        old, new = before[name], after.get(name)
        if new is None:
            yield Clash(f"self.{name}, which the change uses, is gone", _code(old))
        elif not _is_same(old, new):
            what = f"self.{name}, which the change uses, means something else now"
            yield Clash(what, _code(old), "", _code(new))


def set_by(tree: Tree, parent: tuple[str, str]) -> dict[str, ast.stmt]:
    """What gives each attribute of a class its value: a member, or an assignment in a method."""
    found: dict[str, ast.stmt] = {}
    for _, definition in tree.ancestry(*parent):
        for name, member in definition.members.items():
            if member.method is not None:
                for node in ast.walk(member.method):
                    for target in _targets(node):
                        found.setdefault(target, node)  # type: ignore[arg-type]  # an assignment
            found.setdefault(name, member.nodes[-1])
    return found


def _targets(node: ast.AST) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    for target in targets:
        for inner in ast.walk(target):
            match inner:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    yield name


def _is_same(old: ast.stmt, new: ast.stmt) -> bool:
    """Whether an attribute has the same value, or a method takes what it took."""
    if isinstance(old, Function) and isinstance(new, Function):
        return takes_the_same(old, new)
    match old, new:
        case (
            (ast.Assign(value=one) | ast.AnnAssign(value=ast.expr() as one)),
            (ast.Assign(value=other) | ast.AnnAssign(value=ast.expr() as other)),
        ):
            return is_same_value(one, other)
        case _:
            return plain_text(old) == plain_text(new)


def takes_the_same(old: Function, new: Function) -> bool:
    """Whether every call that fits the one function fits the other, with the same meaning."""
    if type(old) is not type(new):
        return False
    before, after = [a.arg for a in old.args.args], [a.arg for a in new.args.args]
    if after[: len(before)] != before:
        return False
    required = len(after) - len(new.args.defaults)
    if required > len(before) - len(old.args.defaults):
        return False
    keywords = {a.arg: d for a, d in zip(new.args.kwonlyargs, new.args.kw_defaults, strict=True)}
    known = {a.arg for a in old.args.kwonlyargs}
    if any(default is None and name not in known for name, default in keywords.items()):
        return False
    takes_more = new.args.kwarg is not None or old.args.kwarg is None
    return takes_more and known <= keywords.keys() | set(after)


# Modules


def _modules(
    nodes: Iterable[ast.AST],
    versions: tuple[Member, Member, Member],
    trees: tuple[Tree, Tree],
    parent: tuple[str, str],
) -> Iterator[Clash]:
    """Calls of modules that are attributes: `self.mlp(x)` and `self.mlp.method(x)`.

    What upstream's method itself calls with arguments of the same shape can be called so.  A call
    that is made from the parent's is merged with upstream's version of it, by argument.
    """
    called = {n.func: _shape(n) for n in nodes if isinstance(n, ast.Call)}
    if not called:
        return
    base, ours, theirs = ([_shape(call) for call in _calls(one)] for one in versions)
    counts = [Counter(name for name, _, _ in shapes) for shapes in (base, ours, theirs)]
    known = {name for name in counts[2] if counts[1][name] <= counts[0][name]}
    before, after = (set_by(tree, parent) for tree in trees)
    for function, shape in called.items():
        match function:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                method = "forward"
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=method
            ):
                pass
            case _:
                continue
        old = _method_of(trees[0], parent, before.get(name), method)
        new = _method_of(trees[1], parent, after.get(name), method)
        if old is None or shape[0] in known or shape in theirs:
            continue
        if new is not None and takes_the_same(old, new):
            continue
        what = f"{ast.unparse(function)}, which the change calls, takes other arguments now"
        yield Clash(what, _code(old), "", _code(new) if new is not None else "")


def _calls(member: Member) -> list[ast.Call]:
    return [n for s in member.nodes for n in ast.walk(s) if isinstance(n, ast.Call)]


def _shape(call: ast.Call) -> tuple[str, int, tuple[str, ...]]:
    """What is called, with how many positional arguments, and which ones by name."""
    names = sorted(keyword.arg or "**" for keyword in call.keywords)
    return plain_text(call.func), len(call.args), tuple(names)


def _method_of(
    tree: Tree, parent: tuple[str, str], value: ast.stmt | None, method: str
) -> Function | None:
    """A method of the class that a statement makes a module of; None where it is not known."""
    match value:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            found = tree.member(parent[0], name, method)
            return found.member.method if found is not None else None
        case _:
            return None


# Functions and classes of the parent's file


def _functions(nodes: Iterable[ast.AST], files: tuple[File, File]) -> Iterator[Clash]:
    before, after = files
    names = {
        inner.id
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
    }
    for name in sorted(names & before.definitions.keys()):
        old, new = before.definitions[name], after.definitions.get(name)
        if new is None and name not in after.imports:
            yield Clash(f"{name}, which the change uses, is gone", _code(old.node))
        elif new is not None and isinstance(old.node, Function):
            same = isinstance(new.node, Function) and takes_the_same(old.node, new.node)
            if not same:
                what = f"{name}, which the change calls, takes other arguments now"
                yield Clash(what, _code(old.node), "", _code(new.node))


def _code(node: ast.stmt) -> str:
    return ast.unparse(node).partition("\n")[0]

"""Find what a statement of a method reads and writes.

    self.act = ACT2FN[config.act]       reads ACT2FN and config.act, writes self.act
    self.layers.append(layer)           reads layer, writes self.layers

The names and attributes in a statement say it.  Making an object counts as changing nothing: the
random numbers that are drawn next, and the order of a module's children, are not compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.syntax.bound import bound_by, bound_names
from patchgen.syntax.trees import list_arguments

Path = tuple[str, ...]
_LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue | ast.Yield | ast.YieldFrom | ast.Await
# Methods of lists, dictionaries and sets that change them, also where their value is used.
_CHANGING = frozenset(
    "append extend insert remove clear pop popitem update setdefault add discard sort".split()
)

# Calls that make a number, a text or a list, or nothing.
_PLAIN_CALLS = frozenset(
    "getattr hasattr isinstance len int float str bool max min sum any all range get".split()
)
# What is changed through something without a name may be any part of the object.
_ANY_PART: Path = ("self",)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement reads and writes, as paths: `("self", "act")`."""

    reads: frozenset[Path]
    writes: frozenset[Path]

    def conflicts(self, other: Effect) -> bool:
        """Whether the two cannot change places."""
        # Two reads can.
        if overlap(self.writes, other.reads | other.writes):
            return True
        return overlap(self.reads, other.writes)


def makes_objects(node: ast.stmt) -> bool:
    """Whether an object may be made in `node`, a number, text or list not being one."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func).rpartition(".")[2]
            if name not in _PLAIN_CALLS:
                return True
    return False


def read_effect(statement: ast.stmt) -> Effect:
    """What `statement` reads and writes.

    One that may leave the function writes `*`, which all others read.
    """
    reads: set[Path] = {("*",)}
    writes: set[Path] = set()
    for node in _nodes(statement):
        match node:
            case ast.Name() | ast.Attribute():
                path = find_path(node)
                if path is not None:
                    (reads if isinstance(node.ctx, ast.Load) else writes).add(path)
            # `self.table[key] = ...` changes what `self.table` is.
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=inner):
                writes.add(find_path(inner) or _ANY_PART)
            case ast.Expr(ast.Call() as call):
                writes.update(_changed_by(call))
            # `x += 1` has its `x` marked as written only.
            case ast.AugAssign(target=target):
                reads.add(find_path(target) or _ANY_PART)
            # A module can only be assigned after `nn.Module.__init__`.
            case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"))]):
                if makes_objects(node):
                    reads.add(("self", "__init__"))
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                writes.add((name,))
            # A method of its own may read any part.
            case ast.Call(func=ast.Attribute(value=ast.Name("self"))):
                reads.add(_ANY_PART)
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
                if attr in _CHANGING:
                    writes.add(find_path(owner) or _ANY_PART)
            case ast.alias():
                writes.add((bound_by(node),))
            case _ if isinstance(node, _LEAVES):
                writes.add(("*",))
    return Effect(frozenset(reads), frozenset(writes))


def _nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of `statement`, chains of attributes as one.

    The variables of comprehensions are nobody else's.
    """
    stack: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while stack:
        node, own = stack.pop()
        path = find_path(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if path is not None:
            # What stands inside a chain is part of it.
            if path[0] not in own:
                yield node
            continue
        yield node
        inner = own
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            first = node.generators[0].iter  # evaluated outside
            stack.append((first, own))
            inner = own | set(bound_names(generator.target for generator in node.generators))
        stack += [(child, inner) for child in ast.iter_child_nodes(node)]


def find_path(node: ast.expr) -> Path | None:
    """`self.act.fn` as a path; None for what is no chain of names."""
    match node:
        case ast.Name(name):
            return (name,)
        case ast.Attribute(value=inner, attr=attr):
            above = find_path(inner)
            return None if above is None else (*above, attr)
    return None


def _changed_by(call: ast.Call) -> Iterator[Path]:
    """What a call for its effect may change: its object, and its arguments."""
    match call.func:
        case ast.Attribute(
            value=ast.Name("self"), attr="register_buffer" | "register_parameter" | "add_module"
        ):
            # They set the attribute that they name, and nothing else.
            if call.args and isinstance(call.args[0], ast.Constant):
                yield ("self", str(call.args[0].value))
                return
            yield _ANY_PART
        case ast.Attribute(value=ast.Call(func=ast.Name("super")), attr="__init__"):
            yield ("self", "__init__")  # before it, only modules cannot be assigned
        case ast.Attribute(value=ast.Call(func=ast.Name("super"))):
            yield _ANY_PART
        case ast.Attribute(value=owner):
            yield find_path(owner) or _ANY_PART
    for argument in list_arguments(call):
        path = find_path(argument)
        # Every module is given the configuration, and none changes it.
        if path is not None and path != ("config",):
            yield path


def overlap(some: frozenset[Path], others: frozenset[Path]) -> bool:
    """Whether one of the paths is, or holds, one of the others."""
    for one in some:
        if any(one[: len(other)] == other[: len(one)] for other in others):
            return True
    return False

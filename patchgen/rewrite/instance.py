"""What a statement does to the object of its method: which attributes it sets, and which it may read.

Facts only; what follows from them for an `__init__` is decided in `initial`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.plan.model import ClassPlan
from patchgen.rewrite.classbody import ClassBody
from patchgen.rewrite.hoist import is_literal

REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
# Ends the `__init__` of every model: initialises the weights that exist by then and reads no attribute by name.
FINISHES = frozenset({"post_init"})
# Bases outside the chain that set nothing in `__init__` but these.
MODEST_BASES = frozenset({"GradientCheckpointingLayer", "Module", "PreTrainedModel", "object"})
SET_BY_BASES = frozenset({"config", "generation_config", "loss_type", "name_or_path", "warnings_issued", "vocab_size"})

_LIBRARIES = frozenset({"F", "math", "nn", "torch"})
_FUNCTIONS = frozenset(
    {"abs", "bool", "dict", "float", "getattr", "int", "isinstance", "len", "list", "max", "min", "range", "round"}
    | {"set", "sorted", "str", "sum", "tuple", "zip"}
)


@dataclass(frozen=True, slots=True)
class Instance:
    """The object of a method, which knows it as `name`.

    `special` are names of the class that may do more than hold a value when they are set or read.  `modest`: the bases
    outside the chain are known to set little.
    """

    name: str
    special: frozenset[str]
    modest: bool


def instance(name: str, plan: ClassPlan, bodies: Sequence[ClassBody]) -> Instance:
    """The object of the flat class as a method that calls it `name` sees it."""
    return Instance(name, _special(bodies), {base.rpartition(".")[2] for base in plan.bases} <= MODEST_BASES)


def _special(bodies: Sequence[ClassBody]) -> frozenset[str]:
    """Methods, properties, and whatever else is no literal."""
    found: set[str] = set()
    for body in bodies:
        for statement in body.statements:
            bare = isinstance(statement.node, ast.AnnAssign) and statement.node.value is None
            if not bare and not is_literal(statement.node):
                found.update(statement.names)
    return frozenset(found)


def assignment(node: ast.stmt, this: Instance) -> tuple[str | None, ast.expr | None]:
    """x and v of a plain `self.x = v`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)], value=value):
            pass
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=name), value=ast.expr() as value):
            pass
        case _:
            return None, None
    return (name, value) if owner == this.name else (None, None)


def deleted(node: ast.stmt, this: Instance) -> str | None:
    """x of a plain `del self.x`."""
    match node:
        case ast.Delete(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)]) if owner == this.name:
            return name
        case _:
            return None


def assigned(node: ast.AST, receiver: str) -> frozenset[str]:
    """The attributes of the object that `node` assigns, deletes or registers."""
    found = set()
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Store() | ast.Del()) if owner == receiver:
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr=called), args=[ast.Constant(value=str(name)), *_]
            ) if owner == receiver and called in REGISTERS:
                found.add(name)
            case ast.Call(
                func=ast.Name(id="setattr"), args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_]
            ) if owner == receiver:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def may_set(node: ast.stmt, name: str, this: Instance) -> bool:
    """Whether `self.name` may exist because of `node`."""
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("super().__init__("):
        return not this.modest or name in SET_BY_BASES or name.startswith("_")
    return name in assigned(node, this.name) or reads(node, name, this)


def reads(node: ast.AST, name: str, this: Instance) -> bool:
    """Whether `node` reads `self.name`, or hands `self` to code that might."""
    parents = {id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id == "super":
            return True
        if not (isinstance(child, ast.Name) and child.id == this.name):
            continue
        holder = parents.get(id(child))
        if not isinstance(holder, ast.Attribute):
            return True
        outer = parents.get(id(holder))
        if isinstance(outer, ast.Call) and outer.func is holder and not _is_harmless(outer, holder.attr):
            return True
        augmented = isinstance(outer, ast.AugAssign) and outer.target is holder
        if holder.attr == name and (augmented or isinstance(holder.ctx, ast.Load)):
            return True
    return False


def _is_harmless(call: ast.Call, method: str) -> bool:
    named = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return method in FINISHES or (method in REGISTERS and named)


def is_quiet(value: ast.expr) -> bool:
    """Whether making `value` changes nothing else but random numbers: constructors, torch and arithmetic alone."""
    for node in ast.walk(value):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Call) and not _is_constructor(node.func):
            return False
    return True


def _is_constructor(called: ast.expr) -> bool:
    parts = ast.unparse(called).split(".")
    is_class = parts[-1].lstrip("_")[:1].isupper() and all(part.isidentifier() for part in parts)
    return is_class or parts[0] in _LIBRARIES or (len(parts) == 1 and parts[0] in _FUNCTIONS)

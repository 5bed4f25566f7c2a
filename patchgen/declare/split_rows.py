"""Experts that are given their rows one behind the other, with how many each has, and go through them in a loop.

    parts = inputs.split(sizes, dim=0)
    for i in range(self.num_experts):
        out.append(F.linear(parts[i], self.weight[i]))
    return torch.cat(out, dim=0)

In: such a class.  Out: one grouped product, and an edit after which whoever counts leaves the sizes where they are.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from patchgen.anatomy.code import called, constant, dotted, method_of, receiver, walk
from patchgen.anatomy.dispatch import Dispatch, NotDispatch
from patchgen.anatomy.holding import held
from patchgen.anatomy.module import Class, Module
from patchgen.declare.edits import code, edit, local_names
from patchgen.declare.row_values import Value
from patchgen.declare.rows import Rows
from patchgen.declare.variant import Declared


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The loop's parts: `each` is what expert `index` does with `part`, which is one of `inputs` split by `sizes`."""

    method: ast.FunctionDef
    inputs: str
    sizes: str
    part: str
    index: str
    each: ast.expr


def split_rows(owner: Class) -> SplitRows | None:
    """The parts of the forward; None where it has another form."""
    method = owner.own["forward"]
    body = [node for node in method.body if not (isinstance(node, ast.Expr) and isinstance(constant(node.value), str))]
    match body:
        case [
            ast.Assign(targets=[ast.Name(id=parts)], value=ast.Call(args=[ast.Name(id=sizes)]) as split),
            ast.Assign(targets=[ast.Name(id=out)], value=ast.List(elts=[])),
            ast.For(
                target=ast.Name(id=index),
                iter=ast.Call(func=ast.Name(id="range")),
                body=[ast.Expr(value=ast.Call(args=[each]) as append)],
                orelse=[],
            ),
            ast.Assign(targets=[ast.Name(id=result)], value=ast.Call(args=[ast.Name(id=joined), *_]) as cat),
            ast.Return(value=ast.Name(id=returned)),
        ]:
            same = called(append) == f"{out}.append" and (joined, returned) == (out, result)
            rows = method_of(split) == "split" and _dim(split) == 0 and called(cat) == "torch.cat" and _dim(cat) == 0
            inputs = dotted(receiver(split)) if isinstance(split.func, ast.Attribute) else ""
            given = {arg.arg for arg in method.args.args}
            if same and rows and {inputs, sizes} <= given:
                return SplitRows(method, inputs, sizes, parts, index, each)
    return None


def _dim(call: ast.Call) -> object:
    return next((constant(one.value) for one in call.keywords if one.arg == "dim"), None)


def of_split_rows(module: Module, owner: Class, found: SplitRows) -> list[Declared]:
    """The class with one product for all experts, and the class that counts.

    Raises NotDispatch where more than products of rows is computed, or sizes are read by others too.
    """
    counting, method, statement = _counting(module, owner, found)
    rows = Rows(module, Dispatch(found.method, numbers=frozenset({found.index})), owner)
    rows.names = set(local_names(found.method))
    rows.ends = f"{found.sizes}.cumsum(0).int()"
    rows.values = {found.inputs: Value(ast.Name(found.inputs, ast.Load()), "row")}
    value = rows.value(_Whole(found).visit(copy.deepcopy(found.each)))
    if value.kind != "row":
        raise NotDispatch(found.each, f"`{ast.unparse(found.each)}` gives no row for each row")
    returned = code(module, found.method, ast.Return(value.node), tuple(rows.used))
    forward = f"def forward({signature(found.method)}):\n    {returned}"
    text = edit("leave_the_counts_on_the_device", method, [ast.unparse(statement)], ["pass"])
    return [Declared(owner.name, members=(forward,)), Declared(counting.name, members=(text,))]


class _Whole(ast.NodeTransformer):
    """All rows in the place of one expert's."""

    def __init__(self, found: SplitRows) -> None:
        self.found = found

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if (dotted(node.value), dotted(node.slice)) == (self.found.part, self.found.index):
            return ast.copy_location(ast.Name(self.found.inputs, ast.Load()), node)
        return node


def _counting(module: Module, owner: Class, found: SplitRows) -> tuple[Class, ast.FunctionDef, ast.stmt]:
    """Who makes a list of the sizes, in which statement: everybody else who has them hands them on to the experts."""
    name, places = found.sizes, []
    for one in module.classes.values():
        for method in one.own.values():
            if one is owner:
                continue
            for statement in walk(method.body, ast.stmt):
                if ast.unparse(statement) == f"{name} = {name}.tolist()":
                    places.append((one, method, statement))
            handed = {id(read) for read in _handed_on(one, method, owner, name)}
            behind = places[-1][2].lineno if places and places[-1][1] is method else 0
            for read in walk(method.body, ast.Name):
                if (
                    read.id == name
                    and isinstance(read.ctx, ast.Load)
                    and id(read) not in handed
                    and read.lineno > behind
                ):
                    raise NotDispatch(read, f"`{name}` is read here too, as a list")
    if len(places) != 1:
        raise NotDispatch(found.method, f"`{name}` is made a list by nobody in this file, or by several")
    return places[0]


def _handed_on(one: Class, method: ast.FunctionDef, owner: Class, name: str) -> list[ast.expr]:
    """Where `name` is returned, put into a tuple, or given to the experts."""
    found: list[ast.expr] = []
    for node in walk(method.body, ast.AST):
        match node:
            case ast.Tuple(elts=elements):
                found += elements
            case ast.Call() if called(node).startswith("self.") and owner.name in held(one, called(node)[5:]):
                found += node.args
            case ast.Return(value=ast.expr() as value):
                found.append(value)
    return [each for each in found if dotted(each) == name]


def signature(method: ast.FunctionDef) -> str:
    """The parameters of `method`, without annotations."""
    arguments = copy.deepcopy(method.args)
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        arg.annotation = None
    return ast.unparse(arguments)

"""Experts that take the rows of all experts in one tensor, and the number of rows of each.

    parts = inputs.split(sizes, dim=0)
    for i in range(self.num_experts):
        out.append(F.linear(parts[i], self.weight[i]))
    return torch.cat(out, dim=0)

Takes such a class; returns the parts of the loop, and the statement that makes `sizes` a list.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, constant, dotted, method_of, receiver, walk
from patchgen.author.anatomy.dispatch import NotDispatch
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The parts of the loop.

    `each` is what expert `index` computes from its `part` of `inputs`, which is split by `sizes`.
    """

    method: ast.FunctionDef
    inputs: str
    sizes: str
    part: str
    index: str
    each: ast.expr


def split_rows(owner: Class) -> SplitRows | None:
    """The parts of the forward; None if it has another form."""
    method = owner.own["forward"]
    body = [
        node
        for node in method.body
        if not (isinstance(node, ast.Expr) and isinstance(constant(node.value), str))
    ]
    match body:
        case [
            ast.Assign(
                targets=[ast.Name(id=parts)], value=ast.Call(args=[ast.Name(id=sizes)]) as split
            ),
            ast.Assign(targets=[ast.Name(id=out)], value=ast.List(elts=[])),
            ast.For(
                target=ast.Name(id=index),
                iter=ast.Call(func=ast.Name(id="range")),
                body=[ast.Expr(value=ast.Call(args=[each]) as append)],
                orelse=[],
            ),
            ast.Assign(
                targets=[ast.Name(id=result)], value=ast.Call(args=[ast.Name(id=joined), *_]) as cat
            ),
            ast.Return(value=ast.Name(id=returned)),
        ]:
            if called(append) != f"{out}.append" or (joined, returned) != (out, result):
                return None
            if method_of(split) != "split" or called(cat) != "torch.cat":
                return None
            if _dim(split) != 0 or _dim(cat) != 0:
                return None
            inputs = dotted(receiver(split))
            if {inputs, sizes} <= {arg.arg for arg in method.args.args}:
                return SplitRows(method, inputs, sizes, parts, index, each)
    return None


def _dim(call: ast.Call) -> object:
    return next((constant(one.value) for one in call.keywords if one.arg == "dim"), None)


def counting(
    module: Module, owner: Class, found: SplitRows
) -> tuple[Class, ast.FunctionDef, ast.stmt]:
    """The class, method and statement that make `sizes` a list.

    Other code may only pass the sizes on to the experts.
    """
    name, places = found.sizes, []
    for one in module.classes.values():
        if one is owner:
            continue
        for method in one.own.values():
            start = 0  # the line from which the sizes are a list
            for statement in walk(method.body, ast.stmt):
                if ast.unparse(statement) == f"{name} = {name}.tolist()":
                    places.append((one, method, statement))
                    start = statement.lineno
            passed_on = {id(read) for read in _passed_on(one, method, owner, name)}
            for read in walk(method.body, ast.Name):
                is_read = read.id == name and isinstance(read.ctx, ast.Load)
                if is_read and read.lineno > start and id(read) not in passed_on:
                    raise NotDispatch(read, f"`{name}` is read here too, as a list")
    if len(places) != 1:
        what = f"`{name}` is made a list by {len(places)} statements of this file, not by one"
        raise NotDispatch(found.method, what)
    return places[0]


def _passed_on(one: Class, method: ast.FunctionDef, owner: Class, name: str) -> list[ast.expr]:
    """Where `name` is returned, put into a tuple, or passed to the experts."""
    found: list[ast.expr] = []
    for node in walk(method.body, ast.AST):
        match node:
            case ast.Tuple(elts=elements):
                found += elements
            case ast.Call() if called(node).startswith("self.") and owner.name in held(
                one, called(node)[5:]
            ):
                found += node.args
            case ast.Return(value=ast.expr() as value):
                found.append(value)
    return [each for each in found if dotted(each) == name]

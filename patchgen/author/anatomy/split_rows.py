"""Experts that are given their rows one behind the other, with how many each has, and go through them in a loop.

    parts = inputs.split(sizes, dim=0)
    for i in range(self.num_experts):
        out.append(F.linear(parts[i], self.weight[i]))
    return torch.cat(out, dim=0)

In: such a class.  Out: the parts of the loop, and who makes a list of the sizes.
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
            same = called(append) == f"{out}.append" and (joined, returned) == (out, result)
            rows = (
                method_of(split) == "split"
                and _dim(split) == 0
                and called(cat) == "torch.cat"
                and _dim(cat) == 0
            )
            inputs = dotted(receiver(split)) if isinstance(split.func, ast.Attribute) else ""
            given = {arg.arg for arg in method.args.args}
            if same and rows and {inputs, sizes} <= given:
                return SplitRows(method, inputs, sizes, parts, index, each)
    return None


def _dim(call: ast.Call) -> object:
    return next((constant(one.value) for one in call.keywords if one.arg == "dim"), None)


def counting(
    module: Module, owner: Class, found: SplitRows
) -> tuple[Class, ast.FunctionDef, ast.stmt]:
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
        raise NotDispatch(
            found.method, f"`{name}` is made a list by nobody in this file, or by several"
        )
    return places[0]


def _handed_on(one: Class, method: ast.FunctionDef, owner: Class, name: str) -> list[ast.expr]:
    """Where `name` is returned, put into a tuple, or given to the experts."""
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

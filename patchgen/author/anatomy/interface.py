"""Find where a class calls the attention interface of transformers, and its arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import dotted, last, method_of, names, stored, walk
from patchgen.author.anatomy.module import Class


@dataclass(frozen=True, eq=False)
class Interface:
    """`attention_interface = LOOKUP(NAME, EAGER)` in `method`, and the statements that call it."""

    owner: Class
    method: ast.FunctionDef
    lookup: ast.stmt
    eager: str
    calls: tuple[ast.Call, ...]

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords of the calls, with `**` for a dictionary."""
        return tuple(
            sorted({keyword.arg or "**" for call in self.calls for keyword in call.keywords})
        )

    @property
    def is_causal(self) -> tuple[str, ...]:
        """The value of `self.is_causal`.

        transformers takes a missing attribute, for which this is empty, as True.
        """
        values = [*self.owner.attributes.get("is_causal", ())]
        values += [value for name, value in self.owner.settings.items() if name == "is_causal"]
        return tuple(dict.fromkeys(ast.unparse(value) for value in values))


def interfaces(owner: Class) -> tuple[Interface, ...]:
    """Every look-up in the methods that `owner` itself defines."""
    found = []
    for method in owner.own.values():
        for lookup in walk(method.body, ast.stmt):
            call = getattr(lookup, "value", None)
            if not isinstance(call, ast.Call) or method_of(call) != "get_interface":
                continue
            names = stored(lookup)
            calls = tuple(one for one in walk(method.body, ast.Call) if dotted(one.func) in names)
            eager = last(dotted(call.args[1])) if len(call.args) > 1 else ""
            found.append(Interface(owner, method, lookup, eager, calls))
    return tuple(found)


def mentions(function: ast.FunctionDef, name: str) -> bool:
    """Whether `function` has a parameter of that name, or reads it from its keywords."""
    parameters = {arg.arg for arg in walk(function.args, ast.arg)}
    return name in parameters or any(
        node.value == name for node in walk(function.body, ast.Constant)
    )


def drops_a_sink(function: ast.FunctionDef) -> bool:
    """Whether an eager function adds a column `sinks` to the scores and drops its weights later."""
    adds_column = False
    for call in walk(function.body, ast.Call):
        if dotted(call.func) not in ("torch.cat", "torch.concat"):
            continue
        match call.args[0]:
            case ast.List(elts=[_, column]) | ast.Tuple(elts=[_, column]):
                adds_column = adds_column or "sinks" in names(column)
    slices = [ast.unparse(node.slice) for node in walk(function.body, ast.Subscript)]
    return adds_column and "(..., :-1)" in slices

"""Where a class calls transformers' attention interface: the look-up, the call, what the call is given."""

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
        """The keywords of the calls, `**` for what is spread."""
        return tuple(
            sorted({keyword.arg or "**" for call in self.calls for keyword in call.keywords})
        )

    @property
    def is_causal(self) -> tuple[str, ...]:
        """What `self.is_causal` is set to; empty where the attribute is missing, which transformers takes for True."""
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
    """Whether `function` has a parameter of that name, or asks its keywords for it."""
    parameters = {arg.arg for arg in walk(function.args, ast.arg)}
    return name in parameters or any(
        node.value == name for node in walk(function.body, ast.Constant)
    )


def drops_a_sink(function: ast.FunctionDef) -> bool:
    """Whether an eager function gives the scores a column `sinks`, and leaves its weights out behind the softmax."""
    columns = (
        names(call.args[0].elts[1])
        for call in walk(function.body, ast.Call)
        if dotted(call.func) in ("torch.cat", "torch.concat")
        and isinstance(call.args[0], ast.List | ast.Tuple)
        and len(call.args[0].elts) == 2
    )
    left = any(
        ast.unparse(node.slice) == "(..., :-1)" for node in walk(function.body, ast.Subscript)
    )
    return any("sinks" in found for found in columns) and left

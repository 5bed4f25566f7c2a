"""Where the mask that an attention is given comes from: transformers' mask functions, own code, or the caller.

transformers' functions make other masks for other implementations (additive under "eager"; boolean, or None, under
"sdpa").  Everything that reads such a mask must take both, and None means causal or not by who made it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.author.anatomy.calls import Calls
from patchgen.author.anatomy.code import called, last, names, walk
from patchgen.author.anatomy.module import Class, Module

CAUSAL = frozenset(
    {"create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask"}
)
BIDIRECTIONAL = frozenset({"create_bidirectional_mask", "create_bidirectional_sliding_window_mask"})
MADE_BY_CONFIG = CAUSAL | BIDIRECTIONAL


@dataclass(frozen=True, eq=False)
class Masks:
    """The origins of masks in one module."""

    module: Module
    calls: Calls
    _known: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    @property
    def follows_implementation(self) -> bool:
        """Whether the module calls transformers' mask functions at all."""
        return bool(MADE_BY_CONFIG & self.module.imports.keys())

    def origins(self, owner: Class, method: ast.FunctionDef, name: ast.Name) -> frozenset[str]:
        """Of the mask that `name` holds there: "causal", "bidirectional", "chosen:TEST", "own", or "caller".

        The last is what nothing in the file passes: the user does, or somebody in a way that cannot be followed.
        """
        return frozenset(self._named(owner, method, name.id, name.lineno, ()))

    def _named(
        self,
        owner: Class,
        method: ast.FunctionDef,
        name: str,
        line: int,
        below: tuple[tuple[str, str, str], ...],
    ) -> Iterator[str]:
        key = (owner.name, method.name, name)
        if key in below or len(below) > 12:
            return
        values = [
            node.value
            for node in walk(method.body, ast.Assign)
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
            and node.lineno < line
        ]
        made = [tag for value in values if (tag := self._made(method, value))]
        if made:
            yield from made
            return
        read = sorted(
            {
                other
                for value in values
                for other in names(value)
                if "mask" in other and other != name
            }
        )
        for other in read:
            yield from self._named(owner, method, other, line, (*below, key))
        if name in _parameters(method):
            yield from self._passed(owner, method, name, (*below, key))
        elif not read:
            yield "own"

    def _passed(
        self,
        owner: Class,
        method: ast.FunctionDef,
        name: str,
        below: tuple[tuple[str, str, str], ...],
    ) -> Iterator[str]:
        sites = [site for site in self.calls.sites if self._reaches(site.callee, owner, method)]
        if method.name == "forward":
            sites = [site for site in sites if site.attribute]
        else:
            sites = [
                site
                for site in sites
                if not site.attribute and last(called(site.call)) == method.name
            ]
        if not sites:
            yield "caller"
        for site in sites:
            value = site.passed(name, method)
            if value is None or isinstance(value, ast.Constant):
                continue
            if tag := self._made(site.method, value):
                yield tag
                continue
            for other in sorted(
                one for one in names(value) if "mask" in one or one in _parameters(site.method)
            ):
                yield from self._named(site.caller, site.method, other, site.call.lineno, below)

    def _reaches(self, callee: Class, owner: Class, method: ast.FunctionDef) -> bool:
        """Whether calling an instance of `callee` may run `method` of `owner`."""
        return callee is owner or callee.method(method.name) is method

    def _made(self, method: ast.FunctionDef, value: ast.expr) -> str:
        """What kind of mask a value is where it is made by a function."""
        functions = {last(called(call)) for call in walk(value, ast.Call)}
        for name in sorted(functions):
            if name in CAUSAL:
                return "causal"
            if name in BIDIRECTIONAL:
                return "bidirectional"
            if name.startswith("create_masks_for"):
                return "causal"
            if chosen := _chosen(method, name):
                return chosen
        if functions & {
            "get_extended_attention_mask",
            "invert_attention_mask",
            "_prepare_4d_attention_mask",
        }:
            return "own"
        return ""


def _chosen(method: ast.FunctionDef, name: str) -> str:
    """`mask_function = create_causal_mask if self.config.is_decoder else create_bidirectional_mask`."""
    for node in walk(method.body, ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.IfExp() as value) if (
                target == name
            ):
                if names(value.body) & CAUSAL and names(value.orelse) & BIDIRECTIONAL:
                    return f"chosen:{ast.unparse(value.test)}"
                if names(value.body) & CAUSAL and names(value.orelse) & CAUSAL:
                    return "causal"
    return ""


def _parameters(method: ast.FunctionDef) -> list[str]:
    arguments = method.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

"""Where the mask of an attention comes from: transformers, own code, or the caller.

The functions of transformers return different masks for each implementation: additive for "eager",
boolean or None for "sdpa".  Code that reads such a mask must accept all of them.  What None means,
causal or not, depends on the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.author.anatomy.calls import Calls, Site
from patchgen.author.anatomy.code import called, last, names, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL, EAGER_MASKS

MADE_BY_CONFIG = CAUSAL | BIDIRECTIONAL
MAX_DEPTH = 12  # calls through which a mask is followed


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
        """The origins of a mask: "causal", "bidirectional", "chosen:TEST", "own" or "caller".

        "caller": nothing in the file passes it; the user does, or it cannot be followed.
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
        if key in below or len(below) > MAX_DEPTH:
            return
        values = _values_before(method, name, line)
        made = [self._made(method, value) for value in values]
        if any(made):
            yield from (tag for tag in made if tag)
            return
        # The name is bound to another mask, or it is a parameter.
        read = sorted(other for other in names(values) if "mask" in other and other != name)
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
        sites = [site for site in self.calls.sites if self._runs(site, owner, method)]
        if not sites:
            yield "caller"
        for site in sites:
            value = site.passed(name, method)
            if value is None or isinstance(value, ast.Constant):
                continue
            if tag := self._made(site.method, value):
                yield tag
                continue
            parameters = _parameters(site.method)
            others = [other for other in names(value) if "mask" in other or other in parameters]
            for other in sorted(others):
                yield from self._named(site.caller, site.method, other, site.call.lineno, below)

    def _runs(self, site: Site, owner: Class, method: ast.FunctionDef) -> bool:
        """Whether the call at `site` may run `method` of `owner`."""
        if not self._reaches(site.callee, owner, method):
            return False
        if method.name == "forward":
            return bool(site.attribute)
        return not site.attribute and last(called(site.call)) == method.name

    def _reaches(self, callee: Class, owner: Class, method: ast.FunctionDef) -> bool:
        """Whether calling an instance of `callee` may run `method` of `owner`."""
        return callee is owner or callee.method(method.name) is method

    def _made(self, method: ast.FunctionDef, value: ast.expr) -> str:
        """The origin of a mask that a function creates; "" if no function does."""
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
        return "own" if functions & EAGER_MASKS else ""


def _chosen(method: ast.FunctionDef, name: str) -> str:
    """The origin for a function that is chosen: `name = create_causal_mask if TEST else ...`."""
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


def _values_before(method: ast.FunctionDef, name: str, line: int) -> list[ast.expr]:
    """The values that assignments before `line` give the name."""
    found = []
    for node in walk(method.body, ast.Assign):
        targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if name in targets and node.lineno < line:
            found.append(node.value)
    return found


def _parameters(method: ast.FunctionDef) -> list[str]:
    arguments = method.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

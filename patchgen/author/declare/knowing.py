"""Give an attention its configuration, which tells the implementation, if it has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import code, edit


class NeverBuilt(LookupError):
    """Nothing in the file builds it."""


@dataclass(frozen=True, eq=False)
class Knowing:
    """The edits for attentions of `module`, whose classes `declared` are the variant's own."""

    module: Module
    declared: Sequence[str]

    def members(self, owner: Class) -> Mapping[str, list[str]]:
        """The edits, by class, that give instances of `owner` their `config`, if they have none.

        Raises LookupError if code without a configuration builds one, and NeverBuilt if no code
        does, or only code that never runs.
        """
        init = owner.method("__init__")
        if "config" in owner.attributes:
            return {}
        if init is not None and _has_config(init) and owner.owner("__init__") is owner:
            old = "super().__init__()"
            return {
                owner.name: [edit("know_the_config", init, [old], [old, "self.config = config"])]
            }
        found: dict[str, list[str]] = {}
        for builder, method, built in self._builders(owner, ()):
            for name in sorted({called(call) for call in built}):
                count = sum(called(call) == name for call in built)
                old = self._code(method, f"{name}(...)")
                inside = (
                    ""
                    if last(name) in self._family(owner)
                    else f", {self._code(method, owner.name)}"
                )
                new = f"knowing(config, {old}{inside})"
                found.setdefault(builder.name, []).append(
                    edit("know_the_config", method, [old], [new], count=count)
                )
        return found

    def _code(self, method: ast.FunctionDef, text: str) -> str:
        return code(self.module, method, text, self.declared)

    def _builders(
        self, owner: Class, below: tuple[Class, ...]
    ) -> Iterator[tuple[Class, ast.FunctionDef, list[ast.Call]]]:
        """The methods with a configuration that build instances of `owner`, or their builders."""
        family, built_at_all = self._family(owner), False
        for builder in self.module.classes.values():
            for method in builder.own.values():
                built = [
                    call for call in walk(method.body, ast.Call) if last(called(call)) in family
                ]
                if not built:
                    continue
                built_at_all = True
                if _has_config(method):
                    yield builder, method, built
                elif builder in below:
                    raise LookupError
                else:
                    yield from self._builders(builder, (*below, owner))
        if not built_at_all:
            raise LookupError if owner.descends("PreTrainedModel") else NeverBuilt

    def _family(self, owner: Class) -> frozenset[str]:
        classes = self.module.classes.items()
        return frozenset(name for name, one in classes if one is owner or owner in one.parents)


def _has_config(init: ast.FunctionDef) -> bool:
    return any(arg.arg == "config" for arg in init.args.args)

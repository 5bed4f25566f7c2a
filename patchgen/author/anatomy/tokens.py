"""What looks at one token alone: modules that may run on any tokens in a row, whichever texts those are of.

In: a class and what its forward calls.  Out: the first call that may look at other tokens.  Attention is not asked.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field

from patchgen.author.anatomy.attention import Reason
from patchgen.author.anatomy.code import (
    CASTS,
    VIEWS,
    called,
    constant,
    dotted,
    last,
    method_of,
    walk,
)
from patchgen.author.anatomy.ffn import FUNCTIONS, role_of
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module

MODULES = frozenset({"Linear", "LayerNorm", "RMSNorm", "Embedding", "Dropout", "Identity"})
# Of values, their shapes and the caller's options.
METHODS = (
    VIEWS
    | CASTS
    | frozenset("append expand get items keys pop size square update".split())
    | {"detach"}
)
CALLED = frozenset(
    "apply_chunking_to_forward apply_rotary_pos_emb dropout enumerate get_interface getattr hasattr isinstance len "
    "range rsqrt slice super tuple type warning_once zip ValueError cast".split()
)
REDUCING = frozenset({"mean", "sum", "var", "pow", "chunk"})


@dataclass(frozen=True, eq=False)
class Tokens:
    """Asks the classes of `module`; `attending` are those that are known to keep texts apart."""

    module: Module
    attending: Collection[str]
    _known: dict[str, Reason | None] = field(default_factory=dict, repr=False)

    def beside(self, owner: Class) -> Reason | None:
        """Where an instance of `owner` may look at another token than the one that it computes."""
        if owner.name not in self._known:
            self._known[owner.name] = None  # a class that holds its own kind adds nothing
            self._known[owner.name] = self._of(owner)
        return self._known[owner.name]

    def _of(self, owner: Class) -> Reason | None:
        forward = owner.method("forward")
        methods = [forward] if forward is not None else []
        seen: set[str] = set()
        while methods:
            method = methods.pop()
            seen.add(method.name)
            for call in walk(method.body, ast.Call):
                name = called(call)
                own = (
                    owner.method(last(name))
                    if name.startswith("self.") and name.count(".") == 1
                    else None
                )
                if own is not None and own.name not in seen:
                    methods.append(own)
                elif own is None and (reason := self._call(owner, call, name)) is not None:
                    return reason
        return None

    def _call(self, owner: Class, call: ast.Call, name: str) -> Reason | None:
        if name.startswith("self.") and name.count(".") == 1:
            return self._held(owner, call, last(name))
        if (
            last(name) in CALLED | set(FUNCTIONS)
            or last(name).endswith(("Output", "Cache"))
            or "Output" in last(name)
        ):
            return None
        if method_of(call) in METHODS:
            return None
        if method_of(call) in REDUCING and _along_features(call):
            return None
        if (
            ast.unparse(call.func) == "super().forward"
            and {last(base) for base in owner.bases} <= MODULES
        ):
            return None
        if (
            isinstance(call.func, ast.Name)
            and not name[0].isupper()
            and self._is_local(owner, name)
        ):
            return None
        return Reason(call, f"`{name or method_of(call)}` of {owner.name} may look at other tokens")

    def unfit(self, owner: Class, call: ast.Call) -> Reason | None:
        """Why `call`, of a module that `owner` holds, may look at several of the tokens that it is given."""
        return self._held(owner, call, last(called(call)))

    def _held(self, owner: Class, call: ast.Call, attribute: str) -> Reason | None:
        made = self.held(owner, attribute)
        if role_of(owner, attribute) or (made and set(made) <= MODULES):
            return None
        classes = [self.module.classes[one] for one in made if one in self.module.classes]
        if not classes:
            return Reason(
                call, f"`self.{attribute}` of {owner.name} is not known to look at one token alone"
            )
        asked = [one for one in classes if one.name not in self.attending]
        return next((reason for one in asked if (reason := self.beside(one)) is not None), None)

    def _is_local(self, owner: Class, name: str) -> bool:
        """Whether a name is a member of a list of modules that the forward goes through, or the attention function."""
        forward = owner.method("forward")
        assert forward is not None
        loops = {
            one.id for loop in walk(forward.body, ast.For) for one in walk(loop.target, ast.Name)
        }
        return name in loops or name == "attention_interface"

    def layers(self, owner: Class) -> list[Class]:
        """The classes of what the forward of `owner` goes through."""
        forward = owner.method("forward")
        loops = walk(forward.body, ast.For) if forward is not None else ()
        lists = {node.attr for loop in loops for node in walk(loop.iter, ast.Attribute)}
        names = [
            name
            for attribute in owner.attributes
            if attribute in lists
            for name in self.held(owner, attribute)
        ]
        return [
            self.module.classes[name]
            for name in dict.fromkeys(names)
            if name in self.module.classes
        ]

    def held(self, owner: Class, attribute: str) -> tuple[str, ...]:
        """The classes of `self.ATTRIBUTE`, those included out of which a local name has one."""
        found: list[str] = []
        init = owner.method("__init__")
        for name in held(owner, attribute):
            picked = [
                inner.id
                for node in walk(init.body if init is not None else (), ast.Assign)
                if name not in self.module.classes
                and any(dotted(target) == name for target in node.targets)
                for inner in walk(node.value, ast.Name)
                if inner.id in self.module.classes
            ]
            found += picked or [name]
        return tuple(dict.fromkeys(found))


def _along_features(call: ast.Call) -> bool:
    """Whether it is over the last axis; a power is over none."""
    if method_of(call) == "pow":
        return True
    given = [*call.args, *(one.value for one in call.keywords if one.arg == "dim")]
    return bool(given) and constant(given[-1 if method_of(call) == "chunk" else 0]) == -1

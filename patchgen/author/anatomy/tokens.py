"""Whether modules compute each token alone, so that they can run on the tokens of several texts.

Takes a class; returns the first call of its forward that may look at other tokens.  Attentions are
left out.
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
# Methods of values, of their shapes and of options.
METHODS = (
    VIEWS
    | CASTS
    | frozenset("append expand get items keys pop size square update".split())
    | {"detach"}
)
CALLED = frozenset(
    "apply_chunking_to_forward apply_rotary_pos_emb dropout enumerate get_interface getattr "
    "hasattr isinstance len range rsqrt slice super tuple type warning_once zip ValueError "
    "cast".split()
)
REDUCING = frozenset({"mean", "sum", "var", "pow", "chunk"})


@dataclass(frozen=True, eq=False)
class Tokens:
    """The classes of `module`; `attending` are those that keep texts isolated."""

    module: Module
    attending: Collection[str]
    _known: dict[str, Reason | None] = field(default_factory=dict, repr=False)

    def beside(self, owner: Class) -> Reason | None:
        """Where an instance of `owner` may look at other tokens than the one that it computes."""
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
                own = owner.method(last(name)) if _is_own(name) else None
                if own is None:
                    reason = self._call(owner, call, name)
                    if reason is not None:
                        return reason
                elif own.name not in seen:
                    methods.append(own)
        return None

    def _call(self, owner: Class, call: ast.Call, name: str) -> Reason | None:
        """Why a call in the forward of `owner` may look at other tokens."""
        if _is_own(name):
            return self._held(owner, call, last(name))
        function, method = last(name), method_of(call)
        if function in CALLED or function in FUNCTIONS:
            return None
        if "Output" in function or function.endswith("Cache"):
            return None
        if method in METHODS or (method in REDUCING and _along_features(call)):
            return None
        bases = {last(base) for base in owner.bases}
        if ast.unparse(call.func) == "super().forward" and bases <= MODULES:
            return None
        is_local = isinstance(call.func, ast.Name) and not name[0].isupper()
        if is_local and self._is_local(owner, name):
            return None
        return Reason(call, f"`{name or method}` of {owner.name} may look at other tokens")

    def unfit(self, owner: Class, call: ast.Call) -> Reason | None:
        """Why `call`, of a module that `owner` holds, may look at several tokens."""
        return self._held(owner, call, last(called(call)))

    def _held(self, owner: Class, call: ast.Call, attribute: str) -> Reason | None:
        made = self.held(owner, attribute)
        if role_of(owner, attribute) or (made and set(made) <= MODULES):
            return None
        classes = [self.module.classes[one] for one in made if one in self.module.classes]
        if not classes:
            what = f"`self.{attribute}` of {owner.name} is not known to compute each token alone"
            return Reason(call, what)
        for one in classes:
            if one.name not in self.attending:
                reason = self.beside(one)
                if reason is not None:
                    return reason
        return None

    def _is_local(self, owner: Class, name: str) -> bool:
        """Whether a name is a loop variable of the forward, or the attention function."""
        forward = owner.method("forward")
        assert forward is not None
        loops = {
            one.id for loop in walk(forward.body, ast.For) for one in walk(loop.target, ast.Name)
        }
        return name in loops or name == "attention_interface"

    def layers(self, owner: Class) -> list[Class]:
        """The classes in the lists that the forward of `owner` goes through."""
        forward = owner.method("forward")
        loops = walk(forward.body, ast.For) if forward is not None else ()
        lists = {node.attr for loop in loops for node in walk(loop.iter, ast.Attribute)}
        names: list[str] = []
        for attribute in owner.attributes:
            if attribute in lists:
                names += self.held(owner, attribute)
        classes = self.module.classes
        return [classes[name] for name in dict.fromkeys(names) if name in classes]

    def held(self, owner: Class, attribute: str) -> tuple[str, ...]:
        """The classes of `self.ATTRIBUTE`, also if `__init__` chooses one by a local name."""
        found: list[str] = []
        for name in held(owner, attribute):
            found += self._choices(owner, name) or [name]
        return tuple(dict.fromkeys(found))

    def _choices(self, owner: Class, name: str) -> list[str]:
        """The classes that `__init__` assigns to a local name: `Norm = A if config.x else B`."""
        init = owner.method("__init__")
        if init is None or name in self.module.classes:
            return []
        found: list[str] = []
        for node in walk(init.body, ast.Assign):
            if name in map(dotted, node.targets):
                names = [inner.id for inner in walk(node.value, ast.Name)]
                found += [one for one in names if one in self.module.classes]
        return found


def _is_own(name: str) -> bool:
    """Whether it is an attribute of `self`: `self.dropout`, and not `self.layer.dropout`."""
    return name.startswith("self.") and name.count(".") == 1


def _along_features(call: ast.Call) -> bool:
    """Whether it reduces the last axis, or none, as a power."""
    if method_of(call) == "pow":
        return True
    given = [*call.args, *(one.value for one in call.keywords if one.arg == "dim")]
    if not given:
        return False
    # chunk(number, dim), but mean(dim)
    axis = given[-1] if method_of(call) == "chunk" else given[0]
    return constant(axis) == -1

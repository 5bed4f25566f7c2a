"""The attentions of a module: the classes that compute one, how, and what prevents SDPA.

The functions of transformers return different masks for each implementation: additive for "eager",
boolean or None for "sdpa".  What None means, causal or not, depends on the function.  No mask is
followed from there to an attention: where a module makes masks of one kind alone, and nothing but
attentions computes with them, each mask is of that kind; else every mask stays that of "eager".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.code import called, constant, dotted, method_of, names, stored, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.steps import Chain, Missed, chains
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL

CALL = "scaled_dot_product_attention"
MADE_BY_CONFIG = CAUSAL | BIDIRECTIONAL
# Names that show whether an attention looks at the states of another sequence.
CROSS = frozenset("is_cross_attention encoder_hidden_states key_value_states kv_states kv".split())
# Methods of a mask that do not depend on its values.
NOT_COMPUTING = ("to", "size", "dim", "view")
PICKED = frozenset({"eager", "sdpa", "flash_attention_2"})


@dataclass(frozen=True, eq=False)
class Interface:
    """`attention_interface = LOOKUP(NAME, EAGER)` in `method`, and the statements that call it."""

    owner: Class
    method: ast.FunctionDef
    lookup: ast.stmt
    calls: tuple[ast.Call, ...]

    @property
    def is_causal(self) -> set[str]:
        """The values of `self.is_causal`; transformers takes a missing attribute as True."""
        values = [*self.owner.attributes.get("is_causal", ())]
        values += [self.owner.settings["is_causal"]] if "is_causal" in self.owner.settings else []
        return set(map(ast.unparse, values))


@dataclass(frozen=True, eq=False)
class Attentions:
    """Every attention of `module`.

    With `whole_masks`, every mask is that of "eager", whatever implementation runs.
    """

    module: Module
    whole_masks: bool = False

    @cached_property
    def _by_class(self) -> list[tuple[list[Chain], list[Missed]]]:
        return [chains(owner) for owner in self.module.classes.values()]

    @cached_property
    def chains(self) -> list[Chain]:
        return [chain for written_out, _ in self._by_class for chain in written_out]

    @cached_property
    def missed(self) -> list[Missed]:
        return [missed for _, several in self._by_class for missed in several]

    @cached_property
    def interfaces(self) -> list[Interface]:
        interfaces = []
        for owner, method in self.module.methods:
            calls = list(walk(method.body, ast.Call))
            for lookup in walk(method.body, ast.stmt):
                if method_of(getattr(lookup, "value", None)) == "get_interface":
                    of_it = tuple(call for call in calls if dotted(call.func) in stored(lookup))
                    interfaces.append(Interface(owner, method, lookup, of_it))
        return interfaces

    @cached_property
    def makers(self) -> frozenset[str]:
        """The functions of transformers by which the module makes masks."""
        return MADE_BY_CONFIG & names(self.module.tree)

    @property
    def causal(self) -> bool:
        """Whether a mask of transformers is causal in this module."""
        return not self.whole_masks and bool(self.makers & CAUSAL)

    def flag(self, name: str) -> bool:
        """Whether some PreTrainedModel of the module sets the flag."""
        owners = self.module.classes.values()
        return any(constant(owner.settings.get(name)) is True for owner in owners)

    def follows(self, expression: ast.AST) -> bool:
        """Whether `expression` reads a mask that depends on the implementation."""
        is_mask = any("mask" in name for name in names(expression))
        return bool(self.makers) and not self.whole_masks and is_mask

    @property
    def reasons(self) -> Iterator[tuple[ast.AST, str]]:
        """Code that prevents masks for SDPA, because it needs another form of them; and why."""
        for table, classes in self.module.tables.items():
            if classes.keys() & PICKED:
                yield self.module.tree, f"`{table}` has classes of attention by implementation"
        if self.whole_masks:
            # Outside of methods no edit can change how masks are made.
            for name in walk(self.module.functions.values(), ast.Name):
                if name.id in MADE_BY_CONFIG:
                    yield name, f"`{name.id}` is called in a function of the module"
        elif self.makers:
            yield from self._two_kinds()
            yield from self._other_readers()

    def _two_kinds(self) -> Iterator[tuple[ast.AST, str]]:
        """Why a mask that is None may mean two things here."""
        if not self.causal:
            return
        if self.makers & BIDIRECTIONAL:
            yield self.module.tree, "masks are causal at one place and not at another"
        methods = [chain.method for chain in self.chains]
        for method in (*methods, *(interface.method for interface in self.interfaces)):
            if (stored(method.body) | {arg.arg for arg in walk(method.args, ast.arg)}) & CROSS:
                yield method, "an attention also looks at the states of another sequence"

    def _other_readers(self) -> Iterator[tuple[ast.AST, str]]:
        """Attentions that stay, and code outside of them, that compute with a mask for SDPA."""
        for missed in self.missed:
            if self.follows(missed.method):
                reader = f"{missed.owner.name} reads a mask that SDPA would get"
                yield missed.node, f"{reader}, and stays eager: {missed.why}"
        # The names under which masks go from where they are made to attentions.
        read: list[ast.AST] = [term.value for one in self.chains for term in one.scores.terms]
        read += [call for interface in self.interfaces for call in interface.calls]
        makers = [one for one in walk(self.module.tree, ast.Assign) if names(one) & MADE_BY_CONFIG]
        masks = {name for name in names(read) | stored(makers) if "mask" in name}
        written = {id(node) for chain in self.chains for node in ast.walk(chain.method)}
        for _, method in self.module.methods:
            for node in walk(method, ast.expr):
                operands = _operands(node) if id(node) not in written else []
                if any(isinstance(one, ast.Name) and one.id in masks for one in operands):
                    what = f"`{ast.unparse(node)[:60]}` computes with a mask that SDPA would get in"
                    yield node, f"{what} another form"

    @cached_property
    def calls_sdpa(self) -> bool:
        """Whether every attention that is written out has a call of SDPA as an alternative.

        It stands in the same method, or in another class of attention.
        """
        with_class = {
            table.get("eager") for table in self.module.tables.values() if "sdpa" in table
        }
        return self.flag("_supports_sdpa") and all(
            chain.owner.name in with_class
            or any(called(call).endswith(CALL) for call in walk(chain.method.body, ast.Call))
            for chain in self.chains
        )


def _operands(node: ast.expr) -> list[ast.expr]:
    """The values that `node` computes with: `a` and `b` of `a + b`, `-a`, `a.sum(b)` only `a`."""
    match node:
        case ast.UnaryOp(op=op, operand=operand):
            return [] if isinstance(op, ast.Not) else [operand]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=value)) if method_of(node) not in NOT_COMPUTING:
            return [value]
        case _:
            return []

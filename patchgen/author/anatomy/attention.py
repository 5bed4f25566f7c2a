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

from patchgen.author.anatomy.chain import Chain, Missed, chains
from patchgen.author.anatomy.code import (
    called,
    constant,
    dotted,
    method_of,
    names,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class, Module
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL

Reason = tuple[ast.AST, str]  # what shows that something is not done, and why
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
    def keywords(self) -> set[str | None]:
        return {keyword.arg for call in self.calls for keyword in call.keywords}

    @property
    def is_causal(self) -> tuple[str, ...]:
        """The value of `self.is_causal`.

        transformers takes a missing attribute, for which this is empty, as True.
        """
        values = [*self.owner.attributes.get("is_causal", ())]
        values += [self.owner.settings["is_causal"]] if "is_causal" in self.owner.settings else []
        return tuple(dict.fromkeys(ast.unparse(value) for value in values))


@dataclass(frozen=True, eq=False)
class Pick:
    """`TABLE[NAME]` in `method`: the class of an attention, by the name of an implementation.

    `eager` is the class that computes it in plain torch, `sdpa` the class that calls SDPA itself;
    "" without one.
    """

    owner: Class
    method: ast.FunctionDef
    node: ast.Subscript
    eager: str
    sdpa: str


@dataclass(frozen=True, eq=False)
class Attentions:
    """Every attention of `module`.

    With `whole_masks`, every mask is that of "eager", whatever implementation runs.
    """

    module: Module
    whole_masks: bool = False

    @cached_property
    def _by_class(self) -> tuple[tuple[tuple[Chain, ...], tuple[Missed, ...]], ...]:
        return tuple(chains(owner) for owner in self.module.classes.values())

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        return tuple(chain for written_out, _ in self._by_class for chain in written_out)

    @cached_property
    def missed(self) -> tuple[Missed, ...]:
        return tuple(missed for _, several in self._by_class for missed in several)

    @cached_property
    def interfaces(self) -> tuple[Interface, ...]:
        found = []
        for owner in self.module.classes.values():
            for method in owner.own.values():
                calls = list(walk(method.body, ast.Call))
                for lookup in walk(method.body, ast.stmt):
                    if method_of(getattr(lookup, "value", None)) == "get_interface":
                        functions = stored(lookup)
                        of = tuple(call for call in calls if dotted(call.func) in functions)
                        found.append(Interface(owner, method, lookup, of))
        return tuple(found)

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
        return any(
            constant(owner.settings.get(name)) is True for owner in self.module.classes.values()
        )

    def follows(self, expression: ast.AST) -> bool:
        """Whether `expression` reads a mask that depends on the implementation."""
        is_mask = any("mask" in name for name in names(expression))
        return bool(self.makers) and not self.whole_masks and is_mask

    @cached_property
    def _mask_names(self) -> frozenset[str]:
        """The names under which masks of transformers go from where they are made to attentions."""
        read: list[ast.AST] = [term.value for one in self.chains for term in one.scores.terms]
        read += [call for interface in self.interfaces for call in interface.calls]
        made = [one for one in walk(self.module.tree, ast.Assign) if names(one) & MADE_BY_CONFIG]
        return frozenset(name for name in names(read) | stored(made) if "mask" in name)

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Code that prevents masks for SDPA, because it needs another form of the masks."""
        return tuple(self._reasons())

    def _reasons(self) -> Iterator[Reason]:
        yield from self._chosen_classes()
        if self.whole_masks:
            yield from self._made_outside()
            return
        if not self.makers:
            return
        yield from self._two_kinds()
        for missed in self.missed:
            if self.follows(missed.method):
                reader = f"{missed.owner.name} reads a mask that SDPA would get"
                yield (missed.node, f"{reader}, and stays eager: {missed.why}")
        written = {id(node) for chain in self.chains for node in ast.walk(chain.method)}
        for owner in self.module.classes.values():
            for method in owner.own.values():
                yield from self._second_readers(method, written)

    def _two_kinds(self) -> Iterator[Reason]:
        """Why a mask that is None may mean two things here."""
        if not self.causal:
            return
        if self.makers & BIDIRECTIONAL:
            yield (self.module.tree, "masks are causal at one place and not at another")
        methods = [chain.method for chain in self.chains]
        methods += [interface.method for interface in self.interfaces]
        for method in methods:
            local = stored(method.body) | {arg.arg for arg in walk(method.args, ast.arg)}
            if local & CROSS:
                yield (method, "an attention also looks at the states of another sequence")

    @cached_property
    def picks(self) -> tuple[Pick, ...]:
        """Where a class of attention is chosen by the name of an implementation."""
        found = []
        for owner in self.module.classes.values():
            for method in owner.own.values():
                for node in walk(method.body, ast.Subscript):
                    table = self.module.tables.get(dotted(node.value), {})
                    if table.keys() & PICKED:
                        eager, sdpa = table.get("eager", ""), table.get("sdpa", "")
                        found.append(Pick(owner, method, node, eager, sdpa))
        return tuple(found)

    @cached_property
    def calls_sdpa(self) -> bool:
        """Whether every attention that is written out has a call of SDPA as an alternative.

        The alternative is in the same method, or in another class of attention.
        """
        if not self.flag("_supports_sdpa"):
            return False
        with_class = {pick.eager for pick in self.picks if pick.sdpa not in ("", pick.eager)}
        for chain in self.chains:
            functions = [called(call) for call in walk(chain.method.body, ast.Call)]
            calls_it = any(function.endswith(CALL) for function in functions)
            if chain.owner.name not in with_class and not calls_it:
                return False
        return True

    def _chosen_classes(self) -> Iterator[Reason]:
        for pick in self.picks:
            if not pick.eager:
                yield (pick.node, "there is no class of attention for eager")
            elif pick.sdpa not in ("", pick.eager):
                yield (pick.node, f"{pick.sdpa} computes the attention under SDPA already")

    def _made_outside(self) -> Iterator[Reason]:
        """Masks that are made outside of methods, where no edit can change them."""
        for function in self.module.functions.values():
            for name in walk(function, ast.Name):
                if name.id in MADE_BY_CONFIG:
                    yield (name, f"`{name.id}` is called in a function of the module")

    def _second_readers(self, method: ast.FunctionDef, written: set[int]) -> Iterator[Reason]:
        """Code outside an attention that computes with the mask of the attention."""
        for node in walk(method, ast.expr):
            if id(node) in written:
                continue
            for operand in _operands(node):
                if isinstance(operand, ast.Name) and operand.id in self._mask_names:
                    what = f"`{ast.unparse(node)[:60]}` computes with a mask that SDPA would get in"
                    yield (node, f"{what} another form")


def _operands(node: ast.expr) -> list[ast.expr]:
    """The values that `node` computes with: `a` and `b` of `a + b`, `-a`, `a.sum(b)` only `a`."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return []
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=value)) if method_of(node) not in NOT_COMPUTING:
            return [value]
        case _:
            return []

"""The attentions of a module: the classes that compute one, how, and what prevents SDPA."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.calls import Calls
from patchgen.author.anatomy.chain import Chain, Missed, chains
from patchgen.author.anatomy.code import called, constant, dotted, method_of, names, walk
from patchgen.author.anatomy.interface import Interface, interfaces
from patchgen.author.anatomy.masks import MADE_BY_CONFIG, Masks
from patchgen.author.anatomy.module import Class, Module, constructors

FOLLOWING = ("bidirectional", "causal", "chosen")


@dataclass(frozen=True, eq=False)
class Reason:
    """Why something is not done, and the node of the file that shows it."""

    node: ast.AST
    what: str


CALL = "scaled_dot_product_attention"
# Methods of a mask that do not depend on its values.
NOT_COMPUTING = ("to", "size", "dim")
PICKED = frozenset({"eager", "sdpa", "flash_attention_2"})


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
    def masks(self) -> Masks:
        return Masks(self.module, Calls(self.module))

    @cached_property
    def _by_class(self) -> tuple[tuple[tuple[Chain, ...], tuple[Missed, ...]], ...]:
        return tuple(chains(owner) for owner in self.module.classes.values())

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        return tuple(chain for found, _ in self._by_class for chain in found)

    @cached_property
    def missed(self) -> tuple[Missed, ...]:
        return tuple(missed for _, several in self._by_class for missed in several)

    @cached_property
    def interfaces(self) -> tuple[Interface, ...]:
        return tuple(found for owner in self.module.classes.values() for found in interfaces(owner))

    def flag(self, name: str) -> bool:
        """Whether some PreTrainedModel of the module sets the flag."""
        return any(
            constant(owner.settings.get(name)) is True for owner in self.module.classes.values()
        )

    def origins(self, owner: Class, method: ast.FunctionDef, expression: ast.AST) -> frozenset[str]:
        """Where the masks that `expression` reads come from."""
        tags: set[str] = set()
        for name in walk(expression, ast.Name):
            if "mask" in name.id:
                tags |= self.masks.origins(owner, method, name)
        return frozenset(tags)

    def follows(self, owner: Class, method: ast.FunctionDef, expression: ast.AST) -> bool:
        """Whether `expression` reads a mask that depends on the implementation."""
        return not self.whole_masks and any(
            tag.startswith(FOLLOWING) for tag in self.origins(owner, method, expression)
        )

    def calls_with(self, interface: Interface) -> frozenset[str]:
        """What makes the masks that an attention gives to the interface."""
        tags: set[str] = set()
        for call in interface.calls:
            tags |= self.origins(interface.owner, interface.method, call)
        return frozenset(tag.partition(":")[0] for tag in tags)

    def is_causal_wrong(self, interface: Interface) -> bool:
        """Whether an attention with a causal mask is declared as not causal.

        It can declare that itself, or get it as an argument where it is built.  The error does not
        show under "eager", where the mask always has all its values.
        """
        if self.whole_masks or "causal" not in self.calls_with(interface):
            return False
        if interface.is_causal == ("False",):
            return True
        init = interface.owner.method("__init__")
        if interface.is_causal != ("is_causal",) or init is None:
            return False
        for site in self.masks.calls.of(interface.owner):
            mask = site.passed("attention_mask", interface.method)
            if mask is None or "causal" not in self.origins(site.caller, site.method, mask):
                continue
            made: list[ast.Call] = []
            for value in site.caller.attributes.get(site.attribute, ()):
                made += constructors(value)
            keywords = [keyword for call in made for keyword in call.keywords]
            flags = [one.value for one in keywords if one.arg == "is_causal"]
            if len(flags) < len(made) or any(constant(flag) is False for flag in flags):
                return not _default_is_true(init, "is_causal")
        return False

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Code that prevents masks for SDPA, because it needs another form of the masks."""
        return tuple(self._reasons())

    def _reasons(self) -> Iterator[Reason]:
        yield from self._chosen_classes()
        if self.whole_masks:
            yield from self._made_outside()
            return
        if not self.masks.follows_implementation:
            return
        yield from self._unknown_masks()
        for missed in self.missed:
            masks = _mask_names(missed.method)
            if any(self.follows(missed.owner, missed.method, name) for name in masks):
                reader = f"{missed.owner.name} reads a mask that SDPA would get"
                yield Reason(missed.node, f"{reader}, and stays eager: {missed.why}")
        written = {id(one) for chain in self.chains for one in ast.walk(chain.method)}
        for owner in self.module.classes.values():
            for method in owner.own.values():
                yield from self._second_readers(owner, method, written)

    def _unknown_masks(self) -> Iterator[Reason]:
        """Attentions whose mask cannot be traced to a function that makes it."""
        for chain in self.chains:
            masks = [term.value for term in chain.scores.terms if _reads_mask(term.value)]
            if masks and not self._is_traced(chain, masks):
                yield Reason(masks[0], f"the mask of {chain.owner.name} cannot be followed")
        for interface in self.interfaces:
            owner, method = interface.owner, interface.method
            nodes = [node for call in interface.calls for node in _mask_names(call)]
            if nodes and not any(self.follows(owner, method, node) for node in nodes):
                yield Reason(interface.lookup, f"the mask of {owner.name} cannot be followed")

    def _is_traced(self, chain: Chain, masks: Sequence[ast.expr]) -> bool:
        """Whether the masks of a chain come from functions that are known."""
        tags: set[str] = set()
        for value in masks:
            tags |= self.origins(chain.owner, chain.method, value)
        return tags == {"own"} or any(tag.startswith(FOLLOWING) for tag in tags)

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
                yield Reason(pick.node, "there is no class of attention for eager")
            elif pick.sdpa not in ("", pick.eager):
                yield Reason(pick.node, f"{pick.sdpa} computes the attention under SDPA already")

    def _made_outside(self) -> Iterator[Reason]:
        """Masks that are made outside of methods, where no edit can change them."""
        for function in self.module.functions.values():
            for name in walk(function, ast.Name):
                if name.id in MADE_BY_CONFIG:
                    yield Reason(name, f"`{name.id}` is called in a function of the module")

    def _second_readers(
        self, owner: Class, method: ast.FunctionDef, written: set[int]
    ) -> Iterator[Reason]:
        """Code outside an attention that computes with the mask of the attention."""
        for node in walk(method, ast.expr):
            if id(node) in written:
                continue
            for operand in _operands(node):
                if not isinstance(operand, ast.Name) or "mask" not in operand.id:
                    continue
                if self.follows(owner, method, operand):
                    code = ast.unparse(node)[:60]
                    what = f"`{code}` computes with a mask that SDPA would get in another form"
                    yield Reason(node, what)


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


def _mask_names(node: ast.AST) -> list[ast.Name]:
    return [name for name in walk(node, ast.Name) if "mask" in name.id]


def _reads_mask(node: ast.AST) -> bool:
    return any("mask" in name for name in names(node))


def _default_is_true(method: ast.FunctionDef, name: str) -> bool:
    arguments = [*method.args.posonlyargs, *method.args.args]
    # Defaults belong to the last arguments, so both lists are read from the end.
    pairs = zip(reversed(arguments), reversed(method.args.defaults), strict=False)
    return any(arg.arg == name and constant(default) is True for arg, default in pairs)

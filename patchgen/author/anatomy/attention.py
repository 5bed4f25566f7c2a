"""The attentions of a module: which class computes one, how, and what keeps it from SDPA."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.calls import Calls
from patchgen.author.anatomy.chain import Chain, Missed, chains
from patchgen.author.anatomy.code import called, constant, dotted, method_of, names, walk
from patchgen.author.anatomy.interface import Interface, interfaces
from patchgen.author.anatomy.masks import MADE_BY_CONFIG, Masks
from patchgen.author.anatomy.module import Class, Module, constructors
from patchgen.author.anatomy.unasked import unasked_weights

FOLLOWING = ("bidirectional", "causal", "chosen")


@dataclass(frozen=True, eq=False)
class Reason:
    """Why something is not done, and where in the file that shows."""

    node: ast.AST
    what: str


CALL = "scaled_dot_product_attention"
PICKED = frozenset({"eager", "sdpa", "flash_attention_2"})


@dataclass(frozen=True, eq=False)
class Pick:
    """`TABLE[NAME]` in `method`: the class of an attention, by the name of an implementation.

    `eager` is the class that computes it in plain torch, `sdpa` the one that calls SDPA itself, "" without one.
    """

    owner: Class
    method: ast.FunctionDef
    node: ast.Subscript
    eager: str
    sdpa: str


@dataclass(frozen=True, eq=False)
class Attentions:
    """Every attention of `module`; with `whole_masks` every mask is the one of "eager", whatever runs."""

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
        """Whether `expression` reads a mask that is another one under another implementation."""
        return not self.whole_masks and any(
            tag.startswith(FOLLOWING) for tag in self.origins(owner, method, expression)
        )

    def calls_with(self, interface: Interface) -> frozenset[str]:
        """Who makes the masks that an attention gives to the interface."""
        tags: set[str] = set()
        for call in interface.calls:
            tags |= self.origins(interface.owner, interface.method, call)
        return frozenset(tag.partition(":")[0] for tag in tags)

    def is_causal_wrong(self, interface: Interface) -> bool:
        """Whether an attention that is given a causal mask says, or is told where it is built, that it is not causal.

        In eager mode nobody notices: there the mask is made in full.
        """
        if self.whole_masks or "causal" not in self.calls_with(interface):
            return False
        if interface.is_causal == ("False",):
            return True
        init = interface.owner.method("__init__")
        if interface.is_causal != ("is_causal",) or init is None:
            return False
        for site in self.masks.calls.of(interface.owner):
            made = [
                call
                for value in site.caller.attributes.get(site.attribute, ())
                for call in constructors(value)
            ]
            said = [
                keyword.value
                for call in made
                for keyword in call.keywords
                if keyword.arg == "is_causal"
            ]
            mask = site.passed("attention_mask", interface.method)
            causal = mask is not None and "causal" in self.origins(site.caller, site.method, mask)
            if causal and (
                len(said) < len(made) or any(constant(value) is False for value in said)
            ):
                return not _default_is_true(init, "is_causal")
        return False

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """What would go wrong if transformers made its masks for SDPA: whoever reads one and takes only another."""
        return tuple(self._reasons())

    def _reasons(self) -> Iterator[Reason]:
        yield from self._chosen_classes()
        for statement in unasked_weights(self.module):
            yield Reason(
                statement,
                "weights are returned whether they are asked for or not, and SDPA has none",
            )
        if self.whole_masks:
            yield from self._made_outside()
            return
        if not self.masks.follows_implementation:
            return
        for chain in self.chains:
            reads_masks = [
                term for term in chain.scores.terms if any("mask" in n for n in names(term.value))
            ]
            tags = {
                tag
                for term in reads_masks
                for tag in self.origins(chain.owner, chain.method, term.value)
            }
            if (
                reads_masks
                and not any(tag.startswith(FOLLOWING) for tag in tags)
                and tags != {"own"}
            ):
                what = f"which mask {chain.owner.name} is given cannot be followed"
                yield Reason(reads_masks[0].value, what)
        for interface in self.interfaces:
            masks = [
                node
                for call in interface.calls
                for node in walk(call, ast.Name)
                if "mask" in node.id
            ]
            if masks and not any(
                self.follows(interface.owner, interface.method, node) for node in masks
            ):
                yield Reason(
                    interface.lookup,
                    f"which mask {interface.owner.name} is given cannot be followed",
                )
        written = {id(one) for chain in self.chains for one in ast.walk(chain.method)}
        for missed in self.missed:
            masks = [n for n in walk(missed.method, ast.Name) if "mask" in n.id]
            if any(self.follows(missed.owner, missed.method, name) for name in masks):
                what = f"{missed.owner.name} reads a mask that SDPA would get, and stays eager: {missed.why}"
                yield Reason(missed.node, what)
        for owner in self.module.classes.values():
            for method in owner.own.values():
                yield from self._second_readers(owner, method, written)

    @cached_property
    def picks(self) -> tuple[Pick, ...]:
        """Where classes of attention are picked by the name of an implementation."""
        return tuple(
            Pick(owner, method, node, table.get("eager", ""), table.get("sdpa", ""))
            for owner in self.module.classes.values()
            for method in owner.own.values()
            for node in walk(method.body, ast.Subscript)
            if (table := self.module.tables.get(dotted(node.value), {})).keys() & PICKED
        )

    @cached_property
    def calls_sdpa(self) -> bool:
        """Whether every attention that is written out stands beside a call of SDPA, in its method or in a class."""
        beside = {pick.eager for pick in self.picks if pick.sdpa not in ("", pick.eager)}
        return self.flag("_supports_sdpa") and all(
            chain.owner.name in beside
            or any(called(call).endswith(CALL) for call in walk(chain.method.body, ast.Call))
            for chain in self.chains
        )

    def _chosen_classes(self) -> Iterator[Reason]:
        for pick in self.picks:
            if not pick.eager:
                yield Reason(pick.node, "no class of attention is there for eager")
            elif pick.sdpa not in ("", pick.eager):
                yield Reason(pick.node, f"{pick.sdpa} computes the attention under SDPA already")

    def _made_outside(self) -> Iterator[Reason]:
        """Masks that are made in no method, where no edit reaches them."""
        for function in self.module.functions.values():
            for name in walk(function, ast.Name):
                if name.id in MADE_BY_CONFIG:
                    yield Reason(name, f"`{name.id}` is called in a function of the module")

    def _second_readers(
        self, owner: Class, method: ast.FunctionDef, written: set[int]
    ) -> Iterator[Reason]:
        """Whoever computes with a mask that an attention gets, outside that attention."""
        for node in walk(method, ast.UnaryOp | ast.BinOp | ast.Call):  # type: ignore[arg-type]
            if id(node) in written:
                continue
            if isinstance(node, ast.Call):
                value = node.func.value if isinstance(node.func, ast.Attribute) else None
                if method_of(node) in ("to", "size", "dim") or not isinstance(value, ast.Name):
                    continue
                operands: list[ast.expr] = [value]
            else:
                operands = (
                    [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
                )
                if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                    continue
            for operand in operands:
                if not isinstance(operand, ast.Name) or "mask" not in operand.id:
                    continue
                if self.follows(owner, method, operand):
                    yield Reason(
                        node,
                        f"`{ast.unparse(node)[:60]}` computes with a mask that SDPA would get in another form",
                    )


def _default_is_true(method: ast.FunctionDef, name: str) -> bool:
    arguments = [*method.args.posonlyargs, *method.args.args]
    defaults = dict(
        zip([arg.arg for arg in arguments][::-1], method.args.defaults[::-1], strict=False)
    )
    return constant(defaults.get(name)) is True

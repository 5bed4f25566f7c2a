"""The attentions of a module, what prevents SDPA, and the layers and experts around them.

The functions of transformers return different masks for each implementation: additive for "eager",
boolean or None for "sdpa".  What None means, causal or not, depends on the function.  No mask is
followed from there to an attention: where a module makes masks of one kind alone, and nothing but
attentions computes with them, each mask is of that kind; else every mask stays that of "eager".

Layers are classes with an attention in a ModuleList, the innermost of nested lists.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.code import called, last, method_of, names, stored, walk
from patchgen.author.anatomy.module import LISTS, Class, Module
from patchgen.author.anatomy.steps import Chain, Missed, chains
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

MADE_BY_CONFIG = CAUSAL | BIDIRECTIONAL
# Names that show whether an attention looks at the states of another sequence.
CROSS = frozenset("is_cross_attention encoder_hidden_states key_value_states kv_states kv".split())
# Methods of a mask that do not depend on its values.
NOT_COMPUTING = ("to", "size", "dim", "view")
Reasons = Iterator[tuple[ast.AST, str]]  # where, and why
PICKED = frozenset({"eager", "sdpa", "flash_attention_2"})


@dataclass(frozen=True, eq=False)
class Interface:
    """`attention_interface = LOOKUP(NAME, EAGER)` in `method`, and the statements that call it."""

    owner: Class
    method: ast.FunctionDef
    lookup: ast.stmt
    calls: tuple[ast.Call, ...]


@dataclass(frozen=True, eq=False)
class Attentions:
    """Every attention of `module`; with `whole_masks`, every mask is that of "eager"."""

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
        return any(owner.says(name) for owner in self.module.classes.values())

    def follows(self, expression: ast.AST) -> bool:
        """Whether `expression` reads a mask that depends on the implementation."""
        is_mask = any("mask" in name for name in names(expression))
        return bool(self.makers) and not self.whole_masks and is_mask

    @property
    def reasons(self) -> Reasons:
        """Code that prevents masks for SDPA, because it needs another form of them; and why."""
        yield from self.obstacles
        yield from self.two_kinds

    @property
    def obstacles(self) -> Reasons:
        """Code that picks attentions, or computes with their masks; and why that prevents SDPA."""
        for name, table in self.module.tables.items():
            if table.keys() & PICKED and ("eager" not in table or "sdpa" in table):
                node = next(node for node in self.module.tree.body if name in stored(node))
                yield node, f"`{name}` has classes of attention by implementation"
        if self.whole_masks:
            # Outside of methods no edit can change how masks are made.
            for read in walk(self.module.functions.values(), ast.Name):
                if read.id in MADE_BY_CONFIG:
                    yield read, f"`{read.id}` is called in a function of the module"
        elif self.makers:
            yield from self._other_readers()

    @property
    def two_kinds(self) -> Reasons:
        """Why a mask that is None may mean two things here."""
        if not self.causal:
            return
        if self.makers & BIDIRECTIONAL:
            yield self.module.tree, "masks are causal at one place and not at another"
        methods = [chain.method for chain in self.chains]
        for method in (*methods, *(interface.method for interface in self.interfaces)):
            if not CROSS.isdisjoint([*stored(method.body), *parameters(method)]):
                yield method, "an attention also looks at the states of another sequence"

    def _other_readers(self) -> Reasons:
        """Attentions that stay, and code outside of them, that compute with a mask for SDPA."""
        for missed in self.missed:
            if self.follows(missed.method):
                reader = f"{missed.owner.name} reads a mask that SDPA would get"
                yield missed.node, f"{reader}, and stays eager: {missed.why}"
        read: list[ast.AST] = []
        written: set[ast.AST] = set()
        for chain in self.chains:
            read += [term.value for term in chain.scores.terms]
            written.update(ast.walk(chain.method))
        for interface in self.interfaces:
            read += interface.calls
        statements = walk(self.module.tree, ast.Assign)
        makers = [statement for statement in statements if names(statement) & MADE_BY_CONFIG]
        # The names under which masks go from where they are made to attentions.
        masks = {name for name in names(read) | stored(makers) if "mask" in name}
        for _, method in self.module.methods:
            for node in walk(method, ast.expr):
                if node in written or masks.isdisjoint(map(dotted, _operands(node))):
                    continue
                what = f"`{ast.unparse(node)[:60]}` computes with a mask that SDPA would get in"
                yield node, f"{what} another form"

    @cached_property
    def calls_sdpa(self) -> bool:
        """Whether each attention that is written out has SDPA in its method or another class."""
        if not self.flag("_supports_sdpa"):
            return False
        tables = self.module.tables.values()
        with_class = {table.get("eager") for table in tables if "sdpa" in table}
        for chain in self.chains:
            functions = map(called, walk(chain.method.body, ast.Call))
            in_method = any(name.endswith("scaled_dot_product_attention") for name in functions)
            if not in_method and chain.owner.name not in with_class:
                return False
        return True


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


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of one module."""

    module: Module

    @cached_property
    def attentions(self) -> Attentions:
        return Attentions(self.module)

    @cached_property
    def attending(self) -> frozenset[str]:
        """The classes that compute an attention, or hold such a class."""
        attending = {chain.owner.name for chain in self.attentions.chains}
        attending |= {interface.owner.name for interface in self.attentions.interfaces}
        attending |= {missed.owner.name for missed in self.attentions.missed if missed.attention}
        attending |= {name for name in self.module.classes if "ttention" in name}
        size = 0
        while size < len(attending):
            size = len(attending)
            for owner in self.module.classes.values():
                if self._holds(owner, attending):
                    attending.add(owner.name)
        return frozenset(attending)

    def _holds(self, owner: Class, names: Collection[str]) -> bool:
        """Whether `owner` has a class of `names` as a base or in an attribute."""
        reached = {parent.name for parent in owner.parents}
        for attribute, values in owner.attributes.items():
            reached.update(owner.held(attribute))
            for value in values:
                match value:
                    # `TABLE[NAME](...)` creates one of the classes in the table.
                    case ast.Call(func=ast.Subscript(value=table)):
                        reached.update(self.module.tables.get(dotted(table), {}).values())
        return not reached.isdisjoint(names)

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """The classes in the innermost lists of layers."""
        every: list[Class] = []
        owners: set[Class] = set()
        for owner in self.module.classes.values():
            for attribute, values in owner.attributes.items():
                if not any(last(called(value)) in LISTS for value in values):
                    continue
                held = self.module.held(owner, attribute)
                layers = [layer for layer in held if self._is_layer(layer)]
                every += layers
                if layers:
                    owners.add(owner)
        innermost = [layer for layer in every if owners.isdisjoint(self.inside([layer]))]
        return tuple(dict.fromkeys(innermost))

    def _is_layer(self, layer: Class) -> bool:
        """Whether a class holds an attention, and is none itself: XLM has a list of attentions."""
        attends = layer.name in self.attending and layer.method("forward") is not None
        return attends and self._holds(layer, self.attending - {layer.name})

    def inside(self, layers: Iterable[Class]) -> tuple[Class, ...]:
        """The layers, every class of the module that they hold at any depth, and their bases."""
        seen: set[Class] = set()
        todo = list(layers)
        while todo:
            owner = todo.pop()
            if owner not in seen:
                seen.add(owner)
                todo += [*self.module.held(owner), *owner.parents]
        return tuple(owner for owner in self.module.classes.values() if owner in seen)


def experts(module: Module) -> dict[Class, str]:
    """The classes that hold experts, in the order of the file, and how each runs them.

    By the "interface" of transformers, in a "loop", "dense" (every expert gets every token) or
    "gathered" (the rows of the best experts are read from a table).
    """
    kinds = {owner: _kind(owner) for owner in module.classes.values()}
    return {owner: kind for owner, kind in kinds.items() if kind}


def _kind(owner: Class) -> str:
    if any("use_experts_implementation" in ast.unparse(d) for d in owner.node.decorator_list):
        return "interface"
    body = owner.forward()
    for loop in walk(body, ast.For):
        if "expert" in ast.unparse(loop.target) + ast.unparse(loop.iter):
            return "loop"
    functions = {last(called(call)) for call in walk(body, ast.Call)}
    if "expert" in owner.name.lower() and "bmm" in functions:
        return "dense"
    tables = {n for n in owner.attributes if "Embedding" in owner.held(n)}
    return "gathered" if "topk" in functions and functions & tables else ""

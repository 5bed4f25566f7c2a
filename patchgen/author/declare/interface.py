"""The sdpa part by the attention interface of transformers.

Before, in the `forward` of an attention that writes its scores out::

    scores = torch.matmul(query_layer, key_layer.transpose(-1, -2)) / math.sqrt(self.head_size)
    ...
    context = torch.matmul(probs, value_layer)
    context = context.permute(0, 2, 1, 3).contiguous()

After: these statements are the `eager_attention_forward` of the module, so that "eager" is equal to
the parent to the last bit, and `forward` looks up an attention function and calls it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.chain import Chain
from patchgen.author.anatomy.code import called, dotted, names, parsed, stored, walk
from patchgen.author.anatomy.interface import Interface
from patchgen.author.anatomy.module import Module
from patchgen.author.anatomy.scores import Term
from patchgen.author.anatomy.torch_calls import torch_calls
from patchgen.author.declare.chains import ChainEdit, Refused
from patchgen.author.declare.edits import OUTSIDE, code, edit, imports_for, local_names
from patchgen.author.declare.knowing import Knowing, NeverBuilt
from patchgen.author.declare.variant import Contribution, Declared, Missing

NOT_IN_SDPA = frozenset({"block_indices", "indices", "s_aux", "sinks", "softcap"})
SAYS = (
    'Attention is called by transformers\' interface: `attn_implementation` is "sdpa" (the '
    'default), "eager" (the parent\'s own scores), "flex_attention", {flash}a kernel from the hub '
    'or a function of your own. Attention weights are given under "eager".'
)
EAGER = "eager_attention_forward"

LOOKUP = (
    "attention_interface: Callable = "
    f"ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, {EAGER})"
)

SIGNATURE = (
    "module: nn.Module",
    "query: torch.Tensor",
    "key: torch.Tensor",
    "value: torch.Tensor",
    "attention_mask: torch.Tensor | None",
    "scaling: float",
    "dropout: float = 0.0",
)

BIAS = "position_bias"

BIAS_PARAMETER = f"{BIAS}: torch.Tensor | None = None"

# From (batch, heads, queries, size) to (batch, queries, heads, size), which the interface returns.
TO_ROWS = ("permute(0, 2, 1, 3)", "transpose(1, 2)")


def by_interface(
    module: Module, found: Attentions, missed: tuple[Missing, ...]
) -> Contribution | None:
    """What the part declares for `module`; None if an attention does not fit the interface."""
    if found.whole_masks or found.reasons or found.picks or torch_calls(module):
        return None
    if found.flag("_supports_flash_attn"):
        return None
    if any(_is_more(found, interface) for interface in found.interfaces):
        return None
    try:
        written = [EagerFunction(found, chain) for chain in found.chains]
        functions = tuple(dict.fromkeys(one.function() for one in written))
        members = _members(module, written)
    except Unfit:
        return None
    # A module has one eager function, and must not have one of that name already.
    has_name = EAGER in module.functions or EAGER in module.imports
    if len(functions) > 1 or (functions and has_name):
        return None
    for interface in found.interfaces:
        if not interface.is_causal:
            causal = "causal" in found.calls_with(interface)
            members.setdefault(interface.owner.name, []).append(f"is_causal = {causal}")
    biased = any(one.biased for one in written)
    biased = biased or any(BIAS in one.keywords for one in found.interfaces)
    # FlashAttention takes no bias.
    flash = not biased and not missed
    declared = [Declared(name, members=tuple(texts)) for name, texts in members.items()]
    declared += [Declared(owner.name, members=(_flags(flash),)) for owner in module.pretrained]
    says = SAYS.format(flash='"flash_attention_2" and its successors, ' if flash else "")
    texts = [*functions]
    for several in members.values():
        texts += several
    return Contribution("sdpa", says, tuple(declared), _imports(texts), missed, functions=functions)


def _is_more(found: Attentions, interface: Interface) -> bool:
    """Whether a call of the interface has arguments that not every implementation takes."""
    if found.calls_with(interface) & {"own", "caller"}:
        return True  # flash and flex attention take only the masks of transformers
    return bool(NOT_IN_SDPA & set(interface.keywords)) or found.is_causal_wrong(interface)


def _flags(flash: bool) -> str:
    flags = ["_supports_sdpa", *(["_supports_flash_attn"] if flash else []), "_supports_flex_attn"]
    return "\n".join(f"{flag} = True" for flag in [*flags, "_supports_attention_backend"])


def _members(module: Module, written: Sequence[EagerFunction]) -> dict[str, list[str]]:
    knowing = Knowing(module, [one.chain.owner.name for one in written])
    members: dict[str, list[str]] = {}
    for one in written:
        owner = one.chain.owner
        texts = members.setdefault(owner.name, [])
        texts += one.members()
        try:
            more = knowing.members(owner)
        except (NeverBuilt, LookupError) as error:
            raise Unfit(f"{owner.name} is built without a configuration") from error
        if more.keys() - {owner.name}:
            raise Unfit(f"{owner.name} is told of its configuration by who builds it")
        texts += [text for text in more.get(owner.name, ()) if text not in texts]
        names = [text.partition("def ")[2].partition("(")[0] for text in texts if "def " in text]
        if len(names) > len(set(names)):
            raise Unfit(f"{owner.name} has several attentions")
    return members


def _imports(texts: Sequence[str]) -> tuple[str, ...]:
    read = {
        node.id
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }
    lines = [*imports_for(texts)]
    if "edit" in read:
        lines.append("from patchgen.edits import edit, new, old")
    if EAGER in read:
        lines.append("from collections.abc import Callable")
        lines.append("from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS")
    return tuple(lines)


class Unfit(Exception):
    """The attention is no function of query, key, value and mask; the message tells why."""


@dataclass(frozen=True, eq=False)
class EagerFunction:
    """Writes the function and the edit for one attention that is written out in a method."""

    attentions: Attentions
    chain: Chain

    @property
    def biased(self) -> bool:
        return any(_is_bias(term) for term in self.chain.scores.terms)

    @property
    def _statements(self) -> tuple[ast.stmt, ...]:
        return self.chain.suite[self.chain.first : self.chain.last + 1]

    def function(self) -> str:
        """The parent's statements as a function of the module."""
        self._refuse()
        weights = self._weights()
        renamed = _Renamed(self._places(), self.chain)
        body = [ast.unparse(renamed.visit(copy.deepcopy(node))) for node in self._statements[:-1]]
        product = ast.unparse(renamed.visit(copy.deepcopy(self.chain.context.node)))
        signature = [*SIGNATURE, *([BIAS_PARAMETER] if self.biased else []), "**kwargs"]
        lines = [
            f"def {EAGER}(",
            *(f"    {each}," for each in signature[:-1]),
            "    **kwargs,",
            "):",
        ]
        lines += [f"    {line}" for text in body for line in text.splitlines()]
        turned = ast.unparse(parsed(f"({product}).transpose(1, 2).contiguous()"))
        lines += [f"    attn_output = {turned}", f"    return attn_output, {weights}"]
        text = "\n".join(lines)
        self._refuse_locals(text)
        return text

    def _refuse(self) -> None:
        chain, scores = self.chain, self.chain.scores
        if chain.kept or scores.heads is not None:
            raise Unfit("its statements are more than one attention of four axes")
        for node in (scores.query, scores.key, chain.context.value):
            if not isinstance(node, ast.Name):
                raise Unfit(f"`{ast.unparse(node)}` is no name")
        self._mask()

    def _mask(self) -> Term | None:
        """The mask of transformers among the terms; the only other one may be a bias."""
        terms = self.chain.scores.terms
        masks = [term for term in terms if not _is_bias(term)]
        if len(masks) > 1 or len(terms) - len(masks) > 1:
            raise Unfit("more is added to the scores than a mask and a bias")
        if not masks:
            return None
        mask = masks[0]
        is_added = mask.kind == "add" and not mask.factors
        follows = self.attentions.follows(self.chain.owner, self.chain.method, mask.value)
        if not is_added or not follows or len(_masks_in(mask.value)) != 1:
            raise Unfit("its mask is not that of transformers")
        return mask

    def _places(self) -> Mapping[str, str]:
        """The names of the method, each with that of the function."""
        chain, mask = self.chain, self._mask()
        places = {}
        for node, name in (
            (chain.scores.query, "query"),
            (chain.scores.key, "key"),
            (chain.context.value, "value"),
        ):
            assert isinstance(node, ast.Name)
            places[node.id] = name
        if len(places) < 3:
            raise Unfit("query, key and value are not three names")
        if mask is not None:
            places[_masks_in(mask.value)[0]] = "attention_mask"
        return places

    def _weights(self) -> str:
        """The name of the weights that are read after the attention, else of those it uses."""
        later = ChainEdit(self.attentions, self.chain).weights_read_later()
        if len(later) > 1:
            raise Unfit("more than one kind of weights is read")
        left = [name for name in names(self.chain.context.node) if name in self.chain.weights]
        if not later and len(left) != 1:
            raise Unfit("which name holds its weights is not known")
        return later[0] if later else left[0]

    def _refuse_locals(self, text: str) -> None:
        """Refuse names of the method that the function does not have."""
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        known = {
            "module",
            *stored(function.body),
            *(arg.arg for arg in walk(function.args, ast.arg)),
        }
        for name in walk(function.body, ast.Name):
            if name.id in known or name.id in OUTSIDE:
                continue
            module = self.attentions.module
            if name.id in local_names(self.chain.method) or name.id in module.functions:
                raise Unfit(f"`{name.id}` is a name of the method")
            if name.id in module.imports or name.id in module.classes:
                raise Unfit(f"`{name.id}` is a name of the module")

    def members(self) -> list[str]:
        """The edit of the method, and the attribute `is_causal` if it is needed."""
        causal = self._causal()
        declared = (
            "is_causal" in self.chain.owner.attributes or "is_causal" in self.chain.owner.settings
        )
        constant = causal in ("True", "False") and not declared
        old, new = self._old_and_new([] if constant else [f"is_causal={causal}"])
        member = edit("call_the_interface", self.chain.method, old, new)
        return [*([f"is_causal = {causal}"] if constant else []), member]

    def _causal(self) -> str:
        mask = self._mask()
        if mask is None:
            return "False"
        try:
            return ChainEdit(self.attentions, self.chain).causal(mask)
        except Refused as refused:
            raise Unfit(refused.reason.what) from refused

    def _old_and_new(self, keywords: Sequence[str]) -> tuple[list[str], list[str]]:
        chain, suite = self.chain, self.chain.suite
        target, rest, last = self._result()
        between = ["..."] if last > chain.first + 1 else []
        old = [self._code(suite[chain.first]), *between, self._code(suite[last])]
        weights = ChainEdit(self.attentions, chain).weights_read_later() or ["_"]
        new = [LOOKUP, f"{target}, {weights[0]} = {self._call(keywords)}", *rest]
        return old, new

    def _result(self) -> tuple[str, list[str], int]:
        """(name of the output, statements that use it, number of the last replaced statement)."""
        chain = self.chain
        last = chain.suite[chain.last]
        match last:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                pass
            case _:
                raise Unfit("the product with the values is given no name")
        if value is chain.context.node:
            following = chain.suite[chain.last + 1] if chain.last + 1 < len(chain.suite) else None
            turned = [f"{target} = {target}.{each}" for each in TO_ROWS]
            turned += [f"{each}.contiguous()" for each in turned]
            if following is None or ast.unparse(following) not in turned:
                raise Unfit("nothing shows that the output has four axes")
            return target, [], chain.last + 1
        product = ast.unparse(chain.context.node)
        for each in TO_ROWS:
            turned_text = ast.unparse(ast.parse(f"({product}).{each}", mode="eval"))
            text = ast.unparse(value)
            if turned_text in text:
                rest = text.replace(turned_text, "attn_output")
                return "attn_output", [f"{target} = {rest}"], chain.last
        raise Unfit("nothing shows that the output has four axes")

    def _call(self, keywords: Sequence[str]) -> str:
        chain, mask = self.chain, self._mask()
        states = [
            ast.unparse(each)
            for each in (chain.scores.query, chain.scores.key, chain.context.value)
        ]
        given = ["self", *states, _masks_in(mask.value)[0] if mask is not None else "None"]
        if chain.dropout is not None:
            given.append(f"dropout={ast.unparse(chain.dropout)}")
        given.append(f"scaling={ChainEdit(self.attentions, chain).scaling()}")
        given += keywords
        given += [f"{BIAS}={BIAS}"] if self.biased else []
        return f"attention_interface({', '.join(given)})"

    def _code(self, node: ast.AST) -> str:
        return code(self.attentions.module, self.chain.method, node, (EAGER,))


class _Renamed(ast.NodeTransformer):
    """Renames `self` to `module`, and other names; calls a dropout of the module by its rate."""

    def __init__(self, places: Mapping[str, str], chain: Chain) -> None:
        self.places = places
        self.chain = chain

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = "module" if node.id == "self" else self.places.get(node.id, node.id)
        return ast.copy_location(ast.Name(name, node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        drops = called(node).startswith("self.") and "drop" in called(node) and len(node.args) == 1
        if drops and self.chain.dropout is not None:
            dropped = ast.parse(
                "nn.functional.dropout(x, p=dropout, training=module.training)", mode="eval"
            ).body
            assert isinstance(dropped, ast.Call)
            dropped.args[0] = self.visit(node.args[0])
            return dropped
        return self.generic_visit(node)


def _is_bias(term: Term) -> bool:
    return term.kind == "add" and not term.factors and dotted(term.value) == BIAS


def _masks_in(value: ast.expr) -> list[str]:
    return list(dict.fromkeys(node.id for node in walk(value, ast.Name) if "mask" in node.id))

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
from collections.abc import Sequence

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.interface import Interface
from patchgen.author.anatomy.module import Module
from patchgen.author.anatomy.torch_calls import torch_calls
from patchgen.author.declare.eager_function import BIAS, EAGER, EagerFunction, Unfit
from patchgen.author.declare.edits import imports_for
from patchgen.author.declare.knowing import Knowing, NeverBuilt
from patchgen.author.declare.variant import Contribution, Declared, Missing

NOT_IN_SDPA = frozenset({"block_indices", "indices", "s_aux", "sinks", "softcap"})
SAYS = (
    'Attention is called by transformers\' interface: `attn_implementation` is "sdpa" (the '
    'default), "eager" (the parent\'s own scores), "flex_attention", {flash}a kernel from the hub '
    'or a function of your own. Attention weights are given under "eager".'
)


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

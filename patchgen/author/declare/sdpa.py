"""The sdpa part: an edit of each attention, its configuration if it has none, and the flags."""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import MADE_BY_CONFIG, Attentions, Interface
from patchgen.author.anatomy.code import called, dotted, names, parameters, parsed, stored, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.anatomy.steps import Chain, Missed, Term
from patchgen.author.declare import interface
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.compiler.edits.pattern import find

if TYPE_CHECKING:
    from patchgen.verify.parts.part_check import PartCheck

SAYS = (
    "Attention is one call of `scaled_dot_product_attention`; see `patchgen.parts.sdpa`. "
    '`attn_implementation` is "sdpa" (the default) or "eager", under which the parent\'s own '
    "statements run, as they do where attention weights are asked for."
)
CONNECTED = (
    'Attention is called by transformers\' interface: `attn_implementation` is "sdpa" (the '
    "default){others}."
)
WHOLE_MASKS = (
    'Masks are those of "eager" under "sdpa" too (`for_eager`): they are read otherwise than by '
    "attentions that say whether they are causal."
)
REDUNDANT = (
    "{alias} calls transformers' attention interface and takes SDPA already. Your own function "
    "takes its place by\n"
    "    from transformers import AttentionInterface\n"
    "    AttentionInterface.register('mine', mine)\n"
    "    AutoModel.from_pretrained(..., attn_implementation='mine')"
)
REDUNDANT_OWN = (
    "{alias} calls scaled_dot_product_attention itself where attn_implementation is "
    '"sdpa", its default'
)
ASKED = "output_attentions"
IMPORTED = ("attend", "wants_weights", "additive_mask", "blank_scores")
# Where a module builds models of other files, which may not know SDPA.
AROUND = re.compile(r"from_config\(|load_backbone\(|from (\.|\.\.\w+\.)modeling_")
NOT_IN_SDPA = frozenset({"block_indices", "indices", "sinks", "softcap"})


@refusing
def sdpa(module: Module) -> Contribution:
    """What the part declares for `module`."""
    attns = Attentions(module)
    if not attns.chains and not attns.interfaces:
        missed = [o for o in attns.missed if o.attention or "ttention" in o.owner.name]
        why = _missed(attns, missed, " stays eager", True)
        if not why:
            raise Unfit(None, "no attention is computed in this file")
        return Contribution("sdpa", missing=why)
    if not attns.chains and attns.flag("_supports_sdpa"):
        return replace(_written(module, attns), redundant=REDUNDANT.format(alias=module.alias))
    if attns.chains and attns.calls_sdpa:
        return Contribution("sdpa", redundant=REDUNDANT_OWN.format(alias=module.alias))
    if not module.pretrained:
        raise Unfit(None, "no class of this file stands below PreTrainedModel")
    around = AROUND.search(module.source.text) is not None
    calls = None if around else interface.calls(attns)
    if calls:
        return _connected(module, attns, calls)
    written = _written(module, attns)
    if written.declared or not attns.makers:
        return written
    # Other code reads the masks too, or it is not known what reads them: keep those of "eager".
    return _written(module, replace(attns, whole_masks=True))


def _connected(module: Module, attns: Attentions, calls: Sequence[interface.Call]) -> Contribution:
    """Each attention calls transformers' interface, and the flags say what it takes."""
    members: dict[str, list[str]] = {}
    for call in calls:
        name = call.chain.owner.name
        members.setdefault(name, []).extend(interface.members(attns, call))
        for owner, text in interface.edits_around(attns, call):
            members.setdefault(owner, []).append(text)
    told = _configuration(dict.fromkeys(call.chain.owner for call in calls), members)
    _add_only_classes(module, members)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    blocks = all(call.takes_blocks for call in calls)
    plain = blocks and not any(call.bias for call in calls)
    names = ["sdpa", *["flash_attn"] * plain, *["flex_attn", "attention_backend"] * blocks]
    flags = "\n".join(f"_supports_{name} = True" for name in names)
    mixins = ("TellsConfig",) * told
    declared += [Declared(owner.name, mixins, members=(flags,)) for owner in module.pretrained]
    flash = ', "flash_attention_2" and its successors' * plain
    others = f', "eager"{flash}, "flex_attention" or a function of your own' * blocks
    says = CONNECTED.format(others=others or ' or "eager"')
    return Contribution("sdpa", says, tuple(declared))


def _written(module: Module, attns: Attentions) -> Contribution:
    written = {chain.method for chain in attns.chains}
    stay = [miss for miss in attns.missed if miss.attention]
    # Attentions in a method with another one that is replaced.
    left = _missed(attns, [o for o in stay if o.method in written], " would stay eager", True)
    fatal = [Missing(module.at(node), what, True) for node, what in attns.reasons]
    if fatal := [*fatal, *left]:
        return Contribution("sdpa", missing=tuple(dict.fromkeys(fatal)))
    members: dict[str, list[str]] = {}
    missing = [*_missed(attns, stay, " stays eager")]
    computed: list[Chain | Interface] = [*attns.chains, *attns.interfaces]
    for one in computed:
        name = one.owner.name
        try:
            texts = _chain_edit(attns, one) if isinstance(one, Chain) else _calls(attns, one)
            members.setdefault(name, []).extend(texts)
        except Unfit as no:
            missing.append(Missing(module.at(no.node or module.tree), f"{name}: {no.why}", True))
    if any(miss.fatal for miss in missing) or not members:
        return Contribution("sdpa", missing=tuple(missing))
    told = _configuration(dict.fromkeys(chain.owner for chain in attns.chains), members)
    _add_only_classes(module, members)
    for owner, method in module.methods:  # a layer may always take weights, and not return them
        for call in walk(method.body, ast.Call) if ASKED in parameters(method) else ():
            if any(ast.unparse(keyword) == f"{ASKED}=True" for keyword in call.keywords):
                old, new = (f"{called(call)}(..., {ASKED}={value})" for value in ("True", ASKED))
                text = edit("take_weights_if_asked", method, [old], [new])
                members.setdefault(owner.name, []).append(text)
    for owner, method in module.methods if attns.whole_masks else ():
        read = [node.id for node in walk(method.body, ast.Name) if node.id in MADE_BY_CONFIG]
        for name in sorted(set(read)):
            new, count = f"for_eager({name})", read.count(name)
            text = edit("make_the_mask_of_eager", method, [name], [new], count=count)
            members.setdefault(owner.name, []).append(text)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    around = AROUND.search(module.source.text) is not None
    mixins = ["SdpaAroundModels" if around else "SdpaOrEager", *["TellsConfig"] * told]
    declared += [Declared(owner.name, (*mixins,)) for owner in module.pretrained]
    says = f"{SAYS} {WHOLE_MASKS}" if attns.whole_masks else SAYS
    return Contribution("sdpa", says, tuple(declared), tuple(missing))


def _add_only_classes(module: Module, members: dict[str, list[str]]) -> None:
    """`TABLE[NAME]` has no class for SDPA: it becomes the one for "eager"."""
    for owner, method in module.methods if module.tables else ():
        for node in walk(method.body, ast.Subscript):
            if "eager" in (table := module.tables.get(dotted(node.value), {})):
                classes = (node, table["eager"])
                old, new = (code(module, method, item, [*members]) for item in classes)
                text = edit("take_its_only_class", method, [old], [new])
                members.setdefault(owner.name, []).append(text)


def _calls(attns: Attentions, called_by: Interface) -> list[str]:
    """The edit of a class that calls the interface, and a missing attribute."""
    lookup, method = called_by.lookup, called_by.method
    keywords = {keyword.arg for call in called_by.calls for keyword in call.keywords}
    if refused := sorted(NOT_IN_SDPA.intersection(keywords)):
        names = ", ".join(f"`{name}`" for name in refused)
        raise Unfit(lookup, f"the interface is given {names}, which SDPA does not compute")
    # The error does not show under "eager", where the mask always has all its values.
    if attns.causal and called_by.owner.is_causal - {"True"}:
        what = "`is_causal` is False where the mask is causal: without a mask, SDPA would see every"
        raise Unfit(lookup, f"{what} key")
    holes = ["lookup", "name", "eager"] + ["window"] * ("sliding_window" in keywords)
    window = ", sliding_window=window" if "window" in holes else ""
    function = "sink_attention" if "s_aux" in keywords else "sdpa_attention"
    whole = ", whole_mask=True" if attns.whole_masks else ""
    annotation = ": Callable" if isinstance(lookup, ast.AnnAssign) else ""
    for statement in walk(method.body, ast.Assign):
        if called_by.calls == (statement.value,):
            target, name = ast.unparse(statement.targets[0]).strip("()"), called(statement.value)
            old = [f"{name}{annotation} = lookup(name, eager)", f"{target} = {name}(...{window})"]
            if len(find(ast.parse("\n".join(old)).body, method, holes)) == 1:
                new = [f"{target} = {function}(..., eager{whole})"]
                members = [edit("call_sdpa", method, old, new, holes)]
                # transformers takes a missing attribute as True.
                return members + [f"is_causal = {attns.causal}"] * (not called_by.owner.is_causal)
    raise Unfit(lookup, "the interface is called otherwise than once, behind its look-up")


def _configuration(owners: Iterable[Class], members: dict[str, list[str]]) -> bool:
    """Whether attentions are built without a configuration, which their model tells them.

    Those that only keep none get an edit.
    """
    told = False
    for owner in owners:
        init = owner.own.get("__init__")
        if "config" in owner.attributes:
            continue
        if init is not None and "config" in parameters(init):
            old = "super().__init__()"
            text = edit("know_the_config", init, [old], [old, "self.config = config"])
            members[owner.name].append(text)
        else:
            members[owner.name].insert(0, "config = None")
            told = True
    return told


def _numbered(members: list[str]) -> Iterator[str]:
    """The members, with numbers after equal names, which would replace each other."""
    names: list[str] = []
    for text in members:
        name = text.partition("def ")[2].partition("(")[0]
        names.append(name)
        if (number := names.count(name)) > 1:
            text = text.replace(f"def {name}(", f"def {name}_{number}(", 1)
        yield text


def _missed(
    attns: Attentions, softmaxes: Iterable[Missed], verb: str, fatal: bool = False
) -> tuple[Missing, ...]:
    at = attns.module.at
    lines = (Missing(at(s.node), f"{s.owner.name}{verb}: {s.why}", fatal) for s in softmaxes)
    return tuple(dict.fromkeys(lines))


def _chain_edit(attns: Attentions, chain: Chain) -> list[str]:
    """The edit of the method of `chain`.  Raises Unfit if there is no such call."""

    def text(node: ast.AST) -> str:
        return code(attns.module, chain.method, node, IMPORTED)

    scores, last = chain.scores, chain.suite[chain.last]
    masks = [term for term in scores.terms if attns.follows(term.value)]
    if len(masks) > 1:
        raise Unfit(masks[1].value, "two masks are added to the scores")
    if masks and masks[0].kind != "add":
        raise Unfit(masks[0].value, "the mask of transformers is not added to the scores")
    old = [text(last)]
    if chain.last > chain.first:
        old = [text(chain.suite[chain.first]), *["..."] * (chain.last > chain.first + 1), *old]
    eager = []
    if masks:
        # If weights are asked for under "sdpa", the mask has the form for SDPA.
        inside = stored(chain.suite[chain.first : chain.last + 1])
        if early := sorted(names([scores.query, scores.key]) & inside):
            what = f"the mask of eager depends on `{early[0]}`, which is computed later"
            raise Unfit(scores.query, what)
        name = next(node.id for node in walk(masks[0].value, ast.Name) if "mask" in node.id)
        states = f"{text(scores.query)}, {text(scores.key)}"
        eager = [f"{name} = additive_mask({name}, {states}, causal={attns.causal})"]
    product = {id(chain.product): parsed(_call(attns, chain, masks))}
    # The names of scores or weights that are read after the attention.
    end, inner = last.end_lineno or 0, set(ast.walk(last))
    later = [node for node in walk(chain.method.body, ast.Name) if node not in inner]
    read = names(node for node in later if node.lineno > end)
    none = [f"{name} = None" for name in chain.weights if name in read]
    call = [*map(text, chain.kept), *none, text(copy.deepcopy(last, product))]
    rest = chain.method.args.kwarg
    asked = f", {rest.arg}.get('{ASKED}')" if rest is not None else ""
    asked = f", {ASKED}" if ASKED in parameters(chain.method) else asked
    eager_text, call_text = (textwrap.indent("\n".join(s), "    ") for s in ([*eager, *old], call))
    new = f"if wants_weights(self{asked}):\n{eager_text}\nelse:\n{call_text}"
    return [edit("call_sdpa", chain.method, old, [new])]


def _call(attns: Attentions, chain: Chain, masks: Sequence[Term]) -> str:
    """The call of SDPA that computes the context of `chain`; `masks` are those of transformers."""
    scores = chain.scores
    arguments = [ast.unparse(node) for node in (scores.query, scores.key, chain.value)]
    arguments += [_term(mask, followed=True) for mask in masks]
    arguments += [_term(term, followed=False) for term in scores.terms if term not in masks]
    if masks and attns.causal:
        arguments.append("causal=True")
    arguments.append(f"scaling={interface.scaling(chain)}")
    for keyword, value in (("dropout", scores.dropout), ("heads", scores.heads)):
        if value is not None:
            arguments.append(f"{keyword}={ast.unparse(value)}")
    return f"attend({', '.join(arguments)})"


def _term(term: Term, *, followed: bool) -> str:
    """A term as an argument of `attend`; None if its condition is false."""
    value = term.value
    if term.kind == "hide":  # SDPA takes a mask of the visible ones.
        is_inverted = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Invert)
        value = parsed(ast.unparse(value)[1:] if is_inverted else f"~({ast.unparse(value)})")
    if followed:  # A cast would make a boolean mask additive.
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr != "to":
                break
            value = value.func.value
    text = ast.unparse(value)
    # A hidden score is hidden at any scale, and the mask is boolean under SDPA.  CodeGen divides
    # both by a number.
    factors = () if followed else term.factors
    for factor in factors:
        text = f"({text}) {factor.operator} {interface.number(factor)}"
    condition = ast.unparse(term.condition) if term.condition is not None else ""
    plain = isinstance(value, ast.Name) and not factors and term.kind == "add"
    if not condition or (plain and condition == f"{text} is not None"):
        return text
    return f"({text} if {condition} else None)"


def check() -> PartCheck:
    from patchgen.verify.parts.attention import SDPA

    return SDPA


PART = Part(
    "sdpa",
    check,
    "attention that is written out calls transformers' interface, or SDPA",
    sdpa,
    counted=("full rows",),
    covers=("attention_interface",),
    lends=("asked.TellsConfig",),
)

"""The sdpa part: an edit of each attention, its configuration if it has none, and the flags."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import MADE_BY_CONFIG, Attentions, Interface
from patchgen.author.anatomy.code import called, constant, keywords, names, parsed, stored, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.anatomy.steps import Chain, Missed, Term
from patchgen.author.declare import interface
from patchgen.author.declare.edits import code, edit, indented
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.compiler.edits.pattern import find
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

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
    "{alias} calls transformers' attention interface and takes SDPA already; a function of your "
    'own takes its place by `AttentionInterface.register("mine", mine)` and '
    '`attn_implementation="mine"`'
)
REDUNDANT_OWN = (
    "{alias} calls scaled_dot_product_attention itself where attn_implementation is "
    '"sdpa", its default'
)
Members = defaultdict[str, list[str]]  # the texts of the members of each class
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
    members: Members = defaultdict(list)
    for call in calls:
        name = call.chain.owner.name
        members[name] += interface.members(attns, call)
        for owner, text in interface.edits_around(attns, call):
            members[owner].append(text)
    told = _configuration(dict.fromkeys(call.chain.owner for call in calls), members)
    _add_only_classes(module, members)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    supported = ["sdpa"]
    others = ' or "eager"'
    if all(call.takes_blocks for call in calls):
        flash = ""
        if not any(call.bias for call in calls):
            supported.append("flash_attn")
            flash = ', "flash_attention_2" and its successors'
        supported += ["flex_attn", "attention_backend"]
        others = f', "eager"{flash}, "flex_attention" or a function of your own'
    flags = "\n".join(f"_supports_{name} = True" for name in supported)
    mixins = ("TellsConfig",) if told else ()
    declared += [Declared(owner.name, mixins, members=(flags,)) for owner in module.pretrained]
    return Contribution("sdpa", CONNECTED.format(others=others), tuple(declared))


def _written(module: Module, attns: Attentions) -> Contribution:
    written = {chain.method for chain in attns.chains}
    stay = [miss for miss in attns.missed if miss.attention]
    # Attentions in a method with another one that is replaced.
    left = [miss for miss in stay if miss.method in written]
    fatal = [Missing(module.at(node), what, True) for node, what in attns.reasons]
    fatal += _missed(attns, left, " would stay eager", True)
    if fatal:
        return Contribution("sdpa", missing=tuple(dict.fromkeys(fatal)))
    members: Members = defaultdict(list)
    missing = [*_missed(attns, stay, " stays eager")]
    computed: list[Chain | Interface] = [*attns.chains, *attns.interfaces]
    for attention in computed:
        name = attention.owner.name
        try:
            if isinstance(attention, Chain):
                texts = _chain_edit(attns, attention)
            else:
                texts = _calls(attns, attention)
        except Unfit as unfit:
            at = module.at(unfit.node or module.tree)
            missing.append(Missing(at, f"{name}: {unfit.why}", True))
        else:
            members[name] += texts
    if any(miss.fatal for miss in missing) or not members:
        return Contribution("sdpa", missing=tuple(missing))
    told = _configuration(dict.fromkeys(chain.owner for chain in attns.chains), members)
    _add_only_classes(module, members)
    _take_weights_if_asked(module, members)
    if attns.whole_masks:
        _make_masks_of_eager(module, members)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    around = AROUND.search(module.source.text) is not None
    mixins = ["SdpaAroundModels" if around else "SdpaOrEager"]
    if told:
        mixins.append("TellsConfig")
    declared += [Declared(owner.name, tuple(mixins)) for owner in module.pretrained]
    says = f"{SAYS} {WHOLE_MASKS}" if attns.whole_masks else SAYS
    return Contribution("sdpa", says, tuple(declared), tuple(missing))


def _take_weights_if_asked(module: Module, members: Members) -> None:
    """A layer that takes weights, which it may not return, takes those that are asked for."""
    for owner, method in module.methods:
        if ASKED not in parameters(method):
            continue
        for call in walk(method.body, ast.Call):
            if constant(keywords(call).get(ASKED)) is not True:
                continue
            name = called(call)
            new = f"{name}(..., {ASKED}={ASKED})"
            if any(map(_returns_fewer, module.held(owner, name.removeprefix("self.")))):
                new = f"(*{new}, None)[:2]"
            old = f"{name}(..., {ASKED}=True)"
            members[owner.name].append(edit("take_weights_if_asked", method, [old], [new]))


def _returns_fewer(attention: Class) -> bool:
    """Whether it returns the context alone where weights are not asked for."""
    for method in attention.own.values():
        for node in walk(method.body, ast.IfExp):
            match node:
                case ast.IfExp(ast.Name(id=name), ast.Tuple([_, _]), ast.Tuple([_])):
                    if name == ASKED:
                        return True
    return False


def _make_masks_of_eager(module: Module, members: Members) -> None:
    """The configuration by which a method makes its masks asks for those of "eager"."""
    for owner, method in module.methods:
        read = Counter(name.id for name in walk(method.body, ast.Name))
        for name in sorted(read.keys() & MADE_BY_CONFIG):
            new = f"for_eager({name})"
            text = edit("make_the_mask_of_eager", method, [name], [new], count=read[name])
            members[owner.name].append(text)


def _add_only_classes(module: Module, members: Members) -> None:
    """`TABLE[NAME]` has no class for SDPA: it becomes the one for "eager"."""
    for owner, method in module.methods:
        for lookup in walk(method.body, ast.Subscript):
            classes = module.tables.get(dotted(lookup.value), {})
            if "eager" not in classes:
                continue
            old = code(module, method, lookup, [*members])
            new = code(module, method, classes["eager"], [*members])
            members[owner.name].append(edit("take_its_only_class", method, [old], [new]))


def _calls(attns: Attentions, interface: Interface) -> list[str]:
    """The edit of a class that calls the interface, and a missing attribute."""
    lookup = interface.lookup
    owner = interface.owner
    given: set[str | None] = set()
    for call in interface.calls:
        given.update(keywords(call))
    if refused := sorted(NOT_IN_SDPA & given):
        names = ", ".join(f"`{name}`" for name in refused)
        raise Unfit(lookup, f"the interface is given {names}, which SDPA does not compute")
    # The error does not show under "eager", where the mask always has all its values.
    if attns.causal and owner.is_causal - {"True"}:
        what = "`is_causal` is False where the mask is causal: without a mask, SDPA would see every"
        raise Unfit(lookup, f"{what} key")
    holes = ["lookup", "name", "eager"]
    window = ""
    if "sliding_window" in given:
        holes.append("window")
        window = ", sliding_window=window"
    function = "sink_attention" if "s_aux" in given else "sdpa_attention"
    whole = ", whole_mask=True" if attns.whole_masks else ""
    annotation = ": Callable" if isinstance(lookup, ast.AnnAssign) else ""
    for statement in walk(interface.method.body, ast.Assign):
        if interface.calls != (statement.value,):
            continue
        target = ast.unparse(statement.targets[0]).strip("()")
        name = called(statement.value)
        old = [f"{name}{annotation} = lookup(name, eager)", f"{target} = {name}(...{window})"]
        if len(find(ast.parse("\n".join(old)).body, interface.method, holes)) != 1:
            continue
        new = f"{target} = {function}(..., eager{whole})"
        members = [edit("call_sdpa", interface.method, old, [new], holes)]
        # transformers takes a missing attribute as True.
        if not owner.is_causal:
            members.append(f"is_causal = {attns.causal}")
        return members
    raise Unfit(lookup, "the interface is called otherwise than once, behind its look-up")


def _configuration(owners: Iterable[Class], members: Members) -> bool:
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
    method = chain.method

    def text(node: ast.AST) -> str:
        return code(attns.module, method, node, IMPORTED)

    masks = [term for term in chain.scores.terms if attns.follows(term.value)]
    if len(masks) > 1:
        raise Unfit(masks[1].value, "two masks are added to the scores")
    if masks and masks[0].kind != "add":
        raise Unfit(masks[0].value, "the mask of transformers is not added to the scores")
    last = chain.suite[chain.last]
    old = [text(last)]
    if chain.last > chain.first + 1:
        old.insert(0, "...")
    if chain.last > chain.first:
        old.insert(0, text(chain.suite[chain.first]))
    eager = [*old]
    if masks:
        states = f"{text(chain.scores.query)}, {text(chain.scores.key)}"
        name = _name_of_mask(chain, masks[0])
        eager.insert(0, f"{name} = additive_mask({name}, {states}, causal={attns.causal})")
    # The last statement with the call in the product's place.
    attend = parsed(_call(attns, chain, masks))
    replaced = copy.deepcopy(last, {id(chain.product): attend})
    read = _read_behind(last, method)
    call = [text(statement) for statement in chain.kept]
    call += [f"{name} = None" for name in chain.weights if name in read]
    call.append(text(replaced))
    asked = ""
    if ASKED in parameters(method):
        asked = f", {ASKED}"
    elif method.args.kwarg is not None:
        asked = f", {method.args.kwarg.arg}.get('{ASKED}')"
    new = f"if wants_weights(self{asked}):\n{indented(eager)}\nelse:\n{indented(call)}"
    return [edit("call_sdpa", method, old, [new])]


def _name_of_mask(chain: Chain, mask: Term) -> str:
    """The mask as it is named.  If weights are asked for under "sdpa", it has the form for SDPA."""
    scores = chain.scores
    inside = stored(chain.suite[chain.first : chain.last + 1])
    if early := names([scores.query, scores.key]) & inside:
        what = f"the mask of eager depends on `{min(early)}`, which is computed later"
        raise Unfit(scores.query, what)
    return next(node.id for node in walk(mask.value, ast.Name) if "mask" in node.id)


def _read_behind(statement: ast.stmt, method: ast.FunctionDef) -> set[str]:
    """The names that the method reads on the lines below the statement."""
    end = statement.end_lineno or 0
    return names(node for node in walk(method.body, ast.Name) if node.lineno > end)


def _call(attns: Attentions, chain: Chain, masks: Sequence[Term]) -> str:
    """The call of SDPA that computes the context of `chain`; `masks` are those of transformers."""
    scores = chain.scores
    arguments = [ast.unparse(node) for node in (scores.query, scores.key, chain.value)]
    arguments += [_term(mask, followed=True) for mask in masks]
    for term in scores.terms:
        if term not in masks:
            arguments.append(_term(term, followed=False))
    if masks and attns.causal:
        arguments.append("causal=True")
    arguments.append(f"scaling={interface.scaling(chain)}")
    if scores.dropout is not None:
        arguments.append(f"dropout={ast.unparse(scores.dropout)}")
    if scores.heads is not None:
        arguments.append(f"heads={ast.unparse(scores.heads)}")
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
    from patchgen.verifying.parts.attention import SDPA

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

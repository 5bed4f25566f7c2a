"""The sdpa part: an edit of each attention, its configuration if it has none, and the flags."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from patchgen.author.anatomy.attention import MADE_BY_CONFIG, Attentions
from patchgen.author.anatomy.code import called, dotted, last, method_of, receiver, walk
from patchgen.author.anatomy.interface import Interface, drops_a_sink, mentions
from patchgen.author.anatomy.module import Class, Module, constructors
from patchgen.author.declare.chains import ChainEdit, Refused
from patchgen.author.declare.edits import code, edit, imports_for
from patchgen.author.declare.knowing import Knowing, NeverBuilt
from patchgen.author.declare.variant import Contribution, Declared, Missing

SAYS = (
    "Attention is one call of `scaled_dot_product_attention`; see `patchgen.parts.sdpa`. "
    '`attn_implementation` is "sdpa" (the default) or "eager", under which the parent\'s own '
    "statements run, as they do where attention weights are asked for."
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
FROM_PART = frozenset(
    {
        "additive_mask",
        "attend",
        "for_eager",
        "knowing",
        "sdpa_attention",
        "sink_attention",
        "wants_weights",
    }
)
NOT_IN_SDPA = frozenset({"block_indices", "indices", "sinks", "softcap"})


def sdpa(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = Attentions(module)
    if not found.chains and not found.interfaces:
        why = find_missed(found) or find_other_softmaxes(found)
        nothing = Missing(module.at(module.tree), "no attention is computed in this file", True)
        return Contribution("sdpa", missing=make_fatal(why or (nothing,)))
    if not found.chains and found.flag("_supports_sdpa"):
        return replace(_written(module, found), redundant=REDUNDANT.format(alias=module.alias))
    if found.chains and found.calls_sdpa:
        return Contribution(
            "sdpa",
            redundant=REDUNDANT_OWN.format(alias=module.alias),
            missing=make_fatal(find_own_calls(found)),
        )
    if not module.pretrained:
        nowhere = Missing(
            module.at(module.tree), "no class of this file stands below PreTrainedModel", True
        )
        return Contribution("sdpa", missing=(nowhere,))
    written = _written(module, found)
    if written.declared or not found.makers:
        return written
    # Other code reads the masks too, or it is not known what reads them: keep those of "eager".
    return _written(module, replace(found, whole_masks=True))


def _written(module: Module, found: Attentions) -> Contribution:
    fatal = tuple(Missing(module.at(reason.node), reason.what, True) for reason in found.reasons)
    fatal += tuple(find_left_over(found))
    if fatal:
        return Contribution("sdpa", missing=tuple(dict.fromkeys(fatal)))
    members: dict[str, list[str]] = {}
    missing = list(find_missed(found))
    for chain in found.chains:
        try:
            member = ChainEdit(found, chain).member()
        except Refused as refused:
            missing.append(
                Missing(
                    module.at(refused.reason.node),
                    f"{chain.owner.name}: {refused.reason.what}",
                    True,
                )
            )
            continue
        members.setdefault(chain.owner.name, []).append(member)
    for interface in found.interfaces:
        texts, why = _interface_edit(found, interface)
        if why:
            missing.append(
                Missing(module.at(interface.lookup), f"{interface.owner.name}: {why}", True)
            )
        else:
            members.setdefault(interface.owner.name, []).extend(texts)
    owners = dict.fromkeys(chain.owner for chain in found.chains)
    _configuration(module, tuple(owners), members, missing)
    if any(one.fatal for one in missing) or not members:
        return Contribution("sdpa", missing=tuple(missing))
    for name, more in _picked(found, tuple(members)).items():
        members.setdefault(name, []).extend(more)
    if found.whole_masks:
        for name, more in _whole_masks(found).items():
            members.setdefault(name, []).extend(more)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    mixin = "SdpaAroundModels" if _builds_models(module) else "SdpaOrEager"
    declared += [Declared(owner.name, mixins=(mixin,)) for owner in module.pretrained]
    says = f"{SAYS} {WHOLE_MASKS}" if found.whole_masks else SAYS
    return Contribution("sdpa", says, tuple(declared), _imports(members, mixin), tuple(missing))


def _interface_edit(found: Attentions, interface: Interface) -> tuple[list[str], str]:
    """(the edit of a class that calls the interface and a missing attribute, why there is none)."""
    lookup = interface.lookup
    eager = found.module.functions.get(interface.eager)
    # An argument that the eager function does not read is for other implementations, and is None.
    refused = sorted(
        name
        for name in NOT_IN_SDPA & set(interface.keywords)
        if eager is None or mentions(eager, name)
    )
    if "s_aux" in interface.keywords and (eager is None or not drops_a_sink(eager)):
        refused.append("s_aux")
    if refused:
        names = ", ".join(f"`{name}`" for name in refused)
        return [], f"the interface is given {names}, which SDPA does not compute"
    if found.is_causal_wrong(interface):
        what = "without a mask, SDPA would see every key"
        return [], f"`is_causal` is False where the mask is causal: {what}"
    following = _next_statement(interface.method, lookup)
    is_call = following is not None and getattr(following, "value", None) in interface.calls
    if len(interface.calls) != 1 or not is_call:
        return [], "the interface is called otherwise than once, behind its look-up"
    assert isinstance(following, ast.Assign)
    target = ast.unparse(following.targets[0]).strip("()")
    name = called(interface.calls[0])
    annotation = ": Callable" if isinstance(lookup, ast.AnnAssign) else ""
    old = [f"{name}{annotation} = lookup(name, eager)", f"{target} = {name}(...)"]
    window = "sliding_window" in interface.keywords
    old[1] = f"{target} = {name}(..., sliding_window=window)" if window else old[1]
    whole = ", whole_mask=True" if found.whole_masks else ""
    function = "sink_attention" if "s_aux" in interface.keywords else "sdpa_attention"
    new = [f"{target} = {function}(..., eager{whole})"]
    holes = ["lookup", "name", "eager", *(["window"] if window else [])]
    method = interface.method
    members = [edit("call_sdpa", method, old, new, holes)]
    if not interface.is_causal:
        # transformers takes a missing attribute as True.
        members.append(f"is_causal = {found.causal}")
    return members, ""


def _picked(found: Attentions, declared: tuple[str, ...]) -> dict[str, list[str]]:
    """The edits that use the class for eager if a table has none for SDPA."""
    members: dict[str, list[str]] = {}
    for pick in found.picks:
        if not pick.sdpa:
            old = code(found.module, pick.method, pick.node, declared)
            new = code(found.module, pick.method, pick.eager, declared)
            members.setdefault(pick.owner.name, []).append(
                edit("take_its_only_class", pick.method, [old], [new])
            )
    return members


def _whole_masks(found: Attentions) -> dict[str, list[str]]:
    """The edits, by class, that make each mask of transformers that of eager."""
    members: dict[str, list[str]] = {}
    for owner in found.module.classes.values():
        for method in owner.own.values():
            read = [node.id for node in walk(method.body, ast.Name) if node.id in MADE_BY_CONFIG]
            for name in sorted(set(read)):
                new = f"for_eager({name})"
                text = edit("make_the_mask_of_eager", method, [name], [new], count=read.count(name))
                members.setdefault(owner.name, []).append(text)
    return members


def _next_statement(method: ast.FunctionDef, statement: ast.stmt) -> ast.stmt | None:
    for node in ast.walk(method):
        for suite in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(suite, list) and statement in suite[:-1]:
                following: ast.stmt = suite[suite.index(statement) + 1]
                return following
    return None


def _configuration(
    module: Module, owners: Sequence[Class], members: dict[str, list[str]], missing: list[Missing]
) -> None:
    """Add the edits that give each attention its `self.config`, if it has none."""
    knowing = Knowing(module, [owner.name for owner in owners])
    for owner in owners:
        at = module.at(owner.node)
        try:
            more = knowing.members(owner)
        except NeverBuilt:
            members.pop(owner.name, None)
            missing.append(
                Missing(at, f"{owner.name} stays eager: nothing in this file builds one")
            )
            continue
        except LookupError:
            missing.append(Missing(at, f"{owner.name} is built without a configuration", True))
            continue
        for name, texts in more.items():
            known = members.setdefault(name, [])
            known += [text for text in texts if text not in known]


def _numbered(members: list[str]) -> Iterator[str]:
    """The members, with numbers after equal names, which would replace each other."""
    for number, text in enumerate(members):
        name = _name(text)
        before = sum(_name(one) == name for one in members[:number])
        if before:
            text = text.replace(f"def {name}(", f"def {name}_{before + 1}(", 1)
        yield text


def _name(member: str) -> str:
    return member.partition("def ")[2].partition("(")[0]


def _builds_models(module: Module) -> bool:
    """Whether a class builds a model of another file, from a configuration inside its own."""
    elsewhere = set()
    for name, place in module.imports.items():
        is_model = ".modeling_" in place and name[0].isupper()
        if is_model or place.endswith("backbone_utils.load_backbone"):
            elsewhere.add(name)
    for owner in module.classes.values():
        for values in owner.attributes.values():
            for value in values:
                for call in constructors(value):
                    if _builds_model(module, call, elsewhere):
                        return True
    return False


def _builds_model(module: Module, call: ast.Call, elsewhere: Set[str]) -> bool:
    if called(call) == "load_backbone":
        return True
    if method_of(call) in ("from_config", "_from_config"):
        if last(dotted(receiver(call))) not in module.classes:
            return True
    takes_config = any("config" in ast.unparse(arg) for arg in call.args)
    return last(called(call)) in elsewhere and takes_config


def _imports(members: dict[str, list[str]], mixin: str = "SdpaOrEager") -> tuple[str, ...]:
    texts = [text for several in members.values() for text in several]
    read = {
        node.id
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }
    words = sorted(({"Hole", "edit", "new", "old"} & read) | {"edit", "new", "old"})
    parts = sorted(FROM_PART & read | {mixin})
    lines = [
        f"from patchgen.edits import {', '.join(words)}",
        f"from patchgen.parts.sdpa import {', '.join(parts)}",
    ]
    if makers := sorted(MADE_BY_CONFIG & read):
        lines.append(f"from transformers.masking_utils import {', '.join(makers)}")
    if "Callable" in read:
        lines.append("from collections.abc import Callable")
    return (*lines, *imports_for(texts))


def find_own_calls(found: Attentions) -> Iterator[Missing]:
    for chain in found.chains:
        what = f"{chain.owner.name} is eager attention that stands beside a call of SDPA"
        yield Missing(found.module.at(chain.suite[chain.first]), what, True)


def find_left_over(found: Attentions) -> Iterator[Missing]:
    """Attentions that would stay eager in a method with another one that is replaced."""
    written = {id(chain.method) for chain in found.chains}
    for one in found.missed:
        if one.attention and id(one.method) in written:
            yield Missing(
                found.module.at(one.node), f"{one.owner.name} would stay eager: {one.why}", True
            )


def find_missed(found: Attentions) -> tuple[Missing, ...]:
    at = found.module.at
    return tuple(
        dict.fromkeys(
            Missing(at(one.node), f"{one.owner.name} stays eager: {one.why}")
            for one in found.missed
            if one.attention
        )
    )


def find_other_softmaxes(found: Attentions) -> tuple[Missing, ...]:
    at = found.module.at
    return tuple(
        Missing(at(one.node), f"{one.owner.name}: {one.why}")
        for one in found.missed
        if "ttention" in one.owner.name
    )


def make_fatal(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(Missing(one.at, one.what, True) for one in missing)

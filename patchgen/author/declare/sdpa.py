"""The sdpa part: an edit of each attention, its configuration if it has none, and the flags."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.author.anatomy.attention import MADE_BY_CONFIG, Attentions, Interface
from patchgen.author.anatomy.chain import Chain, Missed
from patchgen.author.anatomy.code import called, method_of, names, parsed, receiver, stored, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.steps import Context, Factor, Term, Unplaced
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.compiler.edits.pattern import find

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
KNOWN = ("attend", "wants_weights", "additive_mask")
# Where a module builds models of other files.
AROUND = re.compile(r"from_config\(|load_backbone\(|from (\.|\.\.\w+\.)modeling_")
NOT_IN_SDPA = frozenset({"block_indices", "indices", "sinks", "softcap"})


def sdpa(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = Attentions(module)
    stay = _missed(found, [one for one in found.missed if one.attention], " stays eager")
    if not found.chains and not found.interfaces:
        others = [one for one in found.missed if "ttention" in one.owner.name]
        nothing = Missing(module.at(module.tree), "no attention is computed in this file")
        why = stay or _missed(found, others, "") or (nothing,)
        return Contribution("sdpa", missing=_fatal(why))
    if not found.chains and found.flag("_supports_sdpa"):
        return replace(_written(module, found), redundant=REDUNDANT.format(alias=module.alias))
    if found.chains and found.calls_sdpa:
        what = "{0} is eager attention that stands beside a call of SDPA"
        beside = (
            Missing(module.at(one.suite[one.first]), what.format(one.owner.name), True)
            for one in found.chains
        )
        redundant = REDUNDANT_OWN.format(alias=module.alias)
        return Contribution("sdpa", redundant=redundant, missing=tuple(beside))
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
    fatal = tuple(Missing(module.at(node), what, True) for node, what in found.reasons)
    written = {id(chain.method) for chain in found.chains}
    stay = [one for one in found.missed if one.attention]
    # Attentions in a method with another one that is replaced.
    left = [one for one in stay if id(one.method) in written]
    if fatal := (*fatal, *_fatal(_missed(found, left, " would stay eager"))):
        return Contribution("sdpa", missing=tuple(dict.fromkeys(fatal)))
    members: dict[str, list[str]] = {}
    missing = [*_missed(found, stay, " stays eager")]
    for chain in found.chains:
        try:
            member = ChainEdit(found, chain).member()
        except Unplaced as no:
            missing.append(Missing(module.at(no.node), f"{chain.owner.name}: {no.why}", True))
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
    if any(one.fatal for one in missing) or not members:
        return Contribution("sdpa", missing=tuple(missing))
    told = _configuration(dict.fromkeys(chain.owner for chain in found.chains), members)
    for name, text in [*_masks_and_tables(found, tuple(members))]:
        members.setdefault(name, []).append(text)
    declared = [Declared(name, members=tuple(_numbered(texts))) for name, texts in members.items()]
    # Around models of other files, which may not know SDPA.
    around = AROUND.search(module.source.text) is not None
    mixins = ["SdpaAroundModels" if around else "SdpaOrEager", *["TellsConfig"] * bool(told)]
    declared += [Declared(one.name, (*mixins,)) for one in module.pretrained]
    says = f"{SAYS} {WHOLE_MASKS}" if found.whole_masks else SAYS
    return Contribution("sdpa", says, tuple(declared), tuple(missing))


def _interface_edit(found: Attentions, interface: Interface) -> tuple[list[str], str]:
    """(the edit of a class that calls the interface and a missing attribute, why there is none)."""
    lookup = interface.lookup
    if refused := sorted(NOT_IN_SDPA.intersection(interface.keywords)):
        names = ", ".join(f"`{name}`" for name in refused)
        return [], f"the interface is given {names}, which SDPA does not compute"
    # The error does not show under "eager", where the mask always has all its values.
    if found.causal and interface.is_causal not in ((), ("True",)):
        what = "without a mask, SDPA would see every key"
        return [], f"`is_causal` is False where the mask is causal: {what}"
    method = interface.method
    holes = ["lookup", "name", "eager"] + ["window"] * ("sliding_window" in interface.keywords)
    window = ", sliding_window=window" if "window" in holes else ""
    function = "sink_attention" if "s_aux" in interface.keywords else "sdpa_attention"
    whole = ", whole_mask=True" if found.whole_masks else ""
    annotation = ": Callable" if isinstance(lookup, ast.AnnAssign) else ""
    for statement in walk(method.body, ast.Assign):
        if interface.calls == (statement.value,):
            target, name = ast.unparse(statement.targets[0]).strip("()"), called(statement.value)
            old = [f"{name}{annotation} = lookup(name, eager)", f"{target} = {name}(...{window})"]
            if len(find(ast.parse("\n".join(old)).body, method, holes)) == 1:
                new = [f"{target} = {function}(..., eager{whole})"]
                members = [edit("call_sdpa", method, old, new, holes)]
                # transformers takes a missing attribute as True.
                missing = [] if interface.is_causal else [f"is_causal = {found.causal}"]
                return members + missing, ""
    return [], "the interface is called otherwise than once, behind its look-up"


def _masks_and_tables(found: Attentions, declared: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(a class, an edit of it): masks become those of eager, tables without SDPA give its class."""
    for pick in found.picks:
        if not pick.sdpa:
            old, new = (
                code(found.module, pick.method, one, declared) for one in (pick.node, pick.eager)
            )
            yield pick.owner.name, edit("take_its_only_class", pick.method, [old], [new])
    for owner in found.module.classes.values() if found.whole_masks else ():
        for method in owner.own.values():
            read = [node.id for node in walk(method.body, ast.Name) if node.id in MADE_BY_CONFIG]
            for name in sorted(set(read)):
                new, count = f"for_eager({name})", read.count(name)
                text = edit("make_the_mask_of_eager", method, [name], [new], count=count)
                yield owner.name, text


def _configuration(owners: Iterable[Class], members: dict[str, list[str]]) -> list[str]:
    """The attentions that are built without a configuration, which their model tells them.

    Those that only keep none get an edit.
    """
    told = []
    for owner in owners:
        if "config" in owner.attributes:
            continue
        init = owner.own.get("__init__")
        if init is not None and "config" in {arg.arg for arg in init.args.args}:
            old = "super().__init__()"
            text = edit("know_the_config", init, [old], [old, "self.config = config"])
            members[owner.name].append(text)
        else:
            members[owner.name].insert(0, "config = None")
            told.append(owner.name)
    return told


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


def _missed(found: Attentions, softmaxes: Iterable[Missed], verb: str) -> tuple[Missing, ...]:
    at = found.module.at
    lines = [Missing(at(one.node), f"{one.owner.name}{verb}: {one.why}") for one in softmaxes]
    return tuple(dict.fromkeys(lines))


def _fatal(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(replace(one, fatal=True) for one in missing)


@dataclass(frozen=True, eq=False)
class ChainEdit:
    """Writes the edit of the method of `chain`."""

    attentions: Attentions
    chain: Chain

    def member(self) -> str:
        """The text of the edit.

        Raises Unplaced if there is no such call.
        """
        ends = (self.chain.suite[self.chain.first], self.chain.suite[self.chain.last])
        first, last = map(self._code, ends)
        middle = ["..."] if self.chain.last > self.chain.first + 1 else []
        old = [first, *middle, last] if self.chain.last > self.chain.first else [last]
        eager = "\n".join(
            f"    {line}" for text in [*self._mask_for_eager(), *old] for line in text.splitlines()
        )
        statements = [*self.chain.kept, self.chain.suite[self.chain.last]]
        kept = [self._code(self._with_calls(node)) for node in statements]
        none = [f"{name} = None" for name in self._weights_read_later()]
        call = "\n".join(
            f"    {line}" for text in [*kept[:-1], *none, kept[-1]] for line in text.splitlines()
        )
        new = f"if {self._condition()}:\n{eager}\nelse:\n{call}"
        return edit("call_sdpa", self.chain.method, old, [new])

    def _code(self, node: ast.AST) -> str:
        return code(self.attentions.module, self.chain.method, node, KNOWN)

    def _condition(self) -> str:
        """When the parent's statements run."""
        arguments = self.chain.method.args
        every = [
            arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        if "output_attentions" in every:
            return "wants_weights(self, output_attentions)"
        if arguments.kwarg is not None:
            return f"wants_weights(self, {arguments.kwarg.arg}.get('output_attentions'))"
        return "wants_weights(self)"

    def _mask_for_eager(self) -> list[str]:
        """Convert the mask: if weights are asked for under "sdpa", it has the form for SDPA."""
        mask = self._followed_mask()
        if mask is None:
            return []
        name = next(node for node in walk(mask.value, ast.Name) if "mask" in node.id).id
        scores = self.chain.scores
        inside = stored(self.chain.suite[self.chain.first : self.chain.last + 1])
        if early := sorted((names(scores.query) | names(scores.key)) & inside):
            what = f"the mask of eager depends on `{early[0]}`, which is computed later"
            raise Unplaced(scores.query, what)
        query, key = self._code(scores.query), self._code(scores.key)
        return [f"{name} = additive_mask({name}, {query}, {key}, causal={self.attentions.causal})"]

    def _followed_mask(self) -> Term | None:
        masks = [t for t in self.chain.scores.terms if self.attentions.follows(t.value)]
        if len(masks) > 1:
            raise Unplaced(masks[1].value, "two masks are added to the scores")
        if masks and masks[0].kind != "add":
            what = "the mask of transformers is not added to the scores"
            raise Unplaced(masks[0].value, what)
        return masks[0] if masks else None

    def _weights_read_later(self) -> list[str]:
        """The names of scores or weights that are read after the attention."""
        end = self.chain.suite[self.chain.last].end_lineno or 0
        inside = {id(node) for node in ast.walk(self.chain.suite[self.chain.last])}
        read = {
            node.id
            for node in walk(self.chain.method.body, ast.Name)
            if isinstance(node.ctx, ast.Load) and node.lineno > end and id(node) not in inside
        }
        return [name for name in self.chain.weights if name in read]

    def _with_calls(self, statement: ast.stmt) -> ast.stmt:
        """`statement` with a call of SDPA for the product with the values."""
        context = self.chain.context
        return copy.deepcopy(statement, {id(context.node): parsed(self._call(context))})

    def _call(self, context: Context) -> str:
        """The call of SDPA that computes `context`."""
        scores, mask = context.probabilities.scores, self._followed_mask()
        terms = [_term(term, followed=term is mask) for term in scores.terms if term is not mask]
        if mask is not None:
            terms = [_term(mask, followed=True), *terms]
        keywords = []
        if mask is not None and self.attentions.causal:
            keywords.append("causal=True")
        keywords.append(f"scaling={_product(scores.factors)}")
        if (dropout := context.probabilities.dropout) is not None:
            keywords.append(f"dropout={ast.unparse(dropout)}")
        if scores.heads is not None:
            keywords.append(f"heads={ast.unparse(scores.heads)}")
        states = [ast.unparse(node) for node in (scores.query, scores.key, context.value)]
        return f"attend({', '.join([*states, *terms, *keywords])})"


def _term(term: Term, *, followed: bool) -> str:
    """A term as an argument of `attend`; None if its condition is false."""
    value = _visible(term.value) if term.kind == "hide" else term.value
    while followed and isinstance(value, ast.Call) and method_of(value) == "to":
        value = receiver(value)  # A cast would make a boolean mask additive.
    text = ast.unparse(value)
    # A hidden score is hidden at any scale, and the mask is boolean under SDPA.  CodeGen divides
    # both by a number.
    factors = () if followed else term.factors
    for factor in factors:
        text = f"({text}) {factor.operator} {_number(factor)}"
    if term.condition is None:
        return text
    plain = isinstance(value, ast.Name) and not factors and term.kind == "add"
    if plain and _is_presence_of(term.condition, value):
        return text
    return f"({text} if {ast.unparse(term.condition)} else None)"


def _visible(hidden: ast.expr) -> ast.expr:
    """The mask of visible scores for a mask of hidden ones."""
    match hidden:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return operand
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=comparators):
            return ast.Compare(left, [ast.NotEq()], comparators)
        case _:
            return ast.UnaryOp(ast.Invert(), hidden)


def _is_presence_of(condition: ast.expr, value: ast.expr) -> bool:
    match condition:
        case ast.Compare(
            left=ast.Name() as left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
        ):
            return names(left) == names(value)
        case _:
            return False


def _product(factors: tuple[Factor, ...]) -> str:
    text = ""
    for factor in factors:
        value = _number(factor)
        if text:
            text = f"({text}) {factor.operator} {value}"
        else:
            text = value if factor.operator == "*" else f"1 / {value}"
    return text or "1.0"


def _number(factor: Factor) -> str:
    """The operand of `factor`, or one if its condition is false."""
    value = ast.unparse(factor.value)
    if factor.condition is not None:
        return f"({value} if {ast.unparse(factor.condition)} else 1.0)"
    if isinstance(factor.value, ast.Name | ast.Attribute | ast.Call | ast.Constant):
        return value
    return f"({value})"

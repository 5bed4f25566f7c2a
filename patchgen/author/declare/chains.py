"""The edit that puts one call of SDPA in the place of an attention that is written out.

The parent's statements stay, behind a condition: they run under "eager" and where weights are asked for.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from patchgen.author.anatomy.attention import FOLLOWING, Attentions, Reason
from patchgen.author.anatomy.chain import Chain
from patchgen.author.anatomy.code import method_of, names, parsed, receiver, stored, walk
from patchgen.author.anatomy.scores import Context, Factor, Term
from patchgen.author.declare.edits import code, edit

KNOWN = ("attend", "wants_weights", "additive_mask", "zero_unless_seen")
# What says that an attention looks at other states than its own.
CROSS = ("is_cross_attention", "encoder_hidden_states", "key_value_states", "kv_states", "kv")


class Refused(Exception):
    """The chain cannot be written as one call: `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.what)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class ChainEdit:
    """The member that edits the method of `chain`."""

    attentions: Attentions
    chain: Chain

    def member(self) -> str:
        """The text of the edit.

        Raises Refused where the call cannot be written.
        """
        first, last = self._statements()
        middle = ["..."] if self.chain.last > self.chain.first + 1 else []
        old = [first, *middle, last] if self.chain.last > self.chain.first else [last]
        eager = "\n".join(
            f"    {line}" for text in [*self._mask_for_eager(), *old] for line in text.splitlines()
        )
        statements = [*self.chain.kept, self.chain.suite[self.chain.last]]
        kept = [self._code(self._with_calls(node)) for node in statements]
        none = [f"{name} = None" for name in self.weights_read_later()]
        call = "\n".join(
            f"    {line}" for text in [*kept[:-1], *none, kept[-1]] for line in text.splitlines()
        )
        new = f"if {self._condition()}:\n{eager}\nelse:\n{call}"
        return edit("call_sdpa", self.chain.method, old, [new])

    def _code(self, node: ast.AST) -> str:
        return code(self.attentions.module, self.chain.method, node, KNOWN)

    def _statements(self) -> tuple[str, str]:
        return self._code(self.chain.suite[self.chain.first]), self._code(
            self.chain.suite[self.chain.last]
        )

    def _condition(self) -> str:
        """When the parent's statements run."""
        others = [f"({ast.unparse(test)})" for test in self.chain.unless]
        return " or ".join([self._wants_weights(), *others])

    def _wants_weights(self) -> str:
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
        """transformers gave a mask for SDPA where weights are asked for under "sdpa"."""
        mask = self._followed_mask()
        if mask is None:
            return []
        name = next(node for node in walk(mask.value, ast.Name) if "mask" in node.id).id
        scores = self.chain.scores
        inside = stored(self.chain.suite[self.chain.first : self.chain.last + 1])
        if early := sorted((names(scores.query) | names(scores.key)) & inside):
            raise Refused(
                Reason(
                    scores.query, f"the mask of eager depends on `{early[0]}`, which is made later"
                )
            )
        query, key = self._code(scores.query), self._code(scores.key)
        return [f"{name} = additive_mask({name}, {query}, {key}, causal={self.causal(mask)})"]

    def _followed_mask(self) -> Term | None:
        owner, method = self.chain.owner, self.chain.method
        found = [
            t for t in self.chain.scores.terms if self.attentions.follows(owner, method, t.value)
        ]
        if len(found) > 1:
            raise Refused(Reason(found[1].value, "two masks are added to the scores"))
        if found and found[0].kind != "add":
            raise Refused(
                Reason(
                    found[0].value,
                    "the mask of transformers hides scores otherwise than by being added",
                )
            )
        return found[0] if found else None

    def causal(self, mask: Term) -> str:
        """When a mask that is None means causal."""
        owner, method = self.chain.owner, self.chain.method
        tags = sorted(
            tag
            for tag in self.attentions.origins(owner, method, mask.value)
            if tag.startswith(FOLLOWING)
        )
        makers = {tag.partition(":")[0] for tag in tags}
        if makers == {"bidirectional"}:
            return "False"
        chosen = [tag.partition(":")[2] for tag in tags if tag.startswith("chosen")]
        if chosen and (
            len(chosen) > 1 or chosen[0] != "self.config.is_decoder" or "causal" in makers
        ):
            raise Refused(
                Reason(
                    mask.value, f"whether the attention is causal hangs on {' and '.join(chosen)}"
                )
            )
        # MVP's encoder and decoder share the class: what it is built as says which of the two masks it gets.
        if makers >= {"bidirectional", "causal"}:
            if "is_decoder" not in self.chain.owner.attributes:
                raise Refused(
                    Reason(
                        mask.value, "the mask is causal at one call and bidirectional at another"
                    )
                )
            chosen = [*chosen, "self.is_decoder"]
        parts = chosen
        if "bidirectional" in makers or not chosen:
            cross = self._cross()
            if cross is None and "bidirectional" in makers:
                raise Refused(
                    Reason(
                        mask.value, "the mask is causal at one call and bidirectional at another"
                    )
                )
            parts = [*chosen, *([cross] if cross else [])]
        return " and ".join(parts) or "True"

    def _cross(self) -> str | None:
        method = self.chain.method
        local = {arg.arg for arg in walk(method.args, ast.arg)}
        local |= {
            node.id for node in walk(method.body, ast.Name) if isinstance(node.ctx, ast.Store)
        }
        name = next((name for name in CROSS if name in local), None)
        if name is None:
            return None
        return f"not {name}" if name.startswith("is_") else f"{name} is None"

    def scaling(self) -> str:
        """What the product of query and key is multiplied by."""
        return _product(self.chain.scores.factors)

    def weights_read_later(self) -> list[str]:
        """The names of scores or weights that are read behind the attention."""
        end = self.chain.suite[self.chain.last].end_lineno or 0
        inside = {id(node) for node in ast.walk(self.chain.suite[self.chain.last])}
        read = {
            node.id
            for node in walk(self.chain.method.body, ast.Name)
            if isinstance(node.ctx, ast.Load) and node.lineno > end and id(node) not in inside
        }
        return [name for name in self.chain.weights if name in read]

    def _with_calls(self, statement: ast.stmt) -> ast.stmt:
        """`statement`, each product with the values in it replaced by the call."""
        places = {id(context.node): context for context in self.chain.contexts}
        found = [
            (n, places[id(node)])
            for n, node in enumerate(ast.walk(statement))
            if id(node) in places
        ]
        if not found and statement is self.chain.suite[self.chain.last]:
            raise Refused(Reason(statement, "the product with the values stands under a condition"))
        changed = copy.deepcopy(statement)
        nodes = list(ast.walk(changed))
        calls = [(nodes[n], parsed(self._call(context))) for n, context in found]
        for place, call in calls:
            _Replaced(place, call).visit(changed)
        return changed

    def _call(self, context: Context) -> str:
        """The call of SDPA that makes `context`."""
        scores, mask = context.probabilities.scores, self._followed_mask()
        if context is not self.chain.context and mask is not None:
            raise Refused(Reason(context.node, "transformers' mask is added to two products"))
        terms = [_term(term, followed=term is mask) for term in scores.terms if term is not mask]
        if mask is not None:
            terms = [_term(mask, followed=True), *terms]
        keywords = []
        if mask is not None and (causal := self.causal(mask)) != "False":
            # Its operands are the method's names: the text is code as well.
            keywords.append(f"causal={causal}")
        keywords.append(f"scaling={_product(scores.factors)}")
        if (dropout := context.probabilities.dropout) is not None:
            keywords.append(f"dropout={ast.unparse(dropout)}")
        if scores.heads is not None:
            keywords.append(f"heads={ast.unparse(scores.heads)}")
        states = [ast.unparse(node) for node in (scores.query, scores.key, context.value)]
        call = f"attend({', '.join([*states, *terms, *keywords])})"
        for term in context.probabilities.zeroed:
            call = f"zero_unless_seen({call}, {_term(term, followed=False)})"
        axes = ", ".join(map(str, context.axes))
        return f"{call}.permute({axes})" if axes else call


class _Replaced(ast.NodeTransformer):
    def __init__(self, place: ast.AST, value: ast.expr) -> None:
        self.place = place
        self.value = value

    def visit(self, node: ast.AST) -> ast.AST:
        return self.value if node is self.place else self.generic_visit(node)


def _term(term: Term, *, followed: bool) -> str:
    """A term as an argument of `attend`, None where its condition does not hold."""
    value = _seen(term.value) if term.kind == "hide" else term.value
    while followed and isinstance(value, ast.Call) and method_of(value) == "to":
        value = receiver(value)  # A boolean mask must stay one.
    text = ast.unparse(value)
    # What hides a score hides it at any scale, and is a boolean under SDPA (CodeGen divides it with the scores).
    factors = () if followed else term.factors
    for factor in factors:
        text = f"({text}) {factor.operator} {_number(factor)}"
    if term.condition is None:
        return text
    plain = isinstance(value, ast.Name) and not factors and term.kind == "add"
    if plain and _is_presence_of(term.condition, value):
        return text
    return f"({text} if {ast.unparse(term.condition)} else None)"


def _seen(hidden: ast.expr) -> ast.expr:
    """What is seen, of what is hidden."""
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
    """The operand of `factor`: one, which changes nothing, where its condition does not hold."""
    value = ast.unparse(factor.value)
    if factor.condition is not None:
        return f"({value} if {ast.unparse(factor.condition)} else 1.0)"
    return (
        value
        if isinstance(factor.value, ast.Name | ast.Attribute | ast.Call | ast.Constant)
        else f"({value})"
    )

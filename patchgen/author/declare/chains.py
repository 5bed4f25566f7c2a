"""The edit that replaces an attention that is written out by one call of SDPA.

The statements of the parent stay under a condition: they run for "eager", and if attention weights
are asked for.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Attentions, Reason
from patchgen.author.anatomy.chain import Chain
from patchgen.author.anatomy.code import method_of, names, parsed, receiver, stored, walk
from patchgen.author.anatomy.scores import Context, Factor, Term
from patchgen.author.declare.edits import code, edit

KNOWN = ("attend", "wants_weights", "additive_mask")


class Refused(Exception):
    """The attention cannot be one call; `reason` tells why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.what)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class ChainEdit:
    """Writes the edit of the method of `chain`."""

    attentions: Attentions
    chain: Chain

    def member(self) -> str:
        """The text of the edit.

        Raises Refused if there is no such call.
        """
        first, last = self._statements()
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

    def _statements(self) -> tuple[str, str]:
        return self._code(self.chain.suite[self.chain.first]), self._code(
            self.chain.suite[self.chain.last]
        )

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
            raise Refused(Reason(scores.query, what))
        query, key = self._code(scores.query), self._code(scores.key)
        return [f"{name} = additive_mask({name}, {query}, {key}, causal={self.attentions.causal})"]

    def _followed_mask(self) -> Term | None:
        masks = [t for t in self.chain.scores.terms if self.attentions.follows(t.value)]
        if len(masks) > 1:
            raise Refused(Reason(masks[1].value, "two masks are added to the scores"))
        if masks and masks[0].kind != "add":
            what = "the mask of transformers is not added to the scores"
            raise Refused(Reason(masks[0].value, what))
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
        """`statement` with calls of SDPA for the products with the values."""
        # By number: the nodes of the copy below are others.
        nodes = [id(node) for node in ast.walk(statement)]
        changed = copy.deepcopy(statement)
        if id(self.chain.context.node) in nodes:
            place = list(ast.walk(changed))[nodes.index(id(self.chain.context.node))]
            _Replaced(place, parsed(self._call(self.chain.context))).visit(changed)
        return changed

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


class _Replaced(ast.NodeTransformer):
    def __init__(self, place: ast.AST, value: ast.expr) -> None:
        self.place = place
        self.value = value

    def visit(self, node: ast.AST) -> ast.AST:
        return self.value if node is self.place else self.generic_visit(node)


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

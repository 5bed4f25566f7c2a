"""Whether a loop over experts computes what the experts interface of transformers computes.

    gate, up = linear(hidden_states[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
    states = linear(self.act_fn(gate) * up, self.down_proj[expert])
    total.index_add_(0, token, states * top_k_weights[token, place, None])

Takes the parts of such a loop (see `dispatch`); returns the decorator that gives the class the
interface, or raises with the reason why it would compute something else.
"""

from __future__ import annotations

import ast
import copy

from patchgen.author.anatomy.code import called, dotted, last, method_of, receiver, shortened
from patchgen.author.anatomy.dispatch import Dispatch, NotDispatch
from patchgen.author.anatomy.module import Class

DECORATOR = "use_experts_implementation"
GIVEN = ("hidden_states", "top_k_index", "top_k_weights")
STACKS = ("gate_up_proj", "down_proj")
_UP = "linear(tokens, self.gate_up_proj[expert])"
_HALVES = f"{_UP}.chunk(2, dim=-1)"
# What the interface computes: with a method of the class, or by itself.
_KNOWN = tuple(
    f"linear({gated}, self.down_proj[expert]) * weights"
    for gated in (f"self._apply_gate({_UP})", f"self.act_fn({_HALVES}[0]) * {_HALVES}[1]")
)


def decorator_of(owner: Class, found: Dispatch) -> str:
    """The decorator for `owner`.

    Raises NotDispatch if the loop computes something else, or has its weights in another layout.
    """
    given = tuple(arg.arg for arg in found.method.args.args[1:])
    if given != GIVEN:
        what = f"forward takes {', '.join(given)}, not {', '.join(GIVEN)}"
        raise NotDispatch(found.method, what)
    for name in STACKS:
        if not _is_stack(owner, name):
            what = f"it has no parameter {name} with the weights of all experts"
            raise NotDispatch(owner.node, what)
    assert found.added is not None
    added = _Written(found).expression(found.added)
    if added not in _KNOWN:
        raise NotDispatch(found.added, f"an expert computes {shortened(ast.parse(added))}")
    return DECORATOR


def _is_stack(owner: Class, name: str) -> bool:
    return any(last(called(value)) == "Parameter" for value in owner.attributes.get(name, ()))


class _Written(ast.NodeTransformer):
    """Rewrites an expression, with the values of its names, in the words of `_KNOWN`."""

    def __init__(self, found: Dispatch) -> None:
        self.found = found
        self.bound: dict[str, ast.expr] = {}
        for statement in found.body:
            self._bind(statement)

    def _bind(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bound[name] = self.visit(copy.deepcopy(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                whole = self.visit(copy.deepcopy(value))
                for number, target in enumerate(targets):
                    self.bound[dotted(target)] = ast.Subscript(
                        whole, ast.Constant(number), ast.Load()
                    )
            case _:
                raise NotDispatch(statement, f"an expert does `{shortened(statement)}`")

    def expression(self, node: ast.expr) -> str:
        whole = self.visit(copy.deepcopy(node))
        if isinstance(whole, ast.Call) and method_of(whole) == "to":
            whole = receiver(whole)
        return ast.unparse(whole)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.bound.get(node.id, node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if last(dotted(node.func)) == "linear":
            node.func = ast.Name("linear", ast.Load())
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        index = ast.unparse(node.slice).strip("()")
        match dotted(node.value):
            case "hidden_states" if index == self.found.token:
                return ast.Name("tokens", ast.Load())
            case "top_k_weights" if index == f"{self.found.token}, {self.found.place}, None":
                return ast.Name("weights", ast.Load())
            case name if name.startswith("self.") and index in self.found.numbers:
                return ast.Subscript(node.value, ast.Name("expert", ast.Load()), ast.Load())
        self.generic_visit(node)
        return node

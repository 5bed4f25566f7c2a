"""The grouped part: the experts interface of transformers for experts that run one by one.

A loop over experts is known by its shape: the statements below, whatever their names are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.author.anatomy.code import called, dotted, walk
from patchgen.author.anatomy.experts import Experts, experts
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import edit, imports_for
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.compiler.edits.pattern import find

DECORATOR = "use_experts_implementation"
SAYS = (
    "Experts run by transformers' interface, in grouped GEMMs for all of them, in place of a "
    "loop that waits to learn which experts were chosen. `experts_implementation` takes every name "
    "that transformers has. Router and checkpoints are the parent's."
)
ALONE = (
    "Experts run in one grouped GEMM for all of them, in place of a loop that waits to learn "
    "how many tokens each has. Router and checkpoints are the parent's."
)
BY_INTERFACE = """{name} runs its experts by transformers' interface, which has grouped GEMMs:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
BY_HAND = (
    f"lay the weights out as `gate_up_proj` and `down_proj` and put @{DECORATOR} on the class: "
    "modular/dbrx/modular_dbrx_grouped.py does so, and converts checkpoints"
)
# What the interface computes, with the gate of the class or with its own.
_LOOP = """
for index in hit:
    index = index[0]
    if index == self.num_experts:
        continue
    place, token = torch.where(mask[index])
    {body}
    total.index_add_(0, token, states.to(total.dtype))
"""
BY_METHOD = """states = self._apply_gate(F.linear(hidden_states[token], self.gate_up_proj[index]))
    states = F.linear(states, self.down_proj[index]) * top_k_weights[token, place, None]"""
BY_ITSELF = """rows = hidden_states[token]
    gate, up = nn.functional.linear(rows, self.gate_up_proj[index]).chunk(2, dim=-1)
    states = self.act_fn(gate) * up
    states = nn.functional.linear(states, self.down_proj[index])
    states = states * top_k_weights[token, place, None]"""
LOOPS = tuple(_LOOP.format(body=body) for body in (BY_METHOD, BY_ITSELF))
LOOP_HOLES = {"index", "hit", "place", "token", "mask", "total", "states", "rows", "gate", "up"}
GIVEN = ["self", "hidden_states", "top_k_index", "top_k_weights"]
# Experts that take the rows of all experts in one tensor, and the number of rows of each.
SPLIT = """
parts = inputs.split(sizes, dim=0)
results = []
for number in range(self.num_experts):
    results.append(F.linear(parts[number], weight[number]))
joined = torch.cat(results, dim=0)
"""
SPLIT_HOLES = {"parts", "inputs", "sizes", "results", "number", "weight", "joined"}
TOGETHER = """\
# torch's grouped product takes rows of whole 16 bytes, and no float64.
is_aligned = all(size % 8 == 0 for size in {weight}.shape[1:])
if is_aligned and {inputs}.dtype != torch.float64:
    kind = {inputs}.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else {inputs}.dtype
    return _grouped_linear({inputs}.to(dtype), {weight}.to(dtype), {sizes}.cumsum(0).int())
{parts} = {inputs}.split({sizes}.tolist(), dim=0)"""


class NoShape(Exception):
    """`node` shows why no shape is that of the experts."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def grouped(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = experts(module)
    if not found:
        nothing = Missing(module.at(module.tree), "no experts are run in this file", True)
        return Contribution("grouped", missing=(nothing,))
    slow = [one for one in found if one.kind not in ("interface", "gathered")]
    if not slow:
        return Contribution(
            "grouped", redundant=_fast(found[0]), missing=tuple(_fixed(module, found))
        )
    declared: list[Declared] = []
    missing: list[Missing] = []
    for one in slow:
        try:
            declared += _written(module, one)
        except NoShape as no:
            missing.append(
                Missing(module.at(no.node), f"{one.owner.name}: {no.what}", hint=BY_HAND)
            )
    if not declared:
        return Contribution("grouped", missing=tuple(replace(one, fatal=True) for one in missing))
    says = SAYS if any(one.decorators for one in declared) else ALONE
    return Contribution("grouped", says, tuple(declared), _imports(declared), tuple(missing))


def _fast(one: Experts) -> str:
    template = BY_INTERFACE if one.kind == "interface" else GATHERED
    return template.format(name=one.owner.name)


def _fixed(module: Module, found: Sequence[Experts]) -> Iterator[Missing]:
    """Why nothing can be written, even with --force."""
    for one in found:
        if one.kind == "interface":
            yield Missing(
                module.at(one.owner.node),
                f"{one.owner.name} has its forward chosen by the interface",
                True,
            )
        else:
            yield Missing(
                module.at(one.owner.node), f"{one.owner.name} has no product for each expert", True
            )


def _written(module: Module, one: Experts) -> list[Declared]:
    """What is declared for a class of experts; raises NoShape."""
    owner, forward = one.owner, one.owner.own["forward"]
    if one.kind == "dense":
        raise NoShape(owner.node, "every expert runs on every token, whichever were chosen")
    for values in _matches(SPLIT, forward, SPLIT_HOLES):
        return _of_split_rows(module, owner, values)
    stacks = ("gate_up_proj", "down_proj")
    for name in stacks:
        if "Parameter" not in owner.makes(name):
            raise NoShape(owner.node, f"it has no parameter {name} with the weights of all experts")
    if any(_matches(loop, forward, LOOP_HOLES) for loop in LOOPS):
        given = [arg.arg for arg in forward.args.args]
        if given != GIVEN:
            raise NoShape(forward, f"forward takes {', '.join(given)}, not {', '.join(GIVEN)}")
        return [Declared(owner.name, decorators=(DECORATOR,))]
    loop = next(walk(forward.body, ast.For), forward)
    raise NoShape(loop, "an expert computes something else than transformers' interface does")


def _matches(shape: str, method: ast.FunctionDef, holes: set[str]) -> list[dict[str, str]]:
    """The code that each hole of the shape stands for, for each place that it fits."""
    found = find(tuple(ast.parse(shape).body), method, frozenset(holes))
    return [
        {name: ast.unparse(node) for name, node in match.bound.holes.items() if node is not None}
        for match in found
    ]


def _of_split_rows(module: Module, owner: Class, values: dict[str, str]) -> list[Declared]:
    """One product for all experts, and no copy of the counts to the CPU."""
    counting, method, statement = _makes_a_list(module, owner, values["sizes"])
    old = "{parts} = {inputs}.split({sizes}, dim=0)".format(**values)
    together = edit("run_them_together", owner.own["forward"], [old], [TOGETHER.format(**values)])
    counts = edit("leave_the_counts_on_the_device", method, [ast.unparse(statement)], ["pass"])
    return [Declared(owner.name, members=(together,)), Declared(counting.name, members=(counts,))]


def _makes_a_list(
    module: Module, owner: Class, sizes: str
) -> tuple[Class, ast.FunctionDef, ast.stmt]:
    """Where the sizes become a list; other code may only pass them on to the experts."""
    places = []
    for other in module.classes.values():
        for method in other.own.values() if other is not owner else ():
            start = 0
            for statement in walk(method.body, ast.Assign):
                if ast.unparse(statement) == f"{sizes} = {sizes}.tolist()":
                    places.append((other, method, statement))
                    start = statement.lineno
            passed = {id(node) for node in _passed_on(method, sizes)}
            for read in walk(method.body, ast.Name):
                is_read = read.id == sizes and isinstance(read.ctx, ast.Load)
                if is_read and read.lineno > start and id(read) not in passed:
                    raise NoShape(read, f"`{sizes}` is read here too, as a list")
    if len(places) != 1:
        what = f"`{sizes}` is made a list by {len(places)} statements of this file, not by one"
        raise NoShape(owner.node, what)
    return places[0]


def _passed_on(method: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    for node in walk(method.body, ast.AST):
        match node:
            case ast.Tuple(elts=values):
                pass
            case ast.Call(args=values) if called(node).startswith("self."):
                pass
            case ast.Return(value=ast.expr() as value):
                values = [value]
            case _:
                continue
        yield from (value for value in values if dotted(value) == name)


def _imports(declared: Sequence[Declared]) -> tuple[str, ...]:
    texts = [member for one in declared for member in one.members]
    lines = list(imports_for(texts))
    if texts:
        lines += [
            "from patchgen.edits import edit, new, old",
            "from transformers.integrations.moe import _grouped_linear",
        ]
    if any(one.decorators for one in declared):
        lines.append(f"from transformers.integrations import {DECORATOR}")
    return tuple(lines)

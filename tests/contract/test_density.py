"""How densely patchgen is written: syntax nodes for each line of code, so that folding a statement gains nothing.

black, click and pyupgrade have 6 to 9 nodes a line, and no function above 18.  Ceilings are only ever lowered.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tests.toytree import REPOSITORY

# Of a function with eight lines of code or more.
DENSE, SHORT = 18, 8
TIGHT = 14
# How many functions may be above each, and nodes in all.
FUNCTIONS_ABOVE = 0
FUNCTIONS_TIGHT = 62
NODES = 564632


@dataclass(frozen=True, order=True)
class Density:
    nodes_a_line: float
    place: str


def lines_of_code(text: str, tree: ast.Module) -> set[int]:
    """The numbers of lines that are neither empty nor a comment nor in a docstring."""
    numbers = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.strip().startswith("#"):
            numbers.add(number)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                docstring = node.body[0]
                numbers.difference_update(range(docstring.lineno, docstring.end_lineno + 1))
    return numbers


def count_nodes(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def densities(text: str, name: str) -> list[Density]:
    """The density of each function that is not short."""
    tree = ast.parse(text)
    code = lines_of_code(text, tree)
    measured = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            lines = len(code.intersection(range(node.lineno, node.end_lineno + 1)))
            if lines >= SHORT:
                place = f"{name}:{node.lineno} {node.name}"
                measured.append(Density(count_nodes(node) / lines, place))
    return measured


def sources() -> dict[str, str]:
    paths = sorted((REPOSITORY / "patchgen").rglob("*.py"))
    return {str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8") for path in paths}


def test_few_functions_are_dense():
    measured = [density for name, text in sources().items() for density in densities(text, name)]
    measured.sort(reverse=True)
    dense = [density for density in measured if density.nodes_a_line > DENSE]
    worst = "\n".join(f"{density.nodes_a_line:.1f} {density.place}" for density in measured[:10])
    assert len(dense) <= FUNCTIONS_ABOVE, f"{len(dense)} functions; the worst:\n{worst}"
    tight = [density for density in measured if density.nodes_a_line > TIGHT]
    assert len(tight) <= FUNCTIONS_TIGHT, f"{len(tight)} functions; the worst:\n{worst}"


def test_the_package_does_not_grow():
    nodes = sum(count_nodes(ast.parse(text)) for text in sources().values())
    assert nodes <= NODES, f"{nodes:,} nodes: look first for what can go"


FOLDED = """
def f(rows, width):
    a, b = min((x for row in rows for x in row if x), default=0), [y[::2] for y in rows if y[0] > 1]
    c = {k: [v for v in vs if v % 2 and v > a] for k, vs in zip(b, rows, strict=True) if vs or k}
    d = max(sum(p * q for p, q in zip(k, v, strict=True)) if v else len(k) for k, v in c.items())
    e = [r for r in rows if all(x > d or x < a for x in r) and not any(x is None for x in r[1:])]
    g = sorted(e, key=lambda r: (len(r), -sum(r) if r else 0, r[0] if r else a), reverse=a > d)
    h = dict(zip([tuple(r) for r in g if r], [sum(r[i] for i in range(len(r))) for r in g if r]))
    return [h[k] + (d if k else a) for k in h if k[0] > width or len(k) > d], {v for v in h.values()}
"""


def test_a_folded_function_is_seen():
    (folded,) = densities(FOLDED, "folded.py")
    assert folded.nodes_a_line > DENSE, folded
    assert folded.place == "folded.py:2 f"

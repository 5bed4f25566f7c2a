"""Write the text of an edit, with names that are valid in a modular file."""

from __future__ import annotations

import ast
import builtins
import copy
import textwrap
from collections.abc import Sequence

from patchgen.author.anatomy.code import names, stored, walk
from patchgen.author.anatomy.module import Module

# A modular file imports these under the same names as the parent.
OUTSIDE = {"torch", "nn", "math", "F"}


class _Qualified(ast.NodeTransformer):
    """Qualifies the names of the parent module: `rotate` becomes `llama.rotate`."""

    def __init__(self, module: Module, local: frozenset[str], known: frozenset[str]) -> None:
        self.module = module
        self.local = local
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if (
            node.id in self.local
            or node.id in self.known
            or node.id in OUTSIDE
            or hasattr(builtins, node.id)
        ):
            return node
        return ast.copy_location(
            ast.Attribute(ast.Name(self.module.alias, ast.Load()), node.id, ast.Load()), node
        )


def local_names(method: ast.FunctionDef) -> frozenset[str]:
    """The parameters and local names of `method`."""
    arguments = [node.arg for node in walk(method.args, ast.arg)]
    return frozenset(stored(method.body)) | frozenset(arguments)


def code(
    module: Module, method: ast.FunctionDef, node: ast.AST | str, known: Sequence[str] = ()
) -> str:
    """The code of `node` for an edit of `method`; the modular file imports the names in `known`."""
    tree = ast.parse(node) if isinstance(node, str) else copy.deepcopy(node)
    return ast.unparse(_Qualified(module, local_names(method), frozenset(known)).visit(tree))


def edit(
    name: str,
    method: ast.FunctionDef,
    old: Sequence[str],
    new: Sequence[str],
    holes: Sequence[str] = (),
    count: int = 1,
) -> str:
    """An edit of `method` from `old` to `new`, statement by statement."""
    texts = [*old, *new]
    trees = [ast.parse(textwrap.dedent(text)) for text in texts]
    parameters = sorted(_read_unbound(trees) & local_names(method) - {"self"} - set(holes))
    signature = ", ".join(["self", *parameters, *(f"{hole}: Hole" for hole in holes)])
    times = f", count={count}" if count > 1 else ""
    parts = [f'@edit("{method.name}"{times})', f"def {name}({signature}):"]
    for word, lines in (("old", old), ("new", new)):
        parts += [f"    with {word}:", *(textwrap.indent(line, " " * 8) for line in lines)]
    return "\n".join(parts)


def _read_unbound(trees: Sequence[ast.Module]) -> set[str]:
    """The names that are read before they are bound, by the order of the text."""
    found: set[str] = set()
    bound: set[str] = set()
    for statement in walk(trees, ast.stmt):
        inside = [
            node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)
        ]
        found |= names(inside) - bound
        bound |= stored(inside)
    return found

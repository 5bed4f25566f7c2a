"""What a fork does when it is imported, and no modular file may do: it is left out, and named.

HERE = os.path.dirname(__file__)        class LlamaMLP(nn.Module):
sys.path.append(HERE)                       print("patched")

A class or a function that reads what such a statement binds could be another one without it: then
the statement stays, and is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from patchgen.author.align.file import Cut, File, read_file, with_cuts
from patchgen.compiler.language import check_code, check_statements
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Import, first_line, index, is_main
from patchgen.syntax.bound import bound_names
from patchgen.syntax.same import is_documenting
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Function, names_within, walk

# What these do depends on their text, or may be to a class.
_ANYTHING = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "delattr"})


def without_acts(fork: File) -> File:
    """The fork with `pass` in the place of such statements, which are `left`."""
    left = tuple(dict.fromkeys(_find_acts(fork)))
    cuts: list[Cut] = []
    for node in left:
        start = first_line(node), node.col_offset
        stop = node.end_lineno or 0, node.end_col_offset or 0
        cuts.append(Cut(start, stop, "pass"))
    text = with_cuts(fork.source.text, cuts)
    return replace(read_file(make_source(text, fork.source.path)), left=left)


def _find_acts(fork: File) -> Iterator[ast.stmt]:
    modular = index(make_source(fork.source.text, fork.source.path, "modular_fork"))
    # Of what may change a class, nothing is left out.
    changing = {finding[0] for finding in check_statements(modular, _is_carried)}
    refused = {finding[0] for finding in check_code(modular, _is_carried)}
    for node in fork.tree.body:
        if is_main(node):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _acts_in(node, fork)
        elif not refused.isdisjoint(_lines(node)):
            acts = [node]
            for act in acts:  # which grow by what reads what one of them binds
                bound = {*bound_names([act])}
                readers = {read.line for read in fork.reads if read.name in bound}
                for other in fork.tree.body:
                    if other not in acts and not readers.isdisjoint(_lines(other)):
                        acts.append(other)
            if not any(_may_define(act) or changing.intersection(_lines(act)) for act in acts):
                yield from acts


def _acts_in(node: ast.ClassDef, fork: File) -> Iterator[ast.stmt]:
    """The statements of a class body that act, and the methods that later ones replace."""
    below: set[str] = set()
    read = {name.id for name in names_within(node)}
    for part in reversed(node.body):
        if _acts_alone(part, fork):
            yield part
        elif isinstance(part, Function):
            # Python has the last of two methods of one name.
            is_plain = all(map(is_documenting, part.decorator_list))
            if is_plain and part.name in below - read:
                yield part
            below.add(part.name)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or 0) + 1)


def _is_carried(item: Import) -> bool:
    return item.module.startswith(f"{MODELS}.")


def _may_define(node: ast.stmt) -> bool:
    """Whether a statement imports something, or defines or changes a class or a function."""
    return any(
        isinstance(part, ast.Import | ast.ImportFrom | ast.ClassDef | Function)
        or (isinstance(part, ast.Name) and part.id in _ANYTHING)
        for part in walk(node)
    )


def _acts_alone(node: ast.stmt, fork: File) -> bool:
    """Whether a statement of a class body is a call in which nothing of the fork takes part."""
    match node:
        case ast.Expr(value=ast.Call()):
            read = {name.id for name in names_within(node)}
            return read.isdisjoint(_ANYTHING) and read.isdisjoint(fork.definitions)
    return False

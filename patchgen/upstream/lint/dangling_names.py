"""Find names that an output uses and nothing binds.

modeling_new.py:12 uses scale, which nothing binds
modeling_new.py:3 imports NewConfig, which configuration_new.py does not have
"""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterator

from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import global_names
from patchgen.upstream.lint.case import Case, Shipped
from patchgen.upstream.lint.finding import finding

_KNOWN = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "__package__",
    "__spec__",
    "__class__",
}


def dangling_names(case: Case) -> Iterator[Problem]:
    """One finding a name and output, at the class that uses it."""
    for output in case.shipped:
        for name, line in _unbound(output):
            what = f"{output.display_path}:{line} uses {name}, which nothing binds"
            yield finding(
                "PG709", _at(case, output, line), what, "import or define it in the modular file"
            )
        for name, sibling, line in _missing(output, case):
            what = f"{output.display_path}:{line} imports {name}, which {sibling} does not have"
            yield finding(
                "PG709", Location(case.source.path, 1, 1), what, "define it, or import another name"
            )


def _unbound(output: Shipped) -> Iterator[tuple[str, int]]:
    """Each name that nothing binds, with the line of its first read."""
    bound = {*bound_names(output.tree.body), *_KNOWN}
    # A star import may bind any name.
    if "*" in bound or not _may_dangle(output, bound):
        return
    # A function may bind a name of the module.
    bound |= global_names(output.tree)
    seen: set[str] = set()
    for reference in references(output.tree.body):
        name = reference.name
        # Nothing evaluates a quoted annotation.
        if name in bound or name in seen or reference.quoted:
            continue
        seen.add(name)
        yield name, reference.line


def _may_dangle(output: Shipped, bound: set[str]) -> bool:
    """Whether a global is read that is not in `bound`; which one and where, only `references` can
    tell.

    By the compiler's own tables, which take a fraction of the time: nearly always there is nothing
    to tell.
    """
    try:
        # The compiler warns of escapes such as "\d", which are not the question here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = symtable.symtable(output.text, output.display_path, "exec")
    except SyntaxError:  # it parses, and the compiler refuses it
        return True
    return not _globals_of(table) <= bound


def _globals_of(table: symtable.SymbolTable) -> set[str]:
    """Every name that is read as a global in `table` and below, and some more."""
    found: set[str] = set()
    waiting = [table]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        # The compiler knows which names of a function are global.
        if isinstance(table, symtable.Function):
            found.update(table.get_globals())
        else:
            # A class body may read a global before it binds the name.
            found.update(
                symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()
            )
    return found


def _missing(output: Shipped, case: Case) -> Iterator[tuple[str, str, int]]:
    """Names imported from an output beside it which that one does not bind."""
    siblings = {f"{other.kind}_{case.model}": other for other in case.shipped}
    # The walk takes much longer than the search.
    if not any(f".{name} import" in output.text for name in siblings):
        return
    for node in ast.walk(output.tree):
        if not isinstance(node, ast.ImportFrom) or node.level != 1:
            continue
        sibling = siblings.get(node.module or "")
        if sibling is None:
            continue
        bound = {*bound_names(sibling.tree.body), "*"}
        for alias in node.names:
            if alias.name not in bound:
                yield alias.name, sibling.display_path, node.lineno


def _at(case: Case, output: Shipped, line: int) -> Location:
    """The modular definition that line `line` of the output belongs to."""
    for node in output.tree.body:
        name = getattr(node, "name", "")
        if node.lineno <= line <= (node.end_lineno or 0) and name in case.facts.blocks:
            return case.at(case.facts.blocks[name])
    return Location(case.source.path, 1, 1)

"""Make relative imports absolute, because the flat file lies in another folder.

def forward(self, x):                      def forward(self, x):
    from ..kernels import scale     ->         from toypack.kernels import scale
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchgen.compiler.link.qualify_checks import refuse_local_import
from patchgen.compiler.link.textchanges import TextChange
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import statements_within

# `from .module import` matches the groups 1 and 2, `from . import` matches group 3.
_RELATIVE_IMPORT = re.compile(r"from\s*(\.[.\s]*)(?!import\b)([\w.]*)|from\s*(\.+)")


def make_imports_absolute(
    module: ModuleIndex, block: Block, tree: ast.Module, naming: Naming
) -> Iterator[TextChange]:
    """The changes that make each relative import of `block` absolute; `tree` is its syntax.

    Raises PatchgenError PG114 for an import that cannot be changed, PG115 for one inside a function
    that would bring what the flat file replaces.
    """
    lines = block.text.split("\n")
    for node in statements_within(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        at = module.source.at(block.first + node.lineno - 1, node.col_offset)
        target = naming.bindings.absolute(module, node.module or "", node.level, at)
        for alias in node.names:
            refuse_local_import(module, block, Symbol(target, alias.name), at, naming)
        # An absolute import stays, but must not bring what the flat file replaces either.
        if not node.level:
            continue
        # Latin-1 has one character for each byte, so that columns of both are the same.
        line = lines[node.lineno - 1].encode().decode("latin-1")
        found = _RELATIVE_IMPORT.match(line, node.col_offset)
        if found is None:
            what = "this import cannot be made absolute"
            raise PatchgenError("PG114", at, what, "write it on one line")
        first, last = (1, 2) if found[1] else (3, 3)
        start, end = found.start(first), found.end(last)
        # The dots may touch the keywords: `from.import*`.
        before = "" if line[start - 1].isspace() else " "
        after = "" if line[end : end + 1].isspace() else " "
        yield TextChange(node.lineno, start, end, f"{before}{target}{after}")

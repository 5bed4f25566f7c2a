"""Imports of transformers that follow what the new release calls otherwise, or has elsewhere.

from transformers.modeling_layers import GradientCheckpointingLayer

from transformers.layers import GradientCheckpointingLayer                        moved
from transformers.modeling_layers import Checkpointed as GradientCheckpointingLayer     renamed
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from difflib import SequenceMatcher

from patchgen.author.align.file import Cut, Definition, read_file, replacing, with_cuts
from patchgen.author.rebase.releases import Tree
from patchgen.compiler.emit.release import find_home
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source

Import = tuple[str, str]  # a module and a name in it
_NEAR = 0.8  # of the words of a definition that upstream renamed


def follow_imports(text: str, trees: tuple[Tree, Tree]) -> str:
    """A modular file with the imports that it needs on the second release."""
    cuts: list[Cut] = []
    modular = read_file(make_source(text, "modular.py"))
    for node in modular.tree.body:
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        if node.module.partition(".")[0] != "transformers":
            continue
        statements: dict[str, list[ast.alias]] = defaultdict(list)
        is_moved = False
        for alias in node.names:
            module, name = find_new_place(node.module, alias.name, trees)
            is_moved |= (module, name) != (node.module, alias.name)
            bound = alias.asname or alias.name
            asname = bound if bound != name else None
            statements[module].append(ast.alias(name, asname))
        if is_moved:
            imports = [ast.ImportFrom(module, names, 0) for module, names in statements.items()]
            lines = "\n".join(map(ast.unparse, imports))
            cuts.append(replacing(node, lines))
    return with_cuts(text, cuts)


def find_new_place(module: str, name: str, trees: tuple[Tree, Tree]) -> Import:
    """Where the second release has what the first one has as `name` of `module`."""
    old, new = trees
    if not new.names.lacks(module, name) or old.names.lacks(module, name):
        return module, name
    home = find_home(name, new.environment)
    if home:
        return home, name
    before = old.definition(module, name)
    file = new.file(module)
    if before is None or file is None:
        return module, name
    wanted = _list_words(before[1], name)
    alike: list[tuple[float, str]] = [(_NEAR, name)]
    for other in file.definitions.values():
        if old.definition(module, other.name) is None:
            words = _list_words(other, name)
            matcher = SequenceMatcher(None, words, wanted, autojunk=False)
            alike.append((matcher.ratio(), other.name))
    # Nearly the same text but for the name is the same thing under another one.
    return module, max(alike)[1]


def _list_words(definition: Definition, name: str) -> list[str]:
    """The words of a definition, as if it had the `name`."""
    words = re.findall(r"\w+", " ".join(map(plain_text, definition.nodes)))
    return [name if word == definition.name else word for word in words]

"""Look up the recorded parents of overrides in a modular file that does not convert.

One class that is gone upstream stops a modular file.  Its other overrides may be stale as well, and
a person who repairs the file needs all of them.  What it overrides is known only by its records.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.flat import Override
from patchgen.project.files import Modular
from patchgen.syntax.blocks import Block
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.regular import read_regular_text


def find_recorded(name: str, symbol: str, modular: Modular, env: Environment) -> Override | None:
    """The override `name`, recorded with the parent `symbol`, and what the parent says now.

    None where the modular file has no such override any more.
    """
    at = _place_of(name, modular)
    if at is None:
        return None
    # "LlamaMLP.forward" is a member, "apply_rope" a definition of the module.
    text = _text_of(symbol, "." in name, env)
    return Override(at, name, symbol if text else "", text)


def _place_of(name: str, modular: Modular) -> Location | None:
    """Where the modular file has the override; the whole file where it is no Python."""
    try:
        tree = ast.parse(read_regular_text(modular.path))
    except (OSError, ValueError, SyntaxError):
        return Location(modular.display_path)
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        node = next((node for node in body if part in _names(node)), None)
        if node is None:
            return None
        # Nothing else has members that override.
        body = node.body if isinstance(node, ast.ClassDef) else []
    assert node is not None
    return Location(modular.display_path, node.lineno, node.col_offset + 1)


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement may override by."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _text_of(symbol: str, is_member: bool, env: Environment) -> str:
    """The text of "module.name", or of "module.Class.name"; "" where it is gone."""
    if not is_member:
        definition = _definition(symbol, env)
        return definition.text if definition is not None else ""
    owner, _, name = symbol.rpartition(".")
    definition = _definition(owner, env)
    if definition is None or definition.kind != "class":
        return ""
    # A run in which every file converts need not load what makes outputs.
    from patchgen.compiler.emit.outputs import read_member

    return read_member(definition.text, owner.rpartition(".")[2], name)


def _definition(symbol: str, env: Environment) -> Block | None:
    """The definition "module.name"; None where it cannot be found or read."""
    module, _, name = symbol.rpartition(".")
    if env.path(module) is None:
        return None
    try:
        return env.index(module, Location(module)).definition(name)
    except PatchgenError:
        return None

"""Check that every name of an edited method means what it meant where it was written.

    scale = 100                                  def f(self, x):
                                                     scale = 5
    with new:                                        y = x + scale    # would be 105: PG309
        y = x + scale

A name of the method has to belong to the scope that it belonged to.  In new code, the parameters of
the edit and what the edit binds are names of the method, as if its author had written them there;
every other name is global, and has to stay so.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchgen.compiler.edits.declared import EditDeclaration
from patchgen.compiler.edits.meant import Replaced
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.meanings import occurrences
from patchgen.syntax.trees import Function

_BUILTINS = frozenset(dir(builtins))
_RENAME = "give {} under `with new:` another name"
Key = tuple[int, str]
"""Identifies a name by the node that it was written as."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A name in a function."""

    key: Key
    # The name that labels the scope that binds it; "" is the function itself, None outside of it.
    scope: Key | str | None
    node: ast.AST
    is_read: bool

    @property
    def name(self) -> str:
        return self.key[1]


def _read_names(
    function: Function, origin: Callable[[ast.AST], ast.AST] = lambda node: node
) -> list[_Named]:
    """The names of `function`, each with what `origin` says that it was written as."""
    uses = occurrences(function)
    keys = [(id(origin(name.node)), name.name) for name in uses]
    names: list[_Named] = []
    for key, occurrence in zip(keys, uses, strict=True):
        scope: Key | str | None = None
        if occurrence.scope is not None:
            scope = keys[occurrence.scope.label] if occurrence.scope.outer is not None else ""
        names.append(_Named(key, scope, occurrence.node, occurrence.is_read))
    return names


def require_meanings(
    title: str, method: Function, edits: Sequence[EditDeclaration], replaced: Replaced
) -> None:
    """Raise PG309 where a name of the method `title` would mean something else after `edits`."""
    before = {name.key: name for name in _read_names(method)}
    declared: dict[Key, tuple[EditDeclaration, _Named]] = {}
    removed: dict[str, EditDeclaration] = {}
    for edit in edits:
        declared |= {name.key: (edit, name) for name in _read_names(edit.node)}
        removed |= {parameter.arg: edit for parameter in edit.removed}
    after = _read_names(replaced.tree, lambda node: replaced.origins[id(node)])
    # Errors of the new code first: the author sees that code.
    new_code = [name for name in after if name.key not in before]
    for name in new_code:
        edit, meant = declared[name.key]
        if name.name not in edit.holes:
            _require_meant(title, name, edit, meant)
    for name in after:
        word = name.name
        if name.key not in before:
            edit, _ = declared[name.key]
            if word in edit.holes:
                # A hole stands for an expression, and is replaced only where one can stand.
                what = f"{word} is a Hole, but `with new:` binds the name"
                raise PatchgenError("PG305", edit.at(edit.last), what, _RENAME.format(word))
            continue
        old_scope = before[name.key].scope
        if name.scope is None and word in removed and old_scope is not None:
            edit = removed[word]
            what = f"{title} still reads {word}, which {edit.node.name} removes"
            hint = "edit the code that reads it, too"
            raise PatchgenError("PG309", edit.at(edit.node), what, hint)
        # What bound a name of the method may be gone, and Python tells, but nothing else may
        # bind it.
        if name.scope not in (None, old_scope):
            # Else it is a parameter of the edit, which stands for a name of the method.
            edit = edits[0]
            at = edit.at(edit.last)
            for other in reversed(new_code):
                if (other.name, other.scope) == (word, name.scope) and not other.is_read:
                    edit, meant = declared[other.key]
                    at = edit.body.at(edit.statement, meant.node)
            now = f"the {word} that {edit.node.name} binds under `with new:`"
            what = f"{word} of {title} would be {now}"
            raise PatchgenError("PG309", at, what, _RENAME.format(word))


def _require_meant(title: str, name: _Named, edit: EditDeclaration, meant: _Named) -> None:
    at = edit.body.at(edit.statement, meant.node)
    word = name.name
    if meant.scope is None and name.scope is not None:
        kind = "builtin" if word in _BUILTINS else "global"
        what = f"{word} is a {kind} here, but {title} has a local {word}"
        hint = f"list {word} among the edit's parameters if the local is meant, "
        hint += "else use another name"
        raise PatchgenError("PG309", at, what, hint)
    if meant.scope and meant.scope != name.scope:
        what = f"{word} would belong to another scope in {title} than it does here"
        raise PatchgenError("PG309", at, what, _RENAME.format(word))

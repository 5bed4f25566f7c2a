"""Check that every name of an edited method means what it meant where it was written.

    scale = 100                                  def f(self, x):
                                                     scale = 5
    with new:                                        y = x + scale    # would be 105: PG309
        y = x + scale

In: the names of the method, of its edits and of the edited method, all with numbers.  A name of the
method has to belong to the scope that it belonged to.  In new code, the parameters of the edit and
what the edit binds are names of the method, as if its author had written them there; every other
name is global, and has to stay so.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.edits.declared import EditDeclaration
from patchgen.compiler.edits.numbered import Named
from patchgen.compiler.merge.members import ClassBody
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.meanings import occurrences

_BUILTINS = frozenset(dir(builtins))
_RENAME = "give {} under `with new:` another name"


@dataclass(frozen=True, slots=True)
class EditNames:
    """The names of an edit as they are written with their numbers."""

    declaration: EditDeclaration
    names: Mapping[str, Named]

    def at(self, name: Named, body: ClassBody) -> Location:
        """Where the declaration, which is in `body`, has a `name` of its own."""
        # Numbers change no shape: the name stands at the same place among all names.
        found = occurrences(self.declaration.node)[self.names[name.written].place]
        return body.at(self.declaration.statement, found.node)


@dataclass(frozen=True, slots=True)
class Check:
    """The names of the method `title` before and after, and those of its edits."""

    title: str
    before: Mapping[str, Named]
    edits: Sequence[EditNames]
    after: Sequence[Named]

    def require_meanings(self, body: ClassBody) -> None:
        """Raises PatchgenError PG309 where a name would mean something else.

        The error points at the declaration in `body`.
        """
        # Errors of the new code first: the author sees that code.
        for name in self.after:
            if self._is_of_new_code(name):
                self._require_meant(name, self._edit_of(name), body)
        for name in self.after:
            if not name.has_number:
                self._refuse_bound_hole(name, body)
            elif name.written in self.before:
                self._require_same(name, body)

    def _is_of_new_code(self, name: Named) -> bool:
        """Whether the method did not have the name: its number is one of an edit."""
        return name.has_number and name.written not in self.before

    def _edit_of(self, name: Named) -> EditNames:
        return next(edit for edit in self.edits if name.written in edit.names)

    def _refuse_bound_hole(self, name: Named, body: ClassBody) -> None:
        """A hole stands for an expression, and is replaced only where one can stand."""
        edit = next(edit.declaration for edit in self.edits if name.name in edit.declaration.holes)
        what = f"{name.name} is a Hole, but `with new:` binds the name"
        at = body.at(edit.statement, edit.new)
        raise PatchgenError("PG305", at, what, _RENAME.format(name.name))

    def _require_same(self, name: Named, body: ClassBody) -> None:
        """Check a name of the method: what bound it may be gone, but nothing else may bind it."""
        was = self.before[name.written]
        # A local whose binding is gone is a global now, or unbound: Python tells.
        if name.scope is None or name.scope == was.scope:
            return
        edit, at = self._find_binder(name, body)
        what = (
            f"{name.name} of {self.title} would be the {name.name} "
            f"that {edit} binds under `with new:`"
        )
        raise PatchgenError("PG309", at, what, _RENAME.format(name.name))

    def _find_binder(self, name: Named, body: ClassBody) -> tuple[str, Location]:
        """The edit that binds `name` now, and where."""
        for other in self.after:
            if other.name != name.name or other.scope != name.scope or other.is_read:
                continue
            if self._is_of_new_code(other):
                found = self._edit_of(other)
                return found.declaration.node.name, found.at(other, body)
        # A parameter of the edit, which stands for a name of the method.
        declared = self.edits[0].declaration
        return declared.node.name, body.at(declared.statement, declared.new)

    def _require_meant(self, name: Named, edit: EditNames, body: ClassBody) -> None:
        """Check that a name of new code keeps the scope that it has in the declaration."""
        meant = edit.names[name.written]
        if meant.scope is None and name.scope is not None:
            kind = "builtin" if name.name in _BUILTINS else "global"
            what = f"{name.name} is a {kind} here, but {self.title} has a local {name.name}"
            hint = (
                f"list {name.name} among the edit's parameters if the local is meant, "
                "else use another name"
            )
            raise PatchgenError("PG309", edit.at(name, body), what, hint)
        if meant.is_inner and meant.scope != name.scope:
            what = f"{name.name} would belong to another scope in {self.title} than it does here"
            hint = _RENAME.format(name.name)
            raise PatchgenError("PG309", edit.at(name, body), what, hint)

"""What a modular class becomes together with the class of another model that it derives from.

In: the text of both classes, the parent's already renamed.  Out: the text of one class without
inheritance between them, and its bases.  Text is cut at the positions of `ast`; no tree outlives
the call.  Layout is left to ruff.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.upstream.bases import merged_arguments, names_of
from patchgen.upstream.brackets import joined
from patchgen.upstream.calls import parents_called, to_super
from patchgen.upstream.inline_super import (
    Tables,
    hoist_init,
    inherited_body,
    post_init_last,
    super_call,
)
from patchgen.upstream.members import Member, Members, members
from patchgen.upstream.method import Body, Method, docstring_of, make_method, parsed
from patchgen.upstream.model import ClassText
from patchgen.upstream.signature import is_misused, merged_decorators, merged_parameters
from patchgen.upstream.statements import Statement

At = Callable[[int, int], Location]
_REMOVED = re.compile(r"    [^=:]+ = AttributeError\(")
_RAISING = re.compile(r"    def [^\n]*\n        raise \w*Error\(")


def merge_class(
    child: ClassText,
    parent: ClassText,
    model_base: str,
    docs: Callable[[str], str] | None,
    child_at: At | None = None,
) -> tuple[str, tuple[str, ...]]:
    """The text of the merged class, to be formatted, and its bases.

    `model_base` is the base of `child` that `parent` stands for, `docs` a renaming of the parent's
    strings and comments.  `child_at` maps a line and a byte column of the child's text to a place.
    Raises PatchgenError PG620 to PG622.
    """
    at = child_at or (lambda line, _column: Location(child.name, line))
    leading, text = parent.leading, parent.text
    # The parent's code has its new names already; its documentation depends on the class.
    if docs:
        leading, text = docs(leading), docs(text)
    own, inherited = members(child.text), members(text)
    arguments = merged_arguments(own.arguments, inherited.arguments, model_base)
    bases = names_of(arguments)
    merge = _Merge(own, inherited, bases, at)
    _require_sole_marker(own.decorators, lambda: at(1, 0))
    decorators = merged_decorators(own.decorators, inherited.decorators)
    header = (
        f"class {child.name}({joined(arguments)}):\n" if arguments else f"class {child.name}:\n"
    )
    # A class may lose all that it had.
    body = "".join(merge.body()) or "    pass\n"
    return f"{leading}{decorators}{header}{body}", bases


def _require_sole_marker(decorators: str, at: Callable[[], Location]) -> None:
    """Raise PG620 where `@no_inherit_decorator` cannot mean anything."""
    if is_misused(decorators):
        what = "`@no_inherit_decorator` stands beside other decorators"
        hint = "leave it out: decorators of the modular file replace the parent's"
        raise PatchgenError("PG620", at(), what, hint)


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge of two classes."""

    own: Members
    inherited: Members
    bases: tuple[str, ...]
    at: At

    def body(self) -> Iterable[str]:
        """The members in the order docstring, attributes, methods."""
        if docstring := self.own.docstring or self.inherited.docstring:
            yield docstring.whole
        yield from (attribute.whole for attribute in self._attributes())
        yield from self._methods()

    def _attributes(self) -> Iterable[Member]:
        """The parent's attributes, changed and without the removed ones, then the child's own."""
        merged = dict(self.inherited.attributes)
        for key, attribute in self.own.attributes.items():
            if not _is_removal(attribute):
                merged[key] = attribute
            elif merged.pop(key, None) is None:
                what = f"the parent has no attribute `{key}` to remove"
                hint = did_you_mean(key, self.inherited.attributes)
                at = self.at(attribute.line + 1, 4)
                raise PatchgenError("PG621", at, what, hint)
        return merged.values()

    def _methods(self) -> Iterable[str]:
        """The parent's methods, overridden and without the removed ones, then the child's own."""
        tables, parents = Tables(), parents_called(self.bases)
        above = self.inherited.methods
        # `forward = AttributeError()` removes a method, and an attribute of its name replaces it.
        merged = {
            name: method.whole for name, method in above.items() if name not in self.own.attributes
        }
        for name, method in self.own.methods.items():
            if name not in above:
                merged[name] = self._added(make_method(method), tables, parents)
            elif is_method_removal(method):
                merged.pop(name, None)
            else:
                merged[name] = self._overriding(
                    make_method(method), make_method(above[name]), tables, parents
                )
        return merged.values()

    def _added(self, method: Method, tables: Tables, parents: frozenset[str]) -> str:
        """The text of a method that the parent does not have."""
        head = _head(method, method.parameters, method.returns)
        body = self._body(method, None, tables, parents)
        return f"{method.leading}{method.decorators}{head}{method.tail}{body}"

    def _overriding(
        self, method: Method, above: Method, tables: Tables, parents: frozenset[str]
    ) -> str:
        """The child's method, in the place and with the comments of the parent's."""
        _require_sole_marker(method.decorators, lambda: self.at(method.line, 4))
        decorators = merged_decorators(method.decorators, above.decorators)
        parameters = merged_parameters(method.parameters, above.parameters)
        head = _head(above, parameters, method.returns or above.returns)
        # An override without a docstring of its own inherits one.
        docstring = "" if docstring_of(method) else docstring_of(above)
        body = self._body(method, above, tables, parents)
        return f"{above.leading}{decorators}{head}{method.tail}{docstring}{body}"

    def _body(
        self, method: Method, above: Method | None, tables: Tables, parents: frozenset[str]
    ) -> str:
        """The body of the merged method, without a docstring that only the parent's has."""
        # Without such a call the body stays as it is, and need not be parsed.
        calls_super = f"super().{method.name}" in method.body
        if not calls_super and not any(f"{parent}." in method.body for parent in parents):
            return method.body
        parsed_body = parsed(method)
        inlined = self._inline_super(method, parsed_body, above, tables, parents)
        return "".join(statement.whole for statement in inlined) + parsed_body.footer

    def _inline_super(
        self,
        method: Method,
        own: Body,
        above: Method | None,
        tables: Tables,
        parents: frozenset[str],
    ) -> list[Statement]:
        """The statements of the merged body.

        Those before the call to `super()` no longer name the parent class.
        """
        statements: list[Statement] = []
        for place, statement in enumerate(own.statements):
            if not super_call(statement, method.name):
                statements.append(to_super(statement, own.lines, parents))
                continue
            if above is None:
                raise self._nothing_to_inline(method, statement)
            tail = own.statements[place + 1 :]
            for following in tail:
                tables.note(own.lines, following)
            inherited = parsed(above)
            statements += inherited_body(inherited, tail, tables)
            # Not where the child names the base itself: sam3_tracker works on the configuration
            # first.
            return hoist_init(post_init_last(statements), inherited.statements)
        return statements

    def _nothing_to_inline(self, method: Method, statement: Statement) -> PatchgenError:
        """The error for a call of `super()` that no text of the parent can replace."""
        hint = did_you_mean(method.name, self.inherited.methods)
        what = f"the parent has no method `{method.name}` of its own to put here"
        hint = hint or f"name the class: `Base.{method.name}(self, ...)`"
        # Line 1 of the parsed body is not of the class.
        at = self.at(method.line + statement.node.lineno - 1, statement.node.col_offset)
        return PatchgenError("PG622", at, what, hint)


def _head(method: Method, parameters: str, returns: str) -> str:
    """The header of a method up to its colon."""
    return f"{method.between}{method.opening}({parameters}){f' {returns}' if returns else ''}:"


def _is_removal(attribute: Member) -> bool:
    """`name = AttributeError()`."""
    return _REMOVED.match(attribute.text) is not None


def is_method_removal(method: Member) -> bool:
    """Whether the text of a method asks for its removal.

        (blank line)
        def forward(self): raise AttributeError()

    Only the text decides.  Directly under the `class` line it is an ordinary method (`postprocess`
    of deepseek_vl), and a comment on the `def` line changes nothing (embedding_gemma2).
    """
    return method.leading == "\n" and _RAISING.match(method.text) is not None

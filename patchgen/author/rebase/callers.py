"""Whether nothing but the declaration calls a method that it overrides.

    base     def forward(self, x): return self.embed(self.table(x))
    theirs   def forward(self, x): return self.embed(positions(x))       `table` is gone
    ours     def forward(self, x): return pad(self.embed(self.table(x)))
             def table(self, x): return fast_table(x)

Upstream's new code cannot miss the override: it does not call the method.  The declaration's own
code still counts on it, and gets what it got if all that the override reads has the same text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from patchgen.author.align.file import File, Member, member_names
from patchgen.author.rebase.cases import Case
from patchgen.author.rebase.declared import Declared
from patchgen.author.rebase.naming import changed_member, in_names_of
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import member_of
from patchgen.author.rebase.state import State
from patchgen.author.rebase.surroundings import set_by
from patchgen.syntax.same import Function, plain_text

_WARNINGS = frozenset({"FutureWarning", "DeprecationWarning"})
_Place = tuple[str, str]  # a class and a member; "" for what is none


def only_declaration_calls(
    case: Case, cases: Iterable[Case], output: File, trees: tuple[Tree, Tree]
) -> bool:
    """Whether upstream gave a method up that the declaration overrides and goes on to call.

    `output` is what the declaration gives on the old release, the first of `trees`.
    """
    change = case.change
    if not change.owner or change.kind == "attribute" or change.is_whole:
        return False
    ours = member_of(output, change.owner, change.member)
    old, new = (tree.definition(change.module, change.parent) for tree in trees)
    if ours is None or old is None or new is None or change.member not in old[1].members:
        return False
    found = trees[1].member(change.module, change.parent, change.member)
    if not _is_given_up(found.member if found else None):
        return False
    before, after = (in_names_of(output, file, change) for file, _ in (old, new))
    if change.kind == "edit":
        known = changed_member(before, change, change.parent)
        if known is None or not _is_new_text(known, ours):
            return False
    places = {*_callers(before, change), *_callers(output, change)}
    return (
        bool(places)
        and not [*_callers(after, change)]
        and all(_is_declared_caller(place, change, cases, (before, output)) for place in places)
        and not any(_is_of_framework(change, tree) for tree in trees)
        and _reads_the_same(ours, change, trees, (before, after))
    )


def _is_new_text(before: Member, ours: Member) -> bool:
    """Whether edits have replaced every statement of a method."""
    if before.method is None or ours.method is None:
        return False
    known = _statement_texts(before.method)
    return known.isdisjoint(_statement_texts(ours.method))


def _statement_texts(method: Function) -> frozenset[str]:
    """The text of every statement in the body of a method, at any depth."""
    inside = [node for statement in method.body for node in ast.walk(statement)]
    return frozenset(plain_text(node) for node in inside if isinstance(node, ast.stmt))


def _is_given_up(member: Member | None) -> bool:
    """Whether a method is gone, or always warns that it will be removed."""
    if member is None:
        return True
    return member.method is not None and any(
        isinstance(node, ast.Expr)
        and any(isinstance(n, ast.Name) and n.id in _WARNINGS for n in ast.walk(node))
        for node in member.method.body
    )


# What calls it


def _callers(file: File, change: Declared) -> Iterator[_Place]:
    """Where a file has the name of a method, beside the method itself."""
    own = {(change.owner, change.member), (change.parent, change.member)}
    for node in file.tree.body:
        owner = node.name if isinstance(node, ast.ClassDef) else ""
        for part in node.body if isinstance(node, ast.ClassDef) else [node]:
            if _has_name(part, change.member):
                places = [(owner, name) for name in member_names(part) or ("",)]
                yield from (place for place in places if place not in own)


def _has_name(node: ast.AST, name: str) -> bool:
    """Whether `.name` occurs, or the name as a string, with which `getattr` may ask for it."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr == name)
        or (isinstance(n, ast.Constant) and n.value == name)
        for n in ast.walk(node)
    )


def _is_declared_caller(
    place: _Place, change: Declared, cases: Iterable[Case], files: tuple[File, File]
) -> bool:
    """Whether the declaration has a caller, and that calls in the end, as far as it is known.

    `files` are the old parent's and the output.  What only the output has is the declaration's own.
    """
    before, output = (member_of(file, *place) for file in files)
    calls = output is not None and any(_has_name(n, change.member) for n in output.nodes)
    for case in cases:
        if (case.change.module, case.change.owner, case.change.member) == (change.module, *place):
            if not case.outcome.text:
                return calls and case.result.state is not State.ABSORBED
            return _has_name(ast.parse(f"class _:\n{case.outcome.text}"), change.member)
    return calls and before is None


def _is_of_framework(change: Declared, tree: Tree) -> bool:
    """Whether a class of another file, from which the parent derives, may call the method."""
    return any(
        change.member in definition.members or _has_name(file.tree, change.member)
        for file, definition in tree.ancestry(change.module, change.parent)
        if file.source.module != change.module
    )


# What it reads


def _reads_the_same(
    ours: Member, change: Declared, trees: tuple[Tree, Tree], files: tuple[File, File]
) -> bool:
    """Whether what a method reads of its class and its file has the same text in both releases."""
    inside = [n for node in ours.nodes for n in ast.walk(node)]
    names = {n.id for n in inside if isinstance(n, ast.Name)}
    own = [n for n in inside if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    attributes = {n.attr for n in own if ast.unparse(n.value) == "self"}
    if "super" in names:
        return False
    old, new = (set_by(tree, (change.module, change.parent)) for tree in trees)
    for name in attributes & old.keys() - {change.member}:
        texts = [
            _text_with_names(side[name], change.module, tree) if name in side else None
            for side, tree in zip((old, new), trees, strict=True)
        ]
        if texts[0] != texts[1]:
            return False
    return all(_is_same_global(name, *files) for name in names)


def _text_with_names(node: ast.stmt, module: str, tree: Tree) -> list[str]:
    """What gives an attribute its value, and what that is made with, as the class of a module."""
    annotations = [*ast.walk(node.annotation)] if isinstance(node, ast.AnnAssign) else []
    inside = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n not in annotations]
    found = [tree.definition(module, name) for name in sorted({n.id for n in inside})]
    return [plain_text(node), *(plain_text(n) for one in found if one for n in one[1].nodes)]


def _is_same_global(name: str, before: File, after: File) -> bool:
    """Whether two files say the same by a name; an import may be gone, which converting shows."""
    old, new = _origin(before, name), _origin(after, name)
    return old in (None, new) or (new is None and name in before.imports)


def _origin(file: File, name: str) -> list[str] | None:
    """The text that defines a name in a file, or where it is imported from."""
    if name in file.definitions:
        return [plain_text(node) for node in file.definitions[name].nodes]
    if name in file.imports:
        node, alias = file.imports[name]
        return [f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name]
    return None

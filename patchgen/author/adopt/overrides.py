"""A class in the dialect of transformers.

It is a subclass of another model's class, and what it overrides.

The dialect has no edits.  What a class changes it says by whole methods, by attributes, or by a
method that calls `super()` and assigns again what differs:

    class NemotronMLP(LlamaMLP):
        def __init__(self, config):
            super().__init__(config)
            del self.gate_proj
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

from patchgen.author.adopt.inits import Changes, find_changes, left_of
from patchgen.author.adopt.layout import bracketed, code_length
from patchgen.author.adopt.repeated import Text
from patchgen.author.align.file import Definition, Member
from patchgen.syntax.same import (
    Function,
    is_docstring,
    is_documenting,
    plain_text,
    tree_text,
    without_docstring,
)
from patchgen.upstream.bases import merged_arguments
from patchgen.upstream.brackets import Item

_LAYER = "GradientCheckpointingLayer"
_KINDS = frozenset({"classmethod", "property", "staticmethod"})


def derive(
    new: Definition, old: Definition, base: str, text: Text, spelled: frozenset[tuple[str, str]]
) -> list[str] | None:
    """The class `new` as a subclass of `base`; None if the dialect cannot express it.

    `old` is that class in the names of the model.  Methods in `spelled` are written out.
    """
    assert isinstance(new.node, ast.ClassDef) and isinstance(old.node, ast.ClassDef)
    further = _further_bases(new.node, old.node)
    if further is None or [*map(plain_text, new.loose)] != [*map(plain_text, old.loose)]:
        return None
    decorators = _own_decorators(new.node, old.node)
    if decorators is None:
        return None
    body: list[str] = []
    for name, member in new.members.items():
        inherited = old.members.get(name)
        brief = (new.name, name) not in spelled
        if inherited is not None and brief and _plain(member) == _plain(inherited):
            continue
        if all(isinstance(n, ast.AnnAssign) and n.value is None for n in member.nodes):
            continue
        lines = _override(member, inherited, new, text, brief)
        body += lines if isinstance(member.nodes[0], ast.Assign | ast.AnnAssign) else ["", *lines]
    for name, member in old.members.items():
        if name in new.members or all(_only_declares(node) for node in member.nodes):
            continue
        body += _removal(member)
    head = f"class {new.name}({', '.join([base, *map(ast.unparse, further)])}):"
    for one in further:
        text.read |= text.file.names_read(one.lineno, one.end_lineno or 0)
    for decorator in decorators:
        text.read |= text.file.names_read(decorator.lineno, decorator.end_lineno or 0)
    decorator_lines = [f"@{ast.unparse(one)}" for one in decorators]
    return [*decorator_lines, head, *(body or ["    pass"])]


def _further_bases(new: ast.ClassDef, old: ast.ClassDef) -> list[ast.expr] | None:
    """The bases to name beside the parent's class; None if the dialect cannot give those of `new`.

    The dialect takes keywords and bases from the parent's class, and lets bases be added.
    """
    if [*map(plain_text, new.keywords)] != [*map(plain_text, old.keywords)]:
        return None
    wanted, theirs = ([ast.unparse(base) for base in one.bases] for one in (new, old))
    added = [base for base in new.bases if ast.unparse(base) not in theirs]
    merged = merged_arguments(
        [Item(ast.unparse(base)) for base in added], [*map(Item, theirs)], old.name
    )
    return added if [item.text for item in merged] == wanted else None


def _own_decorators(new: ast.ClassDef, old: ast.ClassDef) -> Sequence[ast.expr] | None:
    """The decorators to write above a class: none where it has the parent's.

    What documents is left out, unless the parent's would be taken without it.  None if the dialect
    takes them anyway.
    """
    mine, theirs = (
        [one for one in node.decorator_list if not is_documenting(one)] for node in (new, old)
    )
    if [*map(plain_text, mine)] == [*map(plain_text, theirs)]:
        return []
    return mine or new.decorator_list or None


def _plain(member: Member) -> list[str]:
    return [plain_text(node) for node in member.nodes]


def _only_declares(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is None


def _removal(member: Member) -> list[str]:
    if isinstance(member.nodes[0], Function):
        return ["", f"    def {member.name}(self):", '        raise AttributeError("Not needed")']
    return [f"    {member.name} = AttributeError()"]


def _override(
    member: Member, old: Member | None, owner: Definition, text: Text, brief: bool
) -> list[str]:
    method, theirs = member.method, old.method if old is not None else None
    inherited = _inherited(method, theirs) if method is not None and theirs is not None else ()
    whole = Text(text.file)
    lines = [line for node in member.nodes for line in whole.of(node, inherited)]
    lines = _name_base(lines, member.name, owner, whole)
    if brief and method is not None and theirs is not None:
        short = Text(text.file)
        after = _after_super(method, theirs, short, inherited)
        if after is not None and code_length(after) < code_length(lines):
            text.read |= short.read
            return after
    text.read |= whole.read
    return lines


def _inherited(new: Function, old: Function) -> tuple[ast.expr, ...]:
    """The decorators, and what is returned, that the dialect gives a method as the parent's has it.

    Decorators that decide how a method is called stay in sight.
    """
    mine, theirs = (tree_text(one.decorator_list) for one in (new, old))
    kinds = {ast.unparse(one) for one in new.decorator_list} & _KINDS
    decorators = new.decorator_list if mine == theirs and not kinds else []
    if new.returns is None or old.returns is None:
        return (*decorators,)
    is_same = tree_text(new.returns) == tree_text(old.returns)
    return (*decorators, new.returns) if is_same else (*decorators,)


def _name_base(lines: list[str], name: str, owner: Definition, text: Text) -> list[str]:
    """`super().NAME(...)` as a call of the base.

    The dialect writes it as `super()` again.
    """
    assert isinstance(owner.node, ast.ClassDef)
    joined = "\n".join(lines)
    if not owner.node.bases or f"super().{name}(" not in joined:
        return lines
    base = ast.unparse(owner.node.bases[0])
    # Modular files say so of a layer, whose base then need not be imported.
    if base == _LAYER and "nn" in text.file.imports:
        base = "nn.Module"
    text.read.add(base.partition(".")[0])
    joined = re.sub(rf"super\(\)\.{name}\(\s*\)", f"{base}.{name}(self)", joined)
    joined = joined.replace(f"super().{name}(", f"{base}.{name}(self, ")
    return joined.split("\n")


def _after_super(
    new: Function, old: Function, text: Text, inherited: Sequence[ast.expr]
) -> list[str] | None:
    """A method as the parent's and the assignments that differ.

    None where that is not all that differs.
    """
    if new.args.posonlyargs or not _calls_super(new):
        return None
    mine, theirs = _without_post_init(new.body), _without_post_init(old.body)
    changes = find_changes(mine, theirs)
    is_init = new.name == "__init__"
    if changes is None or (is_init and changes == Changes()):
        return None
    if any(
        isinstance(n, ast.Name) and n.id == "super" for s in changes.written for n in ast.walk(s)
    ):
        return None
    head = text.head_of(new, inherited)
    if not head:
        return None
    is_changed = bool(changes.removed or changes.replacing or changes.further)
    returned = "" if is_changed or is_init else "return "
    lines = [*head, *_own_docstring(new, old, text)]
    lines += [line for statement in changes.above for line in text.of(statement)]
    lines += _call(returned, new, old, left_of(theirs, changes))
    if is_changed and not is_init:
        lines.append("        # In the place of what the parent assigns to the same names.")
    lines += [f"        del {target}" for target in changes.removed]
    lines += [line for statement in changes.replacing for line in text.plain(statement)]
    return [*lines, *(line for statement in changes.further for line in text.of(statement))]


def _own_docstring(new: Function, old: Function, text: Text) -> list[str]:
    """The docstring of a method, if it is not the parent's."""
    first = new.body[0]
    is_parents = ast.get_docstring(new) == ast.get_docstring(old)
    return text.of(first) if is_docstring(first) and not is_parents else []


def _calls_super(function: Function) -> bool:
    """Whether `super()` calls of this method are plain calls, as the dialect resolves them."""
    kinds = {ast.unparse(one).rpartition(".")[2] for one in function.decorator_list}
    is_lazy = isinstance(function, ast.AsyncFunctionDef) or any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)
    )
    return not is_lazy and not kinds & {*_KINDS, "setter"}


def _without_post_init(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [node for node in without_docstring(body) if not _is_post_init(node)]


def _is_post_init(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), "post_init"), [], [])):
            return True
    return False


def _call(returned: str, new: Function, old: Function, left: Sequence[ast.stmt]) -> list[str]:
    """The call of `super()`, in whose place the statements `left` of the parent's method stand.

    Where not all arguments fit on a line, it passes those that these statements read: modular files
    leave out others.
    """
    opening = f"{returned}super().{new.name}("
    named = {one.arg for one in [*new.args.args, *new.args.kwonlyargs]}
    lines = bracketed(8, opening, _passed(new, old, named), ")")
    if len(lines) == 1:
        return lines
    nodes = (node for statement in left for node in ast.walk(statement))
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    return bracketed(8, opening, _passed(new, old, named & read), ")")


def _passed(new: Function, old: Function, named: Collection[str]) -> list[str]:
    """The arguments of a call that passes on what of `named` the parent's method takes."""
    mine, theirs = new.args, old.args
    wanted = [one.arg for one in theirs.args[1:]]
    # In the parent's order, each in its place; by name from the first that is not there.
    in_place = next((place for place, one in enumerate(wanted) if one not in named), len(wanted))
    passed = wanted[:in_place]
    passed += [f"*{mine.vararg.arg}"] if mine.vararg and theirs.vararg else []
    by_name = [*wanted[in_place:], *(one.arg for one in theirs.kwonlyargs)]
    passed += [f"{one}={one}" for one in by_name if one in named]
    return [*passed, *([f"**{mine.kwarg.arg}"] if mine.kwarg and theirs.kwarg else [])]

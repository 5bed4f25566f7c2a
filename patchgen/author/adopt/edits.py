"""The text of an edit: its name, its parameters, and the two parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.adopt.words import Words
from patchgen.author.align.drafts import Draft
from patchgen.syntax.bound import bound_names, local_names
from patchgen.syntax.same import Function

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NOUN = re.compile(r"[a-z][a-z_]*[a-z]")


@dataclass(frozen=True)
class Spoken:
    """An edit as text; `imports` are the words of patchgen.edits that it needs."""

    lines: tuple[str, ...]


def spoken(
    draft: Draft, old: Function, new: Function, words: Words, taken: set[str]
) -> Spoken | None:
    """The edit of the method `old` that makes `draft`.

    None where it needs a name that only another edit makes.
    """
    parameters = _parameters(draft, old, new)
    if parameters is None:
        return None
    name = _name(draft, old, taken)
    times = f", count={draft.count}" if draft.count > 1 else ""
    code = [*_nodes(draft.old), *_nodes(draft.new)]
    word = (
        "async def"
        if any(isinstance(n, ast.Await) for one in code for n in ast.walk(one))
        else "def"
    )
    lines = [f'    @edit("{old.name}"{times})', f"    {word} {name}({', '.join(parameters)}):"]
    loop = any(_leaves_loop(one) for one in code if isinstance(one, ast.stmt))
    indent = 12 if loop else 8
    if loop:
        lines.append("        while ...:")
    comments = _comments(words, old)
    lines += [" " * indent + "with old:", *_old(draft.old, words, indent + 4)]
    lines += [" " * indent + "with new:", *_new(draft.new, words, indent + 4, comments)]
    return Spoken(tuple(lines))


def _nodes(part: tuple[ast.stmt, ...] | ast.expr) -> Sequence[ast.AST]:
    return part if isinstance(part, tuple) else (part,)


def _old(part: tuple[ast.stmt, ...] | ast.expr, words: Words, indent: int) -> list[str]:
    return [
        " " * indent + line for node in _nodes(part) for line in words.parent_code(node).split("\n")
    ]


def _new(
    part: tuple[ast.stmt, ...] | ast.expr, words: Words, indent: int, known: frozenset[str]
) -> list[str]:
    if isinstance(part, ast.expr):
        return [" " * indent + line for line in words.fork_code(part).split("\n")]
    return words.statements(part, indent, known)


def _comments(words: Words, method: Function) -> frozenset[str]:
    """The lines of comments that the parent's method has, which stay where they are."""
    lines = words.names.parent.source.lines[method.lineno - 1 : method.end_lineno]
    return frozenset(line.strip() for line in lines if line.lstrip().startswith("#"))


def _parameters(draft: Draft, old: Function, new: Function) -> list[str] | None:
    """The method's names that the two parts use, in the order in which they do."""
    theirs, mine = local_names(old), local_names(new)
    first = old.args.args[0].arg if old.args.args else ""
    found = [first] if first in ("self", "cls") else []
    made = set(bound_names(n for n in _nodes(draft.new) if isinstance(n, ast.stmt)))
    for part in (draft.old, draft.new):
        for node in _in_order(_nodes(part)):
            if node.id in found or not isinstance(node.ctx, ast.Load):
                continue
            if node.id in theirs:
                found.append(node.id)
            # A local name of the fork that the edit does not make: the parent has no such name.
            elif part is draft.new and node.id in mine and node.id not in made:
                return None
    return found


def _in_order(nodes: Sequence[ast.AST]) -> Iterator[ast.Name]:
    """Names outside nested functions' own scopes, in the order of the text."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _leaves_loop(node: ast.stmt | ast.ExceptHandler) -> bool:
    """Whether a statement has `break` or `continue` of a loop around it."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    inner: Iterable[ast.AST] = (
        node.orelse if isinstance(node, _LOOPS) else ast.iter_child_nodes(node)
    )
    return any(_leaves_loop(one) for one in inner if isinstance(one, ast.stmt | ast.ExceptHandler))


def _name(draft: Draft, old: Function, taken: set[str]) -> str:
    """A name that says what the edit is about."""
    noun = _noun(draft) or old.name.strip("_")
    if not _nodes(draft.new):
        verb = "drop"
    elif _begins_alike(draft):
        verb = "extend"
    else:
        verb = "change"
    name = f"{verb}_{noun}"
    number = 2
    while name in taken:
        name, number = f"{verb}_{noun}_{number}", number + 1
    taken.add(name)
    return name


def _begins_alike(draft: Draft) -> bool:
    mine, theirs = list(map(ast.dump, _nodes(draft.old))), list(map(ast.dump, _nodes(draft.new)))
    return len(theirs) > len(mine) and all(one in theirs for one in mine)


def _noun(draft: Draft) -> str:
    """The names that the changed code sets, calls or reads."""
    mine = set(map(ast.dump, _nodes(draft.old)))
    changed = [node for node in _nodes(draft.new) if ast.dump(node) not in mine] or list(
        _nodes(draft.old)
    )
    stored: list[str] = []
    names: list[str] = []
    for node in changed[:1]:
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    stored.append(name)
                case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                    names.append(name)
                case ast.Attribute(attr=name):
                    names.append(name)
                case ast.Name(id=name) if name != "self":
                    names.append(name)
    plain = (name.lower().strip("_") for name in [*stored, *names])
    return next((name for name in plain if _NOUN.fullmatch(name)), "")

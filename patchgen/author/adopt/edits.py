"""A changed method as edits of the parent's: one of all places, and one for each repeated change.

@edit("forward")
def add_scale(self, hidden_states, scale: New[float] = 1.0):
    with old:
        hidden_states = self.act(hidden_states)
    with after:
        hidden_states = hidden_states * scale
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from patchgen.author.adopt.words import Words
from patchgen.author.align.drafts import Draft, drafts
from patchgen.syntax.bound import bound_names, local_names
from patchgen.syntax.same import Function, is_documenting, plain_text

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NOUN = re.compile(r"[a-z][a-z_]*[a-z]")
_Parameters = dict[str, tuple[ast.arg, ast.expr | None, bool]]


def declare_edits(new: Function, old: Function, words: Words, taken: set[str]) -> list[str] | None:
    """The edits that make `new` of the parent's method; None where there are none that do.

    `taken` are the names of members that the class has.
    """
    signature, added = _Signature.between(old, new), decorators_added(old, new)
    if type(new) is not type(old) or signature is None or added is None:
        return None
    made = drafts(old, new)
    if made is None:
        return None
    once = [draft for draft in made if draft.count == 1]
    groups = [once] if once or signature or added else []
    groups += [[draft] for draft in made if draft.count > 1]
    lines: list[str] = []
    known = local_names(old)
    for group in groups:
        text = _edit(group, signature if group is once else None, (old, new), known, words, taken)
        if text is None:
            return None
        if group is once:
            lines += [f"    @{words.fork_code(decorator)}" for decorator in added]
        known = known | set(bound_names(node for draft in group for node in _statements(draft)))
        known |= set(signature.added) if signature else set()
        lines += [*text, ""]
    return lines[:-1]


class _Signature:
    """How the parameters of two methods differ: added, removed, and with another default."""

    def __init__(self, old: _Parameters, new: _Parameters) -> None:
        self.added = {name: parameter for name, parameter in new.items() if name not in old}
        self.removed = [name for name in old if name not in new]
        self.changed = {
            name: default
            for name, (_, default, _) in new.items()
            if name in old and _text(default) != _text(old[name][1]) and default is not None
        }

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @classmethod
    def between(cls, old: Function, new: Function) -> _Signature | None:
        """The difference, if the converter makes `new`'s parameters of it."""
        mine, theirs = _parameters(new), _parameters(old)
        signature = cls(theirs, mine)
        kept = [name for name in theirs if name in mine]
        # What is added stands behind those that can be given by position, or by name.
        every = [*kept, *signature.added]
        made = sorted(every, key=lambda name: (mine[name][2], name in signature.added))
        is_same = made == [*mine] and all(mine[n][2] == theirs[n][2] for n in kept)
        changed = {n for n in kept if _text(mine[n][1]) != _text(theirs[n][1])}
        is_same &= changed <= signature.changed.keys()
        is_same &= old.args.vararg is None or all(mine[n][2] for n in signature.added)
        for name in ("vararg", "kwarg"):
            one, other = getattr(old.args, name), getattr(new.args, name)
            is_same &= (one and one.arg) == (other and other.arg)
        is_same &= len(old.args.posonlyargs) == len(new.args.posonlyargs)
        return signature if is_same else None

    def written(self, literal: Sequence[str], words: Words) -> str:
        """The parameters of an edit that lists the names `literal` as well."""
        plain = [name for name in literal if name not in self.changed and name not in self.added]
        plain = [name for name in plain if name not in self.removed]
        parts = [*plain, *(f"{name}: Old" for name in self.removed)]
        late: list[str] = []
        # Those without a default stand first.
        for name, (arg, default, by_name) in sorted(
            self.added.items(), key=lambda item: item[1][1] is not None
        ):
            hint = f"[{words.fork_code(arg.annotation)}]" if arg.annotation is not None else ""
            value = f" = {words.fork_code(default)}" if default is not None else ""
            (late if by_name else parts).append(f"{name}: New{hint}{value}")
        defaults = [f"{name}={words.fork_code(default)}" for name, default in self.changed.items()]
        return ", ".join([*parts, *defaults, *(["*", *late] if late else [])])


def _parameters(function: Function) -> _Parameters:
    """The parameters with their defaults; the last says that one is given by name alone."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    pairs = zip(positional, [*missing, *args.defaults], strict=True)
    found: _Parameters = {arg.arg: (arg, default, False) for arg, default in pairs}
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return found | {arg.arg: (arg, default, True) for arg, default in named}


def _text(node: ast.expr | None) -> str:
    return "" if node is None else plain_text(node)


def decorators_added(
    old: Function | ast.ClassDef, new: Function | ast.ClassDef
) -> list[ast.expr] | None:
    """The decorators that the fork has above the parent's; None if others differ."""
    mine, theirs = (
        [one for one in function.decorator_list if not is_documenting(one)]
        for function in (new, old)
    )
    above = len(mine) - len(theirs)
    is_more = above >= 0 and [*map(plain_text, mine[above:])] == [*map(plain_text, theirs)]
    return mine[:above] if is_more else None


def _edit(
    group: Sequence[Draft],
    signature: _Signature | None,
    methods: tuple[Function, Function],
    known: frozenset[str] | set[str],
    words: Words,
    taken: set[str],
) -> list[str] | None:
    """The text of an edit that makes the drafts of `group`; `known` are the method's names."""
    old, new = methods
    literal = _literal(group, signature, old, new, known)
    if literal is None:
        return None
    listed = signature.written(literal, words) if signature else ", ".join(literal)
    code = [node for draft in group for side in (draft.old, draft.new) for node in _nodes(side)]
    waits = any(isinstance(n, ast.Await) for node in code for n in ast.walk(node))
    times = f", count={group[0].count}" if group and group[0].count > 1 else ""
    name = _name(group, signature, old, taken)
    lines = [
        f'    @edit("{old.name}"{times})',
        f"    {'async def' if waits else 'def'} {name}({listed}):",
    ]
    loop = any(_leaves_loop(node) for node in code if isinstance(node, ast.stmt))
    indent = 12 if loop else 8
    lines += ["        while ...:"] if loop else []
    comments = _comments(words, old)
    for draft in group:
        lines += [" " * indent + "with old:", *_old(draft.old, words, indent + 4)]
        lines += [" " * indent + f"with {draft.word}:"]
        lines += _new(draft.new, words, indent + 4, comments)
    return lines if group else [*lines, "        ..."]


def _nodes(part: tuple[ast.stmt, ...] | ast.expr) -> Sequence[ast.AST]:
    return part if isinstance(part, tuple) else (part,)


def _statements(draft: Draft) -> Iterator[ast.stmt]:
    return (node for node in _nodes(draft.new) if isinstance(node, ast.stmt))


def _old(part: tuple[ast.stmt, ...] | ast.expr, words: Words, indent: int) -> list[str]:
    lines = (line for node in _nodes(part) for line in words.parent_code(node).split("\n"))
    return [" " * indent + line for line in lines]


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


def _literal(
    group: Sequence[Draft],
    signature: _Signature | None,
    old: Function,
    new: Function,
    known: frozenset[str] | set[str],
) -> list[str] | None:
    """The method's names that the drafts use, in the order in which they do.

    None where one of them is made by no draft.
    """
    first = old.args.args[0].arg if old.args.args else ""
    is_static = "staticmethod" in map(ast.unparse, old.decorator_list)
    found = [first] if first in ("self", "cls") and not is_static else []
    made = set(bound_names(node for draft in group for node in _statements(draft)))
    made |= set(signature.added) if signature else set()
    mine = local_names(new)
    for draft in group:
        for part in (draft.old, draft.new):
            for node in _in_order(_nodes(part)):
                if node.id in found or not isinstance(node.ctx, ast.Load):
                    continue
                if node.id in known:
                    found.append(node.id)
                # A local name of the fork that the edit does not make: the parent has no such name.
                elif part is draft.new and node.id in mine and node.id not in made:
                    return None
    return found


def _in_order(nodes: Sequence[ast.AST]) -> Iterator[ast.Name]:
    """Names in the order of the text."""
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


def _name(
    group: Sequence[Draft], signature: _Signature | None, old: Function, taken: set[str]
) -> str:
    """A name that says what the edit is about."""
    noun = next(iter(signature.added), "") if signature else ""
    noun = noun.strip("_") or next(filter(None, map(_noun, group)), "") or old.name.strip("_")
    if (signature and signature.added) or all(draft.word != "new" for draft in group):
        verb = "add"
    elif group and all(not _nodes(draft.new) for draft in group):
        verb = "drop"
    else:
        verb = "change"
    name, number = f"{verb}_{noun}", 2
    while name in taken:
        name, number = f"{verb}_{noun}_{number}", number + 1
    taken.add(name)
    return name


def _noun(draft: Draft) -> str:
    """The name that the changed code sets, calls or reads."""
    mine = set(map(ast.dump, _nodes(draft.old)))
    changed = [node for node in _nodes(draft.new) if ast.dump(node) not in mine]
    names: list[tuple[bool, str]] = []
    for node in (changed or list(_nodes(draft.old)))[:1]:
        for inner in ast.walk(node):
            named = inner.func if isinstance(inner, ast.Call) else inner
            name: str = getattr(named, "attr", getattr(named, "id", "self"))
            is_stored = isinstance(getattr(named, "ctx", None), ast.Store)
            names += [(not is_stored, name.lower().strip("_"))] if name != "self" else []
    ordered = (name for _, name in sorted(names, key=lambda one: one[0]))
    return next((name for name in ordered if _NOUN.fullmatch(name)), "")

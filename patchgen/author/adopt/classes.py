"""How a class of the fork is declared: by edits and members over the parent's class, or whole."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from patchgen.author.adopt.edits import declare_edits, decorators_added
from patchgen.author.adopt.words import Words
from patchgen.author.align.file import Definition, Member
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, is_documenting, plain_text, without_docstring

_COPIED = 1.3


@dataclass(frozen=True)
class Doubts:
    """What did not reproduce the fork: edits of methods, and classes that have to be whole.

    `heads` are classes of which only what stands above them was not reproduced.
    """

    edits: frozenset[tuple[str, str]] = frozenset()
    heads: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    definitions: frozenset[str] = frozenset()
    statements: frozenset[ast.stmt] = frozenset()

    def about(self, name: str, method: str = "") -> Doubts:
        """Add that the declaration of `name`, or the edits of its `method`, are not right."""
        if method and (name, method) not in self.edits:
            return replace(self, edits=self.edits | {(name, method)})
        return replace(self, whole=self.whole | {name})

    def lacking(self, names: Iterable[str], statements: Iterable[ast.stmt] = ()) -> Doubts:
        """Add definitions that have to be declared, and statements that cannot be."""
        definitions = self.definitions | {*names}
        return replace(self, definitions=definitions, statements=self.statements | {*statements})


@dataclass(frozen=True)
class DeclaredDefinition:
    """A class as text; `state` is "edited", "replaced", "new" or "named"."""

    name: str
    state: str
    lines: tuple[str, ...]
    # The lines of the text, from 0, at which the edits of a method begin.
    places: tuple[tuple[int, str], ...] = field(default=())


def declare_class(
    new: Definition, old: Definition | None, words: Words, doubts: Doubts
) -> DeclaredDefinition:
    """The shortest declaration of a class of the fork.

    `old` is the parent's class that it was made from.
    """
    whole = Words(words.names)
    text = tuple(whole.statements(new.nodes, 0))
    if old is not None and old.kind == "class" and new.name not in doubts.whole:
        over = Words(words.names)
        declared = _over_parent(new, old, over, doubts)
        # A class that is only named may be one line: `class A(Generic, PreTrained): ...`.
        is_shorter = declared is not None and len(declared.lines) < len(text) * _COPIED
        if declared is not None and (declared.state == "named" or is_shorter):
            words.read |= over.read
            return declared
    words.read |= whole.read
    return DeclaredDefinition(new.name, "new" if old is None else "replaced", text)


def _over_parent(
    new: Definition, old: Definition, words: Words, doubts: Doubts
) -> DeclaredDefinition | None:
    """The class as one that derives from the parent's; None if that is impossible."""
    bases, decorators = _bases(new, old, words), decorators_added(_class(old), _class(new))
    if new.name in doubts.heads:
        # The converter drops those of kernels where the code is another.
        decorators = [one for one in _class(new).decorator_list if not is_documenting(one)]
    is_loose = [*map(plain_text, new.loose)] != [*map(plain_text, old.loose)]
    if bases is None or decorators is None or is_loose:
        return None
    above = ", ".join([words.names.of_parents_own(old.name), *bases])
    head = [*(f"@{words.fork_code(one)}" for one in decorators), f"class {new.name}({above}):"]
    lines = [*head]
    places: list[tuple[int, str]] = []
    taken = set(new.members) | set(old.members)
    for name, member in new.members.items():
        text = declare_member(member, old.members.get(name), new.name, words, doubts, taken)
        if text is None:
            return None
        if text:
            places.append((len(lines), name))
            lines += [*text, ""]
    for name, member in old.members.items():
        if name not in new.members:
            is_method = isinstance(member.nodes[0], Function)
            removal = f"def {name}(self):\n        raise AttributeError"
            lines += [f"    {removal if is_method else f'{name} = AttributeError()'}", ""]
    is_empty = lines == head
    if is_empty:
        lines.append("    pass")
    state = "named" if is_empty and not decorators else "edited"
    return DeclaredDefinition(new.name, state, tuple(lines), tuple(places))


def _bases(new: Definition, old: Definition, words: Words) -> list[str] | None:
    """What stands behind the parent's class: the fork's bases, if they are not the parent's."""
    child, parent = _class(new), _class(old)
    mine, theirs = ([*map(plain_text, one.bases)] for one in (child, parent))
    if [*map(plain_text, child.keywords)] != [*map(plain_text, parent.keywords)]:
        return None
    if mine == theirs:
        return []
    # Behind the parent's class, they give the output the bases and the order of the fork.
    return [words.fork_code(base) for base in child.bases]


def _class(definition: Definition) -> ast.ClassDef:
    assert isinstance(definition.node, ast.ClassDef)
    return definition.node


def declare_member(
    new: Member, old: Member | None, owner: str, words: Words, doubts: Doubts, taken: set[str]
) -> list[str] | None:
    """The declaration of a member: empty if it is the parent's; None if it cannot be declared."""
    if old is not None and _plain_texts(new) == _plain_texts(old):
        return []
    if all(isinstance(n, ast.AnnAssign) and n.value is None for n in new.nodes):
        return []
    whole = Words(words.names)
    text = [line for node in new.nodes for line in (*whole.statements([node], 4), "")][:-1]
    overrides = old is None or not any(map(_says_super, new.nodes))
    choices: list[tuple[list[str], Words]] = [(text, whole)] if overrides else []
    mine, theirs = new.method, old.method if old is not None else None
    if mine is not None and theirs is not None:
        longer = Words(words.names)
        after = _after_parent(mine, theirs, longer)
        if after is not None:
            choices.append((after, longer))
        if (owner, new.name) not in doubts.edits:
            over = Words(words.names)
            edits = declare_edits(mine, theirs, over, set(taken))
            if edits is not None:
                choices.append((edits, over))
    if not choices:
        return None
    # An override repeats what an edit leaves to the parent, so it has to be shorter by more than a
    # line.
    best, used = min(
        choices, key=lambda choice: len(choice[0]) * (_COPIED if choice[0] is text and old else 1)
    )
    words.read |= used.read
    taken |= {
        line.split("def ")[1].split("(")[0] for line in best if line.lstrip().startswith("def ")
    }
    return best


def _plain_texts(member: Member) -> list[str]:
    return [plain_text(node) for node in member.nodes]


def _says_super(node: ast.stmt) -> bool:
    """Whether `super()` in a member would be the parent's class in the declaration."""
    return any(isinstance(n, ast.Name) and n.id == "super" for n in ast.walk(node))


def _after_parent(new: Function, old: Function, words: Words) -> list[str] | None:
    """A method that does what the parent's does, and then more: `super()` and the rest."""
    mine, theirs = without_docstring(new.body), without_docstring(old.body)
    more = mine[len(theirs) :]
    same = [plain_text(n) for n in mine[: len(theirs)]] == [plain_text(n) for n in theirs]
    args = old.args
    returns = any(isinstance(n, ast.Return) for n in ast.walk(old))
    if not more or not same or old.name != "__init__" or returns:
        return None
    if args.vararg or args.kwarg or args.posonlyargs or any(map(_says_super, more)):
        return None
    passed = [x.arg for x in args.args[1:]] + [f"{x.arg}={x.arg}" for x in args.kwonlyargs]
    # Comments may stand above it.
    whole, last = words.statements([new], 4), new.end_lineno or 0
    signature = whole[: len(whole) - (last + 1 - first_line(new.body[0]))]
    call = f"        super().__init__({', '.join(passed)})"
    return [*signature, call, *words.statements(more, 8)]

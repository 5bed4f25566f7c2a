"""How a class of the fork is declared: by edits and members over the parent's class, or whole."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from patchgen.author.adopt.edits import spoken
from patchgen.author.adopt.words import Words
from patchgen.author.align.drafts import drafts
from patchgen.author.align.file import Definition, Member
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, is_documenting, plain_text, without_docstring

_COPIED = 1.3


@dataclass(frozen=True)
class Doubts:
    """What did not reproduce the fork: edits of methods, and classes that have to be whole."""

    edits: frozenset[tuple[str, str]] = frozenset()
    whole: frozenset[str] = frozenset()
    definitions: frozenset[str] = frozenset()
    statements: frozenset[ast.stmt] = frozenset()

    def about(self, name: str, method: str = "") -> Doubts:
        """Add that the declaration of `name`, or the edits of its `method`, are not right."""
        if method and (name, method) not in self.edits:
            return replace(self, edits=self.edits | {(name, method)})
        return replace(self, whole=self.whole | {name})

    def lacking(self, names: Iterable[str], statements: Iterable[ast.stmt] = ()) -> Doubts:
        """Add definitions and statements that have to be declared."""
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
        if declared is not None and len(declared.lines) < len(text) * _COPIED:
            words.read |= over.read
            return declared
    words.read |= whole.read
    return DeclaredDefinition(new.name, "new" if old is None else "replaced", text)


def _over_parent(
    new: Definition, old: Definition, words: Words, doubts: Doubts
) -> DeclaredDefinition | None:
    """The class as one that derives from the parent's; None if that is impossible."""
    bases = _bases(new, old, words)
    if bases is None or not _same_around(new, old):
        return None
    mixins = words.names.mixins.get(new.name, ())
    words.read |= set(mixins)
    above = ", ".join([*mixins, words.names.of_parents_own(old.name), *bases])
    lines = [f"class {new.name}({above}):"]
    places: list[tuple[int, str]] = []
    taken = set(new.members) | set(old.members)
    for name, member in new.members.items():
        text = declare_member(member, old.members.get(name), new.name, words, doubts, taken)
        if text is None:
            return None
        if text:
            places.append((len(lines), name))
            lines += [*text, ""]
    for name in old.members:
        if name not in new.members:
            lines += [*_removal(old.members[name]), ""]
    if len(lines) == 1:
        lines.append("    pass")
    state = "edited" if len(lines) > 2 or mixins else "named"
    return DeclaredDefinition(new.name, state, tuple(lines), tuple(places))


def _removal(member: Member) -> list[str]:
    if isinstance(member.nodes[0], Function):
        return [f"    def {member.name}(self):", "        raise AttributeError"]
    return [f"    {member.name} = AttributeError()"]


def _bases(new: Definition, old: Definition, words: Words) -> list[str] | None:
    """The bases that the fork's class adds to the parent's."""
    assert isinstance(new.node, ast.ClassDef) and isinstance(old.node, ast.ClassDef)
    mine = [plain_text(base) for base in new.node.bases]
    theirs = [plain_text(base) for base in old.node.bases]
    keywords = (
        [plain_text(k) for k in new.node.keywords],
        [plain_text(k) for k in old.node.keywords],
    )
    if keywords[0] != keywords[1]:
        return None
    if mine[: len(theirs)] == theirs:
        more = new.node.bases[len(theirs) :]
    elif _is_plain_module(old.node.bases):
        # What derives from `nn.Module` takes its place; the converter says whether it does.
        more = new.node.bases
    else:
        return None
    return [words.fork_code(base) for base in more]


def _is_plain_module(bases: Sequence[ast.expr]) -> bool:
    return [ast.unparse(base) for base in bases] in (["nn.Module"], ["torch.nn.Module"])


def _same_around(new: Definition, old: Definition) -> bool:
    """Whether decorators, and statements of the body besides members, are the parent's."""
    assert isinstance(new.node, ast.ClassDef) and isinstance(old.node, ast.ClassDef)
    mine = [plain_text(d) for d in new.node.decorator_list if not is_documenting(d)]
    theirs = [plain_text(d) for d in old.node.decorator_list if not is_documenting(d)]
    loose = [plain_text(n) for n in new.loose], [plain_text(n) for n in old.loose]
    return mine == theirs and loose[0] == loose[1]


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
    if (
        not more
        or not same
        or old.name != "__init__"
        or any(isinstance(n, ast.Return) for n in ast.walk(old))
    ):
        return None
    passed = _passed(old)
    if passed is None or any(map(_says_super, more)):
        return None
    signature = words.statements([new], 4)[: _signature_lines(new)]
    return [
        *signature,
        f"        super().__init__({', '.join(passed)})",
        *words.statements(more, 8),
    ]


def _signature_lines(new: Function) -> int:
    body = new.body[0]
    return first_line(body) - first_line(new)


def _passed(old: Function) -> list[str] | None:
    """The arguments that pass a method's own parameters on."""
    a = old.args
    if a.vararg or a.kwarg or a.posonlyargs:
        return None
    return [x.arg for x in a.args[1:]] + [f"{x.arg}={x.arg}" for x in a.kwonlyargs]


def declare_edits(new: Function, old: Function, words: Words, taken: set[str]) -> list[str] | None:
    """A changed method as edits of the parent's."""
    if type(new) is not type(old) or not _same_signature(new, old):
        return None
    made = drafts(old, new)
    if made is None:
        return None
    lines: list[str] = []
    for draft in made:
        text = spoken(draft, old, new, words, taken)
        if text is None:
            return None
        lines += [*text.lines, ""]
    return lines[:-1]


def _same_signature(new: Function, old: Function) -> bool:
    mine = [plain_text(new.args), *_decorators(new)]
    return mine == [plain_text(old.args), *_decorators(old)]


def _decorators(function: Function) -> Iterator[str]:
    for decorator in function.decorator_list:
        if not is_documenting(decorator):
            yield plain_text(decorator)

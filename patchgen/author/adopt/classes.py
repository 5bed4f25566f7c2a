"""How a class of the fork is declared: by edits and members over the parent's class, or whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    bases, decorators = _bases(new, old, words), _decorators_added(new, old)
    if bases is None or decorators is None or not _has_same_statements(new, old):
        return None
    mixins = words.names.mixins.get(new.name, ())
    words.read |= set(mixins)
    above = ", ".join([*mixins, words.names.of_parents_own(old.name), *bases])
    head = [*(f"@{words.fork_code(one)}" for one in decorators), f"class {new.name}({above}):"]
    lines = [*head]
    places: list[tuple[int, str]] = []
    taken = set(new.members) | set(old.members)
    kept = _kept_of_parent(new, old)
    for name, member in new.members.items():
        if name in kept:
            continue
        text = declare_member(member, old.members.get(name), new.name, words, doubts, taken)
        if text is None:
            return None
        if text:
            places.append((len(lines), name))
            lines += [*(_with_super(line, kept) for line in text), ""]
    for name in old.members:
        if name not in new.members:
            lines += [*_removal(old.members[name]), ""]
    is_empty = lines == head
    if is_empty:
        lines.append("    pass")
    state = "named" if is_empty and not decorators and not mixins else "edited"
    return DeclaredDefinition(new.name, state, tuple(lines), tuple(places))


def _removal(member: Member) -> list[str]:
    if isinstance(member.nodes[0], Function):
        return [f"    def {member.name}(self):", "        raise AttributeError"]
    return [f"    {member.name} = AttributeError()"]


def _bases(new: Definition, old: Definition, words: Words) -> list[str] | None:
    """The bases that the fork's class adds to the parent's."""
    child, parent = _class(new), _class(old)
    mine, theirs = ([*map(plain_text, one.bases)] for one in (child, parent))
    if [*map(plain_text, child.keywords)] != [*map(plain_text, parent.keywords)]:
        return None
    if mine[: len(theirs)] == theirs:
        more = child.bases[len(theirs) :]
    elif _is_plain_module(parent.bases):
        # What derives from `nn.Module` takes its place; the converter says whether it does.
        more = child.bases
    else:
        return None
    return [words.fork_code(base) for base in more]


def _is_plain_module(bases: Sequence[ast.expr]) -> bool:
    return [ast.unparse(base) for base in bases] in (["nn.Module"], ["torch.nn.Module"])


def _decorators_added(new: Definition, old: Definition) -> Sequence[ast.expr] | None:
    """The decorators that the fork has above the parent's; None if it lacks one of these."""
    mine, theirs = (
        [one for one in _class(definition).decorator_list if not is_documenting(one)]
        for definition in (new, old)
    )
    above = len(mine) - len(theirs)
    is_more = above >= 0 and [*map(plain_text, mine[above:])] == [*map(plain_text, theirs)]
    return mine[:above] if is_more else None


def _class(definition: Definition) -> ast.ClassDef:
    assert isinstance(definition.node, ast.ClassDef)
    return definition.node


def _has_same_statements(new: Definition, old: Definition) -> bool:
    """Whether statements of the body besides members are the parent's."""
    return [*map(plain_text, new.loose)] == [*map(plain_text, old.loose)]


def _kept_of_parent(new: Definition, old: Definition) -> dict[str, str]:
    """The methods in which patchgen kept one of the parent, with the name that it has there.

    The class overrides the parent's method, and calls it by `super()` in the declaration.

        def forward(self, x):
            return self._forward_of_ToyMLP(x) * 2
    """
    methods = {name: one.method for name, one in new.members.items() if one.method is not None}
    kept = {}
    for name, member in old.members.items():
        if member.method is None or name not in methods:
            continue
        private = re.compile(rf"_{re.escape(name.strip('_'))}_of_\w+")
        for other, method in methods.items():
            if private.fullmatch(other) and _is_same_method(method, member.method):
                kept[other] = name
    return kept


def _is_same_method(new: Function, old: Function) -> bool:
    """Whether two methods are the same but for their names."""
    bodies = ([*map(plain_text, without_docstring(one.body))] for one in (new, old))
    return type(new) is type(old) and _same_signature(new, old) and next(bodies) == next(bodies)


def _with_super(line: str, kept: Mapping[str, str]) -> str:
    """A line that calls the parent's methods by `super()`."""
    for private, name in kept.items():
        line = line.replace(f"self.{private}(", f"super().{name}(")
    return line


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

"""Declare a class of the fork: by edits and members over the parent's class, or whole.

    parent      def forward(self, x):           declared    @edit("forward")
                    x = self.act(x)                         def add_scale(self, x):
                    return self.down(x)                         with old:
    fork        def forward(self, x):                               x = self.act(x)
                    x = self.act(x)                             with after:
                    x = x * self.scale                              x = x * self.scale
                    return self.down(x)

In: the definition of the fork, and what the parent has in its place.  Out: the shortest text that
declares it.  A method gets one edit with all its changes, or an override, or, if it is an
`__init__` that only does more at its end, a call of `super()`: whatever takes the fewest lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from patchgen.author.adopt.words import Words
from patchgen.author.align.drafts import Draft, drafts
from patchgen.author.align.file import Definition, Member
from patchgen.author.anatomy.code import walk
from patchgen.compiler.edits.signature import Parameter, read_parameters
from patchgen.facts.decorators import RULES, Rule
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names, local_names
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.same import is_documenting, plain_text, plain_texts, without_docstring
from patchgen.syntax.trees import Function, mentions, short_name

# A line that is copied counts as so many lines: upstream's next change would not reach it.
_COPIED = 1.3


@dataclass(frozen=True)
class Doubts:
    """What did not reproduce the fork: edits of methods, classes, and what was not declared."""

    edits: frozenset[tuple[str, str]] = frozenset()
    whole: frozenset[str] = frozenset()
    definitions: frozenset[str] = frozenset()

    def about(self, name: str, method: str = "") -> Doubts:
        """Add that the declaration of `name`, or the edits of its `method`, are not right."""
        if method and (name, method) not in self.edits:
            return replace(self, edits=self.edits | {(name, method)})
        return replace(self, whole=self.whole | {name})

    def lacking(self, names: Iterable[str]) -> Doubts:
        """Add definitions that have to be declared."""
        return replace(self, definitions=self.definitions | {*names})


@dataclass(frozen=True)
class DeclaredDefinition:
    """A definition as text; `state` is "edited", "replaced", "new" or "named"."""

    name: str
    state: str
    lines: tuple[str, ...]
    # The lines of the text, from 0, at which the edits of a method begin.
    places: tuple[tuple[int, str], ...] = field(default=())


def declare_definition(
    new: Definition, old: Definition | None, words: Words, doubts: Doubts
) -> DeclaredDefinition:
    """The shortest declaration of a class of the fork, or a function or constant as it stands.

    `old` is what the parent has in its place.  The names that the text reads are added to `words`.
    """
    whole_words = Words(words.names)
    text: list[str] = []
    for node in new.nodes:
        text += whole_words.statements([node], 0)
    is_class = old is not None and new.kind == old.kind == "class"
    if old is not None and is_class and new.name not in doubts.whole:
        derived_words = Words(words.names)
        declared = _derive_from_parent(new, old, derived_words, doubts)
        # A class that is only named may be one line: `class A(Generic, PreTrained): ...`.
        is_shorter = declared is not None and len(declared.lines) < len(text) * _COPIED
        if declared is not None and (declared.state == "named" or is_shorter):
            words.read |= derived_words.read
            return declared
    words.read |= whole_words.read
    return DeclaredDefinition(new.name, "new" if old is None else "replaced", tuple(text))


def _derive_from_parent(
    new: Definition, old: Definition, words: Words, doubts: Doubts
) -> DeclaredDefinition | None:
    """The class as one that derives from the parent's; None if that is impossible."""
    bases = _find_further_bases(new, old, words)
    decorators = decorators_added(_class(old), _class(new))
    is_loose = plain_texts(new.loose) != plain_texts(old.loose)
    if bases is None or decorators is None or is_loose:
        return None
    above = ", ".join([words.names.of_parents_own(old.name), *bases])
    mine = new.members.get("forward")
    theirs = old.members.get("forward")
    # The converter drops what lets a kernel take the place of another `forward` or function.
    dropped: set[Rule] = set()
    if mine is not None and theirs is not None and mine.says != theirs.says:
        dropped = {Rule.KERNEL, Rule.EXPERTS}
    if new.name in doubts.definitions:
        dropped = {Rule.KERNEL, Rule.EXPERTS, Rule.REGISTERS}
    for decorator in _class(new).decorator_list:
        rule, *_ = RULES.get(short_name(decorator), (None,))
        if rule in dropped and decorator not in decorators:
            decorators.append(decorator)
    lines = [f"@{words.fork_code(decorator)}" for decorator in decorators]
    lines.append(f"class {new.name}({above}):")
    body: list[str] = []
    places: list[tuple[int, str]] = []
    taken = set(new.members) | set(old.members)
    for name, member in new.members.items():
        text = declare_member(member, old.members.get(name), new.name, words, doubts, taken)
        if text is None:
            return None
        if text:
            places.append((len(lines) + len(body), name))
            body += [*text, ""]
    for name, member in old.members.items():
        if name not in new.members:
            is_method = isinstance(member.nodes[0], Function)
            removal = f"def {name}(self):\n        raise AttributeError"
            body += [f"    {removal if is_method else f'{name} = AttributeError()'}", ""]
    state = "edited" if body or decorators else "named"
    lines += body or ["    pass"]
    return DeclaredDefinition(new.name, state, tuple(lines), tuple(places))


def _find_further_bases(new: Definition, old: Definition, words: Words) -> list[str] | None:
    """What stands behind the parent's class: the fork's bases, if they are not the parent's."""
    child = _class(new)
    parent = _class(old)
    mine, theirs = (plain_texts(node.bases) for node in (child, parent))
    if plain_texts(child.keywords) != plain_texts(parent.keywords):
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
    """The declaration of a member: empty if it is the parent's; None if it cannot be declared.

    The names of the functions that it defines are added to `taken`.
    """
    if old is not None and new.says == old.says:
        return []
    if all(isinstance(n, ast.AnnAssign) and n.value is None for n in new.nodes):
        return []
    # `super()` in a member would be the parent's class in the declaration.
    overrides = old is None or not any(mentions(node, "super") for node in new.nodes)
    choices: list[tuple[float, list[str], Words]] = []  # with the lines that they count as
    if overrides:
        override_words = Words(words.names)
        text: list[str] = []
        for node in new.nodes:
            text += [*override_words.statements([node], 4), ""]
        text.pop()
        # An override repeats what an edit leaves to the parent, so it has to be shorter by more
        # than a line.
        choices.append((len(text) * (_COPIED if old is not None else 1), text, override_words))
    mine = new.method
    theirs = old.method if old is not None else None
    if mine is not None and theirs is not None:
        call_words = Words(words.names)
        call = _call_parent(mine, theirs, call_words)
        if call is not None:
            choices.append((len(call), call, call_words))
        if (owner, new.name) not in doubts.edits:
            edited_words = Words(words.names)
            edits = declare_edits(mine, theirs, edited_words, set(taken))
            if edits is not None:
                choices.append((len(edits), edits, edited_words))
    if not choices:
        return None
    _, best, used = min(choices, key=itemgetter(0))
    words.read |= used.read
    for line in best:
        if line.lstrip().startswith("def "):
            taken.add(line.split("def ")[1].split("(")[0])
    return best


def _call_parent(new: Function, old: Function, words: Words) -> list[str] | None:
    """An `__init__` that does what the parent's does, and then more; None for any other method.

    def __init__(self, config):
        super().__init__(config)
        self.scale = config.scale
    """
    if old.name != "__init__":
        return None
    mine = without_docstring(new.body)
    theirs = without_docstring(old.body)
    more = mine[len(theirs) :]
    is_repeated = plain_texts(mine[: len(theirs)]) == plain_texts(theirs)
    if not more or not is_repeated:
        return None
    if any(mentions(node, "super") for node in more):
        return None
    # Where the parent's method returns early, nothing would come after that.
    if any(isinstance(node, ast.Return) for node in ast.walk(old)):
        return None
    parameters = old.args
    if parameters.vararg or parameters.kwarg or parameters.posonlyargs:
        return None
    passed = [arg.arg for arg in parameters.args[1:]]
    passed += [f"{arg.arg}={arg.arg}" for arg in parameters.kwonlyargs]
    call = f"        super().__init__({', '.join(passed)})"
    # The signature is what is left without the body: comments may stand above it.
    whole = words.statements([new], 4)
    in_body = (new.end_lineno or 0) + 1 - first_line(new.body[0])
    signature = whole[: len(whole) - in_body]
    return [*signature, call, *words.statements(more, 8)]


_Parameters = dict[str, Parameter]


def declare_edits(
    new: Function, old: Function, words: Words, taken: set[str], name: str = ""
) -> list[str] | None:
    """The edit that makes `new` of the parent's method; None where there is none that does.

    `taken` are the names of members that the class has.  One that takes the place of the edit
    `name` names its statements in full: where `...` stands for an argument, upstream's next change
    of it would be lost.
    """
    signature = Signature.between(old, new)
    added = decorators_added(old, new)
    if type(new) is not type(old) or signature is None or added is None:
        return None
    changes = drafts(old, new, is_brief=not name)
    if changes is None:
        return None
    if not (changes or signature or added):
        return []
    literal = _find_literal_names(changes, signature, old, new)
    code: list[ast.AST] = []
    for draft in changes:
        for statement in (*draft.body, *draft.code):
            code += ast.walk(statement)
    if literal is None:
        return None
    # What leaves a loop would need that loop in the edit, too.
    if any(isinstance(node, ast.Break | ast.Continue) for node in code):
        return None
    word = "async def" if any(isinstance(node, ast.Await) for node in code) else "def"
    name = name or _make_name(changes, signature, old, taken)
    lines = [f"    @{words.fork_code(decorator)}" for decorator in added]
    lines.append(f'    @edit("{old.name}")')
    lines.append(f"    {word} {name}({signature.written(literal, words.fork_code)}):")
    # The comments that the parent's method has stay where they are.
    there = words.names.forked.parent.source.lines[old.lineno - 1 : old.end_lineno]
    comments = frozenset(line.strip() for line in there if line.lstrip().startswith("#"))
    for draft in changes:
        before = "\n".join(map(words.parent_code, _nodes(draft.old)))
        lines += ["        with old:", *_indented(before), f"        with {draft.word}:"]
        if isinstance(draft.new, ast.expr):
            lines += _indented(words.fork_code(draft.new))
        else:
            lines += words.statements(draft.new, 12, comments)
    return lines if changes else [*lines, "        ..."]


def _indented(text: str) -> list[str]:
    return [" " * 12 + line for line in text.split("\n")]


class Signature:
    """How the parameters of two methods differ: added, removed, and with another default.

    `in_place`: those of the new one that are given by position, if something that is added does not
    stand behind all of them.  `rest`: an added `**kwargs`.
    """

    def __init__(
        self, old: _Parameters, new: _Parameters, *, has_rest: bool, rest: Parameter | None
    ) -> None:
        self.rest = rest
        self.parameters = new
        self.added = {name: parameter for name, parameter in new.items() if name not in old}
        self.removed = [name for name in old if name not in new]
        self.changed: dict[str, ast.expr] = {}
        for name, parameter in new.items():
            default = parameter.default
            if name not in old or default is None:
                continue
            if _text(default) != _text(old[name].default):
                self.changed[name] = default
        positional = [name for name, parameter in new.items() if not parameter.by_name]
        is_behind = sorted(positional, key=lambda name: name in self.added) == positional
        # The converter adds by name alone what no place is said for in front of `*args`.
        counts = has_rest and not self.added.keys().isdisjoint(positional)
        self.in_place = [] if is_behind and not counts else positional

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.rest)

    @classmethod
    def between(cls, old: Function, new: Function) -> Signature | None:
        """The difference, if the converter makes `new`'s parameters of it."""
        mine = _parameters(new)
        theirs = _parameters(old)
        rest = None
        if old.args.kwarg is None and new.args.kwarg is not None:
            rest = Parameter(new.args.kwarg, None, True, Fragment("", (), ()), takes_rest=True)
        signature = cls(theirs, mine, has_rest=old.args.vararg is not None, rest=rest)
        kept = [name for name in theirs if name in mine]
        order = kept
        if not signature.in_place:
            # What is added stands behind those that can be given by position, or by name.
            order = [*kept, *signature.added]
            order.sort(key=lambda name: (mine[name].by_name, name in signature.added))
        if order != [name for name in mine if name in order]:
            return None
        for name in kept:
            if mine[name].by_name != theirs[name].by_name:
                return None
            has_another = _text(mine[name].default) != _text(theirs[name].default)
            if has_another and name not in signature.changed:
                return None
        if _name_of(old.args.vararg) != _name_of(new.args.vararg):
            return None
        if rest is None and _name_of(old.args.kwarg) != _name_of(new.args.kwarg):
            return None
        if len(old.args.posonlyargs) != len(new.args.posonlyargs):
            return None
        return signature

    def written(self, literal: Sequence[str], say: Callable[[ast.AST], str]) -> str:
        """The parameters of an edit that lists the names `literal` as well."""
        if self.in_place:
            return self._written_in_place(literal, say)
        plain = [name for name in literal if name not in self.changed and name not in self.added]
        plain = [name for name in plain if name not in self.removed]
        parts = [*plain, *(f"{name}: Old" for name in self.removed)]
        # Those without a default stand first.
        added = sorted(self.added.values(), key=lambda parameter: parameter.default is not None)
        parts += [_as_new(parameter, say) for parameter in added if not parameter.by_name]
        parts += [f"{name}={say(default)}" for name, default in self.changed.items()]
        by_name = [_as_new(parameter, say) for parameter in added if parameter.by_name]
        if by_name:
            parts += ["*", *by_name]
        if self.rest is not None:
            parts.append(f"**{_as_new(self.rest, say)}")
        return ", ".join(parts)

    def _written_in_place(self, literal: Sequence[str], say: Callable[[ast.AST], str]) -> str:
        """Each added one behind the parameter that it follows: `x, scale: New = 1, *rest: Hole`."""
        listed = {*literal, *self.changed}
        # What stands in front of an added one says where that stands.
        for name, following in zip(self.in_place, self.in_place[1:], strict=False):
            if following in self.added:
                listed.add(name)
        first = [name for name in literal[:1] if name in ("self", "cls")]
        variables = [name for name in literal if name not in self.parameters]
        parts = [*first, *(name for name in variables if name not in self.removed)]
        has_default = False
        for name in self.in_place[len(first) :]:
            parameter = self.parameters[name]
            if name in self.added:
                parts.append(_as_new(parameter, say))
                has_default |= parameter.default is not None
            elif name in self.changed:
                parts.append(f"{name}={say(self.changed[name])}")
                has_default = True
            elif name in listed:
                # Behind one that has a default, Python wants one.
                parts.append(f"{name}=..." if has_default else name)
        parts += [f"{name}: Old = ..." if has_default else f"{name}: Old" for name in self.removed]
        # Not the name of something that the edit reads.
        free = [name for name in ("rest", "others", "further") if name not in self.parameters]
        parts.append(f"*{next(name for name in free if name not in literal)}: Hole")
        for name, parameter in self.parameters.items():
            if not parameter.by_name:
                continue
            if name in self.added:
                parts.append(_as_new(parameter, say))
            elif name in listed:
                default = self.changed.get(name)
                parts.append(f"{name}={say(default)}" if default else name)
        if self.rest is not None:
            parts.append(f"**{_as_new(self.rest, say)}")
        return ", ".join(parts)


def _as_new(parameter: Parameter, say: Callable[[ast.AST], str]) -> str:
    """An added parameter of an edit: `scale: New[float] = 1.0`."""
    text = f"{parameter.name}: New"
    if parameter.arg.annotation is not None:
        text += f"[{say(parameter.arg.annotation)}]"
    if parameter.default is not None:
        text += f" = {say(parameter.default)}"
    return text


def _parameters(function: Function) -> _Parameters:
    parameters = read_parameters(function.args, Fragment("", (), ()))
    return {parameter.name: parameter for parameter in parameters}


def _name_of(star: ast.arg | None) -> str:
    return "" if star is None else star.arg


def _text(node: ast.expr | None) -> str:
    return "" if node is None else plain_text(node)


def decorators_added(
    old: Function | ast.ClassDef, new: Function | ast.ClassDef
) -> list[ast.expr] | None:
    """The decorators that the fork has above the parent's; None if others differ."""
    mine, theirs = (
        [decorator for decorator in function.decorator_list if not is_documenting(decorator)]
        for function in (new, old)
    )
    above = len(mine) - len(theirs)
    is_more = above >= 0 and plain_texts(mine[above:]) == plain_texts(theirs)
    return mine[:above] if is_more else None


def _nodes(part: tuple[ast.stmt, ...] | ast.expr) -> Sequence[ast.AST]:
    return part if isinstance(part, tuple) else (part,)


def _find_literal_names(
    changes: Sequence[Draft], signature: Signature, old: Function, new: Function
) -> list[str] | None:
    """The parent's names that the drafts read, in that order: the parameters of the edit.

    None where a draft reads a name of the fork that no draft binds.
    """
    first = old.args.args[0].arg if old.args.args else ""
    is_static = "staticmethod" in map(ast.unparse, old.decorator_list)
    names = [first] if first in ("self", "cls") and not is_static else []
    bound = {*signature.added}
    if signature.rest is not None:
        bound.add(signature.rest.name)
    for draft in changes:
        bound.update(bound_names(_nodes(draft.new)))
    theirs = local_names(old)
    mine = local_names(new)
    for draft in changes:
        for part in (draft.old, draft.new):
            for node in walk(_nodes(part), ast.Name):
                if node.id in names or not isinstance(node.ctx, ast.Load):
                    continue
                if node.id in theirs:
                    names.append(node.id)
                # A local name of the fork that the edit does not make: the parent has no such name.
                elif part is draft.new and node.id in mine and node.id not in bound:
                    return None
    return names


def _make_name(
    changes: Sequence[Draft], signature: Signature, old: Function, taken: set[str]
) -> str:
    """A name that says what the edit is about: `add_scale`, `change_mask_2`."""
    nouns = [name.strip("_") for name in [*signature.added][:1]]
    nouns += [*map(_find_noun, changes), old.name.strip("_")]
    noun = next(filter(None, nouns), "")
    if signature.added or all(draft.word != "new" for draft in changes):
        verb = "add"
    else:
        verb = "change" if any(_nodes(draft.new) for draft in changes) else "drop"
    name = f"{verb}_{noun}"
    number = 2
    while name in taken:
        name = f"{verb}_{noun}_{number}"
        number += 1
    return name


def _find_noun(draft: Draft) -> str:
    """The name that the changed code sets, calls or reads."""
    before = [*_nodes(draft.old)]
    dumps = {ast.dump(node) for node in before}
    changed = [node for node in _nodes(draft.new) if ast.dump(node) not in dumps]
    set_names: list[str] = []
    other_names: list[str] = []
    for node in (changed or before)[:1]:
        for inner in ast.walk(node):
            named = inner.func if isinstance(inner, ast.Call) else inner
            name: str = getattr(named, "attr", getattr(named, "id", "self"))
            if name == "self":
                continue
            is_set = isinstance(getattr(named, "ctx", None), ast.Store)
            (set_names if is_set else other_names).append(name.lower().strip("_"))
    for name in (*set_names, *other_names):
        if re.fullmatch("[a-z][a-z_]*[a-z]", name):
            return name
    return ""


# The words of patchgen.edits, and how each is used.
_EDIT_WORDS = {
    "edit": "@edit",
    **{word: rf"\n +with {word}:\n" for word in ("new", "old", "before", "after")},
    **{word: rf": {word}\b" for word in ("New", "Old", "Hole")},
}


def edit_words(text: str) -> list[str]:
    """The words of patchgen.edits that a text uses."""
    return [word for word, pattern in _EDIT_WORDS.items() if re.search(pattern, text)]

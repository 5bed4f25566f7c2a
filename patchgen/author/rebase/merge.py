"""Merge three versions of a member, if nothing of it is in doubt.

    base     def forward(self, x, mask=None):                   of the old parent
    ours     def forward(self, x, mask=None, seq=None):         what the declaration makes of that
    theirs   def forward(self, x, mask=None, cache=None):       of the new parent
    merged   def forward(self, x, mask=None, cache=None, seq=None):

In: the `Three` versions.  Out: a `Merge`, with the merged member or the `Clash`es.  `merge`, in the
second half of this file, has the order: names that one side changed throughout are changed in all
versions, and then the edits that make `ours` of `base` are made in `theirs`.
"""

from __future__ import annotations

import ast
import copy
import difflib
import itertools
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchgen.author.adopt.classes import decorators_added
from patchgen.author.align.drafts import Draft, drafts, is_made_up
from patchgen.author.align.file import Cut, replacing
from patchgen.author.align.suites import exchanged, head_texts, key, suites_of
from patchgen.author.rebase.code import (
    Clash,
    Code,
    Three,
    around,
    beside,
    clash,
    flow_of,
    in_place_of,
)
from patchgen.author.rebase.head import with_parameters, without_decorators
from patchgen.author.rebase.meaning import doubts_of
from patchgen.author.rebase.settle import settled, with_shared
from patchgen.compiler.edits.meant import Replacement
from patchgen.compiler.edits.pattern import Match, Run, find
from patchgen.compiler.edits.rewriting import replace_matches
from patchgen.compiler.edits.signature import Changes
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import local_names, names_in
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.fragments import find_syntax_error, parse_fragment
from patchgen.syntax.same import plain_text, plain_texts
from patchgen.syntax.trees import Function

_FIELD = re.compile(r"{[^{}]*}")  # of an f-string
_PLAIN = re.compile(r"(?<![\w.'\"])[a-zA-Z_]\w*")
# What stands for an attribute of `self`, a variable and a keyword in a plain text.
_ATTRIBUTE, _VARIABLE, _KEYWORD = r"N:self;\.(\w+);", r"N:(\w+);", r"keyword\(arg='(\w+)'"
_WORD = re.compile(f"{_ATTRIBUTE}|{_VARIABLE}|{_KEYWORD}")
# An attribute of anything, and a string.
_OTHER = re.compile(r"(?<=;)\.\w+(?=;)|(?<=S:)'\w+(?=';)")
_KINDS = ("attribute", "variable", "keyword")
_Masked = tuple[str, list[tuple[str, str]]]  # a text without some names, and these with their kinds
_Renamed = tuple[str, str, str]  # the kind of a name, the name, and the new one
_LeftAndCame = tuple[Collection[str], Collection[str]]  # the names that one version alone has


# Names that are changed throughout
#
#     base     gate = self.act(self.gate(x))        ours     gate = self.act(self.gate(x))
#              return self.down(gate * up)                   return self.down(cap(gate) * up)
#     theirs   gated = self.act(self.gate(x))
#              return self.down(gated * up)         merged   return self.down(cap(gated) * up)
#
# A variable, a parameter, a keyword or an attribute of `self` is renamed where the old name is
# gone, the new one is new, and statements are the same again by the new name.


@dataclass(frozen=True)
class Renames:
    """New names of a method's variables, of keywords that it passes on, of attributes of `self`.

    `others` are attributes of anything and strings, `.cache` and `'cache`, that are called as such
    a variable or keyword.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.variables or self.keywords or self.attributes)

    def apply(self, code: Code) -> Code:
        """The code by the new names."""
        cuts: list[Cut] = []
        waiting: list[ast.AST] = list(code.nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.JoinedStr):
                # Python 3.11 does not say where in an f-string a name stands.
                text = ast.unparse(node)
                new = _FIELD.sub(self._in_field, text)
                if new != text:
                    cuts.append(replacing(node, new))
                continue
            cuts += self._cuts(node)
            waiting += ast.iter_child_nodes(node)
        return code.changed(cuts)

    def _cuts(self, node: ast.AST) -> Iterator[Cut]:
        """The cut that gives what a node says itself its new name, if it has one."""
        match node:
            case ast.Name(id=name) if name in self.variables:
                yield replacing(node, self.variables[name])
            case ast.arg(arg=name) if name in self.variables:
                yield _beginning(node, name, self.variables[name])
            case ast.keyword(arg=str(name)) if name in self.keywords:
                yield _beginning(node, name, self.keywords[name])
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in self.attributes:
                yield replacing(node, f"self.{self.attributes[name]}")
            case ast.Attribute(attr=name):
                ending = f".{name}"
                if ending in self.others:
                    yield _ending(node, ending, self.others[ending])
            case ast.Constant(value=str(text)):
                beginning = f"'{text}"
                if beginning in self.others:
                    yield replacing(node, self.others[beginning] + "'")

    def _in_field(self, field: re.Match[str]) -> str:
        return _PLAIN.sub(lambda name: self.variables.get(name[0], name[0]), field[0])

    def describe(self) -> str:
        """What was renamed, in words; empty for nothing."""
        attributes = {f"self.{old}": f"self.{new}" for old, new in self.attributes.items()}
        pairs = {**self.keywords, **self.variables, **attributes}
        return ", ".join(f"{old} is {new} now" for old, new in sorted(pairs.items()))


def _beginning(node: ast.arg | ast.keyword, old: str, new: str) -> Cut:
    start = node.lineno, node.col_offset
    return Cut(start, (node.lineno, node.col_offset + len(old.encode())), new)


def _ending(node: ast.Attribute, old: str, new: str) -> Cut:
    line = node.end_lineno or 0
    column = node.end_col_offset or 0
    return Cut((line, column - len(old.encode())), (line, column), new)


def _rename_alike(three: Three) -> tuple[Three, Renames]:
    """The versions with the renames of both sides made in all, and those of upstream."""
    if three.functions is None:
        return three, Renames()
    base, ours, theirs = three.functions
    upstream = renames_of(base, theirs, ours)
    followed = replace(three, base=upstream.apply(three.base), ours=upstream.apply(three.ours))
    assert followed.functions is not None
    base, ours, theirs = followed.functions
    # Not attributes: where the declaration gives one another name, it means another one.
    mine = replace(renames_of(base, ours, theirs), attributes={}, others={})
    named = replace(followed, base=mine.apply(followed.base), theirs=mine.apply(followed.theirs))
    return named, upstream


def renames_of(base: Function, side: Function, other: Function) -> Renames:
    """What `side` calls otherwise than `base`; `other` is the version that would have to follow."""
    before = {*_count(_KEYWORD, base)}
    after = {*_count(_KEYWORD, side)}
    keywords = (before - after, after - before)
    variables = _changed_variables(base, side, other)
    attributes = _changed_attributes(base, side, other)
    every = (attributes, variables, keywords)
    if not any(left and came for left, came in every):
        return Renames()
    all_left, all_came = zip(*every, strict=True)
    old_texts = [spot.text for spot in flow_of(base)]
    new_texts = [spot.text for spot in flow_of(side)]
    old_masked = [_mask(text, all_left) for text in old_texts]
    new_masked = [_mask(text, all_came) for text in new_texts]
    votes = Counter(_pair_names(old_masked, new_masked))
    votes.update(_renamed_parameters(base, side, *variables))
    named = Renames(
        variables=_elect(votes, "variable"),
        keywords=_elect(votes, "keyword"),
        attributes=_elect(votes, "attribute"),
    )
    was = {*_OTHER.findall("".join(old_texts))}
    now = {*_OTHER.findall("".join(new_texts))}
    others: dict[str, str] = {}
    for old, new in {**named.variables, **named.keywords}.items():
        for mark in (".", "'"):
            if mark + old in was - now and mark + new in now:
                others[mark + old] = mark + new
    return replace(named, others=others)


def _pair_names(before: Sequence[_Masked], after: Sequence[_Masked]) -> Iterator[_Renamed]:
    """The names at the same places of statements that are equal but for names."""
    texts = [text for text, _ in before]
    others = [text for text, _ in after]
    matcher = difflib.SequenceMatcher(None, texts, others, autojunk=False)
    blocks = matcher.get_matching_blocks()
    for i, j, count in blocks:
        for number in range(count):
            _, olds = before[i + number]
            _, news = after[j + number]
            for old, new in zip(olds, news, strict=True):
                kind, name = old
                _, new_name = new
                yield kind, name, new_name


def _changed_variables(base: Function, side: Function, other: Function) -> _LeftAndCame:
    """The variables that only `base` has, and those that only `side` has."""
    gone = local_names(base) - names_in([side])
    new = local_names(side) - names_in([base, other])
    return gone, new


def _changed_attributes(base: Function, side: Function, other: Function) -> _LeftAndCame:
    """The attributes of `self` that only `base` has, and those that only `side` has.

    What `other` reads more often than `base`, it may mean otherwise.
    """
    before, after, others = (_count(_ATTRIBUTE, function) for function in (base, side, other))
    left = {name for name in before.keys() - after.keys() if others[name] <= before[name]}
    return left, after.keys() - before.keys() - others.keys()


def _count(pattern: str, function: Function) -> Counter[str]:
    """How often each name stands where a pattern of plain texts has it."""
    return Counter(re.findall(pattern, plain_text(function)))


def _mask(text: str, names_of: Sequence[Collection[str]]) -> _Masked:
    """A plain text with a mark for each of some names of each kind, and the names."""
    names: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        number = (match.lastindex or 1) - 1
        name = match[number + 1]
        if name not in names_of[number]:
            return match[0]
        names.append((_KINDS[number], name))
        return f"<{_KINDS[number]}>"

    return _WORD.sub(mark, text), names


def _renamed_parameters(
    base: Function, side: Function, gone: Collection[str], new: Collection[str]
) -> Iterator[_Renamed]:
    """The parameters that stand in the place of others, where nothing else of them changed."""
    if len(base.args.args) != len(side.args.args):
        return
    renamed = []
    for mine, theirs in zip(base.args.args, side.args.args, strict=True):
        if mine.arg != theirs.arg:
            renamed.append((mine.arg, theirs.arg))
    if all(name in gone and other in new for name, other in renamed):
        for name, other in renamed:
            yield "variable", name, other


def _elect(votes: Mapping[_Renamed, int], wanted: str) -> dict[str, str]:
    """The names that most places agree on; where two became one, that with the most places."""
    of_old: dict[str, Counter[str]] = defaultdict(Counter)
    of_new: dict[str, Counter[str]] = defaultdict(Counter)
    for (kind, old, new), count in votes.items():
        # A name of another kind may not become the same, either.
        of_new[new][old] += count
        if kind == wanted:
            of_old[old][new] = count
    best = {}
    for old, counts in of_old.items():
        name = max(sorted(counts), key=counts.__getitem__)
        most = counts[name]
        rivals = Counter(of_new[name])
        del rivals[old]
        next_most = max(rivals.values(), default=0)
        total = counts.total()
        if most * 2 > total and most > next_most:
            best[old] = name
    return best


# The member


@dataclass(frozen=True)
class Merge:
    """The merged member as `code`, or what is in doubt of it as `clashes`.

    `three` are the versions by one name for each variable, `renames` those of upstream.
    `wrapper` is an override that calls its parent, as it should read now.
    """

    three: Three
    code: Code | None = None
    clashes: tuple[Clash, ...] = ()
    renames: Renames = field(default_factory=Renames)
    wrapper: Code | None = None


def merge(three: Three) -> Merge:
    """The new parent's member with the declaration's changes, or what is in doubt of it."""
    three, renames = _rename_alike(three)
    three = with_shared(three)
    merged = _carry_over(three)
    if isinstance(merged, Clash):
        three = settled(three)
        merged = _carry_over(three)
    if isinstance(merged, Clash):
        return Merge(three, None, (merged,), renames)
    doubts = doubts_of(merged, three, is_merge=True)
    return Merge(three, None if doubts else merged, doubts, renames)


def _carry_over(three: Three) -> Code | Clash:
    """The edits that make the declaration's method of the old parent's, made in the new one."""
    if three.functions is None:
        return clash("upstream changed this, too", *(side.nodes for side in three.sides))
    base, ours, theirs = three.functions
    decorators = decorators_added(base, ours)
    headed: Code | None = three.theirs
    if decorators is None:
        decorators = []
        headed = without_decorators(three.theirs, base, ours)
    headed = with_parameters(headed, base, ours) if headed is not None else None
    if headed is None or headed.function is None:
        return clash("no edit makes the head of the declaration", base.args, ours.args, theirs.args)
    annotated = _with_annotations(ours, base)
    changes = drafts(base, annotated, there=headed.function, is_brief=False)
    if changes is None:
        return Clash("upstream changed the code that the declaration changes, or stands beside")
    above = [f"@{ast.unparse(decorator)}" for decorator in decorators]
    try:
        return _make_edits(replace(three, theirs=headed), changes, above)
    except (SyntaxError, PatchgenError):
        return Clash("the two changes cannot stand together")


def _make_edits(three: Three, changes: Sequence[Draft], decorators: Sequence[str]) -> Code | Clash:
    """The new parent's method with `changes`, which are written as an edit and made as one."""
    assert three.functions is not None
    base, _, theirs = three.functions
    comments = {line.strip() for line in three.base.text.split("\n")}
    lines = ["    def _():"]
    for draft in changes:
        lines.append(f"        with {draft.word}:")
        lines.append(_write_piece(three.ours, draft.new, comments))
    if not changes:
        lines.append("        pass")
    edit = parse_fragment("\n".join([*lines, ""]))
    # A function at the top of a file is written as if it stood in a class.
    margin = "" if theirs.col_offset else "    "
    method = parse_fragment(textwrap.indent(three.theirs.member, margin))
    function = method.nodes[0]
    body = getattr(edit.nodes[0], "body", ())
    withs = [node for node in body if isinstance(node, ast.With)]
    places: list[Replacement] = []
    replaced: list[ast.AST] = []
    for part, draft in zip(withs, changes, strict=True):
        # A string of several lines is another one at another margin.
        if plain_texts(part.body) != plain_texts(draft.code or [ast.Pass()]):
            return clash("has a string of several lines", None, draft.code)
        match = find(draft.body, function)[0]
        places.append(Replacement(match, edit, part, draft.word))
        for node in match.nodes:
            for inner in ast.walk(node):
                if isinstance(inner, ast.stmt | ast.expr):
                    replaced.append(inner)
    is_overlapping = len({*replaced}) < len(replaced)
    result = replace_matches(method, places, Changes(), Location("", 1, 1))
    if result is None or is_overlapping or find_syntax_error(result.text):
        return Clash("the two changes cannot stand together")
    for draft in changes:
        doubt = _find_misplaced(draft, base, function)
        if doubt:
            return doubt
    above = "".join(f"    {decorator}\n" for decorator in decorators)
    text = [line.removeprefix(margin) for line in f"{above}{result.text}".split("\n")]
    return in_place_of(theirs, "\n".join(text))


def _with_annotations(ours: Function, base: Function) -> Function:
    """The declaration's method with the annotations of the parent's equal statements."""
    by_text = {plain_text(node): node for node in _assignments(base)}
    same: dict[ast.AST, ast.AST] = {}
    for node in _assignments(ours):
        annotated = by_text.get(plain_text(node))
        if annotated is None or key(annotated) == key(node):
            continue
        copied = copy.copy(annotated)
        same[node] = ast.copy_location(copied, node)
    if not same:
        return ours
    return exchanged(ours, same)


def _assignments(function: Function) -> Iterator[ast.Assign | ast.AnnAssign]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield node


def _find_misplaced(draft: Draft, base: Function, theirs: ast.stmt) -> Clash | None:
    """The clash if a change stands elsewhere in `theirs` than in `base`; else None.

    Elsewhere is in another branch, and for an expression, in another statement.  Other arguments of
    calls and another name for what a statement assigns make no difference.
    """
    old = find(draft.body, base)[0]
    new = find(draft.body, theirs)[0]
    before = around(base, old.nodes[0])
    after = around(theirs, new.nodes[0])
    if _branches(before) != _branches(after):
        return clash("upstream has it in another branch", old.nodes, draft.code, new.nodes)
    if isinstance(old.place, Run) or isinstance(new.place, Run):
        return None
    if _innermost(before) != _innermost(after):
        mine = _statements(before)[-1]
        upstream = _statements(after)[-1]
        return clash("both changed this", mine, draft.new, upstream)
    return _find_unpacked(draft, old, new)


def _statements(path: Sequence[ast.AST]) -> list[ast.stmt]:
    return [node for node in path if isinstance(node, ast.stmt)]


def _innermost(path: Sequence[ast.AST]) -> list[list[str]]:
    """What the statement of a change says around it."""
    start = path.index(_statements(path)[-1])
    return [beside(node, inner) for node, inner in itertools.pairwise(path[start:])]


def _branches(path: Sequence[ast.AST]) -> list[tuple[object, ...]]:
    """What the compound statements around a change say, and in which of their suites it is."""
    statements = _statements(path)
    return [_branch(node, inner) for node, inner in itertools.pairwise(statements)]


def _find_unpacked(draft: Draft, old: Match, new: Match) -> Clash | None:
    """The clash if unpacked arguments (`*args`) of one side may hold what the other added."""
    before = old.bound.rest
    after = new.bound.rest
    if before is None or after is None:
        return None
    old_stars = [key(argument) for argument in before.arguments if _is_unpacked(argument)]
    new_stars = [key(argument) for argument in after.arguments if _is_unpacked(argument)]
    is_doubtful = old_stars != new_stars
    if isinstance(draft.new, ast.Call) and any(map(_is_unpacked, draft.new.keywords)):
        is_doubtful |= [*map(key, before.arguments)] != [*map(key, after.arguments)]
    if is_doubtful:
        what = "one side has unpacked arguments, which may hold what the other added"
        return clash(what, before.call, draft.new, after.call)
    return None


def _is_unpacked(argument: ast.expr | ast.keyword) -> bool:
    return isinstance(argument, ast.Starred) or getattr(argument, "arg", "") is None


def _branch(node: ast.stmt, inner: ast.stmt) -> tuple[object, ...]:
    """What a compound statement says, and in which of its suites another one is."""
    number = next((n for n, suite in enumerate(suites_of(node)) if inner in suite), -1)
    return type(node).__name__, head_texts(node), number


def _write_piece(code: Code, part: tuple[ast.stmt, ...] | ast.expr, there: Collection[str]) -> str:
    """Code of the declaration below a `with`, with the comments that are not `there`."""
    margin = " " * 12
    nodes = part if isinstance(part, tuple) else (part,)
    first = nodes[0] if nodes else None
    is_made = any(map(is_made_up, nodes))
    if is_made or not isinstance(first, ast.stmt):
        written = "\n".join(map(ast.unparse, nodes)) or "pass"
        return textwrap.indent(written, margin)
    last_line = nodes[-1].end_lineno or 0
    lines = []
    for line in code.comments(first):
        if line.strip() not in there:
            lines.append(line)
    lines += code.lines(first_line(first), last_line)
    text = textwrap.dedent("\n".join(lines))
    return textwrap.indent(text, margin)

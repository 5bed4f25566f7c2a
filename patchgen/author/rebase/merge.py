"""Three versions of a member as one, if nothing of it is in doubt: its head here, its body apart.

base     def forward(self, x, mask=None):
ours     def forward(self, x, mask=None, seq=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, mask=None, cache=None, seq=None):

Names that upstream, or the declaration, changed throughout are changed in all versions first.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from patchgen.author.adopt.classes import Signature, decorators_added
from patchgen.author.align.drafts import Draft, drafts, is_made_up
from patchgen.author.align.file import Cut
from patchgen.author.align.suites import head_texts, key, suites_of
from patchgen.author.rebase.code import (
    Clash,
    Code,
    Three,
    clash,
    flow_of,
    in_place_of,
    replacing,
)
from patchgen.author.rebase.meaning import doubts_of
from patchgen.compiler.edits.meant import Replacement
from patchgen.compiler.edits.pattern import Run, find
from patchgen.compiler.edits.rewriting import replace_matches
from patchgen.compiler.edits.signature import Changes, read_parameters
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import local_names, names_in, parameters
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.fragments import Fragment, find_syntax_error, parse_fragment
from patchgen.syntax.same import Function, plain_text

_FIELD = re.compile(r"{[^{}]*}")  # of an f-string
_PLAIN = re.compile(r"(?<![\w.'\"])[a-zA-Z_]\w*")
# What stands for a variable and for a keyword in a plain text.
_WORD = re.compile(r"N:(\w+);|keyword\(arg='(\w+)'")


# Names that are changed throughout
#
#     base     gate = self.act(self.gate(x))        ours     gate = self.act(self.gate(x))
#              return self.down(gate * up)                   return self.down(cap(gate) * up)
#     theirs   gated = self.act(self.gate(x))
#              return self.down(gated * up)         said     return self.down(cap(gated) * up)
#
# A variable, a parameter or a keyword is renamed where the old name is gone, the new one is new,
# and statements are the same again by the new name.


@dataclass(frozen=True)
class Renames:
    """New names of the variables of a method, and of the keywords that it passes on."""

    variables: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.variables or self.keywords)

    def made_in(self, code: Code) -> Code:
        """The code by the new names."""
        cuts: list[Cut] = []
        waiting: list[ast.AST] = list(code.nodes)
        while waiting:
            node = waiting.pop()
            match node:
                case ast.JoinedStr():
                    # Python 3.11 does not say where in an f-string a name stands.
                    text = ast.unparse(node)
                    new = _FIELD.sub(self._in_field, text)
                    cuts += [replacing(node, new)] if new != text else []
                    continue
                case ast.Name(id=name) if name in self.variables:
                    cuts.append(replacing(node, self.variables[name]))
                case ast.arg(arg=name) if name in self.variables:
                    cuts.append(_beginning(node, name, self.variables[name]))
                case ast.keyword(arg=str(name)) if name in self.keywords:
                    cuts.append(_beginning(node, name, self.keywords[name]))
            waiting += ast.iter_child_nodes(node)
        return code.changed(cuts)

    def _in_field(self, field: re.Match[str]) -> str:
        return _PLAIN.sub(lambda name: self.variables.get(name[0], name[0]), field[0])

    def told(self) -> str:
        """What was renamed, in words; empty for nothing."""
        pairs = {**self.keywords, **self.variables}
        return ", ".join(f"{old} is {new} now" for old, new in sorted(pairs.items()))


def _beginning(node: ast.arg | ast.keyword, old: str, new: str) -> Cut:
    start = node.lineno, node.col_offset
    return Cut(start, (node.lineno, node.col_offset + len(old.encode())), new)


def _by_one_name(three: Three) -> tuple[Three, Renames]:
    """The versions with the renames of both sides made in all, and those of upstream."""
    base, ours, theirs = three.sides
    functions = three.functions
    if functions is None:
        return three, Renames()
    upstream = _renames(functions[0], functions[2], functions[1])
    base, ours = upstream.made_in(base), upstream.made_in(ours)
    assert base.function is not None and ours.function is not None
    mine = _renames(base.function, ours.function, functions[2])
    return replace(three, base=mine.made_in(base), ours=ours, theirs=mine.made_in(theirs)), upstream


def _renames(base: Function, side: Function, other: Function) -> Renames:
    """What `side` calls otherwise than `base`; `other` is the version that would have to follow."""
    gone = local_names(base) - names_in([side]) - {*parameters(side)}
    new = local_names(side) - names_in([base, other]) - {*parameters(base)}
    dropped, added = _keywords(base) - _keywords(side), _keywords(side) - _keywords(base)
    if not ((gone and new) or (dropped and added)):
        return Renames()
    votes: Counter[tuple[str, str, str]] = Counter()
    before = [_masked(spot.text, gone, dropped) for spot in flow_of(base)]
    after = [_masked(spot.text, new, added) for spot in flow_of(side)]
    matcher = difflib.SequenceMatcher(
        None, [text for text, _ in before], [text for text, _ in after], autojunk=False
    )
    for i, j, count in matcher.get_matching_blocks():
        for (_, mine), (_, theirs) in zip(before[i : i + count], after[j : j + count], strict=True):
            for (kind, old), (_, name) in zip(mine, theirs, strict=True):
                votes[kind, old, name] += 1
    votes.update(_renamed_parameters(base, side, gone, new))
    return Renames(_elected(votes, "variable"), _elected(votes, "keyword"))


def _keywords(function: Function) -> set[str]:
    return {n.arg for n in ast.walk(function) if isinstance(n, ast.keyword) and n.arg}


def _masked(
    text: str, variables: Collection[str], keywords: Collection[str]
) -> tuple[str, list[tuple[str, str]]]:
    """A plain text with a mark for each of some names, and the names."""
    names: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        kind, name = ("variable", match[1]) if match[1] else ("keyword", match[2])
        if name not in (variables if match[1] else keywords):
            return match[0]
        names.append((kind, name))
        return f"<{kind}>"

    return _WORD.sub(mark, text), names


def _renamed_parameters(
    base: Function, side: Function, gone: Collection[str], new: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """The parameters that stand in the place of others, where nothing else of them changed."""
    mine, theirs = ([a.arg for a in f.args.args] for f in (base, side))
    if len(mine) == len(theirs):
        pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a != b]
        if all(a in gone and b in new for a, b in pairs):
            yield from (("variable", a, b) for a, b in pairs)


def _elected(votes: Mapping[tuple[str, str, str], int], wanted: str) -> dict[str, str]:
    """The names that most places agree on; where two became one, that with the most places."""
    best: dict[str, str] = {}
    for old in {old for kind, old, _ in votes if kind == wanted}:
        mine = {new: n for (kind, name, new), n in votes.items() if (kind, name) == (wanted, old)}
        name = max(sorted(mine), key=lambda new: mine[new])
        rivals = [n for (_, other, new), n in votes.items() if new == name and other != old]
        if mine[name] * 2 > sum(mine.values()) and mine[name] > max(rivals, default=0):
            best[old] = name
    return best


# The member


@dataclass(frozen=True)
class Merge:
    """The merged member, or what is in doubt of it.

    `three` are the versions by one name for each variable, `renames` those of upstream.
    """

    three: Three
    code: Code | None = None
    clashes: tuple[Clash, ...] = ()
    renames: Renames = field(default_factory=Renames)


def merge(three: Three) -> Merge:
    """The new parent's member with the declaration's changes, or what is in doubt of it."""
    three, renames = _by_one_name(three)
    merged = _carried(three)
    if isinstance(merged, Clash):
        return Merge(three, None, (merged,), renames)
    doubts = doubts_of(merged, three, is_merge=True)
    return Merge(three, None if doubts else merged, doubts, renames)


def _carried(three: Three) -> Code | Clash:
    """The edits that make the declaration's method of the old parent's, made in the new one."""
    if three.functions is None:
        return clash("upstream changed this, too", *(side.nodes for side in three.sides))
    base, ours, theirs = three.functions
    signature, decorators = Signature.between(base, ours), decorators_added(base, ours)
    if signature is None or decorators is None:
        return clash("no edit makes the head of the declaration", base.args, ours.args, theirs.args)
    every = drafts(base, ours, there=theirs, is_brief=False)
    if every is None:
        return Clash("upstream changed the code that the declaration changes, or stands beside")
    comments = {line.strip() for line in three.base.text.split("\n")}
    lines = [f"    def _({signature.written((), ast.unparse)}):", *(["        pass"] * (not every))]
    for draft in every:
        lines += [f"        with {draft.word}:", _piece(three.ours, draft.new, comments)]
    # A function at the top of a file is written as if it stood in a class.
    margin = "" if theirs.col_offset else "    "
    try:
        edit = parse_fragment("\n".join([*lines, ""]))
        method = parse_fragment(textwrap.indent(three.theirs.member, margin))
        changes = _changes_of(edit, base, theirs)
        if isinstance(changes, Clash):
            return changes
        withs = [n for n in getattr(edit.nodes[0], "body", ()) if isinstance(n, ast.With)]
        matches = [find(draft.body, method.nodes[0])[0] for draft in every]
        for part, draft in zip(withs, every, strict=True):
            # A string of several lines is another one at another margin.
            if [*map(plain_text, part.body)] != [*map(plain_text, draft.code or [ast.Pass()])]:
                return clash("has a string of several lines", None, draft.code)
        inside = (n for match in matches for node in match.nodes for n in ast.walk(node))
        nodes = [id(n) for n in inside if isinstance(n, ast.stmt | ast.expr)]
        parts = zip(matches, withs, every, strict=True)
        places = [Replacement(match, edit, part, draft.word) for match, part, draft in parts]
        result = replace_matches(method, places, changes, Location("", 1, 1))
        if result is None or len({*nodes}) < len(nodes) or find_syntax_error(result.text):
            return Clash("the two changes cannot stand together")
        for draft in every:
            if doubt := _misplaced(draft, base, method.nodes[0]):
                return doubt
        above = "".join(f"    @{ast.unparse(decorator)}\n" for decorator in decorators)
        text = [line.removeprefix(margin) for line in f"{above}{result.text}".split("\n")]
        return in_place_of(theirs, "\n".join(text))
    except (SyntaxError, PatchgenError):
        return Clash("the two changes cannot stand together")


def _around(method: ast.AST, node: ast.AST) -> list[ast.AST]:
    """What a node of a method stands in, outermost first, and itself."""
    for inner in ast.iter_child_nodes(method):
        path = [] if inner is node else _around(inner, node)
        if path or inner is node:
            return [inner, *path]
    return []


def _misplaced(draft: Draft, base: Function, theirs: ast.stmt) -> Clash | None:
    """What is otherwise around a change: branches, and around an expression its statement.

    Other arguments of calls and another name for what a statement assigns say nothing of it.
    """
    old, new = (find(draft.body, method)[0] for method in (base, theirs))
    paths = _around(base, old.nodes[0]), _around(theirs, new.nodes[0])
    statements = [[n for n in path if isinstance(n, ast.stmt)] for path in paths]
    if len({repr([*map(_branch, one, one[1:])]) for one in statements}) > 1:
        return clash("upstream has it in another branch", old.nodes, draft.code, new.nodes)
    if isinstance(old.place, Run) or isinstance(new.place, Run):
        return None
    inside = [path[path.index(one[-1]) :] for path, one in zip(paths, statements, strict=True)]
    said = [[_beside(a, b) for a, b in itertools.pairwise(path)] for path in inside]
    if said[0] != said[1]:
        return clash("both changed this", statements[0][-1], draft.new, statements[1][-1])
    rests = [[*map(key, m.bound.rest.arguments)] for m in (old, new) if m.bound.rest]
    more = draft.new.keywords if isinstance(draft.new, ast.Call) else []
    every = [*more, *(n for m in (old, new) if m.bound.rest for n in m.bound.rest.arguments)]
    is_unpacked = any(isinstance(n, ast.Starred) or getattr(n, "arg", "") is None for n in every)
    if rests and rests[0] != rests[1] and is_unpacked:
        what = "one side has unpacked arguments, which may hold what the other added"
        return clash(what, old.place, draft.new, new.place)
    return None


def _branch(node: ast.stmt, inner: ast.stmt) -> tuple[object, ...]:
    """What a compound statement says, and in which of its suites another one is."""
    number = next((n for n, suite in enumerate(suites_of(node)) if inner in suite), -1)
    return type(node).__name__, head_texts(node), number


def _beside(node: ast.AST, inner: ast.AST) -> list[str]:
    """What a node says beside one that is in it."""
    others = [n for n in ast.iter_child_nodes(node) if n is not inner]
    words = [str(v) for _, v in ast.iter_fields(node) if not isinstance(v, ast.AST | list)]
    match node:
        case ast.Assign(value=value) if value is inner:
            others = []
        case ast.Call(func=func) if func is not inner or isinstance(func, ast.Attribute):
            others = [] if func is inner else [func]
    return [type(node).__name__, *words, *map(key, others)]


def _changes_of(edit: Fragment, base: Function, theirs: Function) -> Changes | Clash:
    """What the head of an edit changes in the signature of the new parent."""
    (head,) = edit.nodes
    assert isinstance(head, Function)
    before, there = (
        {
            parameter.name: parameter.default and plain_text(parameter.default)
            for parameter in read_parameters(f.args, edit)
        }
        for f in (base, theirs)
    )
    changes = Changes()
    for parameter in read_parameters(head.args, edit):
        name, hint = parameter.name, ast.unparse(parameter.arg.annotation or ast.Name(""))
        if before.get(name, "") != there.get(name, ""):
            return clash(f"both changed the parameter {name}", base.args, None, theirs.args)
        if hint == "Old":
            changes.removed.add(name)
        elif hint:
            changes.added.append(parameter)
        else:
            changes.changed[name] = parameter
    return changes


def _piece(code: Code, part: tuple[ast.stmt, ...] | ast.expr, there: Collection[str]) -> str:
    """Code of the declaration below a `with`, with the comments that are not `known`."""
    nodes = part if isinstance(part, tuple) else (part,)
    text = "\n".join(map(ast.unparse, nodes)) or "pass"
    if nodes and isinstance(nodes[0], ast.stmt) and not any(map(is_made_up, nodes)):
        comments = [line for line in code.comments(nodes[0]) if line.strip() not in there]
        lines = code.lines(first_line(nodes[0]), nodes[-1].end_lineno or 0)
        text = textwrap.dedent("\n".join([*comments, *lines]))
    return textwrap.indent(text, " " * 12)

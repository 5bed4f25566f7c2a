"""Upgrades with a known answer: a change made on one release, whose place is there in the next one.

A method differs between two releases.  The change is made in the old text, by one operation on text,
and declared in a modular file.  The right result of a rebase is what the same operation gives on the
new text.  How the answer is made has nothing of `rebase` in it, and nothing is imported.
"""

from __future__ import annotations

import ast
import builtins
import random
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from patchgen.author.align.file import read_file
from patchgen.author.rebase.code import member_of
from patchgen.author.rebase.releases import Given, Prover, Tree
from patchgen.author.rebase.work import Rebase
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source

Function = ast.FunctionDef | ast.AsyncFunctionDef
SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)
SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
FILE = "modular_x.py"


@dataclass(frozen=True)
class Upgrade:
    """A modular file for the old release, and what its `member` should be on the new one."""

    name: str
    kind: str
    module: str
    owner: str
    member: str
    modular: str
    before: str  # the member on the old release, with the change
    answer: str  # the member on the new release, with the change


@dataclass(frozen=True)
class Method:
    """A method by its text, without indentation."""

    text: str

    @property
    def node(self) -> Function:
        (node,) = parsed(self.text).body
        assert isinstance(node, Function)
        return node

    def code(self, node: ast.AST) -> str:
        """The text of a node, such that an expression can stand alone."""
        text = ast.get_source_segment(self.text, node) or ""
        return ast.unparse(node) if isinstance(node, ast.expr) and "\n" in text else text

    def edited(self, pieces: Sequence[tuple[ast.AST, str]]) -> Method:
        """The method with other texts in the places of some nodes."""
        lines = [line.encode() for line in self.text.splitlines(keepends=True)]
        for node, new in sorted(pieces, key=lambda p: (p[0].lineno, p[0].col_offset))[::-1]:
            first, last = node.lineno - 1, node.end_lineno - 1
            head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [head + new.encode() + tail]
        return Method(b"".join(lines).decode())


@dataclass(frozen=True)
class Part:
    """One place of a change: `old` is code as it stands in the old method, `new` what is there.

    `{}` in `new` is what was there.  `is_statement` tells an expression from a statement; `count`
    is how often it occurs.  `wrap` gives the words of an edit: what stands under `with new:`, or
    `before` and `after`.
    """

    key: str
    old: str
    new: str
    is_statement: bool = True
    count: int = 1
    word: str = "new"
    declared_old: str = ""
    declared_new: str = ""
    holes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A change of a method: of its places, and of its parameters.

    `there` is the same change in the newer text, where it reads otherwise there.
    """

    parts: tuple[Part, ...] = ()
    there: tuple[Part, ...] | None = None
    added: str = ""  # a parameter with its default, `name=default`
    default: tuple[str, str] = ("", "")  # a parameter, and its other default


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def key_of(node: ast.AST) -> str:
    """Equal for code that an edit matches alike."""
    text = ast.dump(node)
    for context in (", ctx=Load()", ", ctx=Store()", ", ctx=Del()"):
        text = text.replace(context, "")
    return text


# The operation on a text


def applied(operation: Operation, method: Method, names: Mapping[str, str]) -> Method | None:
    """The method with the change made in it; None where a place is not there as often as it was.

    `names` are the new names of variables that upstream renamed.
    """
    pieces: list[tuple[ast.AST, str]] = []
    for part in operation.parts:
        old = ast.parse(renamed(part.old, names)).body[0]
        wanted = key_of(old if part.is_statement else old.value)
        places = [n for n in nodes_of(method) if key_of(n) == wanted]
        if len(places) != part.count:
            return None
        for node in places:
            was = textwrap.dedent(" " * node.col_offset + method.code(node))
            new = renamed(part.new, names).replace("{}", was)
            margin = " " * node.col_offset
            lines = new.split("\n")
            if part.is_statement:
                lines = [lines[0], *(margin + line if line else line for line in lines[1:])]
            pieces.append((node, "\n".join(lines)))
    if operation.added or operation.default[0]:
        signature = with_parameter(method, operation)
        if signature is None:
            return None
        pieces.append(signature)
    made = method.edited(pieces)
    try:
        ast.parse(made.text)
    except SyntaxError:
        return None
    return made


def nodes_of(method: Method) -> Iterator[ast.AST]:
    """The statements and expressions of a body, none of which stands in a string."""
    waiting: list[ast.AST] = list(method.node.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.stmt | ast.expr):
            yield node
        if not isinstance(node, ast.JoinedStr):
            waiting += ast.iter_child_nodes(node)


def with_parameter(method: Method, operation: Operation) -> tuple[ast.AST, str] | None:
    """The last parameter that can be given by position, with another one behind it."""
    args = method.node.args
    if operation.default[0]:
        name, value = operation.default
        values = dict(zip([a.arg for a in args.args[::-1]], args.defaults[::-1], strict=False))
        return (values[name], value) if name in values else None
    if args.vararg or args.posonlyargs or not args.args:
        return None
    last = args.args[-1]
    end: ast.AST = args.defaults[-1] if args.defaults else last
    return end, f"{method.code(end)}, {operation.added}"


def renamed(code: str, names: Mapping[str, str]) -> str:
    """Code with other names for variables."""
    for old, new in names.items():
        code = re.sub(rf"(?<![\w.]){old}\b", new, code)
    return code


# Pairs of methods


@dataclass(frozen=True)
class Pair:
    """A method in two releases; `before` and `after` are the whole files."""

    releases: tuple[str, str]
    module: str
    owner: str
    member: str
    old: Method
    new: Method
    before: str

    @property
    def name(self) -> str:
        return f"{self.releases[0]} {self.releases[1]} {self.module}:{self.owner}.{self.member}"


@cache
def pairs_in(old: Path, new: Path, module: str) -> list[Pair]:
    """The methods of a file that differ between two releases."""
    texts = [(root / module).read_text(encoding="utf-8") for root in (old, new)]
    if texts[0] == texts[1]:
        return []
    sides = [dict(members_in(text)) for text in texts]
    name = module.removesuffix(".py").replace("/", ".")
    found = []
    for (owner, member), before in sides[0].items():
        after = sides[1].get((owner, member))
        if after is None:
            continue
        if plain_text(parsed(before).body[0]) != plain_text(parsed(after).body[0]):
            place = old.name, new.name
            found.append(Pair(place, name, owner, member, Method(before), Method(after), texts[0]))
    return found


def members_in(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    """The methods of a file's classes, and its functions, by their names."""
    for node in parsed(text).body:
        if isinstance(node, Function):
            yield ("", node.name), source_of(text, node)
        if isinstance(node, ast.ClassDef):
            methods = [n for n in node.body if isinstance(n, Function)]
            for method in methods:
                if sum(n.name == method.name for n in methods) == 1 and not method.decorator_list:
                    yield (node.name, method.name), source_of(text, method)


def source_of(text: str, node: Function) -> str:
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))


@cache
def modules_of(root: Path) -> tuple[str, ...]:
    """The modeling files of a release."""
    files = (root / "transformers/models").glob("*/modeling_*.py")
    return tuple(sorted(path.relative_to(root).as_posix() for path in files))


# What can be changed


def anchors(pair: Pair, names: Mapping[str, str]) -> list[ast.stmt]:
    """The statements that stand once in both methods, in the same kind of place."""
    return [n for n in statements_of(pair.old) if stands_once(pair, n, names)]


def statements_of(method: Method) -> list[ast.stmt]:
    return [n for n in nodes_of(method) if isinstance(n, SIMPLE) and not hides_names(n)]


def hides_names(node: ast.AST) -> bool:
    """Whether code has names of its own in it, or a string, or waits."""
    strange = (*SCOPES, ast.JoinedStr, ast.Await, ast.Yield, ast.YieldFrom)
    return any(isinstance(n, strange) for n in ast.walk(node)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def stands_once(pair: Pair, node: ast.AST, names: Mapping[str, str]) -> bool:
    old = pair.old.code(node)
    try:
        there = ast.parse(renamed(old, names)).body[0]
    except SyntaxError:
        return False
    other = there if isinstance(node, ast.stmt) else there.value
    return count_of(pair.old, key_of(node)) == 1 and count_of(pair.new, key_of(other)) == 1


def count_of(method: Method, key: str) -> int:
    return keys_of(method.text).count(key)


@cache
def keys_of(text: str) -> list[str]:
    return [key_of(n) for n in nodes_of(Method(text))]


def expressions(pair: Pair, names: Mapping[str, str]) -> list[ast.expr]:
    """The calls and sums that stand once in both methods."""
    return [
        n
        for n in nodes_of(pair.old)
        if isinstance(n, ast.Call | ast.BinOp | ast.Attribute | ast.Subscript)
        and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
        and not hides_names(n)
        and stands_once(pair, n, names)
    ]


def locals_of(method: Method) -> set[str]:
    """The parameters and variables of a method."""
    node = method.node
    bound = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return bound | {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}


def reads_of(node: ast.AST) -> list[str]:
    return list(
        dict.fromkeys(
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        )
    )


@cache
def renames_of(pair: Pair) -> dict[str, str]:
    """The variables that upstream calls otherwise everywhere, by what most statements say."""
    old, new = pair.old, pair.new
    gone, fresh = locals_of(old) - words_of(new), locals_of(new) - words_of(old)
    found = {}
    there = {key_of(n) for n in nodes_of(new) if isinstance(n, ast.stmt)}
    for name in sorted(gone):
        mine = [n for n in nodes_of(old) if isinstance(n, SIMPLE) and name in code_words(n)]
        for other in sorted(fresh):
            again = [
                n
                for n in mine
                if key_of(ast.parse(renamed(old.code(n), {name: other})).body[0]) in there
            ]
            if mine and len(again) >= max(1, 0.6 * len(mine)):
                found[name] = other
    return found if len(set(found.values())) == len(found) else {}


def words_of(method: Method) -> set[str]:
    return code_words(method.node)


def code_words(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.arg for n in ast.walk(node) if isinstance(n, ast.arg)
    }


# The kinds


Make = Callable[[random.Random, Pair, Mapping[str, str]], Operation | None]


def new_statements(draw: random.Random, target: ast.stmt, pair: Pair) -> str:
    """Statements that may stand beside another one."""
    mine = [
        n.id for n in ast.walk(target) if isinstance(n, ast.Name) and n.id in locals_of(pair.old)
    ]
    names = sorted(set(mine) - {"self"})
    forms = ["self.calls = 1 + 1", "torch.cuda.synchronize()"]
    if not pair.owner:
        forms = ["torch.cuda.synchronize()"]
    if names:
        name = draw.choice(names)
        forms = [
            f"{name} = {name} * 2.0",
            f"{name} = torch.tanh({name} / 30.0) * 30.0",
            f"if {name} is None:\n    raise ValueError('it is missing')",
            f"seen = {name}",
            f"print({name})",
            *forms,
        ]
    return draw.choice(forms)


def insert_after(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    target = choice(draw, anchors(pair, names))
    if target is None:
        return None
    new = new_statements(draw, target, pair)
    code = pair.old.code(target)
    word = draw.choice(("after", "new"))
    return Operation(
        (part(pair, target, "{}\n" + new, word, new if word == "after" else f"{code}\n{new}"),)
    )


def insert_before(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    target = choice(draw, anchors(pair, names))
    if target is None:
        return None
    new = new_statements(draw, target, pair)
    code = pair.old.code(target)
    word = draw.choice(("before", "new"))
    return Operation(
        (part(pair, target, new + "\n{}", word, new if word == "before" else f"{new}\n{code}"),)
    )


def replace_expression(
    draw: random.Random, pair: Pair, names: Mapping[str, str]
) -> Operation | None:
    target = choice(draw, expressions(pair, names))
    if target is None:
        return None
    code = pair.old.code(target)
    form = draw.choice(("({} * 2.0)", "torch.tanh({})", "torch.mul(2.0, other={})"))
    return Operation((part(pair, target, form, "new", form.replace("{}", code)),))


def delete(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    bodies = [n for n in anchors(pair, names) if not isinstance(n, ast.Assign)]
    target = choice(draw, [n for n in bodies or anchors(pair, names) if has_neighbour(pair.old, n)])
    if target is None or not has_neighbour(pair.new, target):
        return None
    return Operation((part(pair, target, "", "new", "pass"),))


def has_neighbour(method: Method, node: ast.stmt) -> bool:
    """Whether the suite of a statement has another one."""
    for one in ast.walk(method.node):
        for suite in (getattr(one, "body", None), getattr(one, "orelse", None)):
            if isinstance(suite, list) and any(key_of(n) == key_of(node) for n in suite):
                return len(suite) > 1
    return False


def guard(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    target = choice(draw, anchors(pair, names))
    if target is None:
        return None
    code = pair.old.code(target)
    test = draw.choice(("self.training", "torch.is_grad_enabled()"))
    if not pair.owner:
        test = "torch.is_grad_enabled()"
    if "\n" in code:
        return None
    return Operation(
        (part(pair, target, f"if {test}:\n    {{}}", "new", f"if {test}:\n    {code}"),)
    )


def keyword(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """A keyword argument for a call, which an edit may name by its arguments or without them."""
    calls = [n for n in expressions(pair, names) if isinstance(n, ast.Call) and not rest_of(n)]
    target = choice(draw, calls)
    if target is None:
        return None
    code = pair.old.code(target)
    comma = ", " if target.args or target.keywords else ""
    new = draw.choice(("extra=self.training", "scale=2.0"))
    new = new if pair.owner else "scale=2.0"
    body = code[:-1].rstrip().removesuffix(",")
    return Operation((part(pair, target, f"{body}{comma}{new})", "new", f"{body}{comma}{new})"),))


def rest_of(call: ast.Call) -> bool:
    return any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    )


def changed_call(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """The one call of a function gets a keyword, whatever its other arguments are."""
    functions = [
        key_of(n.func)
        for method in (pair.old, pair.new)
        for n in nodes_of(method)
        if isinstance(n, ast.Call)
    ]
    calls = [
        n
        for n in nodes_of(pair.old)
        if isinstance(n, ast.Call)
        and functions.count(key_of(n.func)) == 2
        and not hides_names(n)
        and count_of(pair.new, key_of(n)) == 0
    ]
    there = {key_of(n.func): n for n in nodes_of(pair.new) if isinstance(n, ast.Call)}
    calls = [
        n
        for n in calls
        if key_of(n.func) in there and not (rest_of(n) or rest_of(there[key_of(n.func)]))
    ]
    target = choice(draw, [n for n in calls if n.args or n.keywords])
    if target is None or not (
        there[key_of(target.func)].args or there[key_of(target.func)].keywords
    ):
        return None
    return Operation((replace(part(pair, target, "", "new", ""), word="call"),))


def run_of_two(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """Another statement between two that follow each other in both methods."""
    target = choice(draw, [n for n in anchors(pair, names) if follower(pair.old, n) is not None])
    if target is None:
        return None
    second, there = follower(pair.old, target), follower(pair.new, target, names, pair.old)
    if second is None or there is None or hides_names(second) or not isinstance(second, SIMPLE):
        return None
    if key_of(ast.parse(renamed(pair.old.code(second), names)).body[0]) != key_of(there):
        return None
    new = new_statements(draw, target, pair)
    code = pair.old.code(target)
    one = part(pair, target, "{}\n" + new, "new", f"{code}\n{new}\n{pair.old.code(second)}")
    return Operation((replace(one, declared_old=f"{code}\n{pair.old.code(second)}"),))


def follower(
    method: Method, node: ast.stmt, names: Mapping[str, str] = {}, other: Method | None = None
) -> ast.stmt | None:
    wanted = key_of(node)
    if other is not None:
        wanted = key_of(ast.parse(renamed(other.code(node), names)).body[0])
    for one in ast.walk(method.node):
        for suite in (getattr(one, "body", None), getattr(one, "orelse", None)):
            if isinstance(suite, list):
                for place, n in enumerate(suite[:-1]):
                    if key_of(n) == wanted:
                        return suite[place + 1]
    return None


def default(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    sides = [defaults_of(method) for method in (pair.old, pair.new)]
    shared = sorted(name for name in sides[0] if sides[0][name] == sides[1].get(name))
    name = choice(draw, shared)
    return Operation(default=(name, draw.choice(("7", "-2", "'mean'")))) if name else None


def defaults_of(method: Method) -> dict[str, str]:
    args = method.node.args
    pairs = zip([a.arg for a in args.args[::-1]], args.defaults[::-1], strict=False)
    return {name: ast.dump(value) for name, value in pairs}


def parameter(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """A new parameter, and an expression that reads it."""
    made = draw.choice((replace_expression, insert_after))(draw, pair, names)
    if made is None:
        return None
    (one,) = made.parts
    for form in ("2.0", "30.0", "torch.cuda.synchronize()", "1 + 1", "None", "print("):
        if form in one.new:
            fresh = {
                "torch.cuda.synchronize()": "factor",
                "None": "factor",
                "print(": "print(factor, ",
            }
            text = fresh.get(form, "factor")
            if form == "None" or form in one.old:
                return None
            one = replace(
                one,
                new=one.new.replace(form, text),
                declared_new=one.declared_new.replace(form, text),
            )
            return Operation((one,), added=draw.choice(("factor=1.0", "factor=None")))
    return None


def twice(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """An expression that stands twice in both methods."""
    found = [
        n
        for n in nodes_of(pair.old)
        if isinstance(n, ast.Call | ast.BinOp)
        and not hides_names(n)
        and count_of(pair.old, key_of(n)) == 2 == count_of(pair.new, key_of(n))
    ]
    target = choice(draw, [n for n in found if not set(reads_of(n)) & names.keys()])
    if target is None:
        return None
    code = pair.old.code(target)
    return Operation(
        (replace(part(pair, target, "torch.tanh({})", "new", f"torch.tanh({code})"), count=2),)
    )


def hole(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """The argument of a call of a module, whatever it is."""
    calls = [
        n
        for n in expressions(pair, names)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and len(n.args) == 1
        and not n.keywords
        and not isinstance(n.args[0], ast.Starred)
    ]
    functions = [
        key_of(n.func) for m in (pair.old, pair.new) for n in nodes_of(m) if isinstance(n, ast.Call)
    ]
    target = choice(draw, [n for n in calls if functions.count(key_of(n.func)) == 2])
    if target is None:
        return None
    call, inner = pair.old.code(target.func), pair.old.code(target.args[0])
    one = part(pair, target, f"{call}(torch.relu({inner}))", "new", f"{call}(torch.relu(value))")
    return Operation((replace(one, declared_old=f"{call}(value)", holes=("value",)),))


def several_holes(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """The arguments of a call, whatever they are, given in another way."""
    functions = [
        key_of(n.func) for m in (pair.old, pair.new) for n in nodes_of(m) if isinstance(n, ast.Call)
    ]
    calls = [
        n
        for n in expressions(pair, names)
        if isinstance(n, ast.Call)
        and len(n.args) in (2, 3)
        and len(n.keywords) < 2
        and not rest_of(n)
        and functions.count(key_of(n.func)) == 2
    ]
    target = choice(draw, calls)
    if target is None:
        return None
    call, words = pair.old.code(target.func), ("first", "second", "third")[: len(target.args)]
    last = "".join(f", {k.arg}={pair.old.code(k.value)}" for k in target.keywords)
    inner = [pair.old.code(a) for a in target.args]
    form = draw.choice(("{call}({swapped}{last})", "{call}({plain}{last}) + {first}"))
    said, declared = (
        form.format(
            call=call,
            swapped=", ".join([values[1], values[0], *values[2:]]),
            plain=", ".join(values),
            first=values[0],
            last=last,
        )
        for values in (inner, words)
    )
    one = part(pair, target, f"({said})", "new", declared)
    return Operation((replace(one, declared_old=f"{call}({', '.join(words)}{last})", holes=words),))


def two_places(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """Two changes of one method."""
    makers = (insert_after, insert_before, replace_expression, keyword)
    made = [draw.choice(makers)(draw, pair, names) for _ in range(2)]
    if made[0] is None or made[1] is None:
        return None
    first, second = made[0].parts[0], made[1].parts[0]
    nodes = [ast.parse(p.old).body[0] for p in (first, second)]
    if not first.is_statement or not second.is_statement:
        keys = [{key_of(n) for n in ast.walk(node)} for node in nodes]
        if keys[0] & keys[1]:
            return None
    if first.key == second.key:
        return None
    return Operation((first, second))


# What both sides change


def values(pair: Pair) -> list[tuple[ast.stmt, ast.stmt]]:
    """The statements that give the same one thing another value in the newer text."""
    sides = [assigned_once(method) for method in (pair.old, pair.new)]
    both = [(sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]]
    return [(old, new) for old, new in both if key_of(old) != key_of(new)]


def assigned_once(method: Method) -> dict[str, ast.stmt]:
    found: dict[str, list[ast.stmt]] = {}
    for node in nodes_of(method):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in targets_of(node):
                found.setdefault(target, []).append(node)
    return {name: nodes[0] for name, nodes in found.items() if is_one_value(method, nodes)}


def targets_of(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [ast.unparse(target) for target in targets]


def is_one_value(method: Method, nodes: Sequence[ast.stmt]) -> bool:
    # An operation says `{}` for what was there.
    if any("{}" in ast.unparse(node) for node in nodes):
        return False
    return len(nodes) == 1 and not hides_names(nodes[0]) and len(targets_of(nodes[0])) == 1


def whole(node: ast.stmt, new: str) -> Part:
    """A statement that becomes another one."""
    code = ast.unparse(node)
    return Part(key_of(node), code, new, declared_old=code, declared_new=new)


def moved_value(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """What upstream changes, below a condition."""
    found = choice(draw, values(pair))
    if found is None:
        return None
    test = "self.training" if pair.owner else "torch.is_grad_enabled()"
    form = draw.choice(
        ("if {test}:\n    {code}", "if {test}:\n    {name} = None\nelse:\n    {code}")
    )
    name = targets_of(found[0])[0]
    here, there = (
        whole(node, form.format(test=test, name=name, code=ast.unparse(node))) for node in found
    )
    return Operation((here,), (there,))


def upstreams_own(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """Upstream's own change of one statement, and another change elsewhere."""
    found = choice(draw, [both for both in values(pair) if is_known(pair, both[1])])
    other = draw.choice((insert_after, insert_before, replace_expression))(draw, pair, names)
    if found is None or other is None or other.parts[0].key == key_of(found[0]):
        return None
    if {key_of(n) for n in ast.walk(found[0])} & {other.parts[0].key}:
        return None
    return Operation((whole(found[0], ast.unparse(found[1])), *other.parts), other.parts)


def upstreams_and_more(
    draw: random.Random, pair: Pair, names: Mapping[str, str]
) -> Operation | None:
    """Upstream's own change of a statement, with a change of what both versions of it have."""
    found = choice(draw, [both for both in values(pair) if is_known(pair, both[1])])
    if found is None:
        return None
    sides = [[key_of(n) for n in ast.walk(node.value)] for node in found]
    functions = {id(n.func) for n in ast.walk(found[1]) if isinstance(n, ast.Call)}
    shared = [
        n
        for n in ast.walk(found[1].value)
        if isinstance(n, ast.Name | ast.Attribute | ast.Call) and id(n) not in functions
        if sides[0].count(key_of(n)) == 1 == sides[1].count(key_of(n))
    ]
    inner = choice(draw, shared)
    if inner is None or inner is found[1].value:
        return None
    text = ast.unparse(found[1])
    if text.count(ast.unparse(inner)) != 1:
        return None
    new = text.replace(ast.unparse(inner), f"torch.tanh({ast.unparse(inner)})")
    return Operation((whole(found[0], new),), (whole(found[1], new),))


def is_known(pair: Pair, node: ast.stmt) -> bool:
    """Whether a statement of the newer text reads no variable that the older one has not."""
    fresh = locals_of(pair.new) - locals_of(pair.old)
    return not fresh & code_words(node)


def deleted_run(draw: random.Random, pair: Pair, names: Mapping[str, str]) -> Operation | None:
    """The statements between two others, which upstream changed to give the same things."""
    found = choice(draw, [runs for runs in runs_between(pair) if are_versions(pair, *runs)])
    if found is None:
        return None
    here, there = (tuple(whole(node, "") for node in run) for run in found)
    return Operation(here, there)


def runs_between(pair: Pair) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    old, new = pair.old.node.body, pair.new.node.body
    keys = [[key_of(n) for n in suite] for suite in (old, new)]
    shared = [k for k in keys[0] if keys[0].count(k) == 1 == keys[1].count(k)]
    for first in shared:
        for last in shared:
            places = [slice(side.index(first) + 1, side.index(last)) for side in keys]
            runs = old[places[0]], new[places[1]]
            if all(0 < len(run) <= 4 for run in runs) and keys[0][places[0]] != keys[1][places[1]]:
                yield runs


def are_versions(pair: Pair, old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> bool:
    """Whether two runs give values to the same things alone, which nothing else reads."""
    if not all(isinstance(n, ast.Assign) and not hides_names(n) for n in (*old, *new)):
        return False
    given, again = ({t for n in run for t in targets_of(n)} for run in (old, new))
    sides = ((pair.old, old), (pair.new, new))
    names = [{t for n in run for t in targets_of(n) if t.isidentifier()} for _, run in sides]
    elsewhere = [words_of(method.edited([(n, "pass") for n in run])) for method, run in sides]
    counts = [all(count_of(method, key_of(n)) == 1 for n in run) for method, run in sides]
    return again <= given and all(counts) and not any(map(set.intersection, names, elsewhere))


def part(pair: Pair, node: ast.AST, new: str, word: str, declared: str) -> Part:
    is_statement = isinstance(node, ast.stmt)
    code = pair.old.code(node)
    return Part(key_of(node), code, new, is_statement, 1, word, code, declared)


def choice(draw: random.Random, found: Sequence[object]) -> object:
    return draw.choice(list(found)) if found else None


MAKERS: dict[str, Make] = {
    "insert after": insert_after,
    "insert before": insert_before,
    "insert between": run_of_two,
    "replace": replace_expression,
    "delete": delete,
    "guard": guard,
    "keyword": keyword,
    "any call": changed_call,
    "default": default,
    "parameter": parameter,
    "twice": twice,
    "hole": hole,
    "several holes": several_holes,
    "two places": two_places,
    "moved value": moved_value,
    "upstream's own": upstreams_own,
    "upstream's and more": upstreams_and_more,
    "deleted run": deleted_run,
}
ONE_FORM = {
    "hole": "edit",
    "several holes": "edit",
    "upstream's own": "override",
    "upstream's and more": "override",
    "deleted run": "override",
}
FORMS = ("edit", "override")
KINDS = [f"{kind}, {form}" for kind in MAKERS for form in FORMS if ONE_FORM.get(kind, form) == form]
KINDS += [
    f"{kind} under another name, {form}"
    for kind in ("insert after", "replace", "keyword")
    for form in FORMS
]
KINDS += ["replace, function"]


# The modular file


@dataclass(frozen=True)
class Globals:
    """What a parent's file defines and imports."""

    alias: str
    defined: frozenset[str]
    imports: Mapping[str, str]


@cache
def globals_of(text: str, module: str) -> Globals:
    defined, imports = set(), {}
    for node in parsed(text).body:
        if isinstance(node, ast.ClassDef | Function):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {t.id for t in targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(module.split(".")[: -node.level]) if node.level else ""
            source = ".".join(p for p in (package, node.module) if p)
            for a in node.names:
                name = f" as {a.asname}" if a.asname else ""
                imports[a.asname or a.name] = f"from {source} import {a.name}{name}"
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.asname or "." not in a.name:
                    imports[a.asname or a.name] = f"import {a.name}" + (
                        f" as {a.asname}" if a.asname else ""
                    )
    return Globals("parent", frozenset(defined), imports)


def qualified(code: str, known: Globals, local: set[str], used: set[str]) -> str | None:
    """Code in the names of a modular file; None where it has a name that it cannot say."""
    method = Method(code)
    pieces = []
    for node in ast.walk(parsed(code)):
        if isinstance(node, ast.Name) and node.id not in local:
            if node.id in known.defined:
                pieces.append((node, f"{known.alias}.{node.id}"))
            elif node.id in known.imports:
                used.add(known.imports[node.id])
            elif node.id == "torch":
                used.add("import torch")
            elif node.id not in dir(builtins):
                return None
        if isinstance(node, ast.JoinedStr):
            inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if inside & known.defined - local:
                return None
    return method.edited(pieces).text


def modular_of(pair: Pair, operation: Operation, form: str) -> str | None:
    """The modular file that declares the operation on the old release."""
    known = globals_of(pair.before, pair.module)
    used: set[str] = set()
    if form == "edit":
        body = declared_edits(pair, operation, known, used)
    else:
        changed = applied_anywhere(operation, pair.old, {})
        if changed is None or "super" in words_of(changed) or "__class__" in changed.text:
            return None
        body = qualified(changed.text, known, locals_of(changed), used)
    if body is None:
        return None
    package, _, last = pair.module.rpartition(".")
    own = f"class {pair.owner}({known.alias}.{pair.owner}):\n{textwrap.indent(body, '    ')}"
    if not pair.owner:
        parent = next(
            (
                n.name
                for n in parsed(pair.before).body
                if isinstance(n, ast.ClassDef)
                and pair.member in {m.id for m in ast.walk(n) if isinstance(m, ast.Name)}
            ),
            None,
        )
        if parent is None:
            return None
        own = f"{body}\n\nclass {parent}({known.alias}.{parent}):\n    is_changed = True\n"
    words = "from patchgen.edits import Hole, New, after, before, edit, new, old\n"
    lines = sorted({*used, f"from {package} import {last} as {known.alias}"})
    return (
        '"""A variant."""\n\n'
        + "\n".join(lines)
        + f"\n\n{words if form == 'edit' else ''}\n\n{own}"
    )


def declared_edits(pair: Pair, operation: Operation, known: Globals, used: set[str]) -> str | None:
    made = []
    local = locals_of(pair.old)
    parts = operation.parts or (None,)
    for number, one in enumerate(parts):
        old = new = ""
        fresh: set[str] = set()
        holes: tuple[str, ...] = ()
        if one is not None:
            holes = one.holes
            if one.word == "call":
                call = ast.parse(one.old).body[0].value
                head = qualified(ast.get_source_segment(one.old, call.func), known, local, used)
                if head is None:
                    return None
                old, new, word = f"{head}(...)", f"{head}(..., extra=2.0)", "new"
            else:
                fresh = {
                    n.id
                    for n in ast.walk(parsed(one.declared_new))
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
                mine = local | fresh | set(holes) | ({"factor"} if operation.added else set())
                old = qualified(one.declared_old, known, mine, used)
                new = qualified(one.declared_new, known, mine, used)
                word = one.word
            if old is None or new is None:
                return None
        reads = [] if one is None else [*reads_of(parsed(old)), *reads_of(parsed(new))]
        names = [n for n in dict.fromkeys(reads) if n in local and n != "self" and n not in holes]
        first = ["self"] if "self" in local else []
        heads = [*first, *names, *(f"{h}: Hole" for h in holes)]
        if operation.added:
            name, value = operation.added.split("=")
            heads.append(f"{name}: New = {value}")
        if operation.default[0]:
            name, value = operation.default
            heads.append(f"{name}={value}")
        count = f", count={one.count}" if one is not None and one.count > 1 else ""
        lines = [f'@edit("{pair.member}"{count})', f"def change_{number}({', '.join(heads)}):"]
        if one is None:
            lines.append("    ...")
        else:
            lines += ["    with old:", textwrap.indent(old, "        ")]
            lines += [f"    with {word}:", textwrap.indent(new, "        ")]
        made.append("\n".join(lines) + "\n")
    return "\n".join(made)


def applied_anywhere(
    operation: Operation, method: Method, names: Mapping[str, str]
) -> Method | None:
    """The operation on a method; a keyword for the one call of a function, too."""
    if operation.parts and operation.parts[0].word == "call":
        wanted = key_of(ast.parse(renamed(operation.parts[0].old, names)).body[0].value.func)
        calls = [
            n for n in nodes_of(method) if isinstance(n, ast.Call) and key_of(n.func) == wanted
        ]
        if len(calls) != 1:
            return None
        body = method.code(calls[0])[:-1].rstrip().removesuffix(",")
        return method.edited([(calls[0], f"{body}, extra=2.0)")])
    return applied(operation, method, names)


# One upgrade


def upgrades(
    releases: Sequence[Path], seed: int, count: int, kinds: Sequence[str] = ()
) -> Iterator[Upgrade]:
    """As many upgrades, about as many of each kind; a file that is read gives up to three."""
    draw = random.Random(seed)
    numbers = dict.fromkeys(kinds or KINDS, 0)
    made = 0
    for _ in range(100 * count):
        old, new = sorted(draw.sample(range(len(releases)), 2))
        shared = sorted({*modules_of(releases[old])} & {*modules_of(releases[new])})
        pairs = pairs_in(releases[old], releases[new], draw.choice(shared))
        of_file = 0
        for kind in sorted(numbers, key=lambda kind: numbers[kind]):
            upgrade = drawn(draw, pairs, kind) if of_file < 3 else None
            if upgrade is None:
                continue
            numbers[kind] += 1
            of_file += 1
            made += 1
            yield replace(upgrade, name=f"{seed}/{made} {upgrade.name}")
            if made == count:
                return


def drawn(draw: random.Random, pairs: Sequence[Pair], kind: str) -> Upgrade | None:
    """An upgrade of a kind, from one of some methods; None where that has no place for it."""
    what, _, form = kind.partition(", ")
    base = what.removesuffix(" under another name")
    pairs = [pair for pair in pairs if bool(pair.owner) == (form != "function")]
    if base != what:
        pairs = [pair for pair in pairs if renames_of(pair)]
    if not pairs:
        return None
    pair = draw.choice(pairs)
    names = renames_of(pair) if base != what else {}
    operation = MAKERS[base](draw, pair, names)
    if operation is None:
        return None
    if names and not any(code_words(parsed(one.old)) & names.keys() for one in operation.parts):
        return None
    before = applied_anywhere(operation, pair.old, {})
    there = operation if operation.there is None else replace(operation, parts=operation.there)
    answer = applied_anywhere(there, pair.new, names)
    modular = modular_of(pair, operation, "override" if form == "function" else form)
    if before is None or answer is None or modular is None:
        return None
    return Upgrade(
        pair.name, kind, pair.module, pair.owner, pair.member, modular, before.text, answer.text
    )


# What `rebase` makes of it


class Judge:
    """Rebases upgrades, and compares with the answer; `roots` are the unpacked releases."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = {root.name: root for root in roots}
        self.trees = {root.name: Tree(make_environment(root, root, ())) for root in roots}

    def state_of(self, upgrade: Upgrade) -> tuple[str, str]:
        """The state of an upgrade, and why; "unmade": the change was none on the old release."""
        _, old, new, *_ = upgrade.name.split()
        prover = Prover(FILE, (), Settings())
        outputs = prover.flatten(upgrade.modular, self.roots[old])
        if member_in(outputs, upgrade) != text_of(upgrade.before):
            return "unmade", "; ".join(problem.what for problem in outputs.problems)
        modular = read_file(make_source(upgrade.modular, FILE))
        trees = self.trees[old], self.trees[new]
        try:
            made = Rebase(modular, prover, self.roots[old], self.roots[new], trees).run()
        except Exception as error:  # whatever it is, the next one has to be judged
            return "broken", f"{type(error).__name__}: {error}"
        states = " ".join(f"{one.change.name}: {one.state}" for one in made.results)
        if not made.is_done:
            doubts = [clash.what for one in made.results for clash in one.clashes]
            return "asked", "; ".join([states, *doubts, *(p.what for p in made.problems)])
        outputs = prover.flatten(made.text, self.roots[new])
        if outputs.problems:
            return "broken", "; ".join([states, *(problem.what for problem in outputs.problems)])
        given = member_in(outputs, upgrade)
        is_equal = given == text_of(upgrade.answer)
        if not is_equal and given and upgrade.kind.startswith("moved value"):
            member = outputs.file_of(upgrade.module)
            text = ast.unparse(member_of(member, upgrade.owner, upgrade.member).nodes[0])
            is_equal = text_of(in_place(text)) == text_of(in_place(upgrade.answer))
        return "equal" if is_equal else "wrong", states


def member_in(outputs: Given, upgrade: Upgrade) -> str:
    """What the member of an upgrade says in an output; "" for none."""
    file = outputs.file_of(upgrade.module)
    member = member_of(file, upgrade.owner, upgrade.member) if file is not None else None
    return plain_text(member.nodes[0]) if member is not None else ""


def in_place(code: str) -> str:
    """A method with each variable that only the next statement reads, once, in its place there.

    hidden = cut(hidden, keep)
    logits = self.lm_head(hidden)        ->     logits = self.lm_head(cut(hidden, keep))
    """
    method = Method(ast.unparse(ast.parse(code)))
    suites = [getattr(n, name, None) for n in ast.walk(method.node) for name in ("body", "orelse")]
    for suite in (one for one in suites if isinstance(one, list)):
        for node, user in zip(suite, suite[1:], strict=False):
            if not isinstance(node, ast.Assign) or not isinstance(user, SIMPLE):
                continue
            name = targets_of(node)[0]
            later = [n for n in ast.walk(method.node) if getattr(n, "lineno", 0) >= user.lineno]
            reads = [n for n in later if isinstance(n, ast.Name) and n.id == name]
            if len(reads) == 1 and isinstance(reads[0].ctx, ast.Load):
                if reads[0] in ast.walk(user):
                    value = ast.unparse(node.value)
                    return in_place(method.edited([(node, "pass"), (reads[0], f"({value})")]).text)
    return method.text


def text_of(code: str) -> str:
    return plain_text(parsed(code).body[0])

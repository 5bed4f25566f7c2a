"""Which small errors can the changed lines of a file have?

Each `Mutant` is one replacement in the file's text, so the diff that is shown is the code that ran:

    -    causal = queries > 1 and mask is None and causal
    +    causal = queries >= 1 and mask is None and causal

Errors are made of expressions and statements that compute, in functions.  Not of what only speaks
(docstrings, messages, warnings, annotations), not of what only refuses (`raise`, `assert`, the test
before a `raise`), and not of f-strings, whose parts have no place of their own in the text.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from patchgen.syntax.trees import Function, column_of

Span = tuple[int, int]
# The name of an error, and the expression that replaces the right one.
_Replaced = Iterator[tuple[str, ast.expr]]
# The name of an error, and the text that comes into a place of the file.
_Rewritten = Iterator[tuple[str, Span, str]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One error: `replacement` replaces the text between `start` and `end`."""

    says: str
    line: int
    function: str  # "LlamaModel.forward"
    start: int
    end: int
    replacement: str
    last_line: int = 0

    def text(self, right: str) -> str:
        return f"{right[: self.start]}{self.replacement}{right[self.end :]}"

    def touches(self, lines: Collection[int]) -> bool:
        return any(line in lines for line in range(self.line, self.last_line + 1))

    def diff(self, right: str) -> str:
        """The lines that it changes, before and after."""
        first = right.rfind("\n", 0, self.start) + 1
        last = f"{right}\n".index("\n", self.end)
        before = right[first:last].split("\n")
        wrong = self.text(right)
        wrong_last = last + len(wrong) - len(right)
        after = wrong[first:wrong_last].split("\n")
        compared = difflib.ndiff(before, after)
        lines = [line.rstrip() for line in compared if line[0] != "?"]
        changed = []
        for at, line in enumerate(lines):
            if line.startswith(("+", "-")):
                changed.append(at)
        if not changed:
            return ""
        return "\n".join(lines[changed[0] : changed[-1] + 1])

    def digest(self, right: str, seed: str = "") -> str:
        """A stable id, of its text and its function but not its line number."""
        identity = "\0".join((seed, self.function, self.says, self.diff(right)))
        return hashlib.sha256(identity.encode()).hexdigest()


def make_mutants(text: str, lines: Collection[int]) -> tuple[Mutant, ...]:
    """Every error of a node that begins on one of `lines`, in the order of the text."""
    source = Source(text)
    mutants: dict[tuple[int, int, str], Mutant] = {}
    for site in find_sites(ast.parse(text)):
        node: Any = site.node
        if getattr(node, "lineno", None) not in lines:
            continue
        for says, (start, end), replacement in _errors_at(site, source):
            mutant = Mutant(
                says=says,
                line=node.lineno,
                function=site.function,
                start=start,
                end=end,
                replacement=replacement,
                last_line=node.end_lineno,
            )
            if mutant.text(text) != text:
                mutants.setdefault((start, end, replacement), mutant)
    return tuple(sorted(mutants.values(), key=lambda each: (each.start, each.end, each.says)))


def drawn(mutants: tuple[Mutant, ...], text: str, seed: str) -> list[Mutant]:
    """All in an order that is the same in every run: one of each line first."""
    met = Counter[int]()
    ranks: dict[Mutant, int] = {}
    for mutant in sorted(mutants, key=lambda mutant: mutant.digest(text, seed)):
        ranks[mutant] = met[mutant.line]
        met[mutant.line] += 1
    return sorted(ranks, key=lambda mutant: ranks[mutant])


class Source:
    """A text, by the nodes of its syntax tree, whose places count bytes in a line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = list(itertools.accumulate((len(line) + 1 for line in self.lines), initial=0))

    def span(self, node: Any) -> Span:
        start = self._place(node.lineno, node.col_offset)
        return start, self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line: int, byte: int) -> int:
        """Where in the text a byte of a line is."""
        return self.starts[line - 1] + column_of(self.lines[line - 1], byte)

    def of(self, node: ast.AST) -> str:
        """The text of a node as it is in the file, if it is there."""
        if hasattr(node, "lineno"):
            start, end = self.span(node)
            return self.text[start:end]
        match node:
            case ast.Call(ast.Attribute(ast.Call() as called, name), [], []):
                return f"{self.of(called)}.{name}()"
        return ast.unparse(ast.fix_missing_locations(node))


# --- where


@dataclass(frozen=True, slots=True)
class Site:
    """A node, its parent, and its function: "LlamaModel.forward"."""

    node: ast.AST
    parent: ast.AST
    field: str  # of the parent
    function: str
    body: Function  # of that name

    @property
    def is_argument(self) -> bool:
        return isinstance(self.parent, ast.Call) and self.field == "args"


_NOT_RUN = ("annotation", "returns", "decorator_list", "type_params")


def find_sites(tree: ast.Module | ast.ClassDef, within: str = "") -> Iterator[Site]:
    """Every place in a function where an error can be planted."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from find_sites(node, f"{within}{node.name}.")
        elif isinstance(node, Function):
            for statement in node.body:
                yield from _sites_at(statement, node, "body", f"{within}{node.name}", node)


def _sites_at(node: Any, parent: ast.AST, field: str, name: str, body: Function) -> Iterator[Site]:
    if _only_speaks(node):
        return
    if isinstance(node, ast.If) and all(map(_only_speaks, node.body)):
        for other in node.orelse:
            yield from _sites_at(other, node, "orelse", name, body)
        return
    yield Site(node, parent, field, name, body)
    left_out = {*_NOT_RUN, "slice"} if _is_size(node) else _NOT_RUN
    for inner, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and inner not in left_out:
                yield from _sites_at(child, node, inner, name, body)


def _is_size(node: ast.AST) -> bool:
    """`len(x)`, `x.size(0)`, `x.shape[-1] // 2`: an error in it is one of shapes."""
    match node:
        case ast.Subscript(value=value):
            return getattr(value, "attr", "") == "shape" or _called(value) == "size"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.FloorDiv(), right=right):
            return _is_size(left) or _is_size(right)
    return _called(node) in ("len", "size", "numel")


_SPEAKERS = ("logger", "warnings", "logging")


def _only_speaks(node: ast.AST) -> bool:
    silent = ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Pass
    if isinstance(node, silent):
        return True
    match node:
        case ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call(called)):
            while isinstance(called, ast.Attribute):
                called = called.value
            return isinstance(called, ast.Name) and called.id in _SPEAKERS
    return False


# --- which


def _errors_at(site: Site, source: Source) -> _Rewritten:
    node: Any = site.node
    if isinstance(node, ast.stmt):
        yield from _of_statement(site, source)
    if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), _STORED):
        return
    if isinstance(node, ast.Call):
        yield from _of_arguments(node, site.body, source)
    is_alone = site.is_argument or isinstance(site.parent, ast.stmt | ast.keyword)
    for says, new in _of_expression(node, site):
        text = source.of(new)
        # Its neighbours could take it apart.
        if not is_alone and not isinstance(new, _WHOLE):
            text = f"({text})"
        yield says, source.span(node), text


_STORED = ast.Store | ast.Del
_WHOLE = ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript | ast.Slice
# Arguments whose names contain one of these can usually be left out.
_OPTIONAL = ("mask", "bias", "scal", "dropout", "window", "softcap", "position", "weight")


def _table(text: str) -> dict[str, list[str]]:
    rows = (row.split() for row in text.split(", "))
    return {first: others for first, *others in rows}


# Each operator and comparison, and those that it becomes.
_OPERATORS = _table(
    "Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv Mult, Mod FloorDiv, Pow Mult, BitAnd BitOr, "
    "BitOr BitAnd, Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, Is IsNot, "
    "IsNot Is, In NotIn, NotIn In"
)
# Functions, and others of the same arguments.
_OTHERS = _table(
    "sum mean, mean sum, max min, min max, amax amin, amin amax, any all, all any, triu tril, "
    "tril triu, floor ceil, ceil floor, argmax argmin, argmin argmax, zeros ones, ones zeros, "
    "zeros_like ones_like, ones_like zeros_like, new_zeros new_ones, new_ones new_zeros, "
    "logsumexp sum"
)
# Methods of a tensor, and functions of one, without which the same tensor would go on.
_PASSES = frozenset(
    "abs clamp clamp_ contiguous cos cumsum detach div div_ dropout exp flip float gelu log "
    "log_softmax logical_not masked_fill masked_fill_ mul mul_ neg normalize pow relu rms_norm "
    "roll rsqrt sigmoid sign silu sin softmax sqrt square sub tanh to tril triu type_as".split()
)
# Of shapes: what comes behind them would crash with another one.
_SHAPES = frozenset(
    "expand flatten index_select pad permute repeat reshape size split squeeze stack transpose "
    "unflatten unsqueeze view".split()
)
# Functions of two values whose order says nothing, or whose values have no kind before they run.
_SYMMETRIC = "promote_types maximum minimum equal logical_and logical_or zip transpose".split()


_WITH_A_VALUE = (ast.Assign, ast.Return, ast.AugAssign, ast.keyword)


def _of_expression(node: ast.expr, site: Site) -> _Replaced:
    yield from _of_operator(node, site)
    yield from _of_value(node, site)
    if _is_test(site) and not _asks_for_none(node):  # what is not there would be used
        # A comparison or a `not` has its own negation.
        if not isinstance(node, ast.Compare | ast.UnaryOp):
            yield "condition negated", ast.UnaryOp(ast.Not(), node)
        yield "condition always true", ast.Constant(True)
        yield "condition always false", ast.Constant(False)
    is_whole = isinstance(site.parent, _WITH_A_VALUE)
    if is_whole and _is_tensor(node, site.parent):
        detach = ast.Attribute(node, "detach", ast.Load())
        yield "detached", ast.Call(detach, [], [])
    if not site.is_argument:
        return
    name = getattr(node, "attr", "") or getattr(node, "id", "")
    is_optional = any(part in name for part in _OPTIONAL)
    if is_optional and not _is_asked_for(name, site.body):
        yield "argument is None", ast.Constant(None)


def _is_test(site: Site) -> bool:
    """Whether it is the condition of an `if`, of a loop or of a comprehension."""
    if isinstance(site.parent, ast.comprehension):
        return site.field == "ifs"
    return isinstance(site.parent, ast.If | ast.While | ast.IfExp) and site.field == "test"


def _is_tensor(node: ast.expr, parent: Any) -> bool:
    """As far as its text tells: a product, a known function, the output of a module."""
    if isinstance(getattr(parent, "targets", [None])[0], ast.Tuple) or _is_size(node):
        return False  # of several
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))):
            return True
        case ast.Call(func=func):  # Python has an `any` and a `sum` of its own
            known = {*_PASSES, *_SHAPES, *(_OTHERS if isinstance(func, ast.Attribute) else ())}
            return _called(node) in known
    return isinstance(node, ast.BinOp)


def _asks_for_none(node: ast.AST) -> bool:
    return any(map(_is_about_none, ast.walk(node)))


def _is_about_none(node: ast.AST) -> bool:
    """`x is None`, `x is not None`."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot(), *_], comparators=[ast.Constant(None), *_]):
            return True
    return False


def _others(operator: ast.operator | ast.cmpop) -> list[Any]:
    """What it becomes; without an entry, nothing."""
    return [getattr(ast, name)() for name in _OPERATORS.get(type(operator).__name__, ())]


def _sign(operator: ast.operator | ast.cmpop) -> str:
    x = ast.Name("x")
    if isinstance(operator, ast.cmpop):
        return ast.unparse(ast.Compare(x, [operator], [x]))[2:-2]
    return ast.unparse(ast.BinOp(x, operator, x))[2:-2]


def _of_operator(node: ast.expr, site: Site) -> _Replaced:
    match node:
        case ast.BinOp(right=right) if _is_size(node) or isinstance(right, ast.Dict | ast.DictComp):
            return
        case ast.BinOp(left=left, op=op, right=right):
            sign = _sign(op)
            for other in _others(op):
                yield f"{sign} becomes {_sign(other)}", ast.BinOp(left, other, right)
            yield f"right of {sign} dropped", left
            yield f"left of {sign} dropped", right
            if isinstance(op, ast.Sub | ast.Div | ast.FloorDiv | ast.MatMult):
                yield f"sides of {sign} swapped", ast.BinOp(right, op, left)
        case ast.Compare() if _is_about_none(node):
            # The other way round, or where others ask too, what is not there would be used.
            texts = [ast.dump(each) for each in ast.walk(site.body)]
            asked = texts.count(ast.dump(node))
            refuses = any(isinstance(each, ast.Raise) for each in ast.walk(site.parent))
            is_none = isinstance(node.ops[0], ast.Is)
            is_other = site.field != "test" or not is_none
            if asked == 1 and is_other and not refuses:
                yield "taken for None", ast.Constant(is_none)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for at, operator in enumerate(ops):
                for other in _others(operator):
                    wrong = [*ops[:at], other, *ops[at + 1 :]]
                    says = f"{_sign(operator)} becomes {_sign(other)}"
                    yield says, ast.Compare(left, wrong, comparators)
        case ast.BoolOp(op=join, values=values):
            if isinstance(join, ast.Or):
                yield "or becomes and", ast.BoolOp(ast.And(), values)
            elif not any(map(_is_about_none, values)):
                yield "and becomes or", ast.BoolOp(ast.Or(), values)
            for term in values:
                if _is_about_none(term):  # what it guards would be used
                    continue
                rest = [other for other in values if other is not term]
                kept = rest[0] if len(rest) == 1 else ast.BoolOp(join, rest)
                yield f"without {ast.unparse(term)}", kept
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            if isinstance(operand, ast.Constant) and isinstance(operand.value, int):
                more = ast.Constant(operand.value + 1)
                yield "one less", ast.UnaryOp(ast.USub(), more)
            if getattr(operand, "value", 0) != 100:  # the label that is ignored
                yield "without minus", operand
        case ast.UnaryOp(op=operator, operand=operand):
            word = "not" if isinstance(operator, ast.Not) else "~"
            yield f"without {word}", operand
        case ast.IfExp() if not _asks_for_none(node.test):
            yield "always the first", node.body
            yield "always the second", node.orelse


def _of_value(node: ast.expr, site: Site) -> _Replaced:
    match node:
        case ast.Constant(value=bool() | int()) if isinstance(site.parent, ast.UnaryOp):
            return  # it is handled with its sign
        case ast.Constant(value=int()) if _called(site.parent) in _SHAPES or _is_size(site.parent):
            return  # an axis
        case ast.Constant(value=int()) if site.field == "slice":
            return  # which of several
        case ast.Constant(value=int(value)) if isinstance(site.parent, ast.Tuple | ast.List):
            if not any(isinstance(each, ast.Slice) for each in site.parent.elts):
                return  # axes or sizes, and not `[:, 0]`
            yield "one more", ast.Constant(value + 1)
        case ast.Constant(value=bool(value)):
            yield f"{value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "one more", ast.Constant(value + 1)
            if value:
                yield "one less", ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield "one more", ast.Constant(value + 1)
            if value:
                yield "negated", ast.UnaryOp(ast.USub(), ast.Constant(value))
                yield "becomes 0", ast.Constant(0.0)
        case ast.Attribute(attr="training") if site.field != "func":
            yield "training ignored", ast.Constant(True)
            yield "never in training", ast.Constant(False)
        case ast.Slice(lower=lower, upper=upper, step=step):
            for side, bound in (("lower", lower), ("upper", upper)):
                if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
                    moved = ast.Slice(lower, upper, step)
                    setattr(moved, side, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
                    yield f"{side} bound one more", moved
            if (lower is None) != (upper is None):
                yield "without its bound", ast.Slice(None, None, step)
        case ast.Call(func=func, args=args):
            name = _called(node)
            owner = func.value if isinstance(func, ast.Attribute) else None
            if _called(site.parent) != "int":
                for other in _OTHERS.get(name, ()):
                    load = ast.Load()
                    new = ast.Attribute(owner, other, load) if owner else ast.Name(other, load)
                    yield f"{name} becomes {other}", ast.Call(new, args, node.keywords)
            if name in _PASSES:
                for tensor in filter(None, (owner, *args[:1])):
                    if not isinstance(tensor, ast.Starred | ast.Constant):
                        yield f"{name} left out", tensor


def _called(node: ast.AST) -> str:
    func = getattr(node, "func", None)
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _of_arguments(node: ast.Call, body: Function, source: Source) -> _Rewritten:
    """A keyword left out, two arguments swapped; the rest of the call stays as it is written."""
    text = source.text
    spans = sorted(source.span(argument) for argument in (*node.args, *node.keywords))
    gaps = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    if not all(re.fullmatch(r"\s*,\s*", gap) for gap in gaps):
        return  # arguments in parentheses of their own, or comments between them
    for keyword in node.keywords:
        if keyword.arg == "device":  # a CPU has one
            continue
        left_out = f"{keyword.arg}=" if keyword.arg else source.of(keyword)
        place = spans.index(source.span(keyword))
        start, end = spans[place]
        if place:
            start = spans[place - 1][1]  # the comma before it goes too
        elif len(spans) > 1:
            end = spans[1][0]  # or that behind it
        yield f"without {left_out}", (start, end), ""
    called = _called(node)
    # A class takes sizes of one weight, or parts of an output.
    if called in _SYMMETRIC or called[:1].isupper():
        return
    for place, (first, second) in enumerate(itertools.pairwise(node.args), 1):
        kind = _kind(first, body)
        if not kind or kind != _kind(second, body):
            continue
        start, first_end = source.span(first)
        second_start, end = source.span(second)
        gap = text[first_end:second_start]
        swapped = f"{source.of(second)}{gap}{source.of(first)}"
        yield f"arguments {place} and {place + 1} swapped", (start, end), swapped


def _kind(argument: ast.expr, body: Function) -> str:
    """What may stand in its place; "" where nothing else may, as far as its name tells."""
    name = getattr(argument, "id", "self")
    if name in ("self", "module", "model", "config", "kwargs"):
        return ""
    given = zip(reversed(body.args.args), reversed(body.args.defaults), strict=False)
    is_optional = any(each.arg == name and ast.unparse(value) == "None" for each, value in given)
    return "optional" if is_optional or "mask" in name or _is_asked_for(name, body) else "there"


def _is_asked_for(name: str, body: Function) -> bool:
    asked = filter(_is_about_none, ast.walk(body))
    return any(ast.unparse(each).startswith(f"{name} is") for each in asked)


def _of_statement(site: Site, source: Source) -> _Rewritten:
    node: Any = site.node
    if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Dict):
        target = source.of(node.target)
        value = source.of(node.value)
        for other in _others(node.op):
            sign = _sign(other)
            yield f"becomes {sign}=", source.span(node), f"{target} {sign}= {value}"
    match node:
        case ast.With([ast.withitem(context, None)]):
            start, _ = source.span(node)
            _, end = source.span(context)
            if source.text.startswith(":\n", end):
                yield f"without {source.of(context)}", (start, end), "if True"
    if _may_go(node, site):
        yield "statement removed", source.span(node), "pass"


def _may_go(node: ast.stmt, site: Site) -> bool:
    """Whether the file can run without this statement, as far as its names tell."""
    if isinstance(node, ast.Return):
        return isinstance(site.parent, ast.If) and not _asks_for_none(site.parent.test)
    if isinstance(node, ast.Expr):
        is_init = ast.unparse(node.value).startswith("super().__init__")
        return isinstance(node.value, ast.Call) and not is_init
    if not isinstance(node, ast.Assign):
        return isinstance(node, ast.AugAssign)
    if _called(node.value) in _SHAPES or "pad" in _called(node.value):
        return False  # what comes behind it takes another shape
    target = node.targets[0]
    if isinstance(target, ast.Attribute):  # what `__init__` sets is used
        return not site.function.endswith("__init__")
    if not isinstance(target, ast.Name):
        return isinstance(target, ast.Subscript)
    # Without this statement the name has the value that it was given, or bound to before.
    for part in ast.walk(site.body):
        match part:
            case ast.arg(arg=target.id):
                return True
            case ast.Name(id=target.id, ctx=ast.Store() | ast.Del(), lineno=line):
                if line < target.lineno:
                    return True
    return False

"""Read a generated text once for all that validate it, statement by statement.

In: the text of an output or of its diff base.  Out: its `Part`s, each with the tree of its
statements, the global names that they read, and the classes in it.  Most parts of a variant stand
in its parent too, or in another variant: what is known of such a text is remembered.

    import torch                one part
    @torch.no_grad()            one part: the function with its decorator
    def scale(x): ...

    self.mlp = LlamaMLP(config)                 `self.mlp` is a LlamaMLP
    for layer in self.layers: layer(x)          calls what the list `self.layers` has
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchgen.facts.bases import WITHOUT_MODULES
from patchgen.facts.decorators import ADDING_NOTHING
from patchgen.syntax.blocks import Import, first_line, imports_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.kept import per_object
from patchgen.syntax.trees import (
    Function,
    children,
    decorator_names,
    parse_once,
    statements_within,
    walk,
    written_decorators,
)

Path = tuple[str, ...]  # the attributes from `self` to an object
_ELEMENT = "[]"  # the step of a path from a list to what is in it
SUPER = "super()"  # the step from `self` to itself, as an object of the class behind its own

# A line that may begin a statement.  Others are blank, indented, comments, ends of brackets, or
# clauses of the statement above.
_BEGINNING = re.compile(r"^(?!(?:else|elif|except|finally)\b)[^\s#)\]}]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of a text, mostly one statement, from line `first` on; `tree` counts from 1."""

    first: int
    text: str
    tree: ast.Module = field(compare=False, repr=False)

    def locate(self, line: int) -> int:
        """The number that a line of the part has in the whole text."""
        return self.first + line - 1


def read_parts(text: str) -> Iterator[Part]:
    """The parts of `text`, parsed one by one; raises SyntaxError or ValueError where it fails."""
    cuts: list[int] = []
    above = ""
    for match in _BEGINNING.finditer(text):
        # What stands below a decorator belongs to it.
        if above != "@":
            cuts.append(match.start())
        above = match.group()
    start = 0
    line = 1
    for end in [*cuts[1:], len(text)]:
        part = text[start:end].rstrip("\n") + "\n"
        try:
            yield Part(line, part, parse_once(part))
        except SyntaxError:
            # A line of a string only looked like the beginning of a statement.
            rest = text[start:]
            yield Part(line, rest, parse_once(rest))
            return
        line += text.count("\n", start, end)
        start = end


# Variants of one parent have most parts in common.
@functools.lru_cache(maxsize=4096)
def imports_in(text: str) -> tuple[tuple[Import, bool], ...]:
    """What the part `text` imports at any depth, each with whether it stands under a condition."""
    imports = []
    guarded: set[ast.AST] = set()
    tree = parse_once(text)
    for node in statements_within(tree):
        is_conditional = node in guarded
        if isinstance(node, ast.Import | ast.ImportFrom):
            for item in imports_of([node]):
                imports.append((item, is_conditional))
        elif is_conditional or isinstance(node, ast.If | ast.Try):
            guarded.update(children(node))
    return tuple(imports)


# Classes and calls


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the text: the names that it binds, its methods, and the values that they store.

    `calls` are those on `self` and what hangs on it, each with its method and the steps from `self`
    to what is called.  `is_open`: it may have members that nothing in the text shows.
    """

    node: ast.ClassDef
    bases: Sequence[str]  # as spelled
    bound: frozenset[str]
    methods: Mapping[str, Function]
    stored: Mapping[str, Sequence[ast.expr | None]]
    calls: Sequence[tuple[ast.Call, Function, Path]]
    is_open: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What one part of a text has.

    `bound` are the names that it binds, and `foreign` attributes that it stores on other objects.
    """

    bound: Sequence[str]
    classes: Sequence[Class]
    functions: Sequence[Function]
    calls: Sequence[ast.Call]
    foreign: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _read_contents(text: str) -> Contents:
    classes: list[Class] = []
    functions: list[Function] = []
    calls: list[ast.Call] = []
    foreign: set[str] = set()
    for node in parse_once(text).body:
        if isinstance(node, Function) and not node.decorator_list:
            functions.append(node)
        if isinstance(node, ast.ClassDef):
            body = [(statement, list(walk(statement))) for statement in node.body]
            classes.append(_read_class(node, body))
            nodes = []
            for _, within in body:
                nodes += within
            for head in (*node.decorator_list, *node.bases, *node.keywords):
                nodes += walk(head)
        else:
            nodes = list(walk(node))
        for inner in nodes:
            if isinstance(inner, ast.Call):
                calls.append(inner)
            elif isinstance(inner, ast.Attribute) and not isinstance(inner.ctx, ast.Load):
                if not (isinstance(inner.value, ast.Name) and inner.value.id == "self"):
                    foreign.add(inner.attr)
    bound = tuple(bound_names(parse_once(text).body))
    return Contents(bound, classes, functions, calls, frozenset(foreign))


def _read_class(node: ast.ClassDef, body: Sequence[tuple[ast.stmt, Sequence[ast.AST]]]) -> Class:
    """Read a class; `body` are its statements with all nodes in each."""
    binders: dict[str, list[ast.stmt]] = {}
    stored: dict[str, list[ast.expr | None]] = {}
    calls: list[tuple[ast.Call, Function, Path]] = []
    is_open = bool(node.keywords) or not written_decorators(node) <= ADDING_NOTHING
    for statement, nodes in body:
        for name in dict.fromkeys(bound_names([statement])):
            binders.setdefault(name, []).append(statement)
        is_open = is_open or any(map(_adds_unseen, nodes))
        # What a static method is given first may be anything.
        if (
            isinstance(statement, Function)
            and statement.args.args
            and "staticmethod" not in decorator_names(statement)
        ):
            _read_method(statement, nodes, stored, calls)
    # Bound twice, or by something else: which value counts is not known.
    methods = {}
    for name, statements in binders.items():
        match statements:
            case [ast.FunctionDef() | ast.AsyncFunctionDef() as method]:
                methods[name] = method
    is_open = is_open or not {"__getattr__", "__getattribute__"}.isdisjoint(binders)
    bases = [ast.unparse(base) for base in node.bases]
    return Class(node, bases, frozenset(binders), methods, stored, calls, is_open)


def _adds_unseen(node: ast.AST) -> bool:
    """Whether a node may give an object attributes whose names it does not write out."""
    match node:
        case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"), args=args):
            return not any(isinstance(argument, ast.Constant) for argument in args[:2])
        case ast.Attribute(attr="__dict__"):
            return True
    return False


def _read_method(
    method: Function,
    nodes: Sequence[ast.AST],
    stored: dict[str, list[ast.expr | None]],
    calls: list[tuple[ast.Call, Function, Path]],
) -> None:
    """Add what one method stores and calls on its first parameter."""
    receiver = method.args.args[0].arg
    values: dict[int, ast.expr | None] = {}
    bindings: Counter[str] = Counter()
    sources: list[tuple[ast.expr, ast.expr]] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                values |= {id(target): value for target in targets}
                sources += [(target, value) for target in targets]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                values[id(target)] = value
            case (
                ast.For(target=target, iter=iterated)
                | ast.comprehension(target=target, iter=iterated)
            ):
                sources += _pair_elements(target, iterated)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                bindings[name] += 1
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()) if (
                name == receiver
            ):
                stored.setdefault(attribute, []).append(values.get(id(node)))
            case ast.Call(
                func=ast.Attribute(attr=adds), args=[ast.Constant(value=str(name)), *_]
            ) if adds in ("register_buffer", "register_parameter", "add_module", "register_module"):
                stored.setdefault(name, []).append(None)
    # A nested function may have a `self` of its own.
    if bindings[receiver] != 1:
        return
    paths: dict[str, Path] = {receiver: ()}
    for target, value in sources:
        # A name that is bound once is the same object wherever it is read.
        if isinstance(target, ast.Name) and bindings[target.id] == 1:
            path = _find_path(value, paths)
            if path:
                paths[target.id] = path
    for node in nodes:
        if isinstance(node, ast.Call):
            path = _find_path(node.func, paths)
            if path is not None:
                calls.append((node, method, path))


def _pair_elements(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a loop, each with an expression for what it is bound to."""
    match target, iterated:
        case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[values, *_]):
            yield from _pair_elements(inner, values)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=several):
            for inner, values in zip(targets, several, strict=False):
                yield from _pair_elements(inner, values)
        case ast.Name(), _:
            yield target, ast.Subscript(iterated, ast.Constant(0), ast.Load())


def _find_path(node: ast.expr, paths: Mapping[str, Path]) -> Path | None:
    """The steps from `self` to the object that an expression means; `paths` are those of names."""
    match node:
        case ast.Name(id=name):
            return paths.get(name)
        case ast.Call(func=ast.Name(id="super"), args=[]):
            return (SUPER,)
        # A slice of a list is a list.
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _find_path(value, paths)
        case ast.Subscript(value=value):
            step = _ELEMENT
        case ast.Attribute(value=value, attr=step):
            pass
        case _:
            return None
    path = _find_path(value, paths)
    return None if path is None else (*path, step)


# The whole text


@dataclass(frozen=True)
class Parsed:
    """A text as the validation sees it; of several classes or functions of one name, the last.

    `bound` counts how often each name is bound, and `foreign` are the attributes that are stored on
    other objects than `self`.
    """

    text: str
    parts: tuple[Part, ...]
    body: list[ast.stmt]
    bound: Counter[str]
    contents: Sequence[tuple[Part, Contents]]
    classes: Mapping[str, Class]
    functions: Mapping[str, Function]
    foreign: frozenset[str]

    @functools.cached_property
    def families(self) -> Mapping[str, frozenset[str]]:
        """By the name of a class, all that an object may be of which its methods have as `self`.

        With all that these derive from: a mixin calls what stands beside it.
        """
        lines = [[name] for name in self.classes]
        for line in lines:
            # The list grows while it is walked.
            for name in line:
                bases = self.classes[name].bases
                line += [base for base in bases if base in self.classes and base not in line]
        families = {}
        for name in self.classes:
            related = [line for line in lines if name in line]
            families[name] = frozenset[str]().union(*related)
        return families

    def enclosing(self, line: int) -> tuple[str, str]:
        """The class or function around a line of the text, and the member of the class; or ""."""
        above = [part for part in self.parts if part.first <= line]
        if not above:
            return "", ""
        for node in above[-1].tree.body:
            if not isinstance(node, Function | ast.ClassDef):
                continue
            members = node.body if isinstance(node, ast.ClassDef) else ()
            for member in members:
                if (
                    above[-1].locate(first_line(member))
                    <= line
                    <= above[-1].locate(member.end_lineno or 0)
                ):
                    return node.name, next(bound_names([member]), "")
            return node.name, ""
        return "", ""

    def method(self, owner: str, name: str) -> Function | None:
        """The method that `owner` has under `name`, where its single bases in the text say so."""
        line = [owner]
        for owner in line:
            item = self.classes[owner]
            if name in item.bound:
                return item.methods.get(name)
            if len(item.bases) == 1 and item.bases[0] in self.classes.keys() - line:
                line += item.bases
        return None

    def find_outside(self, owner: str) -> str:
        """The base outside of the text that `owner` comes to by single bases; else ""."""
        line = [owner]
        for name in line:
            item = self.classes.get(name)
            if item is None:
                return name
            if len(item.bases) == 1 and item.bases[0] not in line:
                line += item.bases
        return ""

    def follow(self, owner: str, path: Path) -> tuple[str, str]:
        """The class of the object at the end of `path`, and the attribute of it that is called.

        The attribute is "" where the object itself is called, and the class where it is unknown.
        """
        holder = ""
        kind = owner
        for step in path:
            holder = kind
            kind = self._step(kind, step)
        if kind in self.classes:
            return kind, ""
        is_attribute = holder in self.classes and not kind and path[-1] != _ELEMENT
        return (holder, path[-1]) if is_attribute else ("", "")

    @per_object
    def list_members(self, owner: str) -> tuple[set[str], list[str]] | None:
        """What an object with the methods of `owner` has, and its bases outside of the text.

        None where it may have what nothing in the text shows.
        """
        family = [self.classes[name] for name in sorted(self.families[owner])]
        if any(item.is_open for item in family):
            return None
        members: set[str] = set()
        bases: dict[str, None] = {}
        for item in family:
            members.update(item.bound, item.stored)
            bases |= dict.fromkeys(item.bases)
        return members, [base for base in bases if base not in self.classes]

    def find_lacking(self, owner: str, path: Path) -> tuple[str, str, set[str]] | None:
        """The class on the way from `owner` along `path` that has no such step, and what it has.

        None where no step is missing, as far as the text shows.
        """
        holders = {""}
        kinds = {owner}
        name = ""
        for name in path:
            holders = kinds
            kinds = set().union(*(self._list_kinds(kind, name) for kind in sorted(holders)))
            kinds.discard("None")
            if not kinds or "" in kinds:
                break
        lacking = [self._lack(holder, name) for holder in sorted(holders)]
        known = [members for members in lacking if members is not None]
        if len(known) < len(lacking) or kinds - {""}:
            return None
        return sorted(holders)[0], name, set().union(*known)

    def _lack(self, holder: str, name: str) -> set[str] | None:
        """What a class has, where `name` is nothing of it."""
        known = self.list_members(holder) if holder in self.classes else None
        if known is None or name == _ELEMENT or name in known[0] | self.foreign:
            return None
        # Others may bring modules of their own.
        if any(base.rpartition(".")[2] not in WITHOUT_MODULES for base in known[1]):
            return None
        return known[0]

    def _step(self, kind: str, step: str) -> str:
        """What an attribute of an object of `kind` is, or an element of it; "" where it is open."""
        # Nothing can be called on None.
        kinds = self._list_kinds(kind, step) - {"None"}
        return kinds.pop() if len(kinds) == 1 else ""

    def _list_kinds(self, kind: str, step: str) -> set[str]:
        """What an attribute of an object of `kind` may be, or an element of it.

        A kind is "CLASS", or "CLASS[]" for a list of its objects, "None", or "" for all else.
        """
        if step == _ELEMENT:
            return {kind.removesuffix(_ELEMENT) if kind.endswith(_ELEMENT) else ""}
        if step == SUPER:
            bases = self.classes[kind].bases
            return {bases[0] if len(bases) == 1 else ""}
        if kind not in self.classes or step in self.foreign:
            return {""}
        family = [self.classes[name] for name in self.families[kind]]
        if any(step in item.bound for item in family):
            return {""}
        kinds: set[str] = set()
        for item in family:
            for value in item.stored.get(step, ()):
                kinds |= self._kinds(value)
        return kinds

    def _kinds(self, value: ast.expr | None) -> set[str]:
        """What a value may be, as `_list_kinds` says it."""
        match value:
            case ast.Constant(value=None):
                return {"None"}
            case ast.IfExp(body=body, orelse=orelse):
                return self._kinds(body) | self._kinds(orelse)
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return {name}
            case ast.Call(
                func=ast.Attribute(attr="ModuleList") | ast.Name(id="ModuleList"),
                args=[ast.ListComp() | ast.GeneratorExp() | ast.List() as listed],
            ):
                elements = listed.elts if isinstance(listed, ast.List) else [listed.elt]
                kinds = set().union(*map(self._kinds, elements))
                return {kind + _ELEMENT if kind in self.classes else "" for kind in kinds or {""}}
        return {""}


# One output at a time is validated, against one diff base.
@functools.lru_cache(maxsize=2)
def parse_output(text: str) -> Parsed:
    """Parse `text`.  Raises SyntaxError or ValueError for what is not Python."""
    parts = tuple(read_parts(text))
    body: list[ast.stmt] = []
    contents = []
    classes: dict[str, Class] = {}
    functions: dict[str, Function] = {}
    foreign: set[str] = set()
    bound = Counter[str]()
    for part in parts:
        body += part.tree.body
        inside = _read_contents(part.text)
        contents.append((part, inside))
        classes |= {item.node.name: item for item in inside.classes}
        functions |= {node.name: node for node in inside.functions}
        foreign |= inside.foreign
        bound.update(inside.bound)
    defined = Counter(node.name for node in body if isinstance(node, Function | ast.ClassDef))
    # What an assignment or an import binds as well may be anything.
    for name in bound - defined:
        classes.pop(name, None)
        functions.pop(name, None)
    return Parsed(text, parts, body, bound, contents, classes, functions, frozenset(foreign))

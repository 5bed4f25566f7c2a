"""Read an edit as a class declares it: `@edit("method")` above `with old:` and `with new:`.

In: a statement of a class body.  Out: an `EditDeclaration`, or None where it is no edit.  The words
of `patchgen.edits` are recognized by what they mean, under whatever name they were imported.

    @edit("forward")
    def scale(self, x, size: Hole):     # holes: size; literal: self, x
        with old: ...
        with new: ...

Decorators above `@edit` are added to the method.  What the parameters say of its signature:
`x: New = 1` adds one, `x: Old` removes one, and `x=2` gives another default; with `*rest: Hole`,
what is added stands where the edit has it; `**kwargs: New` adds `**kwargs`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.edits.pattern import is_ellipsis
from patchgen.compiler.edits.signature import Parameter, read_parameters
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import Function, Positioned, called_function, walk_all

MARKERS = "patchgen.edits"


@dataclass(frozen=True, slots=True)
class Pair:
    """`with old:` and what follows it: `with new:`, `with before:` or `with after:`, as `word`."""

    old: ast.With
    new: ast.With
    word: str


@dataclass(frozen=True, slots=True)
class EditDeclaration:
    """One `@edit("method")` function of the class `body`, read; `changed` are literal too."""

    body: ClassBody
    method: str
    count: int
    statement: Statement
    node: Function
    target: ast.expr
    holes: tuple[str, ...]
    literal: tuple[ast.arg, ...]
    added: tuple[Parameter, ...]
    removed: tuple[ast.arg, ...]
    changed: tuple[Parameter, ...]
    decorators: tuple[ast.expr, ...]
    pairs: tuple[Pair, ...]

    @property
    def last(self) -> Positioned:
        """The code that errors about all of it point at."""
        return self.pairs[-1].new if self.pairs else self.node

    @property
    def meaning(self) -> list[object]:
        """All that decides what it does to a method, whatever its words were imported as."""
        names = [(parameter.name, parameter.behind) for parameter in (*self.added, *self.changed)]
        words = [pair.word for pair in self.pairs]
        return [self.statement.fragment.text, self.count, self.holes, names, words]

    def at(self, node: Positioned) -> Location:
        """Where `node` of the declaration stands."""
        return self.body.at(self.statement, node)


def marker(body: ClassBody, node: ast.expr) -> str | None:
    """The word of `patchgen.edits` that `node` means, under whatever name it was imported."""
    needs = body.block.dependencies
    symbol = None
    match node:
        case ast.Name(id=name):
            symbol = needs.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in needs:
            symbol = Symbol(str(needs[module]), attribute)
    return symbol.name if symbol is not None and symbol.module == MARKERS else None


def read_edit(body: ClassBody, statement: Statement) -> EditDeclaration | None:
    """The edit that `statement` declares, if it is one; raises PG302 where its form is another."""
    node = statement.node
    if not isinstance(node, Function):
        return None
    # `@edit` may be imported under another name.
    is_edit = [marker(body, called_function(each)) == "edit" for each in node.decorator_list]
    if not any(is_edit):
        return None
    if is_edit.index(True) != len(is_edit) - 1:
        what = "a decorator stands below @edit"
        hint = "write it above @edit to add it to the method"
        raise PatchgenError("PG302", body.at(statement, node), what, hint)
    *decorators, call = node.decorator_list
    match call:
        case ast.Call(args=[ast.Constant(value=str(method)) as target], keywords=[]):
            count = 1
        case ast.Call(
            args=[ast.Constant(value=str(method)) as target],
            keywords=[ast.keyword(arg="count", value=ast.Constant(value=int(count)))],
        ) if count > 0:
            pass
        case _:
            at = body.at(statement, call)
            what = "@edit takes a method's name and a count"
            raise PatchgenError("PG302", at, what, 'write @edit("forward")')
    parameters: dict[str, list[Parameter]] = {"Hole": [], "New": [], "Old": [], "": []}
    is_placed = _stands_for_the_rest(body, statement, node)
    listed: list[str] = []
    for parameter in read_parameters(node.args, statement.fragment):
        word = _read_word(body, parameter.arg)
        if is_placed and word == "New" and not parameter.by_name:
            parameter = replace(parameter, behind=tuple(listed))
        if word != "Hole":
            listed.append(parameter.name)
        # `x=...` only lists it: Python wants a default behind one that has one.
        if word == "" and parameter.default and is_ellipsis(parameter.default):
            parameter = replace(parameter, default=None)
        parameters[word].append(parameter)
    if node.args.kwarg is not None:
        rest = Parameter(node.args.kwarg, None, True, statement.fragment, takes_rest=True)
        parameters["New"].append(rest)
    literal = parameters[""]
    changed = tuple(parameter for parameter in literal if parameter.default)
    is_signature = bool(parameters["New"] or parameters["Old"] or changed or decorators)
    pairs = _read_pairs(body, statement, node, method, is_signature)
    for pair in pairs:
        # It could match any number of statements there.
        if is_ellipsis(pair.old.body[0]) or is_ellipsis(pair.old.body[-1]):
            what = f"the edit of {method} begins or ends with `...`, which has no bounds there"
            hint = "write the code between which it stands"
            raise PatchgenError("PG302", body.at(statement, pair.old), what, hint)
        _refuse_ellipses(body, statement, pair)
    return EditDeclaration(
        body=body,
        method=method,
        count=count,
        statement=statement,
        node=node,
        target=target,
        holes=tuple(hole.name for hole in parameters["Hole"]),
        literal=tuple(parameter.arg for parameter in literal),
        added=tuple(parameters["New"]),
        removed=tuple(parameter.arg for parameter in parameters["Old"]),
        changed=changed,
        decorators=tuple(decorators),
        pairs=pairs,
    )


def _read_word(body: ClassBody, argument: ast.arg) -> str:
    """What the annotation of a parameter of an edit is: `Hole`, `New` or `Old`, or nothing."""
    annotation = argument.annotation
    # `New[int]`
    named = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    word = marker(body, named) if named else None
    return word if word in ("Hole", "New", "Old") else ""


def _stands_for_the_rest(body: ClassBody, statement: Statement, node: Function) -> bool:
    """Whether an edit has `*rest: Hole`; raises PG302 for another star than that and `**x: New`."""
    for star, word in ((node.args.vararg, "Hole"), (node.args.kwarg, "New")):
        if star is None or _read_word(body, star) == word:
            continue
        what = f"the edit has the parameter {star.arg} with a star"
        hint = "list a variable by its name alone; `*rest: Hole` stands for the other parameters"
        if word == "New":
            hint = f"list a variable by its name alone; `**{star.arg}: New` adds such a parameter"
        raise PatchgenError("PG302", body.at(statement, star), what, hint)
    return node.args.vararg is not None


def _read_pairs(
    body: ClassBody, statement: Statement, node: Function, method: str, is_signature: bool
) -> tuple[Pair, ...]:
    """The pairs of blocks; without any, only the signature changes."""
    parts = node.body[1:] if ast.get_docstring(node) is not None else node.body
    match parts:
        # `while ...:` stands for any loop around the place.
        case [ast.While(test=ast.Constant(value=value), body=inner, orelse=[])] if value is ...:
            parts = inner
        case [] | [ast.Pass()] if is_signature:
            return ()
        case [only] if is_signature and is_ellipsis(only):
            return ()
    # The words may be imported under other names, too.
    blocks = []
    for part in parts:
        match part:
            case ast.With(items=[item]):
                blocks.append((part, marker(body, item.context_expr)))
    pairs: list[Pair] = []
    for (old, first), (new, second) in zip(blocks[::2], blocks[1::2], strict=False):
        if first == "old" and second in ("new", "before", "after"):
            pairs.append(Pair(old, new, second))
    if pairs and 2 * len(pairs) == len(parts):
        return tuple(pairs)
    what = f"the edit of {method} is not `with old:` followed by `with new:`"
    hint = "write these two blocks, or `with before:` or `with after:` as the second one"
    raise PatchgenError("PG302", body.at(statement, node), what, hint)


def _refuse_ellipses(body: ClassBody, statement: Statement, pair: Pair) -> None:
    """`...` under `with new:` needs the one `...` under `with old:` that it stands for."""
    for kind in ("arguments", "statements"):
        matched = _find_ellipses(pair.old.body, kind)
        wanted = _find_ellipses(pair.new.body, kind)
        # Not repeated, or repeated once: then it is clear what it stands for.
        if not wanted or len(matched) == len(wanted) == 1:
            continue
        at = body.at(statement, wanted[-1])
        if not matched:
            what = f"`...` under `with new:` stands for nothing: `with old:` has none for {kind}"
            hint = "write the `...` under `with old:` that it repeats"
            raise PatchgenError("PG307", at, what, hint)
        what = f"`...` for {kind} stands {len(matched)} times under `with old:` "
        what += f"and {len(wanted)} times under `with new:`"
        hint = "write it once under each, and use a Hole for the others"
        raise PatchgenError("PG307", at, what, hint)


def _find_ellipses(body: Sequence[ast.stmt], kind: str) -> list[ast.expr]:
    """Every `...` in `body` that stands for arguments of a call, or else for statements."""
    nodes = walk_all(body)
    if kind == "statements":
        return [node.value for node in nodes if isinstance(node, ast.Expr) and is_ellipsis(node)]
    # `f(x=...)` and `x[...]` are ellipses that Python knows, and stand for nothing.
    arguments: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            arguments += filter(is_ellipsis, node.args)
    return arguments

"""The words of the edits that are there already, for edits that take their place.

A new edit that says the same as an old one is the old one.  Another has the name and the docstring
of the one that it takes the place of; and if that was about an expression, it is about one, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from patchgen.author.align.expressions import differing
from patchgen.author.align.file import File, Member, read_file
from patchgen.author.align.suites import key
from patchgen.author.rebase.declared import Declared
from patchgen.author.rebase.sides import Side
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, is_docstring
from patchgen.syntax.text import make_source


def with_known_edits(
    lines: list[str], change: Declared, modular: File, parent: Member | None, alias: str
) -> list[str]:
    """`lines` with the words of the edits that say the same, and the names of those that did.

    `alias` is what the modular file calls the parent's module.
    """
    if change.kind != "edit":
        return lines
    made = read_file(make_source("class _:\n" + "\n".join(lines) + "\n", "member.py"))
    (node,) = made.tree.body
    assert isinstance(node, ast.ClassDef)
    functions = [n for n in node.body if isinstance(n, Function)]
    if len(functions) != len(node.body):
        return lines
    found: list[str] = []
    for function, same, keeps in _match_edits(functions, change, parent):
        first, last = first_line(function) - 1, function.end_lineno or 0
        text = lines[first - 1 : last - 1]
        if same is not None and keeps:
            text = _lines(same, modular)
        elif same is not None:
            if _is_of_expression(same) and parent is not None:
                text = _narrowed(function, text, Side(made.source), same, parent, alias)
            text = _named_as(function, text, same, modular)
        found += [*([""] if found else []), *text]
    return found


def _match_edits(
    made: Sequence[Function], change: Declared, parent: Member | None
) -> Iterator[tuple[Function, Function | None, bool]]:
    """Each new edit, the old one that it takes the place of, and whether the old one can stay."""
    known = [n for n in change.nodes if isinstance(n, Function)]
    pairs: dict[Function, tuple[Function, bool]] = {}
    # The same edit; one that does the same now; one that puts the same text in.
    tests: list[tuple[Callable[[Function, Function], bool], bool]] = [
        (lambda k, f: _parts(k) == _parts(f), True),
        (lambda k, f: parent is not None and _still_says(k, f, parent), True),
        (lambda k, f: _parts(k)[-1:] == _parts(f)[-1:], False),
    ]
    for test, keeps in tests:
        for function in made:
            same = next((k for k in known if function not in pairs and test(k, function)), None)
            if same is not None:
                known.remove(same)
                pairs[function] = (same, keeps)
    left = [function for function in made if function not in pairs]
    if len(left) == len(known) == 1:
        pairs[left[0]] = (known[0], False)
    for function in made:
        one, keeps = pairs.get(function, (None, False))
        yield function, one, keeps


def _lines(node: ast.stmt, modular: File) -> list[str]:
    lines = modular.source.lines[first_line(node) - 1 : node.end_lineno or 0]
    return [line.rstrip("\n") for line in lines]


def _still_says(known: Function, made: Function, parent: Member) -> bool:
    """Whether an edit of one expression, as it is, does what the new edit of its statement does."""
    match _withs(known):
        case [
            ast.With(body=[ast.Expr(value=old)]),
            ast.With(body=[ast.Expr(value=new)]),
        ]:
            places = [n for s in parent.nodes for n in ast.walk(s) if _is(n, old)]
            parts = _withs(made)
            if len(places) != 1 or len(parts) != 2:
                return False
            before, after = ("\n".join(map(ast.unparse, part.body)) for part in parts)
            text = ast.unparse(old)
            return before.count(text) == 1 and before.replace(text, ast.unparse(new)) == after
        case _:
            return False


def _is_of_expression(known: Function) -> bool:
    """Whether an edit puts an expression in the place of another."""
    match _withs(known):
        case [ast.With(body=[ast.Expr()]), ast.With(body=[ast.Expr()])]:
            return True
        case _:
            return False


def _narrowed(
    function: Function, lines: list[str], side: Side, known: Function, parent: Member, alias: str
) -> list[str]:
    """An edit of a statement as the lines of one of an expression, where that is like `known`'s."""
    parts = [part.body for part in _withs(function)]
    before = _withs(known)[0].body[0]
    if [len(part) for part in parts] != [1, 1] or not isinstance(before, ast.Expr):
        return lines
    old, new = parts[0][0], parts[1][0]
    texts = [ast.unparse(n) for s in parent.nodes for n in ast.walk(s) if isinstance(n, ast.expr)]
    for one, other in differing(old, new):
        text = ast.unparse(one).replace(f"{alias}.", "")
        if _is_alike(one, before.value) and texts.count(text) == 1:
            found = list(lines)
            for node, part in ((other, new), (one, old)):
                first = part.lineno - first_line(function)
                last = (part.end_lineno or 0) - first_line(function)
                code = side.code(node).split("\n")
                found[first : last + 1] = [" " * part.col_offset + code[0], *code[1:]]
            return found
    return lines


def _is_alike(one: ast.expr, other: ast.expr) -> bool:
    match one, other:
        case ast.Call(func=f), ast.Call(func=g):
            return key(f) == key(g)
        case _:
            return type(one) is type(other)


def _withs(function: Function) -> list[ast.With]:
    return [n for n in function.body if isinstance(n, ast.With)]


def _is(node: ast.AST, other: ast.expr) -> bool:
    return isinstance(node, ast.expr) and key(node) == key(other)


def _parts(function: Function) -> list[str]:
    return [ast.dump(n) for n in function.body if not is_docstring(n)]


def _named_as(function: Function, lines: list[str], known: Function, modular: File) -> list[str]:
    """An edit with the name and the docstring of the one that it takes the place of."""
    place = function.lineno - first_line(function)
    lines[place] = lines[place].replace(f"def {function.name}(", f"def {known.name}(", 1)
    if known.body and is_docstring(known.body[0]):
        doc = known.body[0]
        text = modular.source.lines[doc.lineno - 1 : doc.end_lineno or 0]
        head = function.body[0].lineno - first_line(function)
        lines[head:head] = [line.rstrip("\n") for line in text]
    return lines

"""Merge a modular class with its parent as the strict profile does.

In: a `Pair`, whose parent has the names that transformers gives it, so that only the rules of
merging can differ.  Out: the flat class, with private copies of parents' methods inlined where they
are called.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence

from patchgen.compiler.plan.model import ClassPlan, RewrittenBlock, Symbol
from patchgen.syntax.text import Source, make_source
from patchgen.upstream.lint.case import Case, Pair, class_in
from patchgen.upstream.lint.normalize import FunctionDef, dumped, with_fields

_PRIVATE = re.compile(r"_(\w+)_of_\w+\Z")


def inherited_class(pair: Pair, case: Case) -> ast.ClassDef | None:
    """The flat class of `pair` by Python's rule; None where it is the shipped one, word for word.

    Raises Refusals where the strict profile cannot say it, at places in the modular file.
    """
    if _says_nothing(pair):
        if len(pair.block.bases) == 1 and case.is_shipped(pair.name, pair.parent_text):
            return None
        bases = [ast.parse(base, mode="eval").body for base in _bases(pair)]
        return with_fields(class_in(pair.parent_text, pair.name), bases=bases)
    from patchgen.compiler.merge.merge import (
        merge_class,
    )  # heavy, and not needed where files are found in the cache

    merged = merge_class(_plan(pair, case))
    if case.is_shipped(pair.name, merged.text):
        return None
    return _without_copies(class_in(merged.text, pair.name))


def _says_nothing(pair: Pair) -> bool:
    """Whether the child only names its parent: then there is nothing to merge."""
    return not (
        pair.child.body or pair.child.decorator_list or pair.child.keywords or pair.above.keywords
    )


def _plan(pair: Pair, case: Case) -> ClassPlan:
    block, path = pair.block, pair.parent.facts.path
    root = case.path.as_posix().removesuffix(
        case.source.path
    )  # the parent is shown as the modular file is
    theirs = _source(pair.parent.facts.text, path.removeprefix(root), path)
    own = _piece(pair.name, block.text, case.source, block.first_line)
    above = _piece(pair.renamed, pair.parent_text, theirs, pair.parent_block.first_line)
    return ClassPlan(pair.name, (own, above), tuple(_bases(pair)), (pair.name, pair.renamed))


_source = functools.lru_cache(maxsize=64)(make_source)  # one parent has many classes


def _piece(name: str, text: str, source: Source, first: int) -> RewrittenBlock:
    return RewrittenBlock(
        Symbol(source.module, name), "class", name, "", text, source, first, (name,)
    )


def _bases(pair: Pair) -> list[str]:
    """The bases that stay, in the order in which Python looks into them.

    The child's own, then the parent's.
    """
    places = pair.block.bases.index(pair.base)
    above = [ast.unparse(base) for base in pair.above.bases]
    written = [*pair.block.bases[:places], *above, *pair.block.bases[places + 1 :]]
    return list(dict.fromkeys(written))


def _without_copies(node: ast.ClassDef) -> ast.ClassDef:
    """The class with every private copy that is called with its own parameters written in place of
    the call.
    """
    methods = {n.name: n for n in node.body if isinstance(n, FunctionDef)}
    copies = {name: method for name, method in methods.items() if _PRIVATE.match(name)}
    kept = [n for n in node.body if not (isinstance(n, FunctionDef) and n.name in copies)]
    for _ in copies:  # a copy may call another
        copies = {name: _with_copies(method, copies) for name, method in copies.items()}
    return with_fields(
        node, body=[_with_copies(n, copies) if isinstance(n, FunctionDef) else n for n in kept]
    )


def _with_copies(method: FunctionDef, copies: Mapping[str, FunctionDef]) -> FunctionDef:
    """`method` with the bodies of the copies in place of the statements that do nothing but call
    them.
    """
    found = [(statement, _copy_for(statement, method, copies)) for statement in method.body]
    body = [s for statement, copy in found for s in (copy.body if copy else [statement])]
    only = found[0][1] if len(found) == 1 else None
    if only is None:
        return with_fields(method, body=body)
    decorators = {dumped(d): d for d in (*method.decorator_list, *only.decorator_list)}
    return with_fields(method, body=body, decorator_list=list(decorators.values()))


def _copy_for(
    statement: ast.stmt, method: FunctionDef, copies: Mapping[str, FunctionDef]
) -> FunctionDef | None:
    """The copy that `statement` calls and does nothing else, where its body can stand there
    instead.
    """
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name("self" | "cls"), attr=name)) as call
        ) | ast.Return(
            ast.Call(func=ast.Attribute(value=ast.Name("self" | "cls"), attr=name)) as call
        ) if name in copies and name != method.name:
            copy = copies[name]
            leaves = isinstance(statement, ast.Expr) and _may_leave(copy)
            if (
                passes_through(call, copy)
                and not leaves
                and not _reads_locals(method, statement, copy)
            ):
                return copy
    return None


def _may_leave(copy: FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Return) for statement in copy.body for node in ast.walk(statement)
    )


def _reads_locals(method: FunctionDef, call: ast.stmt, copy: FunctionDef) -> bool:
    """Whether the rest of `method` reads a name that only the copy's body binds.

    Python would not find it.
    """
    rest = [s for s in method.body if s is not call]
    bound = {p.arg for p in ast.walk(method.args) if isinstance(p, ast.arg)} | _stored(rest)
    read = {
        n.id
        for s in rest
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    return bool((read - bound) & _stored(copy.body))


def _stored(body: Sequence[ast.stmt]) -> set[str]:
    return {
        n.id
        for s in body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def passes_through(call: ast.Call, method: FunctionDef) -> bool:
    """Whether each parameter of `method` gets the caller's variable of the same name.

    `**super_kwargs` says so.
    """
    if not call.args and [ast.unparse(k) for k in call.keywords] == ["**super_kwargs"]:
        return True
    args = method.args
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)
    names = [a.arg for a in (*args.posonlyargs, *args.args)][0 if static else 1 :]
    given: list[str] = []
    for argument in call.args:
        match argument:
            case ast.Name(name):
                given.append(name)
            case ast.Starred(ast.Name(name)) if args.vararg and name == args.vararg.arg:
                pass
            case _:
                return False
    if given != names[: len(given)]:
        return False
    for keyword in call.keywords:
        if not isinstance(keyword.value, ast.Name) or keyword.arg not in (None, keyword.value.id):
            return False
        given.append(keyword.arg or f"**{keyword.value.id}")
    every = {
        *names,
        *(a.arg for a in args.kwonlyargs),
        *([f"**{args.kwarg.arg}"] if args.kwarg else []),
    }
    return set(given) == every

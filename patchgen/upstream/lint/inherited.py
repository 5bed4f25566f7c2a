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
from patchgen.syntax.trees import decorator_names, names_within
from patchgen.upstream.lint.case import Case, Pair, class_in
from patchgen.upstream.lint.normalize import FunctionDef, dumped, with_fields

_PRIVATE = re.compile(r"_(\w+)_of_\w+\Z")


def inherited_class(pair: Pair, case: Case) -> ast.ClassDef | None:
    """The flat class of `pair` by Python's rule; None where it is the shipped one, word for word.

    Raises Refusals where the strict profile cannot say it, at places in the modular file.
    """
    if _says_nothing(pair):
        # Most classes end here, before anything is parsed.
        if len(pair.block.bases) == 1 and case.is_shipped(pair.name, pair.parent_text):
            return None
        bases = [ast.parse(base, mode="eval").body for base in _bases(pair)]
        return with_fields(class_in(pair.parent_text, pair.name), bases=bases)
    # Heavy, and not needed where files are found in the cache.
    from patchgen.compiler.merge.merge import merge_class

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
    """The plan by which the strict profile would merge the pair."""
    block, path = pair.block, pair.parent.facts.path
    # The parent is shown as the modular file is.
    root = case.path.as_posix().removesuffix(case.source.path)
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
    copies: dict[str, FunctionDef] = {}
    for member in node.body:
        if isinstance(member, FunctionDef) and _PRIVATE.match(member.name):
            copies[member.name] = member
    kept = [member for member in node.body if getattr(member, "name", "") not in copies]
    for _ in copies:  # a copy may call another
        copies = {name: _with_copies(method, copies) for name, method in copies.items()}
    body: list[ast.stmt] = []
    for member in kept:
        if isinstance(member, FunctionDef):
            member = _with_copies(member, copies)
        body.append(member)
    return with_fields(node, body=body)


def _with_copies(method: FunctionDef, copies: Mapping[str, FunctionDef]) -> FunctionDef:
    """`method` with the bodies of the copies in place of the statements that do nothing but call
    them.
    """
    found = [(statement, _copy_for(statement, method, copies)) for statement in method.body]
    body: list[ast.stmt] = []
    for statement, copy in found:
        body += copy.body if copy else [statement]
    only = found[0][1] if len(found) == 1 else None
    if only is None:
        return with_fields(method, body=body)
    # A method that is nothing but the call is decorated twice.
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
            # A `return` in the copy would end the method that it is written into.
            leaves = isinstance(statement, ast.Expr) and _may_leave(copy)
            is_exact = passes_through(call, copy) and not leaves
            if is_exact and not _reads_locals(method, statement, copy):
                return copy
    return None


def _may_leave(copy: FunctionDef) -> bool:
    """Whether the body of a copy returns anywhere."""
    for statement in copy.body:
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return True
    return False


def _reads_locals(method: FunctionDef, call: ast.stmt, copy: FunctionDef) -> bool:
    """Whether the rest of `method` reads a name that only the copy's body binds.

    Python would not find it.
    """
    rest = [statement for statement in method.body if statement is not call]
    bound = {parameter.arg for parameter in ast.walk(method.args) if isinstance(parameter, ast.arg)}
    bound |= _find_names(rest, ast.Store)
    unbound = _find_names(rest, ast.Load) - bound
    return not unbound.isdisjoint(_find_names(copy.body, ast.Store))


def _find_names(body: Sequence[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    """The names in `body` that are read, or that are bound."""
    found: set[str] = set()
    for statement in body:
        for name in names_within(statement):
            if isinstance(name.ctx, context):
                found.add(name.id)
    return found


def passes_through(call: ast.Call, method: FunctionDef) -> bool:
    """Whether each parameter of `method` gets the caller's variable of the same name.

    `**super_kwargs` says so.
    """
    if not call.args and [ast.unparse(k) for k in call.keywords] == ["**super_kwargs"]:
        return True
    args = method.args
    names = _list_positional(method)
    given = _read_positional(call, args)
    if given is None or given != names[: len(given)]:
        return False
    # The name of `**kwargs` is marked, as a parameter may be called so too.
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg=None, value=ast.Name(name)):
                given.append(f"**{name}")
            case ast.keyword(arg=str(parameter), value=ast.Name(name)) if parameter == name:
                given.append(name)
            case _:
                return False
    every = {*names, *(parameter.arg for parameter in args.kwonlyargs)}
    if args.kwarg:
        every.add(f"**{args.kwarg.arg}")
    return set(given) == every


def _read_positional(call: ast.Call, parameters: ast.arguments) -> list[str] | None:
    """The variables that are given by position; None where something else is given.

    `*args` is left out where it is the method's own.
    """
    given: list[str] = []
    own = parameters.vararg.arg if parameters.vararg else ""
    for argument in call.args:
        match argument:
            case ast.Name(name):
                given.append(name)
            case ast.Starred(ast.Name(name)) if name == own:
                pass
            case _:
                return None
    return given


def _list_positional(method: FunctionDef) -> list[str]:
    """The parameters that can be given by position, without the object."""
    names = [parameter.arg for parameter in [*method.args.posonlyargs, *method.args.args]]
    return names if "staticmethod" in decorator_names(method) else names[1:]

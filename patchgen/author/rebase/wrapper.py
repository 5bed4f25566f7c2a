"""An override that calls its parent's method: it depends on what that takes and returns, alone.

def forward(self, x, mask=None, layer=None):     upstream: mask is attention_mask, layer is gone
    return super().forward(x, mask, layer) * 2

    ->  def forward(self, x, attention_mask=None):
            return super().forward(x, attention_mask) * 2

Whatever else upstream changed in the method, the call brings it along.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from patchgen.author.align.file import Cut, replacing
from patchgen.author.rebase.code import Clash, Code, Three
from patchgen.author.rebase.merge import Merge, Renames, renames_of
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import Function

# Of a call, with the names of their parameters.
_Arguments = list[tuple[str, ast.expr]]


def follow(override: Code, three: Three) -> Merge | None:
    """The override as the new parent's parameters ask for it, or what is in doubt of it.

    None for what does not call its parent.
    """
    function = override.function
    if three.functions is None or function is None or not parent_calls(function):
        return None
    base, ours, theirs = three.functions
    variables = renames_of(base, theirs, ours).variables
    taken = parameters(base)
    renamed = {old: new for old, new in variables.items() if old in taken}
    renames = Renames(renamed)
    doubt = _other_values(base, theirs)
    wrapper = doubt or _mapped(override, base, theirs, renamed)
    if isinstance(wrapper, Clash):
        return Merge(three, None, (wrapper,), renames)
    return Merge(three, None, (), renames, wrapper)


def parent_calls(function: Function) -> list[ast.Call]:
    """The calls of `super()` for the method itself."""
    calls = []
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(ast.Call(ast.Name("super")), name)):
                if name == function.name:
                    calls.append(node)
    return calls


def _other_values(base: Function, theirs: Function) -> Clash | None:
    """How many values the method returns, if that changed."""
    before = _counts_of_values(base)
    now = _counts_of_values(theirs)
    if before == now:
        return None
    return Clash(f"upstream returns {_in_words(now)} where it returned {_in_words(before)}")


def _counts_of_values(function: Function) -> set[int]:
    counts = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            counts.add(len(node.value.elts) if isinstance(node.value, ast.Tuple) else 1)
    return counts


def _in_words(counts: set[int]) -> str:
    return f"{' or '.join(map(str, sorted(counts))) or 'no'} values"


def _mapped(
    override: Code, base: Function, theirs: Function, renamed: Mapping[str, str]
) -> Code | Clash:
    """The override by upstream's names, without the parameters that upstream took out."""
    before = [renamed.get(name, name) for name in _by_position(base)]
    now = _by_position(theirs)
    other_order = Clash(f"upstream takes ({', '.join(now)}) by position now")
    old_names = {*parameters(base)} - {*parameters(theirs)}
    named = Renames(renamed).apply(override)
    function = named.function
    assert function is not None
    gone = (old_names - renamed.keys()) & {*parameters(function)}
    cuts = []
    handed_on: set[ast.AST] = set()
    for call in parent_calls(function):
        arguments = _arguments(call, before, renamed)
        if arguments is None:
            if before != now[: len(before)]:
                return other_order
            continue
        kept = []
        for name, value in arguments:
            if isinstance(value, ast.Name) and value.id == name and name in gone:
                handed_on.add(value)
            elif name in old_names and theirs.args.kwarg is None:
                return Clash(f"it gives {name}, which upstream does not take any more")
            else:
                kept.append((name, value))
        new = _call_with(call, kept, now)
        if ast.dump(new) != ast.dump(call):
            cuts.append(replacing(call, ast.unparse(new)))
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and node.value in old_names:
            return Clash(f"it reads {node.value!r}, which upstream does not take any more")
        if isinstance(node, ast.Name) and node.id in gone and node not in handed_on:
            return Clash(f"it reads {node.id}, which upstream does not take any more")
    own = _by_position(function)
    left = [name for name in own if name not in gone]
    if own == before[: len(own)] and left != now[: len(left)]:
        return other_order  # callers give them by position
    if gone:
        cuts.append(_without_parameters(function, gone))
    return named.changed(cuts)


def _by_position(method: Function) -> list[str]:
    """The names of the parameters that may be given by position, without `self`."""
    return [parameter.arg for parameter in method.args.args[1:]]


def _arguments(call: ast.Call, names: list[str], renamed: Mapping[str, str]) -> _Arguments | None:
    """The arguments with the names of their parameters; `**kwargs` has none.

    None where `*args` hides which they are.
    """
    is_hidden = any(isinstance(value, ast.Starred) for value in call.args)
    if is_hidden or len(call.args) > len(names):
        return None
    arguments = list(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        name = keyword.arg or ""
        new_name = renamed.get(name, name)
        arguments.append((new_name, keyword.value))
    return arguments


def _call_with(call: ast.Call, arguments: _Arguments, names: list[str]) -> ast.Call:
    """The call with other arguments: by position where they were, as far as the order allows."""
    by_position = {id(value) for value in call.args}
    positional: list[ast.expr] = []
    keywords: list[ast.keyword] = []
    for name, value in arguments:
        place = len(positional)
        is_next = not keywords and names[place : place + 1] == [name]
        if id(value) in by_position and is_next:
            positional.append(value)
        else:
            keywords.append(ast.keyword(name or None, value))
    return ast.Call(call.func, positional, keywords)


def _without_parameters(function: Function, gone: set[str]) -> Cut:
    """The cut that takes parameters out of a head."""
    arguments = function.args
    first = len(arguments.args) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [None] * first
    defaults += arguments.defaults
    new = copy.copy(arguments)
    new.args = []
    new.defaults = []
    new.kwonlyargs = []
    new.kw_defaults = []
    for parameter, default in zip(arguments.args, defaults, strict=True):
        if parameter.arg not in gone:
            new.args.append(parameter)
            if default is not None:
                new.defaults.append(default)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for parameter, default in by_name:
        if parameter.arg not in gone:
            new.kwonlyargs.append(parameter)
            new.kw_defaults.append(default)
    places = [node for node in ast.walk(arguments) if isinstance(node, ast.arg | ast.expr)]
    starts = [(node.lineno, node.col_offset) for node in places]
    ends = [(node.end_lineno or 0, node.end_col_offset or 0) for node in places]
    text = ast.unparse(new)
    return Cut(min(starts), max(ends), text)

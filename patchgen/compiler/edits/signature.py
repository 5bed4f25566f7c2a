"""Change the signature of a method: add parameters, remove some, give others another default.

def scale(self, x, factor: New[float] = 1.0, mask: Old = None, dim=-2)      of an edit
def forward(self, x, mask=None, dim=-1, **kwargs)                           becomes
def forward(self, x, dim=-2, factor: float = 1.0, **kwargs)

An added parameter stands behind those that may be given by position; behind `*` in the edit, or
where the method has `*args`, it is given by name alone.  With `*rest: Hole`, which stands for the
method's other parameters, it stands where the edit has it:

def scale(self, x, factor: New = 1.0, *rest: Hole)                          of an edit
def forward(self, x, factor=1.0, mask=None, dim=-1, **kwargs)               is made

`**kwargs: New` of an edit adds `**kwargs` to a method that takes no such arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchgen.syntax.fragments import Fragment
from patchgen.syntax.trees import list_positional


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter; `code` is the text that it stands in.

    `behind`: what an edit has in front of an added one that stands in its place, in that order.
    `takes_rest`: an added `**kwargs`.
    """

    arg: ast.arg
    default: ast.expr | None
    by_name: bool
    code: Fragment
    behind: tuple[str, ...] | None = None
    takes_rest: bool = False

    @property
    def name(self) -> str:
        return self.arg.arg


@dataclass(frozen=True, slots=True)
class Changes:
    """What changes in a signature; the annotation of an added parameter is `New` or `New[T]`."""

    added: list[Parameter] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    changed: dict[str, Parameter] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def read_parameters(arguments: ast.arguments, code: Fragment) -> list[Parameter]:
    """The parameters in their order, without `*args` and `**kwargs`."""
    positional = list_positional(arguments)
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults = zip(positional, [*missing, *arguments.defaults], strict=True)
    parameters = [Parameter(arg, default, False, code) for arg, default in defaults]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return parameters + [Parameter(arg, default, True, code) for arg, default in named]


def change_arguments(
    arguments: ast.arguments, changes: Changes, code: Fragment, copies: dict[int, ast.AST]
) -> ast.arguments:
    """The tree of the parameters after `changes`; `copies` gets what each copied node was."""
    parameters = []
    for parameter in read_parameters(arguments, code):
        if parameter.name in changes.changed:
            parameter = replace(parameter, default=changes.changed[parameter.name].default)
        parameters.append(parameter)
    kwarg = arguments.kwarg
    for parameter in changes.added:
        arg = ast.arg(parameter.name, _annotation(parameter))
        copies[id(arg)] = parameter.arg
        if parameter.takes_rest:
            kwarg = arg
            continue
        by_name = is_by_name(parameter, arguments)
        place = find_place(parameter, parameters)
        parameters.insert(place, replace(parameter, arg=arg, by_name=by_name))
    kept = [p for p in parameters if p.name not in changes.removed]
    positional = [p for p in kept if not p.by_name]
    named = [p for p in kept if p.by_name]
    # What stands in front of one that is given by position alone is given so, too.
    only = [number for number, p in enumerate(positional, 1) if p.arg in arguments.posonlyargs]
    last = only[-1] if only else 0
    return ast.arguments(
        posonlyargs=[p.arg for p in positional[:last]],
        args=[p.arg for p in positional[last:]],
        vararg=arguments.vararg,
        kwonlyargs=[p.arg for p in named],
        kw_defaults=[p.default for p in named],
        kwarg=kwarg,
        defaults=[p.default for p in positional if p.default],
    )


def is_by_name(added: Parameter, arguments: ast.arguments) -> bool:
    """Whether a parameter that is added to `arguments` can be given by its name alone."""
    return added.by_name or (arguments.vararg is not None and added.behind is None)


def find_place(added: Parameter, parameters: Sequence[Parameter]) -> int:
    """The index in `parameters` at which one is added."""
    if added.behind is None:
        return len(parameters)
    positional = [parameter.name for parameter in parameters if not parameter.by_name]
    # An edit also lists local variables of the method.
    known = [name for name in added.behind if name in positional]
    return positional.index(known[-1]) + 1 if known else 0


def _annotation(parameter: Parameter) -> ast.expr | None:
    """The `T` of `New[T]`."""
    annotation = parameter.arg.annotation
    return annotation.slice if isinstance(annotation, ast.Subscript) else None

"""Change the signature of a method: add parameters, remove some, give others another default.

def scale(self, x, factor: New[float] = 1.0, mask: Old = None, dim=-2)      of an edit
def forward(self, x, mask=None, dim=-1, **kwargs)                           becomes
def forward(self, x, dim=-2, factor: float = 1.0, **kwargs)

An added parameter stands behind those that may be given by position; behind `*` in the edit, or
where the method has `*args`, it is given by name alone.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from patchgen.syntax.fragments import Fragment
from patchgen.syntax.trees import list_positional


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter; `code` is the text that it stands in."""

    arg: ast.arg
    default: ast.expr | None
    by_name: bool
    code: Fragment

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
        if parameter.name not in changes.removed:
            parameters.append(parameter)
    for parameter in changes.added:
        arg = ast.arg(parameter.name, _annotation(parameter))
        copies[id(arg)] = parameter.arg
        by_name = parameter.by_name or arguments.vararg is not None
        parameters.append(replace(parameter, arg=arg, by_name=by_name))
    positional = [p for p in parameters if not p.by_name]
    named = [p for p in parameters if p.by_name]
    first = [p.arg for p in positional if p.arg in arguments.posonlyargs]
    return ast.arguments(
        posonlyargs=first,
        args=[p.arg for p in positional][len(first) :],
        vararg=arguments.vararg,
        kwonlyargs=[p.arg for p in named],
        kw_defaults=[p.default for p in named],
        kwarg=arguments.kwarg,
        defaults=[p.default for p in positional if p.default],
    )


def _annotation(parameter: Parameter) -> ast.expr | None:
    """The `T` of `New[T]`."""
    annotation = parameter.arg.annotation
    return annotation.slice if isinstance(annotation, ast.Subscript) else None

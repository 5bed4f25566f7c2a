"""Change the signature of a method: add parameters, remove some, give others another default.

def scale(self, x, factor: New[float] = 1.0, mask: Old = None, dim=-2)      of an edit
def forward(self, x, mask=None, dim=-1, **kwargs)                           becomes
def forward(self, x, dim=-2, factor: float = 1.0, **kwargs)

An added parameter stands behind those that may be given by position; behind `*` in the edit, or
where the method has `*args`, it is given by name alone.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from patchgen.compiler.merge.text import Fragment


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

    @property
    def start(self) -> int:
        """Where it begins in its text."""
        return self.code.span(self.arg)[0]

    @property
    def end(self) -> int:
        """Where it ends in its text, with its default and the parentheses around that."""
        end = self.code.span(self.arg)[1]
        if self.default is None:
            return end
        start, stop = self.code.span(self.default)
        for _ in range(self.code.text.count("(", end, start)):
            stop = self.code.text.index(")", stop) + 1
        return stop


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
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults = zip(positional, [*missing, *arguments.defaults], strict=True)
    found = [Parameter(arg, default, False, code) for arg, default in defaults]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [Parameter(arg, default, True, code) for arg, default in named]


def change_arguments(
    arguments: ast.arguments, changes: Changes, code: Fragment, copies: dict[int, ast.AST]
) -> ast.arguments:
    """The tree of the parameters after `changes`; `copies` gets what each copied node was."""
    parameters = [p for p in read_parameters(arguments, code) if p.name not in changes.removed]
    parameters = [
        replace(p, default=changes.changed[p.name].default) if p.name in changes.changed else p
        for p in parameters
    ]
    for parameter in changes.added:
        arg = ast.arg(parameter.name, _annotation(parameter))
        copies[id(arg)] = parameter.arg
        by_name = _is_by_name(parameter, arguments)
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


def write_arguments(
    arguments: ast.arguments, changes: Changes, code: Fragment
) -> Iterator[tuple[int, int, str]]:
    """What becomes of which ranges of the text `code`."""
    parameters = read_parameters(arguments, code)
    for parameter in parameters:
        new = changes.changed.get(parameter.name)
        if new is not None and new.default is not None:
            text = new.code.source(new.default)
            if parameter.default is not None:
                yield *code.span(parameter.default), text
            else:
                yield parameter.end, parameter.end, f"={text}"
    positional = [p for p in parameters if not p.by_name]
    named = [p for p in parameters if p.by_name]
    end = positional[-1].end if positional else 0
    behind = code.span(arguments.vararg)[1] if arguments.vararg else end
    yield from _remove(positional, changes.removed, 0)
    yield from _remove(named, changes.removed, behind)
    by_name = [p for p in changes.added if _is_by_name(p, arguments)]
    by_place = [p for p in changes.added if not _is_by_name(p, arguments)]
    if by_place:
        yield end, end, "".join(map(_write, by_place))
    if by_name:
        at = named[-1].end if named else behind
        star = "" if named or arguments.vararg else ", *"
        yield at, at, star + "".join(map(_write, by_name))


def _remove(
    parameters: list[Parameter], removed: Collection[str], behind: int
) -> Iterator[tuple[int, int, str]]:
    """The ranges of removed parameters of one kind; what stands before them ends at `behind`."""
    kept = [number for number, p in enumerate(parameters) if p.name not in removed]
    stop = kept[-1] + 1 if kept else 0
    for parameter, following in itertools.pairwise(parameters[:stop]):
        if parameter.name in removed:
            yield parameter.start, following.start, ""
    if stop < len(parameters):
        start = parameters[stop - 1].end if stop else behind or parameters[0].start
        yield start, parameters[-1].end, ""


def _is_by_name(parameter: Parameter, arguments: ast.arguments) -> bool:
    return parameter.by_name or arguments.vararg is not None


def _annotation(parameter: Parameter) -> ast.expr | None:
    """The `T` of `New[T]`."""
    annotation = parameter.arg.annotation
    return annotation.slice if isinstance(annotation, ast.Subscript) else None


def _write(parameter: Parameter) -> str:
    """An added parameter behind others."""
    annotation, text = _annotation(parameter), f", {parameter.name}"
    if annotation is not None:
        text += f": {parameter.code.source(annotation)}"
    if parameter.default is not None:
        text += f" = {parameter.code.source(parameter.default)}"
    return text

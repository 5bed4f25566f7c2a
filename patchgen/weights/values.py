"""What an expression may be: a module, a tensor, a class, a function, a constant or `UNKNOWN`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from patchgen.facts.modules import MODELING_UTILS
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.bound import bound_names, own_statements
from patchgen.syntax.trees import parse_once

Values = list[Any]
UNKNOWN = ...  # no constant of interest
ANY = "[]"  # the key of elements whose number or name is not known
_BINDING = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.AnnAssign)
PRETRAINED = f"{MODELING_UTILS}.PreTrainedModel"


@dataclass(frozen=True, eq=False)
class Home:
    """A text in which names are looked up: `module` of the release, or "" for another text."""

    module: str
    index: ModuleIndex

    def find(self, name: str) -> tuple[ast.stmt, int] | None:
        """The statement that defines a name, and how many lines stand above its text."""
        block = self.index.definition(name)
        if block is None:
            return None
        statement = parse_once(block.text).body[-1]
        if not block.is_guarded:
            return statement, block.first - 1
        # Of what binds it under conditions, the last: `else:` has what needs no other package.
        for inner in own_statements([statement]):
            if isinstance(inner, _BINDING) and name in bound_names([inner]):
                return inner, block.first - 1
        return None

    def find_import(self, name: str) -> str:
        """What an imported name stands for, with the module from which it comes; or ""."""
        item = self.index.imported(name)
        if item is None:
            return ""
        above = self.module.split(".")[: -item.level] if item.level else []
        if item.binds_package:
            return item.bound
        return ".".join(filter(None, [*above, item.module, item.name]))


@dataclass(frozen=True, eq=False)
class Class:
    """A class with a text."""

    node: ast.ClassDef
    home: Home
    above: int
    members: Mapping[str, ast.stmt]

    @property
    def name(self) -> str:
        """Where it is defined, and what it is called."""
        return f"{self.home.module}.{self.node.name}"


@dataclass(frozen=True)
class Outside:
    """What a name stands for of which no text is read: `torch.nn.Linear`, `builtins.zip`."""

    name: str

    @property
    def last(self) -> str:
        """Its own name."""
        return self.name.rpartition(".")[2]


Kind = Class | Outside
_CONSTANTS = (str, int, float, bool, Outside)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Tensor:
    """A parameter or a buffer; `value` is how it was made, on `line` of the text.

    `is_saved`: checkpoints have it, as all but the buffers that are not persistent.
    """

    line: int
    value: ast.expr | None = None
    is_parameter: bool = True
    is_saved: bool = True
    is_filled: bool = False


@dataclass(eq=False)
class Object:
    """A module with what it has, made on `line` of the text."""

    kind: Kind
    line: int = 0
    slots: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Function:
    """A function, a method that is bound to `receiver`, or a nested function with its `names`."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    home: Home
    above: int
    owner: Class | None = None
    receiver: Values | None = None
    names: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Bound:
    """A method that has no text here: `append` of a list, `register_buffer` of a module."""

    owner: Any
    name: str


@dataclass(frozen=True, eq=False)
class Super:
    """What `super()` gives in a method of the class `owner`."""

    receiver: Values
    owner: Class


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call; `is_open`: there may be others."""

    line: int
    node: ast.Call | None = None
    args: Sequence[Values] = ()
    keywords: Mapping[str, Values] = field(default_factory=dict)
    is_open: bool = False

    def get(self, position: int, keyword: str = "") -> Values:
        """An argument by its position or its keyword."""
        if position < len(self.args):
            return self.args[position]
        return self.keywords.get(keyword, [])


@dataclass(eq=False)
class Frame:
    """One run of a function, or of the top of a module."""

    home: Home
    above: int
    names: dict[str, Values] = field(default_factory=dict)
    owner: Class | None = None
    receiver: Values | None = None
    returned: Values = field(default_factory=list)

    def line(self, node: ast.expr) -> int:
        """The line of the generated text, or 0."""
        return 0 if self.home.module else self.above + node.lineno


def decide(values: Values) -> bool | None:
    """Whether values are true; None where that is not known, or differs."""
    answers = {
        None if value is UNKNOWN or isinstance(value, Bound) else bool(value) for value in values
    }
    return answers.pop() if len(answers) == 1 else None


def list_elements(values: Values) -> list[Values]:
    """What a loop over a value gives, one by one."""
    elements: list[Values] = []
    for value in values:
        match value:
            case Object(slots=slots) | (dict() as slots):
                elements += slots.values()
            case _:
                elements.append([value if isinstance(value, Tensor) else UNKNOWN])
    return elements


def select(owner: Any, keys: Values) -> Values:
    """What `owner[key]` may be; without keys, a slice of it."""
    match owner:
        case Object(slots=slots) | (dict() as slots) if keys:
            named = [slots.get(str(key), []) for key in keys if key is not UNKNOWN]
            return join(named if len(named) == len(keys) and any(named) else slots.values())
        case Object() | dict() | Tensor():
            return [owner]
    return [UNKNOWN]


def list_modules(owner: Any, above: tuple[Object, ...] = ()) -> Iterator[Object]:
    """A module and all within it, the innermost first."""
    if isinstance(owner, Object) and owner not in above:
        for values in owner.slots.values():
            for value in values:
                yield from list_modules(value, (*above, owner))
        yield owner


# The attributes from a module to a tensor, each with the module that has it.
Steps = tuple[tuple[Object, str], ...]


def list_tensors(owner: Object, above: Steps = ()) -> Iterator[tuple[Tensor, Steps]]:
    """The parameters and buffers of a module and of those within it."""
    if owner in [module for module, _ in above]:
        return
    for name, values in owner.slots.items():
        steps = (*above, (owner, name))
        for value in values:
            if isinstance(value, Object):
                yield from list_tensors(value, steps)
            elif isinstance(value, Tensor):
                yield value, steps


def is_filled(owner: Object) -> bool:
    """Whether every tensor of a module is."""
    return all(tensor.is_filled for tensor, _ in list_tensors(owner))


def path_of(steps: Steps) -> str:
    """The name of a tensor in a checkpoint."""
    return ".".join(name for _, name in steps)


def list_as(method: str, owner: Object | dict[str, Values]) -> dict[str, Values]:
    """What `named_parameters()`, `children()`, `items()` and the like give."""
    pairs: list[tuple[str, Values]] = []
    if isinstance(owner, dict):
        pairs += owner.items()
    elif method in ("values", "items", "children", "named_children"):
        pairs += owner.slots.items()
    elif method.endswith("modules"):
        for module in list_modules(owner):
            pairs.append(("", [module]))
    else:
        for tensor, steps in list_tensors(owner):
            if tensor.is_parameter is method.endswith("parameters"):
                pairs.append((path_of(steps), [tensor]))
    if method.startswith("named_") or method == "items":
        return numbered([numbered([[name], values])] for name, values in pairs)
    return numbered(values for _, values in pairs)


def numbered(items: Iterable[Values]) -> dict[str, Values]:
    return {str(number): values for number, values in enumerate(items)}


def distinct(values: Values) -> Values:
    """Each value once: of constants, which are equal, too."""
    # Most lists have one.
    if len(values) < 2:
        return values
    return list({v if isinstance(v, _CONSTANTS) else id(v): v for v in values}.values())


def join(items: Iterable[Values]) -> Values:
    return list(chain.from_iterable(items))


def list_classes(asked: Any) -> list[Any]:
    """The classes of the second argument of `isinstance`."""
    return join(map(list_classes, join(asked.values()))) if isinstance(asked, dict) else [asked]

"""Plant an error of the text in the module that runs, and leave out the errors that can only crash.

Inside a function: the function is given the code that is compiled from the wrong text, so that
classes, models and weights stay as they are.  Elsewhere (a default, a constant, a flag of a class):
the whole text is run as a module of its own, which takes the place of the right one.

Models are not copied: at another address kernels may add in another order, and differences of one
rounding would look like an error where there is none.

What can only crash is found by trying each error beside the right expression.  A statement is run
with every error that it can have, after it is run as it is:

    y = x.sum(-1) * scale                           # as it is written

    y = trial(7, lambda: x.sum(-1) * scale, (       # as it is tried
        lambda: x.sum(-2) * scale,                  # another shape: something breaks later
        lambda: x.mean(-1) * scale,                 # the same shape and dtype
        lambda: x.sum(-1) * None,                   # an exception
    ))

An error goes on if it gives a value of the same kind.  What else it does in the trial does no harm:
the verdicts of these runs are not asked for.
"""

from __future__ import annotations

import ast
import copy
import functools
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from patchgen.verify.models.build import build_variant
from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.lines import RAN, compiler_watched, iterate_codes
from patchgen.verify.mutation.mutations import Mutant, Source
from patchgen.verify.parts.part_check import PairFacts, Route

_Key = tuple[str, int]  # the qualified name of a function, and the line where it begins
_TABLES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class Living:
    """A module, its text, and every function that was made of it."""

    module: ModuleType
    text: str
    functions: dict[_Key, list[FunctionType]]

    @property
    def path(self) -> str:
        return str(self.module.__file__)


def living(module: ModuleType, text: str) -> Living:
    """`module`, of which `text` is the file."""
    functions: dict[_Key, list[FunctionType]] = {}
    tables = [vars(module), *(vars(one) for one in vars(module).values() if isinstance(one, type))]
    # `gc` leaves out what was frozen, which may be all that was imported first.
    every = [*gc.get_objects(), *(value for table in tables for value in table.values())]
    for each in {id(each): each for each in every if type(each) is FunctionType}.values():
        if each.__code__.co_filename == module.__file__:
            functions.setdefault(_key(each.__code__), []).append(each)
    return Living(module, text, functions)


@contextmanager
def plant_mutant(right: Living, mutant: Mutant) -> Iterator[ModuleType]:
    """A context in which the module has the error; yields the module.  Raises its import errors."""
    code = compile(mutant.text(right.text), right.path, "exec", dont_inherit=True)
    if not mutant.function:
        try:
            with _run_as_module(right.module, code) as module:
                yield module
        finally:
            if "custom_op" in right.text:  # the wrong text has put its own in their place
                code = compile(right.text, right.path, "exec", dont_inherit=True)
                with _run_as_module(right.module, code) as module:
                    right.functions.update(living(module, right.text).functions)
        return
    own = [each for each in iterate_codes(code) if each.co_qualname == mutant.function]
    before = [each for each in own if each.co_firstlineno <= mutant.line]
    if not before:
        raise LookupError(f"{mutant.function} is not compiled")
    wrong = max(before, key=lambda each: each.co_firstlineno)
    if _key(wrong) not in right.functions:
        raise LookupError(f"no function is made of {mutant.function}")
    with swapped(right, [wrong]):
        yield right.module


@contextmanager
def swapped(right: Living, codes: list[CodeType]) -> Iterator[None]:
    """A context in which the functions that `codes` are compiled of run them."""
    before = [
        (function, function.__code__, code)
        for code in codes
        for function in right.functions.get(_key(code), ())
        if len(function.__code__.co_freevars) == len(code.co_freevars)
    ]
    _forget(right.module)
    for function, _, code in before:
        function.__code__ = code
    try:
        yield
    finally:
        for function, code, _ in before:
            function.__code__ = code
        _forget(right.module)


@contextmanager
def watched(right: Living, codes: list[CodeType]) -> Iterator[set[int]]:
    """A context; gives the set of lines that run inside it, as it grows.

    `codes` are of `instrument`; none: of what torch.compile reads alone.
    """
    lines_run: set[int] = set()
    names = vars(right.module)
    names[RAN] = lines_run
    try:
        with swapped(right, codes), compiler_watched(right.path, lines_run):
            yield lines_run
    finally:
        del names[RAN]


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno


def _forget(module: ModuleType) -> None:
    """The caches of the module's functions (`functools.cache`)."""
    for each in vars(module).values():
        clear = getattr(each, "cache_clear", None)
        if callable(clear) and getattr(each, "__module__", "") == module.__name__:
            clear()


@contextmanager
def _run_as_module(right: ModuleType, code: CodeType) -> Iterator[ModuleType]:
    module = ModuleType(right.__name__)
    for name in ("__file__", "__package__", "__spec__", "__loader__"):
        setattr(module, name, getattr(right, name))
    before = sys.modules.get(right.__name__)
    sys.modules[right.__name__] = module
    try:
        exec(code, module.__dict__)
        yield module
    finally:
        if before is not None:
            sys.modules[right.__name__] = before


@contextmanager
def kept(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """A context after which weights, buffers, attributes and configurations are as before."""
    attributes = [
        (module, dict(vars(module)), {name: dict(vars(module)[name]) for name in _TABLES})
        for module in model.modules()
    ]
    tensors: list[Tensor] = [*model.parameters(), *model.buffers()]
    values = [(tensor, tensor.detach().clone()) for tensor in tensors]
    own = (getattr(module, "config", None) for module in model.modules())
    configs = {id(config): (config, copy.deepcopy(vars(config))) for config in filter(None, own)}
    try:
        yield model
    finally:
        for module, named, tables in attributes:
            _refill(vars(module), named)
            for name, table in tables.items():
                _refill(vars(module)[name], table)
        with torch.no_grad():
            for tensor, value in values:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for config, settings in configs.values():
            if vars(config) != settings:
                _refill(vars(config), settings)


def _refill(table: dict[str, Any], values: dict[str, Any]) -> None:
    table.clear()
    table.update(values)


@dataclass(frozen=True)
class MutatedPair(Pair):
    """`right` with `wrong`, the module with the error; `is_built_anew` where it makes models."""

    right: Pair = field(kw_only=True)
    wrong: ModuleType = field(kw_only=True)
    is_built_anew: bool = field(kw_only=True)
    loans: ExitStack = field(kw_only=True)  # closing it restores the right pair's models

    @property
    def module(self) -> ModuleType:
        return self.wrong

    def models(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0, *, fresh: bool = False
    ) -> tuple[PreTrainedModel, PreTrainedModel]:
        """The right pair's parent, and a variant that the error may spoil."""
        parent, variant = self.right.models(route, dtype, dropout)
        key = (route.name, dtype, dropout)
        if key not in self._models:
            with _disable_current_modes():  # no recording sees how a model is made
                if self.is_built_anew:
                    master = self.right.master(dtype, dropout)
                    variant = build_variant(master, self.variant_class, self.build, route)
                    variant = variant.to(self.device)
                else:
                    self.loans.enter_context(kept(variant))
                self._models[key] = parent, variant
        return copy.deepcopy(self._models[key]) if fresh else self._models[key]

    @property
    def _observations(self) -> dict[Any, dict[str, Tensor]]:
        return self.right._observations

    @functools.cached_property
    def facts(self) -> PairFacts:
        facts = self.right.facts
        given = facts.inputs, facts.lengths, facts.causal
        return PairFacts(facts.parent_class, self.variant_class, facts.config, *given)

    @property
    def is_causal(self) -> bool:
        return self.right.is_causal

    @property
    def isolates_packed_texts(self) -> bool:
        return self.right.isolates_packed_texts


class MutatedPairs:
    """The mutated pairs of one error, each made once."""

    def __init__(self, module: ModuleType, loans: ExitStack, is_built_anew: bool) -> None:
        self.module, self.loans, self.is_built_anew = module, loans, is_built_anew
        self.pairs: dict[int, MutatedPair] = {}

    def of(self, right: Pair) -> MutatedPair:
        if id(right) not in self.pairs:
            self.pairs[id(right)] = MutatedPair(
                **{each.name: getattr(right, each.name) for each in fields(Pair)},
                right=right,
                wrong=self.module,
                is_built_anew=self.is_built_anew,
                loans=self.loans,
            )
        return self.pairs[id(right)]


_NAME = "__trial__"
_Right = Callable[[], Any]


class Trials:
    """The mutants that were tried beside the right code, and those that gave other kinds."""

    def __init__(self, right: Living, mutants: Sequence[Mutant]) -> None:
        self.right = right
        self.tried: set[Mutant] = set()
        self.unfit: set[Mutant] = set()
        self.moving: set[Mutant] = set()  # where there was a gradient to lose
        self._groups: list[list[Mutant]] = []
        self._done: set[Mutant] = set()  # in this run
        self._is_trying = False
        tree = _Instrument(right.text, mutants, self._groups).visit(ast.parse(right.text))
        code = compile(ast.fix_missing_locations(tree), right.path, "exec", dont_inherit=True)
        self._codes = list(iterate_codes(code))

    def goes_on(self, mutant: Mutant) -> bool:
        """Whether it gave values of the right kind, or was not tried."""
        moves = mutant.says != "detached" or mutant in self.moving
        return mutant not in self.unfit and (moves or mutant not in self.tried)

    def left(self) -> Iterator[Mutant]:
        """Those that no run has come by so far."""
        return (one for group in self._groups for one in group if one not in self.tried)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which the module tries each mutant once, where it comes by."""
        self._done.clear()
        names = vars(self.right.module)
        names[_NAME] = self._try
        try:
            with swapped(self.right, self._codes):
                yield
        finally:
            del names[_NAME]

    def _try(self, group: int, right: _Right, wrong: Sequence[_Right]) -> Any:
        if self._is_trying:
            return right()
        value = right()  # first: it may read what can be read once
        kind, kinds = kind_of(value), dict[Mutant, object]()
        self._is_trying = True
        try:
            for mutant, run in zip(self._groups[group], wrong, strict=True):
                if mutant not in self._done:
                    self._done.add(mutant)
                    kinds[mutant] = _tried(run)
        finally:
            self._is_trying = False
        self.tried |= kinds.keys()
        self.unfit |= {mutant for mutant, other in kinds.items() if other != kind}
        self.moving |= kinds.keys() if getattr(value, "requires_grad", False) else set()
        return value


def _tried(run: _Right) -> object:
    with torch.no_grad():
        try:
            return kind_of(run())
        except Exception:  # a wrong expression may raise anything
            return Exception


def kind_of(value: object) -> object:
    """What code that goes on relies on: types, shapes and dtypes, of all that is inside."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.is_contiguous()
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple | list):
        return type(value), *map(kind_of, value)
    if isinstance(value, Mapping):
        return type(value), *((name, kind_of(each)) for name, each in value.items())
    if isinstance(value, GeneratorType):
        return object()  # nobody knows before it runs
    if isinstance(value, functools.partial):
        return value.func, kind_of(value.args), kind_of(value.keywords)
    return type(value)


class _Instrument(ast.NodeTransformer):
    """Writes the trial of each mutant into the statement that it is in."""

    def __init__(self, text: str, mutants: Sequence[Mutant], groups: list[list[Mutant]]) -> None:
        self.source, self.groups = Source(text), groups
        self.mutants = [mutant for mutant in mutants if mutant.function]

    def generic_visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        if not isinstance(node, ast.stmt):
            return node
        first: list[ast.stmt] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if getattr(node.value.func, "attr", "") in _GROWS:  # twice is not once
                node.value.args = [self._argument(each) for each in node.value.args]
                return node
        for name in ("value", "test", "iter"):
            expression = getattr(node, name, None)
            if isinstance(expression, ast.expr):
                wrong = self._inside(expression)
                if name == "value" and isinstance(node, ast.Assign):
                    wrong += self._removed(node)
                setattr(node, name, self._trial(expression, wrong))
        for target in getattr(node, "targets", ()):
            if isinstance(target, ast.Subscript) and (wrong := self._inside(target)):
                first.append(ast.Expr(self._trial(target, wrong)))
        return [*first, node] if first else node

    def _argument(self, given: ast.expr) -> ast.expr:
        if isinstance(given, ast.Starred):
            return ast.Starred(self._argument(given.value), ast.Load())
        return self._trial(given, self._inside(given))

    def _inside(self, expression: ast.expr) -> list[tuple[Mutant, str]]:
        """Each mutant of the expression, and the wrong expression."""
        start, end = self.source.span(expression)
        text = self.source.text
        return [
            (one, f"{text[start : one.start]}{one.replacement}{text[one.end : end]}")
            for one in self.mutants
            if start <= one.start and one.end <= end and one.says != "statement removed"
        ]

    def _removed(self, node: ast.Assign) -> list[tuple[Mutant, str]]:
        """The mutant without the assignment: its target stays what it was."""
        span, target = self.source.span(node), self.source.of(node.targets[0])
        return [(one, target) for one in self.mutants if (one.start, one.end) == span]

    def _trial(self, right: ast.expr, wrong: list[tuple[Mutant, str]]) -> ast.expr:
        if not wrong or any(isinstance(each, _BOUND_HERE) for each in ast.walk(right)):
            return right
        self.groups.append([mutant for mutant, _ in wrong])
        loaded = ast.parse(f"({self.source.of(right)})", mode="eval").body
        texts = (ast.parse(f"({text}\n)", mode="eval").body for _, text in wrong)
        number = ast.Constant(len(self.groups) - 1)
        lambdas = ast.Tuple([_lambda(each) for each in texts], ast.Load())
        name = ast.Name(_NAME, ast.Load())
        return ast.Call(name, [number, _lambda(loaded), lambdas], [])


# Methods that change what the code goes on with.
_GROWS = frozenset(
    "add append clear extend insert move_to_end pop remove save_for_backward setdefault "
    "update".split()
)
_BOUND_HERE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def _lambda(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, _Super().visit(body))


class _Super(ast.NodeTransformer):
    """`super()` finds its class and its object in a method alone, and not in a lambda inside it."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name("self", ast.Load())]
        return node

"""Plant an error of the text in the module that runs.

The function that has it is given the code that is compiled from the wrong text, so that classes,
models and weights stay as they are.  Models are not copied: at another address kernels may add in
another order, and differences of one rounding would look like an error where there is none.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from patchgen.verify.models.build import build_variant
from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.lines import RAN, compiler_watched, iterate_codes
from patchgen.verify.mutation.mutations import Mutant
from patchgen.verify.observe.step import kept
from patchgen.verify.parts.part_check import PairFacts, Route

_Key = tuple[str, int]  # the qualified name of a function, and the line where it begins


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
    functions: dict[_Key, list[FunctionType]] = {}
    tables = [vars(module), *(vars(one) for one in vars(module).values() if isinstance(one, type))]
    # `gc` leaves out what was frozen, which may be all that was imported first.
    every = [*gc.get_objects(), *(value for table in tables for value in table.values())]
    for each in {id(each): each for each in every if type(each) is FunctionType}.values():
        if each.__code__.co_filename == module.__file__:
            functions.setdefault(_key(each.__code__), []).append(each)
    return Living(module, text, functions)


@contextmanager
def plant_mutant(right: Living, mutant: Mutant) -> Iterator[None]:
    """A context in which the module has the error."""
    code = compile(mutant.text(right.text), right.path, "exec", dont_inherit=True)
    own = [each for each in iterate_codes(code) if each.co_qualname == mutant.function]
    before = [each for each in own if each.co_firstlineno <= mutant.line]
    if not before:
        raise LookupError(f"{mutant.function} is not compiled")
    wrong = max(before, key=lambda each: each.co_firstlineno)
    if _key(wrong) not in right.functions:
        raise LookupError(f"no function is made of {mutant.function}")
    with swapped(right, [wrong]):
        yield


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
    names = vars(right.module)
    names[RAN] = lines_run = set[int]()
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


@dataclass(frozen=True)
class MutatedPair(Pair):
    """`right` with an error in its module; `is_built_anew` where that makes models."""

    right: Pair = field(kw_only=True)
    is_built_anew: bool = field(kw_only=True)
    loans: ExitStack = field(kw_only=True)  # closing it restores the right pair's models

    @staticmethod
    def of(is_built_anew: bool, loans: ExitStack, right: Pair) -> MutatedPair:
        own: Any = {each.name: getattr(right, each.name) for each in fields(Pair) if each.init}
        pair = MutatedPair(**own, right=right, is_built_anew=is_built_anew, loans=loans)
        vars(pair)["_observations"] = right._observations  # of the parent
        return pair

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
    def facts(self) -> PairFacts:
        return self.right.facts

    @property
    def is_causal(self) -> bool:
        return self.right.is_causal

    @property
    def isolates_packed_texts(self) -> bool:
        return self.right.isolates_packed_texts

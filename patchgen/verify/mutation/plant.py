"""Plant an error of the text in the module that runs.

Inside a function: the function is given the code that is compiled from the wrong text, so that
classes, models and weights stay as they are.  Elsewhere (a default, a constant, a flag of a class):
the whole text is run as a module of its own, which takes the place of the right one.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from patchgen.verify.mutation.lines_run import iterate_codes
from patchgen.verify.mutation.mutate import Mutant

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
    """`module`, of which `text` is the file."""
    functions: dict[_Key, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == module.__file__:
            functions.setdefault(_key(each.__code__), []).append(each)
    return Living(module, text, functions)


def is_in_function(mutant: Mutant) -> bool:
    return bool(mutant.function)


@contextmanager
def plant_mutant(right: Living, mutant: Mutant) -> Iterator[ModuleType]:
    """A context in which the module has the error; yields the module.  Raises its import errors."""
    code = compile(mutant.text(right.text), right.path, "exec", dont_inherit=True)
    if not is_in_function(mutant):
        with _run_as_module(right.module, code) as module:
            yield module
        return
    swapped = [
        (function, function.__code__, wrong)
        for function, wrong in _wrong_codes(right, mutant, code)
    ]
    _forget(right.module)
    for function, _, wrong in swapped:
        function.__code__ = wrong
    try:
        yield right.module
    finally:
        for function, was, _ in swapped:
            function.__code__ = was
        _forget(right.module)


def _wrong_codes(
    right: Living, mutant: Mutant, code: CodeType
) -> Iterator[tuple[FunctionType, CodeType]]:
    """Each function whose code differs, with the wrong one: the one that the mutant is in."""
    own = [each for each in iterate_codes(code) if each.co_qualname == mutant.function]
    before = [each for each in own if each.co_firstlineno <= mutant.line]
    if not before:
        raise LookupError(f"{mutant.function} is not compiled")
    wrong = max(before, key=lambda each: each.co_firstlineno)
    if _key(wrong) not in right.functions:
        raise LookupError(f"no function is made of {mutant.function}")
    for function in right.functions[_key(wrong)]:
        yield function, wrong


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

"""Live values beside fresh ones: are they the same, whose are they, and where do they stand?"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from functools import cache, cached_property, partial, partialmethod
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

# What Python compiled that stands in no file, in this process.
COMPILED: dict[str, None] = {}
_LIBRARY = sysconfig.get_path("stdlib")


@cache
def fresh_module(name: str) -> ModuleType:
    """What the file of a module makes when it is run again, beside the module in use."""
    spec = importlib.util.spec_from_file_location(name, sys.modules[name].__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            spec.loader.exec_module(module)
        finally:
            logging.disable(logging.NOTSET)
    return module


def is_same(old: Any, new: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether a live value is what a fresh one is, made by another run of the same code."""
    pair = (id(old), id(new))
    if old is new or pair in seen:
        return True
    seen |= {pair}
    if isinstance(old, type) and isinstance(new, type):
        return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
    if f"{type(old).__module__}.{type(old).__qualname__}" != (
        f"{type(new).__module__}.{type(new).__qualname__}"
    ):
        return False
    match old:
        case FunctionType():
            kept = [
                [f.__code__.co_filename, f.__defaults__, f.__kwdefaults__, *contents_of(f)]
                for f in (old, new)
            ]
            return old.__code__ == new.__code__ and is_same(kept[0], kept[1], seen)
        case staticmethod() | classmethod() | MethodType():
            return is_same(old.__func__, new.__func__, seen)
        case property():
            return is_same([old.fget, old.fset], [new.fget, new.fset], seen)
        case dict() if type(old).__module__ in ("builtins", "collections"):
            # Classes that are keys are other objects in a fresh module.
            return is_same([*old.items()], [*new.items()], seen)
        case list() | tuple():
            items = zip(old, new, strict=False)
            return len(old) == len(new) and all(is_same(a, b, seen) for a, b in items)
        case set() | frozenset():
            return sorted(map(_named, old)) == sorted(map(_named, new))
        case torch.Tensor():
            return bool(torch.equal(old, new))
        case int() | float() | str() | bytes() | None:
            return bool(old == new) or repr(old) == repr(new)
    if hasattr(old, "__dict__"):
        return is_same(vars(old), vars(new), seen)
    return True  # two objects of one class of C, such as locks


def contents_of(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing was put there yet
            yield None


def _named(value: Any) -> str:
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    return name if isinstance(value, type | FunctionType) else repr(value)


def code_of(value: Any) -> CodeType | None:
    """The code that runs first where a value is called; None where it is no Python."""
    while not isinstance(value, FunctionType):
        if isinstance(value, partial | partialmethod):
            value = value.func
        elif isinstance(value, MethodType | staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property | cached_property):
            value = value.fget if isinstance(value, property) else value.func
        elif callable(value) and not isinstance(value, type) and hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        else:
            return None
    return value.__code__


@cache
def root_of(package: str) -> str:
    """The folder of a package that is imported, with a slash behind it."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return f"{Path(file).parent}/" if file else "\0"


def is_foreign(value: Any, *packages: str) -> bool:
    """Whether a function runs code that is neither of these packages nor of Python."""
    code = code_of(value)
    if code is None or code.co_filename.startswith(("<", *map(root_of, packages))):
        return False
    return not code.co_filename.startswith(_LIBRARY) or "site-packages" in code.co_filename


def is_of_user(module: ModuleType | None) -> bool:
    """Whether a module is the script or stands beside it: a flat file cannot import it."""
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__":
        return True
    if file is None:
        return module.__name__ not in sys.builtin_module_names
    found_in = _found_in(Path(file).resolve())
    return found_in is not None and is_folder_of_user(found_in)


def is_folder_of_user(folder: Path) -> bool:
    """Whether a folder is that of the script, or the one that it is run in."""
    main = getattr(sys.modules["__main__"], "__file__", None)
    return folder.resolve() in (Path.cwd(), Path(main or "main.py").resolve().parent)


def place_of(value: Any) -> str:
    """`file:line` of what a value was defined by; "" where only a running program made it."""
    code = code_of(value)
    if code is not None:
        return f"{_short(code.co_filename)}:{code.co_firstlineno}"
    if not isinstance(value, type):
        value = type(value)
    try:
        return f"{_short(inspect.getfile(value))}:{inspect.getsourcelines(value)[1]}"
    except (OSError, TypeError):
        return ""


def _short(path: str) -> str:
    """A path from the folder that one works in, or from where Python finds the package."""
    whole = Path(path).resolve()
    if whole.is_relative_to(Path.cwd()) and "site-packages" not in whole.parts:
        return str(whole.relative_to(Path.cwd()))
    root = _found_in(whole)
    return str(whole.relative_to(root)) if root is not None else path


def _found_in(path: Path) -> Path | None:
    """The nearest folder above that Python imports from."""
    roots = {Path(root).resolve() for root in sys.path}
    return next((folder for folder in path.parents if folder in roots), None)


def describe(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, partial | partialmethod):
        return f"functools.{type(value).__name__} of {describe(value.func)}"
    if isinstance(value, MethodType):
        return describe(value.__func__)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if isinstance(name, str):
        return f"{getattr(value, '__module__', None) or 'builtins'}.{name}"
    if isinstance(value, staticmethod | classmethod | property):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__qualname__}"


def source_of(code: CodeType) -> str:
    """The text of a function, or of the statement with a lambda.  Raises OSError without one."""
    try:
        return textwrap.dedent(inspect.getsource(code))
    except OSError:
        flags = code.co_flags & annotations.compiler_flag
    for text in [text for text in COMPILED if code.co_name in text]:
        whole = compile(text, code.co_filename, "exec", flags, dont_inherit=True)
        if code in whole.co_consts:
            lines = text.splitlines(keepends=True)[code.co_firstlineno - 1 :]
            return "".join(inspect.getblock(lines))
    raise OSError(code.co_filename)


def note_compiled(event: str, arguments: tuple[Any, ...]) -> None:
    """Keep a text that Python compiles for `exec`: an audit hook."""
    if event == "compile" and str(arguments[1]).startswith("<"):
        if isinstance(arguments[0], bytes):
            COMPILED[arguments[0].decode(errors="replace")] = None

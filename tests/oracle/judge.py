"""Run a generated package twice, by Python's inheritance and flattened, and compare the two.

The inherited run imports the package as it is and then does, in the live objects, what the modular
language says beside Python: a class of the same name takes its parent's place for everything else
of the parent's module, and a removed member is not there.  It shares no code with the converter.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import re
import signal
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oracle.case import Case

LIBRARY = Path(__file__).with_name("lib")
_HOISTED = re.compile(r"_\w+_of_\w+")
_MANGLED = re.compile(r"_+[A-Za-z]\w*?(__\w*[^_])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SILENT = frozenset(
    "__dict__ __weakref__ __module__ __annotations__ __static_attributes__ __firstlineno__"
    " __annotate__".split()
)
_SECONDS = 10  # of CPU for one run: a wrong flat file may never end


@dataclass(frozen=True)
class Difference:
    """The first step of the probe on which the two runs do not agree."""

    step: str
    inherited: object
    flat: object

    def __str__(self) -> str:
        return f"{self.step}\n    inherited: {self.inherited}\n    flat:      {self.flat}"


def compare(case: Case, flat_texts: dict[str, str], folder: Path) -> Difference | None:
    """The first difference between inheritance and the flat files, `flat_texts` by file name."""
    expected = inherited(case, folder)
    found = flattened(case, flat_texts, folder)
    for (step, left), (taken, right) in zip(expected, found, strict=False):
        if left != right:
            return Difference(step if step == taken else taken, left, right)
    return None


def inherited(case: Case, folder: Path) -> list[tuple[str, object]]:
    """What the probe sees when Python itself inherits."""
    write(folder, {**case.files, **case.oracle_files})
    with _imports(folder), _afresh({parent for parent, _, _ in case.overrides}):
        module = __import__(_dotted(case.modular), fromlist=["_"])
        _replace(case, module)
        for cls, member in case.removed:
            setattr(getattr(module, cls), member, _Gone(member))
        names: dict[str, Any] = {}
        others = [name for name in sys.modules if name.startswith("toypack.")]
        for parent in dict.fromkeys([*(parent for parent, _, _ in case.overrides), *others]):
            names |= vars(sys.modules[parent])
        names |= vars(module)
        return _probe(case, names)


def flattened(case: Case, flat_texts: dict[str, str], folder: Path) -> list[tuple[str, object]]:
    """What the probe sees in the flat files, which may name the package inside functions only."""
    for name, text in flat_texts.items():
        own = [
            node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        if any("toypack" in ast.unparse(node) for node in own):
            return [(f"imports of {name}", [ast.unparse(node) for node in own]), *[("", None)] * 99]
    with _imports(folder):
        names: dict[str, Any] = {}
        for name, text in flat_texts.items():
            write(folder / "flat", {name: text})
            spec = importlib.util.spec_from_file_location(
                name.removesuffix(".py"), folder / "flat" / name
            )
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module.__name__] = module
            try:
                with _limited():
                    spec.loader.exec_module(module)
            except Exception as error:
                return [("import of the flat file", _error(error)), *[("", None)] * 99]
            names |= vars(module)
        return _probe(case, names)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write `files` below `folder`."""
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@contextlib.contextmanager
def _imports(folder: Path | None) -> Iterator[None]:
    """A path of `folder` and the kept library; forgets afterwards what was imported meanwhile."""
    before, path, bytecode = dict(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.path[:0] = [*([str(folder)] if folder else []), str(LIBRARY)]
    sys.dont_write_bytecode = True
    try:
        import oracle_kept

        oracle_kept.LOG.clear()
        sys.path_importer_cache.clear()
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode
        for name in set(sys.modules) - set(before):
            if name != "oracle_kept" and (folder is None or _inside(sys.modules[name], folder)):
                del sys.modules[name]


@contextlib.contextmanager
def _afresh(modules: set[str]) -> Iterator[None]:
    """Installed modules are imported anew, so that what is done to them is undone afterwards."""
    kept = {name: sys.modules.pop(name) for name in modules if name in sys.modules}
    _forget(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        _forget(modules)
        sys.modules |= kept


def _forget(modules: set[str]) -> None:
    """A package remembers its modules as attributes."""
    for package, _, last in (name.rpartition(".") for name in modules):
        if package in sys.modules:
            vars(sys.modules[package]).pop(last, None)


def _inside(module: object, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


def _replace(case: Case, modular: types.ModuleType) -> None:
    """Put the modular file's classes where the parents' were, in namespaces and as bases."""
    swaps = [
        (sys.modules[parent], getattr(sys.modules[parent], name), getattr(modular, new))
        for parent, name, new in case.overrides
    ]
    for parent in {id(parent): parent for parent, _, _ in swaps}.values():
        for cls in [
            value
            for value in vars(parent).values()
            if isinstance(value, type) and value is not object
        ]:
            bases = tuple(_swapped(cls, base, swaps) for base in cls.__bases__)
            if bases != cls.__bases__ and cls.__module__ == parent.__name__:
                cls.__bases__ = bases
        for name, value in list(vars(parent).items()):
            for _, old, new in swaps:
                if value is old:
                    setattr(parent, name, new)
    originals = {
        id(parent): {n: old for p, old, _ in swaps if p is parent for n in [old.__name__]}
        for parent, _, _ in swaps
    }
    for name, value in list(vars(modular).items()):
        if isinstance(value, types.ModuleType):
            setattr(modular, name, _Unswapped(value, originals))


class _Unswapped:
    """A module as the modular file means it: `upstream.Block` is the parent, not its successor."""

    def __init__(self, module: types.ModuleType, originals: dict[int, dict[str, type]]) -> None:
        self._module, self._originals = module, originals

    def __getattr__(self, name: str) -> object:
        if name in self._originals.get(id(self._module), {}):
            return self._originals[id(self._module)][name]
        value = getattr(self._module, name)
        return _Unswapped(value, self._originals) if isinstance(value, types.ModuleType) else value


def _swapped(cls: type, base: type, swaps: list[tuple[types.ModuleType, type, type]]) -> type:
    for _, old, new in swaps:
        # The replacing class itself keeps its parent.
        if base is old and isinstance(new, type) and cls is not new and not issubclass(old, cls):
            return new
    return base


class _Gone:
    """A member that is not there any more; an instance may still have an attribute of that name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, obj: object, owner: type) -> object:
        if obj is None:
            raise AttributeError(f"type object '{owner.__name__}' has no attribute '{self.name}'")
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'")


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"ran for more than {_SECONDS} seconds")

    old = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def _probe(case: Case, names: dict[str, Any]) -> list[tuple[str, object]]:
    import oracle_kept

    # The probe's own names win over what the files happen to import.
    scope = {
        **names,
        "run": oracle_kept.run,
        "dataclasses": dataclasses,
        "inspect": inspect,
        "typing": typing,
    }
    tell = functools.partial(_describe, seen=())
    found: list[tuple[str, object]] = []
    for step in case.probe:
        before = len(oracle_kept.LOG)
        with _limited():
            outcome = _run(step, scope)
        state = tell(scope.get("obj"))
        found.append((step, _normal(case, (outcome, tell(oracle_kept.LOG[before:]), state))))
    for name in case.classes:
        found.append(
            (
                f"class {name}",
                _normal(case, _class_facts(case, scope[name]) if name in scope else "missing"),
            )
        )
    return found


def _run(step: str, scope: dict[str, Any]) -> object:
    try:
        code = compile(step, "probe", "eval")
    except SyntaxError:
        code = compile(step, "probe", "exec")
    try:
        return _describe(eval(code, scope), ())
    except RecursionError:
        return ("raises", "RecursionError")
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> tuple[object, ...]:
    text = _HOISTED.sub("hoisted", _ADDRESS.sub("", str(error)))
    # What Python says of a super object or of a missing member depends on how the call is spelled.
    if isinstance(error, AttributeError):
        text = re.sub(r"^('super' object|'\w+' object|type object '\w+')", "object", text)
    if isinstance(error, TypeError):
        text = re.sub(r"^[\w.<>]+\(\)", "function", text)
    return ("raises", type(error).__name__, text)


def _class_facts(case: Case, cls: type) -> object:
    """What can be seen of a class: its members, their signatures, and its kept bases in order."""
    gone = {member for _, member in case.removed}
    members = {}
    for name in dir(cls):
        if (
            name in _SILENT
            or name in gone
            or _HOISTED.fullmatch(name)
            or name.startswith("__")
            and name in dir(object)
        ):
            continue
        try:
            value = inspect.getattr_static(cls, name)
        except AttributeError:
            continue
        members[name] = _member_facts(value)
    kept = [base.__name__ for base in cls.__mro__ if not _is_generated(base)]
    return ("class", members, kept, cls.__hash__ is None)


def _is_generated(cls: type) -> bool:
    return cls.__module__.startswith(
        ("toypack", "modeling_", "configuration_", "transformers.models.")
    )


def _member_facts(value: object) -> object:
    if isinstance(value, classmethod | staticmethod):
        return (type(value).__name__, _member_facts(value.__func__))
    if isinstance(value, property):
        return ("property", value.fget is not None, value.fset is not None, value.fdel is not None)
    if inspect.isfunction(value):
        kind = (
            inspect.iscoroutinefunction(value),
            inspect.isgeneratorfunction(inspect.unwrap(value)),
        )
        # An inlined generator or coroutine is still one, but a plain method may hand one on.
        return ("function", _signature(value), kind[0])
    return type(value).__name__


def _signature(function: types.FunctionType) -> str:
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    taken = ", ".join(
        f"{p.kind}:{p.name}" + ("=" if p.default is not p.empty else "") for p in plain
    )
    return taken


def _describe(value: object, seen: tuple[int, ...]) -> object:
    """`value` as nested tuples that can be compared between the two runs."""
    if id(value) in seen:
        return "..."
    deeper = functools.partial(_describe, seen=(*seen, id(value)))
    match value:
        case None | bool() | int() | float() | str() | bytes() | complex():
            return value
        case list() | tuple():
            return (type(value).__name__, *map(deeper, value))
        case dict():
            return ("dict", *[(deeper(k), deeper(v)) for k, v in value.items()])
        case set() | frozenset():
            return ("set", *sorted(map(repr, map(deeper, value))))
        case type():
            return ("class", value.__name__)
        case BaseException():
            return _error(value) if isinstance(value, Exception) else type(value).__name__
        case types.FunctionType() | types.MethodType() | types.BuiltinFunctionType():
            return ("function",)
        case types.ModuleType():
            return ("module", value.__name__)
    slots = [
        name
        for base in type(value).__mro__
        for name in getattr(base, "__slots__", ())
        if hasattr(value, name)
    ]
    state = {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}
    # What a private name becomes depends on the name of its class; what it holds does not.
    plain = [(_MANGLED.sub(r"\1", name), v) for name, v in state.items()]
    return ("object", type(value).__name__, *[(name, deeper(v)) for name, v in plain])


def _normal(case: Case, value: object) -> object:
    """`value` with the class names of the inherited run in the spelling of the flat one."""
    if not case.renames:
        return value
    if isinstance(value, str):
        for old, new in case.renames:
            value = re.sub(rf"(?<![A-Za-z0-9]){old}(?=[A-Z])", new, value)
        return value
    if isinstance(value, tuple | list):
        return tuple(_normal(case, item) for item in value)
    if isinstance(value, dict):
        return {_normal(case, key): _normal(case, item) for key, item in value.items()}
    return value

"""Run a modular file as Python and `docs/language.md` mean it, without any code of the compiler.

The parent's module is run anew as a private copy, statement by statement.  Behind the statement of
a name that the modular file defines too, the modular file's own statement runs, and from then on
the copy's name means what that gave:

    the copy of modeling_llama                  the modular file

    class LlamaMLP(nn.Module): ...
                                                class LlamaMLP(llama.LlamaMLP): ...
    LlamaMLP = the class of the modular file
    class LlamaDecoderLayer: ...  # builds it

So Python itself inherits, and `llama.LlamaMLP` in the modular file is the parent's class.  Three
things are not Python's: a removal takes the member out of the parent's class, a new model's class
takes the place of that whose name has the parent's prefix, and edits are made in the parent's
methods (`edits.py`).
"""

from __future__ import annotations

import ast
import builtins
import importlib
import linecache
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from os.path import commonprefix
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from transformers.models.auto.auto_factory import _LazyAutoMapping

from patchgen import disk
from patchgen.syntax.blocks import imports_of
from patchgen.syntax.bound import bound_names, own_nodes, own_statements
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import names_within
from patchgen.verifying.oracle import edits

MODELS = "transformers.models."
_NUMBERS = count()  # each run has modules of its own


class NotJudged(Exception):
    """The file cannot be run so; the message says why."""


def run_as_python(path: Path, home: Path) -> Meaning:
    """What the modular file at `path` means; it may import other files of its project, at `home`.

    Raises NotJudged.
    """
    meaning = Meaning(home, next(_NUMBERS))
    try:
        modular = Modular(meaning, path, _dotted(path, home))
        meaning.modulars[modular.name] = modular
        meaning.find_replaced(modular)
        for copy in list(meaning.copies.values()):
            copy.run()
        begun = list(meaning.modulars)
        for name in begun:  # a file may import further ones
            meaning.modulars[name].run()
            begun += [each for each in meaning.modulars if each not in begun]
    except edits.DoesNotMatch as error:
        raise NotJudged(f"an edit is read otherwise here: {error}") from error
    except Exception as error:  # a file raises what it likes
        raise NotJudged(f"Python does not run it: {type(error).__name__}: {error}") from error
    for copy in meaning.copies.values():  # a name that the file does not import is the parent's
        for name, value in vars(copy.module).items():
            vars(modular.module).setdefault(name, value)
    return meaning


def _dotted(path: Path, home: Path) -> str:
    inside = path.resolve().relative_to(home.resolve())
    return ".".join(inside.with_suffix("").parts)


@dataclass
class Meaning:
    """A modular file that has been run: its module, and the copies of its parents."""

    home: Path
    number: int
    modulars: dict[str, Modular] = field(default_factory=dict)  # the file itself is the first
    copies: dict[str, Copy] = field(default_factory=dict)  # by the name of the parent's module

    @property
    def modular(self) -> Modular:
        return next(iter(self.modulars.values()))

    def copy_of(self, name: str) -> Copy:
        if name not in self.copies:
            self.copies[name] = Copy(self, importlib.import_module(name))
        return self.copies[name]

    def find_replaced(self, modular: Modular) -> None:
        """Note in each copy which of its names the modular file's take the place of."""
        prefixes: dict[str, Counter[tuple[str, str]]] = {}
        followed = set()
        for name, node in modular.classes.items():
            for module, parent in modular.parents_of(node):
                removed = self.copy_of(module).removed
                removed.setdefault(parent, set()).update(_removals(node))
                if parent in modular.defined:
                    followed.add(module)
                pair = _prefixes(name, parent)
                shared = prefixes.setdefault(module, Counter())
                # TinyLlamaMLP(LlamaMLP) says of no prefix what becomes of it.
                if pair is not None and pair[0]:
                    shared[pair] += 1
        for module, shared in prefixes.items():
            copy = self.copy_of(module)
            if shared:
                copy.lent = shared.most_common(1)[0][0]
            copy.is_followed = module in followed
            if _kind(module) not in map(_kind, followed):
                copy.is_followed = True
                copy.prefix, copy.new_prefix = copy.lent
        modules = [each for each in modular.mentioned if _kind(each) == "modeling"]
        # Functions alone, or beside a configuration.
        if "modeling" not in map(_kind, self.copies) and len(modules) == 1:
            self.copy_of(modules[0]).is_followed = True

    def name_of(self, value: Any) -> str | None:
        """What the flat file calls a class or function of the modular file or of a copy."""
        name = getattr(value, "__name__", None)
        module = getattr(value, "__module__", None)
        if any(each.module.__name__ == module for each in self.modulars.values()):
            return name
        for copy in self.copies.values():
            if copy.module.__name__ == module and isinstance(name, str):
                return copy.renamed(name)
        return None

    def values_of(self, name: str) -> list[Any]:
        """What `name` of the flat file may mean: two models may give it under one new prefix."""
        if name in self.modular.defined:
            return [vars(self.modular.module)[name]]
        values = []
        for copy in sorted(self.copies.values(), key=lambda copy: not copy.is_followed):
            for theirs in copy.originals:
                if name in (copy.renamed(theirs), copy.as_helper(theirs)):
                    values.append(vars(copy.module)[theirs])
        return values

    def value_of(self, name: str) -> Any:
        """What a class that the modular file is about means; raises NotJudged."""
        values = self.values_of(name)
        if not values:
            raise NotJudged(f"{name} is neither of the modular file nor of a parent")
        return values[0]

    def parent_of(self, name: str) -> Any:
        """transformers' own class that a model of the output stands for, or derives from."""
        for each in self.value_of(name).__mro__:
            for copy in self.copies.values():
                if each.__module__ == copy.module.__name__:
                    return getattr(copy.parent, each.__name__)
        raise NotJudged(f"{name} derives from no class of transformers' models")

    def is_own(self, cls: type) -> bool:
        """Whether a class may be merged: of the modular file, of a copy, or a part."""
        return self.name_of(cls) is not None or cls.__module__.startswith("patchgen.parts.")

    def is_changed(self, cls: type) -> bool:
        """Whether a class is of the file, or of a copy and reads what the file defines."""
        for copy in self.copies.values():
            if copy.module.__name__ == cls.__module__:
                return copy.is_followed and copy.reads_new(cls.__name__)
        return self.name_of(cls) is not None

    def renamed_in(self, text: str) -> str:
        """`text` with the names of a new model in place of its parent's."""
        for copy in self.copies.values():
            if copy.prefix:
                text = re.sub(r"\b\w+\b", copy.rename_known, text)
        return re.sub(rf"_as_python_{self.number}\b", "", text)

    def exported(self) -> set[str]:
        """The classes and functions that a flat file has to have."""
        own = set()
        for node in self.modular.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                own.add(node.name)
        return own.intersection(vars(self.modular.module).get("__all__", own))

    def own_values(self) -> dict[str, Any]:
        """What the modular file binds otherwise than by a class, a function or an import."""
        definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        body = [each for each in self.modular.tree.body if not isinstance(each, definitions)]
        names = vars(self.modular.module)
        values = {}
        for node in own_nodes(body):
            match node:
                # What is deleted again is not there, nor what `if __name__ == "__main__":` binds.
                case ast.Name(name, ast.Store()) if name in names and not name.startswith("__"):
                    values[name] = names[name]
        return values

    @contextmanager
    def auto_classes(self) -> Iterator[None]:
        """A context in which transformers' auto classes give the classes of this file."""
        load = _LazyAutoMapping._load_attr_from_module
        get = _LazyAutoMapping.__getitem__
        contains = _LazyAutoMapping.__contains__

        def loaded(table: Any, model_type: str, name: str) -> Any:
            value = load(table, model_type, name)
            copy = self.copies.get(getattr(value, "__module__", ""))
            return getattr(copy.module, value.__name__, value) if copy else value

        def known(config: Any) -> Any:
            for copy in self.copies.values():
                for name, value in copy.originals.items():
                    if vars(copy.module)[name] is config:
                        return value
            return config

        with ExitStack() as stack:
            swap = {
                "_load_attr_from_module": loaded,
                "__getitem__": lambda table, key: get(table, known(key)),
                "__contains__": lambda table, key: contains(table, known(key)),
            }
            for name, function in swap.items():
                stack.enter_context(patch.object(_LazyAutoMapping, name, function))
            yield


# --- a file that is run statement by statement


@dataclass
class Running:
    """A module that is being run."""

    meaning: Meaning

    module: ModuleType = field(init=False)
    statements: list[ast.stmt] = field(init=False)
    tree: ast.Module = field(init=False)

    def begin(self, name: str, text: str, file: str, package: str) -> None:
        """Make the module; Python and torch find its text where they look for lines."""
        self.tree = ast.parse(text)
        self.statements = []
        for node in self.tree.body:
            self.statements += _split(node)
        self.module = ModuleType(name)
        self.module.__file__ = file
        self.module.__package__ = package
        vars(self.module)["__builtins__"] = {**vars(builtins), "__import__": self.imported}
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        sys.modules[name] = self.module

    def execute(self, node: ast.stmt) -> None:
        tree = ast.Module([node], [])
        code = compile(tree, str(self.module.__file__), "exec", dont_inherit=True)
        exec(code, vars(self.module))

    def imported(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """What `import` gives in this module."""
        return builtins.__import__(name, globals, locals, names, level)

    def absolute(self, name: str, level: int) -> str:
        if not level:
            return name
        package = str(self.module.__package__).rsplit(".", level - 1)[0]
        return f"{package}.{name}" if name else package


@dataclass
class Copy(Running):
    """A private copy of a parent's module."""

    parent: ModuleType
    originals: dict[str, Any] = field(default_factory=dict)  # before anything takes their place
    removed: dict[str, set[str]] = field(default_factory=dict)  # members, by the parent's class
    prefix: str = ""
    new_prefix: str = ""
    lent: tuple[str, str] = ("", "")  # prefixes of helpers that come with a class
    is_followed: bool = False
    at: int = 0

    def __post_init__(self) -> None:
        name = self.parent.__name__
        file = Path(str(self.parent.__file__))
        number = f"_as_python_{self.meaning.number}"
        text = disk.text_of(file)
        place = str(file.with_name(f"{file.stem}{number}.py"))
        self.begin(f"{name}{number}", text, place, str(self.parent.__package__))

    def renamed(self, name: str) -> str:
        """What `name` of the parent is called in the output."""
        has_prefix = self.prefix and name.startswith(self.prefix)
        return self.new_prefix + name.removeprefix(self.prefix) if has_prefix else name

    def as_helper(self, name: str) -> str:
        """What `name` of the parent may be called beside a class that took another's place."""
        prefix, new = self.lent
        return re.sub(f"^{prefix}", new, name)

    def rename_known(self, word: re.Match[str]) -> str:
        """A word of a text, renamed where it is a name of the parent."""
        name = word[0]
        return self.renamed(name) if name in self.originals else name

    def reads_new(self, name: str) -> bool:
        """Whether `name` reads a definition that is replaced, at whatever distance.

        A base class of models names layers of all of them, in tables.
        """
        met = {name}
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if vars(self.module).get(each) is not self.originals.get(each):
                return True
            is_base = each.endswith("PreTrainedModel")
            new = set() if is_base else self.names_read.get(each, set()) - met
            met |= new
            waiting += new
        return False

    @cached_property
    def names_read(self) -> dict[str, set[str]]:
        """The names that each definition reads, in bodies too."""
        return {
            node.name: {each.id for each in names_within(node)}
            for node in self.statements
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }

    def run(self) -> None:
        while self.at < len(self.statements):
            self.step()

    def original(self, name: str) -> Any:
        """The parent's own definition, run now with what fills it, if that was not yet."""
        filling = [at for at, node in enumerate(self.statements) if name in _filled(node)]
        while self.at <= max(filling, default=-1) or name not in self.originals:
            if self.at == len(self.statements):
                break
            self.step()
        if name in self.originals:
            return self.originals[name]
        return getattr(self.parent, name)

    def step(self) -> None:
        node = self.statements[self.at]
        self.at += 1
        if isinstance(node, ast.ClassDef):
            self.prepare(node)
        # A table that the parent's statement fills is the parent's.
        filled = {name: self.originals[name] for name in _filled(node) if name in self.originals}
        values = vars(self.module)
        replaced = {name: values[name] for name in filled}
        before = dict(values)
        values.update(filled)
        self.execute(node)
        values.update(replaced)
        for name, value in list(values.items()):
            if name not in before or before[name] is not value:
                self.originals[name] = value
                if self.is_followed and not name.startswith("__"):
                    self.follow(self.renamed(name))

    def follow(self, name: str) -> None:
        """Put what the file defines in its place, also where another parent needed it first."""
        modular = self.meaning.modular
        modular.require(name)
        if name in modular.defined:
            modular.take_places([name])

    def prepare(self, node: ast.ClassDef) -> None:
        """Take out what is removed; let `super(Own, self)` mean this class, whoever follows it."""
        _take_out(node, self.removed.get(node.name, set()))
        for call in ast.walk(node):
            match call:
                case ast.Call(ast.Name("super"), [ast.Name(own) as first, _]) if own == node.name:
                    first.id = "__class__"

    def imported(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """A configuration that the modular file changes is that of its copy."""
        whole = self.absolute(name, level)
        if names and _kind(whole) == "configuration" and whole in self.meaning.copies:
            copy = self.meaning.copies[whole]
            copy.run()
            return copy.module
        return super().imported(name, globals, locals, names, level)


@dataclass
class Modular(Running):
    """A modular file, or one that it imports."""

    path: Path
    name: str
    begun: set[int] = field(default_factory=set)
    originals: dict[str, Any] = field(default_factory=dict)  # of what the file on top defines anew

    def __post_init__(self) -> None:
        is_package = self.path.stem == "__init__"
        stem = self.path.parent.name if is_package else self.path.stem
        name = f"{MODELS}{stem}_as_python_{self.meaning.number}"
        text = disk.text_of(self.path)
        place = str(self.path.with_name(f"{self.path.stem}_as_python_{self.meaning.number}.py"))
        package = self.name if is_package else self.name.rpartition(".")[0]
        self.begin(name, text, place, package)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def defined(self) -> set[str]:
        """What the file defines, and does not only import."""
        names = set[str]()
        for node in self.statements:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                names.update(_bound(node))
        return {name for name in names if not name.startswith("__")}

    @cached_property
    def origins(self) -> dict[str, tuple[str, str]]:
        """The module and, if it is not the module itself, the name that an import binds."""
        found = {}
        for each in imports_of(self.tree.body):
            module = each.bound if each.binds_package else each.module
            found[each.bound] = (self.absolute(module, each.level), each.name)
        return found

    @property
    def mentioned(self) -> list[str]:
        """The modules of models that the file imports from."""
        places = [_meant(*origin) for origin in self.origins.values()]
        return list(dict.fromkeys(module for module, _ in places if module.startswith(MODELS)))

    def parents_of(self, node: ast.ClassDef) -> list[tuple[str, str]]:
        """The classes of transformers' models that a class of the file derives from."""
        found = []
        for base in node.bases:
            first, *attributes = ast.unparse(base).split(".")
            if first in self.classes and not attributes:
                continue  # the file's own class has its parents itself
            if first not in self.origins:
                continue
            parts = [*filter(None, self.origins[first]), *attributes]
            module, _, name = ".".join(parts).rpartition(".")
            if (other := self.meaning_of(module)) is not None:
                if name in other.classes:
                    found += other.parents_of(other.classes[name])
                continue
            module, name = _meant(module, name)
            if module.startswith(MODELS):
                found.append((module, name))
        return found

    def meaning_of(self, name: str) -> Modular | None:
        """The file of the project that is imported as `name`."""
        meaning = self.meaning
        folder = Path(meaning.home, *name.split("."))
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if name.startswith("patchgen.") or not path.is_file():
            return None
        if name not in meaning.modulars:
            meaning.modulars[name] = Modular(meaning, path, name)
        return meaning.modulars[name]

    def run(self) -> None:
        for node in self.statements:
            self.run_statement(node)

    def require(self, name: str, before: ast.stmt | None = None) -> None:
        """Run what binds or fills `name`, above the statement `before`, if that was not yet."""
        for node in self.statements:
            if node is before:
                break
            if name in _bound(node):
                self.run_statement(node)

    def run_statement(self, node: ast.stmt) -> None:
        if id(node) in self.begun:
            return
        self.begun.add(id(node))
        for name in _read_at_import(node):
            self.require(name, before=node)
        if isinstance(node, ast.ClassDef):
            _take_out(node, _removals(node))
            self.describe(node)
        # A table that this file fills is its own.
        for name in self.originals.keys() & set(_filled(node)):
            vars(self.module)[name] = self.originals[name]
        self.execute_well(node)
        if isinstance(node, ast.ClassDef):
            edits.make_edits(vars(self.module)[node.name], self.originals_of)
        if self is self.meaning.modular and not isinstance(node, ast.Import | ast.ImportFrom):
            self.take_places(_bound(node))
        for each in list(self.meaning.modulars.values()):
            each.give_way()

    def give_way(self) -> None:
        """Let the public functions and constants of the file on top count for this one too."""
        top = self.meaning.modular
        if self is top or not self.path.stem.startswith("modular_"):
            return
        ours = vars(self.module)
        for name in self.defined & top.defined - {*self.classes, *top.classes}:
            if name in ours and not name.startswith("_"):
                self.originals.setdefault(name, ours[name])
                top.require(name)
                ours[name] = vars(top.module).get(name, ours[name])

    def describe(self, node: ast.ClassDef) -> None:
        """Give a class its parent's docstring, which transformers reads, and Python does not."""
        if ast.get_docstring(node) is not None:
            return
        docstring = ""
        for base in node.bases:
            parent = eval(ast.unparse(base), vars(self.module))
            if self.meaning.is_own(parent):
                docstring = getattr(parent, "__doc__", None) or docstring
        if docstring:
            statement = ast.Expr(ast.Constant(docstring))
            node.body.insert(0, statement)
            ast.fix_missing_locations(node)

    def execute_well(self, node: ast.stmt) -> None:
        """A base that another base inherits does not stand before it: its members do."""
        try:
            self.execute(node)
        except TypeError as error:
            if "MRO" not in str(error) or not isinstance(node, ast.ClassDef):
                raise
            names = vars(self.module)
            kinds = [eval(ast.unparse(base), names) for base in node.bases]
            inherited = []
            for kind, base in zip(kinds, list(node.bases), strict=True):
                if any(kind is not other and issubclass(other, kind) for other in kinds):
                    inherited.append(kind)
                    node.bases.remove(base)
            self.execute(node)
            cls = names[node.name]
            for kind in inherited:
                for name, value in vars(kind).items():
                    if not name.startswith("__") and name not in vars(cls):
                        setattr(cls, name, value)

    def originals_of(self, module: str) -> Mapping[str, Any]:
        """The names of a module as its own text means them."""
        for copy in self.meaning.copies.values():
            if copy.module.__name__ == module:
                return {**vars(copy.module), **copy.originals}
        return vars(sys.modules[module])

    def take_places(self, names: list[str]) -> None:
        """Bind the names of the copies that these take the place of."""
        for copy in self.meaning.copies.values():
            if not copy.is_followed:
                continue
            for theirs in list(copy.originals):
                name = copy.renamed(theirs)
                if name in names and name in vars(self.module):
                    vars(copy.module)[theirs] = vars(self.module)[name]

    def imported(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        whole = self.absolute(name, level)
        if whole == "__future__":
            return super().imported(name, globals, locals, names, level)
        if names and (part := self.meaning_of(f"{whole}.{names[0]}")) is not None:
            return SimpleNamespace(**{names[0]: _Lazily(part)})
        if (other := self.meaning_of(whole)) is not None:
            found: Any = _Lazily(other)
            # `import a.b.c` gives `a`, whose attributes lead there.
            for above in [] if names else reversed(whole.split(".")[1:]):
                found = SimpleNamespace(**{above: found})
            return found
        if whole.startswith("transformers"):
            return _AsMeant(self.meaning, whole if names else "transformers")
        if names and level:
            return builtins.__import__(whole, {}, {}, names)
        return super().imported(whole, globals, locals, names)


class _Lazily(ModuleType):
    """A file of the project, of which only what is asked for has been run."""

    def __init__(self, modular: Modular) -> None:
        super().__init__(modular.name)
        self.__modular = modular

    def __getattr__(self, name: str) -> Any:
        self.__modular.require(name)
        if name in self.__modular.originals:
            return self.__modular.originals[name]
        try:
            return vars(self.__modular.module)[name]
        except KeyError:
            raise AttributeError(name) from None


class _AsMeant(ModuleType):
    """A module of transformers as a modular file means it: models are those of the copies."""

    def __init__(self, meaning: Meaning, name: str) -> None:
        super().__init__(name)
        self.__meaning = meaning
        self.__real = importlib.import_module(name)

    def __getattr__(self, name: str) -> Any:
        real = self.__real.__name__
        if _kind(real):
            return self.__meaning.copy_of(real).original(name)
        try:
            value = getattr(self.__real, name)
        except AttributeError:
            value = importlib.import_module(f"{real}.{name}")
        if isinstance(value, ModuleType):
            is_of_models = f"{value.__name__}.".startswith(MODELS)
            return _AsMeant(self.__meaning, value.__name__) if is_of_models else value
        module, own = _meant(real, name)
        return self.__meaning.copy_of(module).original(own) if _kind(module) else value


# --- what a text says


def _kind(module: str) -> str:
    """ "modeling" or "configuration" for a file of a model, whose copy is run; else ""."""
    found = re.fullmatch(rf"{re.escape(MODELS)}(?!auto\.)\w+\.(modeling|configuration)_\w+", module)
    return found[1] if found else ""


def _meant(module: str, name: str) -> tuple[str, str]:
    """Where what is imported so is defined; the name is "" for a module."""
    if not module.startswith("transformers") or not name:
        return module, name
    value = getattr(importlib.import_module(module), name, None)
    if isinstance(value, ModuleType):
        return value.__name__, ""
    of = getattr(value, "__module__", None)
    own = getattr(value, "__name__", None)
    if isinstance(of, str) and isinstance(own, str) and of.startswith(MODELS):
        return of, own
    return module, name


def _prefixes(name: str, parent: str) -> tuple[str, str] | None:
    """The parent's prefix and the new one: Llama and Tiny of TinyMLP and LlamaMLP."""
    shared = commonprefix([name[::-1], parent[::-1]])[::-1]
    words = re.search("[A-Z].*", shared)
    return (parent.removesuffix(words[0]), name.removesuffix(words[0])) if words else None


def _split(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as one of each, so that none waits for another."""
    if not isinstance(node, ast.ImportFrom):
        return [node]
    single = [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return [ast.copy_location(each, node) for each in single]


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement binds or fills."""
    if isinstance(node, ast.Delete):
        return []
    filled = map(_filled, own_statements([node]))
    return [*bound_names([node]), *chain.from_iterable(filled)]


def _filled(node: ast.AST) -> list[str]:
    """The names whose values a statement changes, and does not bind: `TABLE["a"] = gelu`."""
    match node:
        # TABLE.update(...), operator.register_fake(...)
        case (
            ast.Expr(ast.Call(ast.Attribute(ast.Name(name))))
            | ast.Assign(targets=[ast.Subscript(ast.Name(name)) | ast.Attribute(ast.Name(name))])
        ):
            return [name]
    return []


def _read_at_import(node: ast.stmt) -> set[str]:
    """The names that a statement reads when it runs: not those in bodies of functions."""
    return {each.name for each in references([node]) if each.eager}


def _take_out(node: ast.ClassDef, names: set[str]) -> None:
    """Leave the members of these names out of a class."""
    kept = [each for each in node.body if names.isdisjoint(_bound(each))]
    node.body = kept or [ast.Pass(lineno=node.lineno, col_offset=0)]


def _removals(node: ast.ClassDef) -> set[str]:
    """What a class removes: `def f(self): raise AttributeError`, `f = AttributeError()`."""
    found = set()
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name, body=[*text, ast.Raise(error)]):
                is_alone = len(text) == (ast.get_docstring(each) is not None)
                if is_alone and error and ast.unparse(error).removesuffix("()") == "AttributeError":
                    found.add(name)
            case ast.Assign(targets=[ast.Name(name)], value=value):
                if ast.unparse(value) == "AttributeError()":
                    found.add(name)
    return found

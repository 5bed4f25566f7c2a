"""Look up in the release what a generated text takes from it: modules, names, members of classes.

    from transformers.cache_utils import Cache      does the file exist, does it bind the name?
    class LlamaModel(PreTrainedModel): ...          which members come from the base?

Files are read through the environment, as everywhere, and nothing is imported.  The answer is None
where only a running program could give it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.plan.bindings import Bindings, FlattenScope
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.outside import KNOWN, Outside
from patchgen.facts.decorators import KEEPING_SIGNATURE
from patchgen.syntax.blocks import Block, Import
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.kept import per_object
from patchgen.syntax.locate import Environment
from patchgen.syntax.trees import (
    Function,
    decorator_names,
    parse_class,
    parse_once,
    written_decorators,
)

# A name of a module or a base, as (module, name).
Base = tuple[str, str]
# A function, and whether a call of it gives the first parameter.
Callee = tuple[Function, bool]

# Where transformers has what belongs to no model.
_GENERAL = ("transformers", "transformers.utils", "transformers.integrations")
# How a definition begins, at the margin.
_HEADS = ("", "def ", "async def ", "class ")
# What such a class answers to, its text does not list.
_ANSWERS_ALL = ("def __getattr__(", "def __getattribute__(")


def may_be_missing(module: str) -> bool:
    """Whether the files of its package say all that `module` has: those of transformers do."""
    return module.partition(".")[0] == "transformers"


def absolute(item: Import, package: str) -> str:
    """The module that `item` names, where a dot stands for `package`."""
    if not item.level or not package:
        return "." * item.level + item.module
    parts = package.split(".")
    above = parts[: len(parts) - item.level + 1]
    return ".".join([*above, item.module] if item.module else above)


def explain_missing(module: str, name: str, env: Environment) -> tuple[str, str] | None:
    """Why `from module import name` fails, and a hint; `name` is "" for `import module`."""
    try:
        if env.path("transformers") is None:
            return None
        if env.path(module) is None:
            return _explain_module(module, env)
        if name in ("", "*") or _may_bind(module, name, env):
            return None
        names = env.index(module, Location(module)).names
    # A file that cannot be read says nothing.
    except PatchgenError:
        return None
    return f"{module} has no {name}", did_you_mean(name, names)


def find_home(name: str, env: Environment) -> str:
    """The module of the release that defines `name` and belongs to no model; "" for none."""
    for package in _GENERAL:
        file = env.path(package)
        names = env.look("names", str(file.parent)) if file is not None else ""
        for last in names.split("\n"):
            module = f"{package}.{last}"
            if env.path(module) is not None and not env.is_package(module):
                if _stands_at_margin(env.source(module, Location(module)).text, name):
                    return module
    return ""


def _explain_module(module: str, env: Environment) -> tuple[str, str] | None:
    package, _, last = module.rpartition(".")
    file = env.path(package)
    if file is None:
        return _explain_module(package, env)
    is_package = file.name == "__init__.py"
    # A folder without `__init__.py` is not looked into, and a package may give its modules other
    # names while the program runs: transformers does so for `image_processing_x_fast`.
    if is_package and env.look("folder", str(file.parent / last)):
        return None
    source = env.source(package, Location(package))
    is_listed = re.search(rf"""["']{last}["']""", source.text)
    if is_listed or env.path(module.removesuffix("_fast")) is not None:
        return None
    beside = env.look("names", str(file.parent)).split("\n") if is_package else []
    return f"there is no module {module}", did_you_mean(last, beside)


def _may_bind(module: str, name: str, env: Environment) -> bool:
    """Whether `module`, which has a file, may have `name`."""
    text = env.source(module, Location(module)).text
    # Most names stand at the margin: the file need not be parsed.
    if _stands_at_margin(text, name) or env.path(f"{module}.{name}") is not None:
        return True
    index = env.index(module, Location(module))
    if index.blocks_that_bind(name) or index.definition("__getattr__"):
        return True
    # Else a star may bring it.
    if Bindings(env, Transformers("")).meaning(index, name):
        return True
    # What a lazy package imports stands under `TYPE_CHECKING` too, or in a table.
    if "_LazyModule(" in text:
        return re.search(rf"""["']{re.escape(name)}["']""", text) is not None
    # `globals()[name] = ...`, `sys.modules[__name__] = ...`
    return re.search(r"\bglobals\(\)|\bsys\.modules\b|\bexec\(", text) is not None


@functools.lru_cache(maxsize=4096)
def _stands_at_margin(text: str, name: str) -> bool:
    # Of a large file, a pattern that may begin with three words takes a hundred times longer.
    lines = "\n" + text
    for head in _HEADS:
        beginning = f"\n{head}{name}"
        if beginning in lines and re.search(rf"{beginning}\b", lines):
            return True
    return False


class Transformers(FlattenScope):
    """Follows re-exports and bases in the files of transformers: torch need not be installed."""

    def looks_into(self, module: str) -> bool:
        """Whether re-exports of `module` are followed."""
        return may_be_missing(module)


@dataclass(frozen=True)
class Release:
    """What classes and functions of the release take and have, as far as its files tell."""

    outside: Outside

    @property
    def lineages(self) -> Lineages:
        return self.outside.lineages

    @per_object
    def list_members(self, base: Base) -> frozenset[str] | None:
        """The members of a class with those of its bases; None where one is unknown."""
        members: set[str] = set()
        try:
            for symbol in self._line(base):
                block = self._find_block(symbol)
                known = self.outside.list_members(symbol)
                is_open = block is not None and any(word in block.text for word in _ANSWERS_ALL)
                if known is None or is_open:
                    return None
                members |= known
        except PatchgenError:
            return None
        return frozenset(members)

    @per_object
    def find_callee(self, callee: Base, method: str) -> Callee | None:
        """What a call of a function or class runs, or of a `method` of an object of a class."""
        try:
            line = self._line(callee)
            block = self._find_block(line[0])
            if block is None and not method:
                return self._find_attribute(line[0])
            if block is not None and block.kind == "def" and not method:
                node = parse_once(block.text).body[0]
                return (node, False) if isinstance(node, Function) else None
            function = self._find_method(line, method or "__init__")
        except PatchgenError:
            return None
        if function is None:
            return None
        return function, "staticmethod" not in decorator_names(function)

    def _find_attribute(self, symbol: Symbol) -> Callee | None:
        """What `Class.method(...)` and `OBJECT.method(...)` run."""
        module, _, owner = symbol.module.rpartition(".")
        block = self._find_block(Symbol(module, owner))
        match block and parse_once(block.text).body[0]:
            case ast.ClassDef():
                line = self._line((module, owner))
                function = self._find_method(line, symbol.name)
                if function is not None:
                    return function, "classmethod" in decorator_names(function)
            case (
                ast.Assign(value=ast.Call(func=ast.Name(id=made)))
                | ast.AnnAssign(value=ast.Call(func=ast.Name(id=made)))
            ):
                return self.find_callee((module, made), symbol.name)
        return None

    @per_object
    def _line(self, base: Base) -> tuple[Symbol, ...]:
        """What a name means, followed by its bases in the order of Python's MRO."""
        at = Location(base[0])
        return self.lineages.mro(self.lineages.bindings.canonical(Symbol(*base), at), at)

    def _find_block(self, symbol: Symbol) -> Block | None:
        """The statement of transformers that alone binds `symbol`."""
        env = self.lineages.bindings.env
        if not may_be_missing(symbol.module) or env.path(symbol.module) is None:
            return None
        blocks = env.index(symbol.module, Location(symbol.module)).blocks_that_bind(symbol.name)
        return blocks[0] if len(blocks) == 1 else None

    def _find_method(self, line: Sequence[Symbol], name: str) -> Function | None:
        for symbol in line:
            known = KNOWN.get(str(symbol))
            if known is not None and name not in known:
                continue
            block = self._find_block(symbol)
            if block is None or block.kind != "class":
                return None
            if name == "__init__":
                decorators = _decorators_of(block.text)
                if "dataclass" in decorators:
                    return self._make_init(line)
                # A metaclass, `__new__` or another decorator may give it another signature.
                if "__new__" in block.text or not decorators <= KEEPING_SIGNATURE:
                    return None
            if f"def {name}(" in block.text and name in (members := _bind_members(block.text)):
                only, *others = members[name]
                return only if isinstance(only, Function) and not others else None
        return None

    def _make_init(self, line: Sequence[Symbol]) -> Function | None:
        """The `__init__` that `@dataclass` makes of the fields of a class and its bases."""
        fields: dict[str, str] = {}
        for symbol in reversed(line):
            block = self._find_block(symbol)
            if block is None or "dataclass" not in _decorators_of(block.text):
                continue
            # These change which fields are parameters.
            if re.search(r"\b(ClassVar|InitVar|KW_ONLY|kw_only|init=)", block.text):
                return None
            for member in parse_class(block.text).body:
                match member:
                    case ast.AnnAssign(target=ast.Name(id=name), value=value):
                        fields[name] = f"{name}=None" if value else name
        made = parse_once(f"def __init__(self, {', '.join(fields.values())}): ...").body[0]
        return made if isinstance(made, Function) else None


@functools.lru_cache(maxsize=256)
def _decorators_of(text: str) -> frozenset[str]:
    """The decorators of a class, and its keywords, which may name a metaclass."""
    node = parse_class(text)
    return frozenset({*written_decorators(node), *map(ast.unparse, node.keywords)})


@functools.lru_cache(maxsize=256)
def _bind_members(text: str) -> dict[str, list[ast.stmt]]:
    """The statements of a class body by the names that they bind."""
    binders: dict[str, list[ast.stmt]] = {}
    for member in parse_class(text).body:
        for name in bound_names([member]):
            binders.setdefault(name, []).append(member)
    return binders


def find_base(expression: str, imports: Mapping[str, Import], package: str) -> Base | None:
    """The class that a base such as `nn.Module` names by what a module `imports`; else None."""
    first, _, rest = expression.partition(".")
    if expression == "object":
        return ("builtins", "object")
    item = imports.get(first)
    if item is None or not expression.replace(".", "").isidentifier():
        return None
    module = absolute(item, package)
    if not rest:
        return (module, item.name)
    start = item.bound if item.binds_package else module
    middle, _, last = f"{start}.{item.name}.{rest}".replace("..", ".").rpartition(".")
    return (middle, last)

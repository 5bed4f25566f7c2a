"""Look up in the release what a generated text takes from it: modules, names, members of classes.

    from transformers.cache_utils import Cache      does the file exist, does it bind the name?
    class LlamaModel(PreTrainedModel): ...          which members come from the base?

Files are read through the environment, as everywhere, and nothing is imported.  The answer is None
where only a running program could give it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from patchgen.facts.bases import MODULE_MEMBERS
from patchgen.syntax.blocks import Import
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import Environment

# A name of a module or a base, as (module, name).
Outside = tuple[str, str]

_MEMBER = re.compile(
    r"^[ \t]+(?:async[ ]+)?(?:def|class)[ ]+(\w+)|^[ \t]+(\w+)[ ]*(?::[^=\n]+)?=(?!=)"
    r"|^[ ]{4}(\w+)[ ]*:|\bself\.(\w+)[ ]*(?::[^=\n]+)?=(?!=)",
    re.MULTILINE,
)
# How a definition begins, at the margin.
_HEADS = ("", "def ", "async def ", "class ")
_OBJECT = frozenset(dir(object))
_KNOWN = dict.fromkeys(["builtins.object", "abc.ABC"], _OBJECT) | dict.fromkeys(
    ["torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"],
    MODULE_MEMBERS | _OBJECT,
)
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
    is_listed = re.search(rf"""["']{last}["']""", env.source(package, Location(package)).text)
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
    if index.blocks_that_bind(name) or index.definition("__getattr__") is not None:
        return True
    if env.is_package(module) and "_LazyModule(" in text:
        if re.search(rf"""["']{re.escape(name)}["']""", text):
            return True
        # The `__all__` of every file below it counts; below the models of `transformers` too.
        below = f"{module}.models" if env.is_package(f"{module}.models") else module
        return "define_import_structure(" in text and env.look("star", f"{name} {below}") != ""
    for star in index.imports:
        if star.name == "*":
            target = absolute(star, _package_of(module, env))
            if env.path(target) is None or _may_bind(target, name, env):
                return True
    # `globals()[name] = ...`, `sys.modules[__name__] = ...`
    return re.search(r"\bglobals\(\)|\bsys\.modules\b|\bexec\(", text) is not None


@functools.lru_cache(maxsize=4096)
def _stands_at_margin(text: str, name: str) -> bool:
    # Of a large file, a pattern that may begin with three words takes a hundred times longer.
    lines = "\n" + text
    return any(re.search(rf"\n{head}{re.escape(name)}\b", lines) for head in _HEADS)


def list_members(outside: Outside, env: Environment) -> frozenset[str] | None:
    """The members of a class of the release with those of its bases; None where one is unknown."""
    members: set[str] = set()
    waiting = [outside]
    # The list grows while it is walked.
    for module, name in waiting:
        known = _KNOWN.get(f"{module}.{name}")
        if known is not None:
            members |= known
            continue
        if not may_be_missing(module) or env.path(module) is None:
            return None
        try:
            index = env.index(module, Location(module))
        except PatchgenError:
            return None
        imports = {item.bound: item for item in index.imports}
        block = index.definition(name)
        # What is imported is where it comes from.
        spelled = block.bases if block is not None else (name,)
        if block is not None:
            if block.kind != "class" or any(method in block.text for method in _ANSWERS_ALL):
                return None
            members |= _read_members(block.text)
        for expression in spelled:
            is_own = block is not None and index.definition(expression) is not None
            base = find_base(expression, imports, _package_of(module, env))
            base = (module, expression) if is_own else base
            if base is None:
                return None
            waiting += [base] if base not in waiting else []
    return frozenset(members)


@functools.lru_cache(maxsize=256)
def _read_members(text: str) -> frozenset[str]:
    """What the text of a class seems to bind in its body or on `self`: rather too much."""
    return frozenset(name for match in _MEMBER.finditer(text) for name in match.groups() if name)


def _package_of(module: str, env: Environment) -> str:
    """The package that a dot stands for in `module`."""
    return module if env.is_package(module) else module.rpartition(".")[0]


def find_base(expression: str, imports: Mapping[str, Import], package: str = "") -> Outside | None:
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

"""Where a dotted name of transformers leads in a release, and what the release has."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from patchgen.author.adopt.patch_values import is_of_transformers
from patchgen.author.align.file import read_file
from patchgen.syntax.text import read_source


@dataclass(frozen=True)
class Target:
    """Where a dotted name of transformers leads: a file of the release, and the names in it."""

    module: str
    path: Path
    names: tuple[str, ...]


def find_target(path: str, root: Path) -> Target | None:
    """The module that `path` begins with; a name of a package is looked for in its models."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        base, names = root.joinpath(*parts[:number]), tuple(parts[number:])
        if base.with_suffix(".py").is_file():
            return Target(".".join(parts[:number]), base.with_suffix(".py"), names)
        if base.is_dir():
            files = sorted(base.rglob("modeling_*.py")) if names else []
            has_it = re.compile(rf"^(?:class|def) {re.escape(names[0])}\b", re.M) if names else None
            found = [one for one in files if has_it and has_it.search(one.read_text("utf-8"))]
            if len(found) != 1:
                return None
            inner = found[0].relative_to(root).with_suffix("").parts
            return Target(".".join(inner), found[0], names)
    return None


@lru_cache(maxsize=1024)
def exports(module: str, name: str, root: Path) -> bool:
    """Whether `from module import *` binds a name, in a release of transformers."""
    target = find_target(module, root) if is_of_transformers(module) else None
    if target is None or target.names:
        return False
    file = read_file(read_source(target.path))
    listed = file.definitions.get("__all__")
    if listed is not None:
        nodes = [inner for node in listed.nodes for inner in ast.walk(node)]
        return name in [node.value for node in nodes if isinstance(node, ast.Constant)]
    bound = name in file.definitions or name in file.imports or name in file.guarded
    return bound and not name.startswith("_")


@lru_cache(maxsize=1024)
def has_name(root: Path, module: str, name: str) -> bool:
    """Whether a module of a release mentions `name`; of a package, any module in it."""
    base = root.joinpath(*module.split("."))
    file = base.with_suffix(".py")
    if name == "*" or (base / name).is_dir() or (base / f"{name}.py").is_file():
        return True
    found = re.compile(rf"\b{re.escape(name)}\b")
    # A package of 5.x imports what its modules list.
    files = [file] if file.is_file() else [base / "__init__.py", *base.rglob("*.py")]
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())
    return any(found.search(text) for text in texts)


def has_attribute(root: Path, path: str, attr: str) -> bool | None:
    """Whether a module or class of the release has an attribute; None where that is not clear."""
    target = find_target(f"{path}.{attr}", root)
    if target is None or not 1 <= len(target.names) <= 2:
        return None
    file = read_file(read_source(target.path))
    name, *inner = target.names
    if not inner:
        return name in file.definitions or name in file.imports or name in file.guarded
    definition = file.definitions.get(name)
    if definition is None or definition.kind != "class":
        return None
    return inner[0] in definition.members or None


@lru_cache(maxsize=64)
def is_known_word(root: Path, word: str) -> bool:
    """Whether general modules of a release, or PyTorch's own protocol, name an attribute."""
    if word in ("forward", "training", "train", "eval") or word.startswith("__"):
        return True
    found = re.compile(rf"\b{re.escape(word)}\b")
    folders = ("", "generation", "integrations", "loss", "utils", "quantizers")
    files = [one for folder in folders for one in (root / "transformers" / folder).glob("*.py")]
    return any(found.search(path.read_text(encoding="utf-8", errors="replace")) for path in files)

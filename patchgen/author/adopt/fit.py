"""Whether a release has what a fork needs: names to import and to read, and calls that fit.

A fork was made from one release.  Another one may lack a name that the fork imports, or may have
given a function other parameters.  Nothing of a release is imported to find out; its files are read
as text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.words import BUILTINS
from patchgen.author.align.file import File
from patchgen.syntax.same import Function

# Names of another package that modeling files import under a condition, and that copies of them
# read without it.
_FLASH = {
    "flash_attn_func": "flash_attn",
    "flash_attn_varlen_func": "flash_attn",
    "index_first_axis": "flash_attn.bert_padding",
    "pad_input": "flash_attn.bert_padding",
    "unpad_input": "flash_attn.bert_padding",
}
_DEFINED = re.compile(r"^(?:def|class)\s+(\w+)", re.MULTILINE)


def unbound(forked: ForkedModel) -> frozenset[str]:
    """The names that the fork reads and that neither it nor the parent binds."""
    fork, parent = forked.fork, forked.parent
    bound = {*forked.pairs.values(), *BUILTINS}
    for file in (fork, parent):
        bound |= {*file.definitions, *file.imports, *file.guarded}
    return frozenset(r.name for r in fork.plain_reads) - bound


def homes(forked: ForkedModel) -> dict[str, str]:
    """The unbound names that a module is known to define, each with that module.

    `_get_unpad_data` is in `modeling_llama` up to 4.42, and in `modeling_flash_attention_utils`
    from 4.43 on.
    """
    defined = _definitions(forked.root) if forked.root is not None else {}
    found = {name: _FLASH.get(name) or defined.get(name) for name in sorted(unbound(forked))}
    return {name: module for name, module in found.items() if module is not None}


@lru_cache(maxsize=32)
def _definitions(root: Path) -> Mapping[str, str]:
    """The classes and functions of a release's general modules, each with its module."""
    found: dict[str, str] = {}
    for path in sorted((root / "transformers").glob("*.py")):
        for name in _DEFINED.findall(read_text(path)):
            found.setdefault(name, f"transformers.{path.stem}")
    return found


@lru_cache(maxsize=512)
def read_text(path: Path) -> str:
    """The text of a file of a release."""
    return path.read_text(encoding="utf-8", errors="replace")


def lacking_imports(fork: File, root: Path) -> list[str]:
    """The names that the fork imports from transformers and the release lacks.

    For example `transformers.utils.is_x_available`.
    """
    imports = [n for n in fork.tree.body if isinstance(n, ast.ImportFrom) and not n.level]
    names = [(n.module or "", alias.name) for n in imports for alias in n.names]
    names = [(module, name) for module, name in names if module.split(".")[0] == "transformers"]
    return [f"{module}.{name}" for module, name in names if not _has(root, module, name)]


def _has(root: Path, module: str, name: str) -> bool:
    """Whether a module of the release mentions `name`, or holds a module of that name."""
    base = root.joinpath(*module.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            inside = (base / name).is_dir() or (base / f"{name}.py").is_file()
            return name == "*" or inside or re.search(rf"\b{name}\b", read_text(path)) is not None
    return False


def misfits(forked: ForkedModel) -> list[str]:
    """What is called with arguments that it does not take.

    The fork calls the parent's definitions; classes of the parent that the fork left out, and that
    the output keeps, call the fork's.
    """
    fork, parent = forked.fork, forked.parent
    bound = {*fork.definitions, *fork.imports, *fork.guarded}
    kept = [d.node for name, d in parent.definitions.items() if name not in bound]
    found = []
    for file, tree in [(parent, fork.tree), *((fork, one) for one in kept if forked.follows)]:
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if file is fork or name not in bound:
                    called = _called(file, name)
                    found += [name] if called is not None and not _takes(called, node) else []
    return found


def _called(file: File, name: str) -> Function | None:
    """The function that a call of a file's definition `name` runs."""
    definition = file.definitions.get(name)
    if definition is not None and definition.kind == "class":
        init = definition.members.get("__init__")
        return init.method if init is not None else None
    return definition.node if definition and isinstance(definition.node, Function) else None


def _takes(function: Function, call: ast.Call) -> bool:
    """Whether `function` has the parameters that `call` names, and `call` all that it needs."""
    args = function.args
    places = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    needed = {*places[: len(places) - len(args.defaults)]} - {"self"}
    needed |= {a.arg for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is None}
    named = {keyword.arg for keyword in call.keywords}
    stars = None in named or any(isinstance(arg, ast.Starred) for arg in call.args)
    given = {*[name for name in places if name != "self"][: len(call.args)]} | named
    known = {*places, *(arg.arg for arg in args.kwonlyargs)}
    return (args.kwarg is not None or named - {None} <= known) and (stars or needed <= given)


def blockers(forked: ForkedModel) -> Iterator[str]:
    """Why no declaration over this parent can give the fork.

    That is names that nothing binds, and calls that do not fit.
    """
    yield from sorted(unbound(forked) - homes(forked).keys())
    yield from misfits(forked)

"""Refuse code that reads the path of its file or the table of its names.

    globals()["ToyBlock"]           the flat file has other names than the module
    open(__file__)                  the path of another file
    get_logger(__name__)            fine: the name of a logger may be another
    custom_op(f"{__name__}::run")   fine: so may that of an operator of torch

Where the code is transformers' own, the output gets a note instead.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from patchgen.compiler.plan.naming import Naming
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.bound import ScopeNode, bound_names, own_nodes
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import parse_once, walk

_NAMESPACE_FUNCTIONS = frozenset({"globals", "vars", "locals", "dir"})
_MODULE_ATTRIBUTES = frozenset(
    {"__file__", "__spec__", "__loader__", "__cached__", "__path__", "__package__", "__doc__"}
)
# A block without one of these names reads nothing of its module.
_WORDS = (*_NAMESPACE_FUNCTIONS, *_MODULE_ATTRIBUTES, "__name__", "exec")


def note_module_state(block: Block) -> tuple[str, ...]:
    """A note for each kind of code that reads the path or the names of its own file."""
    found = {text for _, _, text in _find_module_reads(block.text) if text != "__name__"}
    return tuple(
        f"{text} is that of the flat file, not of the file in transformers"
        for text in sorted(found)
    )


def refuse_module_reads(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG133 for code that reads the path of its file or the table of its names."""
    home = module.source.module
    if home.startswith(f"{MODELS}."):
        return  # `note_module_state` notes it
    # A module that the output follows is carried whole, so that its names are all there.
    is_followed = home in naming.plan.bases.values()
    for line, column, spelled in _find_module_reads(block.text):
        word = spelled.partition("(")[0]
        reads_names = word in _NAMESPACE_FUNCTIONS or "sys.modules" in word
        if is_followed and reads_names:
            continue
        if word.isidentifier() and _is_assigned(module, word):
            continue
        at = module.source.at(block.first + line - 1, column)
        what = f"{spelled} would be another file's than that of {module.source.path}"
        raise PatchgenError("PG133", at, what, _suggest(word))


def _suggest(word: str) -> str:
    """What to write instead of reading `word`."""
    if word == "__doc__":
        return "write the text out, or keep it under a name of its own"
    return (
        "name what is needed: a table of classes for globals(), "
        "a path that is handed in for __file__"
    )


def _is_assigned(module: ModuleIndex, name: str) -> bool:
    """Whether `module` gives `name` a value of its own, and so hides the one from Python.

    `__doc__ += "..."` does not count, because it reads Python's value.
    """
    statements = [node for block in module.binders(name) for node in parse_once(block.text).body]
    if not statements:
        return False
    return not any(isinstance(node, ast.AugAssign) for node in statements)


# A block is asked twice: for what is refused, and for notes.
@functools.lru_cache(maxsize=4096)
def _find_module_reads(text: str) -> tuple[tuple[int, int, str], ...]:
    """The code in `text` that reads something of its module: (line, column, text)."""
    # The search for a word is quick, and almost no block has one as a whole.
    if not any(word in text and re.search(rf"\b{word}\b", text) for word in _WORDS):
        return ()
    return tuple(_find_reads_in(parse_once(text)))


def _find_reads_in(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """As `_find_module_reads`, of a tree."""
    inside = find_inner_nodes(tree)
    harmless = _find_names_of_classes(tree)
    for node in walk(tree):
        harmless |= {id(name) for name in _find_harmless_names(node)}
    # A parent is walked before its children: what it adds to `harmless` counts for them.
    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
                if _lists_module_names(name, is_inside=id(node) in inside):
                    yield node.lineno, node.col_offset, f"{name}()"
            case ast.Call(func=ast.Name(id="exec"), args=[_]):
                yield node.lineno, node.col_offset, "exec(...)"
            case ast.Subscript(
                value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__") as own
            ):
                # `sys.modules[__name__]` is one finding: its `__name__` is no second one.
                harmless.add(id(own))
                yield node.lineno, node.col_offset, ast.unparse(node)
            case ast.Name(id=name) if id(node) not in harmless:
                if name == "__name__" or name in _MODULE_ATTRIBUTES:
                    yield node.lineno, node.col_offset, name


def _lists_module_names(function: str, *, is_inside: bool) -> bool:
    """Whether a call of `function` without arguments gives the names of the module."""
    if function not in _NAMESPACE_FUNCTIONS:
        return False
    # In a function, all but `globals()` read the names of the function.
    return function == "globals" or not is_inside


def find_inner_nodes(tree: ast.Module) -> set[int]:
    """The ids of the nodes inside functions, classes and lambdas."""
    inside: set[int] = set()
    for scope in walk(tree):
        if isinstance(scope, ScopeNode):
            inside |= {id(child) for child in walk(scope) if child is not scope}
    return inside


def _find_names_of_classes(tree: ast.Module) -> set[int]:
    """The ids of names in class bodies that mean an attribute of the class, as `__doc__` may."""
    found: set[int] = set()
    for owner in walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        # A docstring binds `__doc__` before the first statement runs.
        bound = set() if ast.get_docstring(owner) is None else {"__doc__"}
        for statement in owner.body:
            is_assignment = isinstance(statement, ast.Assign | ast.AnnAssign)
            for node in own_nodes([statement]):
                if not isinstance(node, ast.Name):
                    continue
                # `__doc__ += "..."` reads what is bound above, in the class or in the module.
                is_set = is_assignment and isinstance(node.ctx, ast.Store)
                if is_set or node.id in bound:
                    found.add(id(node))
            if is_assignment:
                bound.update(bound_names([statement]))
    return found


def _find_harmless_names(node: ast.AST) -> Iterator[ast.AST]:
    """Names in places where another `__name__` does no harm.

    These are the name of a logger or of an operator, and `if __name__ == "__main__"`.
    """
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if "ogger" in name:
            yield from node.args
        case ast.Call(func=ast.Attribute(attr="custom_op"), args=[registered, *_]):
            # torch has one table of operators: the flat file should register its own.
            yield from walk(registered)
        case ast.Compare(left=left):
            yield left

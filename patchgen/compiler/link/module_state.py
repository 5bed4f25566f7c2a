"""Refuse code whose meaning depends on the module that it stands in.

    toy.SCALE = 3                   in a function, it would set a local variable of the flat file
    global SCALE                    over `from toy import SCALE`: one name for those of two modules
    globals()["ToyBlock"]           the flat file has other names than the module
    try: from .fast import act      a flattened module, which may not exist
    open(__file__)                  the path of another file

Such a block is refused.  Where it is transformers' own and the code reads only the path or the
names of its file, the output gets a note instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.plan.flatten_scope import MODELS
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.bound import ScopeNode, own_nodes
from patchgen.syntax.scopes import references

_NAMESPACE_FUNCTIONS = frozenset({"globals", "vars", "locals", "dir"})
_MODULE_ATTRIBUTES = frozenset(
    {"__file__", "__spec__", "__loader__", "__cached__", "__path__", "__package__", "__doc__"}
)
# A block without one of these words reads nothing of its module.
_WORDS = (*_NAMESPACE_FUNCTIONS, *_MODULE_ATTRIBUTES, "__name__", "exec")


def refuse_module_state(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PatchgenError PG131, PG132 or PG133 where `block` depends on its module."""
    _refuse_conditional_imports(module, block, naming)
    _refuse_stores(module, block, naming)
    _refuse_global_statements(module, block, naming)
    _refuse_stale_imports(module, block, naming)
    _refuse_module_reads(module, block, naming)


def note_module_state(block: Block) -> tuple[str, ...]:
    """A note for each kind of code that reads the path or the names of its own file."""
    found = {text for _, _, text in _find_module_reads(block) if text != "__name__"}
    return tuple(
        f"{text} is that of the flat file, not of the file in transformers"
        for text in sorted(found)
    )


def _refuse_conditional_imports(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG131 for an import that stays as it is, from a module that the flat file replaces."""
    if not block.is_guarded and block.kind != "import":
        return
    for item in block.imports:
        if not naming.bindings.is_contested(module, item.bound):
            continue
        at = module.source.at(item.line, item.column)
        symbol = naming.bindings.canonical(naming.bindings.imported_symbol(module, item), at)
        home = symbol.module
        # transformers' own modules can be imported wherever the flat file is used.
        if not _is_flattened(home, naming) or home.startswith(f"{MODELS}."):
            continue
        if block.is_guarded:
            what = f"{item.bound} is imported under a condition from {home}, which is flattened"
            hint = "import it without a condition, or inside a function: such imports stay imports"
        else:
            what = f"{item.bound} is imported from {home}, which is flattened, and bound here again"
            hint = f"import it under another name: from {home} import {item.name} as _{item.name}"
        raise PatchgenError("PG131", at, what, hint)


def _is_flattened(module: str, naming: Naming) -> bool:
    bindings = naming.bindings
    return bindings.flatten_scope.flattens(module) and bindings.env.path(module) is not None


def _refuse_stores(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for `toy.SCALE = 3` in a function or class.

    At the top of a file such a statement binds SCALE in the flat file too.
    """
    if block.kind == "import":
        return
    tree = ast.parse(block.text)
    stores = _find_inner_stores(tree)
    if not stores:
        return
    for reference in references(tree.body, block.lazy_annotations):
        store = stores.get((reference.line, reference.column))
        if store is None:
            continue
        target = _find_stored_module(module, reference.name, reference.attributes, naming)
        if target is not None:
            at = module.source.at(block.first + reference.line - 1, reference.column)
            what = (
                f"{ast.unparse(store)} is set here, "
                f"which is a name of the flattened module {target}"
            )
            hint = "keep the value in an object that both can change, such as a dictionary"
            raise PatchgenError("PG132", at, what, hint)


def _find_inner_stores(tree: ast.Module) -> dict[tuple[int, int], ast.Attribute]:
    """The attributes of names that functions and classes set, by the position of the name."""
    inside = _find_inner_nodes(tree)
    stores: dict[tuple[int, int], ast.Attribute] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        root = _find_root(node)
        if root is not None and id(node) in inside:
            stores[root.lineno, root.col_offset] = node
    return stores


def _find_inner_nodes(tree: ast.Module) -> set[int]:
    """The ids of the nodes inside functions, classes, lambdas and comprehensions."""
    inside: set[int] = set()
    for scope in ast.walk(tree):
        if isinstance(scope, ScopeNode):
            inside |= {id(child) for child in ast.walk(scope) if child is not scope}
    return inside


def _find_root(node: ast.expr) -> ast.Name | None:
    """The name `a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _find_stored_module(
    module: ModuleIndex, name: str, attributes: tuple[str, ...], naming: Naming
) -> str | None:
    """The flattened module of which `name.attributes` is a name, else None."""
    symbol = naming.bindings.meaning(module, name)
    for attribute in attributes[:-1]:
        if (
            symbol is None
            or symbol.name
            or not naming.bindings.flatten_scope.flattens(symbol.module)
        ):
            return None
        member = Symbol(symbol.module, attribute)
        symbol = naming.bindings.canonical(member, Location(module.source.path))
    if symbol is None or symbol.name or not _is_flattened(symbol.module, naming):
        return None
    return symbol.module


def _refuse_global_statements(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for `global NAME` over an imported name of a flattened module."""
    for name, line, column in _find_global_names(block):
        imported = _find_flattened_import(module, name, naming)
        if imported is not None:
            at = module.source.at(block.first + line - 1, column)
            what = (
                f"global {name} binds this file's own {name}, which is {imported} in the flat file"
            )
            hint = f"give this file's own another name: _{name} = {name}"
            raise PatchgenError("PG132", at, what, hint)


def _refuse_stale_imports(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for an imported name whose own module gives it other values later.

    In Python the importing file keeps the first value; in the flat file both are one name.
    """
    for reference in block.references:
        imported = _find_flattened_import(module, reference.name, naming)
        if imported is not None and _is_rebound(imported, naming):
            at = module.source.at(block.first + reference.line - 1, reference.column)
            what = (
                f"{reference.name} was imported by its name, "
                f"and {imported.module} binds {imported.name} anew later"
            )
            hint = (
                f"import the module and write <module>.{imported.name} "
                "for the value that it has by then"
            )
            raise PatchgenError("PG132", at, what, hint)


def _find_flattened_import(module: ModuleIndex, name: str, naming: Naming) -> Symbol | None:
    """What `name` stands for, where `module` imports it from a flattened module."""
    symbol = naming.bindings.meaning(module, name)
    if symbol is None or not symbol.name or symbol.module == module.source.module:
        return None
    return symbol if _is_flattened(symbol.module, naming) else None


def _find_global_names(block: Block) -> Iterator[tuple[str, int, int]]:
    """The names of `global` statements, with their positions."""
    if "global" not in block.text:
        return
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Global):
            for name in node.names:
                yield name, node.lineno, node.col_offset


def _is_rebound(symbol: Symbol, naming: Naming) -> bool:
    """Whether a function of its module binds `symbol` again."""
    index = naming.bindings.env.index(symbol.module, Location(symbol.module))
    for block in index.blocks:
        for name, _, _ in _find_global_names(block):
            if name == symbol.name:
                return True
    return False


def _refuse_module_reads(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG133 for code that reads the path of its file or the table of its names."""
    home = module.source.module
    if home.startswith(f"{MODELS}."):
        return  # `note_module_state` notes it
    # A module that the output follows is carried whole, so that its names are all there.
    is_followed = home in naming.plan.bases.values()
    for line, column, spelled in _find_module_reads(block):
        word = spelled.partition("(")[0]
        reads_names = word in _NAMESPACE_FUNCTIONS or "sys.modules" in word
        if is_followed and reads_names:
            continue
        if word.isidentifier() and _is_assigned(module, word):
            continue
        at = module.source.at(block.first + line - 1, column)
        what = f"{spelled} would be another file's than that of {module.source.path}"
        if word == "__doc__":
            hint = "write the text out, or keep it under a name of its own"
        else:
            hint = (
                "name what is needed: a table of classes for globals(), "
                "a path that is handed in for __file__"
            )
        raise PatchgenError("PG133", at, what, hint)


def _is_assigned(module: ModuleIndex, name: str) -> bool:
    """Whether `module` gives `name` a value of its own, and so hides the one from Python.

    `__doc__ += "..."` does not count, because it reads Python's value.
    """
    statements = [node for block in module.binders(name) for node in ast.parse(block.text).body]
    if not statements:
        return False
    return not any(isinstance(node, ast.AugAssign) for node in statements)


def _find_module_reads(block: Block) -> Iterator[tuple[int, int, str]]:
    """The code that reads something of its module: (line, column, text)."""
    # The search for a word is quick, and almost no block has one.
    if not any(word in block.text for word in _WORDS):
        return
    tree = ast.parse(block.text)
    inside = _find_inner_nodes(tree)
    harmless = _find_class_docstrings(tree)
    for node in ast.walk(tree):
        harmless |= {id(name) for name in _find_harmless_names(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if (
                name in _NAMESPACE_FUNCTIONS
            ):
                # In a function, all but `globals()` read the names of the function.
                if name == "globals" or id(node) not in inside:
                    yield node.lineno, node.col_offset, f"{name}()"
            case ast.Call(func=ast.Name(id="exec"), args=[_]):
                yield node.lineno, node.col_offset, "exec(...)"
            case ast.Subscript(
                value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__") as own
            ):
                # `sys.modules[__name__]` is one finding: its `__name__` is no second one.
                harmless.add(id(own))
                yield node.lineno, node.col_offset, ast.unparse(node)
            case ast.Name(id=name) if name in _MODULE_ATTRIBUTES or name == "__name__":
                if id(node) not in harmless:
                    yield node.lineno, node.col_offset, name
            case _:
                pass


def _find_class_docstrings(tree: ast.Module) -> set[int]:
    """The ids of the names `__doc__` in the bodies of classes that have a docstring."""
    found: set[int] = set()
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef) and ast.get_docstring(owner) is not None:
            for node in own_nodes(owner.body):
                if isinstance(node, ast.Name) and node.id == "__doc__":
                    found.add(id(node))
    return found


def _find_harmless_names(node: ast.AST) -> Iterator[ast.AST]:
    """Names in places where another `__name__` does no harm.

    These are the name of a logger, and `if __name__ == "__main__"`.
    """
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if "ogger" in name:
            yield from node.args
        case ast.Compare(left=left):
            yield left
        case _:
            pass

"""Code that would mean another place in the flat file than in its own.

    toy.SCALE = 3                   in a function: a local variable of the flat file
    global SCALE                    over `from toy import SCALE`: one name of two modules
    globals()["ToyBlock"]           the names of the module, which the flat file does not have all, or has besides
    try: from .fast import act      a flattened module, of which nobody can say whether it is there

In: a block that is carried.  Out: nothing; such a block is refused, or, where it is transformers' own, noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.plan.flatten_scope import MODELS
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.scopes import ScopeNode, own_nodes, references

_OWN_NAMESPACE = frozenset({"globals", "vars", "locals", "dir"})
_OWN_FILE = frozenset(
    {"__file__", "__spec__", "__loader__", "__cached__", "__path__", "__package__", "__doc__"}
)


def refuse_module_state(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raises PG131, PG132 and PG133."""
    _refuse_conditional_imports(module, block, naming)
    _refuse_stores(module, block, naming)
    _refuse_rebinding(module, block, naming)
    _refuse_own_place(module, block, naming)


def _refuse_conditional_imports(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """An import that is carried as it stands has to find its module, which the flat file holds instead."""
    if not (block.is_guarded or block.kind == "import"):
        return
    for item in block.imports:
        if not naming.bindings.is_contested(module, item.bound):
            continue
        at = module.source.at(item.line, item.column)
        symbol = naming.bindings.canonical(naming.bindings.imported_symbol(module, item), at)
        if not _is_flattened(symbol.module, naming) or symbol.module.startswith(f"{MODELS}."):
            continue
        if block.is_guarded:
            what = f"{item.bound} is imported under a condition from {symbol.module}, which is flattened"
            hint = "import it without a condition, or inside a function: such imports stay imports"
        else:
            what = f"{item.bound} is imported from {symbol.module}, which is flattened, and bound here again"
            hint = f"import it under another name: from {symbol.module} import {item.name} as _{item.name}"
        raise PatchgenError("PG131", at, what, hint)


def _is_flattened(module: str, naming: Naming) -> bool:
    return (
        naming.bindings.flatten_scope.flattens(module)
        and naming.bindings.env.path(module) is not None
    )


def _refuse_stores(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """`toy.SCALE = 3` at the top of the file binds SCALE in the flat file too; in a function or class it would not."""
    if block.kind == "import":
        return
    tree = ast.parse(block.text)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ScopeNode)]
    inside = {id(child) for scope in scopes for child in ast.walk(scope) if child is not scope}
    stores = {
        (root.lineno, root.col_offset): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and id(node) in inside
        if (root := _root(node)) is not None
    }
    for reference in references(tree.body, block.lazy_annotations) if stores else ():
        store = stores.get((reference.line, reference.column))
        if store is None:
            continue
        at = module.source.at(block.first + reference.line - 1, reference.column)
        target = _module_before(module, reference.name, reference.attributes, naming)
        if target is not None:
            what = f"{ast.unparse(store)} is set here, which is a name of the flattened module {target}"
            hint = "keep the value in an object that both can change, such as a dictionary"
            raise PatchgenError("PG132", at, what, hint)


def _root(node: ast.expr) -> ast.Name | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _module_before(
    module: ModuleIndex, name: str, attributes: tuple[str, ...], naming: Naming
) -> str | None:
    """The flattened module of which the last of `attributes` is a name."""
    symbol = naming.bindings.meaning(module, name)
    for attribute in attributes[:-1]:
        if (
            symbol is None
            or symbol.name
            or not naming.bindings.flatten_scope.flattens(symbol.module)
        ):
            return None
        symbol = naming.bindings.canonical(
            Symbol(symbol.module, attribute), Location(module.source.path)
        )
    if symbol is None or symbol.name or not _is_flattened(symbol.module, naming):
        return None
    return symbol.module


def _refuse_rebinding(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """An imported name has the value of the import; the other module's name may get another one afterwards."""
    for name, line, column in _rebound_here(block):
        imported = naming.bindings.meaning(module, name)
        if imported is not None and imported.name and imported.module != module.source.module:
            if _is_flattened(imported.module, naming):
                at = module.source.at(block.first + line - 1, column)
                what = f"global {name} binds this file's own {name}, which is {imported} in the flat file"
                raise PatchgenError(
                    "PG132", at, what, f"give this file's own another name: _{name} = {name}"
                )
    for reference in block.references:
        imported = naming.bindings.meaning(module, reference.name)
        if imported is None or not imported.name or imported.module == module.source.module:
            continue
        if _is_flattened(imported.module, naming) and _is_rebound(imported, naming):
            at = module.source.at(block.first + reference.line - 1, reference.column)
            what = f"{reference.name} was imported by its name, and {imported.module} binds {imported.name} anew later"
            hint = f"import the module and write <module>.{imported.name} for the value that it has by then"
            raise PatchgenError("PG132", at, what, hint)


def _rebound_here(block: Block) -> Iterator[tuple[str, int, int]]:
    if "global" not in block.text:
        return
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Global):
            yield from ((name, node.lineno, node.col_offset) for name in node.names)


def _is_rebound(symbol: Symbol, naming: Naming) -> bool:
    """Whether a function of its module binds `symbol` anew."""
    index = naming.bindings.env.index(symbol.module, Location(symbol.module))
    return any(name == symbol.name for block in index.blocks for name, _, _ in _rebound_here(block))


def _refuse_own_place(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """What a module says of itself: the path of its file, the table of its names."""
    home = module.source.module
    if home.startswith(f"{MODELS}."):
        return  # what transformers does with its own place is noted, in `note_module_state`
    followed = home in naming.plan.bases.values()  # such a module is carried whole
    for line, column, spelled in _own_places(block):
        word = spelled.partition("(")[0]
        if followed and (word in _OWN_NAMESPACE or "sys.modules" in word):
            continue
        if word.isidentifier() and _is_bound_anew(module, word):
            continue
        at = module.source.at(block.first + line - 1, column)
        what = f"{spelled} would be another file's than that of {module.source.path}"
        hint = "name what is needed: a table of classes for globals(), a path that is handed in for __file__"
        hint = (
            "write the text out, or keep it under a name of its own" if word == "__doc__" else hint
        )
        raise PatchgenError("PG133", at, what, hint)


def _is_bound_anew(module: ModuleIndex, name: str) -> bool:
    """Whether a statement of `module` gives `name` a value that does not depend on the one that Python gives it."""
    statements = [node for block in module.binders(name) for node in ast.parse(block.text).body]
    return bool(statements) and not any(isinstance(node, ast.AugAssign) for node in statements)


def note_module_state(block: Block) -> tuple[str, ...]:
    """A note where code of transformers reads the path or the names of its own file."""
    spelled = {text for _, _, text in _own_places(block) if text != "__name__"}
    return tuple(
        f"{text} is that of the flat file, not of the file in transformers"
        for text in sorted(spelled)
    )


def _own_places(block: Block) -> Iterator[tuple[int, int, str]]:
    """(line, column, text) of what names the module that the code stands in."""
    if not any(word in block.text for word in (*_OWN_NAMESPACE, *_OWN_FILE, "__name__", "exec")):
        return
    tree = ast.parse(block.text)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ScopeNode)]
    inside = {id(child) for scope in scopes for child in ast.walk(scope) if child is not scope}
    owners = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and ast.get_docstring(node) is not None
    ]
    harmless = {
        id(n)
        for owner in owners
        for n in own_nodes(owner.body)
        if isinstance(n, ast.Name) and n.id == "__doc__"
    }
    harmless |= {id(name) for node in ast.walk(tree) for name in _names_of_loggers(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _OWN_NAMESPACE:
                if name == "globals" or id(node) not in inside:
                    yield node.lineno, node.col_offset, f"{name}()"
            case ast.Call(func=ast.Name(id="exec"), args=[_]):
                yield node.lineno, node.col_offset, "exec(...)"
            case ast.Subscript(
                value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__") as own
            ):
                harmless.add(id(own))
                yield node.lineno, node.col_offset, ast.unparse(node)
            case ast.Name(id=name) if (name in _OWN_FILE or name == "__name__") and id(
                node
            ) not in harmless:
                yield node.lineno, node.col_offset, name
            case _:
                pass


def _names_of_loggers(node: ast.AST) -> Iterator[ast.AST]:
    """`__name__` where another one does no harm: the name of a logger, and `if __name__ == "__main__"`."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if "ogger" in name:
            yield from node.args
        case ast.Compare(left=left):
            yield left
        case _:
            pass

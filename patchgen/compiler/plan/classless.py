"""Find the module that a modular file without classes is a variant of.

In: the index of a modular file that declares no class.  Out: the kind of its output and the module
that it follows: the one that it imports from and redefines a name of.  A file that imports from no
parent or defines nothing has no output.

    from transformers.models.llama.modeling_llama import rotate_half, LlamaModel
    def rotate_half(x): ...     # the file is a variant of modeling_llama
"""

from __future__ import annotations

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.flatten_scope import PARTS
from patchgen.compiler.plan.kinds import MODELING, kind_of_module
from patchgen.errors import PatchgenError, did_you_mean
from patchgen.syntax.blocks import Block, ModuleIndex

_HINT = (
    "declare a class of the parent that is meant, with the parent's name: class A(parent.A): pass"
)


def find_followed(modular: ModuleIndex, bindings: Bindings) -> dict[str, str]:
    """The module that the output of each kind follows, at most one.

    Raises PatchgenError PG125 where no imported module, or more than one, defines what the file
    defines.
    """
    # What the file defines itself; its imports say who the parents can be.
    own = {name: block for block in modular.blocks for name in _own_names(block)}
    parents = _parents(modular, bindings)
    if not own or not parents:
        return {}
    redefined = {
        module: [n for n in own if index.definition(n)] for module, index in parents.items()
    }
    meant = [module for module, names in redefined.items() if names]
    # One parent defines what the file defines: the output follows it.
    if len(meant) == 1:
        return {kind_of_module(meant[0]) or MODELING: meant[0]}
    if meant:
        name = redefined[meant[0]][0]
        both = [f"{redefined[module][0]} of {module}" for module in meant]
        what = (
            "no class is declared that says whose variant this is: "
            f"the file defines {' and '.join(both)} anew"
        )
        raise PatchgenError("PG125", modular.source.at(own[name].first), what, _HINT)
    name = next(iter(own))
    modules = ", ".join(parents)
    what = f"{name} takes the place of nothing in {modules}, and the file declares no class"
    # The name may be a misspelt one of a parent.
    near = did_you_mean(name, [known for index in parents.values() for known in index.names])
    raise PatchgenError("PG125", modular.source.at(own[name].first), what, near or _HINT)


def _own_names(block: Block) -> tuple[str, ...]:
    """The functions and constants that a block defines."""
    imported = {item.bound for item in block.imports}
    return tuple(
        name for name in block.defines if name not in imported and not name.startswith("__")
    )


def _parents(modular: ModuleIndex, bindings: Bindings) -> dict[str, ModuleIndex]:
    """The modules of models that the file imports, or imports names from, in order."""
    found: dict[str, ModuleIndex] = {}
    for item in (item for block in modular.blocks for item in block.imports):
        at = modular.source.at(item.line, item.column)
        symbol = bindings.canonical(bindings.imported_symbol(modular, item), at)
        if _may_be_followed(symbol.module, bindings):
            # A misspelt import is an error of its own.
            if symbol.name and symbol.name != "*":
                bindings.require(symbol, at)
            found[symbol.module] = bindings.env.index(symbol.module, at)
    return found


def _may_be_followed(module: str, bindings: Bindings) -> bool:
    is_modular = module.rpartition(".")[2].startswith("modular_")
    # A part adds to a model, and is no model to follow.
    is_part = module == PARTS or module.startswith(f"{PARTS}.")
    return bindings.flatten_scope.flattens(module) and not is_modular and not is_part

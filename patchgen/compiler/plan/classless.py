"""Find the module that a modular file without classes is a variant of.

In: the index of a modular file that declares no class.  Out: the kind of its output and the module
that it follows: the one that it imports from and redefines a name of.  A file that imports from no
parent or defines nothing has no output.

    from transformers.models.llama.modeling_llama import rotate_half, LlamaModel
    def rotate_half(x): ...     # the file is a variant of modeling_llama
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.flatten_scope import PARTS
from patchgen.compiler.plan.kinds import MODELING, kind_of_module
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import PatchgenError, did_you_mean

_HINT = (
    "declare a class of the parent that is meant, with the parent's name: class A(parent.A): pass"
)


def find_followed(modular: ModuleIndex, bindings: Bindings) -> dict[str, str]:
    """The module that the output of each kind follows, at most one.

    Raises PatchgenError PG125 where no imported module, or more than one, defines what the file
    defines.
    """
    # What the file defines itself; its imports say who the parents can be.
    own: dict[str, Block] = {}
    for block in modular.blocks:
        own.update(dict.fromkeys(_own_names(block), block))
    parents = list_parents(modular, bindings)
    if not own or not parents:
        return {}
    redefined: dict[str, list[str]] = {}
    for module, index in parents.items():
        names = [name for name in own if index.definition(name)]
        if names:
            redefined[module] = names
    if not redefined:
        raise _refuse_unrelated(modular, own, parents)
    module, names = next(iter(redefined.items()))
    if len(redefined) > 1:
        what = (
            "no class is declared that says whose variant this is: "
            f"the file defines {_list_redefined(redefined)} anew"
        )
        raise PatchgenError("PG125", modular.source.at(own[names[0]].first), what, _HINT)
    # One parent defines what the file defines: the output follows it.
    return {kind_of_module(module) or MODELING: module}


def _list_redefined(redefined: Mapping[str, list[str]]) -> str:
    """`rotate_half of MODULE and rms_norm of MODULE`: one name of each module is enough."""
    return " and ".join(f"{names[0]} of {module}" for module, names in redefined.items())


def _refuse_unrelated(
    modular: ModuleIndex, own: Mapping[str, Block], parents: Mapping[str, ModuleIndex]
) -> PatchgenError:
    """The error for a file that replaces nothing, with the name most like its own."""
    name = next(iter(own))
    modules = ", ".join(parents)
    what = f"{name} takes the place of nothing in {modules}, and the file declares no class"
    # The name may be a misspelt one of a parent.
    known: list[str] = []
    for index in parents.values():
        known += index.names
    hint = did_you_mean(name, known) or _HINT
    return PatchgenError("PG125", modular.source.at(own[name].first), what, hint)


def _own_names(block: Block) -> list[str]:
    """The functions and constants that a block defines."""
    imported = {item.bound for item in block.imports}
    # `__all__` and `__version__` are every module's own.
    return [name for name in block.defines if name not in imported and not name.startswith("__")]


def list_parents(modular: ModuleIndex, bindings: Bindings) -> dict[str, ModuleIndex]:
    """The modules of models that the file imports, or imports names from, in order."""
    found: dict[str, ModuleIndex] = {}
    for item in modular.imports:
        at = modular.source.at(item.line, item.column)
        symbol = bindings.canonical(bindings.imported_symbol(modular, item), at)
        if not _may_be_followed(symbol.module, bindings):
            continue
        # A misspelt import is an error of its own.
        if symbol.name and symbol.name != "*":
            bindings.require(symbol, at)
        found[symbol.module] = bindings.env.index(symbol.module, at)
    return found


def _may_be_followed(module: str, bindings: Bindings) -> bool:
    """Whether an output can be a variant of `module`."""
    # A modular file is a declaration, and its output the variant of a third file.
    if module.rpartition(".")[2].startswith("modular_"):
        return False
    # A part adds to a model, and is no model to follow.
    if module == PARTS or module.startswith(f"{PARTS}."):
        return False
    return bindings.flatten_scope.flattens(module)

"""Find whether more than the last value of a name counts while a module is imported.

    ACT = "gelu"
    TABLE = {"act": ACT}        reads the first value: both statements have to be carried
    ACT = "silu"

What functions read when they are called later is the last value, and needs no more than that.
"""

from __future__ import annotations

from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.side_effects import read_import_effects


def is_read_between(module: ModuleIndex, binders: tuple[Block, ...], name: str) -> bool:
    """Whether a value of `name` before its last one may be read while `module` is imported."""
    if len(binders) == 1:
        return False
    last = binders[-1]
    between = _list_between(module, binders[0], last)
    for block in between:
        # Under a condition, which value is the last one is known at run time only.
        may_be_last = block is not between[-1] and block.is_guarded and name in block.defines
        if may_be_last or _reads_eagerly(block, name):
            return True
    # A call in between may run a function above it, which reads the name.
    calls_nothing = all(read_import_effects(block.text).is_pure for block in between)
    if calls_nothing:
        return False
    above = (block for block in module.blocks if block.first < last.first)
    return any(name in block.uses for block in above)


def _list_between(module: ModuleIndex, first: Block, last: Block) -> list[Block]:
    """The statements from `first` to `last`, both included, without imports."""
    found = []
    for block in module.blocks:
        if first.first <= block.first <= last.last and block.kind != "import":
            found.append(block)
    return found


def _reads_eagerly(block: Block, name: str) -> bool:
    """Whether the statement reads `name` when it runs."""
    for reference in block.references:
        if reference.name == name and reference.eager:
            return True
    return False

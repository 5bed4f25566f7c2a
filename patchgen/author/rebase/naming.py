"""A parent's members in the names that its classes have in an output.

parent   class LlamaMLP:                  modular file   class TinyMLP(llama.LlamaMLP): ...
             ... LlamaConfig ...
named    class TinyMLP:
             ... TinyConfig ...
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.align.file import File, Member
from patchgen.author.rebase.declared import Declared
from patchgen.author.rebase.rewriting import member_of


def output_of(module: str, outputs: Mapping[str, File]) -> File | None:
    """The output that is made from `module` of transformers: the one of its kind.

    The kind is the first word of the name: modeling, configuration, ...
    """
    kind = module.rpartition(".")[2].partition("_")[0]
    return next((file for name, file in outputs.items() if name.startswith(kind)), None)


def in_names_of(output: File, file: File, change: Declared) -> File:
    """The file of a parent in the names of the output."""
    if file.source.module != change.module or change.owner == change.parent:
        return file
    return pair_with_parent(file, output, change.module).parent


def changed_member(file: File, change: Declared, owner: str) -> Member | None:
    """The member that a declaration changes, of the class by its new name or of `owner`."""
    members = (member_of(file, name, change.member) for name in (change.owner, owner))
    return next((member for member in members if member is not None), None)

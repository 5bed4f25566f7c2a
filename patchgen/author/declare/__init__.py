"""`patchgen new`: the modular file of a variant, written by what `patchgen.author.anatomy` finds in its parent."""

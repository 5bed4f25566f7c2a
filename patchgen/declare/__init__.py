"""`patchgen new`: the modular file of a variant, written by what `patchgen.anatomy` finds in its parent."""

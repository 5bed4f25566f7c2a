"""`patchgen new`: write the modular file of a variant, from the structure of its parent."""

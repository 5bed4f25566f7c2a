"""What `patchgen lint` finds in transformers' own modular files: where the shipped files are not
what Python would do.

`case` reads a modular file with its parents and outputs; every other module answers one question
about it; `findings` asks them all.  Nothing is imported or run.
"""

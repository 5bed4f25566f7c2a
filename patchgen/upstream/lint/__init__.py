"""Find where transformers' shipped files are not what Python's inheritance would give.

`case` reads a modular file with its parents and outputs, each rule answers one question about it,
and `rules` lists them.  Nothing is imported or run.
"""

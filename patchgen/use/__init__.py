"""Variants used as models of transformers are: loaded, put behind the auto classes, exported.

Needs torch and transformers; nothing else in patchgen imports it, but for `patchgen.load` and `patchgen.register`,
which do when they are first read.
"""

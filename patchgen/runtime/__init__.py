"""Variants used as models of transformers are: loaded, put behind the auto classes, exported.

Importing it registers the attention implementation "varlen" (`patchgen.runtime.varlen`) and the
experts implementation "lean" (`patchgen.runtime.lean_experts`) where torch and transformers are
installed, which all else here needs.  Nothing else in patchgen imports it, but for `patchgen.load`
and `patchgen.register`, which do when they are first read.
"""

from importlib.util import find_spec

if find_spec("torch") and find_spec("transformers"):
    import patchgen.runtime.lean_experts
    import patchgen.runtime.varlen  # noqa: F401

"""Flatten thin subclasses of Hugging Face models into single modeling files, statically.

This package imports nothing by itself, so that `import patchgen` costs nothing: `patchgen.load`,
`patchgen.register` and `patchgen.unpatch`, which use the models, are imported when they are first
read.
"""

# Not imported from `typing`: with `python -m patchgen`, the current folder could have one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from patchgen.loading import load as load
    from patchgen.runtime.register import register as register
    from patchgen.unpatching.unpatch import unpatch as unpatch

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    if name == "load":
        from patchgen.loading import load

        return load
    if name == "register":
        from patchgen.runtime.register import register

        return register
    if name == "unpatch":
        from patchgen.unpatching.unpatch import unpatch

        return unpatch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

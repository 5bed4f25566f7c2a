"""Flatten thin subclasses of Hugging Face models into single modeling files, statically.

    load(checkpoint, parts="fast")      a model with parts, in one line
    new, convert, check, verify         the commands of these names
    export, register, unpatch           a folder without patchgen, AutoModel, running patches

This package imports nothing by itself, so that `import patchgen` costs nothing: each function is
imported when it is first read.
"""

# Not imported from `typing`: with `python -m patchgen`, the current folder could have one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from patchgen.cli.origins import explain_tracebacks as explain_tracebacks
    from patchgen.loading import load as load
    from patchgen.notebook import check as check
    from patchgen.notebook import convert as convert
    from patchgen.notebook import new as new
    from patchgen.notebook import verify as verify
    from patchgen.runtime.export import export as export
    from patchgen.runtime.register import register as register
    from patchgen.unpatching.unpatch import unpatch as unpatch

__version__ = "0.2.0"


# Where each function is defined.
_PLACES = {
    "load": "patchgen.loading",
    "new": "patchgen.notebook",
    "convert": "patchgen.notebook",
    "check": "patchgen.notebook",
    "verify": "patchgen.notebook",
    "explain_tracebacks": "patchgen.cli.origins",
    "export": "patchgen.runtime.export",
    "register": "patchgen.runtime.register",
    "unpatch": "patchgen.unpatching.unpatch",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_PLACES[name]), name)
    except ModuleNotFoundError as error:
        from patchgen.project.origin import how_to_install, missing_package

        package = missing_package(error)
        what = f"patchgen.{name} needs {package}: {how_to_install(package)}"
        raise ModuleNotFoundError(what, name=package) from error


def __dir__() -> list[str]:
    return ["__version__", *_PLACES]

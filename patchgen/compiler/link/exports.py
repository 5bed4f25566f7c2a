"""The `__all__` of a flat file.

modeling_llama.py            __all__ = ["LlamaModel"]
modular_llama_fast.py        __all__ = ["LlamaFast"]
modeling_llama_fast.py       __all__ = ["LlamaModel", "LlamaFast"]
"""

from __future__ import annotations

from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.gather import Gathered
from patchgen.syntax.errors import PatchgenError


def render_exports(gathered: Gathered, builder: Builder) -> str:
    """The statement that binds `__all__`; "" leaves the one of the followed module as it is.

    Raises PatchgenError PG134 where a module works out its `__all__` when it runs.
    """
    declared = _find_declared_exports(gathered, builder)
    followed: tuple[str, ...] = ()
    if gathered.base is not None:
        exports = builder.index(gathered.base).exports
        # Its own statement is carried, and says all there is to say.
        if exports is None or set(declared) <= set(exports):
            return ""
        followed = exports
    _refuse_computed_exports(gathered, builder)
    added = [name for name in declared if name not in followed]
    names = [*followed, *added]
    if not names:
        return ""
    listed = ", ".join(f'"{name}"' for name in names)
    return f"\n\n__all__ = [{listed}]\n"


def _find_declared_exports(gathered: Gathered, builder: Builder) -> list[str]:
    """What the modular files export of this output, the one extended most first."""
    defined: set[str] = set()
    for block in gathered.blocks:
        defined.update(block.defines)
    declared: list[str] = []
    for layer in reversed(builder.naming.plan.layers):
        exported = layer.exports or ()
        # A file may export names of several outputs.
        declared += [name for name in exported if name in defined]
    return declared


def _refuse_computed_exports(gathered: Gathered, builder: Builder) -> None:
    """Raise PG134 for an `__all__` whose value only running the file can tell."""
    modules = [*builder.naming.plan.layers]
    if gathered.base is not None:
        modules.append(builder.index(gathered.base))
    for module in modules:
        if module.unread_exports is not None:
            at = module.source.at(module.unread_exports.first)
            hint = "write the names out, as strings in a list"
            raise PatchgenError("PG134", at, "__all__ is worked out when the file runs", hint)

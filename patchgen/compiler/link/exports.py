"""The `__all__` of a flat file.

modeling_llama.py            __all__ = ["LlamaModel"]
modular_llama_fast.py        __all__ = ["LlamaFast"]
modeling_llama_fast.py       __all__ = ["LlamaModel", "LlamaFast"]
"""

from __future__ import annotations

from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.gather import Gathered
from patchgen.errors import PatchgenError


def render_exports(gathered: Gathered, builder: Builder) -> str:
    """The statement that binds `__all__`; "" leaves the one of the followed module as it is.

    Raises PatchgenError PG134 where a module works out its `__all__` when it runs.
    """
    defined = {name for block in gathered.blocks for name in block.defines}
    declared = []
    for layer in reversed(builder.naming.plan.layers):
        declared += [name for name in layer.exports or () if name in defined]
    if gathered.base is None:
        names = declared
    else:
        followed = builder.index(gathered.base).exports
        if followed is None or set(declared) <= set(followed):
            return ""
        names = [*followed, *(name for name in declared if name not in followed)]
    _refuse_computed_exports(gathered, builder)
    if not names:
        return ""
    listed = ", ".join(f'"{name}"' for name in names)
    return f"\n\n__all__ = [{listed}]\n"


def _refuse_computed_exports(gathered: Gathered, builder: Builder) -> None:
    modules = [*builder.naming.plan.layers]
    if gathered.base is not None:
        modules.append(builder.index(gathered.base))
    for module in modules:
        if module.unread_exports is not None:
            at = module.source.at(module.unread_exports.first)
            hint = "write the names out, as strings in a list"
            raise PatchgenError("PG134", at, "__all__ is worked out when the file runs", hint)

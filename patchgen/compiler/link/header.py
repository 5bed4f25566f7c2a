"""The text around the blocks of a flat file: licences, `__all__`, and names in docstrings.

modular_tiny.py              # Copyright 2025 The Tiny team
                             __all__ = ["TinyModel"]
modeling_llama.py            # Copyright 2022 EleutherAI
                             __all__ = ["LlamaModel"]

modeling_tiny.py             # Copyright 2025 The Tiny team
                             #
                             # Copyright 2022 EleutherAI
                             __all__ = ["LlamaModel", "TinyModel"]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import declares_another_encoding

# transformers marks its generated files with lines between two of these.
_GENERATED_MARK = "🚨"


def render_header(gathered: Gathered, builder: Builder) -> str:
    """The first comments of the modular file and of its parents, each text once."""
    plan = builder.plan
    parents: Sequence[str] = [gathered.base] if gathered.base else plan.parents
    sources = (plan.modular.source.module, *parents, *find_origins(gathered.blocks, plan))
    texts = [_find_first_comment(builder.index(module)) for module in sources]
    return "#\n".join(dict.fromkeys(filter(None, texts)))


def find_origins(blocks: Sequence[FlatBlock], plan: ModulePlan) -> tuple[str, ...]:
    """The modules of others that `blocks` were copied from."""
    origins: dict[str, None] = {}
    for block in blocks:
        for rewritten in block.rewritten:
            module = rewritten.symbol.module
            # The licence of a part is that of patchgen, whose output belongs to its user.
            is_upstream = module in plan.parents or module.startswith("transformers.")
            if is_upstream and module not in plan.modules:
                origins[module] = None
    return tuple(origins)


def _find_first_comment(index: ModuleIndex) -> str:
    """The first comment block of a file, without shebang and coding lines."""
    text = index.blocks[0].leading if index.blocks else index.tail
    lines = []
    for line in text.splitlines(True):
        if not (line.startswith("#!") or "coding:" in line or declares_another_encoding(line)):
            lines.append(line)
    # What stands between the marks is true of the generated file, not of a copy.
    marks = [number for number, line in enumerate(lines) if _GENERATED_MARK in line]
    if marks:
        lines = lines[: marks[0]] + lines[marks[-1] + 1 :]
    comment = "".join(lines).strip("\n")
    return f"{comment}\n" if comment.strip() else ""


def render_exports(gathered: Gathered, builder: Builder) -> str:
    """The statement that binds `__all__`; "" leaves the one of the followed module as it is.

    Raises PatchgenError PG134 where a module works out its `__all__` when it runs.
    """
    defined = set[str]().union(*(block.defines for block in gathered.blocks))
    modules = builder.plan.layers
    # The file that is extended most first; a file may export names of several outputs.
    exported: list[str] = []
    for layer in reversed(modules):
        exported += layer.exports or ()
    declared = [name for name in exported if name in defined]
    inherited: tuple[str, ...] = ()
    if gathered.base is not None:
        base = builder.index(gathered.base)
        # Its own statement is carried, and says all there is to say.
        if base.exports is None or set(declared) <= set(base.exports):
            return ""
        inherited = base.exports
        modules = (*modules, base)
    for module in modules:
        if module.unread_exports is not None:
            at = module.source.at(module.unread_exports.first)
            hint = "write the names out, as strings in a list"
            raise PatchgenError("PG134", at, "__all__ is worked out when the file runs", hint)
    names = dict.fromkeys([*inherited, *declared])
    listed = ", ".join(f'"{name}"' for name in names)
    return f"\n\n__all__ = [{listed}]\n" if names else ""


DOCSTRING_IMPORT = "import contextlib\n"

_AUTO_DOCSTRING = '''

def auto_docstring(documented=None, write=auto_docstring, **arguments):
    """transformers' decorator, which knows the names and the arguments of its own models only."""
    if documented is None:
        return lambda documented: auto_docstring(documented, **arguments)
    with contextlib.redirect_stdout(None):
        write(documented, **arguments)
    text = documented.__doc__{replaced}
    return documented
'''
# What transformers writes where it finds no name, by the kind of output.
_NAMELESS = {
    MODELING: {
        "The None ": "The {name} ",
        "bare None ": "bare {name} ",
        "[`None`]": "[`{config}`]",
    },
    "configuration": {"a None.": "a {name} model.", "instantiate a None": "instantiate a {name}"},
}
_PARAMETERS = re.compile(r"^    (?:def __init__|\w+:)", re.MULTILINE)
_CONFIG = re.compile(r'^ +config(?:_class =|:) "?(\w*Config)\b', re.MULTILINE)


def render_auto_docstring(gathered: Gathered, builder: Builder) -> str:
    """A decorator `auto_docstring` that names the model, where transformers' would not.

    That is in a new model, and where a variant has parameters that transformers would report as not
    documented.  It needs `DOCSTRING_IMPORT`.
    """
    imported = {item.name for item in gathered.imports if item.symbol.name == "auto_docstring"}
    nameless = _NAMELESS.get(gathered.kind)
    if nameless is None or "auto_docstring" not in imported:
        return ""
    # A documented class of a variant may have an `__init__` or fields from the modular file.
    if gathered.base is not None and not any(
        len(block.rewritten) > 1
        and "@auto_docstring" in block.text
        and _PARAMETERS.search(block.rewritten[0].text)
        for block in gathered.blocks
    ):
        return ""
    # As transformers has it: the folder of a model, in words.
    name = builder.plan.modular.source.path.rpartition("/")[2]
    name = name.removeprefix("modular_").removesuffix(".py")
    if gathered.base is not None and gathered.base.startswith(f"{MODELS}."):
        name = gathered.base.split(".")[2]
    title = name.replace("_", " ").title()
    # A part of a model may have a configuration of its own, with a longer name.
    configs: list[str] = []
    for block in gathered.blocks:
        configs += _CONFIG.findall(block.text)
    config = min(configs, key=len, default="PreTrainedConfig")
    *others, last = [
        f'.replace("{old}", "{new.format(name=title, config=config)}")'
        for old, new in nameless.items()
    ]
    replaced = f"{''.join(others)}\n    documented.__doc__ = text{last}"
    return _AUTO_DOCSTRING.replace("{replaced}", replaced)

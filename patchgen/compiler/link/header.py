"""The comments at the top of a flat file: the licences of the files that it was made from.

modular_tiny.py              # Copyright 2025 The Tiny team
modeling_llama.py            # Copyright 2022 EleutherAI

modeling_tiny.py             # Copyright 2025 The Tiny team
                             #
                             # Copyright 2022 EleutherAI
"""

from __future__ import annotations

from collections.abc import Sequence

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.text import declares_another_encoding

# transformers marks its generated files with lines between two of these.
_GENERATED_MARK = "🚨"


def render_header(gathered: Gathered, builder: Builder) -> str:
    """The first comments of the modular file and of its parents, each text once."""
    plan = builder.naming.plan
    parents: Sequence[str] = plan.parents
    if gathered.base:
        parents = [gathered.base]
    sources = (plan.modular.source.module, *parents, *find_origins(gathered.blocks, plan))
    texts = [_find_first_comment(builder.index(module)) for module in sources]
    return "#\n".join(dict.fromkeys(text for text in texts if text))


def find_origins(blocks: Sequence[FlatBlock], plan: ModulePlan) -> tuple[str, ...]:
    """The modules of others that `blocks` were copied from."""
    layers = {layer.source.module for layer in plan.layers}
    origins: dict[str, None] = {}
    for block in blocks:
        for rewritten in block.rewritten:
            module = rewritten.symbol.module
            if module in layers:
                continue
            # The licence of a part is that of patchgen, whose output belongs to its user.
            is_foreign = module in plan.parents or module.startswith("transformers.")
            if is_foreign:
                origins[module] = None
    return tuple(origins)


def _find_first_comment(index: ModuleIndex) -> str:
    """The first comment block of a file, without shebang and coding lines."""
    text = index.tail
    if index.blocks:
        text = index.blocks[0].leading
    lines = [line for line in text.splitlines(True) if not _is_directive(line)]
    # What stands between the marks is true of the generated file, not of a copy.
    marks = [number for number, line in enumerate(lines) if _GENERATED_MARK in line]
    if marks:
        first, last = marks[0], marks[-1]
        lines = lines[:first] + lines[last + 1 :]
    comment = "".join(lines)
    if not comment.strip():
        return ""
    return comment.strip("\n") + "\n"


def _is_directive(line: str) -> bool:
    """Whether a comment is read by the system or by Python; outputs are UTF-8."""
    if line.startswith("#!") or "coding:" in line:
        return True
    return declares_another_encoding(line)

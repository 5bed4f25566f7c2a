"""Which models of transformers derive from which, by their modular files.

A draft of LLaMA from Arcee would be circular: the modular file of Arcee derives from LLaMA.

    models/arcee/modular_arcee.py:  from ..llama.modeling_llama import LlamaForCausalLM
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

_READ = re.compile(r"^\s*from \.\.+(?:models\.)?(\w+)\.(modeling_\w+) import", re.MULTILINE)


@lru_cache(maxsize=4)
def read_lineage(models: Path) -> Mapping[str, frozenset[str]]:
    """The modules that the modular file of a model reads, each as `llama.modeling_llama`."""
    found = {}
    for path in sorted(models.glob("*/modular_*.py")):
        stem = path.stem.replace("modular_", "modeling_", 1)
        read = _READ.findall(path.read_text(encoding="utf-8", errors="replace"))
        found[f"{path.parent.name}.{stem}"] = frozenset(".".join(one) for one in read)
    return found


def find_heirs(module: str, lineage: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The modules that derive from `module`, or from one that does."""
    heirs: set[str] = set()
    left = [module]
    while left:
        parent = left.pop()
        more = {heir for heir, parents in lineage.items() if parent in parents} - heirs
        heirs |= more
        left += more
    return frozenset(heirs)

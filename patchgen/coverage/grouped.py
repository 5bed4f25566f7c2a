"""Grouped experts in a model: what transformers does already, and the modular file that the project has for the rest.

No writer makes these: experts in loops have a router and a capacity of their own in each model.  In: an environment,
whose project may have `modular/MODEL/modular_MODEL_grouped.py`.  Out: the text of that, or why there is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.anatomy.experts import Experts, experts
from patchgen.anatomy.module import Module
from patchgen.coverage.book import Entry
from patchgen.source.locate import Environment

GROUPED = "grouped"

_BY_INTERFACE = """{name} runs its experts by transformers' interface, which has grouped products:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
_GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
_NO_FILE = "{name} runs its experts {how}, and no modular file of this project has it otherwise"
_HOW = {"loop": "one after the other", "dense": "all on every token"}


def grouped(env: Environment, module: Module, file: str) -> tuple[str, Entry | None]:
    """(the modular file, None), or ("", why there is none); `file`: the dotted name that it has in the project."""
    found = experts(module)
    if not found:
        return "", Entry("not applicable", "no experts are run in this file")
    slow = next((one for one in found if one.kind in _HOW), None)
    if slow is None:
        return "", Entry("redundant", _fast(found[0]))
    path = env.path(file)
    if path is None:
        what = _NO_FILE.format(name=slow.owner.name, how=_HOW[slow.kind])
        return "", Entry("refused", f"{module.at(slow.owner.node)}: PG803 {what}")
    return path.read_text(encoding="utf-8"), None


def _fast(one: Experts) -> str:
    told = _BY_INTERFACE if one.kind == "interface" else _GATHERED
    return told.format(name=one.owner.name)


def classes_of(modular: str) -> Iterator[str]:
    """The classes that a modular file changes."""
    for node in ast.parse(modular).body:
        if isinstance(node, ast.ClassDef):
            yield node.name

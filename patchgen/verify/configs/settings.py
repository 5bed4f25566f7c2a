"""Which other configurations and heads a variant is run with.

Those of published checkpoints, what its parts read, and then whatever else its changed lines test.
Read from the record and from texts: nothing is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from patchgen.facts.published import OF_PARTS, PUBLISHED, Setting
from patchgen.facts.sizes import MORE_SIZES, SIZES
from patchgen.verify.configs.diff import VALUES, Read, find_defaults, find_reads
from patchgen.verify.diff_lines import find_touched_lines
from patchgen.verify.mutation.lines import read_flat_text
from patchgen.verify.variants import Variant

# Names that other cases change, or that no case can: how the model is called, and its purpose.
ELSEWHERE = re.compile(
    r"^_|^(output_\w+|return_dict|use_cache|is_encoder_decoder|is_decoder"
    r"|problem_type|num_labels|model_type|dtype)$"
    r"|drop|_types$|_token_id$|_pdrop$|^init"
)


def find_settings(variant: Variant) -> tuple[Setting, ...]:
    """All known settings, those of checkpoints first."""
    published = PUBLISHED.get(family_of(variant), ())
    text = text_of(variant)
    read = (name for name in OF_PARTS if re.search(rf"\b{name}\b", text))
    known = (*published, *(setting for name in read for setting in OF_PARTS[name]))
    return (*known, *_drawn(read_of(variant), known))


def changed_heads(variant: Variant) -> tuple[str, ...]:
    """The heads that contain a changed line."""
    changed = read_of(variant).classes
    return tuple(head for head in variant.heads if head in changed)


def head_for(variant: Variant, setting: Setting) -> str:
    """The head that reads a setting if no other class does, or the main one."""
    readers = read_of(variant).readers
    heads = [head for name in setting.changes for head in readers.get(name, ())]
    is_read_elsewhere = not setting.drawn or set(heads) - set(variant.heads)
    return variant.heads[0] if is_read_elsewhere or not heads else min(heads)


def _drawn(read: Read, known: tuple[Setting, ...]) -> Iterator[Setting]:
    """A setting for each value of a name that changed lines test, where no known one has it."""
    met = {name for setting in known for name in setting.changes}
    for name, values in read.values.items():
        is_size = (name in SIZES or name in MORE_SIZES) and name not in VALUES
        if is_size or name in met or ELSEWHERE.search(name):
            continue
        for value in values:
            yield Setting(f"{name}={value!r}", {name: value}, ("left",), drawn=True)


def family_of(variant: Variant) -> str:
    """The parent's folder in transformers."""
    return variant.parent.split(".")[-2] if "." in variant.parent else variant.parent


@functools.cache
def read_of(variant: Variant) -> Read:
    path = _path(variant)
    diff = path.with_suffix(".diff")
    if not path.is_file():
        return Read((), {})
    flat, replaced = read_flat_text(variant), frozenset[int]()
    lines = flat.changed
    if diff.is_file():
        changes = diff.read_text(encoding="utf-8")
        lines, replaced = find_touched_lines(changes), find_touched_lines(changes, of_old=True)
    defaults = find_defaults(_source_of(variant.parent.replace(".modeling_", ".configuration_")))
    own = path.with_name(path.name.replace("modeling_", "configuration_"))
    if own.is_file():
        defaults |= find_defaults(own.read_text(encoding="utf-8"))
    return find_reads(flat.text, lines, defaults, _source_of(variant.parent), replaced)


def _source_of(module: str) -> str:
    """The text of a module of the parent; nothing where there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return ""
    if spec is None or spec.origin is None:
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def text_of(variant: Variant) -> str:
    """Of the output; nothing where it is not there."""
    path = _path(variant)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _path(variant: Variant) -> Path:
    return Path(variant.home, *variant.module.split(".")).with_suffix(".py")

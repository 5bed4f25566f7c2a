"""Which configurations and heads a variant is run with, beside the tiny one and its first two.

Those of published checkpoints, what its parts read, and then whatever else its changed lines test.  Read from the
record and from texts: nothing is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from patchgen.verify.configs.diff import Read, defaults_of, read_by_changes
from patchgen.verify.configs.published import OF_PARTS, PUBLISHED, Setting
from patchgen.verify.configs.tiny import MORE_SIZES, SIZES
from patchgen.verify.variants import Subject

# What other cases are about, or no case can be: how the model is called, and what it is for.
ELSEWHERE = re.compile(
    r"^_|^(output_\w+|return_dict|use_cache|is_encoder_decoder|is_decoder|problem_type|num_labels|model_type|dtype)$"
    r"|drop|_types$|_token_id$|_pdrop$|hidden_act|activation"
)


def settings_of(subject: Subject) -> tuple[Setting, ...]:
    """All that are known, those of checkpoints first."""
    published = PUBLISHED.get(family_of(subject), ())
    text = text_of(subject)
    read = (name for name in OF_PARTS if re.search(rf"\b{name}\b", text))
    known = (*published, *(setting for name in read for setting in OF_PARTS[name]))
    return (*known, *_drawn(read_of(subject), known))


def changed_heads(subject: Subject) -> tuple[str, ...]:
    """The heads that a changed line stands in."""
    changed = read_of(subject).classes
    return tuple(head for head in subject.heads if head in changed)


def _drawn(read: Read, known: tuple[Setting, ...]) -> Iterator[Setting]:
    """A setting for each value of a name that changed lines test, where no known one has it."""
    met = {name for setting in known for name in setting.changes}
    for name, values in read.values.items():
        if name in SIZES or name in MORE_SIZES or name in met or ELSEWHERE.search(name):
            continue
        for value in values:
            yield Setting(f"{name}={value!r}", {name: value}, ("left",), drawn=True)


def family_of(subject: Subject) -> str:
    """The folder of the parent in transformers."""
    return subject.parent.split(".")[-2] if "." in subject.parent else subject.parent


@functools.cache
def read_of(subject: Subject) -> Read:
    path = _path(subject)
    diff = path.with_suffix(".diff")
    if not path.is_file() or not diff.is_file():
        return Read((), {})
    return read_by_changes(
        path.read_text(encoding="utf-8"), diff.read_text(encoding="utf-8"), _defaults(subject)
    )


def _defaults(subject: Subject) -> dict[str, object]:
    """Of the parent's configuration, by its file."""
    name = subject.parent.replace(".modeling_", ".configuration_")
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return {}
    return (
        {}
        if spec is None or spec.origin is None
        else defaults_of(Path(spec.origin).read_text(encoding="utf-8"))
    )


def text_of(subject: Subject) -> str:
    """Of the output; nothing where it is not there."""
    path = _path(subject)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _path(subject: Subject) -> Path:
    return Path(subject.home, *subject.module.split(".")).with_suffix(".py")

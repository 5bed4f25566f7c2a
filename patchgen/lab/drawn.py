"""Which configurations a variant is run with, beside the tiny one: those of published checkpoints, and its parts'.

Read from the record and the text of the output: nothing is imported.
"""

from __future__ import annotations

import re
from pathlib import Path

from patchgen.lab.published import OF_PARTS, PUBLISHED, Setting
from patchgen.lab.subject import Subject


def settings_of(subject: Subject) -> tuple[Setting, ...]:
    """All that are known, those of checkpoints first."""
    published = PUBLISHED.get(family_of(subject), ())
    text = text_of(subject)
    read = (name for name in OF_PARTS if re.search(rf"\b{name}\b", text))
    return (*published, *(setting for name in read for setting in OF_PARTS[name]))


def family_of(subject: Subject) -> str:
    """The folder of the parent in transformers."""
    return subject.parent.split(".")[-2] if "." in subject.parent else subject.parent


def text_of(subject: Subject) -> str:
    """Of the output; nothing where it is not there."""
    path = Path(subject.home, *subject.module.split(".")).with_suffix(".py")
    return path.read_text(encoding="utf-8") if path.is_file() else ""

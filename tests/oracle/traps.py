"""Fixed features: what goes wrong when the texts of two classes are laid over each other without thought.

They are data, in `cases/*.py`.  An entry begins with `# === name` and perhaps options (`# shapes: single, kept`),
then has the sections `# --- parent` and `# --- child` (members of the two classes), `# --- calls` (one a line, over
`obj`), and where needed `# --- top` and `# --- child_top` (module level).  `<1>` to `<3>` are numbers and `<M>` a
method name, drawn for each package.  PARENT, CHILD and OWNER are told in `case`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.oracle.case import Draw, Feature
from tests.oracle.features import Maker

FOLDER = Path(__file__).with_name("cases")
LISTS = ("shapes", "removed")


def read(path: Path) -> dict[str, Maker]:
    """The features of one file by name, in order."""
    _, *entries = re.split(r"^# === ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {entry.split("\n", 1)[0]: _maker(entry.split("\n", 1)[1]) for entry in entries}


def _maker(entry: str) -> Maker:
    head, *sections = re.split(r"^# --- ", entry, flags=re.MULTILINE)
    options = dict(re.findall(r"^# (\w+): (.*)$", head, flags=re.MULTILINE))
    texts = {section.split("\n", 1)[0]: section.split("\n", 1)[1].strip("\n") for section in sections}
    calls = texts.pop("calls").split("\n")

    def make(draw: Draw) -> Feature:
        tokens = {f"<{i}>": draw.number() for i in (1, 2, 3)} | {"<M>": draw.pick("forward", "step", "value_of")}

        def filled(text: str) -> str:
            for token, value in tokens.items():
                text = text.replace(token, value)
            return text

        lists = {key: tuple(options[key].split(", ")) for key in LISTS if key in options}
        plain = {key: filled(value) for key, value in {**options, **texts}.items() if key not in LISTS}
        return Feature(calls=tuple(map(filled, calls)), **plain, **lists)  # type: ignore[arg-type]

    return make


TRAPS: dict[str, Maker] = {name: maker for path in sorted(FOLDER.glob("*.py")) for name, maker in read(path).items()}

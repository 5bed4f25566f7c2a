"""Fixed features: what goes wrong when the texts of two classes are merged naively.

They are data, in `cases/*.py`.  An entry begins with `# === name` and perhaps options (`# shapes:
single, kept`), then has the sections `# --- parent` and `# --- child` (members of the two classes),
`# --- calls` (one a line, over `obj`), and where needed `# --- top` and `# --- child_top` (module
level).  `<1>` to `<3>` are numbers and `<M>` a method name, drawn for each package.  PARENT, CHILD
and OWNER are told in `case`.
"""

from __future__ import annotations

from pathlib import Path

from tests.oracle import sections
from tests.oracle.case import Draw, Feature
from tests.oracle.features import Maker

FOLDER = Path(__file__).with_name("cases")
LISTS = ("shapes", "removed")


def _maker(entry: sections.Entry) -> Maker:
    calls = entry.texts["calls"].strip("\n").split("\n")
    lists = {key: entry.names(key) for key in LISTS if key in entry.options}
    texts = {title: text.strip("\n") for title, text in entry.texts.items() if title != "calls"}

    def make(draw: Draw) -> Feature:
        tokens = {f"<{i}>": draw.number() for i in (1, 2, 3)} | {
            "<M>": draw.pick("forward", "step", "value_of")
        }

        def filled(text: str) -> str:
            for token, value in tokens.items():
                text = text.replace(token, value)
            return text

        plain = {
            key: filled(value)
            for key, value in {**entry.options, **texts}.items()
            if key not in LISTS
        }
        return Feature(calls=tuple(map(filled, calls)), **plain, **lists)  # type: ignore[arg-type]

    return make


TRAPS: dict[str, Maker] = {
    entry.name: _maker(entry)
    for path in sorted(FOLDER.glob("*.py"))
    for entry in sections.read(path)
}

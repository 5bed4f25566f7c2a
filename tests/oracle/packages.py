"""Fixed dimensions that concern whole modules: several bases, redefinitions, imports, order, edits.

They are data, in `cases/packages/*.py`.  An entry begins with `# === name`; then come `# classes:` (those to look at),
`# overrides:` (`Name` for one of the same name in the parent module, `Old > New` for a new one) and `# renames:`
(prefixes of class names, as inherited and as flat).  A section `# --- path` is a file of the package, `# --- oracle
path` the same file as Python's inheritance reads it, where the modular language departs from Python; `# --- probe` has
one step a line.  Every file but `__init__.py` gets an import of the kept library.  `<1>` to `<3>` are small numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.oracle.case import Case, Draw

FOLDER = Path(__file__).with_name("cases") / "packages"
PACKAGE = "toypack"
MODULAR = f"{PACKAGE}/modular_neo.py"
KEPT = "from oracle_kept import Loud, Meta, Module, Ready, logged, note, plus, registered, run, tracked\n"
FUTURE = "from __future__ import annotations\n"
Builder = Callable[[Draw, int, str], Case]


def read(path: Path) -> dict[str, Builder]:
    """The packages of one file by name, in order."""
    _, *entries = re.split(r"^# === ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {entry.split("\n", 1)[0]: _builder(entry.split("\n", 1)[1]) for entry in entries}


def _builder(entry: str) -> Builder:
    head, *sections = re.split(r"^# --- ", entry, flags=re.MULTILINE)
    options = {key: value.split(", ") for key, value in re.findall(r"^# (\w+): (.*)$", head, flags=re.MULTILINE)}
    texts = {section.split("\n", 1)[0]: section.split("\n", 1)[1].strip("\n") for section in sections}
    pairs = [pair.partition(" > ") for pair in options.get("overrides", [])]

    def build(draw: Draw, seed: int, dimension: str) -> Case:
        numbers = {f"<{i}>": draw.number() for i in (1, 2, 3)}

        def filled(text: str) -> str:
            for token, value in numbers.items():
                text = text.replace(token, value)
            return text

        files = {f"{PACKAGE}/__init__.py": ""}
        oracle = {}
        for title, text in texts.items():
            place = oracle if title.startswith("oracle ") else files
            path = title.removeprefix("oracle ")
            if path != "probe":
                place[f"{PACKAGE}/{path}"] = _file(path, filled(text))
        return Case(
            seed=seed,
            dimension=dimension,
            files=files,
            modular=MODULAR,
            probe=tuple(filled(texts["probe"]).split("\n")),
            classes=tuple(options["classes"]),
            oracle_files=oracle,
            overrides=tuple((f"{PACKAGE}.modeling_toy", old, new or old) for old, _, new in pairs),
            renames=tuple((old, new) for old, _, new in (p.partition(" > ") for p in options.get("renames", []))),
        )

    return build


def _file(path: str, text: str) -> str:
    if path == "__init__.py":
        return f"{text}\n"
    future = FUTURE if text.startswith(FUTURE) else ""
    return f'"""Generated."""\n\n{future}{KEPT}\n{text.removeprefix(future)}\n'


BUILDERS: dict[str, Builder] = {
    name: builder for path in sorted(FOLDER.glob("*.py")) for name, builder in read(path).items()
}

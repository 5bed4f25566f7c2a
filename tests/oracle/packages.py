"""Fixed dimensions that concern whole modules: several bases, redefinitions, imports, order, edits.

They are data, in `cases/packages/*.py`.  An entry begins with `# === name`;
then come `# classes:` (those to look at), `# overrides:` (`Name` for one of the same name in the
parent module, `Old > New` for a new one), `# renames:` (prefixes of class names, as inherited and
as flat) and `# parent:` (the module whose names are overridden).  A section `# --- path` is a file
of the package, `# --- oracle path` the same file as Python's inheritance reads it, where the
modular language departs from Python; `# --- probe` has one step a line.  Every file but
`__init__.py` gets an import of the kept library.  `<1>` to `<3>` are small numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.oracle import sections
from tests.oracle.case import Case, Draw

FOLDER = Path(__file__).with_name("cases")
PACKAGE = "toypack"
MODULAR = f"{PACKAGE}/modular_neo.py"
KEPT = (
    "from oracle_kept import Loud, Meta, Module, Ready, logged, note, plus, registered, run,"
    " tracked\n"
)
Builder = Callable[[Draw, int, str], Case]


def _builder(entry: sections.Entry) -> Builder:
    def build(draw: Draw, seed: int, dimension: str) -> Case:
        numbers = {f"<{i}>": draw.number() for i in (1, 2, 3)}

        def filled(text: str) -> str:
            for token, value in numbers.items():
                text = text.replace(token, value)
            return text

        parent = entry.options.get("parent", f"{PACKAGE}.modeling_toy")
        files = {f"{PACKAGE}/__init__.py": ""}
        oracle = {}
        for title, text in entry.texts.items():
            place = oracle if title.startswith("oracle ") else files
            path = title.removeprefix("oracle ")
            if path != "probe":
                place[f"{PACKAGE}/{path}"] = _file(path, filled(text))
        return Case(
            seed=seed,
            dimension=dimension,
            files=files,
            modular=MODULAR,
            probe=tuple(filled(entry.texts["probe"]).strip("\n").split("\n")),
            classes=entry.names("classes"),
            oracle_files=oracle,
            overrides=tuple((parent, old, new) for old, new in entry.pairs("overrides")),
            renames=entry.pairs("renames"),
        )

    return build


def _file(path: str, text: str) -> str:
    if path == "__init__.py":
        return text
    return f'"""Generated."""\n\n{KEPT}\n{text}'


def read(folder: Path) -> dict[str, Builder]:
    """The packages of every file in `folder` by name."""
    return {
        entry.name: _builder(entry)
        for path in sorted(folder.glob("*.py"))
        for entry in sections.read(path)
    }


BUILDERS = read(FOLDER / "packages")

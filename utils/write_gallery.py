"""Write the modular files of the gallery that `patchgen new` writes, as modular/gallery.toml asks.

python utils/write_gallery.py
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from patchgen.author.declare.request import answer
from patchgen.author.modular_text import format_modular
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment

REPOSITORY = Path(__file__).resolve().parents[1]
TABLE = REPOSITORY / "modular" / "gallery.toml"


def requests() -> dict[str, dict[str, object]]:
    """The rows of the table, by the names of the variants."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def written(name: str) -> tuple[Path, str]:
    """The modular file of the row `name`, and the text that `patchgen new` writes into it."""
    row = requests()[name]
    model, parts = str(row["model"]), list(map(str, row["parts"]))
    text = answer(make_environment(REPOSITORY), model, parts).text
    path = TABLE.parent / model / f"modular_{name}.py"
    return path, format_modular(text, Settings())


if __name__ == "__main__":
    for name in requests():
        path, text = written(name)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(REPOSITORY)}")

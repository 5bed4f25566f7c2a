"""What a modular file gives on one release, asked of the compiler, for texts not on disk."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.declared import resolve
from patchgen.author.rebase.naming import output_of
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source


@dataclass(frozen=True)
class Given:
    """The outputs of a modular file by their names, or its problems."""

    outputs: dict[str, File]
    problems: tuple[Problem, ...]

    def file_of(self, module: str) -> File | None:
        """The output that is made from `module` of transformers."""
        return output_of(module, self.outputs)


@dataclass(frozen=True)
class Prover:
    """Flattens texts of the modular file `name`; `roots` are where its own project has modules.

    What a text gives on a release is worked out once: a rebase asks again and again.
    """

    name: str
    roots: tuple[Path, ...]
    settings: Settings
    _known: dict[tuple[str, Path | None], Given] = field(
        default_factory=dict, repr=False, compare=False
    )

    def flatten(self, text: str, release: Path | None) -> Given:
        """What `text` gives on the release whose folder is `release`, else on the installed one."""
        if (text, release) not in self._known:
            self._known[text, release] = self._flatten(text, release)
        return self._known[text, release]

    def _flatten(self, text: str, release: Path | None) -> Given:
        with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
            home = Path(folder).resolve()
            path = home / "modular" / self.name
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
            result = flatten(path, make_environment(home, release, self.roots), self.settings)
        files = {file.name: file.text for file in result.files}
        return _read(files, result.problems)


def without_bases(text: str, is_gone: Callable[[str, str], bool]) -> str:
    """A modular file whose classes derive from `object` where their parent is gone.

    So the rest of it can be proved.  The missing parent is reported anyway.
    """
    file = read_file(make_source(text, "modular.py"))
    lines = [line.encode() for line in file.source.lines]
    bases = [
        base
        for definition in file.definitions.values()
        if isinstance(definition.node, ast.ClassDef)
        for base in definition.node.bases
        if (parent := resolve(file, base)) is not None and is_gone(*parent)
    ]
    for base in reversed(bases):
        line, last = base.lineno - 1, base.end_lineno or 0
        head, tail = lines[line][: base.col_offset], lines[last - 1][base.end_col_offset :]
        lines[line:last] = [head + b"object" + tail]
    return b"".join(lines).decode()


def _read(files: dict[str, str], problems: Sequence[Problem]) -> Given:
    try:
        outputs = {name: read_file(make_source(text, name)) for name, text in files.items()}
    except PatchgenError as error:
        return Given({}, (*problems, error.problem))
    return Given(outputs, tuple(problems))

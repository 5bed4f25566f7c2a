"""Try one variant on one release: its outputs, or why it does not convert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.author.survive.view import View
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.project.files import Modular
from patchgen.project.outcome import digest_of
from patchgen.syntax.errors import Problem, defect


@dataclass(frozen=True)
class Trial:
    """The digests of the outputs by name, or the problems; `facts` are what it depends on."""

    outputs: Mapping[str, str]
    problems: tuple[Problem, ...]
    facts: Mapping[str, str]

    @property
    def converts(self) -> bool:
        """Whether every output was made."""
        return not self.problems


def try_on(modular: Modular, view: View, settings: Settings) -> Trial:
    """Flatten a variant on the release of `view`; nothing is written."""
    view.asked.clear()
    try:
        result = flatten(modular.path, view, settings)
    # An error that the compiler did not foresee is ours, and the survey goes on.
    except Exception as error:
        return Trial({}, (defect(modular.display_path, error),), dict(view.asked))
    outputs = {file.name: digest_of(file.text) for file in result.files}
    return Trial(outputs, tuple(sorted(result.problems)), dict(view.asked))

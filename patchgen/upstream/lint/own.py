"""Run the rules on the outputs of a project's own modular files."""

from __future__ import annotations

from dataclasses import replace

from patchgen.compiler.flat import Flattened
from patchgen.upstream.lint.rules import OUTPUT_RULES


def with_findings(flat: Flattened, modular: str) -> Flattened:
    """`flat`, the outputs of the file `modular`, with the findings about them as problems."""
    found = [
        problem
        for file in flat.files
        for rule in OUTPUT_RULES
        for problem in rule.check(file, modular)
    ]
    return replace(flat, problems=(*flat.problems, *sorted(found)))

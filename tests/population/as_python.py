"""The populations beside what Python makes of their files, without the compiler's own reading.

    python -m tests.population.as_python [--models 1/16] [--kind K] [--seed N] [--out RESULTS.jsonl]

Prints what differs, what Python does not run and why, and how many files are compared.

equal     classes, members, signatures, values, and what tiny models of both compute
unjudged  classes are equal as far as they can be; Python does not run the file, or its model
refused   nothing is written
differs   something is not as Python runs the modular file
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import MODEL_MAPPING
from transformers.activations import ACT2CLS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.verify.oracle.judge import NotJudged, examine, imported, run_as_python
from patchgen.verify.parts.part_check import Scenario
from tests.population.kinds import KINDS, Case, find_cases, find_import_time_case
from tests.population.models import Model, find_models

SECONDS = 60  # for what is done with one file
IMPORT_TIME = "import"  # beside the kinds of the forms: what acts when a file is imported
DRAWN = 4  # files of that kind for a model


@dataclass
class Judged:
    """What became of a file."""

    kind: str
    form: str
    model: str
    state: str
    why: str


def judge_cases(cases: Sequence[Case], folder: Path) -> list[Judged]:
    results, environment = [], make_environment(folder)
    for case in cases:
        stem = "tiny" if case.renames else f"{case.model.name}_x"
        path = folder / "modular" / case.name / f"modular_{stem}.py"
        path.parent.mkdir(parents=True)
        path.write_text(case.text, encoding="utf-8")
        flat = flatten(path, environment, Settings())
        state, why = "refused", " | ".join(map(str, flat.problems))
        if not flat.problems:
            signal.signal(signal.SIGALRM, _stop)
            signal.alarm(SECONDS)
            try:
                texts = {file.name: file.text for file in flat.files}
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    state, why = _judge(case, path, texts, folder)
            except (NotJudged, TimeoutError) as error:
                state, why = "unjudged", str(error)
            finally:
                signal.alarm(0)
        results.append(Judged(case.kind, case.form, case.model.name, state, why))
    return results


def _judge(case: Case, path: Path, texts: dict[str, str], home: Path) -> tuple[str, str]:
    with _outside() as meant:
        meaning = run_as_python(path, home)
    with _outside() as ours, imported(texts) as modules:
        if isinstance(modules, str):
            return "differs", modules
        is_import = case.kind == IMPORT_TIME
        scenarios = [Scenario(labels=not case.like)]
        heads = [] if is_import else [case.head]
        found = examine(meaning, list(modules.values()), heads, scenarios)
    if meant != ours:
        return "differs", f"outside: {ours}, and not {meant}"
    if is_import and not found.differences:
        return "equal", "classes and values"
    if found.differences:
        return "differs", " | ".join(found.differences)
    return ("unjudged", found.not_judged) if found.not_judged else ("equal", found.compared)


@contextmanager
def _outside() -> Iterator[list[str]]:
    """What statements add to tables of transformers and of the system, which is then taken out."""
    found: list[str] = []
    tables: list[MutableMapping[Any, Any]] = [ACT2CLS, os.environ, MODEL_MAPPING._extra_content]
    tables.append(ALL_ATTENTION_FUNCTIONS._global_mapping)
    before = [set(table) for table in tables]
    filters = len(warnings.filters)
    try:
        yield found
    finally:
        found.append(f"{len(warnings.filters) - filters} filters")
        del warnings.filters[: len(warnings.filters) - filters]
        for table, known in zip(tables, before, strict=True):
            for key in set(table) - known:
                value = table.pop(key)
                found.append(f"{key}: {getattr(value, '__name__', value)}")
        found.sort()


def _stop(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def cases_of(model: Model, kind: str, seed: int) -> list[Case]:
    """The files of a kind for a model."""
    if kind != IMPORT_TIME:
        return find_cases(model, kind, seed)
    numbers = range(seed * DRAWN, (seed + 1) * DRAWN) if model.head else ()
    return [find_import_time_case(model, number) for number in numbers]


def main() -> int:
    """Exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=(*KINDS, IMPORT_TIME), action="append")
    parser.add_argument("--models", default="1/1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    part, parts = map(int, options.models.split("/"))
    counts: Counter[str] = Counter()
    with options.out.open("w", encoding="utf-8") as out:
        for model in find_models()[part - 1 :: parts]:
            kinds = options.kind or (*KINDS, IMPORT_TIME)
            cases = [case for kind in kinds for case in cases_of(model, kind, options.seed)]
            with tempfile.TemporaryDirectory() as folder:
                for result in judge_cases(cases, Path(folder)):
                    counts[result.state] += 1
                    out.write(f"{json.dumps(asdict(result))}\n")
                    if result.state in ("differs", "unjudged"):
                        print(*asdict(result).values(), flush=True)
    print(dict(counts))
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())

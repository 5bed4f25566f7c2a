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
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.verify.oracle.judge import NotJudged, examine, imported, run_as_python
from patchgen.verify.parts.part_check import Scenario
from tests.population.kinds import KINDS, Case, find_cases
from tests.population.models import find_models

SECONDS = 60  # for what is done with one file


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
    meaning = run_as_python(path, home)
    with imported(texts) as modules:
        if isinstance(modules, str):
            return "differs", modules
        scenarios = [Scenario(labels=not case.like)]
        found = examine(meaning, list(modules.values()), [case.head], scenarios)
    if found.differences:
        return "differs", " | ".join(found.differences)
    return ("unjudged", found.not_judged) if found.not_judged else ("equal", found.compared)


def _stop(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> int:
    """Exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--models", default="1/1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    part, parts = map(int, options.models.split("/"))
    counts: Counter[str] = Counter()
    with options.out.open("w", encoding="utf-8") as out:
        for model in find_models()[part - 1 :: parts]:
            kinds = options.kind or KINDS
            cases = [case for kind in kinds for case in find_cases(model, kind, options.seed)]
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

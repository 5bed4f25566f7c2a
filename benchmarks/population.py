"""Modular files made mechanically of all models, beside what Python makes of them.

    python benchmarks/population.py [--kind K] [--models 1/16] [--seed N] [--out RESULTS.jsonl]
    python benchmarks/population.py --parts [--kind K] [--models 1/16] [--out RESULTS.jsonl]

`--parts` makes those about models that ask AutoModel for their parts.  Prints what is not equal, or
logs at import, and a table.  `--out` takes every result and file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.update(
    OMP_NUM_THREADS="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", TQDM_DISABLE="1"
)

from patchgen.project.markdown import table_lines
from tests.population.judge import Result, judge
from tests.population.kinds import KINDS, find_cases
from tests.population.models import Model, find_models
from tests.population.parts import KINDS as PART_KINDS
from tests.population.parts import find_askers, find_part_cases, find_wrong

STATES = ("equal", "unjudged", "refused", "broken", "differs")


def main() -> int:
    """Print a line for each failure, and a row for each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=(*KINDS, *PART_KINDS), action="append")
    parser.add_argument("--models", default="1/1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    part, parts = map(int, options.models.split("/"))
    counts: Counter[tuple[str, str]] = Counter()
    with options.out.open("w", encoding="utf-8") as out:
        models = find_askers() if options.parts else find_models()
        for model in models[part - 1 :: parts]:
            kinds = options.kind or (PART_KINDS if options.parts else KINDS)
            for result in judge_model(model, kinds, options):
                counts[result.kind, result.state] += 1
                out.write(f"{json.dumps(asdict(result))}\n")
                if result.state != "equal" or result.logged:
                    said = result.logged or result.why
                    print(result.state, result.kind, result.form, result.model, said, flush=True)
    made = PART_KINDS if options.parts else KINDS
    rows = [(kind, *(str(counts[kind, state]) for state in STATES)) for kind in made]
    print(*table_lines(("kind", *STATES), rows, numbers=STATES), sep="\n")
    return 1 if any(state in ("broken", "differs") for _, state in counts) else 0


def judge_model(model: Model, kinds: Sequence[str], options: argparse.Namespace) -> list[Result]:
    """The results of a model's files: of one for each kind where its parts cannot be looked for."""
    with tempfile.TemporaryDirectory() as folder:
        if not options.parts:
            cases = [case for kind in kinds for case in find_cases(model, kind, options.seed)]
            return judge(cases, Path(folder))
        try:
            parts = find_part_cases(model)
        except ImportError as error:  # what transformers' own file needs is not installed
            return [Result(kind, "", model.name, "unjudged", str(error)) for kind in kinds]
        return judge([case for case in parts if case.kind in kinds], Path(folder), find_wrong)


if __name__ == "__main__":
    sys.exit(main())

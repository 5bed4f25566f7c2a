"""Modular files made mechanically of all models: how many are written, refused, broken or differ.

    python benchmarks/population.py [--kind K] [--models 1/16] [--seed N] [--out RESULTS.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.update(OMP_NUM_THREADS="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")

from tests.population.judge import Result, judge
from tests.population.kinds import KINDS, cases
from tests.population.models import models


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--models", default="1/16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    part, parts = map(int, options.models.split("/"))
    results: list[Result] = []
    for model in models()[part - 1 :: parts]:
        every = [case for kind in options.kind or KINDS for case in cases(model, kind, options.seed)]
        with tempfile.TemporaryDirectory() as folder:
            for result in judge(every, Path(folder)):
                results.append(result)
                if options.out:
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
                if result.state not in ("written", "unmade"):
                    print(result, flush=True)
    print(Counter((r.kind, r.state) for r in results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Liger's patches, model by model, as modular files: docs/records/unpatch.md.

    TRITON_INTERPRET=1 python benchmarks/unpatch.py [--only llama] [--equal llama,gemma] [--out DIR]

For each model type that Liger has a function for, a process applies it and builds a tiny model, and
`patchgen unpatch` writes what that patched.  The flat file is imported in a process of its own.
For the models in --equal it is also held against the patched one, under Triton's interpreter.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError
from patchgen.unpatching.unpatch import BOUND, Report, unpatch_command

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = """
import sys

import torch
import transformers
from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
from patchgen.runtime.tiny import tiny_config
from transformers.models.auto import modeling_auto

name = sys.argv[1]
tables = [f"MODEL_FOR_{one}_MAPPING_NAMES" for one in ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT")]
heads = [getattr(modeling_auto, table).get(name) for table in tables]
heads += [modeling_auto.MODEL_MAPPING_NAMES.get(name)]
head = next(one for one in heads if one)
model_class = getattr(transformers, head if isinstance(head, str) else head[0])
MODEL_TYPE_TO_APPLY_LIGER_FN[name]()
with torch.device("meta"):
    model = model_class(tiny_config(model_class.config_class))
"""


def names() -> list[str]:
    """The model types that Liger has a function for."""
    code = (
        "from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN as names\n"
        "print(*sorted(names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[-2].split()


def measure(name: str, script: Path, equal: bool) -> dict[str, Any]:
    """What became of Liger's patch of one model type."""
    try:
        report = unpatch_command([str(script), name], None, Settings(), verify=equal, force=False)
    except PatchgenError as error:
        return {"model": name, "error": error.problem.what}
    own = [one for one in report.models if one.module == report.module]
    return {
        "model": name,
        "head": report.model,
        "error": report.error,
        "patches": len(report.differences) - len(dead(report)),
        "left": [f"{one['target']}: {one['why_not']}" for one in report.left()],
        "dead": [f"{one['target']}: {one['dead']}" for one in dead(report)],
        "written": bool(report.models),
        "own": bool(own),
        "problems": [problem for one in report.models for problem in one.problems],
        "converts": bool(report.models) and all(one.flat for one in report.models),
        "imports": [import_error(one.flat) for one in report.models if one.flat],
        "equal": dict(report.equal),
    }


def dead(report: Report) -> list[Any]:
    return [one for one in report.differences if one["dead"]]


def import_error(text: str) -> str:
    """The last line of what Python says to a flat file; "" where it imports."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "modeling_flat.py")
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, check=False
        )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def page(rows: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    version = {name: importlib.metadata.version(name) for name in ("liger-kernel", "transformers")}
    built = [row for row in rows if not row["error"]]
    patched = [row for row in built if row["patches"] or row["left"]]
    good = [row for row in patched if row["converts"] and not any(row["imports"])]
    whole = [row for row in good if not row["left"] and row["own"]]
    held = [row for row in good if any("largest" in one for one in row["equal"].values())]
    same = [row for row in held if row["equal"][row["head"]].get("largest", 1) <= BOUND]
    lines = [
        "# Liger's patches as modular files",
        "",
        f"Liger {version['liger-kernel']} on transformers {version['transformers']}, made by "
        "`TRITON_INTERPRET=1 python benchmarks/unpatch.py`: each model type's function is applied "
        "in a process that then builds a tiny model, and [`patchgen unpatch`](../unpatch.md) "
        "writes what that patched.",
        "",
        f"Of {len(rows)} model types, Liger's function runs and a model is built for {len(built)}, "
        f"and {len(patched)} of these have their own module patched. {len(good)} come out as a "
        f"modular file that converts, and whose flat file imports; {len(whole)} of them say all "
        f"that was patched. {len(held)} were held against the patched model under Triton's "
        "interpreter, in float32, in evaluation and in training, by the class that is named or by "
        f"all of the file: {len(same)} are equal to {BOUND:g}.",
        "",
        "| model type | class | patches | converts | imports | equal | not written, or no effect |",
        "|---|---|---:|---|---|---|---|",
    ]
    for row in rows:
        if row["error"]:
            lines.append(f"| {row['model']} | | | | | | {cell(row['error'])} |")
            continue
        imports = "" if not row["imports"] else "no" if any(row["imports"]) else "yes"
        converts = "" if not row["written"] else "yes" if row["converts"] else "no"
        said = [f"no effect: {one}" for one in row["dead"]]
        said += [f"not written: {one}" for one in row["left"]]
        said += [*row["problems"], *filter(None, row["imports"])]
        cells = (row["model"], row["head"], row["patches"], converts, imports, equality(row))
        lines.append("| " + " | ".join(map(str, cells)) + f" | {cell('; '.join(said))} |")
    return "\n".join(lines) + "\n"


def equality(row: dict[str, Any]) -> str:
    if not row["equal"]:
        return ""
    measured = [one["largest"] for one in row["equal"].values() if "largest" in one]
    if not measured:
        return cell(next(iter(row["equal"].values()))["error"])
    (first, *others), largest = row["equal"], max(measured)
    what = f"{len(measured)} classes" if others else first
    return f"{what}, to {largest:.0e}" if largest else f"{what}, bit for bit"


def cell(text: str) -> str:
    line = " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
    return line if len(line) < 300 else line[:300] + "..."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--equal", default="llama")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records")
    parser.add_argument("--rows", type=Path, help="keep rows here, and take those that are there")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else names()
    rows: list[dict[str, Any]] = []
    if arguments.rows is not None and arguments.rows.exists():
        rows = [json.loads(line) for line in arguments.rows.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "apply_liger.py")
        script.write_text(SCRIPT, encoding="utf-8")
        for name in chosen:
            if any(row["model"] == name for row in rows):
                continue
            rows.append(measure(name, script, name in arguments.equal.split(",")))
            print(json.dumps(rows[-1]), flush=True)
            if arguments.rows is not None:
                arguments.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = page(sorted(rows, key=lambda row: row["model"]))
    (arguments.out / "unpatch.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Variants that change nothing: each class of a modeling file with a line more that does nothing.

`python -m tests.population.neutral --every 8 --seconds 20` prints the verdict of each, and the counts
by what the models take.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchgen.verifying import report, run
from patchgen.verifying.variants import Plan, Variant, find_heads
from tests.population.models import Model, find_models

NOTHING = "None  # nothing"
# As a flat file of patchgen says it: checkpoints are converted and weights drawn as the parent's are.
FOOTER = """

for _class in [each for each in vars().values() if isinstance(each, type)]:
    if _class.__module__ == __name__ and hasattr(_class, "is_custom_code"):
        _class.is_custom_code = classmethod(lambda cls: False)
"""
SOUNDS = r"(input_features|input_values|audio_values)\b"


def make_variant(model: Model, home: Path) -> Variant:
    return write_variant(model, home, f"{model.name}_neutral", _with_nothing)


def write_variant(model: Model, home: Path, name: str, change: Callable[[str], str]) -> Variant:
    """The variant that has the text of `model` with `change`, and its diff beside it."""
    folder = model.path.parent.name
    path = home / "neutral" / folder / f"modeling_{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = f"{_absolute(model)}{FOOTER}"
    text = change(plain)
    path.write_text(text)
    lines = difflib.unified_diff(plain.split("\n"), text.split("\n"), lineterm="")
    path.with_suffix(".diff").write_text("\n".join(lines))
    module = f"neutral.{folder}.modeling_{name}"
    return Variant(name, module, model.module, (), find_heads(text), str(home))


def _absolute(model: Model) -> str:
    """The text of the file with the names of packages written out."""

    def whole(found: re.Match[str]) -> str:
        above = model.module.split(".")[: -len(found[2])]
        return f"{found[1]}from {'.'.join([*above, *filter(None, [found[3]])])} import"

    return re.sub(r"^( *)from (\.+)([\w.]*) import", whole, model.text, flags=re.M)


def _with_nothing(text: str) -> str:
    lines = text.split("\n")
    for node in reversed(ast.parse(text).body):
        members = node.body if isinstance(node, ast.ClassDef) else ()
        methods = [each for each in members if isinstance(each, ast.FunctionDef)]
        for method in reversed([each for each in methods if each.name in ("__init__", "forward")]):
            last = method.body[-1]
            lines.insert(last.lineno - 1, f"{' ' * last.col_offset}{NOTHING}")
    return "\n".join(lines)


def kind_of(model: Model) -> str:
    has_text = re.search(r"\binput_ids\b", model.text) is not None
    if re.search(r"\bpast_values\b", model.text):
        return "time series"
    is_sound = re.search(SOUNDS, model.text) is not None
    is_vision = re.search(r"\bpixel_values", model.text) is not None
    if has_text and (is_vision or "get_audio_features" in model.text):
        return "multimodal"
    return "vision" if is_vision else "audio" if is_sound else "text"


def judge(
    model: Model,
    home: Path,
    seconds: float,
    change: Callable[[str], str] | None = None,
    called: str = "neutral",
) -> dict[str, object]:
    """The verdict of a variant of `model`, neutral if no `change` is given, within the time that
    its cases may take.
    """
    variant = write_variant(model, home, f"{model.name}_{called}", change or _with_nothing)
    results = list[report.Result]()

    def hear(**said: Any) -> None:
        match said:
            case {"result": result}:
                results.append(result)
            case {"late": late, "missing": missing}:
                results.extend(report.make_open_results(variant.name, missing, late))
            case {"refused": why}:
                results.append(report.Result(variant.name, "all", "NONE", note=str(why)))

    begun = time.process_time()
    limit = (seconds + begun) / run.FOR_CASES  # of the whole process
    run.run_cases(run.Work(variant, Plan(seconds=limit), "cpu"), hear)
    proof = report.find_proofs([variant.name], results)[variant.name]
    return {
        "model": model.name,
        "kind": kind_of(model),
        "verdict": proof.verdict,
        "why": list(proof.why),
        "fails": [f"{each}"[:400] for each in results if each.status == "FAIL"][:4],
        "seconds": round(time.process_time() - begun, 1),
    }


def _judge_apart(name: str, home: str, seconds: float) -> None:
    sys.stdout.reconfigure(line_buffering=True)
    model = next(each for each in find_models() if each.name == name)
    print(json.dumps(judge(model, Path(home), seconds)))


def main() -> None:
    """Each model in a process of its own; one that dies has no line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    asked = parser.parse_args()
    names = asked.models or [model.name for model in find_models()[:: asked.every]]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            child = context.Process(target=_judge_apart, args=(name, home, asked.seconds))
            child.start()
            child.join()
            if child.exitcode:
                print(json.dumps({"model": name, "verdict": f"died with code {child.exitcode}"}))


def count(lines: list[str]) -> Counter[tuple[str, str]]:
    """How many of each kind have each verdict, from what `main` printed."""
    found = map(json.loads, lines)
    return Counter((each.get("kind", ""), each["verdict"]) for each in found)


if __name__ == "__main__":
    main()

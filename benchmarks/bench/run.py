"""Runs cases, each in a process of its own, and keeps every result in one JSON file at once.

A result that is there is not measured again.  A process that dies or hangs costs one entry: another
one goes on with the rest of its case.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import os
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.bench.cases import Case, Entry, choose_cases
from benchmarks.bench.models import Steps, Unavailable, build, make_batch, make_config
from benchmarks.bench.plan import ROOM, plan
from patchgen import disk
from patchgen.children import PIPE, end, python, started
from patchgen.runtime.variants import find_variant
from patchgen.syntax.errors import Location, PatchgenError, describe_error
from patchgen.training.optimizers import NotInstalled
from patchgen.training.precision import products_in
from patchgen.training.rate.flops import count_forward_flops, count_pairs
from patchgen.training.rate.peak import allow_tf32, product_flops, time_runs
from patchgen.training.silence import silence_process

REPOSITORY = Path(__file__).resolve().parents[2]
WARM, TIMED = 3, 10  # steps
SECONDS = 450.0  # of a whole run
PATIENCE = 240.0  # seconds of one entry: building, compiling and steps
BROKEN = "CUDA error"  # all later calls on the device fail too
PACKAGES = ("torch", "transformers", "liger-kernel", "flash-attn", "bitsandbytes")
# How far loss and gradients may be from the baseline's, in float32 and in 16 bits.
WIDE, NARROW = (1e-4, 2e-3), (2e-2, 1e-1)

Results = dict[str, dict[str, dict[str, Any]]]  # by case and entry


def has_gpu() -> bool:
    """Return whether torch finds a CUDA device."""
    return bool(torch.cuda.is_available())


def versions() -> dict[str, str]:
    """Return the releases that times depend on; "" for what is not installed."""
    releases = {}
    for name in PACKAGES:
        try:
            releases[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            releases[name] = ""
    return releases


@dataclass(slots=True)
class Record:
    """The JSON file of a run."""

    path: Path
    machine: dict[str, Any]
    results: Results

    def save(self) -> None:
        """Write the file, whole or not at all."""
        content = {"machine": self.machine, "cases": self.results}
        disk.write(self.path, json.dumps(content, indent=1) + "\n", self.path.parent)


def open_record(path: Path, device: str, *, again: bool) -> Record:
    """Return the record at `path`, or a new one; ValueError where it is of another machine."""
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    machine = {"device": name, **versions()}
    if again or not path.is_file():
        return Record(path, machine, {})
    record = read_record(path)
    if record.machine != machine:
        raise ValueError("was measured on another device or with other releases")
    return record


def read_record(path: Path) -> Record:
    """Return the record at `path`.  Raises PatchgenError PG817 where there is none."""
    try:
        content = disk.read_json(path)
        return Record(path, content["machine"], content["cases"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        hint = "--again replaces it; --folder names another place"
        what = f"is no record of python -m benchmarks.bench: {type(error).__name__}: {error}"
        raise PatchgenError("PG817", Location(str(path)), what, hint) from error


def run(
    cases: Sequence[Case],
    device: str,
    record: Record,
    *,
    only: Sequence[str] = (),
    seconds: float = SECONDS,
    say: Callable[[str], None] = print,
) -> None:
    """Measure what has no result yet; entries for which there is no time have none afterwards."""
    until = time.monotonic() + seconds
    for case in cases:
        known = record.results.setdefault(case.id, {})
        while True:
            missing = [e.name for e in case.entries if e.name not in known]
            if not missing or time.monotonic() > until:
                break
            work = {"case": case.id, "only": list(only), "tiny": case.tiny, "device": device}
            _one_process({**work, "known": known}, record, until, say)


def _one_process(
    work: dict[str, Any], record: Record, until: float, say: Callable[[str], None]
) -> None:
    """Run one child; record what it says, and an entry that ends it as failed."""
    known = record.results[work["case"]]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    command = python("benchmarks.bench.run", first=[str(REPOSITORY)])
    streams = {"stdin": PIPE, "stdout": PIPE}
    begun = ""
    with (
        disk.scratch() as folder,
        started(command, folder, environment, **streams) as child,
    ):
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(work))
        child.stdin.close()
        timer = threading.Timer(PATIENCE, end, [child])
        timer.start()
        for line in child.stdout:
            timer.cancel()
            seconds = max(1.0, min(PATIENCE, until - time.monotonic()))
            timer = threading.Timer(seconds, end, [child])
            timer.start()
            answer = json.loads(line)
            begun = answer["begins"] if "begins" in answer else ""
            if "entry" in answer:
                result = answer["result"]
                known[answer["entry"]] = result
                record.save()
                note = f"  {result['note']}" if result.get("note") else ""
                say(f"{work['case']:4} {answer['entry']:52} {result['status']}{note}")
        timer.cancel()
        child.wait()
    if child.returncode and time.monotonic() < until:
        # The entry that was begun, or else the whole case, does not run here.
        what = {"status": "failed", "note": f"its process ended with code {child.returncode}"}
        chosen = choose_cases([work["case"]], work["only"], tiny=work["tiny"])[0].entries
        names = [begun] if begun else [e.name for e in chosen if e.name not in known]
        for name in names:
            known[name] = what
            say(f"{work['case']:4} {name:52} failed  {what['note']}")
        record.save()


def main() -> None:
    """Be a child: measure the entries of a case, and say each result as a line of JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what models and kernels print is no answer
    warnings.simplefilter("ignore")
    silence_process()
    work = json.loads(sys.stdin.read())

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    (case,) = choose_cases([work["case"]], work["only"], tiny=work["tiny"])
    measure(case, work["device"], work["known"], say)


def measure(case: Case, device: str, known: dict[str, Any], say: Callable[..., None]) -> None:
    """Measure the entries without a result, the baseline first: its numbers are compared with."""
    rows, peaks, most = _rows_of(case, device)
    # On the host, but drawn by the GPU, which takes a second where a CPU takes ten.
    drawn = build(case, case.baseline, device, None).state_dict() if rows else {}
    weights = {name: values.cpu() for name, values in drawn.items()}
    del drawn
    reference: dict[str, float] = known.get(case.baseline.name, {}).get("first", {})
    for entry in case.entries:
        if entry.name in known:
            continue
        say(begins=entry.name)
        sizes = [rows, most[entry.name]] if most.get(entry.name, 0) > rows else [rows]
        # Other texts have another norm of the gradients.
        alike = [reference, {name: value for name, value in reference.items() if name == "loss"}]
        results = [
            _guarded(case, entry, device, size, weights, first)
            for size, first in zip(sizes, alike, strict=False)
        ]
        if entry.name == case.baseline.name:
            reference = results[0].get("first", {})
        result = {**results[0], "predicted": peaks.get(entry.name), "code": code_of(entry)}
        if len(results) > 1:
            result["largest"] = results[1]
        say(entry=entry.name, result=result)


def code_of(entry: Entry) -> str:
    """Return the digest of the file of an entry's variant; "" of transformers' own models.

    A figure says nothing of a file with another one.
    """
    try:
        return disk.digest_of_data(find_variant(entry.variant).path) if entry.variant else ""
    except (ValueError, FileNotFoundError, ImportError):
        return "no file"


def _rows_of(case: Case, device: str) -> tuple[int, dict[str, int], dict[str, int]]:
    """Return the rows of the case, the predicted peaks, and the most rows of variants."""
    if device != "cuda":
        return case.rows, {}, {}
    memory = torch.cuda.get_device_properties(0).total_memory
    planned = list(plan([case], int(memory * ROOM)))
    peaks: dict[str, int] = {}
    most: dict[str, int] = {}
    for each in planned:
        if each.peak is not None:
            peaks[each.entry.name] = each.peak
        if each.most is not None:
            most[each.entry.name] = each.most
    return planned[0].rows, peaks, most


def _guarded(
    case: Case,
    entry: Entry,
    device: str,
    rows: int,
    weights: dict[str, Any],
    reference: dict[str, float],
) -> dict[str, Any]:
    if not rows:
        return {"status": "does not fit", "note": "by prediction, not even one row"}
    try:
        with allow_tf32(entry.precision == "tf32"):
            return _measured(case, entry, device, rows, weights, reference)
    except (Unavailable, NotInstalled) as reason:
        return {"status": "unavailable", "note": str(reason), "rows": rows}
    except torch.OutOfMemoryError:
        return {"status": "does not fit", "rows": rows}
    except Exception as error:
        if BROKEN in str(error):
            raise
        note = describe_error(error, 300)
        return {"status": "failed", "note": note, "rows": rows}
    finally:
        gc.collect()
        if device == "cuda":
            torch._dynamo.reset()
            torch.cuda.empty_cache()


def _measured(
    case: Case,
    entry: Entry,
    device: str,
    rows: int,
    weights: dict[str, Any],
    reference: dict[str, float],
) -> dict[str, Any]:
    """Compare the first step with the baseline's, and time the next ones."""
    model = build(case, entry, device, weights)
    words = model.config.get_text_config().vocab_size
    steps = Steps(model, entry, make_batch(case, entry, rows, words), device)
    first = {"loss": float(steps.backward()), "norm": steps.gradient_norm()}
    model.zero_grad(set_to_none=True)
    note = _deviation(first, reference, entry, case)
    result = {"status": "wrong" if note else "ok", "note": note, "first": first, "rows": rows}
    result["rows"] = rows * entry.times
    if device != "cuda":
        steps.step()
        return result
    for _ in range(WARM):
        steps.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    seconds = time_runs(steps.step, TIMED, device)
    texts = case.texts(rows * entry.times)
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    timed = {
        "seconds": [low, median, high],
        "tokens_a_second": sum(texts) / median,
        "samples_a_second": len(texts) / median,
        "peak": int(torch.cuda.max_memory_allocated()),
    }
    return {**result, **timed, **_utilisation(case, entry, texts, steps, median, device)}


def _deviation(
    first: dict[str, float], reference: dict[str, float], entry: Entry, case: Case
) -> str:
    """Return how a first step differs from the baseline's; "" where it is as it should be."""
    if not reference or entry.times > 1:
        return ""
    # In tiny models all but autocast computes in float32.
    narrow = entry.precision != "fp32" and not (case.tiny and entry.precision == "pure-bf16")
    bounds = NARROW if narrow else WIDE
    return "; ".join(
        f"{name} {first[name]:.6g}, and the baseline's {reference[name]:.6g}"
        for name, bound in zip(("loss", "norm"), bounds, strict=True)
        if name in reference and not abs(first[name] / reference[name] - 1) <= bound
    )


def _utilisation(
    case: Case, entry: Entry, texts: Sequence[int], steps: Steps, seconds: float, device: str
) -> dict[str, float]:
    """Return MFU, by a measured product, where FLOPs follow from shapes."""
    stock = getattr(__import__("transformers"), case.head)
    forward = count_forward_flops(stock, make_config(case), case.length)
    if forward is None:
        return {}
    labelled = int((steps.batch["labels"] >= 0).sum())
    causal = case.task == "causal"
    pairs = count_pairs(texts)
    work = forward.step(tokens=sum(texts), labelled=labelled, pairs=pairs, causal=causal)
    dtype = products_in(entry.precision)
    return {"mfu": work / seconds / product_flops(device, dtype, tf32=entry.precision == "tf32")}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()

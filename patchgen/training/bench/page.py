"""Writes a record as a Markdown page.

A record of tiny models has no times, memory or verdicts, only the results of checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchgen.project.markdown import table_lines
from patchgen.training.bench.case import Case
from patchgen.training.bench.checks import failed_checks
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.record import Record
from patchgen.training.bench.result import Result
from patchgen.training.bench.verdict import TargetResult, Verdict, check_targets, verdicts

GIB = 2**30
BY_DRIVER = " (driver)"  # marks a peak
# A difference between the medians of rounds that shows a changed clock or another process.
DRIFTED = 0.05

_LEGEND = """\
Times are CUDA events around whole steps (forward, backward, optimizer): median and quartiles over
all rounds. Entries take turns (A B C C B A). Tokens are real tokens, without padding. **MFU** is
relative to the product measured in the same run, and to the data sheet. It counts the FLOPs that
the task needs: six for each weight of a product and token, the head for tokens with a label, causal
attention without its masked half, and nothing for recomputation. **Deviation** is the relative
difference of the first loss, and of the norm of its gradients, from the stock model in float32.
Weights are random, and dropout is off except in B2-amp. A peak marked *driver* is the driver's
figure for the replay of CUDA graphs, which the allocator's statistics leave out.
A variant is **faster** than the fastest stock entry where the interquartile ranges do not overlap,
**smaller** where its peak is more than 5 % below that of all stock entries that are as fast, and
**redundant** where five lines of one's own do as well.
"""
_TINY_LEGEND = """\
Tiny models on a CPU, for checks only: nothing here says how fast anything is. **Deviation** is the
relative difference of the loss, and of the norm of its gradients, from the stock model in float32
under eager attention; in float32 every entry of every gradient is compared too. **Saved** is what
is saved for the backward pass beside the weights, relative to the baseline, the row with 1.00.
Compiled models are traced by torch.compile, and their graphs run uncompiled. Weights that would be
bfloat16 on a GPU are float32.
"""
FAILED_CHECK = "check failed"


def as_markdown(record: Record, cases: Sequence[Case]) -> str:
    """Return the page."""
    tiny = bool(record.made.get("tiny"))
    versions = ", ".join(
        f"{name} {version}" for name, version in record.made["versions"].items() if version
    )
    lines = ["# Checks of the benchmark" if tiny else "# Benchmark", ""]
    made_by = f"`{_command(record, tiny)}` on {record.made['device']}"
    lines += [
        f"{made_by}: {versions}.{_machine(record.machine)}",
        "",
    ]
    lines += [_TINY_LEGEND if tiny else _LEGEND]
    run = [case for case in cases if record.results(case.id)]
    if not tiny:
        lines += _summary(record, run)
    for case in run:
        lines += _section(record, case, tiny)
    return "\n".join(lines).rstrip() + "\n"


def _command(record: Record, tiny: bool) -> str:
    table = record.path.stem.removeprefix("bench-").removesuffix("-tiny")
    return (
        "patchgen bench"
        + (f" --table {table}" if table != "matrix" else "")
        + (" --tiny" if tiny else "")
    )


def _machine(machine: Mapping[str, Any]) -> str:
    if "product" not in machine:
        return ""
    sheet = (
        f"; the datasheet says {machine['datasheet'] / 1e12:.0f}"
        if machine.get("datasheet")
        else ""
    )
    rate = f"{machine['product'] / 1e12:.0f} TFLOP/s here{sheet}"
    return (
        f" {machine['memory'] / GIB:.0f} GiB, CUDA {machine['CUDA']}, cuDNN {machine['cuDNN']}. "
        f"A product of two matrices of 8192 in bfloat16 runs at {rate}."
    )


def _summary(record: Record, cases: Sequence[Case]) -> Iterator[str]:
    """Yield the best verdict of each variant, and the targets."""
    yield from ("## Verdicts", "")
    rows = []
    for name, (where, row, found) in sorted(best_verdicts(record, cases).items()):
        gains = (_times(found.speed), _times(found.memory))
        rows.append((name, f"**{found.word}**", f"{where}, {row}", found.against, *gains))
    heads = ("variant", "verdict", "where", "compared with", "speed", "memory")
    yield from table_lines(heads, rows, numbers=("speed", "memory"))
    if wrong := _wrong(record, cases):
        yield from ("", f"Wrong in other rows, whatever they gain: {'; '.join(wrong)}.")
    yield from ("", "## Targets", "")
    aims = []
    for case in cases:
        about = record.cases[case.id]
        work = about["work"] / about["tokens"] if about.get("work") else 0.0
        for one in check_targets(case, record.results(case.id), work):
            aims.append(_target(case, one))
    heads = ("case", "model", "compared with", "target", "measured", "result")
    yield from table_lines(heads, aims, numbers=("target", "measured"))
    yield ""


_BEST = ("faster", "smaller", "tie", "redundant", "slower", "larger", "wrong", "unknown")


def _wrong(record: Record, cases: Sequence[Case]) -> list[str]:
    """Return the rows of variants, by case, with wrong numbers or failed checks."""
    found = []
    for case in cases:
        results = record.results(case.id)
        failed = failed_checks(case, results)
        for row, verdict in verdicts(case, results).items():
            if row in failed or verdict.word == "wrong":
                found.append(f"{case.id}, {row}")
    return found


def best_verdicts(record: Record, cases: Sequence[Case]) -> dict[str, tuple[str, str, Verdict]]:
    """Return the case and the row where each variant does best, and the verdict."""
    best: dict[str, tuple[str, str, Verdict]] = {}
    for case in cases:
        results = record.results(case.id)
        failed = failed_checks(case, results)
        for row, verdict in verdicts(case, results).items():
            name = case.entry(row).variant
            found = Verdict("wrong", note=failed[row]) if row in failed else verdict
            if name not in best or _rank(found) < _rank(best[name][2]):
                best[name] = case.id, row, found
    return best


def _rank(found: Verdict) -> tuple[int, float]:
    return _BEST.index(found.word), -(found.speed or 0.0)


def _target(case: Case, one: TargetResult) -> tuple[str, ...]:
    who = one.who or ", ".join(one.target.who)
    if one.target.metric == "rate":
        aim = f"{one.target.ratio / 1e12:g} TFLOP/s"
        rate = f"{one.ratio / 1e12:.0f}" if one.ratio else ""
        return (case.id, who, "", aim, rate, one.word)
    sign = "at most" if one.target.metric == "memory" else "at least"
    against = one.against or ", ".join(one.target.against)
    aim = f"{one.target.metric} {sign} {one.target.ratio:g}"
    return (case.id, who, against, aim, _times(one.ratio), one.word)


def _section(record: Record, case: Case, tiny: bool) -> Iterator[str]:
    results, about = record.results(case.id), record.cases[case.id]
    failed = failed_checks(case, results)
    yield from (f"## {case.id}", "", f"{case.about}. {_sizes(about, tiny)}".rstrip(), "")
    yield from _tiny_table(case, results, failed) if tiny else _table(record, case, results, failed)
    yield ""
    if not record.done(case.id):
        fault = record.fault(case.id)
        reason = f", and could not be started: {fault}" if fault else ""
        yield from (f"This case did not run to its end{reason}.", "")
    yield from _notes(results, failed)


def _sizes(about: Mapping[str, Any], tiny: bool) -> str:
    if "tokens" not in about:
        return ""
    if tiny:
        return f"Here: {about['texts']} texts of {about['tokens']} tokens."
    padded = f" in {about['places']:,} places" if about["places"] != about["tokens"] else ""
    return (
        f"{about['parameters'] / 1e6:,.1f}M parameters; a step has {about['tokens']:,} real tokens"
        f"{padded} and needs {about['work'] / 1e12:.3g} TFLOP."
    )


def _tiny_table(case: Case, results: Mapping[str, Result], failed: Mapping[str, str]) -> list[str]:
    fitted = ("rows that fit",) if case.fits else ()
    heads = ("model", "result", "loss deviation", "gradient deviation", "masks", "saved", *fitted)
    rows = []
    baseline = results.get(case.baseline)
    for one in _known(case, results):
        result = results[one.name]
        loss, norm = (
            (f"{value:.0e}" for value in result.deviation[:2]) if result.deviation else ("", "")
        )
        kept = (
            f"{result.saved / baseline.saved:.2f}"
            if result.saved and baseline and baseline.saved
            else ""
        )
        fit = (str(result.rows or ""),) if case.fits else ()
        word = FAILED_CHECK if one.name in failed else result.status
        rows.append((one.name, word, loss, norm, ", ".join(result.masks), kept, *fit))
    numbers = ("loss deviation", "gradient deviation", "saved", *fitted)
    return table_lines(heads, rows, numbers=numbers)


def _table(
    record: Record, case: Case, results: Mapping[str, Result], failed: Mapping[str, str]
) -> list[str]:
    fitted = ("rows",) if case.fits else ()
    speeds = ("tokens/s", "to baseline", "texts/s", "step, ms", "MFU", "peak, GiB")
    numbers = (*speeds, *fitted, "deviation")
    rows = []
    found = verdicts(case, results)
    for one in _known(case, results):
        result = results[one.name]
        verdict = found[one.name].word if one.name in found else ""
        word = FAILED_CHECK if one.name in failed else verdict or _word(result)
        fit = (str(result.rows or ""),) if case.fits else ()
        peak = f"{result.peak / GIB:.1f}{BY_DRIVER if result.driver else ''}" if result.peak else ""
        deviation = (
            " ".join(f"{value:.0e}" for value in result.deviation[:2]) if result.deviation else ""
        )
        figures = (
            _speed(result),
            _relative_speed(result, results.get(case.baseline)),
            _texts(result),
            _step(result),
            _mfu(record, case, result),
            peak,
        )
        rows.append((one.name, word, *figures, *fit, deviation, _kernel(result)))
    return table_lines(("model", "verdict", *numbers, "attention"), rows, numbers=numbers)


def _known(case: Case, results: Mapping[str, Result]) -> list[Entry]:
    return [one for one in case.entries if one.name in results]


def _word(result: Result) -> str:
    return "" if result.status == "ok" else result.status


def _speed(result: Result) -> str:
    return f"{result.speed.median:,.0f}" if any(result.rounds) else ""


def _relative_speed(result: Result, baseline: Result | None) -> str:
    known = baseline is not None and any(baseline.rounds) and any(result.rounds)
    return (
        f"{result.speed.median / baseline.speed.median:.2f}"
        if baseline is not None and known
        else ""
    )


def _texts(result: Result) -> str:
    return (
        f"{result.samples / result.step.median:,.1f}"
        if any(result.rounds) and result.samples
        else ""
    )


def _step(result: Result) -> str:
    if not any(result.rounds):
        return ""
    step = result.step
    return f"{step.median * 1e3:.2f} ({step.low * 1e3:.2f} to {step.high * 1e3:.2f})"


def _mfu(record: Record, case: Case, result: Result) -> str:
    """Return MFU relative to the product measured here, and to the data sheet, in percent."""
    about = record.cases[case.id]
    if not any(result.rounds) or not about.get("work"):
        return ""
    rate = about["work"] / about["tokens"] * result.speed.median
    peaks = [record.machine.get("product"), record.machine.get("datasheet")]
    return " / ".join(f"{100 * rate / peak:.0f} %" for peak in peaks if peak)


def _kernel(result: Result) -> str:
    return f"`{result.kernels[0]}`" if result.kernels else ""


def _notes(results: Mapping[str, Result], failed: Mapping[str, str]) -> Iterator[str]:
    notes = [f"- {name}: {reason}" for name, reason in failed.items()]
    notes += [
        f"- {name}: {result.status}, {result.note}"
        for name, result in results.items()
        if result.note
    ]
    for name, result in results.items():
        if result.drift > DRIFTED:
            drift = f"its rounds differ by {100 * result.drift:.0f} %"
            notes.append(f"- {name}: {drift}; the clock was not steady")
    yield from ([*notes, ""] if notes else [])


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"

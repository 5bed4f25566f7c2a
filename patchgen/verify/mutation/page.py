"""The page docs/parity/mutants.md: what became of errors in the changed lines of each variant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from patchgen.project.markdown import table_lines
from patchgen.verify.mutation.mutant_result import OUTCOMES, LinesRun, MutantResult, counted
from patchgen.verify.report.result import Result
from patchgen.verify.variants import Variant

_LEGEND = """\
A *mutant* is one small error in a line that the variant adds or changes: an operator, a constant,
an index or a slice off by one, an argument or a keyword left out, two operands swapped, a term
dropped, a condition inverted, a gradient detached, a statement removed. Each mutant is planted, and
the cases of `patchgen verify` that run its line are run. Those come first that bring another
padding, head, configuration, way to call the model or changed line. What only crashes is left out:
each error is first evaluated beside the right expression, and has to give the same types, shapes
and dtypes.

- **seen**: one of the cases fails, by its usual bound.
- **unseen**: no case fails, and some compute something else. Each is listed below.
- **no difference**: all cases that run its line, in every dtype, give the same outputs and
  gradients, bit for bit.
- **crashed**: it crashes in some case, and no case sees it. It counts as neither seen nor unseen,
  because nobody can overlook it.

Mutants are made only of lines that some case runs (*made*). *On lines not run* is the number of
mutants that lines without a case would give; those lines are listed below. Of the first, a sample
is planted. It is drawn by the digests of their texts and of the variant's name, so it is the same
in every run: one of each line, then a second of each, up to the number that the command gives.
"""


def format_mutants_page(
    variants: Iterable[Variant], results: Sequence[Result], commands: str, versions: str
) -> str:
    """The page; `commands` is Markdown, of those that gave the results."""
    found = {variant.name: _found(variant.name, results) for variant in variants}
    every = [fate for fates, _ in found.values() for fate in fates]
    total = counted(every)
    decided = total["seen"] + total["unseen"]
    part = f"{100 * total['seen'] / decided:.1f} %" if decided else "none"
    of = f"of {len(found)} variant{'s' if len(found) != 1 else ''}, those of the table"
    seen = f"Seen: {total['seen']:,} of {decided:,} that run and make a difference, {part}."
    lines = ["# Mutants", "", f"{commands}, {versions}: {of}.", "", _LEGEND, seen, ""]
    rows = []
    for name, (fates, run) in found.items():
        ran = ("", "", "")
        if run is not None:
            ran = f"{run.ran} of {run.changed}", f"{run.unplanted:,}", f"{run.mutants:,}"
        rows.append((name, *ran, *(f"{n:,}" for n in (len(fates), *counted(fates).values()))))
    runs = [run for _, run in found.values() if run is not None]
    sums = sum(run.unplanted for run in runs), sum(run.mutants for run in runs), len(every)
    rows.append(("**all**", "", *(f"{n:,}" for n in (*sums, *total.values()))))
    heads = ("lines run", "on lines not run", "made", "planted", *OUTCOMES)
    lines += table_lines(("variant", *heads), rows, numbers=heads)
    for name, (fates, run) in found.items():
        lines += _of_variant(name, fates, run)
    return "\n".join(lines) + "\n"


def _found(
    variant: str, results: Sequence[Result]
) -> tuple[tuple[MutantResult, ...], LinesRun | None]:
    own = [result for result in results if result.variant == variant]
    lines = next((result.lines for result in own if result.lines is not None), None)
    return tuple(fate for result in own for fate in result.fates), lines


def _of_variant(name: str, fates: Sequence[MutantResult], run: LinesRun | None) -> Iterator[str]:
    unseen = [fate for fate in fates if fate.outcome == "unseen"]
    missed = [] if run is None else [*run.not_run]
    refused = [] if run is None else [*run.refusals]
    if not (unseen or missed or refused):
        return
    yield from ("", f"## {name}", "")
    for heading, lines in (
        ("Lines that did not run", missed),
        ("Lines that only refuse, and did not run", refused),
    ):
        if lines:
            yield f"{heading}: {', '.join(str(number) for number, _ in lines)}."
            yield ""
    for fate in unseen:
        yield f"`{fate.place}`, {fate.says}: {fate.note}.\n"
        yield f"```diff\n{fate.diff}\n```\n"

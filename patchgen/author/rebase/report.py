"""What came of a rebase, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from patchgen.author.rebase.work import Rebased, Result, State


def text_of(rebased: Rebased, display_path: str) -> str:
    """The report on one modular file."""
    lines = [f"{display_path}: {summary(rebased.results) or 'changes nothing of its parent'}"]
    for result in rebased.results:
        if result.state is not State.UNCHANGED:
            lines += _lines_of(result)
    before = rebased.modular.source.text.split("\n")
    for line in rebased.text.split("\n"):
        if line.startswith("from transformers") and line not in before:
            lines.append(f"  imports now: {line}")
    if rebased.is_absorbed:
        lines.append("  upstream does all of it now: the file can be deleted")
    for problem in rebased.problems:
        lines.append(f"  {problem.code} {problem.what}")
        lines += [f"    {line}" for line in problem.hint.split("\n") if line]
    return "\n".join(lines) + "\n"


def summary(results: Sequence[Result]) -> str:
    """How many changes have each state, in words."""
    counts = Counter(result.state for result in results)
    return ", ".join(f"{counts[state]} {state}" for state in State if counts[state])


def _lines_of(result: Result) -> Iterator[str]:
    yield f"  {result.change.name}: {result.state}"
    if result.renamed:
        yield f"    upstream renamed: {result.renamed}"
    for clash in result.clashes:
        yield f"    {clash.what}"
        sides = {"was": clash.base, "declared": clash.ours, "upstream": clash.theirs}
        for name, text in sides.items():
            label = f"{name}:"
            lines = text.split("\n") if text else []
            for line in lines:
                yield f"      {label:10}{line}"
                label = ""
    if not result.clashes or result.state is State.STALE:
        yield from (f"    {line}" for line in result.upstream)


def data_of(rebased: Rebased, display_path: str, written: bool) -> dict[str, Any]:
    """The report on one modular file as JSON."""
    return {
        "modular": display_path,
        "done": rebased.is_done,
        "absorbed": rebased.is_absorbed,
        "written": written,
        "changes": [_data_of(result) for result in rebased.results],
        "problems": [problem.data() for problem in rebased.problems],
    }


def _data_of(result: Result) -> dict[str, Any]:
    change = result.change
    return {
        "class": change.owner,
        "member": change.member,
        "kind": change.kind,
        "parent": f"{change.module}.{change.parent}",
        "state": str(result.state),
        "renamed": result.renamed,
        "upstream": "\n".join(result.upstream),
        "doubts": [
            {"what": c.what, "was": c.base, "declared": c.ours, "upstream": c.theirs}
            for c in result.clashes
        ],
    }

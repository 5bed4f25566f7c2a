"""Which part fits which model of transformers: docs/coverage.json and docs/coverage.md.

    python benchmarks/coverage.py [MODEL ...] [--part PART] [--verify] [--again] [--most N] [-j N]

Asks `patchgen new` for every part in every modeling module, and converts what it wrote.  With
`--verify` what converts is verified as `patchgen new` does it, each in a process of its own with
limits.  A result stays while the files of the parent, of the variant and of the checks are the
same, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from patchgen.author.anatomy.module import Module, every_module, find_module, open_module
from patchgen.author.declare.registry import PARTS, writers
from patchgen.author.declare.request import answer_for
from patchgen.author.declare.variant import Draft, flatten_draft
from patchgen.project.markdown import table_lines
from patchgen.project.versions import release_of
from patchgen.syntax.errors import PatchgenError, Refusals, problems_of
from patchgen.syntax.locate import Environment, make_environment
from patchgen.system import resident_of, spent_by

Entry = dict[str, Any]
Book = dict[str, dict[str, Entry]]
WRITTEN = tuple(writers())
RECORD, PAGE = REPOSITORY / "docs" / "coverage.json", REPOSITORY / "docs" / "coverage.md"
STATUSES = "verified|written|redundant|not applicable|refused|cannot be built here|failed".split(
    "|"
)
SHORT = {"verified": "**verified**", "not applicable": "–", "cannot be built here": "not built"}
OPENING = """\
Every part in each of the {count} modeling modules of transformers, by structure and, where the
table says *verified*, by numbers ({stated}, on CPU). Made by

    python benchmarks/coverage.py --verify

which continues an interrupted run. [coverage.json](coverage.json) has what was seen of
each: effects, and errors that were planted.

- **verified**: in a project of its own the part was written by `patchgen new`, converted, built
  as a tiny model and compared with its parent in float32 and bfloat16, forward and gradient of
  every parameter; the effect of the part was measured, and an error in its lines was found, or all
  that were planted in the attention of that very model.
- a number, such as **0.85**: verified, and what it takes of what transformers' model takes, in a
  step of training: the least of memory kept for the backward pass, arithmetic and launches, which
  is counted with the default sizes of the configuration. The record says which step it was.
- **written**: it converts; no model has run.
- **redundant**: transformers does the same without a variant, or less than 5 % is saved; `--force`
  writes it anyway.
- **not applicable** (–): the file has nothing that the part could change.
- **refused**: the reason is below, with its place in the file.
- **cannot be built here**: the parent, or the part, needs what is named below, so nothing is
  claimed.
- **failed**: a case of `patchgen verify` failed; the first one is below. It is not counted.
"""
TIME = "*Minutes* are those of one core that the proofs of the part took, with their counted gains."
# Parts that miss something if they find nothing in a file with classes of attention.
OF_ATTENTION = ("sdpa", "checkpoint", "flash")
SECONDS, MEGABYTES = 300, 3072


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--part", action="append", choices=WRITTEN, default=[])
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--again", action="store_true", help="what failed or could not be built")
    parser.add_argument("--most", type=int)
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    env = make_environment(REPOSITORY)
    names = [find_module(env, model) for model in given.models] or every_module(env)
    book: Book = json.loads(RECORD.read_text(encoding="utf-8"))["models"] if RECORD.exists() else {}
    waiting: list[Draft] = []
    for number, name in enumerate(names, 1):
        module = open_module(env, name)
        print(f"{number} of {len(names)}: {module.alias}", file=sys.stderr)
        for part in given.part or WRITTEN:
            entries = book.setdefault(module.alias, {})
            entry, draft = by_structure(module, part)
            before = entries.get(part, {})
            entries[part] = before if before.get("key") == entry.get("key", "") else entry
            repeat = given.again and entries[part]["status"] in ("failed", "cannot be built here")
            if draft is None or not (repeat or entries[part]["status"] == "written"):
                continue
            if find_spec("torch") is None:
                reason = "needs torch, without which no model runs"
                entries[part] = {**entry, "status": "cannot be built here", "why": reason}
            else:
                waiting.append(draft)
    save(env, book)
    if given.verify:
        for draft, entry in by_numbers(waiting[: given.most], given.jobs):
            (part,) = draft.parts
            book[draft.alias][part] = {**entry, "key": book[draft.alias][part]["key"]}
            save(env, book)
            print(draft.alias, part, entry["status"], entry.get("why", ""), flush=True)
    print("\n".join(totals(book)))
    failed = [e for model in book.values() for e in model.values() if e["status"] == "failed"]
    return int(bool(failed))


def by_structure(module: Module, part: str) -> tuple[Entry, Draft | None]:
    """What `new` and the converter say; the draft, if it converts."""
    try:
        found = answer_for(module, [part])
        if not found.parts:
            return {"status": "redundant", "why": found.left_out[0].redundant}, None
        draft = found.draft
    except PatchgenError as error:
        return refused(module, part, problems_of(error)), None
    try:
        with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
            flat = flatten_draft(draft, Path(folder))
    except Refusals as error:
        first = error.problems[0]
        if first.code.startswith("PG9"):  # of this machine, and not of the model
            raise
        what = f"by the converter: {first.at}: {first.code} {first.what}"
        return {"status": "refused", "why": what}, None
    texts = [module.source.text, *(file.name + file.text for file in flat.files)]
    texts += [path.read_text(encoding="utf-8") for path in files_of_check(part)]
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return {"status": "written", "key": key}, draft


def files_of_check(part: str) -> list[Path]:
    """The files of the check of a part: those that the part's own file imports from."""
    declaration = REPOSITORY / "patchgen/author/declare" / f"{part}.py"
    imports = r"from patchgen\.verifying\.parts\.(\w+) import"
    names = re.findall(imports, declaration.read_text(encoding="utf-8"))
    folder = REPOSITORY / "patchgen/verifying/parts"
    return [folder / f"{name}.py" for name in sorted({*names, "part_check"})]


def refused(module: Module, part: str, problems: Sequence[Any]) -> Entry:
    first = problems[0]
    what = first.what.removeprefix(f"{part}: ")
    # A reason without a place means that the file has nothing that the part could change.
    nowhere = all(not problem.at.line and problem.code == "PG803" for problem in problems)
    if nowhere and not (part in OF_ATTENTION and attends(module)):
        return {"status": "not applicable", "why": what}
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return {"status": "refused", "why": f"{first.at}: {first.code} {what}{more}"}


def by_numbers(waiting: Sequence[Draft], jobs: int) -> Iterator[tuple[Draft, Entry]]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Importing torch and transformers takes longer than most proofs: children are forked after it.
    context = get_context("forkserver")
    context.set_forkserver_preload(["patchgen.author.proof"])
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_watched, context, draft): draft for draft in waiting}
        for future in as_completed(running):
            yield running[future], future.result()


def _watched(context: Any, draft: Draft) -> Entry:
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="patchgen-", ignore_cleanup_errors=True) as home:
        process = context.Process(target=_child, args=(draft, Path(home), theirs), daemon=True)
        process.start()
        theirs.close()
        begun = time.monotonic()
        try:
            while not ours.poll(0.2):
                large = resident_of(process.pid) > MEGABYTES * 2**20
                # On a busy machine a proof waits: what counts is the processor's time.
                spent = spent_by(process.pid) or time.monotonic() - begun
                if large or spent > SECONDS:
                    limit = f"{MEGABYTES} MB of memory" if large else f"{SECONDS} seconds"
                    return {"status": "cannot be built here", "why": f"needs more than {limit}"}
            entry: Entry = ours.recv()
            return entry
        except EOFError:
            process.join()
            return {"status": "failed", "why": f"the process ended with code {process.exitcode}"}
        finally:
            process.kill()
            process.join()


def _child(draft: Draft, home: Path, answers: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)  # what models print
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    import torch

    from patchgen.author.proof import prove

    torch.set_num_threads(1)
    gc.freeze()  # what was imported: a proof looks for the functions of its variant in all else
    try:
        proof = prove(draft, home)
        fields = {name: getattr(proof, name) for name in ("status", "why", "heads", "seen")}
        if proof.status == "verified":
            fields |= gain_of(draft, proof)
        fields["seconds"] = round(time.process_time(), 1)
        answers.send({name: value for name, value in fields.items() if value})
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        answers.send({"status": "failed", "why": f"patchgen itself: {message}"})


def gain_of(draft: Draft, proof: Any) -> Entry:
    """What the first verified class saves, by count; a part that saves too little is redundant."""
    from patchgen.training.gain import LEAST, count_a_gain

    (part,) = draft.parts
    if not PARTS[part].counted:
        return {}
    ours, theirs = proof.classes(draft.parts)
    try:
        step, gain = count_a_gain(ours, theirs, PARTS[part].counted)
    except ValueError as error:
        return {"uncounted": str(error)}
    counted = {"step": step, "gain": [round(each, 3) for each in astuple(gain)]}
    if gain.is_worth_it:
        return counted
    return {**counted, "status": "redundant", "why": f"saves less than {LEAST:.0%}: {gain}"}


def attends(module: Module) -> bool:
    return any("Attention" in name for name in module.classes)


def totals(book: Book) -> list[str]:
    """A row a part, with the time of the processor that its proofs took."""
    counts = {status: _statuses(book, status) for status in STATUSES}
    rows = []
    for part in WRITTEN:
        spent = sum(entries.get(part, {}).get("seconds", 0) for entries in book.values())
        of_part = [str(counts[status][part]) for status in STATUSES]
        rows.append((part, *of_part, f"{spent / 60:.0f}"))
    columns = (*STATUSES, "minutes")
    return table_lines(("part", *columns), rows, numbers=columns)


def _statuses(book: Book, status: str) -> Counter[str]:
    """How many models have `status`, by part."""
    every = [(part, entry) for entries in book.values() for part, entry in entries.items()]
    return Counter(part for part, entry in every if entry["status"] == status)


def save(env: Environment, book: Book) -> None:
    """The record, one line an entry so that a diff shows what changed, and the page."""
    places = {"patchgen": "patchgen", "torch": "torch.version", "transformers": "transformers"}
    versions = {name: release_of(place, env) for name, place in places.items()}
    models = []
    for model, entries in sorted(book.items()):
        known = [part for part in WRITTEN if part in entries]
        lines = [f"  {json.dumps(part)}: {json.dumps(entries[part])}" for part in known]
        models.append(f" {json.dumps(model)}: {{\n" + ",\n".join(lines) + "\n }")
    head = f'{{\n"format": 1,\n"versions": {json.dumps(versions)},\n'
    head += f'"parts": {json.dumps([*WRITTEN])},\n"models": {{\n'
    RECORD.write_text(head + ",\n".join(models) + "\n}\n}\n", encoding="utf-8")
    stated = ", ".join(f"{name} {version}" for name, version in versions.items())
    rows = [
        (model, *(_shown(entries.get(part, {})) for part in WRITTEN))
        for model, entries in sorted(book.items())
    ]
    waiting = [f"{many} of {part}" for part, many in _statuses(book, "written").items()]
    unproved = f"Not reached by a run yet, and written only: {', '.join(waiting)}."
    lines = [
        "# Coverage",
        "",
        OPENING.format(count=len(book), stated=stated),
        *([unproved, ""] if waiting else []),
        *("## Totals", "", *totals(book), "", TIME, ""),
        *("## Models", "", *table_lines(("model", *WRITTEN), rows), ""),
    ]
    for part in WRITTEN:
        for status in ("failed", "cannot be built here", "refused"):
            entries = [(m, e[part]) for m, e in sorted(book.items()) if part in e]
            found = [(model, entry) for model, entry in entries if entry["status"] == status]
            if found:
                lines += [f"## {part}: {status}", ""]
                lines += [f"- {model}: {_escaped(entry.get('why', ''))}" for model, entry in found]
                lines.append("")
    PAGE.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def _shown(entry: Entry) -> str:
    status: str = entry.get("status", "")
    if status == "verified" and "gain" in entry:
        return f"**{min(entry['gain']):.2f}**"
    return SHORT.get(status, status)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())

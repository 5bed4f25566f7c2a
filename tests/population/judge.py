"""Convert modular files, and compare what is written with what Python makes of them.

equal     classes, members, signatures, values, and what tiny models of both compute
unjudged  equal as far as it can be compared; Python does not run the file, or its model
refused   with a code and a place
broken    it cannot be imported, or an internal error
differs   something is not as Python runs the modular file

What is compared is said by `patchgen.verifying.oracle`.
"""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from transformers import MODEL_MAPPING
from transformers.activations import ACT2CLS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.verifying.oracle.judge import NotJudged, examine, imported, run_as_python
from patchgen.verifying.parts.part_check import Scenario
from tests.population.kinds import IMPORT_TIME, Case

SECONDS = 60  # of CPU, for what is done with one file
# Says what a file's own check finds wrong with the flat modules.
Look = Callable[[Any, Sequence[ModuleType]], list[str]]


@dataclass
class Result:
    """What became of a file."""

    kind: str
    form: str
    model: str
    state: str
    why: str = ""  # it is not equal, or what was compared
    logged: str = ""  # at import, where Python does not
    text: str = ""


def judge(cases: Sequence[Case], folder: Path, look: Look | None = None) -> list[Result]:
    """The results of `cases`, which are of one model."""
    results, environment = [], make_environment(folder)
    for case in cases:
        result = Result(case.kind, case.form, case.model.name, "refused", text=case.text)
        results.append(result)
        stem = "tiny" if case.renames else f"{case.model.name}_x"
        path = folder / "modular" / case.name / f"modular_{stem}.py"
        path.parent.mkdir(parents=True)
        path.write_text(case.text, encoding="utf-8")
        signal.signal(signal.SIGVTALRM, _stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            flat = flatten(path, environment, Settings())
            if flat.problems:
                result.why = " | ".join(map(str, flat.problems))
                result.state = "refused" if all(p.at.line for p in flat.problems) else "broken"
            else:
                texts = {file.name: file.text for file in flat.files}
                _examine(case, path, texts, folder, result, look)
        except (NotJudged, TimeoutError) as error:
            result.state, result.why = "unjudged", str(error)
        except Exception as error:
            result.state, result.why = "broken", f"internal: {_short(error)}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return results


def _examine(
    case: Case, path: Path, texts: dict[str, str], home: Path, result: Result, look: Look | None
) -> None:
    """Set the result of what was written; raises NotJudged."""
    with _outside() as meant, _heard() as told:
        meaning = run_as_python(path, home)
    with _outside() as ours, _heard() as said, imported(texts) as modules:
        result.logged = _more_lines(said.getvalue(), told.getvalue())
        if isinstance(modules, str):
            result.state, result.why = "broken", modules
            return
        is_import = case.kind == IMPORT_TIME
        flats = list(modules.values())
        heads = [] if is_import else [case.head]
        found = examine(meaning, flats, heads, [Scenario(labels=not case.like)])
        wrong = [*found.differences, *(look(case, flats) if look else ())]
    if meant != ours:
        wrong.append(f"outside: {ours}, and not {meant}")
    if wrong:
        result.state, result.why = "differs", " | ".join(wrong)
    elif is_import:
        result.state, result.why = "equal", "classes and values"
    else:
        result.state = "unjudged" if found.not_judged else "equal"
        result.why = found.not_judged or found.compared


def _more_lines(said: str, told: str) -> str:
    """The lines of `said` that are not in `told`, wherever the files lie."""

    def plain(line: str) -> str:
        return re.sub(r"/\S+|_as_python_\d+", "", line)

    known = set(map(plain, told.split("\n")))
    return "\n".join(line for line in said.split("\n") if plain(line) not in known)


@contextmanager
def _outside() -> Iterator[list[str]]:
    """What statements add to tables of transformers and of the system, which is then taken out."""
    found: list[str] = []
    tables: list[MutableMapping[Any, Any]] = [ACT2CLS, os.environ, MODEL_MAPPING._extra_content]
    tables.append(ALL_ATTENTION_FUNCTIONS._global_mapping)
    before = [set(table) for table in tables]
    with warnings.catch_warnings():
        filters = len(warnings.filters)
        try:
            yield found
        finally:
            found.append(f"{len(warnings.filters) - filters} filters")
            for table, known in zip(tables, before, strict=True):
                for key in set(table) - known:
                    value = table.pop(key)
                    names = [getattr(each, "__name__", str(each)) for each in (key, value)]
                    found.append(": ".join(names))
            found.sort()


@contextmanager
def _heard() -> Iterator[io.StringIO]:
    """What is printed and logged."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger("transformers").addHandler(handler)
    with redirect_stdout(heard), redirect_stderr(heard):
        try:
            yield heard
        finally:
            logging.getLogger("transformers").removeHandler(handler)


def _stop(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _short(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error)[:300]} at {place}"

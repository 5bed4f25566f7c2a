"""Convert modular files, import what is written, and compare it with what Python's inheritance gives.

    written   imported, and equal to the oracle as far as it can be built
    refused   with a code and a place
    broken    it cannot be imported, or an internal error
    differs   it computes something else
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from patchgen.compiler.emit.format import format_all
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten_in_steps
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.population.kinds import Case


@dataclass
class Result:
    """What became of a file."""

    case: str
    kind: str
    form: str
    model: str
    state: str
    why: str = ""
    compared: str = ""  # what was equal, or why nothing was compared
    logged: str = ""
    text: str = field(default="", repr=False)


def judge(cases: Sequence[Case], folder: Path) -> list[Result]:
    """The results of `cases`, which are of one model."""
    results = []
    for case, flat in zip(cases, convert(cases, folder), strict=True):
        result = Result(case.name, case.kind, case.form, case.model.name, "written", text=case.text)
        results.append(result)
        if isinstance(flat, str):
            result.state, result.why = "broken", f"converter: {flat}"
        elif flat.problems:
            problem = flat.problems[0]
            result.state = "refused" if problem.at.line else "broken"
            result.why = " | ".join(str(each) for each in flat.problems)
        else:
            _compare(case, {file.name: file.text for file in flat.files}, folder, result)
    return results


def convert(cases: Sequence[Case], folder: Path) -> list[Flattened | str]:
    """What the compiler gives for each, or its internal error; all texts are formatted together."""
    environment, settings = make_environment(folder), Settings()
    steps, requests, results = [], [], {}

    def advance(number: int, answer: Any) -> None:
        try:
            requests.append((number, steps[number].send(answer)))
        except StopIteration as end:
            results[number] = end.value
        except Exception:
            results[number] = traceback.format_exc(limit=-3)

    for number, case in enumerate(cases):
        path = folder / "modular" / case.name / f"modular_{_stem(case)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(case.text, encoding="utf-8")
        steps.append(flatten_in_steps(path, environment, settings))
        advance(number, None)
    while requests:
        asked, requests[:] = list(requests), []
        answers = format_all([request for _, request in asked])
        for (number, _), answer in zip(asked, answers, strict=True):
            advance(number, answer)
    return [results[number] for number in range(len(cases))]


def _stem(case: Case) -> str:
    return "tiny" if case.renames else f"{case.model.name}_x"


def _compare(case: Case, texts: dict[str, str], folder: Path, result: Result) -> None:
    place = folder / "flat" / case.name
    place.mkdir(parents=True)
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8")
    try:
        oracle, said = _load(f"{case.model.module}_{case.name}", case.oracle, folder)
    except Exception as error:
        oracle, said = None, ""
        result.compared = f"no oracle: {_short(error)}"
    try:
        with _heard() as heard:
            flat = _import_flat(case, place, sorted(texts))
        result.logged = "\n".join(line for line in heard.getvalue().split("\n") if line not in said)
    except Exception as error:
        result.state, result.why = "broken", _short(error)


def _import_flat(case: Case, place: Path, names: list[str]) -> ModuleType:
    if str(place.parent) not in sys.path:
        sys.path.insert(0, str(place.parent))
    importlib.invalidate_caches()
    for name in names:  # the modeling file comes last
        module = importlib.import_module(f"{case.name}.{name.removesuffix('.py')}")
    return module


def _load(name: str, text: str, folder: Path) -> tuple[ModuleType, str]:
    """The oracle as a module of transformers, and what it says at import."""
    path = folder / "oracle" / f"{name.rpartition('.')[2]}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _heard() as heard:
        spec.loader.exec_module(module)
    return module, heard.getvalue()


@contextlib.contextmanager
def _heard() -> Iterator[io.StringIO]:
    """What is printed and logged."""
    import logging

    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger("transformers").addHandler(handler)
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        yield heard
    logging.getLogger("transformers").removeHandler(handler)


def _short(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} at {Path(frame.filename).name}:{frame.lineno}"

"""Whether a flat file is what its modular file means, as Python runs it."""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from transformers import PreTrainedModel

from patchgen import disk
from patchgen.syntax.errors import describe_error
from patchgen.verifying.checks.context import CheckContext, Verdict
from patchgen.verifying.oracle.classes import class_differences, lacked, value_differences
from patchgen.verifying.oracle.models import compare_models
from patchgen.verifying.oracle.running import Meaning, NotJudged, run_as_python
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.variants import find_heads

__all__ = ["Judgement", "NotJudged", "examine", "imported", "judge", "run_as_python"]

# One step of training, and one that reads padding.
SCENARIOS = (Scenario(train=True), Scenario(rows="left"))
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Judgement:
    """What differs from Python's way, how much was compared, and why no more."""

    differences: tuple[str, ...]
    compared: str = ""  # of the models
    not_judged: str = ""


def judge(
    modular: Path, flat: Mapping[str, str], home: Path, heads: Sequence[str] | None = None
) -> list[str]:
    """What is not as Python runs the modular file; `flat` are the texts of its outputs by name.

    Every class and function of the flat files is compared, and tiny models of `heads`: of the first
    model class with a head, if none is named.  Raises NotJudged where nothing differs and Python
    does not run the file, or the model of a head.
    """
    meaning = run_as_python(modular, home)
    with imported(flat) as modules:
        if isinstance(modules, str):
            return [modules]
        if heads is None:
            heads = []
            for name, text in flat.items():
                heads += _heads(modules[name], text)
        found = examine(meaning, list(modules.values()), heads, SCENARIOS)
    if found.not_judged and not found.differences:
        raise NotJudged(found.not_judged)
    return list(found.differences)


def _heads(module: ModuleType, text: str) -> list[str]:
    """The first public model class, or the last of the file where it names none as public."""
    if listed := find_heads(text)[:1]:
        return list(listed)
    models = []
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            if issubclass(cls, PreTrainedModel) and not cls.__name__.endswith("PreTrainedModel"):
                models.append(cls.__name__)
    return models[-1:]


def examine(
    meaning: Meaning,
    flats: Sequence[ModuleType],
    heads: Sequence[str],
    scenarios: Sequence[Scenario],
) -> Judgement:
    """The flat modules of a modular file beside what it means."""
    found = lacked(meaning, flats)
    for flat in flats:
        found += class_differences(meaning, flat)
        found += value_differences(meaning, flat)
    tensors = 0
    why = ""
    for flat, head in itertools.product(flats, heads):
        if not hasattr(flat, head):
            continue
        try:
            report = compare_models(meaning, flat, head, scenarios)
            found += report.differences
            tensors += report.tensors
        except NotJudged as reason:
            why = str(reason)
    if not tensors and not why:
        why = f"no model of {', '.join(heads) or 'the file'} is compared"
    return Judgement(tuple(found), f"equal state and {tensors} outputs", why)


def check_as_python(context: CheckContext) -> Verdict:
    """FAIL for what is not as Python runs the modular file; WARN where Python does not run it."""
    pair = context.pair
    head = context.case.head
    home = Path(pair.variant.home)
    modular = pair.variant.modular
    try:
        meaning = _run(home / modular, home)
    except NotJudged as why:
        return Verdict("WARN", f"not judged: {why}")
    found = examine(meaning, [pair.module], [head], [context.case.scenario, *SCENARIOS])
    if found.differences:
        first = found.differences[0]
        more = len(found.differences) - 1
        others = f"; and {more} more" if more else ""
        return Verdict("FAIL", f"not as Python runs {modular}: {first}{others}", cause=first)
    if found.not_judged:
        return Verdict("WARN", f"classes are equal; models are not judged: {found.not_judged}")
    return Verdict("PASS", f"classes, members, signatures, values; {found.compared}")


_run = functools.cache(run_as_python)


@contextmanager
def imported(texts: Mapping[str, str]) -> Iterator[dict[str, ModuleType] | str]:
    """The modules of these texts, as a package of their own; or why one cannot be imported."""
    package = f"flat_{next(_NUMBERS)}"
    modules: dict[str, ModuleType] = {}
    with disk.scratch() as folder:
        disk.fill(folder / package, {"__init__.py": "", **texts})
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            for name in sorted(texts):  # configurations are first
                try:
                    stem = name.removesuffix(".py")
                    modules[name] = importlib.import_module(f"{package}.{stem}")
                except Exception as error:
                    yield f"{name} cannot be imported: {describe_error(error, 200)}"
                    return
            yield modules
        finally:
            sys.path.remove(str(folder))

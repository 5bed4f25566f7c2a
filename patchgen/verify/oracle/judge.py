"""Whether a flat file is what its modular file means, as Python runs it."""

from __future__ import annotations

import functools
import importlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.oracle.classes import class_differences, lacked
from patchgen.verify.oracle.models import model_differences, say
from patchgen.verify.oracle.running import NotJudged, run_as_python
from patchgen.verify.parts.part_check import Scenario
from patchgen.verify.variants import find_heads

__all__ = ["NotJudged", "judge"]

# One step of training, and one that reads padding.
SCENARIOS = (Scenario(train=True), Scenario(rows="left"))
_NUMBERS = count()


def judge(
    modular: Path, flat: Mapping[str, str], home: Path, heads: Sequence[str] | None = None
) -> list[str]:
    """What is not as Python runs the modular file; `flat` are the texts of its outputs by name.

    Every class and function of the flat files is compared, and tiny models of `heads`: of the first
    public model class, if none is named.  Raises NotJudged where Python does not run the file, or
    the model of a head.
    """
    meaning = run_as_python(modular, home)
    with imported(flat) as modules:
        if isinstance(modules, str):
            return [modules]
        found = lacked(meaning, list(modules.values()))
        for name, module in modules.items():
            found += class_differences(meaning, module)
            named = find_heads(flat[name])[:1] if heads is None else heads
            for head in [each for each in named if hasattr(module, each)]:
                found += model_differences(meaning, module, head, SCENARIOS)
    return found


def check_as_python(context: CheckContext) -> Verdict:
    """FAIL for what is not as Python runs the modular file; WARN where Python does not run it."""
    pair, head = context.pair, context.case.head
    home = Path(pair.variant.home)
    try:
        meaning = _run(home / pair.variant.modular, home)
        found = [*lacked(meaning, [pair.module]), *class_differences(meaning, pair.module)]
        found += model_differences(meaning, pair.module, head, (context.case.scenario, *SCENARIOS))
    except NotJudged as why:
        return Verdict("WARN", f"not judged: {why}")
    if found:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return Verdict(
            "FAIL",
            f"not as Python runs {pair.variant.modular}: {'; '.join(found[:3])}{more}",
            cause=found[0],
        )
    return Verdict("PASS", "classes, members, signatures, values, and what it computes")


_run = functools.cache(run_as_python)


@contextmanager
def imported(texts: Mapping[str, str]) -> Iterator[dict[str, ModuleType] | str]:
    """The modules of these texts, as a package of their own; or why one cannot be imported."""
    package = f"flat_{next(_NUMBERS)}"
    modules: dict[str, ModuleType] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, package)
        place.mkdir()
        for name, text in {"__init__.py": "", **texts}.items():
            (place / name).write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            for name in sorted(texts):  # configurations are first
                try:
                    stem = name.removesuffix(".py")
                    modules[name] = importlib.import_module(f"{package}.{stem}")
                except Exception as error:
                    yield f"{name} cannot be imported: {say(error)}"
                    return
            yield modules
        finally:
            sys.path.remove(folder)

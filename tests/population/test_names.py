"""Names and bases of every model: what stands under a name, in which order, and whose it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from patchgen.author.resolve import resolver_of
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import Environment, make_environment
from tests.population.models import Model, find_models
from tests.population.names import (
    alias_cases,
    find_disorder,
    find_other_import,
    find_wrong,
    import_cases,
    order_cases,
)

pytest.importorskip("transformers")
Judged = Iterator[tuple[str, str, Callable[[str], str]]]


def aliases(model: Model) -> Judged:
    for case in alias_cases(model):
        yield case.name, case.text, lambda flat, case=case: find_wrong(case, flat)  # type: ignore[misc]


def imports(model: Model) -> Judged:
    for case in import_cases(model):
        yield case.name, case.text, lambda flat, case=case: find_other_import(case, flat)  # type: ignore[misc]


def base_orders(model: Model) -> Judged:
    for name, text in order_cases(model):
        yield name, text, lambda flat, text=text: find_disorder(model, text, flat)  # type: ignore[misc]


def judge(
    models: Sequence[Model], cases: Callable[[Model], Judged], folder: Path, most: int
) -> tuple[Counter[str], list[str]]:
    """How many files came out how, and what is wrong with each that is.

    Of each model `most` cases are looked at, others of the next one.
    """
    counts, wrong = Counter[str](), list[str]()
    environment = make_environment(folder)
    for place, model in enumerate(models):
        for number, (name, text, find) in enumerate(
            islice(cases(model), place % 4, place % 4 + most)
        ):
            state = _state(text, folder / f"{model.name}_{number}", model, environment, find)
            counts[state if state in ("right", "refused") else "wrong"] += 1
            if state not in ("right", "refused"):
                wrong.append(f"{model.name}, {name}: {state}")
    return counts, wrong


def _state(
    text: str, folder: Path, model: Model, environment: Environment, find: Callable[[str], str]
) -> str:
    path = folder / f"modular_{model.name}_x.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    flat = flatten(path, environment, Settings())
    if any(problem.severity == "error" for problem in flat.problems):
        return "refused" if all(problem.at.line for problem in flat.problems) else "no place"
    (output,) = [file.text for file in flat.files if "probe" in file.text]
    return find(output) or "right"


@pytest.mark.parametrize("cases", [aliases, imports, base_orders])
def test_a_sample(cases: Callable[[Model], Judged], tmp_path: Path) -> None:
    # Functions of one name, and loggers of two kinds.
    models = [model for model in find_models() if model.name in ("llama", "udop")]
    counts, wrong = judge(models, cases, tmp_path, most=2)
    assert not wrong, "\n".join(wrong)
    assert counts["right"] == counts.total() > 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("cases", [aliases, imports, base_orders])
def test_every_model(cases: Callable[[Model], Judged], part: int, tmp_path: Path) -> None:
    counts, wrong = judge(find_models()[part::8], cases, tmp_path, most=3)
    assert not wrong, "\n".join(wrong)
    assert counts["right"] >= 0.75 * counts.total() > 50


def find_by_root(models: Sequence[Model]) -> list[str]:
    """The heads that the package's own name does not lead to."""
    root = find_models()[0].path.parents[3]
    resolver = resolver_of(root)
    lost: list[str] = []
    for model in models:
        found = resolver.locate(f"transformers.{model.head}.forward")
        if model.head and found != (model.module, (model.head, "forward")):
            lost.append(f"{model.head} is found in {found}")
    return lost


def test_heads_by_the_name_of_the_package() -> None:
    assert not find_by_root(find_models()[5::133])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_head_by_the_name_of_the_package() -> None:
    assert not find_by_root(find_models())

"""Convert modular files, import what is written, and compare it with what Python's inheritance gives.

    unmade    neither it nor the oracle can be imported: no fault of the converter
    written   imported, and equal to the oracle as far as it can be built
    refused   with a code and a place
    broken    it cannot be imported, or an internal error
    differs   it computes something else
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import logging
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from transformers.models.auto.auto_factory import _LazyAutoMapping

from patchgen.compiler.emit.format import format_all
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten_in_steps
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.verify.configs.tiny import tiny_config
from patchgen.verify.inputs.arguments import LARGEST, CannotBuild
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.models.weights import draw_weights
from patchgen.verify.parts.scenario import Scenario
from tests.population.kinds import Case

SECONDS = 60  # for the comparison of one file


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
    oracle, said = None, ""
    try:
        oracle, said = _load(f"{case.model.module}_{case.name}", case.oracle, folder)
    except Exception as error:
        result.compared = f"no oracle: {_short(error)}"
    try:
        with _heard() as heard:
            flat = _import_flat(case, place, sorted(texts))
        result.logged = "\n".join(line for line in heard.getvalue().split("\n") if line not in said)
    except Exception as error:
        result.state, result.why = "broken" if oracle else "unmade", _short(error)
        return
    if oracle is None:
        return
    with _limited():
        try:
            steps = _Sides(case, oracle, flat)
        except Exception as error:
            result.compared = f"not built: {_short(error)}"
            return
        try:
            result.compared = steps.compare()
        except CannotBuild as error:
            result.compared = f"not built: {_short(error)}"
        except Exception as error:
            result.state, result.why = "differs", _short(error)


class _Sides:
    """The oracle's tiny model, what it computes, and the flat file's class."""

    def __init__(self, case: Case, oracle: ModuleType, flat: ModuleType) -> None:
        self.case, self.oracle, self.flat = case, oracle, flat
        name = case.renames.get(case.head, case.head)
        self.parent = importlib.import_module(case.model.module)
        self.like = getattr(self.parent, case.like or name)
        self.config = tiny_config(self.like.config_class)
        if "eager" in case.form:
            self.config._attn_implementation = "eager"
        self.model = self.build(getattr(oracle, name), {**case.fields})

    def build(self, cls: type, fields: dict[str, Any]) -> Any:
        """A model of `cls`, whose base models are of its file."""
        config = copy.deepcopy(self.config)
        if cls.config_class is not self.like.config_class and cls.__module__ == self.flat.__name__:
            values = {k: v for k, v in config.to_dict().items() if k != "model_type"}
            config = cls.config_class.from_dict(values)
        for key, value in fields.items():
            setattr(config, key, value)
        with torch.device("meta"):
            size = sum(p.numel() for p in cls(copy.deepcopy(config)).parameters())
        if size > LARGEST:
            raise CannotBuild(f"{size:,} parameters")
        torch.manual_seed(0)
        with _of_auto(self.parent, self.oracle if cls.__module__ != self.flat.__name__ else self.parent):
            return cls(config).eval()

    def compare(self) -> str:
        """What is equal; raises AssertionError with the first difference."""
        flat = self.build(getattr(self.flat, self.case.head), {})
        expected, got = self.model.state_dict(), flat.state_dict()
        _same(list(expected), list(got), "names of the state")
        for name, tensor in expected.items():
            assert _equal(tensor, got[name]), f"the initial {name} differs"
        self._same_classes(flat)
        draw_weights(self.model)
        flat.load_state_dict(self.model.state_dict())
        try:
            scenario = Scenario(labels=not self.case.like)
            inputs = make_inputs(self.like, self.config, scenario).to("cpu", torch.float32)
            expected = self._run(self.model, inputs)
        except Exception as error:
            return f"state; not run: {_short(error)}"
        got = self._run(flat, inputs)
        _same(list(expected), list(got), "names of the outputs")
        for name, tensor in expected.items():
            assert _equal(tensor, got[name]), f"{name} differs"
        return f"state, {len(expected)} outputs"

    def _same_classes(self, flat: Any) -> None:
        """What the modular file changes is of the flat file, and has all members."""
        changed = self.case.changed
        for (name, one), (_, other) in zip(self.model.named_modules(), flat.named_modules(), strict=True):
            cls = type(one)
            if cls.__module__ == self.oracle.__name__ and self.case.model.reachable(cls.__name__) & changed:
                missing = [m for m in dir(cls) if not hasattr(type(other), m)]
                assert not missing, f"{cls.__name__} lacks {missing}"
                inside = type(other).__module__ == self.flat.__name__
                assert inside, f"{name or 'the model'} is a {type(other).__module__}.{type(other).__name__}"

    def _run(self, model: Any, inputs: Any) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        given = copy.deepcopy(inputs.given)
        with torch.no_grad():
            return dict(_tensors(model(**given, **inputs.options), ""))


def _tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{path}.{key}")
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _tensors(item, f"{path}.{number}")


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.allclose(
        one.double() if not one.is_complex() else one, other.double() if not one.is_complex() else other, rtol=0, atol=0, equal_nan=True
    )


def _same(one: list[str], other: list[str], what: str) -> None:
    missing, more = [n for n in one if n not in other], [n for n in other if n not in one]
    assert not missing and not more, f"{what}: {missing[:3]} missing, {more[:3]} more"


@contextlib.contextmanager
def _of_auto(parent: ModuleType, instead: ModuleType) -> Iterator[None]:
    """The auto classes give the classes of `instead` for those of `parent`."""
    load = _LazyAutoMapping._load_attr_from_module

    def replaced(self: Any, model_type: str, attr: str) -> Any:
        value = load(self, model_type, attr)
        if getattr(value, "__module__", "") == parent.__name__ and isinstance(value, type):
            return getattr(instead, value.__name__)
        return value

    _LazyAutoMapping._load_attr_from_module = replaced
    try:
        yield
    finally:
        _LazyAutoMapping._load_attr_from_module = load


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


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
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger("transformers").addHandler(handler)
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        yield heard
    logging.getLogger("transformers").removeHandler(handler)


def _short(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} at {Path(frame.filename).name}:{frame.lineno}"

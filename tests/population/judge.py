"""Convert modular files, import what is written, and compare it with what Python's inheritance gives.

written   and imported, and equal to the oracle as far as that can be built
refused   with a code and a place
broken    it cannot be imported, or an internal error
differs   it computes something else
unmade    the model itself cannot be imported here, or only the oracle cannot
"""

from __future__ import annotations

import copy
import importlib.util
import io
import logging
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.utils._pytree as pytree
from transformers.models.auto.auto_factory import _LazyAutoMapping

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment
from patchgen.verify.inputs.arguments import LARGEST, CannotBuild
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.models.build import draw_weights
from patchgen.verify.parts.part_check import Scenario
from tests.population.kinds import Case

SECONDS = 60  # for what is done with one file
# Says what is equal of the oracle and a flat module; the last argument: AutoModel builds a part.
Compare = Callable[[Any, ModuleType, ModuleType, bool], str]


@dataclass
class Result:
    """What became of a file."""

    kind: str
    form: str
    model: str
    state: str
    why: str = ""  # it is not "written", or what was compared
    logged: str = ""  # at import, where the oracle does not
    text: str = ""


def judge(cases: Sequence[Case], folder: Path, compare: Compare | None = None) -> list[Result]:
    """The results of `cases`, which are of one model."""
    results, environment = [], make_environment(folder)
    for case in cases:
        result = Result(case.kind, case.form, case.model.name, "written", text=case.text)
        results.append(result)
        stem = "tiny" if case.renames else f"{case.model.name}_x"
        path = folder / "modular" / case.name / f"modular_{stem}.py"
        path.parent.mkdir(parents=True)
        path.write_text(case.text, encoding="utf-8")
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(SECONDS)
        try:
            flat = flatten(path, environment, Settings())
            if flat.problems:
                placed = all(problem.at.line for problem in flat.problems)
                result.state = "refused" if placed else "broken"
                result.why = " | ".join(map(str, flat.problems))
            else:
                _examine(case, flat.files, folder, result, compare or _compare)
        except Exception as error:
            result.state, result.why = "broken", f"internal: {short(error)}"
        finally:
            signal.alarm(0)
    return results


def _examine(
    case: Case, files: Sequence[FlatFile], folder: Path, result: Result, compare: Compare
) -> None:
    """Set the result of what was written."""
    oracle, said = f"{case.model.module}_{case.name}", ""
    for name, text in sorted((file.name, file.text) for file in files):
        try:
            with _heard() as heard:
                flat = _load(f"flat.{case.name}.{name[:-3]}", text, folder)
            said += heard.getvalue()
        except Exception as error:
            result.state, result.why = "broken", short(error)
    try:
        with _heard() as heard:
            inherited = _load(oracle, case.oracle, folder)
    except Exception as error:
        result.state, result.why = "unmade", short(error)
    if result.state == "written":
        told = {re.sub(r"/\S+", "", line) for line in heard.getvalue().split("\n")}
        lines = [line for line in said.split("\n") if re.sub(r"/\S+", "", line) not in told]
        result.logged = "\n".join(lines)
        try:
            result.why = compare(case, inherited, flat, _asks_auto_model(files))
        except Exception as error:
            result.state, result.why = "differs", short(error)


def _load(name: str, text: str, folder: Path) -> ModuleType:
    """`text` as a module of that name."""
    path = Path(folder, *name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _asks_auto_model(files: Sequence[FlatFile]) -> bool:
    """Whether a note says that AutoModel builds a part: it is that of transformers."""
    return any("transformers' own classes" in note.what for file in files for note in file.notes)


def _compare(case: Case, inherited: ModuleType, flat: ModuleType, is_partly_auto: bool) -> str:
    """What is equal; raises AssertionError or any error of the flat file alone."""
    name = case.renames.get(case.head, case.head)
    parent = importlib.import_module(case.model.module)
    like = getattr(parent, case.like or name)
    flat_class = getattr(flat, case.head)
    try:
        config = tiny_config(like.config_class)
        if "eager_attention_forward" in case.changed:
            config._attn_implementation = "eager"
        if case.field:
            setattr(config, case.field, 0.5)
        with of_auto(parent, inherited):
            model = build(getattr(inherited, name), config)
    except Exception as error:
        return f"imported; not built: {short(error)}"
    if flat_class.config_class.__module__.startswith("flat."):
        values = config.to_dict()
        del values["model_type"]
        config = flat_class.config_class.from_dict(values)
    other = None
    try:
        other = build(flat_class, config)
    except ValueError:  # AutoModel does not know the configuration
        if not is_partly_auto:
            raise
    parts = {type(module).__module__ for module in other.modules()} if other else {parent.__name__}
    if is_partly_auto and parent.__name__ in parts:
        return "imported; not compared: a part is of AutoModel"
    assert_equal(model.state_dict(), other.state_dict(), "initial state")
    for (place, module), theirs in zip(model.named_modules(), other.modules(), strict=True):
        cls = type(module)
        read = case.model.reachable(cls.__name__)
        # What only calls `super()` changes nothing: the model of AutoModel is as good.
        is_changed = case.kind != "super" and read & case.changed.keys()
        if cls.__module__ == inherited.__name__ and is_changed:
            assert type(theirs).__module__ == flat.__name__, f"{place} is of transformers"
            missing = [member for member in dir(cls) if not hasattr(type(theirs), member)]
            assert not missing, f"{cls.__name__} lacks {missing}"
    draw_weights(model)
    other.load_state_dict(model.state_dict())
    try:
        inputs = make_inputs(like, model.config, Scenario(labels=not case.like))
        inputs = inputs.to("cpu", torch.float32)
        outputs = run(model, inputs)
    except Exception as error:
        return f"equal state; not run: {short(error)}"
    assert_equal(outputs, run(other, inputs), "outputs")
    return f"equal state and {len(outputs)} outputs"


def build(cls: Any, config: Any) -> Any:
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in cls(copy.deepcopy(config)).parameters())
    if size > LARGEST:
        raise CannotBuild(f"{size:,} parameters")
    torch.manual_seed(0)
    # What nothing initialises is filled, and not what the memory happens to hold.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        return cls(copy.deepcopy(config)).eval()
    finally:
        torch.use_deterministic_algorithms(False)


def run(model: Any, inputs: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        output = model(**copy.deepcopy(inputs.given), **inputs.options)
    leaves, _ = pytree.tree_flatten_with_path(output)
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, torch.Tensor)}


def assert_equal(expected: dict[str, Any], given: dict[str, Any], what: str) -> None:
    names = sorted(expected.keys() ^ given.keys())
    assert not names, f"{what}: only one side has {names[:3]}"
    for name, tensor in expected.items():
        equal = torch.equal(given[name].nan_to_num(), tensor.nan_to_num())
        assert equal, f"{what}: {name}"


def of_auto(parent: ModuleType, inherited: ModuleType) -> AbstractContextManager[Any]:
    """The auto classes give the classes of `inherited` for those of `parent`."""
    load = _LazyAutoMapping._load_attr_from_module

    def replaced(self: Any, model_type: str, attr: str) -> Any:
        value = load(self, model_type, attr)
        is_parents = getattr(value, "__module__", "") == parent.__name__
        return getattr(inherited, value.__name__, value) if is_parents else value

    return patch.object(_LazyAutoMapping, "_load_attr_from_module", replaced)


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


def short(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error)[:300]} at {place}"

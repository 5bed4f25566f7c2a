"""Calls of what models import from transformers, as of another release: with other arguments.

Each call of a modeling file is made again with an argument more, one less, and one renamed.  Python judges: what
`inspect.signature` of the real object does not bind is found on its line, and nothing else is.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import FlatFile, LineOrigin
from patchgen.syntax.errors import Location
from patchgen.syntax.locate import make_environment
from tests.population.models import Model, find_models

pytest.importorskip("torch")
pytest.importorskip("transformers")
AT = Location("modular.py")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "step", [pytest.param(32, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_arguments_of_another_release(step: int) -> None:
    root = Path(find_models()[0].path).parents[3]
    env = make_environment(root, search=[])
    wrong: list[str] = []
    seen = fitting = missed = 0
    for model in find_models()[5::step]:
        calls, text = write_calls(model)
        lines = (LineOrigin(1, len(text.split("\n")), AT.path, 1),)
        file = FlatFile("modeling", "out.py", text, map_lines=lambda lines=lines: lines)
        found = {problem.at.line: problem for problem in validate(file, (), env, {"": AT})}
        for line, call in calls.items():
            fits = is_bound(model, call)
            if fits is None:
                continue
            wrong += [str(found[line])] if fits and line in found else []
            seen += not fits and line in found
            missed += not fits and line not in found
            fitting += fits
    assert not wrong
    # What stays unseen: classes with a metaclass, and functions below decorators that nobody knows.
    assert seen > 0.9 * (seen + missed) > 4000 / step, (seen, missed)
    assert fitting > 1000 / step


def write_calls(model: Model) -> tuple[dict[int, ast.Call], str]:
    """A function with the changed calls of a model, and the calls by their lines."""
    imports = {name: line for name, line in model.imports.items() if "from transformers" in line}
    lines = [*imports.values(), "def run():"]
    calls: dict[int, ast.Call] = {}
    for name, call in find_calls(model):
        for changed in change(call) if name in imports else ():
            lines.append(f"    {ast.unparse(changed)}")
            calls[len(lines)] = changed
    return calls, "\n".join([*lines, "    return 0", ""])


def find_calls(model: Model) -> Iterator[tuple[str, ast.Call]]:
    """Each call by a dotted name, once, with its first name; its arguments are all 0."""
    written = set()
    for node in ast.walk(ast.parse(model.text)):
        if not isinstance(node, ast.Call) or not all(k.arg for k in node.keywords):
            continue
        name = ast.unparse(node.func)
        is_dotted = name.replace(".", "").isidentifier()
        call = ast.Call(node.func, [ast.Constant(0) for _ in node.args], [])
        call.keywords = [ast.keyword(k.arg, ast.Constant(0)) for k in node.keywords]
        if is_dotted and not any(isinstance(a, ast.Starred) for a in node.args):
            if ast.unparse(call) not in written:
                written.add(ast.unparse(call))
                yield name.partition(".")[0], call


def change(call: ast.Call) -> Iterator[ast.Call]:
    """The call as it is, and with an argument more, less, and of another name."""
    yield call
    more = copy.deepcopy(call)
    more.keywords.append(ast.keyword("cache_positions", ast.Constant(0)))
    yield more
    longer = copy.deepcopy(call)
    longer.args += [ast.Constant(0)] * 3
    yield longer
    for number, keyword in enumerate(call.keywords):
        less = copy.deepcopy(call)
        del less.keywords[number]
        yield less
        renamed = copy.deepcopy(call)
        renamed.keywords[number].arg = f"{keyword.arg}_ids"
        yield renamed
    if call.args:
        shorter = copy.deepcopy(call)
        shorter.args.pop()
        yield shorter


def is_bound(model: Model, call: ast.Call) -> bool | None:
    """Whether Python binds the arguments of a call to the parameters of what it calls.

    None where that cannot be asked: a package is missing, or there is no such method, as in FNet's `logging.warning`.
    """
    try:
        value: Any = importlib.import_module(model.module)
        for name in ast.unparse(call.func).split("."):
            value = getattr(value, name)
        signature = inspect.signature(value)
    except (AttributeError, ImportError, ValueError):
        return None
    try:
        signature.bind(*call.args, **{str(k.arg): 0 for k in call.keywords})
    except TypeError:
        return False
    return True

"""Python is the oracle: each flat golden case does what the inherited class does.

The probe of a case runs twice: over the classes as declared, with Python's own inheritance, and
over the flat class.  Both must print the same.
"""

import contextlib
import io
import types
from pathlib import Path

import pytest

from tests.unit.compiler.plans import Golden, classes_of, plan_of, read_golden

CASES = sorted((Path(__file__).parents[2] / "golden" / "merge").glob("*.py"))
PROBED = [
    path
    for path in CASES
    if "probe" in (golden := read_golden(path)).sections and "flat" in golden.sections
]


def run(*texts: str, parent: str = "") -> str:
    """What the texts print, run in turn in one namespace; `parent` is a module for them."""
    space: dict[str, object] = {"__name__": "case"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for text in texts:
            if text == parent and parent:
                module = types.ModuleType("parent")
                vars(module).update(space)
                exec(compile(text, "parent", "exec"), vars(module))
                space |= {
                    name: value for name, value in vars(module).items() if not name.startswith("__")
                }
                space["parent"] = module
            else:
                exec(compile(text, "case", "exec"), space)
    return out.getvalue()


def inherited(golden: Golden) -> str:
    return run(golden.bases, golden.parent, golden.modular, golden.probe, parent=golden.parent)


def flat(golden: Golden) -> str:
    """The module of the parent without its merged classes, then the flat class."""
    merged = {block.name for block in plan_of(golden).chain}
    texts = [without(text, merged) for text in (golden.parent, golden.modular)]
    return run(golden.bases, *texts, golden.flat, golden.probe)


def without(text: str, names: set[str]) -> str:
    lines = text.splitlines(keepends=True)
    for name, node in classes_of(text).items():
        if name in names:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = ["\n"] * ((node.end_lineno or 0) - first + 1)
    return "".join(lines)


@pytest.mark.parametrize("path", PROBED, ids=lambda path: path.stem)
def test_flat_does_what_inheritance_does(path):
    golden = read_golden(path)
    expected = inherited(golden)
    assert expected, "the probe prints nothing"
    assert flat(golden) == expected

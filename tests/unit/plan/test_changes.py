"""Which names a top-level statement may change, whatever they are called where it stands."""

import pytest

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.changes import Changes
from patchgen.compiler.plan.flatten_scope import FlattenScope
from patchgen.syntax.locate import make_environment

HEAD = """
import os
SIZES = [1]
VIEW = SIZES
add = SIZES.append
LIMIT = 3
class Box:
    def __getitem__(self, name): return LOG.append(name)
LOG = []
BOX = Box()
def note(x): LOG.append(x)
def plain(x): return x
"""


def change(tmp_path, statement):
    package = tmp_path / "own"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "toy.py").write_text(HEAD + statement + "\n")
    bindings = Bindings(make_environment(tmp_path), FlattenScope("own"))
    index = bindings.env.index("own.toy", None)
    return Changes(bindings).of(index, index.blocks[-1])


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("VIEW += [2]", {"VIEW", "SIZES"}),
        ("VIEW[0] = 2", {"VIEW", "SIZES"}),
        ("add(3)", {"SIZES"}),
        ("note(3)", {"LOG"}),
        ("for each in (SIZES, LOG): each += [1]", {"SIZES", "LOG"}),
        ("first = BOX[3]", {"LOG", "first"}),
        ("@note\ndef late(): pass", {"LOG", "late"}),
        ("other = LIMIT + 1", {"other"}),
        ("def later(): SIZES.clear()", {"later"}),
    ],
)
def test_what_a_statement_changes(tmp_path, statement, changed):
    found = {symbol.name for symbol in change(tmp_path, statement).symbols}
    assert changed <= found
    if not changed & {"SIZES", "LOG"}:
        assert found == changed


@pytest.mark.parametrize(
    ("statement", "outside"), [("os.environ['A'] = '1'", True), ("LIMIT + 1", False)]
)
def test_what_acts_outside(tmp_path, statement, outside):
    assert change(tmp_path, statement).outside is outside

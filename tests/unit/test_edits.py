"""The words of an edit mark, and do nothing else."""

import subprocess
import sys

import pytest

from patchgen.edits import Edit, Hole, New, Old, after, before, edit, new, old


class Declared:
    @edit("forward", count=2)
    def double(self, x, scale: Hole):
        with old:
            x * scale
        with new:
            x * scale * 2

    @edit("forward")
    def sign(self, mask: Old, factor: New[float] = 1.0, bias: New = 0): ...


def test_a_decorated_function_becomes_a_mark():
    assert isinstance(Declared.double, Edit)
    assert (Declared.double.method, Declared.double.count) == ("forward", 2)
    assert Declared.double.declaration.__name__ == "double"


def test_a_mark_cannot_be_called():
    with pytest.raises(TypeError, match="Declared.double edits 'forward'"):
        Declared().double(1, 2)


@pytest.mark.parametrize("part", [old, new, before, after])
def test_a_part_cannot_be_entered(part):
    with pytest.raises(TypeError, match="never run"), part:
        pass


def test_an_edit_matches_at_least_once():
    with pytest.raises(ValueError, match="not 0 times"):
        edit("forward", count=0)


def test_nothing_but_the_standard_library_is_imported():
    code = "import sys; import patchgen.edits; print({'torch', 'transformers'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "set()"
    )

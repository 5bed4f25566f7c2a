"""What code looks at classes or at names of objects: every spelling is seen, and nothing else."""

import pytest

from patchgen.compiler.link.identity import _inspect

CLASSES = (
    *("type(x).__mro__", "x.__bases__", "x.__base__", "x.__subclasses__()", "x.__orig_bases__"),
    *("x.__annotations__", "inspect.getmro(x)", "x.mro()", "types.get_original_bases(x)"),
    *("inspect.classify_class_attrs(x)", "inspect.getdoc(x)", "x.__qualname__", "c.co_qualname"),
    *("x.__slots__", "getattr(x, '__slots__')", "cls.__dict__", "type(x).__dict__"),
    *("__class__.__dict__", "vars(Toy)", "vars(type(x))", "vars(x.__class__)"),
)
NAMES = ("dir(x)", "inspect.getmembers(x)", "inspect.getmembers_static(x)", "x.__dir__()")
SUPERS = ("s = super", "builtins.super().f()", "def super(): ...")
PLAIN = ("x.mro_", "vars(x)", "x.__dict__", "mkdir(x)", "# x.__mro__", "super().f()", "x.bases")


@pytest.mark.parametrize("code", CLASSES)
def test_code_that_looks_at_classes(code):
    assert _inspect(code).classes


@pytest.mark.parametrize("code", [*NAMES, "f.co_name"])
def test_code_that_looks_at_names(code):
    assert _inspect(code).names


@pytest.mark.parametrize("code", SUPERS)
def test_code_that_uses_super_otherwise(code):
    assert _inspect(code).renames_super


@pytest.mark.parametrize("code", PLAIN)
def test_noop_other_code(code):
    found = _inspect(code)
    assert (found.classes, found.names, found.renames_super) == ("", "", False)

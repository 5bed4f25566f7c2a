"""What is said without parsing of the names that star imports bring."""

from __future__ import annotations

import pytest

from patchgen.syntax import stars
from patchgen.syntax import text as reading
from patchgen.syntax.stars import may_bring, read_searched

PACKAGE = """# Copyright
from typing import TYPE_CHECKING

from ...utils import _LazyModule
from ...utils.import_utils import define_import_structure


if TYPE_CHECKING:
    from .configuration_toy import *
    from .inner import *
else:
    import sys

    _file = globals()["__file__"]
    sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file), module_spec=__spec__)
"""
FILES = {
    "toy": PACKAGE,
    "toy.configuration_toy": "init = 1\n\n__all__ = ['ToyConfig']\n",
    "toy.inner": PACKAGE.replace("    from .inner import *\n", ""),
    "toy.inner.configuration_toy": "def f():\n    initial = 1\n\n__all__ = []\n",
}


@pytest.fixture
def asks(tmp_path):
    """Writes modules, and says whether a star import of `toy` may bring `init`."""

    def ask(files):
        for module, text in files.items():
            path = tmp_path / module.replace(".", "/")
            is_package = any(other.startswith(f"{module}.") for other in files)
            path = path / "__init__.py" if is_package else path.with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

        def find(module):
            base = tmp_path / module.replace(".", "/")
            paths = (base / "__init__.py", base.with_suffix(".py"))
            return next((str(path) for path in paths if path.is_file()), "")

        return may_bring("init", "toy", find, read_searched)

    return ask


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="only spelled"),
        pytest.param({"toy.inner.configuration_toy": ""}, id="empty"),
        pytest.param({"toy": PACKAGE.replace("\n", "\r\n")}, id="line ends of Windows"),
        pytest.param(
            {"toy": PACKAGE.replace("# C", "# \N{COPYRIGHT SIGN} \N{EM DASH}")}, id="not ASCII"
        ),
        pytest.param({"toy.inner": PACKAGE.replace("inner", "missing")}, id="no such module"),
    ],
)
def test_noop_a_name_that_no_file_exports(changes, asks):
    assert not asks(FILES | changes)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"toy.configuration_toy": "init = 1\n"}, id="exported without a list"),
        pytest.param({"toy.inner.configuration_toy": "\n__all__ = ['init']\n"}, id="listed"),
        pytest.param({"toy.inner": FILES["toy.inner"] + "init = 1\n"}, id="in a package"),
        pytest.param({"toy": PACKAGE + "from .other import *\n"}, id="another package"),
        pytest.param({"toy": PACKAGE.replace(".inner", ".class")}, id="not Python"),
        pytest.param(
            {"toy": PACKAGE.replace("# C", "# x\rfrom .other import *\n# C")}, id="line end"
        ),
        pytest.param({"toy.inner": b"# coding: utf-7\n"}, id="another encoding"),
        pytest.param({"toy.inner.configuration_toy": b"# \xff\n"}, id="no UTF-8"),
        pytest.param({"toy.inner.configuration_toy": "# \u202e\n"}, id="invisible"),
        pytest.param({"toy.inner.configuration_toy": "\0"}, id="NUL"),
    ],
)
def test_whatever_is_not_certain_has_to_be_parsed(changes, asks):
    assert asks(FILES | changes)


@pytest.mark.parametrize("hidden", ["\u061c", "\u200b", "\u202a", "\u2064", "\u2066", "\ufeff"])
def test_invisible_characters_are_seen_as_when_a_source_is_read(hidden, tmp_path):
    path = tmp_path / "x.py"
    path.write_text(f"x = 1  # {hidden}\n", encoding="utf-8")
    assert read_searched(str(path)) is None
    assert read_searched(str(path), allow_bidi=True) == path.read_bytes()


def test_noop_other_characters_are_not_taken_for_invisible_ones():
    """The bytes tell each character as the text does."""
    for code in [*range(0x80, 0x3000), *range(0xFE00, 0x10000), 0x1F600]:
        assert stars._may_hide(chr(code).encode()) == bool(reading._BIDI.search(chr(code))), hex(
            code
        )

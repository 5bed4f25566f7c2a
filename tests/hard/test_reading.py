"""Hard inputs 1 to 14: what a file is made of, before anything in it means anything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchgen.compiler.flat import Flattened
from patchgen.disk import SOURCE
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import decode
from tests.hard.support import MODULAR, PARENT, REPOSITORY, assert_problem, flat

NAME = "toypack/modular_toy_fast.py"


def _flat(folder: Path, modular: str | bytes, parent: str | bytes = PARENT) -> Flattened:
    files = {"toypack/__init__.py": "", "toypack/modeling_toy.py": parent, NAME: modular}
    return flat(folder, files, NAME)


def _text(result: Flattened) -> str:
    assert not result.problems, result.problems
    (file,) = result.files
    return file.text


@pytest.fixture
def expected(tmp_path: Path) -> str:
    return _text(_flat(tmp_path / "expected", MODULAR))


EMPTY = {
    "01 empty": "",
    "01 only a newline": "\n",
    "02 comments only": "# nothing\n    # here\n",
    "02 docstring only": '"""Nothing."""\n',
    "03 imports only": "import math\nfrom . import modeling_toy\n",
    "03 one constant": "LIMIT = 3\n",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_nothing_to_generate(tmp_path: Path, text: str) -> None:
    result = _flat(tmp_path, text)
    assert (result.files, result.problems) == ((), ())


BROKEN = {
    "04 unclosed bracket": MODULAR.replace("toy.ToyBlock)", "toy.ToyBlock"),
    "04 bad indentation": MODULAR.replace("        return", "      return").replace(
        "    def", "        def"
    ),
    "04 print of another Python": f"{MODULAR}print 'x'\n",
    "04 unterminated string": f"{MODULAR}x = 'a\n",
    "04 return outside a function": f"{MODULAR}return 1\n",
    "04 duplicate argument": MODULAR.replace("self, x", "self, x, x"),
    "04 break outside a loop": MODULAR.replace("return", "break;"),
    "05 tabs and spaces mixed": MODULAR.replace("        return", "\treturn"),
    "45 newer syntax": f"{MODULAR}type X[T] = list[T]\n"
    if sys.version_info < (3, 12)
    else "x = (\n",
}
NUL = {"11 NUL": "* 2\0", "11 NUL inside a string": "* '\0'"}


def _place(text: str) -> str:
    """Where Python itself sees the error."""
    try:
        compile(text, "x", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.lineno}:{error.offset or 1}"
    raise AssertionError("the text is Python")


def _caret(text: str) -> str:
    """The line that Python complains of, and a caret below the column."""
    line, column = map(int, _place(text).split(":"))
    line_there = [*text.split("\n"), ""][line - 1]
    inset = min(len(line_there) - len(line_there.lstrip()), column - 1)
    below = "".join(
        "\t" if letter == "\t" else " " for letter in line_there[inset:].ljust(column - 1)
    )
    return f"\n        {line_there[inset:].rstrip()}\n        {below[: column - 1 - inset]}^"


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_not_python(tmp_path: Path, text: str) -> None:
    (problem,) = _flat(tmp_path, text).problems
    assert_problem(problem, "PG006", f"{NAME}:{_place(text)}", hint=_caret(text))


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_parent_that_is_not_python(tmp_path: Path, text: str) -> None:
    parent = text.replace("from toypack import modeling_toy as toy\n", "").replace(
        "(toy.ToyBlock", "("
    )
    (problem,) = _flat(tmp_path, MODULAR, parent).problems
    assert_problem(
        problem, "PG006", f"toypack/modeling_toy.py:{_place(parent)}", hint=_caret(parent)
    )


def test_04_a_late_future_import(tmp_path: Path) -> None:
    (problem,) = _flat(tmp_path, f"{MODULAR}from __future__ import annotations\n").problems
    assert_problem(problem, "PG006", f"{NAME}:7:1", hint=None)


@pytest.mark.parametrize("end", NUL.values(), ids=NUL)
def test_NUL(tmp_path: Path, end: str) -> None:
    text = MODULAR.replace("* 2", end)
    column = text.split("\n")[5].index("\0") + 1
    (problem,) = _flat(tmp_path, text).problems
    assert_problem(problem, "PG004", f"{NAME}:6:{column}", hint=None)
    (problem,) = _flat(tmp_path / "parent", MODULAR, PARENT + "# \0").problems
    assert_problem(problem, "PG004", "toypack/modeling_toy.py:7:3", hint=None)


SAME_TEXT = {
    "07 byte order mark": b"\xef\xbb\xbf" + MODULAR.encode(),
    "09 latin-1 with a cookie": b"# -*- coding: latin-1 -*-\n" + MODULAR.encode(),
    "10 CRLF": MODULAR.replace("\n", "\r\n").encode(),
    "10 mixed line ends": MODULAR.replace("\n", "\r\n", 3).encode(),
    "10 CR alone": MODULAR.replace("\n", "\r").encode(),
    "10 no newline at the end": MODULAR.rstrip("\n").encode(),
    "10 form feed": MODULAR.replace("\n\n\n", "\n\x0c\n\n").encode(),
    "10 backslash continuation": MODULAR.replace("* 2", "\\\n            * 2").encode(),
}


@pytest.mark.parametrize("data", SAME_TEXT.values(), ids=SAME_TEXT)
def test_the_bytes_do_not_matter(tmp_path: Path, data: bytes, expected: str) -> None:
    text = _text(_flat(tmp_path, data))
    assert text.replace("  # -*- coding: latin-1 -*-\n", "") == expected
    assert text.isascii() and "\t" not in text and "\r" not in text


@pytest.mark.parametrize(
    "name", ["07 byte order mark", "10 CRLF", "10 mixed line ends", "10 CR alone"]
)
def test_the_bytes_of_a_parent_do_not_matter(tmp_path: Path, name: str, expected: str) -> None:
    change = {
        "07 byte order mark": lambda text: "\ufeff" + text,
        "10 CRLF": lambda text: text.replace("\n", "\r\n"),
        "10 mixed line ends": lambda text: text.replace("\n", "\r\n", 3),
        "10 CR alone": lambda text: text.replace("\n", "\r"),
    }[name]
    assert _text(_flat(tmp_path, MODULAR, change(PARENT).encode("utf-8"))) == expected


def test_09_latin_1_text_becomes_utf_8(tmp_path: Path) -> None:
    modular = MODULAR.replace("    def", "    # caf\xe9\n    def")
    text = _text(_flat(tmp_path, b"# coding: latin-1\n" + modular.encode("latin-1")))
    assert "# caf\xe9" in text and "coding" not in text


COOKIES = {
    "below a comment": ("# first\n# coding: latin-1\n", "latin-1"),
    "below a blank line": ("\f \n# coding: latin-1\n", "latin-1"),
    "below a comment with CR": ("# first\r# coding: latin-1\n", "latin-1"),
    "below code": ("import os\n# coding: latin-1\n", "utf-8"),
    "below a docstring": ('"""Doc."""\n# coding: latin-1\n', "utf-8"),
    "below a line that goes on": ("x = \\\n# coding: latin-1\n", "utf-8"),
    "on the third line": ("# one\n# two\n# coding: latin-1\n", "utf-8"),
}


@pytest.mark.parametrize(("head", "encoding"), COOKIES.values(), ids=COOKIES)
def test_a_cookie_counts_where_python_reads_it(head: str, encoding: str) -> None:
    data = f"{head}s = '\xe9'\n".encode(encoding)
    assert "s = '\xe9'" in decode(data, NAME)


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf_8"])
def test_a_byte_order_mark_with_its_own_cookie(name: str) -> None:
    assert decode(f"\ufeff# coding: {name}\nx = 1\n".encode(), NAME).endswith("x = 1\n")


def test_a_byte_order_mark_with_another_cookie() -> None:
    with pytest.raises(PatchgenError, match="PG003"):
        decode("\ufeff# coding: latin-1\nx = 1\n".encode(), NAME)


def test_a_cookie_stands_in_no_output(tmp_path: Path) -> None:
    modular = MODULAR.replace("* 2", "* len('\xe9')")
    for cookie in ("# coding: latin-1", "# vim: set fileencoding=latin-1 :"):
        text = _text(_flat(tmp_path, f"{cookie}\n{modular}".encode("latin-1")))
        assert "coding" not in text and 'len("\xe9")' in text


WRONG_ENCODINGS = {
    "08 latin-1 without a cookie": (
        MODULAR.replace("* 2", "* 2  # \xe9").encode("latin-1"),
        "offset 131",
    ),
    "08 UTF-16": (MODULAR.encode("utf-16"), "offset 0"),
    "08 UTF-32": (MODULAR.encode("utf-32"), "offset 0"),
    "08 cut in the middle of a character": (MODULAR.encode() + "# \xe9".encode()[:-1], "offset"),
    "08 unknown cookie": (b"# coding: nothing\n" + MODULAR.encode(), "nothing"),
    "08 cookie that lies": (b"# coding: ascii\n# \xc3\xa9\n" + MODULAR.encode(), "offset 18"),
}


@pytest.mark.parametrize(("data", "part"), WRONG_ENCODINGS.values(), ids=WRONG_ENCODINGS)
def test_not_text(tmp_path: Path, data: bytes, part: str) -> None:
    (problem,) = _flat(tmp_path, data).problems
    assert (problem.code, problem.at.path) == ("PG003", NAME)
    assert problem.at.line and problem.at.column and problem.hint, problem
    assert part in problem.what, problem


CONTROLS = {
    "12 right-to-left override": "\u202e",
    "12 isolate": "\u2066",
    "12 zero width space": "\u200b",
}


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_invisible_controls(tmp_path: Path, control: str) -> None:
    (problem,) = _flat(tmp_path, MODULAR.replace("* 2", f"* 2  # {control}")).problems
    assert_problem(problem, "PG005", f"{NAME}:6:38", hint="remove", what=f"U+{ord(control):04X}")


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_invisible_controls_of_a_parent(tmp_path: Path, control: str) -> None:
    (problem,) = _flat(tmp_path, MODULAR, f"# {control}\n{PARENT}").problems
    assert_problem(problem, "PG005", "toypack/modeling_toy.py:1:3", hint="remove")


def test_13_too_large(tmp_path: Path) -> None:
    (problem,) = _flat(tmp_path, MODULAR + "#" * SOURCE).problems
    assert_problem(problem, "PG002", NAME, hint="split")


@pytest.mark.slow
def test_13_fifty_thousand_lines(tmp_path: Path) -> None:
    many = PARENT + "".join(
        f"\n\nclass Toy{i}:\n    def run(self):\n        return {i}\n" for i in range(10_000)
    )
    few = PARENT + many[len(PARENT) :].partition("\n\nclass Toy1000:")[0]
    short = _seconds_of(tmp_path / "few", few, "class Toy999:")
    # Ten times the lines: as many squares would take a hundred times as long.
    assert _seconds_of(tmp_path / "many", many, "class Toy9999:") < 70 * short


def _seconds_of(folder: Path, parent: str, found: str) -> float:
    started = time.process_time()
    assert found in _text(_flat(folder, MODULAR, parent))
    return time.process_time() - started


DEEP = {
    "14 parentheses": "x = " + "(" * 1_250 + "1" + ")" * 1_250,
    "14 two hundred brackets": "x = " + "[" * 201 + "]" * 201,
    "14 chain of operators": "x = " + " + ".join(["1"] * 10_000),
    "14 chain of calls": "x = f" + "()" * 3_000,
    "14 chain of attributes": "x = f" + ".a" * 3_000,
    "14 indentations": "\n".join(f"{'    ' * i}if x:" for i in range(101))
    + f"\n{'    ' * 101}pass",
    "14 elif chain": "if x:\n    pass\n" + "elif x:\n    pass\n" * 3_000,
    "14 nested functions": "\n".join(f"{' ' * i}def f():" for i in range(99)) + f"\n{' ' * 99}pass",
    "14 lambda chain": "x = " + "lambda: " * 3_000 + "1",
    "14 unary chain": "x = " + "-" * 5_000 + "1",
    "14 comparisons": "x = " + " < ".join(["1"] * 5_000),
    "14 nested f-strings": "x = " + 'f"{' * 3 + "1" + '}"' * 3,
}
PROGRAM = """
import sys
from pathlib import Path
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
folder = Path(sys.argv[1])
result = flatten(folder / "toypack/modular_toy_fast.py", make_environment(folder, search=[]), Settings())
for problem in result.problems:
    print("problem", problem.code, problem.at)
print("end")
"""


@pytest.mark.parametrize("place", ["in a method", "in the module", "in the parent"])
@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deep_input_ends_in_an_answer(tmp_path: Path, text: str, place: str) -> None:
    method = "".join(f"        {line}\n" for line in text.split("\n"))
    inside = MODULAR.replace("        return", f"{method}        return")
    modular = {"in a method": inside, "in the module": f"{MODULAR}\n\n{text}\n"}.get(place, MODULAR)
    parent = (
        PARENT
        if place != "in the parent"
        else PARENT.replace("        return", f"{method}        return")
    )
    _flat_files = {"toypack/__init__.py": "", "toypack/modeling_toy.py": parent, NAME: modular}
    for name, content in _flat_files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,  # seconds: an answer takes one or two, and what never ends more
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.strip().split("\n")
    assert lines[-1] == "end"
    # Where Python parses so many attributes, `f` is bound by nothing, or ruff does not parse them;
    # some are longer than a line may be.
    codes = ("PG0", "PG402", "PG912", "PG915")
    assert all(line.split()[1].startswith(codes) for line in lines[:-1]), lines

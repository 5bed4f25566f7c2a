"""Every code that is raised is explained by four headings, with an example that gets it; the page is up to date."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from patchgen.cli.commands.errors import as_markdown
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.lint import with_findings
from patchgen.syntax.errors import catalogue
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source
from tests.pages import read_page
from tests.toytree import REPOSITORY

HEAD = REPOSITORY / "patchgen/cli/errors.md"

CODES = {
    code
    for path in sorted((REPOSITORY / "patchgen").rglob("*.py"))
    for code in re.findall(r"[\"'](PG\d{3})[\"']", path.read_text(encoding="utf-8"))
}


def test_every_code_in_the_source_is_explained():
    assert sorted(CODES - catalogue().keys()) == []


def test_every_explanation_is_of_a_code_in_the_source():
    assert sorted(catalogue().keys() - CODES) == []


@pytest.mark.parametrize("code", catalogue())
def test_explanation_is_complete(code):
    entry = catalogue()[code]
    assert re.fullmatch(r"PG\d{3}", code)
    assert (
        entry.title[0].islower()
        or entry.title.split()[0] in ("NUL", "PatchGen", "DeepSpeed")
        or "`" in entry.title
    )
    assert not entry.title.endswith(".")
    assert re.match("(Refuses|Warns of|Warns,|Finds|Says that|Stops|Ends) ", entry.what)
    assert entry.what.endswith(".")
    assert entry.why.endswith((".", ":"))
    assert entry.fix.endswith((".", "`", ")"))
    assert entry.example.strip()
    assert list(entry.sections.values()) == [entry.what, entry.why, entry.example, entry.fix]


OF_CODE = [code for code, entry in catalogue().items() if entry.is_code]
PRINTED = [code for code, entry in catalogue().items() if not entry.is_code]


@pytest.mark.parametrize("code", OF_CODE)
def test_the_example_gets_its_code(code, tmp_path):
    """Converted and linted, it has problems or warnings of this code alone."""
    (head,) = (block.text for block in read_page(HEAD).blocks)
    example = catalogue()[code].example
    package = tmp_path / "toypack"
    package.mkdir()
    (package / "__init__.py").touch()
    files = re.split(r"^# (\w+\.py)\n", example, flags=re.MULTILINE)
    if len(files) == 1:
        files = ["", "modular_llama_clamped.py", f"{head}\n\n{example}\n"]
    for name, text in zip(files[1::2], files[2::2], strict=True):
        path = package / name
        path.write_text(text, encoding="utf-8")
    env = make_environment(tmp_path, search=sys.path)
    flat = flatten(path, env, Settings())
    # What is no Python has been refused, and cannot be read here.
    if not flat.problems:
        flat = with_findings(flat, read_source(path, "", env.display_path(path)))
    warnings = [warning for file in flat.files for warning in file.warnings]
    assert {problem.code for problem in (*flat.problems, *warnings)} == {code}


@pytest.mark.parametrize("code", PRINTED)
def test_the_printed_example_has_a_text_of_patchgen(code):
    """Some text, of at least two words, in a file that raises the code."""
    printed = catalogue()[code].example.partition(f"{code} ")[2]
    texts = {text for name, codes, texts in _texts() if code in codes for text in texts}
    assert any(re.search(text, printed) for text in texts), sorted(texts)


@cache
def _texts() -> list[tuple[Path, set[str], set[str]]]:
    """Of each file the codes in it, and its texts as patterns: what is filled in may be anything."""
    found = []
    for path in sorted((REPOSITORY / "patchgen").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        patterns = {_pattern(node) for node in ast.walk(ast.parse(text))}
        codes = set(re.findall(r"[\"'](PG\d{3})[\"']", text))
        telling = {text for text in patterns if len(re.findall("[a-z]{2,}", text)) >= 2}
        found.append((path, codes, telling))
    return found


def _pattern(node: ast.AST) -> str:
    """A text as a pattern, without what is filled in at its ends; "" for other code."""
    match node:
        case ast.Constant(value=str() as text):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(_pattern(part) or ".*" for part in parts).removeprefix(".*")
    return ""


def test_the_page_is_what_the_catalogue_gives():
    page = (REPOSITORY / "docs/errors.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "run: python -m patchgen.cli.commands.errors > docs/errors.md"

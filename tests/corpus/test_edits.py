"""An edit of each `forward` of the installed transformers: it applies, and the rest of the method stays as it was.

Of twelve shares of the files one is tried; PATCHGEN_EVERY=1 tries them all, in some twenty minutes of one core.

The first plain statement of each gets another one below it, and each f-string is written anew by itself; what comes of
that must be the tree of the parent with the statement put in.
"""

from __future__ import annotations

import ast
import copy
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen.compiler.merge.merge import merge_class
from patchgen.compiler.merge.text import suites
from patchgen.syntax.bound import names_in
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.same import is_same_code
from tests.corpus.corpus import RATCHET, find_package
from tests.unit.compiler.plans import Golden, plan_of

PACKAGE = find_package()
SHARES = 12
TRIED = SHARES if os.environ.get("PATCHGEN_EVERY") else 1
MARK = "is_edited = True"
DECLARATION = """
from patchgen.edits import edit, new, old


class {name}(parent.{name}):
    @edit({method!r}, count={count})
    def mark_it({names}):
        with old:
{old}
        with new:
{old}
            {mark}
"""
Method = ast.FunctionDef | ast.AsyncFunctionDef

pytestmark = [
    pytest.mark.skipif(
        PACKAGE is None, reason=f"transformers {RATCHET['release']} is not installed"
    ),
    pytest.mark.slow,
]


def _forwards(path: Path) -> Iterator[tuple[str, ast.ClassDef, Method]]:
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            methods = [n for n in node.body if isinstance(n, Method)]
            if len({method.name for method in methods}) == len(methods):
                source = ast.get_source_segment(text, node, padded=True) or ""
                yield from (
                    (f"{source}\n", node, n)
                    for n in methods
                    if n.name == "forward" or _has_fstring(n)
                )


def _has_fstring(node: ast.AST) -> bool:
    return any(isinstance(child, ast.JoinedStr) for child in ast.walk(node))


def _chosen(method: Method) -> Iterator[ast.stmt]:
    """The first plain statement, and each one with an f-string."""
    plain = [
        node
        for suite in suites(method)
        for node in suite
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Raise)
    ]
    yield from plain[:1]
    yield from (node for node in plain[1:] if _has_fstring(node))


def _marked(method: Method, chosen: ast.stmt) -> tuple[Method, int]:
    """`method` with the mark below each statement that is `chosen`, and how many these are."""
    done, count = copy.deepcopy(method), 0
    for suite in list(suites(done)):
        places = [place for place, node in enumerate(suite) if is_same_code(node, chosen)]
        for place in reversed(places):
            suite.insert(place + 1, ast.parse(MARK).body[0])
        count += len(places)
    return done, count


def _declared(name: str, method: Method, chosen: ast.stmt, count: int) -> str:
    old = textwrap.indent(ast.unparse(chosen), " " * 12)
    names = ", ".join(sorted(names_in([chosen])))
    return DECLARATION.format(
        name=name, method=method.name, count=count, names=names, old=old, mark=MARK
    )


def _edited(source: str, modular: str, name: str) -> Method:
    plan = plan_of(Golden(Path("sweep"), {"parent": source, "modular": modular, "bases": ""}))
    holder = ast.parse(merge_class(plan).text).body[0]
    assert isinstance(holder, ast.ClassDef)
    return next(node for node in holder.body if isinstance(node, Method) and node.name == name)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", range(TRIED))
def test_every_forward_can_be_edited(share: int) -> None:
    assert PACKAGE is not None
    wrong: list[str] = []
    made = 0
    for path in sorted(PACKAGE.glob("models/*/modeling_*.py"))[share::SHARES]:
        for source, holder, method in _forwards(path):
            for chosen in _chosen(method):
                made += 1
                why = _fault(source, holder.name, method, chosen)
                if why:
                    wrong.append(f"{path.name}:{chosen.lineno} {holder.name}.{method.name}: {why}")
    assert not wrong, f"{len(wrong)} of {made}:\n" + "\n".join(wrong)


def _fault(source: str, name: str, method: Method, chosen: ast.stmt) -> str:
    """What is wrong with the edit of `chosen`; the empty string where nothing is."""
    expected, count = _marked(method, chosen)
    try:
        found = _edited(source, _declared(name, method, chosen, count), method.name)
    except PatchgenError as error:
        return str(error)
    same = is_same_code(found.body, expected.body) and is_same_code(found.args, expected.args)
    return "" if same else "another tree"

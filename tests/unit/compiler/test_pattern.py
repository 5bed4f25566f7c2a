"""What a pattern fits, as a table: syntax counts, spelling does not."""

import ast

import pytest

from patchgen.compiler.edits.pattern import find_expressions, find_statements, suites


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        pytest.param("f(x)", "y = f( x, )", 1, id="spaces and a trailing comma"),
        pytest.param("f('a')", 'y = (f("a"))', 1, id="quotes and parentheses"),
        pytest.param("f(1)", "y = f(1.0)", 0, id="an integer is no float"),
        pytest.param("f(1)", "y = f(True)", 0, id="one is not true"),
        pytest.param("f(x)", "y = f(x, 1)", 0, id="one argument more"),
        pytest.param("f(x, ...)", "y = f(x, 1, k=2)", 1, id="any further arguments"),
        pytest.param("f(..., 1)", "y = f(x, 1, k=2)", 1, id="any arguments before the last"),
        pytest.param("f(..., k=2)", "y = f(x, j=1, k=2)", 1, id="a keyword that must be there"),
        pytest.param("f(..., k=2)", "y = f(x, j=1)", 0, id="a keyword that is not there"),
        pytest.param("f(j=1, k=2)", "y = f(k=2, j=1)", 0, id="without dots the order counts"),
        pytest.param("HOLE + HOLE", "y = (a.b) + a.b", 1, id="a hole twice, equal"),
        pytest.param("HOLE + HOLE", "y = a.b + a.c", 0, id="a hole twice, different"),
        pytest.param("f(HOLE)", "y = f(f(x))", 2, id="inside a match as well"),
        pytest.param("x", "def g(): return [x for _ in y if x]", 2, id="in nested code"),
        pytest.param(
            "x",
            "a.x(x=1).y = b(lambda x: 0)",
            0,
            id="attributes and names of arguments are no expressions",
        ),
        pytest.param(
            "a.HOLE(HOLE)", "b.HOLE = a.HOLE(c)", 1, id="an attribute that is called like a hole"
        ),
        pytest.param("f(HOLE=HOLE)", "f(HOLE=c)", 1, id="a keyword that is called like a hole"),
        pytest.param("f(1000, 10)", "f(1_000, 0xA)", 1, id="numbers by their value"),
        pytest.param("f('a' 'b')", 'f("""ab""")', 1, id="strings by their value"),
        pytest.param("f(b'a')", "f('a')", 0, id="bytes are no text"),
        pytest.param("f'a{HOLE!r}'", 'x = f"a{y!r}"', 1, id="inside an f-string"),
        pytest.param("f'{HOLE!r}'", "x = f'{y!s}'", 0, id="a conversion counts"),
        pytest.param("f'x = {x!r}'", "f'{x = }'", 1, id="what is shown before the value is text"),
        pytest.param("f'x={x:>5}'", "f'{x=:>5}'", 1, id="a value that is shown, with a format"),
        pytest.param("f'{x = }'", "f'{x=}'", 0, id="what is shown before the value counts"),
        pytest.param("f'a\"{x}'", 'f"""a"{x}"""', 1, id="a quote before a brace"),
        pytest.param(r"f'\\{x}'", r"rf'\{x}'", 1, id="a backslash before a brace"),
        pytest.param(r"f'{x:\t>5}'", "f'{x:\t>5}'", 1, id="an escape in a format"),
        pytest.param("f'a{{'", "x = f'a' '{{'", 0, id="a brace that is text"),
        pytest.param("x[a, b]", "x[(a, b)]", 1, id="a tuple in brackets"),
        pytest.param(
            "x[HOLE]", "x[a, b], x[1:2], x[c]", 3, id="a hole for all that is in brackets"
        ),
        pytest.param("x[a]", "x[a,]", 0, id="a tuple of one"),
        pytest.param("(y := HOLE)", "if (y := f(x)): pass", 1, id="a walrus"),
        pytest.param("f(*a, k=1)", "f(k=1, *a)", 1, id="stars are given by place"),
        pytest.param("f(x, ...)", "f(x, *a, **k)", 1, id="stars are further arguments"),
        pytest.param("f(HOLE)", "f(*a)", 0, id="a starred argument is no expression"),
        pytest.param("a.b", "a \\\n  .b", 1, id="a line that goes on"),
        pytest.param("a and b", "x = a and b and c", 0, id="a chain of `and` is one expression"),
    ],
)
def test_expressions(pattern, code, expected):
    wanted = ast.parse(pattern, mode="eval").body
    found = list(find_expressions(wanted, ast.parse(code).body, ["HOLE"]))
    assert len(found) == expected


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        pytest.param(
            "a = 1\nb = 2", "a = 1\n\n# why\nb = 2\nc = 3", [(0, 2)], id="a run of statements"
        ),
        pytest.param("a = 1\nb = 2", "a = 1\nc = 3\nb = 2", [], id="something in between"),
        pytest.param(
            "a = 1\n...\nb = 2", "a = 1\nc = 3\nb = 2\nb = 2", [(0, 3)], id="the shortest run"
        ),
        pytest.param(
            "a = 1", "if x:\n    a = 1\nelse:\n    a = 1", [(0, 1), (0, 1)], id="in nested suites"
        ),
        pytest.param(
            "if x:\n    ...\n    a = 1", "if x:\n    b = 2\n    a = 1", [(0, 1)], id="dots inside"
        ),
        pytest.param(
            "if x:\n    a = 1",
            "if x:\n    a = 1\n    b = 2",
            [],
            id="a nested suite is matched whole",
        ),
        pytest.param(
            "HOLE = f(HOLE)", "self.x = f(self.x)", [(0, 1)], id="a hole assigned and read"
        ),
        pytest.param("a: int = 1", "a = 1", [], id="an annotation counts"),
        pytest.param(
            "b = 2\nc = 3",
            "a = 1; b = 2\nc = 3; d = 4",
            [(1, 3)],
            id="statements that share a line",
        ),
        pytest.param(
            "if x:\n    a = 1", "if x: a = 1", [(0, 1)], id="a suite on the line of its header"
        ),
        pytest.param(
            "if x:\n    a = 1",
            "if y:\n    pass\nelif x:\n    a = 1",
            [(0, 1)],
            id="an elif is an if",
        ),
        pytest.param(
            "if x: pass",
            "if y: pass\nelif x: pass\nelse: pass",
            [],
            id="an elif has what is below it",
        ),
        pytest.param(
            "if x: pass\nelif y: a = 1",
            "if x:\n    pass\nelse:\n    if y:\n        a = 1",
            [(0, 1)],
            id="else if",
        ),
        pytest.param("import a.b as c", "import a.b as c", [(0, 1)], id="an import"),
        pytest.param("from . import a", "from .. import a", [], id="the dots of an import"),
        pytest.param(
            "def g(a, /, *, b=1): ...\nx = 1",
            "def g(a, *, b=1): ...\nx = 1",
            [],
            id="kinds of arguments",
        ),
        pytest.param("@a\ndef g(): ...\nx = 1", "def g(): ...\nx = 1", [], id="decorators count"),
        pytest.param("a = HOLE", "a = b = 1", [], id="two targets"),
        pytest.param(
            "for i in x:\n    pass",
            "async def f():\n    async for i in x:\n        pass",
            [],
            id="async counts",
        ),
    ],
)
def test_statements(pattern, code, expected):
    found = list(find_statements(ast.parse(pattern).body, suites(ast.parse(code)), ["HOLE"]))
    assert [(match.place.start, match.place.stop) for match in found] == expected

"""Where a pattern with `...` stands in a method."""

import ast

from patchgen.author.align.drafts import headed, is_made_up, make_ellipsis
from patchgen.compiler.edits.pattern import find_statements, suites

METHOD = """def f(self, x):
    if x:
        x = self.a(x)
        x = self.b(x)
    for y in x:
        x = self.a(y)
    return x
"""


def runs_of(*pattern):
    (method,) = ast.parse(METHOD).body
    return [(m.place.start, m.place.stop) for m in find_statements(pattern, suites(method))]


def statements():
    return ast.parse(METHOD).body[0].body


def test_a_compound_statement_is_found_by_its_head():
    head = headed(statements()[0])
    assert is_made_up(head)
    assert runs_of(head) == [(0, 1)]


def test_what_is_between_two_statements_is_left_out():
    first, *_, last = statements()
    assert runs_of(first, make_ellipsis(), last) == [(0, 3)]


def test_a_statement_of_the_file_is_found_by_all_of_it():
    (other,) = ast.parse("if x:\n    x = self.a(x)\n").body
    assert runs_of(other) == []

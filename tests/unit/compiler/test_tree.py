"""The nodes of a method in the order in which libcst visits them, on whole files and on rare syntax."""

from pathlib import Path

import libcst as cst
import pytest

from patchgen.compiler.edits.tree import number_nodes

REPOSITORY = Path(__file__).parents[3]
RARE = """
from a import *
from a.b import c as d
@decorated
async def f(a, /, b: int = 1, *c, d=2, **e) -> None:
    global g; nonlocal h
    async with a as b, c: pass
    try: await x
    except* (A, B) as error: raise C from error
    else: del a[0], b.c
    finally: assert a, "b"
    match a:
        case {"a": 1, **rest} if b: pass
        case [_, *others]: pass
        case A(b, c=d) as e: pass
    return f"{a!r:>{width}} {b=} {c:x}" "d", lambda *a, b=1: (yield a), {**a, "b": c}, {*a, b}
def g(): return (a if (b := c) else not d), [x async for x in y if z for x in y], a[b:c:d, ::], -a
"""
WRITING = (
    *(cst.BaseParenthesizableWhitespace, cst.EmptyLine, cst.TrailingWhitespace),
    *(cst.Comma, cst.Dot, cst.Colon, cst.Semicolon, cst.AssignEqual, cst.ParamSlash),
    *(cst.LeftParen, cst.LeftSquareBracket, cst.LeftCurlyBrace),
    *(cst.RightParen, cst.RightSquareBracket, cst.RightCurlyBrace),
)


class _Visit(cst.CSTVisitor):
    """The code in the order of libcst's visit, and the numbers of the first and last in each."""

    def __init__(self):
        super().__init__()
        self.nodes, self.spans, self.open = [], {}, []

    def on_visit(self, node):
        if isinstance(node, WRITING):
            return False
        self.open.append(len(self.nodes))
        self.nodes.append(node)
        return True

    def on_leave(self, original_node):
        if isinstance(original_node, WRITING):
            return
        self.spans[id(original_node)] = (self.open.pop(), len(self.nodes) - 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(RARE, id="rare syntax"),
        *(
            pytest.param((REPOSITORY / "generated" / path).read_text(encoding="utf-8"), id=path)
            for path in ("mpnet/modeling_mpnet_checkpoint.py", "jetmoe/modeling_jetmoe_grouped.py")
        ),
    ],
)
def test_nodes_have_the_order_of_libcst(text):
    module, visit = cst.parse_module(text), _Visit()
    module.visit(visit)
    nodes, spans = number_nodes(module)
    assert list(map(id, nodes)) == list(map(id, visit.nodes))
    assert spans == visit.spans

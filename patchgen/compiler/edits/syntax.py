"""Tell what of a libcst node is code, and what is only the way it is written.

White space, comments, quotes, parentheses, trailing commas, semicolons and the two ways to write a
suite do not count.  Identifiers that are no expressions, such as the name of an attribute, count as
strings.

    f(a, "b")       is the same code as f( a, 'b', )
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard, get_args

import libcst as cst

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
String = cst.SimpleString | cst.ConcatenatedString | cst.FormattedString | cst.TemplatedString
# Fields that hold white space and punctuation, beside those whose names begin with "whitespace".
_WRITING = frozenset(
    """lpar rpar lbrace rbrace lbracket rbracket comma trailing_comma semicolon equal dot colon
    first_colon second_colon separator posonly_ind leading_lines lines_after_decorators
    leading_whitespace
    trailing_whitespace header footer indent""".split()
)
# libcst has a `Name` here, but a hole stands for an expression only.
_IDENTIFIERS = frozenset(
    {
        (cst.Attribute, "attr"),
        (cst.ClassDef, "name"),
        (cst.ExceptHandler, "name"),
        (cst.ExceptStarHandler, "name"),
        (cst.FunctionDef, "name"),
        (cst.ImportAlias, "asname"),
        (cst.ImportAlias, "name"),
        (cst.ImportFrom, "module"),
        (cst.MatchAs, "name"),
        (cst.MatchKeywordElement, "key"),
        (cst.MatchMapping, "rest"),
        (cst.MatchStar, "name"),
        (cst.NameItem, "name"),
        (cst.Param, "name"),
        (cst.ParamSpec, "name"),
        (cst.TypeVar, "name"),
        (cst.TypeVarTuple, "name"),
    }
)

_ESCAPE = re.compile(r'\\.|\\|"', re.DOTALL)


@functools.cache
def kind(of: type[cst.CSTNode]) -> object:
    """What two nodes have in common that may be the same code, from the class of a node."""
    if issubclass(of, cst.BaseSuite):
        return cst.BaseSuite
    return cst.BaseString if issubclass(of, String) else of


_IS_NODE: dict[type[object], bool] = {}


def is_node(value: object) -> TypeGuard[cst.CSTNode]:
    """Whether `value` is a node: to ask libcst's abstract classes each time takes long."""
    of = type(value)
    if of not in _IS_NODE:
        _IS_NODE[of] = issubclass(of, cst.CSTNode)
    return _IS_NODE[of]


def parts(node: cst.CSTNode) -> tuple[object, ...]:
    """The code of `node` beside its kind: nodes, tuples, and plain values that are compared."""
    # By the class itself: `isinstance` asks libcst's abstract classes, which takes long.
    read = _READERS.get(type(node), _read_fields)
    return tuple(read(node))


def expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Every expression in `node`, itself included."""
    stack: list[object] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += part[::-1]
        elif is_node(part):
            stack += parts(part)[::-1]
            if isinstance(part, cst.BaseExpression):
                yield part


def statements(suite: cst.BaseSuite) -> tuple[Statement, ...]:
    """The statements of `suite`, one by one."""
    found: list[Statement] = []
    for line in suite.body:
        if isinstance(line, cst.SimpleStatementLine):
            found += line.body
        else:
            assert isinstance(line, cst.BaseSmallStatement | cst.BaseCompoundStatement)
            found.append(line)
    return tuple(found)


def arguments(call: cst.Call) -> tuple[tuple[cst.Arg, ...], tuple[cst.Arg, ...]]:
    """The arguments of `call` by position, `*` included, and those by name, `**` included."""
    positional = tuple(argument for argument in call.args if is_positional(argument))
    named = tuple(argument for argument in call.args if not is_positional(argument))
    return positional, named


def is_positional(argument: cst.Arg) -> bool:
    """Whether `argument` is given by its place."""
    return argument.keyword is None and argument.star != "**"


def is_ellipsis(node: cst.CSTNode) -> bool:
    """Whether `node` is `...`, as an argument or as a statement."""
    # Nearly all nodes are neither: this answer is quick.
    if type(node) not in (cst.Arg, cst.Expr):
        return False
    match node:
        case cst.Arg(star="", keyword=None, value=cst.Ellipsis()) | cst.Expr(value=cst.Ellipsis()):
            return True
        case _:
            return False


def _read_fields(node: cst.CSTNode) -> Iterator[object]:
    """The fields that are code; nodes, plain values, and tuples of nodes."""
    for name, is_identifier in _fields_of_code(type(node)):
        value = getattr(node, name)
        if is_identifier:
            yield _read_identifier(value)
        else:
            yield tuple(value) if isinstance(value, list | tuple) else value


def _read_number(node: cst.Integer | cst.Float | cst.Imaginary) -> tuple[object, ...]:
    return (ast.literal_eval(node.value),)


def _read_call(node: cst.Call) -> tuple[object, ...]:
    return (node.func, *arguments(node))


def _read_argument(node: cst.Arg) -> tuple[object, ...]:
    return node.star, node.keyword and node.keyword.value, node.value


def _read_subscript(node: cst.Subscript) -> tuple[object, ...]:
    return node.value, _read_index(node)


def _read_if(node: cst.If) -> tuple[object, ...]:
    return node.test, node.body, branch(node)


def _read_suite(node: cst.BaseSuite) -> tuple[object, ...]:
    return (statements(node),)


def _read_nothing(node: cst.NotEqual) -> tuple[object, ...]:
    """`!=` and `<>` are one operator."""
    return ()


def is_writing(field: str) -> bool:
    """Whether a field of this name holds how code is written, in any kind of node."""
    return field in _WRITING or field.startswith("whitespace")


@functools.cache
def _fields_of_code(of: type[cst.CSTNode]) -> tuple[tuple[str, bool], ...]:
    """The fields of such a node that say something, and whether each is an identifier."""
    found: list[tuple[str, bool]] = []
    for field in dataclasses.fields(of):
        if not is_writing(field.name):
            found.append((field.name, (of, field.name) in _IDENTIFIERS))
    return tuple(found)


def _read_identifier(node: object) -> object:
    """A name that is no expression, as text; None where there is none."""
    match node:
        case cst.Name(value=value):
            return value
        case cst.AsName(name=name):
            return _read_identifier(name)
        case cst.Attribute(value=value, attr=attr):
            return f"{_read_identifier(value)}.{attr.value}"
        case _:
            return node


def _read_index(node: cst.Subscript) -> cst.CSTNode | tuple[cst.CSTNode, ...]:
    """What stands between the brackets; more than one expression are a tuple."""
    elements = [_read_element(element) for element in node.slice]
    # `x[a,]` has one element, and is a tuple all the same.
    has_comma = isinstance(node.slice[0].comma, cst.Comma)
    if len(elements) == 1 and not has_comma:
        return elements[0]
    values = [element for element in elements if isinstance(element, cst.BaseExpression)]
    # `x[a:b, c]` is no tuple of expressions for libcst.
    if len(values) < len(elements):
        return tuple(elements)
    members = [cst.Element(value) for value in values]
    return cst.Tuple(members, lpar=(), rpar=())


def _read_element(element: cst.SubscriptElement) -> cst.BaseExpression | cst.BaseSlice:
    """What one index is, without the node that libcst wraps around it."""
    part = element.slice
    # An expression is wrapped into an `Index`, a slice is not.
    if isinstance(part, cst.Index) and not part.star:
        return part.value
    return part


def branch(node: cst.If) -> cst.BaseSuite | None:
    """What runs where the test of `node` fails; `elif` counts as an `if` alone under `else:`."""
    if isinstance(node.orelse, cst.If):
        return cst.IndentedBlock([node.orelse])
    return node.orelse.body if node.orelse else None


def _join_texts(node: cst.BaseExpression) -> Iterator[object]:
    """The parts of a string: its kind, then texts and expressions, neighbouring texts joined.

    "a" "b"     gives "ab", as `"ab"` does
    f"a{x}b"    gives "a", then `x` with the way it is formatted, then "b"
    """
    strings = list(_strings(node))
    yield _find_string_kind(strings)
    text: str | bytes | None = None
    for part in (part for string in strings for part in _split_string(string)):
        if isinstance(part, str) and isinstance(text, str):
            text += part
        elif isinstance(part, bytes) and isinstance(text, bytes):
            text += part
        else:
            if text is not None:
                yield text
            text = None
            if isinstance(part, str | bytes):
                text = part
            else:
                yield part
    # An empty text behind an expression says nothing.
    if text:
        yield text


def _find_string_kind(strings: Iterable[cst.BaseString]) -> type[cst.CSTNode]:
    """Joined strings are formatted ones if one of them is."""
    for string in strings:
        if not isinstance(string, cst.SimpleString):
            return type(string)
    return cst.SimpleString


def _strings(
    node: cst.BaseExpression,
) -> Iterator[cst.SimpleString | cst.FormattedString | cst.TemplatedString]:
    """The strings that are joined by standing side by side."""
    match node:
        case cst.ConcatenatedString(left=left, right=right):
            yield from _strings(left)
            yield from _strings(right)
        case cst.SimpleString() | cst.FormattedString() | cst.TemplatedString():
            yield node
        case _:
            raise AssertionError(f"a string with {type(node).__name__}")


def _split_string(
    node: cst.SimpleString | cst.FormattedString | cst.TemplatedString,
) -> Iterator[object]:
    """The texts of one string, and its expressions with the way they are formatted."""
    if isinstance(node, cst.SimpleString):
        yield node.evaluated_value
    else:
        yield from _split_formatted(node.parts, is_raw="r" in node.prefix.lower())


def _split_formatted(
    content: Iterable[cst.BaseFormattedStringContent | cst.BaseTemplatedStringContent], is_raw: bool
) -> Iterator[object]:
    """The texts and expressions of an f-string, its format specifications included."""
    for part in content:
        match part:
            case cst.FormattedStringText(value=text) | cst.TemplatedStringText(value=text):
                yield _evaluate(text, is_raw)
            case cst.FormattedStringExpression() | cst.TemplatedStringExpression():
                specification = tuple(_split_formatted(part.format_spec or (), is_raw))
                conversion = part.conversion
                # `{x = }` is `x = {x!r}`.
                if part.equal is not None:
                    yield _write_source(part)
                    if not conversion and not part.format_spec:
                        conversion = "r"
                yield part.expression, conversion, specification
            case _:
                raise AssertionError(f"a formatted string with {type(part).__name__}")


def _evaluate(written: str, is_raw: bool) -> str:
    """What the text between two expressions stands for."""
    text = written.replace("{{", "{").replace("}}", "}")
    if is_raw:
        return text
    # Between triple quotes it may end in a quote, and before a brace in a backslash.
    escaped = {'"': '\\"', "\\": "\\\\"}
    quoted = _ESCAPE.sub(lambda found: escaped.get(found.group(), found.group()), text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of backslashes that escape nothing
        return str(ast.literal_eval(f'"""{quoted}"""'))


def _write_source(part: cst.FormattedStringExpression | cst.TemplatedStringExpression) -> str:
    """What `{x = }` prints before the value: the expression as it is written."""
    bare = part.with_changes(conversion=None, format_spec=None)
    return cst.Module(()).code_for_node(bare)[1:-1]


# How to read the kinds of nodes that say the same in several ways.
_READERS: Mapping[type[cst.CSTNode], Callable[[Any], Iterable[object]]] = {
    **dict.fromkeys((cst.Integer, cst.Float, cst.Imaginary), _read_number),
    **dict.fromkeys(get_args(String), _join_texts),
    **dict.fromkeys((cst.IndentedBlock, cst.SimpleStatementSuite), _read_suite),
    cst.Call: _read_call,
    cst.Arg: _read_argument,
    cst.Subscript: _read_subscript,
    cst.If: _read_if,
    cst.NotEqual: _read_nothing,
}

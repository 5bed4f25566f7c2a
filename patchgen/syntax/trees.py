"""Answer the questions about `ast` nodes that several packages ask."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

# Fields that hold names, contexts and operators: nothing that a walk looks for.
_LEAVES = frozenset({"id", "attr", "arg", "ctx", "op", "ops", "asname", "level", "type_comment"})
# The other fields of each kind of node.  The value of a constant is no node.
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _LEAVES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: ()}
# The kinds of nodes with a list that holds names, or None for what is not written.
_MIXED = frozenset({ast.arguments, ast.Dict, ast.Global, ast.MatchClass, ast.Nonlocal})
# Those that hold statements, or parts of a statement that do: handlers, cases.
_SUITES = {
    kind: tuple(
        name
        for name in ("body", "handlers", "orelse", "finalbody", "cases")
        if name in kind._fields and not issubclass(kind, ast.expr | ast.Expression)
    )
    for kind in _FIELDS
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Positioned = ast.expr | ast.stmt | ast.arg | ast.keyword | ast.excepthandler
Position = tuple[int, int]  # line and byte column of a node, as `ast` counts them


def position_of(node: Positioned) -> Position:
    """Where `node` begins: nodes of two parses of one text are the same if this is the same."""
    return (node.lineno, node.col_offset)


def children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes`, without contexts and operators, in a third of the time."""
    found: list[ast.AST] = []
    kind = type(node)
    for name in _FIELDS[kind]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += value
        elif isinstance(value, ast.AST):
            found.append(value)
    if kind in _MIXED:
        return [each for each in found if isinstance(each, ast.AST)]
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """As `ast.walk`, in its order, without contexts and operators."""
    # The list grows while it is walked, so that parents come before their children.
    nodes = [node]
    for inner in nodes:
        # Half of all nodes are names and constants, in which nothing can be.
        if _FIELDS[type(inner)]:
            nodes += children(inner)
    return iter(nodes)


def walk_all(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """As `walk`, one node after the other."""
    for node in nodes:
        yield from walk(node)


def statements_within(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements in `tree` at any depth, in the order of `walk`; expressions hold none."""
    statements = [tree]
    for node in statements:
        for name in _SUITES[type(node)]:
            statements += getattr(node, name)
    return iter(statements)


def statement_at(tree: ast.AST, line: int) -> tuple[int, int]:
    """Before and at which line the innermost statement at a line ends, without its body."""
    first, last = line - 1, line
    for node in statements_within(tree):
        if isinstance(node, ast.stmt):
            end = find_head_end(node)
            if node.lineno <= line <= end:
                first, last = node.lineno - 1, end
    return first, last


def find_head_end(node: ast.stmt) -> int:
    """The last line of a statement without its body."""
    body: list[ast.stmt] = getattr(node, "body", [])
    return body[0].lineno - 1 if body else node.end_lineno or 0


def list_suites(node: ast.stmt) -> list[list[ast.stmt]]:
    """The bodies of an `if` or a `try`, those of its `else:` and `except:` among them."""
    handlers: list[ast.ExceptHandler] = getattr(node, "handlers", [])
    suites = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    return [*suites, *(handler.body for handler in handlers)]


def names_within(node: ast.AST) -> Iterator[ast.Name]:
    """Every name in `node`, at any depth, scopes inside it included."""
    for inner in walk(node):
        if isinstance(inner, ast.Name):
            yield inner


def mentions(node: ast.AST, name: str) -> bool:
    """Whether `name` is read or bound anywhere in `node`."""
    return any(inner.id == name for inner in names_within(node))


def list_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters in the order of the signature, `*args` and `**kwargs` included."""
    parameters = list_positional(arguments)
    if arguments.vararg:
        parameters.append(arguments.vararg)
    parameters += arguments.kwonlyargs
    if arguments.kwarg:
        parameters.append(arguments.kwarg)
    return parameters


def list_positional(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters that a position may be given to."""
    return [*arguments.posonlyargs, *arguments.args]


def list_defaults(arguments: ast.arguments) -> list[ast.expr]:
    """The defaults that are written: `ast` has None for a keyword-only parameter without one."""
    return [*arguments.defaults, *filter(None, arguments.kw_defaults)]


def list_arguments(call: ast.Call) -> list[ast.expr]:
    """The values that a call is given: by position, then by name, `*` and `**` among them."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def global_names(tree: ast.AST) -> set[str]:
    """The names that `global` statements anywhere in `tree` declare."""
    names: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.Global):
            names.update(node.names)
    return names


def sets_attributes(tree: ast.AST) -> bool:
    """Whether an attribute of anything is assigned or deleted in `tree`, also by `setattr`."""
    for node in walk(tree):
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Call(func=ast.Name(id="setattr" | "delattr"))
            ):
                return True
    return False


def decorator_names(node: ast.AST) -> set[str]:
    """The decorators of `node` that are plain names, such as `staticmethod`; none of a lambda."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return {decorator.id for decorator in decorators if isinstance(decorator, ast.Name)}


def called_function(node: ast.expr) -> ast.expr:
    """The function of a call; a decorator that is written without a call is one itself."""
    return node.func if isinstance(node, ast.Call) else node


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` for such an expression, else `""`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            inner = dotted(value)
            return f"{inner}.{attr}" if inner else ""
        case _:
            return ""


def short_name(decorator: ast.expr) -> str:
    """The last name of a decorator: `b` of `@a.b(c)`."""
    return ast.unparse(called_function(decorator)).rpartition(".")[2]


def written_decorators(node: ast.ClassDef | Function) -> set[str]:
    """The decorators as they are spelled, without the arguments of their calls."""
    return {ast.unparse(called_function(decorator)) for decorator in node.decorator_list}


# A block is asked about many times: by each step, and for each variant of its file.  It is parsed
# again where many others were asked about in between, because trees take much memory.
@functools.lru_cache(maxsize=2048)
def parse_once(text: str) -> ast.Module:
    """The tree of the statements in `text`, shared by all who ask: nobody changes it."""
    return ast.parse(text)


# `async def \\` may stand above the name.
_NAME = re.compile(r"(?:async[\s\\]+)?(?:class|def)[\s\\]+(\w+)")


def assigned_values(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    """The last value that statements assign to each plain name."""
    values: dict[str, ast.expr] = {}
    for node in body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                values[name] = value
    return values


def column_of(line: str, byte_column: int) -> int:
    """The column in characters of a column of `ast`, which counts bytes."""
    # Nearly every line; encoding the others takes time.
    if line.isascii():
        return byte_column
    return len(line.encode()[:byte_column].decode(errors="ignore"))


def slice_of(lines: Sequence[str], node: Positioned) -> str:
    """The source of `node`; `ast` counts columns in bytes."""
    number = node.lineno
    last_number = node.end_lineno or number
    first = lines[number - 1]
    last = lines[last_number - 1]
    start = column_of(first, node.col_offset)
    end = column_of(last, node.end_col_offset or 0)
    if number == last_number:
        return first[start:end]
    between = "".join(lines[number : last_number - 1])
    return first[start:] + between + last[:end]


def find_name(lines: Sequence[str], node: ast.stmt) -> tuple[int, int, int]:
    """Where the name in a `def` or `class` statement stands: its line, first and last character.

    The position of `node` counts from `lines`.  `ast` says neither this nor how it is spelled:
    Python reads `ﬁeld` as `field`.
    """
    above = node.lineno - 1
    some_lines = lines[above : above + 10]
    text = "\n".join(line.removesuffix("\n") for line in some_lines)
    column = column_of(lines[above], node.col_offset)
    match = _NAME.match(text, column)
    assert match is not None
    name_at = match.start(1)
    line_at = text.rfind("\n", 0, name_at) + 1
    line = node.lineno + text.count("\n", 0, name_at)
    start = name_at - line_at
    end = start + len(match[1])
    return line, start, end


def parse_class(text: str) -> ast.ClassDef:
    """The first class statement of `text`, which has one."""
    return next(node for node in parse_once(text).body if isinstance(node, ast.ClassDef))


def find_class(text: str, name: str) -> ast.ClassDef | None:
    """The class `name` at the top of `text`; None where something else binds the name."""
    for node in parse_once(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    return None


def find_method(text: str, name: str) -> ast.FunctionDef | None:
    """The method `name` in `text`, which is that of a class, or of the method alone."""
    for statement in parse_once(text).body:
        for node in [statement, *getattr(statement, "body", [])]:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
    return None

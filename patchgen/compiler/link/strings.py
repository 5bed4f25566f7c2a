"""Which strings of a block name classes, and are renamed with them.

    _no_split_modules = ["LlamaDecoderLayer"]       _no_split_modules = ["TinyDecoderLayer"]
    weights.get("LlamaDecoderLayer")                weights.get("LlamaDecoderLayer")

What a string means is known in few places: documentation, what is logged, quoted annotations, the
lists of layers that transformers keeps, and comparisons with the name of a class.  Everywhere else
it is data, and stays: so does what an exception says.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.errors import PatchgenError
from patchgen.syntax.scopes import quoted_annotations

_LISTS = frozenset({"__all__", "_no_split_modules", "no_split_modules"})
_DOCUMENTATION = ("docstring", "docstrings")  # `auto_docstring`, `add_start_docstrings`
_FOR_DOCUMENTATION = "_FOR_DOC"  # constants: `_CONFIG_FOR_DOC`
_MESSAGES = frozenset(
    {
        "debug",
        "error",
        "exception",
        "info",
        "warn",
        "warning",
        "warning_advice",
        "warning_once",
    }
)
_NAMES = frozenset({"__name__", "__qualname__"})

Text = ast.Constant | ast.JoinedStr


def naming_strings(tree: ast.Module) -> Iterator[Text]:
    """The strings of `tree` whose words are names of classes where they are equal to such."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
                yield from _texts(node)
            case ast.arg(annotation=ast.expr() as annotation):
                yield from quoted_annotations(annotation)
            case ast.AnnAssign(annotation=annotation):
                yield from quoted_annotations(annotation)
            case ast.FunctionDef(returns=ast.expr() as returns):
                yield from quoted_annotations(returns)
            case ast.AsyncFunctionDef(returns=ast.expr() as returns):
                yield from quoted_annotations(returns)
            case ast.Call() if _is_logged(node.func):
                yield from _prose(node)
            case ast.Call() if _last(node.func).endswith(_DOCUMENTATION):
                yield from _texts(node)
            case ast.Compare() if _asks_for_a_name(node):
                yield from _texts(node)
            case _:
                pass
        if _lists_classes(node):
            yield from _texts(node)


@dataclass(frozen=True, slots=True)
class Data:
    """A string that may mean anything."""

    value: str
    lineno: int
    col_offset: int


def data_strings(tree: ast.Module, names: Collection[str]) -> Iterator[Data]:
    """The strings of `tree` that are one of `names` and may mean anything."""
    known = {id(node) for text in naming_strings(tree) for node in ast.walk(text)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if node.value in names and id(node) not in known:
            yield Data(node.value, node.lineno, node.col_offset)


def looks_up_names_of_classes(tree: ast.Module) -> bool:
    """Whether `tree` looks a name of a class up, keeps it or hands it on.

    Comparisons with strings follow the class, and messages are for people.
    """
    ignored: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _is_logged(node.func)):
            ignored |= {id(inner) for inner in ast.walk(node)}
    return any(
        _is_name(child) and id(child) not in ignored and _depends_on(node, child)
        for node in ast.walk(tree)
        for child in ast.iter_child_nodes(node)
    )


def _depends_on(node: ast.AST, name: ast.AST) -> bool:
    """Whether what `node` does may depend on `name`, a part of it."""
    match node:
        case ast.Subscript(slice=index):
            return index is name
        case ast.Compare():
            return not any(isinstance(text, ast.Constant) for text in _texts(node))
        case ast.Dict(keys=keys):
            return name in keys
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.NamedExpr(value=value):
            return value is name
        case ast.Call() | ast.keyword() | ast.Match():
            return True
        case _:
            return False


def staying_strings(text: str, pieces: Sequence[RewrittenBlock]) -> tuple[str, ...]:
    """A note for each string of `pieces` that is still in `text` and was the name of a class.

    Raises PatchgenError PG128 where code of its file may compare it with the name of a class.
    """
    found = [string for piece in pieces for string in piece.data]
    if not found:
        return ()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    left = {node.value for node in nodes if isinstance(node.value, str)}
    notes = []
    for string in found:
        if string.value not in left:
            continue
        if string.is_risky:
            what = f'"{string.value}" may be data or the class that is {string.new} here'
            hint = "override what it stands in, and ask for the class itself"
            raise PatchgenError("PG128", string.at, what, hint)
        place = f"{string.at.path}:{string.at.line}"
        notes.append(f'"{string.value}" ({place}) is data and stays; the class is {string.new}')
    return tuple(dict.fromkeys(notes))


def _texts(node: ast.AST) -> Iterator[Text]:
    for child in ast.walk(node):
        match child:
            case ast.JoinedStr() | ast.Constant(value=str()):
                yield child
            case _:
                pass


def _prose(call: ast.Call) -> Iterator[Text]:
    """The strings of a message that say more than a name."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    for text in (text for argument in arguments for text in _texts(argument)):
        if isinstance(text, ast.JoinedStr) or " " in str(text.value):
            yield text


def _is_logged(called: ast.expr) -> bool:
    owner = ast.unparse(called.value) if isinstance(called, ast.Attribute) else ""
    return owner in ("logger", "warnings", "logging") and _last(called) in _MESSAGES


def _last(called: ast.expr) -> str:
    match called:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _NAMES


def _asks_for_a_name(comparison: ast.Compare) -> bool:
    return any(_is_name(side) for side in (comparison.left, *comparison.comparators))


def _lists_classes(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    else:
        return False
    names = [_last(target) for target in targets]
    return any(name in _LISTS or name.endswith(_FOR_DOCUMENTATION) for name in names)

"""Rename the strings that name classes, and leave the others.

    _no_split_modules = ["LlamaDecoderLayer"]   ->   _no_split_modules = ["TinyDecoderLayer"]
    weights.get("LlamaDecoderLayer")            ->   weights.get("LlamaDecoderLayer")

A string surely names a class in documentation, in log messages, in quoted annotations, in
transformers' lists of layers, and in comparisons with the name of a class.  Everywhere else, also
in the message of an exception, it is data and stays.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.link.textchanges import TextChange, find_words
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.syntax.annotations import quoted_annotations
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import Position, list_arguments, position_of, walk

_LISTS = frozenset({"__all__", "_no_split_modules", "no_split_modules"})
# How the decorators of documentation end: `auto_docstring`, `add_start_docstrings`.
_DOCUMENTATION = ("docstring", "docstrings")
# How constants of documentation end: `_CONFIG_FOR_DOC`.
_FOR_DOCUMENTATION = "_FOR_DOC"
_LOGGERS = frozenset({"logger", "warnings", "logging"})
_LOG_METHODS = frozenset(
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


def rename_in_text(
    text: str,
    tree: ast.Module,
    renamed: Mapping[str, str],
    taken: Collection[tuple[int, int]],
    with_prose: bool,
) -> Iterator[TextChange]:
    """The changes that rename whole identifiers in comments and in strings that name classes.

    `taken` are the positions (line, byte) that are changed already.  Without `with_prose`, comments
    and texts for people stay.
    """
    # Spans, and not texts: a word stands somewhere inside a string, perhaps on its second line.
    spans = []
    for node in find_naming_strings(tree, with_prose):
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        spans.append((position_of(node), end))
    for word in find_words(text, renamed):
        place = (word.line, word.start)
        if place in taken:
            continue
        # A comment is for people, and nothing can depend on it.
        if (word.is_comment and with_prose) or _is_within(place, spans):
            yield TextChange(word.line, word.start, word.end, renamed[word.text])


def _is_within(place: Position, spans: Sequence[tuple[Position, Position]]) -> bool:
    """Whether `place` is in one of `spans`."""
    return any(first <= place < last for first, last in spans)


def find_naming_strings(tree: ast.Module, with_prose: bool = True) -> Iterator[Text]:
    """The strings of `tree` in which a word that equals the name of a class names it."""
    for node in walk(tree):
        if with_prose:
            yield from _find_prose_of(node)
        match node:
            case (
                ast.arg(annotation=ast.expr() as annotation)
                | ast.AnnAssign(annotation=annotation)
                | ast.FunctionDef(returns=ast.expr() as annotation)
                | ast.AsyncFunctionDef(returns=ast.expr() as annotation)
            ):
                yield from quoted_annotations(annotation)
            case ast.Compare() if _compares_class_name(node):
                yield from _find_texts(node)
        if _lists_classes(node):
            yield from _find_texts(node)


def _find_prose_of(node: ast.AST) -> Iterator[Text]:
    """The texts for people that `node` holds: documentation and log messages."""
    match node:
        # Docstrings, and strings that stand alone.
        case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            yield from _find_texts(node)
        case ast.Call() if _is_log_call(node.func):
            yield from _find_prose(node)
        case ast.Call() if _last_name(node.func).endswith(_DOCUMENTATION):
            yield from _find_texts(node)


@dataclass(frozen=True, slots=True)
class Data:
    """A string whose meaning is not known."""

    value: str
    lineno: int
    col_offset: int


def find_data_strings(tree: ast.Module, names: Collection[str]) -> Iterator[Data]:
    """The strings of `tree` that are one of `names`, and do not surely name a class."""
    constants = [node for node in walk(tree) if isinstance(node, ast.Constant)]
    found = [node for node in constants if isinstance(node.value, str) and node.value in names]
    # Nearly no tree has one.
    if not found:
        return
    known: set[int] = set()
    for text in find_naming_strings(tree):
        # An f-string holds its parts as constants of their own.
        known |= {id(node) for node in walk(text)}
    for node in found:
        if id(node) not in known:
            yield Data(str(node.value), node.lineno, node.col_offset)


def looks_up_class_names(tree: ast.Module) -> bool:
    """Whether code of `tree` looks up the name of a class, stores it or passes it on.

    Comparisons with strings do not count, because these are renamed, and neither do messages.

        TABLE[type(x).__name__]             counts
        logger.info(type(x).__name__)       does not
    """
    # By identity: equal code at another place counts.
    ignored: set[int] = set()
    for node in walk(tree):
        if _is_message(node):
            ignored |= {id(inner) for inner in walk(node)}
    for node in walk(tree):
        names = [child for child in ast.iter_child_nodes(node) if _is_class_name(child)]
        for name in names:
            if id(name) not in ignored and _depends_on(node, name):
                return True
    return False


def _is_message(node: ast.AST) -> bool:
    """Whether what stands in `node` is only shown to people."""
    if isinstance(node, ast.Raise):
        return True
    return isinstance(node, ast.Call) and _is_log_call(node.func)


def _depends_on(node: ast.AST, name: ast.AST) -> bool:
    """Whether what `node` does may depend on `name`, a part of it."""
    match node:
        case ast.Subscript(slice=index):
            return index is name
        case ast.Compare():
            return not any(isinstance(text, ast.Constant) for text in _find_texts(node))
        case ast.Dict(keys=keys):
            return name in keys
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.NamedExpr(value=value):
            return value is name
        case ast.Call() | ast.keyword() | ast.Match():
            return True
        case _:
            return False


def note_data_strings(text: str, rewritten_blocks: Sequence[RewrittenBlock]) -> tuple[str, ...]:
    """A note for each string that `text` still has and that equals a class's old name.

    The strings are those of `rewritten_blocks`.

    Raises PatchgenError PG128 where code of its file may compare it with the name of a class.
    """
    found = [string for rewritten in rewritten_blocks for string in rewritten.data]
    # Nearly no block has one, and the text need not be parsed.
    if not found:
        return ()
    # Merging may have dropped the code that held the string.
    left = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    notes: dict[str, None] = {}
    for string in found:
        if string.value not in left:
            continue
        if string.is_risky:
            what = f'"{string.value}" may be data or the class that is {string.new} here'
            hint = "override what it stands in, and ask for the class itself"
            raise PatchgenError("PG128", string.at, what, hint)
        place = f"{string.at.path}:{string.at.line}"
        note = f'"{string.value}" ({place}) is data and stays; the class is {string.new}'
        notes[note] = None
    return tuple(notes)


def _find_texts(node: ast.AST) -> Iterator[Text]:
    """Every string in `node`, f-strings as a whole and in parts."""
    for child in ast.walk(node):
        match child:
            case ast.JoinedStr() | ast.Constant(value=str()):
                yield child


def _find_prose(call: ast.Call) -> Iterator[Text]:
    """The strings of a message that are more than one word; a single word may be data."""
    for argument in list_arguments(call):
        for text in _find_texts(argument):
            is_single_word = isinstance(text, ast.Constant) and " " not in str(text.value)
            if not is_single_word:
                yield text


def _is_log_call(called: ast.expr) -> bool:
    """Whether `called` is a method of a logger: `logger.warning_once`."""
    if not isinstance(called, ast.Attribute):
        return False
    return ast.unparse(called.value) in _LOGGERS and called.attr in _LOG_METHODS


def _last_name(called: ast.expr) -> str:
    """The name behind the last dot; "" for what is no name."""
    match called:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_class_name(node: ast.AST) -> bool:
    """Whether an expression is the name of a class, or of a function: `x.__name__`."""
    return isinstance(node, ast.Attribute) and node.attr in _NAMES


def _compares_class_name(comparison: ast.Compare) -> bool:
    """Whether a side of the comparison is the name of a class: `type(x).__name__ == "Toy"`."""
    return any(_is_class_name(side) for side in (comparison.left, *comparison.comparators))


def _lists_classes(node: ast.AST) -> bool:
    """Whether `node` assigns a list of classes, such as `__all__` or `_no_split_modules`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    for target in targets:
        name = _last_name(target)
        if name in _LISTS or name.endswith(_FOR_DOCUMENTATION):
            return True
    return False

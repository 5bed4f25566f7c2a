"""Rename the strings that name classes, and leave the others.

    _no_split_modules = ["LlamaDecoderLayer"]   ->   _no_split_modules = ["TinyDecoderLayer"]
    weights.get("LlamaDecoderLayer")            ->   weights.get("LlamaDecoderLayer")

A string surely names a class in documentation, in log messages, in quoted annotations, in
transformers' lists of layers, and in comparisons with the name of a class.  Everywhere else, also
in the message of an exception, it is data and stays.

A `TextChange` replaces bytes of one line; no change adds or removes a line.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.plan.model import Edit, RewrittenBlock
from patchgen.syntax.annotations import find_annotations, quoted_annotations
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import (
    Position,
    list_arguments,
    mentions,
    parse_once,
    position_of,
    walk,
)

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

_TEXT_TOKENS = frozenset(
    {
        tokenize.STRING,
        tokenize.COMMENT,
        # Python 3.12 reads the text of an f-string as tokens of its own.
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
)
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


# Changes of a text


@dataclass(frozen=True, slots=True)
class TextChange:
    """The bytes `start` to `end` of a line become `new`."""

    line: int
    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Word:
    """An identifier in a string or comment, with the line and the byte on which it begins."""

    line: int
    start: int
    text: str
    is_comment: bool

    @property
    def end(self) -> int:
        """The byte behind the word."""
        return self.start + len(self.text.encode())


def apply_changes(lines: Iterable[str], changes: set[TextChange]) -> tuple[str, tuple[Edit, ...]]:
    """Make all changes.  Returns the text, and each change again with its column in characters."""
    changed = list(lines)
    edits: list[Edit] = []
    # From the last change to the first, so that the positions of the others stay true.
    in_order = sorted(changes, key=lambda change: (change.line, change.start), reverse=True)
    for change in in_order:
        raw = changed[change.line - 1].encode()
        before, old, after = (
            raw[: change.start].decode(),
            raw[change.start : change.end].decode(),
            raw[change.end :].decode(),
        )
        edits.append(Edit(change.line, len(before), old, change.new))
        changed[change.line - 1] = before + change.new + after
    return "\n".join(changed), tuple(reversed(edits))


def find_words(text: str, words: Iterable[str]) -> Iterator[Word]:
    """Each of `words` that stands in a string or a comment of `text`."""
    pattern = _compile_words(words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _TEXT_TOKENS:
            continue
        first_line, column = token.start
        is_comment = token.type == tokenize.COMMENT
        for offset, line in enumerate(token.string.split("\n")):
            # The token begins at `column`, its further lines at the start of theirs.
            before = token.line.split("\n")[0][:column] if offset == 0 else ""
            base = len(before.encode())
            for found in pattern.finditer(line):
                start = base + len(line[: found.start()].encode())
                yield Word(first_line + offset, start, found.group(), is_comment)


def rename_words(text: str, renamed: Mapping[str, str]) -> str:
    """Rename whole identifiers anywhere in `text`."""
    if not renamed or not text.strip():
        return text
    pattern = _compile_words(renamed)
    return pattern.sub(lambda found: renamed[found.group()], text)


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    # The longest first: of `LlamaMLP|Llama`, an alternation takes the first that matches.
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?:{alternatives})(?!\w)")


def quote_own_name(text: str, name: str) -> str:
    """Put each unquoted annotation of the class statement `text` that reads `name` in quotes.

    In the modular file it names the parent, which exists already; in the flat file it names the
    class itself, which does not exist before its body has run.

    class LlamaMLP(llama.LlamaMLP):                      class LlamaMLP(nn.Module):
        def link(self, other: llama.LlamaMLP): ...  ->       def link(self, other: "LlamaMLP"): ...

    Annotations with quotes of their own, or over several lines, stay as they are.
    """
    # Once is the class statement itself.
    if text.count(name) < 2:
        return text
    lines = text.split("\n")
    found = [node for node in find_annotations(parse_once(text)) if mentions(node, name)]
    # From the last to the first, so that the positions of the others stay true.
    for node in sorted(found, key=position_of, reverse=True):
        if node.end_lineno != node.lineno:
            continue
        # Columns of `ast` count bytes.
        line = lines[node.lineno - 1].encode()
        before = line[: node.col_offset]
        written = line[node.col_offset : node.end_col_offset]
        after = line[node.end_col_offset :]
        if b'"' in written or b"'" in written:
            continue
        lines[node.lineno - 1] = b"".join([before, b'"', written, b'"', after]).decode()
    return "\n".join(lines)

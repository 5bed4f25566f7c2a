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
import itertools
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from patchgen.compiler.plan.model import Edit
from patchgen.syntax.annotations import find_annotations, last_name, quoted_annotations
from patchgen.syntax.text import read_tokens
from patchgen.syntax.trees import list_arguments, mentions, parse_once, position_of, walk

_LISTS = frozenset({"__all__", "_no_split_modules", "no_split_modules"})
# How the decorators of documentation end: `auto_docstring`, `add_start_docstrings`.
_DOCUMENTATION = ("docstring", "docstrings")
# How constants of documentation end: `_CONFIG_FOR_DOC`.
_FOR_DOCUMENTATION = "_FOR_DOC"
_LOGGERS = frozenset({"logger", "warnings", "logging"})
_LOG_METHODS = frozenset(
    {"debug", "error", "exception", "info", "warn", "warning", "warning_advice", "warning_once"}
)

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
    for line, start, word, is_comment in find_words(text, renamed):
        is_naming = any(first <= (line, start) < last for first, last in spans)
        # A comment is for people, and nothing can depend on it.
        if (line, start) not in taken and (is_naming or (is_comment and with_prose)):
            yield TextChange(line, start, start + len(word.encode()), renamed[word])


def find_naming_strings(tree: ast.Module, with_prose: bool) -> Iterator[Text]:
    """The strings of `tree` in which a word that equals the name of a class names it."""
    compared: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="__name__")):
                compared.add(name)
    for annotation in find_annotations(tree):
        yield from quoted_annotations(annotation)
    for node in walk(tree):
        if with_prose:
            yield from _find_prose_of(node)
        match node:
            # `type(x).__name__ == "Toy"`, and the same in two statements
            case ast.Compare(left=left, comparators=others) if any(
                (isinstance(side, ast.Attribute) and side.attr == "__name__")
                or (isinstance(side, ast.Name) and side.id in compared)
                for side in (left, *others)
            ):
                yield from _find_texts(node)
            # `_no_split_modules = [...]`
            case (
                ast.Assign(targets=[target, *_])
                | ast.AnnAssign(target=target)
                | (ast.AugAssign(target=target))
            ) if last_name(target) in _LISTS or last_name(target).endswith(_FOR_DOCUMENTATION):
                yield from _find_texts(node)


def _find_prose_of(node: ast.AST) -> Iterator[Text]:
    """The texts for people that `node` holds: documentation and log messages."""
    match node:
        # Docstrings, and strings that stand alone.
        case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            yield from _find_texts(node)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
            name in _LOG_METHODS and ast.unparse(owner) in _LOGGERS
        ):
            for text in itertools.chain(*map(_find_texts, list_arguments(node))):
                # A single word may be data.
                if not isinstance(text, ast.Constant) or " " in str(text.value):
                    yield text
        case ast.Call() if last_name(node.func).endswith(_DOCUMENTATION):
            yield from _find_texts(node)


def _find_texts(node: ast.AST) -> Iterator[Text]:
    """Every string in `node`, f-strings as a whole and in parts."""
    for child in ast.walk(node):
        match child:
            case ast.JoinedStr() | ast.Constant(value=str()):
                yield child


class TextChange(NamedTuple):
    """The bytes `start` to `end` of a line become `new`."""

    line: int
    start: int
    end: int
    new: str


def apply_changes(lines: Iterable[str], changes: set[TextChange]) -> tuple[str, tuple[Edit, ...]]:
    """Make all changes.  Returns the text, and each change again with its column in characters."""
    changed = list(lines)
    edits: list[Edit] = []
    # From the last change to the first, so that the positions of the others stay true.
    for line, start, end, new in sorted(changes, reverse=True):
        index = line - 1
        raw = changed[index].encode()
        before = raw[:start].decode()
        old = raw[start:end].decode()
        after = raw[end:].decode()
        changed[index] = before + new + after
        edits.append(Edit(line, len(before), old, new))
    text = "\n".join(changed)
    edits.reverse()
    return text, tuple(edits)


def find_words(text: str, words: Iterable[str]) -> Iterator[tuple[int, int, str, bool]]:
    """Line, byte and text of each of `words` in a string or comment, and whether in a comment."""
    pattern = _compile_words(words)
    for token in read_tokens(text):
        if token.type not in _TEXT_TOKENS:
            continue
        first_line, column = token.start
        is_comment = token.type == tokenize.COMMENT
        for offset, line in enumerate(token.string.split("\n")):
            # The token begins at `column`, its further lines at the start of theirs.
            prefix = ""
            if offset == 0:
                prefix = token.line.split("\n")[0][:column]
            for match in pattern.finditer(line):
                before = prefix + line[: match.start()]
                start = len(before.encode())
                yield first_line + offset, start, match.group(), is_comment


def rename_words(text: str, renamed: Mapping[str, str]) -> str:
    """Rename whole identifiers anywhere in `text`."""
    if not renamed or not text.strip():
        return text
    pattern = _compile_words(renamed)
    return pattern.sub(lambda match: renamed[match.group()], text)


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    # The longest first: of `LlamaMLP|Llama`, an alternation takes the first that matches.
    alternatives = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.])(?:{alternatives})(?!\w)")


def quote_own_name(text: str, name: str) -> str:
    """Put each unquoted annotation of the class statement `text` that reads `name` in quotes.

    In the modular file it names the parent, which exists already; in the flat file it names the
    class itself, which does not exist before its body has run.

    class LlamaMLP(llama.LlamaMLP):                      class LlamaMLP(nn.Module):
        def link(self, other: llama.LlamaMLP): ...  ->       def link(self, other: "LlamaMLP"): ...
    """
    # Once is the class statement itself.
    if text.count(name) <= 1:
        return text
    lines = text.split("\n")
    changes: set[TextChange] = set()
    for node in find_annotations(parse_once(text)):
        if mentions(node, name) and node.end_lineno == node.lineno:
            start = node.col_offset
            end = node.end_col_offset or start
            written = lines[node.lineno - 1].encode()[start:end].decode()
            # One with quotes of its own stays.
            if not set(written) & {'"', "'"}:
                changes.add(TextChange(node.lineno, start, end, f'"{written}"'))
    return apply_changes(lines, changes)[0]

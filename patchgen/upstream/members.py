"""Cut a class into members, a method into its head and body, and a body into statements.

In: the text of one class at column 0, formatted.  Out: its parts as text, which `merge` puts
together: whole lines, which can be moved, replaced and joined without columns.  What is no
docstring, attribute or method (`pass`, nested classes, `if` blocks, several statements on a line)
has no part and is lost.  Members are found by their indentation, and only the bodies that call
`super()` are parsed: most members are only copied.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.syntax.blocks import first_line
from patchgen.syntax.trees import slice_of
from patchgen.upstream import tokens

# A string or comment, which may hold anything, or the start of a line one level down that closes no
# bracket.
_START = re.compile(rf"{tokens.STRING}|#[^\n]*|^    (?=[^\s)\]}}#])", re.MULTILINE | re.DOTALL)
_DEF = re.compile(r"^    (?:async )?def (\w+)", re.MULTILINE)
_SIMPLE_KEY = re.compile(r"    (\w+)(?: = |: )")
# The comments between the decorators and `def`.
_BETWEEN = re.compile(r"(?:^ *(?:#.*)?\n)*\Z", re.MULTILINE)
_FIRST = re.compile(rf"\s*[a-zA-Z]*(?:{tokens.TRIPLE})[^\n]*\n", re.DOTALL)
_COMMENT = re.compile("#.*")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Member:
    """A statement of a class.

    The blank and comment lines above, its own whole lines, and their place from 0.
    """

    leading: str
    text: str
    line: int

    @property
    def whole(self) -> str:
        """The statement with the lines above it."""
        return self.leading + self.text


@dataclass(frozen=True, slots=True)
class Members:
    """A class in pieces.

    Attributes are keyed by the text of their target, methods by their name.
    """

    decorators: str
    arguments: tuple[tokens.Item, ...]
    docstring: Member | None
    attributes: dict[str, Member]
    methods: dict[str, Member]


@dataclass(frozen=True, slots=True)
class Method:
    """A method in pieces; joined in this order they are its text.

    `leading` holds the lines above, `between` those between decorators and `def`, `opening` reaches
    to the bracket, `parameters` is what the brackets hold, `returns` the text from there to the
    colon, `tail` the rest of that line. `line` is the place of the body's first line in the class,
    from 0.
    """

    name: str
    leading: str
    decorators: str
    between: str
    opening: str
    parameters: str
    returns: str
    tail: str
    body: str
    line: int


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement `node` as whole lines; `leading` holds the blank and comment lines above it.

    `text` includes the comment at the end of its last line and the comments that close its own
    blocks.  `alone` is False when several statements share its lines (`a = 1; b = 2`); `node` is
    then the first of them.
    """

    leading: str
    text: str
    node: ast.stmt
    alone: bool

    @property
    def whole(self) -> str:
        """The statement with the lines above it."""
        return self.leading + self.text

    @property
    def plain(self) -> str:
        """The text up to a `#`, by which repeated statements are found; a `#` in a string
        counts.
        """
        text = _COMMENT.sub("", self.text) if "#" in self.text else self.text
        return _TRAILING.sub("", text).strip()

    @property
    def documents(self) -> bool:
        """Whether it is a plain string in triple double quotes, wherever it stands."""
        match self.node:
            case ast.Expr(value=ast.Constant(value=str())):
                return self.text.count('"""') > 1
        return False


@dataclass(frozen=True, slots=True)
class Body:
    """The statements of a body, with the comment lines below the last of them."""

    lines: tuple[str, ...]
    statements: tuple[Statement, ...]
    footer: str


def cut_class(text: str) -> Members:
    """The parts of the class whose text is `text`."""
    # The decorators stand above the class line.
    decorated = 0 if text.startswith("class ") else text.index("\nclass ") + 1
    after = decorated
    arguments: tuple[tokens.Item, ...] = ()
    span = tokens.bracket_span(text, decorated)
    if span:
        start, end = span
        after = end + 1
        arguments = tokens.items(text[start + 1 : end])
    colon = tokens.colon_after(text, after)
    docstring: Member | None = None
    attributes: dict[str, Member] = {}
    methods: dict[str, Member] = {}
    for member in _members(text, text.find("\n", colon) + 1):
        # Every member is indented by four blanks.
        if member.text.startswith(("@", "def ", "asyn"), 4):
            _add_method(methods, member)
        elif member.text[4:8].lstrip("rRbBuU").startswith('"""') and _documents(member.text):
            docstring = member
        elif key := _attribute_key(member.text):
            attributes[key] = member
    return Members(text[:decorated], arguments, docstring, attributes, methods)


def _members(text: str, body: int) -> Iterator[Member]:
    """The members of the class body, which begins at `body`."""
    starts = [match.start() for match in _START.finditer(text, body) if match.group() == "    "]
    line = text.count("\n", 0, body)
    above = body
    decorated = -1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        if text.startswith("@", start + 4):
            decorated = start if decorated < 0 else decorated
            continue
        # A decorated method begins with the first of its decorators.
        first = start if decorated < 0 else decorated
        decorated = -1
        last = tokens.end_of_block(text, start, end, "    ")
        line += text.count("\n", above, first)
        yield Member(text[above:first], text[first:last], line)
        line += text.count("\n", first, last)
        above = last


def _add_method(methods: dict[str, Member], method: Member) -> None:
    """A second method of a name is its setter, unless it is the property and the first one was the
    setter.

    Of three, one is lost (the overloads of `edgetam_video`).
    """
    match = _DEF.search(method.text)
    if match is None:  # A decorated class.
        return
    name = match.group(1)
    if name not in methods:
        methods[name] = method
    elif method.text.startswith("    @property\n"):
        methods[f"{name}'s setter"], methods[name] = methods[name], method
    else:
        methods[f"{name}'s setter"] = method


def _documents(text: str) -> bool:
    """Whether a member that begins with three quotes is nothing but a string."""
    # Nearly every docstring; the others have to be parsed.
    if text.endswith('"""\n') and text.count('"""') == 2:
        return True
    return Statement("", text, _parsed(text)[0], True).documents


def _attribute_key(text: str) -> str:
    """The text of the (first) target of an assignment that has its lines for itself, annotated or
    not; "" for all else.
    """
    if ";" not in text and (match := _SIMPLE_KEY.match(text)):
        return match.group(1)
    # No assignment, so that parsing is not worth its time.
    if "=" not in text and ":" not in text or text.startswith(("    if ", "    class ")):
        return ""
    match _parsed(text):
        case [ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target)]:
            return slice_of(["", *text.split("\n")], target)
    return ""


def _parsed(text: str) -> Sequence[ast.stmt]:
    """The statements of a member's text; of what is half of a statement (`else:`) none."""
    try:
        # The text is indented, which Python allows inside a block only.
        block = ast.parse(f"if 1:\n{text}").body[0]
    except SyntaxError:
        return [ast.Pass()]
    assert isinstance(block, ast.If)
    return block.body


def cut_method(member: Member) -> Method:
    """The pieces of the method `member`."""
    text = member.text
    match = _DEF.search(text)
    assert match is not None
    start = match.start()
    between = _BETWEEN.search(text, 0, start)
    above = between.start() if between else start
    span = tokens.bracket_span(text, start)
    assert span is not None
    colon = tokens.colon_after(text, span[1] + 1)
    end = text.find("\n", colon) + 1
    tail = text[colon + 1 : end]
    body = text[end:]
    if not body:  # It stands behind the colon.
        tail, body = "\n", f"        {tail.strip()}\n"
    return Method(
        match.group(1),
        member.leading,
        text[:above],
        text[above:start],
        text[start : span[0]],
        text[span[0] + 1 : span[1]],
        text[span[1] + 1 : colon].strip(),
        tail,
        body,
        member.line + text.count("\n", 0, end),
    )


def docstring_of(method: Method) -> str:
    """The docstring with the lines above it, wherever in the body it stands.

    Empty when there is none.
    """
    quotes = method.body.count('"""')
    # A search is enough for most methods, and parsing takes time.
    if quotes == 2 and (first := _FIRST.match(method.body)) and first.group().endswith('"""\n'):
        return first.group()
    # With code behind it on its last line, it need not be a docstring.
    statements = cut_body(method).statements if quotes else ()
    return "".join(statement.whole for statement in statements if statement.documents)


def cut_body(method: Method) -> Body:
    """The statements of `method`, each with the comment and blank lines above it."""
    # str.splitlines also breaks at characters that mean nothing to the tokenizer.
    body = method.body.removesuffix("\n").split("\n")
    lines = ("if 1:\n", *(f"{line}\n" for line in body))
    block = ast.parse("".join(lines)).body[0]
    assert isinstance(block, ast.If)
    statements: list[Statement] = []
    above = 1
    for index, node in enumerate(block.body):
        first = first_line(node) - 1
        last = node.end_lineno or node.lineno
        # `a = 1; b = 2`: one statement, which is moved as a whole.
        if index and node.lineno == above:
            above = last
            previous = statements[-1]
            start = first_line(previous.node) - 1
            text = "".join(lines[start:last])
            statements[-1] = replace(previous, text=text, alone=False)
            continue
        before: Sequence[str] = lines[above:first]
        # Nearly always there are only blank lines, which need not be split.
        if statements and any(not line.isspace() for line in before):
            footer, before = _split_gap(before, node.col_offset)
            _add_footer(statements, footer)
        text = "".join(lines[first:last])
        statements.append(Statement("".join(before), text, node, True))
        above = last
    # Comments at the end may belong to the last statement, or to what follows the block.
    column = block.body[-1].col_offset
    footer, rest = _split_gap(lines[above:], column)
    _add_footer(statements, footer)
    return Body(lines, tuple(statements), "".join(rest))


def _add_footer(statements: list[Statement], footer: str) -> None:
    last = statements[-1]
    statements[-1] = replace(last, text=last.text + footer)


def _split_gap(lines: Sequence[str], indent: int) -> tuple[str, Sequence[str]]:
    """Split lines between statements: those deeper than `indent` close the block above."""
    cut = 0
    for number, line in enumerate(lines, 1):
        bare = line.lstrip()
        if bare and len(line) - len(bare) <= indent:
            break
        # A blank line goes with the comment below it.
        cut = number if bare else cut
    return "".join(lines[:cut]), lines[cut:]

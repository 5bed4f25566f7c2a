"""What a project's own modular files say at more cost than they need: `patchgen check --lint`.

    PG740   `__init__` builds a submodule that the parent has just built
    PG741   an override that does what its parent does
    PG742   `super().forward(...)` whose result is thrown away
    PG743   an override of which nearly all is its parent's: an edit says the difference alone

In: the text of a modular file, and the outputs that it gives.  Out: warnings, in the modular file.
`ast` finds the methods; what is in them is asked of libcst, by matchers.  A method that libcst
cannot read has no findings.  Each rule is a function: those of methods are listed at the end.
"""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from patchgen.compiler.edits.tree import Tree, read_tree
from patchgen.compiler.flat import FlatFile, Flattened
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.same import says_same
from patchgen.syntax.text import Source, make_source, parse

# They run at the end of an `__init__`, and read no submodule by its name.
_HARMLESS = m.Name("post_init")
# The parent's `__init__` under a name of its own, where its statements cannot stand in the child's.
_KEPT = "_init_of_"
# An edit takes about so many lines: of a shorter override it would save nothing.
_SHORT = 8
# An override in which a larger share is new is a method of its own.
_NEW = 0.25

_SUPER = m.Call(func=m.Name("super"), args=[])
_DOCSTRING = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a class of a file, which begins on `line` there.

    `written` is its text in the output, where names are the parent's, and `inherited` that of the
    parent's method that it overrides without asking for it; both may be "".
    """

    owner: str
    node: ast.FunctionDef
    line: int
    tree: Tree
    written: str = ""
    inherited: str = ""

    @property
    def function(self) -> cst.FunctionDef:
        """It as libcst reads it."""
        return self.tree.function

    def finding(self, modular: Source, code: str, what: str, hint: str) -> Problem:
        """A warning at its name."""
        at = modular.at_node(self.node)
        return Problem(at, code, f"`{self.owner}.{self.node.name}` {what}", hint, "warning")


def with_findings(flat: Flattened, modular: Source) -> Flattened:
    """`flat`, the outputs of the file `modular`, with the findings about them as problems."""
    # What is refused has no outputs: the refusal comes first.
    if flat.problems:
        return flat
    inherited = {override.name: override.text for override in flat.overrides}
    written: dict[str, str] = {}
    findings: list[Problem] = []
    for file in flat.files:
        findings += builds_twice(file, modular)
        for owner, node, text in _functions(make_source(file.text, file.name)):
            written[f"{owner}.{node.name}"] = text
    for owner, node, text in _functions(modular):
        tree = _read(text)
        if tree is None:
            continue
        name = f"{owner}.{node.name}"
        texts = written.get(name, ""), inherited.get(name, "")
        method = Method(owner, node, first_line(node), tree, *texts)
        for rule in METHOD_RULES:
            findings += rule(method, modular)
    return replace(flat, problems=tuple(sorted(findings)))


def _functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """The methods of a file, edits among them: their classes, their nodes and their texts."""
    for owner in parse(source).body:
        if isinstance(owner, ast.ClassDef):
            for node in owner.body:
                if isinstance(node, ast.FunctionDef):
                    last = node.end_lineno or node.lineno
                    yield owner.name, node, source.slice(first_line(node), last)


def _read(text: str) -> Tree | None:
    """A method as libcst reads it; None where it cannot, or where that would be too deep."""
    try:
        return read_tree(text, Location(""))
    except PatchgenError:
        return None


def does_as_its_parent(method: Method, modular: Source) -> Iterator[Problem]:
    """An override that only calls the parent's method with what it was given, or repeats it.

    The first is left where the lines around the call were deleted, the second where a release took
    over what the override changed.
    """
    if _only_asks(method.function):
        what = "only calls the parent's method with its own arguments"
        yield method.finding(modular, "PG741", what, "delete it")
    elif method.inherited and says_same(textwrap.dedent(method.written), method.inherited):
        what = "does what the parent's method does"
        yield method.finding(modular, "PG741", what, "delete it")


def _only_asks(function: cst.FunctionDef) -> bool:
    """Whether it is `return super().m(...)` with each of its parameters and nothing else."""
    # A decorator or a default may be what the override is for.
    of = function.params
    parameters = [*of.posonly_params, *of.params, *of.kwonly_params]
    if function.decorators or any(parameter.default for parameter in parameters):
        return False
    lines = [line for line in function.body.body if not m.matches(line, _DOCSTRING)]
    if len(lines) != 1:
        return False
    name = function.name.value
    call = m.SaveMatchedNode(_asks_parent(name), "call")
    asks = m.Expr(call) if name == "__init__" else m.Return(call)
    match = m.extract(lines[0], m.SimpleStatementLine([asks]))
    if match is None:
        return False
    arguments = cst.ensure_type(match["call"], cst.Call).args
    return [_passed(argument) for argument in arguments] == _handed_on(of)


def _asks_parent(name: str) -> m.Call:
    """`super().name(...)`."""
    return m.Call(func=m.Attribute(value=_SUPER, attr=m.Name(name)))


def _handed_on(of: cst.Parameters) -> list[str]:
    """Each parameter but `self`, as a call passes it on."""
    parameters = [parameter.name.value for parameter in (*of.posonly_params, *of.params)]
    arguments = parameters[1:]
    if isinstance(of.star_arg, cst.Param):
        arguments.append(f"*{of.star_arg.name.value}")
    arguments += [parameter.name.value for parameter in of.kwonly_params]
    if of.star_kwarg:
        arguments.append(f"**{of.star_kwarg.name.value}")
    return arguments


def _passed(argument: cst.Arg) -> str:
    """An argument of a call as text: `x` for x, `k=k` for a keyword, `**kwargs`."""
    keyword = f"{argument.keyword.value}=" if argument.keyword else ""
    value = argument.value.value if isinstance(argument.value, cst.Name) else "?"
    # A keyword of its own name passes the same as its place would.
    return value if keyword == f"{value}=" else f"{keyword}{argument.star}{value}"


def throws_away(method: Method, modular: Source) -> Iterator[Problem]:
    """A `forward` that calls the parent's and returns nothing.

    transformers' own modular files write it so, and their converter puts the parent's statements in
    the place of the call, `return` and all.  Here, as in Python, the model then gets None.
    """
    if method.node.name != "forward":
        return
    returns = m.Return(value=~m.MatchIfTrue(lambda value: value is None))
    asks = m.Expr(_asks_parent("forward"))
    if m.findall(method.function, asks) and not m.findall(method.function, returns):
        what = "throws away what `super().forward(...)` gives, and returns None"
        yield method.finding(modular, "PG742", what, "write `return super().forward(...)`")


def repeats_its_parent(method: Method, modular: Source) -> Iterator[Problem]:
    """An override that was copied from the parent to change a few of its statements.

    At each release somebody has to compare it with the parent's method (PG510); an edit follows.
    """
    text = method.inherited
    # It may have been an attribute.
    if not re.match(r"\s*(?:@|def )", text):
        return
    # What is the same is another finding.
    if any(does_as_its_parent(method, modular)):
        return
    # A string at the margin keeps the others from it.
    parent = _read(text if text.startswith(" ") else textwrap.indent(text, "    "))
    written = _read(method.written) if method.written else None
    if parent is None or written is None:
        return
    parent_code = _code(parent.function)
    code = _code(written.function)
    matcher = difflib.SequenceMatcher(None, parent_code, code, autojunk=False)
    kept = sum(block.size for block in matcher.get_matching_blocks())
    differing = max(len(code), len(parent_code)) - kept
    if kept >= _SHORT and differing <= _NEW * len(parent_code):
        what = f"repeats {kept} of the {len(parent_code)} lines of the parent's method"
        hint = f'an edit of "{method.node.name}" would hold the others alone'
        yield method.finding(modular, "PG743", what, hint)


def _code(function: cst.FunctionDef) -> list[str]:
    """Its statements, those inside others too, each without the way it is laid out."""
    holder = cst.Module([])
    codes = []
    for line in m.findall(function, m.SimpleStatementLine()):
        statements = cst.ensure_type(line, cst.SimpleStatementLine).body
        text = holder.code_for_node(cst.SimpleStatementLine(statements))
        codes.append("".join(text.split()).replace(",)", ")"))
    return codes


def builds_twice(file: FlatFile, modular: Source) -> Iterator[Problem]:
    """Submodules that an `__init__` builds twice: in the parent's statement, then in the child's.

        self.mlp = LlamaMLP(config)         # from the parent: built, and thrown away
        self.norm = LlamaRMSNorm(...)
        self.mlp = Experts(config)          # PG740: an edit of `__init__` would replace the first

    The flat class has the parent's statements in the place of `super().__init__()`, or a call of
    the method that keeps them.  Nothing is reported where an assignment is under a condition, where
    the first value is read before it is replaced, or where the object is passed on in between.
    """
    origins = _map_lines(file)
    own_lines = {line for line, (path, _) in origins.items() if path == modular.path}
    for methods in _find_inits(file).values():
        init = methods.get("__init__")
        if init is None or not init.function.params.params:
            continue
        lines = range(init.line, (init.node.end_lineno or 0) + 1)
        if own_lines.isdisjoint(lines):
            continue
        receiver = init.function.params.params[0].name.value
        statements = [*_written_out(init, methods, receiver, frozenset())]
        for index, (line, second) in enumerate(statements):
            path, own_line = origins.get(line, ("", 0))
            name = _built(second, receiver)
            if path != modular.path or not name:
                continue
            first = _last_built(statements[:index], name, receiver)
            if first is None:
                continue
            # What the modular file builds twice itself is no matter of inheritance.
            if origins.get(statements[first][0], (modular.path, 0))[0] == modular.path:
                continue
            # The second statement may wrap the first value: `self.mlp = Wrapper(self.mlp)`.
            between = statements[first + 1 : index + 1]
            if not any(_may_read(node, name, receiver) for _, node in between):
                at = Location(modular.path, own_line, 1)
                hint = "an edit of __init__ would replace it"
                what = f"`{receiver}.{name}` is built twice"
                yield Problem(at, "PG740", what, hint, "warning")


def _map_lines(file: FlatFile) -> dict[int, tuple[str, int]]:
    """The file and the line there that each line of an output came from."""
    origins: dict[int, tuple[str, int]] = {}
    for origin in file.lines:
        shift = origin.line - origin.first
        for number in range(origin.first, origin.last + 1):
            origins[number] = origin.path, number + shift
    return origins


def _find_inits(file: FlatFile) -> dict[str, dict[str, Method]]:
    """The `__init__` of each class of an output, and those of its parents under private names."""
    classes: dict[str, dict[str, Method]] = defaultdict(dict)
    source = make_source(file.text, file.name)
    for owner, node, text in _functions(source):
        if node.name != "__init__" and not node.name.startswith(_KEPT):
            continue
        tree = _read(text)
        if tree is not None:
            method = Method(owner, node, first_line(node), tree)
            classes[owner][node.name] = method
    return classes


def _written_out(
    method: Method, methods: Mapping[str, Method], receiver: str, inside: frozenset[str]
) -> Iterator[tuple[int, cst.CSTNode]]:
    """The statements of `method` with their lines; those of kept methods replace their calls."""
    for whole in method.function.body.body:
        # The first line of the tree is that of the class around the method.
        line = method.line + method.tree.positions[whole].start.line - 2
        statements = whole.body if isinstance(whole, cst.SimpleStatementLine) else [whole]
        for node in statements:
            name = ""
            match node:
                case cst.Expr(cst.Call(cst.Attribute(cst.Name(owner), cst.Name(called)))):
                    if owner == receiver:
                        name = called
            kept = methods.get(name)
            # `inside` stops at a method that calls itself.
            if kept is None or name in inside or not _is_copy(kept, receiver):
                yield line, node
            else:
                yield from _written_out(kept, methods, receiver, inside | {name})


def _is_copy(method: Method, receiver: str) -> bool:
    """Whether it is a parent's `__init__` under a private name, and runs to its end."""
    # Its statements can be read in place of the call only if they name the object alike.
    takes_it = m.Parameters(params=[m.Param(name=m.Name(receiver)), m.ZeroOrMore()])
    is_init = method.node.name.startswith(_KEPT)
    function = method.function
    return is_init and m.matches(function.params, takes_it) and not m.findall(function, m.Return())


def _built(node: cst.CSTNode, receiver: str) -> str:
    """n of `self.n = Class(...)`, by the way names of classes are written; "" for all others."""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Call(func=func)):
            pass
        case cst.AnnAssign(target=target, value=cst.Call(func=func)):
            pass
        case _:
            return ""
    parts = cst.Module([]).code_for_node(func).split(".")
    is_class = parts[-1].lstrip("_")[:1].isupper() and all(map(str.isidentifier, parts))
    match target:
        case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value=name)) if is_class:
            return name if owner == receiver else ""
    return ""


def _last_built(
    statements: Sequence[tuple[int, cst.CSTNode]], name: str, receiver: str
) -> int | None:
    """The index of the last statement that names the attribute, if it builds a value for it."""
    for index in reversed(range(len(statements))):
        node = statements[index][1]
        if _built(node, receiver) == name:
            return index
        if m.findall(node, m.Attribute(attr=m.Name(name))):
            return None
    return None


def _may_read(node: cst.CSTNode, name: str, receiver: str) -> bool:
    """Whether `node` reads the attribute, or hands the object to code that might."""
    itself = m.Name(receiver)
    attribute = m.Attribute(value=itself, attr=m.Name(name))
    stored = m.AssignTarget(attribute) | m.AnnAssign(target=attribute)

    def count(pattern: m.BaseMatcherNode) -> int:
        return len(m.findall(node, pattern))

    if count(itself) > count(m.Attribute(value=itself)):  # it is handed on
        return True
    if count(attribute) > count(stored):
        return True
    # A method of its own may read any attribute.
    return count(m.Call(func=m.Attribute(value=itself, attr=~_HARMLESS))) > 0


METHOD_RULES: tuple[Callable[[Method, Source], Iterator[Problem]], ...] = (
    does_as_its_parent,
    throws_away,
    repeats_its_parent,
)

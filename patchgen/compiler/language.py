"""The language of modular files: what they, parts and merged classes may contain.

`docs/language.md` shows each form by an example.  What is not on that page is refused with PG100,
before anything is planned or merged, with the place and what to write instead:

    for size in SIZES:                  PG100 `for size in SIZES:` at the top level of a file
        TABLE[size] = make(size)

    class LlamaMLP(llama.LlamaMLP):
        if FAST:                        PG100 `if FAST:` in the body of LlamaMLP
            def forward(self, x): ...

What acts at import is carried as it stands, in its order: conditions, registration, a name that is
bound again.  What may change a class or call the file's own functions is refused.  Of transformers'
own files, only merged classes are looked at.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.facts.decorators import RULES
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, Import, ModuleIndex, imports_of, list_run
from patchgen.syntax.bound import ScopeNode, bound_names, outer_expressions, own_nodes
from patchgen.syntax.errors import Problem
from patchgen.syntax.exports import is_list_of_strings
from patchgen.syntax.reads import is_private
from patchgen.syntax.text import parse, require_compilable
from patchgen.syntax.trees import (
    Function,
    called_function,
    find_class,
    list_arguments,
    list_parameters,
    list_suites,
    position_of,
    short_name,
    walk,
    walk_all,
)

# What is wrong: its line, its column in bytes, what it is, and what to write instead.
Finding = tuple[int, int, str, str]

_ASSIGN = (
    "assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}; "
    "what acts when it is imported belongs into a module of its own"
)
_IN_CLASS = "write the attribute out in the class, or override the whole method"
_NAME_IT = "name what is needed: a table of classes for globals(), an argument for __file__"
_KEEP = "keep the value in an object that is changed, such as a dictionary"

# What these do with a class, no subclass inherits.
_HARMLESS = re.compile(
    r"register\w*|append|add|add_\w+|extend|insert|update|setdefault|print|warn\w*"
)
_CLASS_LIKE = re.compile(r"_*[A-Z]\w*[a-z]\w*")
_NAMESPACES = frozenset({"globals", "locals", "vars", "dir"})
_OF_THE_FILE = frozenset(
    {"__file__", "__spec__", "__loader__", "__cached__", "__path__", "__package__", "__doc__"}
)
# These give what they make a name, which may be another one in the flat file.
_TAKES_A_NAME = frozenset({"get_logger", "getLogger", "custom_op", "triton_op", "Library"})
_ODD_INDENTATION = re.compile(r"[ \t\f]*[\t\f] *\S| *\\$")
_WITHOUT = "write a class that does without it"
_HOOKS = frozenset({"__init_subclass__", "__set_name__", "__class_getitem__"})
_READ_BY_PYTHON = frozenset(
    {"__getattribute__", "__slots__", "__doc__", "__module__", "__qualname__"}
)
_DOTTED = ast.Name | ast.Attribute
_METACLASSES = frozenset({"ABCMeta", "abc.ABCMeta", "type"})
# Code that sees which classes an object has, or which names a class.
_LOOKS_AT_CLASSES = frozenset(
    "__base__ __bases__ __mro__ __orig_bases__ __qualname__ __subclasses__ co_name co_qualname"
    " getdoc getmembers getmembers_static getmro mro".split()
)
_IS_CLASS = re.compile(r"cls|_*[A-Z]\w*|type\(.*\)|.*__class__")
_MAKES_OTHER_CLASSES = re.compile(r"enum\.\w+|typing\w*\.(NamedTuple|Protocol|TypedDict)")


def check_file(index: ModuleIndex, is_carried: Callable[[Import], bool]) -> tuple[Problem, ...]:
    """What is not on the page; `is_carried`: the flat file has a copy of what an import brings."""
    # A file that is no Python has a message of its own.
    require_compilable(index.source)
    problems = [*check_statements(index, is_carried), *check_code(index, is_carried)]
    return tuple(_report(index, 1, finding) for finding in dict.fromkeys(problems))


def check_classes(
    chain: Sequence[tuple[ModuleIndex, str]], outside: Iterable[str], decorators: frozenset[str]
) -> Iterator[Problem]:
    """What classes that are merged, the nearest first, have that is not on the page.

    `outside` are the bases of these classes that are not merged; `decorators` are those that the
    project's configuration knows, beside transformers' own.
    """
    for place, (index, name) in enumerate(chain):
        block = index.definition(name)
        # The plan refuses a base that is no class statement.
        if block is None or block.kind != "class":
            continue
        problems = list(check_class(block.text, name, place > 0, decorators))
        if place > 0 and not index.source.module.startswith(f"{MODELS}."):
            node = find_class(block.text, name)
            if node:
                problems += _check_calls(index, node, is_parent=True)
        if place == 0:
            for base in outside:
                if _MAKES_OTHER_CLASSES.fullmatch(base):
                    what = f"{name} is merged, and its base {base} makes something of class bodies"
                    problems.append((1, 0, what, "write out all that the class has"))
        for finding in problems:
            yield _report(index, block.first, finding)


def check_shared(
    index: ModuleIndex, name: str, heirs: Sequence[tuple[ModuleIndex, str]]
) -> Iterator[Problem]:
    """Objects that class `name` makes once and the classes it is merged into, `heirs`, would share.

    transformers' own lists and tables are never changed.
    """
    block = index.definition(name)
    if len(heirs) < 2 or block is None or index.source.module.startswith(f"{MODELS}."):
        return
    for statement in getattr(find_class(block.text, name), "body", []):
        names = bound_names([statement])
        values = [getattr(statement, "value", None)]
        if isinstance(statement, ScopeNode):
            values = list(outer_expressions(statement))
        elif not any(re.search(rf"\.{attribute}(?:\[|\.)", block.text) for attribute in names):
            continue  # a list that no method fills, such as `_no_split_modules`
        for value in values:
            if isinstance(value, ast.Dict | ast.List | ast.Set):
                (_, first), (heir_index, heir), *_ = heirs
                heir_block = heir_index.definition(heir)
                what = f"{heir} and {first} share `{ast.unparse(value)[:40]}` of {name}"
                finding = (1, 0, what, "write the attribute out in each class")
                yield _report(heir_index, heir_block.first if heir_block else 1, finding)


def _report(index: ModuleIndex, first: int, finding: Finding) -> Problem:
    """The problem of a finding in a text that begins on line `first` of its file."""
    line, column, what, hint = finding
    at = index.source.at(first + line - 1, column)
    return Problem(at, "PG100", f"{what}: this is not in the language of modular files", hint)


def _quote(lines: Sequence[str], node: ast.stmt) -> str:
    return f"`{lines[node.lineno - 1].strip()[:60]}`"


def _find(node: ast.stmt | ast.expr | ast.keyword, what: str, hint: str) -> Finding:
    return node.lineno, node.col_offset, what, hint


# The top level of a file


def check_statements(index: ModuleIndex, is_carried: Callable[[Import], bool]) -> Iterator[Finding]:
    """Statements that may not stand at the top level of a file, and names that two of them bind."""
    body = list_run(parse(index.source))
    yield from _Suite(index, is_carried).check(body, guarded=False)
    for before, node in itertools.pairwise(body):
        if node.lineno == before.end_lineno:
            yield _find(node, "two statements on one line", "give each a line of its own")
    for name in index.names:
        first, *others = index.binders(name)
        again = [block for block in others if not _import_alike(first, block, name)]
        if again and not _may_bind_again(index, name, is_carried):
            hint = "bind it once; import what it takes the place of under another name"
            what = f"{name} is bound here and on line {first.first}"
            line = again[0].first
            yield line, 0, what, hint


def _may_bind_again(index: ModuleIndex, name: str, is_carried: Callable[[Import], bool]) -> bool:
    """Whether several statements that bind `name` do in the flat file what they do in theirs.

    A class is known by its name, and what is imported may be carried, or go to the top.
    """
    binders = index.binders(name)
    if any(block.kind == "class" for block in binders) or name == "__all__":
        return False
    if binders[-1].kind == "import":
        return not index.is_read_between(name)
    for block in binders:
        if any(item.bound == name and is_carried(item) for item in block.imports):
            return False
    return True


def _import_alike(first: Block, second: Block, name: str) -> bool:
    """Whether two statements only import one thing as `name`, or packages below it."""
    if not first.imports or not second.imports:
        return False
    items = [item for item in (*first.imports, *second.imports) if item.bound == name]
    brought = {(item.module, item.level, item.name) for item in items}
    return len(brought) == 1 or all(item.binds_package for item in items)


@dataclass(frozen=True)
class _Suite:
    """Checks the statements of a file, and those under a condition."""

    index: ModuleIndex
    is_carried: Callable[[Import], bool]

    def check(self, body: Iterable[ast.stmt], *, guarded: bool) -> Iterator[Finding]:
        """What may not stand in `body`."""
        for node in body:
            hint = _ASSIGN
            match node:
                case ast.Import() | ast.ImportFrom() | ast.AnnAssign(target=ast.Name()):
                    continue
                case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                    continue
                case ast.Raise() if guarded:
                    continue
                case ast.FunctionDef(name="__getattr__" | "__dir__"):
                    hint = "define or import each name"
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    yield from self._check_definition(node)
                    if not (guarded and self._is_modular and isinstance(node, ast.ClassDef)):
                        continue
                    hint = "define it at the top level of the file"
                case ast.Assign(targets=[ast.Name(id="__all__")]):
                    if is_list_of_strings(ast.unparse(node)):
                        continue
                    hint = "write a list of strings"
                case ast.Assign(targets=targets):
                    if all(map(self._is_plain_target, targets)):
                        continue
                case ast.If() | ast.Try():
                    for suite in list_suites(node):
                        yield from self.check(suite, guarded=True)
                    continue
                case ast.Expr(value=ast.Call() as call) if self._acts_outside(call):
                    continue
            # `type Size = int`, which Python 3.11 does not know.
            if type(node).__name__ != "TypeAlias":
                where = "under a condition" if guarded else "at the top level of a file"
                yield _find(node, f"{_quote(self.index.source.lines, node)} {where}", hint)

    @property
    def _is_modular(self) -> bool:
        return self.index.source.module.rpartition(".")[2].startswith("modular_")

    def _check_definition(self, node: Function | ast.ClassDef) -> Iterator[Finding]:
        for decorator in map(called_function, node.decorator_list):
            # What it does with the definition is not followed.
            if isinstance(decorator, ast.Name) and self.index.definition(decorator.id):
                what = f"the decorator {decorator.id}, which the project defines"
                yield _find(decorator, what, "write out what it does")
        if isinstance(node, ast.ClassDef) and not self._is_modular:
            yield from _check_calls(self.index, node, is_parent=False)

    def _is_plain_target(self, target: ast.expr) -> bool:
        """Whether an assignment binds a name, or fills a table that the file binds or imports.

        Of a class, an item or an attribute may be its parent's too.
        """
        match target:
            case ast.Name():
                return True
            case ast.Tuple(elts=parts):  # `flash, pad = None, None`
                return all(map(self._is_plain_target, parts))
            case ast.Subscript(value=ast.Name(id=name)):
                return self._binds_no_class(name)
            case ast.Subscript(value=ast.Attribute() as table):  # `os.environ["FAST"] = "1"`
                root = _find_root(table)
                item = self.index.imported(root.id) if isinstance(root, ast.Name) else None
                return item is not None and not item.name and not self.is_carried(item)
        return False

    def _binds_no_class(self, name: str) -> bool:
        """Whether the file binds or imports `name`, and not by a class statement."""
        blocks = self.index.blocks_that_bind(name)
        return bool(blocks) and all(block.kind != "class" for block in blocks)

    def _acts_outside(self, call: ast.Call) -> bool:
        """Whether a call changes no class, and is none of a function that the flat file carries.

        `AutoModel.register(Config, Model)`, `LAYERS.append(Norm)`, `operator.register_fake(shape)`
        """
        function = call.func
        root = _find_root(call.func)
        if not isinstance(root, ast.Name) or root.id in ("setattr", "delattr"):
            return False
        name = root.id
        given = list_arguments(call)
        if isinstance(function, ast.Attribute):
            name, given = function.attr, [function.value, *given]
        else:
            item = self.index.imported(root.id)
            if self.index.definition(root.id) or (item and self.is_carried(item)):
                return False
        return _HARMLESS.fullmatch(name) is not None or not self._names_class(given)

    def _names_class(self, given: Iterable[ast.expr]) -> bool:
        """Whether the name of a class stands in one of the expressions."""
        for part in walk_all(given):
            if not isinstance(part, _DOTTED):
                continue
            word = part.id if isinstance(part, ast.Name) else part.attr
            definition = self.index.definition(word)
            if _CLASS_LIKE.fullmatch(word) or (definition and definition.kind == "class"):
                return True
        return False


def _find_root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


# Code that depends on the file that it stands in


def check_code(index: ModuleIndex, is_carried: Callable[[Import], bool]) -> Iterator[Finding]:
    """Imports and code, at any depth, that depend on files, and odd indentation."""
    tree = ast.Module(list_run(parse(index.source)), [])
    top = set(map(id, tree.body))
    imported = {item.bound for item in index.imports}
    reads: set[tuple[int, int]] = set()
    for block in index.blocks:
        for read in block.references:
            if read.name in imported:
                reads.add((block.first + read.line - 1, read.column))
    inside, harmless = _find_functions(tree)
    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="exec" | "eval" as name)):
                yield _find(node, f"{name}(), whose text would have other names", _NAME_IT)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _NAMESPACES:
                # In a function, all but `globals()` give the names of the function.
                if name == "globals" or id(node) not in inside:
                    yield _find(node, f"{name}(), which has the names of its file", _NAME_IT)
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                yield _find(node, "sys.modules", _NAME_IT)
            case ast.Name(id=name) if name in _OF_THE_FILE:
                yield _find(node, f"{name}, which is another one in the flat file", _NAME_IT)
            case ast.Name(id="__name__") if id(node) not in harmless:
                what = "__name__, where it names no logger and no operator"
                yield _find(node, what, "write the name as a string")
            case ast.Global(names=names) if not all(
                _is_own_value(index, n, is_carried) for n in names
            ):
                yield _find(node, f"global {', '.join(names)}", _KEEP)
            case ast.Assign(value=ast.Name(id="super")) | ast.Attribute(attr="super"):
                yield _find(node, "super under another name", "write super().method(...)")
            case ast.FunctionDef(name=name) if name in _HOOKS:
                yield _find(node, f"{name}, which Python calls for classes", _WITHOUT)
            case ast.Attribute(attr=name) if name in _LOOKS_AT_CLASSES:
                yield _find(node, f"{name}, by which code sees other classes", _WITHOUT)
            case (
                ast.Attribute(value=owner, attr="__dict__")
                | ast.Call(func=ast.Name(id="vars" | "dir"), args=[owner])
            ) if _IS_CLASS.fullmatch(ast.unparse(owner)) or ast.unparse(node).startswith("dir("):
                what = f"{ast.unparse(node)}, which sees other names where classes are merged"
                yield _find(node, what, _WITHOUT)
            case ast.Import() | ast.ImportFrom():
                for item in imports_of([node]):
                    if (item.module, item.name) == ("__future__", "annotations"):
                        yield from _check_annotations(tree)
                    elif item.module == "__future__":
                        yield _find(node, "a __future__ import", "leave it out")
                    elif item.name == "*":
                        yield _find(node, "a star import", "import each name")
                    elif id(node) not in top and is_carried(item):
                        what = f"{item.bound}, which the flat file has its own of, is imported here"
                        yield _find(node, what, "import it at the top level, without a condition")
            case ast.Attribute(ctx=ast.Store() | ast.Del()) if id(node) in inside:
                if position_of(_find_root(node)) in reads:
                    what = f"{ast.unparse(node)} is set, which is not this file's own"
                    yield _find(node, what, _KEEP)
    yield from _check_private_names(index.source.text, tree)
    yield from _check_indentation(index, tree)


def _is_own_value(index: ModuleIndex, name: str, is_carried: Callable[[Import], bool]) -> bool:
    """Whether `name` is a variable of the file that a function may set: the flat file's too."""
    binders = index.binders(name)
    for block in binders:
        if block.kind in ("class", "def"):
            return False
    for block in binders:
        if any(item.bound == name and is_carried(item) for item in block.imports):
            return False
    return bool(binders)


def _find_functions(tree: ast.Module) -> tuple[set[int], set[int]]:
    """The nodes inside functions, and the arguments that may be `__name__`."""
    inside: set[int] = set()
    harmless: set[int] = set()
    for node in walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if id(node) not in inside:
                inside.update(map(id, walk_all(node.body)))
            case ast.Lambda(body=value):
                inside.update(map(id, walk(value)))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                if name in _TAKES_A_NAME:
                    harmless.update(map(id, walk_all(args)))
    return inside, harmless


def _check_annotations(tree: ast.Module) -> Iterator[Finding]:
    """The annotations that cannot be evaluated where they stand, as the output does.

    from __future__ import annotations

    class TinyMLP(nn.Module):
        def copied(self) -> TinyMLP: ...        no such name yet: `-> "TinyMLP"`
    """
    bound = {*dir(builtins)}
    for statement in tree.body:
        for annotation in _find_annotations(statement):
            for node in walk(annotation):
                is_unbound = isinstance(node, ast.Name) and node.id not in bound
                operands = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
                # `"Tensor" | None` adds a string to None.
                if is_unbound or any(
                    isinstance(part, ast.Constant) and part.value for part in operands
                ):
                    what = f"the annotation {ast.unparse(annotation)}, which the output evaluates"
                    yield _find(annotation, what, "quote it as a whole")
                    break
        # What a condition binds may not be there.
        if not isinstance(statement, ast.If | ast.Try):
            bound.update(bound_names([statement]))


def _find_annotations(node: ast.stmt) -> Iterator[ast.expr]:
    """The annotations in a statement that Python evaluates when it gets there."""
    match node:
        case (
            ast.FunctionDef(args=args, returns=returns)
            | ast.AsyncFunctionDef(args=args, returns=returns)
        ):
            for parameter in list_parameters(args):
                if parameter.annotation is not None:
                    yield parameter.annotation
            if returns is not None:
                yield returns
        case ast.AnnAssign(annotation=annotation):
            yield annotation
        case ast.ClassDef(body=body):
            for member in body:
                yield from _find_annotations(member)


def _check_indentation(index: ModuleIndex, tree: ast.Module) -> Iterator[Finding]:
    """Lines that are indented by tabs or form feeds, or begin with a backslash."""
    in_strings: set[int] = set()
    for node in walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            start = node.lineno + 1
            end = node.end_lineno or 0
            in_strings.update(range(start, end + 1))
    for number, line in enumerate(index.source.lines, start=1):
        if number not in in_strings and _ODD_INDENTATION.match(line.rstrip("\n")):
            yield number, 0, "a line that is not indented by spaces", "indent it by spaces"


# The classes that are merged


@functools.lru_cache(maxsize=4096)  # a parent is asked for by each variant of it
def check_class(
    text: str, name: str, is_parent: bool, decorators: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """What may not stand in the class `name` of `text` where it is merged."""
    node = find_class(text, name)
    assert node is not None
    return (
        *_check_head(node, decorators),
        *_check_body(text, node, is_parent=is_parent),
        *_check_supers(text, node),
        *_check_private_names(text, node),
    )


def _check_calls(index: ModuleIndex, node: ast.ClassDef, *, is_parent: bool) -> Iterator[Finding]:
    """Calls of what its file defines in a class body, which do something when the class is made.

    What a function or a method does is not followed.  Of a parent, a merged class also makes the
    objects anew, and decorates the methods again.
    """
    for statement in node.body:
        if isinstance(statement, ScopeNode) and not is_parent:
            continue
        run = outer_expressions(statement) if isinstance(statement, ScopeNode) else [statement]
        called: list[ast.expr] = list(getattr(statement, "decorator_list", []))
        called += [part for part in own_nodes(run) if isinstance(part, ast.Call)]
        for part in called:
            function = called_function(part)
            root = _find_root(function)
            definition = index.definition(root.id) if isinstance(root, ast.Name) else None
            makes_object = (
                isinstance(function, ast.Name) and definition and definition.kind == "class"
            )
            if definition is not None and (is_parent or not makes_object):
                what = f"a call of {definition.name} in the body of {node.name}"
                yield _find(part, what, "write out what it gives")


def _check_head(node: ast.ClassDef, decorators: frozenset[str]) -> Iterator[Finding]:
    for decorator in node.decorator_list:
        short = short_name(decorator)
        if short not in RULES and short not in decorators:
            hint = "name it under `decorators` in the configuration, or leave it out"
            yield _find(decorator, f"the decorator {short} of a class that is merged", hint)
        written = ast.unparse(decorator)
        if "slots" in written or "kw_only" in written:
            yield _find(decorator, written, "use it without that option")
    if getattr(node, "type_params", []):
        yield node.lineno, node.col_offset, "type parameters", "derive from typing.Generic"
    for base in node.bases:
        is_generic = ast.unparse(base).partition("[")[0].endswith("Generic")
        if not isinstance(base, ast.Name | ast.Attribute) and not is_generic:
            yield _find(base, f"the base {ast.unparse(base)}", "derive from a class by its name")
    for keyword in node.keywords:
        if keyword.arg != "metaclass" or ast.unparse(keyword.value) not in _METACLASSES:
            written = f"{keyword.arg}=" if keyword.arg else "**"
            what = f"{written}{ast.unparse(keyword.value)} in the class statement of {node.name}"
            yield _find(keyword, what, "write out all that the class has")


def _check_body(text: str, node: ast.ClassDef, *, is_parent: bool) -> Iterator[Finding]:
    lines = text.split("\n")
    bound: set[str] = set()
    for statement in node.body:
        names: list[str] = []
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                spelled = map(ast.unparse, statement.decorator_list)
                further = {decorator.rpartition(".")[2] for decorator in spelled}
                if not further & {"setter", "getter", "deleter", "overload"}:
                    names = [name]
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                names = [name] if value is not None else []
            case ast.Assign(targets=targets) if all(map(_is_of_names, targets)):
                names = list(bound_names(targets))
            case _:
                what = f"{_quote(lines, statement)} in the body of {node.name}"
                yield _find(statement, what, _IN_CLASS)
        for name in names:
            if name in bound:
                yield _find(statement, f"{node.name}.{name} is defined twice", "keep one of them")
            if name in _READ_BY_PYTHON or (is_parent and name in _HOOKS):
                what = f"{name} in the body of {node.name}, which Python reads"
                yield _find(statement, what, _WITHOUT)
        bound.update(names)
        run = outer_expressions(statement) if isinstance(statement, ScopeNode) else [statement]
        for part in own_nodes(run):
            if isinstance(part, ast.NamedExpr):
                yield _find(part, f"`:=` in the body of {node.name}", _IN_CLASS)


def _is_of_names(target: ast.expr) -> bool:
    """Whether a target is a name, or several: `low, high = -7.0, 7.0`."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(part, ast.Name) for part in parts)


def _check_supers(text: str, node: ast.ClassDef) -> Iterator[Finding]:
    """What reads the class that code is written in, other than by `super().method`."""
    # The search spares the walk of many classes.
    if "super" not in text and "__class__" not in text:
        return
    followed: set[int] = set()
    known = {node.name, *map(ast.unparse, node.bases)}
    for part in walk(node):
        match part:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super") as called)):
                followed.add(id(called))
            case ast.Call(func=ast.Name(id="super"), args=[owner, *_]):
                # `super(LlamaMLP, self)` may name the class itself, or a base of it.
                if ast.unparse(owner) not in known:
                    hint = "write super(), or Parent.method(self, ...)"
                    yield _find(part, ast.unparse(part), hint)
            case ast.Name(id="super") if id(part) not in followed:
                hint = "call a method of it at once: super().method(...)"
                yield _find(part, "super is stored or passed", hint)
            case ast.Name(id="__class__"):
                yield _find(part, "__class__ is read", "write type(self), or the class's name")


def _check_private_names(text: str, node: ast.AST) -> Iterator[Finding]:
    """Names that Python mangles with the name of the class that they are written in."""
    if not any(map(is_private, re.findall(r"\b__\w+", text))):
        return
    # A parameter is mangled everywhere alike.
    parameters = {part.arg for part in walk(node) if isinstance(part, ast.arg)}
    for part in walk(node):
        match part:
            case (
                ast.Name(id=name)
                | ast.Attribute(attr=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ) if is_private(name) and name not in parameters:
                what = f"{name}, which Python mangles with the name of its class"
                yield _find(part, what, "give it one underscore")

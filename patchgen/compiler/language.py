"""The language of modular files: what they, parts and merged classes may contain.

`docs/language.md` shows each form by an example.  What is not on that page is refused with PG100,
before anything is planned or merged, with the place and what to write instead:

    for size in SIZES:                  PG100 `for` at the top level of a file
        TABLE[size] = make(size)

    class LlamaMLP(llama.LlamaMLP):
        if FAST:                        PG100 `if` in the body of LlamaMLP
            def forward(self, x): ...

Three kinds of file are told apart: modular files; parts and the user's parents, which may also
fill tables and register operators; and transformers' own files, of which only the classes that are
merged are looked at.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.decorators import RULES
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.exports import is_list_of_strings
from patchgen.syntax.reads import is_private
from patchgen.syntax.text import parse
from patchgen.syntax.trees import called_function, find_class, parse_once, position_of, walk

# What is wrong: its line, its column in bytes, what it is, and what to write instead.
Finding = tuple[int, int, str, str]

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_METHODS = ast.FunctionDef | ast.AsyncFunctionDef
_IMPORTS = ast.Import | ast.ImportFrom
_NAMESPACES = frozenset({"globals", "locals", "vars", "dir"})
_OF_THE_FILE = frozenset(
    {"__file__", "__spec__", "__loader__", "__cached__", "__path__", "__package__", "__doc__"}
)
_MAY_FAIL = frozenset({"ImportError", "ModuleNotFoundError"})
_AVAILABLE = re.compile(r"is_\w+_available")
_HOOKS = frozenset({"__init_subclass__", "__set_name__", "__class_getitem__"})
_READ_BY_PYTHON = frozenset({"__slots__", "__doc__", "__module__", "__qualname__"})
_METACLASSES = frozenset({"ABCMeta", "abc.ABCMeta", "type"})
# They make something else of a class body than a class with these attributes.
_MAKERS = frozenset({"enum", "typing", "typing_extensions"})
_TYPING = frozenset({"NamedTuple", "Protocol", "TypedDict"})
# A tab, a form feed, or a backslash alone, where a line is indented.
_ODD_INDENTATION = re.compile(r" *(?:[\t\f]|\\$)")

_WRITE_OUT = "write the value out, or compute it in a function that is called when it is needed"
_IN_CLASS = "write the attribute out in the class, or override the whole method"
_AT_TOP = "import it at the top level of the file, without a condition"
_NAME_IT = "name what is needed: a table of classes for globals(), an argument for __file__"
_STATEMENTS: dict[type[ast.AST], str] = {
    ast.If: "`if`",
    ast.For: "`for`",
    ast.While: "`while`",
    ast.With: "`with`",
    ast.Try: "`try`",
    ast.TryStar: "`try`",
    ast.Match: "`match`",
    ast.Delete: "`del`",
    ast.Global: "`global`",
    ast.Assert: "`assert`",
    ast.Raise: "`raise`",
    ast.AugAssign: "an assignment that adds to a value",
    ast.Expr: "an expression",
    ast.ClassDef: "a class",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
}


def check_file(index: ModuleIndex, bindings: Bindings) -> tuple[Problem, ...]:
    """What a modular file, a part or a parent of the user's has that is not on the page.

    transformers' own files pass: what they have is on the page.
    """
    module = index.source.module
    if module.startswith(f"{MODELS}."):
        return ()
    is_modular = module.rpartition(".")[2].startswith("modular_")
    found = [
        *check_top_level(index, is_modular=is_modular),
        *_check_names(index),
        *_check_code(index),
        *_check_stores(index),
        *_check_imports(index, bindings),
        *_check_indentation(index),
    ]
    return tuple(_report(index, 1, finding) for finding in dict.fromkeys(found))


def check_classes(
    chain: Sequence[tuple[ModuleIndex, Symbol]],
    outside: Iterable[Symbol],
    decorators: Collection[str] = (),
) -> Iterator[Problem]:
    """What classes that are merged, the nearest first, have that is not on the page.

    `outside` are the bases of these classes that are not merged; `decorators` are those that the
    project's configuration knows, beside transformers' own.
    """
    known = frozenset(decorators)
    for place, (index, symbol) in enumerate(chain):
        block = index.definition(symbol.name)
        if block is None or block.kind != "class":
            continue  # the plan refuses such a base
        for finding in check_class(block.text, symbol.name, place > 0, known):
            yield _report(index, block.first, finding)
    index, symbol = chain[0]
    block = index.definition(symbol.name)
    for base in outside:
        is_maker = base.module == "enum" or base.name in _TYPING
        if block is not None and base.module in _MAKERS and is_maker:
            what = f"{symbol.name} is merged, and has the base {base}, which reads class bodies"
            hint = "write the class out, with all that it has"
            yield Problem(index.source.at(block.first), "PG100", _say(what), hint)


def _report(index: ModuleIndex, first: int, finding: Finding) -> Problem:
    """The problem of a finding in a text that begins on line `first` of its file."""
    line, column, what, hint = finding
    at: Location = index.source.at(first + line - 1, column)
    return Problem(at, "PG100", _say(what), hint)


def _say(what: str) -> str:
    return f"{what}: this is not in the language of modular files"


def _find(node: ast.AST, what: str, hint: str) -> Finding:
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0), what, hint


# The top level of a file


def check_top_level(index: ModuleIndex, *, is_modular: bool) -> Iterator[Finding]:
    """The statements that may not stand at the top level of a file."""
    above: set[str] = set()
    for block in index.blocks:
        statements = parse_once(block.text).body
        found = list(_check_statements(statements, above, is_modular=is_modular))
        if len(statements) > 1:
            what = "several statements on one line"
            found.append(_find(statements[1], what, "write each on a line of its own"))
        for line, column, what, hint in found:
            yield block.first + line - 1, column, what, hint
        above.update(block.defines)


def _check_statements(
    statements: Iterable[ast.stmt], above: Collection[str], *, is_modular: bool, guard: str = ""
) -> Iterator[Finding]:
    """The statements of a file, or of the body of a `guard` in it, that may not stand there."""
    for node in statements:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                continue
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.FunctionDef(name="__getattr__" | "__dir__"):
                yield _find(node, f"{node.name} of a module", "define or import each name")
                continue
            case (
                ast.Assign(targets=[ast.Name(id="__all__")])
                | ast.AnnAssign(target=ast.Name(id="__all__"))
            ) if not is_list_of_strings(ast.unparse(node)):
                yield _find(node, "an `__all__` that is computed", "write a list of strings")
                continue
            case ast.Raise() if guard:
                continue
            case ast.Assign() | ast.AnnAssign() if _is_allowed_store(node, is_modular=is_modular):
                if not (guard and is_modular) or isinstance(node.value, ast.Constant):
                    continue
            case ast.If() | ast.Try() if _is_guard(node):
                bodies = [node.body, node.orelse, *_list_handlers(node)]
                for body in bodies:
                    yield from _check_statements(body, above, is_modular=is_modular, guard="`if`")
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not (guard and is_modular):
                    continue
            case ast.Expr(value=ast.Call(func=ast.Attribute() as called)) if not is_modular:
                if _first_name(called) in above:
                    continue
            case _ if type(node).__name__ == "TypeAlias":
                continue
        yield _refuse_statement(node, guard)


def _refuse_statement(node: ast.stmt, guard: str) -> Finding:
    """What is wrong with a statement at the top level of a file."""
    where = "under a condition" if guard else "at the top level of a file"
    if isinstance(node, ast.If | ast.Try):
        hint = (
            "a file may choose between imports: `if TYPE_CHECKING:`, `if is_x_available():` "
            "or `try: ... except ImportError:`"
        )
        return _find(node, f"{_STATEMENTS[type(node)]} {where}", hint)
    if isinstance(node, _DEFINITIONS):
        return _find(node, f"{node.name} is defined {where}", "define it at the top level")
    if isinstance(node, ast.Assign | ast.AnnAssign):
        what = (
            "a name gets a computed value" if guard else "an item, an attribute or a tuple is set"
        )
        hint = "assign to a plain name; extend a table by `TABLE = {**parent.TABLE, ...}`"
        return _find(node, f"{what} {where}", hint)
    what = _STATEMENTS.get(type(node), "this statement")
    return _find(node, f"{what} {where}", _WRITE_OUT)


def _is_allowed_store(node: ast.Assign | ast.AnnAssign, *, is_modular: bool) -> bool:
    """Whether an assignment binds plain names, or fills a table of a parent's file."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    may_be = ast.Name if is_modular else ast.Name | ast.Subscript | ast.Attribute
    return all(isinstance(target, may_be) for target in targets)


def _is_guard(node: ast.If | ast.Try) -> bool:
    """Whether a statement chooses by what is installed, or is for type checkers."""
    if isinstance(node, ast.Try):
        caught = [handler.type for handler in node.handlers]
        names = [
            ast.unparse(name)
            for kind in caught
            if kind is not None
            for name in (kind.elts if isinstance(kind, ast.Tuple) else [kind])
        ]
        return None not in caught and set(names) <= _MAY_FAIL and not node.finalbody
    test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    match test:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "TYPE_CHECKING"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _AVAILABLE.fullmatch(name) is not None
        case _:
            return False


def _list_handlers(node: ast.If | ast.Try) -> list[list[ast.stmt]]:
    return [handler.body for handler in node.handlers] if isinstance(node, ast.Try) else []


def _first_name(node: ast.expr) -> str:
    """The name `a` of `a.b.c`; "" where it begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _check_names(index: ModuleIndex) -> Iterator[Finding]:
    """Names that two statements of a file bind: which of them counts depends on the order."""
    first: dict[str, Block] = {}
    for block in index.blocks:
        if block.is_for_types:
            continue
        for name in dict.fromkeys(block.defines):
            before = first.setdefault(name, block)
            # `import torch.nn` and `import torch.utils` bind one name to one thing.
            same_import = block.kind == before.kind == "import" and _meanings(block, name) == (
                _meanings(before, name)
            )
            if before is not block and not same_import:
                what = f"{name} is bound here and on line {before.first}"
                yield block.first, 0, what, "bind it once, or under two names"


def _meanings(block: Block, name: str) -> set[tuple[str, int, str]]:
    items = [item for item in block.imports if item.bound == name]
    return {
        (name, 0, "") if item.binds_package else (item.module, item.level, item.name)
        for item in items
    }


# Code that depends on the file that it stands in


def _check_code(index: ModuleIndex) -> Iterator[Finding]:
    """Code, at any depth, that reads or changes the names of its own file."""
    tree = parse(index.source)
    named: set[int] = set()
    scoped: set[int] = set()
    for node in walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                body = node.body if isinstance(node.body, list) else [node.body]
                scoped |= {id(inner) for part in body for inner in walk(part)}
            # The name of a logger or of an operator may be another one.
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if "ogger" in name or name in ("custom_op", "triton_op", "Library"):
                    named |= {id(inner) for part in node.args for inner in walk(part)}
    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="exec" | "eval" as name)):
                yield _find(node, f"{name}(), whose text would mean other names", _NAME_IT)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _NAMESPACES:
                # In a function, all but `globals()` give the names of the function.
                if name == "globals" or id(node) not in scoped:
                    yield _find(node, f"{name}(), which has the names of its file", _NAME_IT)
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                yield _find(node, "sys.modules", _NAME_IT)
            case ast.Name(id=name) if name in _OF_THE_FILE:
                yield _find(node, f"{name}, which is another one in the flat file", _NAME_IT)
            case ast.Name(id="__name__") if id(node) not in named:
                what = "__name__, where it names no logger and no operator"
                yield _find(node, what, "write the name as a string")
            case ast.Global(names=names):
                hint = "keep the value in an object that is changed, such as a dictionary"
                yield _find(node, f"global {', '.join(names)}", hint)


def _check_stores(index: ModuleIndex) -> Iterator[Finding]:
    """Functions and classes that set an attribute of what the file imports: `toy.SCALE = 3`."""
    imported = {item.bound for item in index.imports}
    for block in index.blocks:
        if block.kind not in ("def", "class"):
            continue
        names = {read.position for read in block.references if read.name in imported}
        for node in walk(parse_once(block.text)):
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
                continue
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if position_of(root) in names:
                what = f"{ast.unparse(node)} is set, an attribute of what the file imports"
                hint = "keep the value in an object of this file's own, or in the configuration"
                yield block.first + node.lineno - 1, node.col_offset, what, hint


def _check_imports(index: ModuleIndex, bindings: Bindings) -> Iterator[Finding]:
    """Imports whose names are not known, or which would bring what the flat file has itself."""
    tree = parse(index.source)
    for node in walk(tree):
        if not isinstance(node, _IMPORTS):
            continue
        names = [alias.name for alias in node.names]
        if "*" in names:
            yield _find(node, "a star import", "import each name")
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield _find(node, "a __future__ import", "quote the annotation that needs it")
            continue
        if node in tree.body:
            continue
        at = index.source.at_node(node)
        for name in names:
            symbol = Symbol(name, "")
            if isinstance(node, ast.ImportFrom):
                target = bindings.absolute(index, node.module or "", node.level, at)
                symbol = bindings.canonical(Symbol(target, name), at)
            if bindings.flatten_scope.flattens(symbol.module) and bindings.env.path(symbol.module):
                what = f"{symbol} is imported inside a statement, and the flat file has it itself"
                yield _find(node, what, _AT_TOP)


def _check_indentation(index: ModuleIndex) -> Iterator[Finding]:
    """Lines that are indented by tabs or form feeds, or begin with a backslash."""
    text = index.source.text
    if not any(character in text for character in "\t\f\\"):
        return
    inside: set[int] = set()
    for node in walk(parse(index.source)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            inside.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    for number, line in enumerate(index.source.lines, start=1):
        if number not in inside and _ODD_INDENTATION.match(line.rstrip("\n")):
            yield number, 0, "indentation by other characters than spaces", "indent by spaces"


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
        *_check_body(node, is_parent=is_parent),
        *_check_methods(text, node),
    )


def _check_head(node: ast.ClassDef, decorators: frozenset[str]) -> Iterator[Finding]:
    """The decorators, bases and keywords of a class statement."""
    for decorator in node.decorator_list:
        short = ast.unparse(called_function(decorator)).rpartition(".")[2]
        if short not in RULES and short not in decorators:
            hint = "call it below the class, or name it in the `decorators` of the configuration"
            yield _find(decorator, f"the decorator {short} of a class that is merged", hint)
    for base in node.bases:
        is_generic = isinstance(base, ast.Subscript) and ast.unparse(base.value).endswith("Generic")
        if not isinstance(base, ast.Name | ast.Attribute) and not is_generic:
            yield _find(base, f"the base {ast.unparse(base)}", "derive from a class by its name")
    for keyword in node.keywords:
        if keyword.arg != "metaclass" or ast.unparse(keyword.value) not in _METACLASSES:
            what = f"the keyword {keyword.arg or '**'} of the class statement {node.name}"
            yield _find(keyword, what, "write the class without it")


def _check_body(node: ast.ClassDef, *, is_parent: bool) -> Iterator[Finding]:
    """The statements of a class body."""
    bound: set[str] = set()
    for statement in node.body:
        names: list[str] = []
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [] if _adds_to_a_method(statement) else [name]
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                names = [name] if value is not None else []
            case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.Assign() | ast.AnnAssign():
                what = f"the body of {node.name} sets an item, an attribute or a tuple"
                yield _find(statement, what, _IN_CLASS)
            case _:
                what = _STATEMENTS.get(type(statement), "this statement")
                yield _find(statement, f"{what} in the body of {node.name}", _IN_CLASS)
        for name in names:
            if name in bound:
                yield _find(statement, f"{node.name}.{name} is defined twice", "keep one of them")
            if name in _READ_BY_PYTHON or (is_parent and name in _HOOKS):
                what = f"{name} in the body of {node.name}, which Python reads"
                yield _find(statement, what, "write a class of your own that does not have it")
        bound.update(names)


def _adds_to_a_method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a further part of a member: `@size.setter`, or one of its overloads."""
    for decorator in node.decorator_list:
        if ast.unparse(decorator).rpartition(".")[2] in ("setter", "getter", "deleter", "overload"):
            return True
    return False


def _check_methods(text: str, node: ast.ClassDef) -> Iterator[Finding]:
    """Code in a class that depends on the class that it is written in."""
    # The searches spare the walk of nearly every class.
    searched = ("super", "__class__", ":=")
    if not any(word in text for word in searched) and not re.search(r"\b__\w+[^\W_]\b", text):
        return
    followed: set[int] = set()
    inner: set[int] = set()
    # Python mangles a parameter too, everywhere alike.
    parameters = {part.arg for part in walk(node) if isinstance(part, ast.arg)}
    for part in walk(node):
        if isinstance(part, ast.Attribute):
            followed.add(id(part.value))
        if isinstance(part, _METHODS):
            inner |= {id(below) for statement in part.body for below in walk(statement)}
        if isinstance(part, ast.Call) and id(part) in followed:
            followed.add(id(part.func))
    for part in walk(node):
        match part:
            case ast.Call(func=ast.Name(id="super"), args=[_, *_]):
                yield _find(part, ast.unparse(part), "write super(), or Parent.method(self, ...)")
            case ast.Name(id="super") if id(part) not in followed:
                hint = "call a method of it at once: super().method(...)"
                yield _find(part, "super is stored or passed", hint)
            case ast.Name(id="__class__"):
                yield _find(part, "__class__ is read", "write type(self), or the class's name")
            case ast.NamedExpr() if id(part) not in inner:
                yield _find(part, f"`:=` in the body of {node.name}", _IN_CLASS)
            case (
                ast.Name(id=name)
                | ast.Attribute(attr=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ) if is_private(name) and name not in parameters:
                what = f"{name}, which Python mangles with the name of its class"
                yield _find(part, what, "give it one underscore")

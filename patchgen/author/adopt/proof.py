"""Flatten a declaration, and compare the output with the fork."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.read import with_plain_super
from patchgen.author.align.file import Definition, File, plain_definition, read_file
from patchgen.author.modular_text import flatten_text, output_name
from patchgen.compiler.settings import Settings
from patchgen.syntax.bound import bound_by, bound_names, names_in
from patchgen.syntax.errors import Problem
from patchgen.syntax.same import is_documenting, plain_text
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Function, names_within

_IMPORTING = ast.Import | ast.ImportFrom | ast.Pass | ast.If | ast.Try
_DOCUMENTATION = re.compile(r"DOCSTRING|_FOR_DOC$|_ARCHIVE_|^_EXPECTED|^_CHECKPOINT")


def has_changes(forked: ForkedModel) -> bool:
    """Whether a fork does anything else than its parent.

    Documentation, the order of members and what it leaves out do nothing.
    """
    return forked.renames or bool(forked.alone or differing(forked) or own_statements(forked))


def differing(forked: ForkedModel) -> list[str]:
    """The classes and functions of the fork that are not the parent's, apart from documentation."""
    return [
        name
        for name, mine in forked.fork.definitions.items()
        if mine.kind in ("class", "def")
        # The converter puts heads on the file's own model, and will again.
        if name not in forked.pairs
        or plain_definition(forked.parent.definitions[name])
        not in (plain_definition(mine), plain_definition(without_written(mine)))
    ]


def own_statements(forked: ForkedModel) -> list[ast.stmt]:
    """The statements at the top level that the parent does not have, but for documentation.

    They are neither imports nor classes nor functions.
    """
    read = _read_by_code(forked.fork)
    # What follows the parent has its statements; a model of its own has those that it reads.
    followed = [
        node
        for node in forked.parent.tree.body
        if forked.follows or not (names := {*bound_names([node])}) or names & read
    ]
    # Where only some classes have other names, what says one of those is not the parent's.
    renamed = {new for new, name in forked.pairs.items() if new != name} - forked.alone
    if not any(forked.pairs.get(name) == name for name in forked.fork.classes):
        renamed = set()
    theirs = {plain_text(node) for node in followed if not renamed & names_in([node])}
    # The converter gives constants no other names.
    constants = {
        name
        for name, old in forked.pairs.items()
        if name != old and forked.fork.definitions[name].kind == "assign"
    }
    theirs -= {plain_text(n) for n in followed if constants & {*bound_names([n])}}
    return [node for node in _statements(forked.fork, read) if plain_text(node) not in theirs]


def _statements(fork: File, read: set[str]) -> list[ast.stmt]:
    """The statements of `fork` at the top level that are neither definitions nor documentation."""
    statements = []
    for node in fork.tree.body:
        names = set(bound_names([node]))
        if isinstance(node, ast.ClassDef | Function | ast.Import | ast.ImportFrom | ast.Pass):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        imports = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
        imported = {bound_by(alias) for n in imports for alias in n.names}
        # What is imported and read by nobody is no statement of its own.
        if imported and not (names - imported or names & read):
            continue
        # A constant for decorators that document is a text or a list of such.
        named = {reference.name for reference in fork.reads}
        documents = {n for n in names - read if n in named or _DOCUMENTATION.search(n)}
        if "__all__" not in names and not (names and names <= documents):
            statements.append(node)
    return statements


def _read_by_code(file: File) -> set[str]:
    """The names that something reads beside documenting decorators."""
    names: set[str] = set()
    stack: list[ast.AST] = [file.tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        decorators = getattr(node, "decorator_list", ())
        stack += [
            child
            for child in ast.iter_child_nodes(node)
            if not (child in decorators and isinstance(child, ast.expr) and is_documenting(child))
        ]
    return names


@dataclass(frozen=True)
class Proof:
    """The result of flattening a declaration.

    The output, or why there is none, and what of the fork is not in it.

    `strict` are definitions that are equal as trees with all that documents; `differ` and `missing`
    are not equal.  `heads` were put on the file's own model.  `lost` are statements at the top
    level that the fork added and the output does not run, `left` those of the parent that bind no
    name and that a new model does not repeat, and imports that it makes under another condition.
    """

    output: str
    problems: tuple[Problem, ...]
    strict: frozenset[str] = frozenset()
    differ: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    lost: tuple[ast.stmt, ...] = ()
    left: tuple[ast.stmt, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every definition of the fork is in the output, and every statement it added."""
        return bool(self.output) and not (self.differ or self.missing or self.lost)


def prove(
    text: str, forked: ForkedModel, name: str, root: Path | None, settings: Settings
) -> Proof:
    """Flatten the declaration `text` of `forked` as the file `name`."""
    files, problems = flatten_text(text, name, root, settings)
    output = files.pop(output_name(name), "")
    if problems:
        return Proof("", problems)
    plain = "\n".join(plain_text(node) for node in ast.parse(output).body)
    # Of a parent with another prefix, what nobody reads does not come along by itself.
    every = _statements(forked.fork, _read_by_code(forked.fork))
    constants = [node for node in every if isinstance(node, ast.Assign | ast.AnnAssign)]
    wanted = dict.fromkeys([*own_statements(forked), *constants])
    lost = [node for node in wanted if not _is_made(node, forked.fork, plain)]
    # The output may import the same under another condition, that of the parent.
    imported = {*_imports_in(ast.parse(output))}
    left: list[ast.stmt] = [
        node
        for node in lost
        if isinstance(node, ast.If | ast.Try) and {*_imports_in(node)} <= imported
        if all(isinstance(n, _IMPORTING) for n in ast.walk(node) if isinstance(n, ast.stmt))
    ]
    lost = [node for node in lost if node not in left]
    acting = [node for node in every if node not in wanted and not {*bound_names([node])}]
    acting += forked.fork.left
    left += [node for node in acting if not _is_made(node, forked.fork, plain)]
    # A configuration that the fork has beside its model gets a file of its own.
    compared = compare(output, forked.fork, "\n".join(files.values()))
    return replace(compared, lost=tuple(lost), left=tuple(left))


def _imports_in(tree: ast.AST) -> Iterator[str]:
    """The imports in `tree`, at any depth: each with the module, the name, and what it binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{'.' * getattr(node, 'level', 0)}{getattr(node, 'module', '') or ''}"
            yield from (f"{module} {alias.name} {bound_by(alias)}" for alias in node.names)


def _is_made(node: ast.stmt, fork: File, plain: str) -> bool:
    """Whether the output has a statement; what it has of other models may have another name."""
    text = re.escape(plain_text(node))
    for name in {inner.id for inner in names_within(node)}:
        source = fork.imports[name][0] if name in fork.imports else None
        if isinstance(source, ast.ImportFrom) and (source.module or "").startswith("transformers."):
            text = text.replace(re.escape(f"N:{name};"), r"N:\w+;")
    return re.search(f"^{text}$", plain, re.MULTILINE) is not None


def compare(output: str, fork: File, beside: str = "") -> Proof:
    """Compare the fork's classes and functions with `output`, and with what stands `beside` it."""
    results, there, others = (
        {name: d for name, d in definitions.items() if d.kind in ("class", "def")}
        for definitions in (
            read_file(make_source(with_plain_super(output), "output.py")).definitions,
            fork.definitions,
            read_file(make_source(beside, "beside.py")).definitions,
        )
    )
    results |= {name: d for name, d in others.items() if name in there and name not in results}
    both = {name: (results[name], d) for name, d in there.items() if name in results}
    placed, same = set[str](), set[str]()
    for name, (mine, theirs) in both.items():
        members = theirs.members if theirs.kind == "class" else {}
        text = plain_definition(without_written(mine, members))
        wanted = plain_definition(theirs)
        is_built = text != wanted and _with_auto_models(text) == _with_auto_models(wanted)
        if is_built or text == wanted:
            same.add(name)
        if is_built or (is_placed(mine) and "__init__" not in members):
            placed.add(name)
    texts = {name: [[*map(ast.dump, d.nodes)] for d in pair] for name, pair in both.items()}
    return Proof(
        output,
        (),
        strict=frozenset(name for name, (mine, theirs) in texts.items() if mine == theirs),
        differ=tuple(name for name in both if name not in same),
        missing=tuple(name for name in there if name not in results),
        # The converter writes a decorator of this name.
        more=tuple(name for name in results if name not in there and name != "auto_docstring"),
        heads=tuple(sorted(placed & same)),
    )


def _with_auto_models(text: str) -> str:
    """A plain text in which AutoModel builds the parts of a model.

    The converter names the model of the output where AutoModel would build transformers' own.
    """
    return re.sub(r"N:\w+;\.(?:_from_config|from_config);", "AutoModel;", text)


def is_placed(definition: Definition) -> bool:
    """Whether a class is a general head of transformers, put on this file's own model.

    The converter does so wherever that model differs: with the fork's class they would be heads of
    transformers' own.
    """
    init = definition.members.get("__init__") if definition.kind == "class" else None
    method = init.method if init is not None else None
    return method is not None and ast.unparse(method.body[0]).startswith("super(GenericFor")


def without_written(definition: Definition, kept: Container[str] = ()) -> Definition:
    """A class as transformers has it, without the methods that the converter writes.

    These are the `__init__` of a head that it put on the file's own model, and `is_custom_code`;
    those that are `kept` stay.
    """
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        return definition
    written = {"is_custom_code", *(["__init__"] if is_placed(definition) else [])}
    written -= {name for name in written if name in kept}
    body = [member for member in node.body if getattr(member, "name", "") not in written]
    if len(body) == len(node.body):
        return definition
    bare = copy.copy(node)
    bare.body = body or [ast.Pass()]
    return Definition(definition.name, "class", (bare,))

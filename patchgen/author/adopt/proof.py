"""Flatten a declaration, and compare the output with the fork."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.forked import ForkedModel, read_by_code
from patchgen.author.adopt.read import with_plain_super
from patchgen.author.align.file import Definition, File, imported_names, plain_definition, read_file
from patchgen.author.modular_text import flatten_text, output_name
from patchgen.compiler.settings import Settings
from patchgen.syntax.bound import bound_by, bound_names, names_in
from patchgen.syntax.errors import Problem
from patchgen.syntax.same import plain_text, plain_texts
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
    names = []
    for name, mine in forked.fork.classes_and_functions.items():
        if name in forked.pairs:
            theirs = plain_definition(forked.parent.definitions[name])
            # The converter puts heads on the file's own model, and will again.
            if theirs in (plain_definition(mine), plain_definition(without_written(mine))):
                continue
        names.append(name)
    return names


def own_statements(forked: ForkedModel) -> list[ast.stmt]:
    """The statements at the top level that the parent does not have, but for documentation.

    They are neither imports nor classes nor functions.
    """
    fork = forked.fork
    renamed = {new for new, old in forked.pairs.items() if new != old}
    # The converter gives constants no other names.
    constants = {name for name in renamed if fork.definitions[name].kind == "assign"}
    # Where only some classes have other names, what says one of those is not the parent's.
    foreign: set[str] = set()
    same = forked.pairs.keys() - renamed
    if not same.isdisjoint(fork.classes):
        foreign = renamed - forked.alone
    read = read_by_code(fork)
    theirs: set[str] = set()
    for node in forked.parent.tree.body:
        bound = {*bound_names([node])}
        # What follows the parent has its statements; a model of its own has those that it reads.
        is_read = not bound or not bound.isdisjoint(read)
        if not is_read and not forked.follows:
            continue
        is_foreign = not foreign.isdisjoint(names_in([node]))
        if bound.isdisjoint(constants) and not is_foreign:
            theirs.add(plain_text(node))
    statements = _statements(fork, read)
    return [node for node in statements if plain_text(node) not in theirs]


def _statements(fork: File, read: set[str]) -> list[ast.stmt]:
    """The statements of `fork` at the top level that are neither definitions nor documentation."""
    statements = []
    named = {reference.name for reference in fork.reads}
    for node in fork.tree.body:
        if isinstance(node, ast.ClassDef | Function | ast.Import | ast.ImportFrom | ast.Pass):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        names = set(bound_names([node]))
        imported = imported_names(node)
        # What is imported and read by nobody is no statement of its own.
        if imported and names <= imported - read:
            continue
        # A constant for decorators that document is a text or a list of such.
        documents = {n for n in names - read if n in named or _DOCUMENTATION.search(n)}
        if "__all__" not in names and (not names or names - documents):
            statements.append(node)
    return statements


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
    fork = forked.fork
    tree = ast.parse(output)
    plain = "\n".join(plain_texts(tree.body))
    # Of a parent with another prefix, what nobody reads does not come along by itself.
    every = _statements(fork, read_by_code(fork))
    constants = [node for node in every if isinstance(node, ast.Assign | ast.AnnAssign)]
    wanted = dict.fromkeys([*own_statements(forked), *constants])
    imported = {*_imports_in(tree)}
    lost: list[ast.stmt] = []
    left: list[ast.stmt] = []
    for node in wanted:
        if _is_made(node, fork, plain):
            continue
        # The output may import the same under another condition, that of the parent.
        if _only_imports(node) and imported.issuperset(_imports_in(node)):
            left.append(node)
        else:
            lost.append(node)
    lost += _find_misplaced(fork, tree)
    acting = [node for node in every if node not in wanted and not {*bound_names([node])}]
    left += [node for node in (*acting, *fork.left) if not _is_made(node, fork, plain)]
    # A configuration that the fork has beside its model gets a file of its own.
    compared = compare(output, fork, "\n".join(files.values()))
    return replace(compared, lost=tuple(lost), left=tuple(left))


def _find_misplaced(fork: File, output: ast.Module) -> list[ast.stmt]:
    """The statements of the fork that bind a name in another order than those of the output.

    FAST = False, then `try: from fast import act; FAST = True`
    """
    theirs = _binders(output)
    misplaced: dict[ast.stmt, None] = {}
    for name, nodes in _binders(fork.tree).items():
        made = dict.fromkeys(map(plain_text, theirs.get(name, ())))
        wanted = {plain_text(node): node for node in nodes}
        order = [text for text in wanted if text in made]
        if order != [text for text in made if text in wanted]:
            misplaced.update(dict.fromkeys(nodes))
    return list(misplaced)


def _binders(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """The statements at the top level that bind each name."""
    binders: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in dict.fromkeys(bound_names([node])):
            binders.setdefault(name, []).append(node)
    return binders


def _only_imports(node: ast.stmt) -> bool:
    """Whether a statement imports under a condition, and does nothing else."""
    statements = [inner for inner in ast.walk(node) if isinstance(inner, ast.stmt)]
    is_condition = isinstance(node, ast.If | ast.Try)
    return is_condition and all(isinstance(inner, _IMPORTING) for inner in statements)


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
    made = read_file(make_source(with_plain_super(output), "output.py")).classes_and_functions
    others = read_file(make_source(beside, "beside.py")).classes_and_functions
    there = fork.classes_and_functions
    strict: set[str] = set()
    differ: list[str] = []
    missing: list[str] = []
    heads: list[str] = []
    for name, theirs in there.items():
        mine = made.get(name) or others.get(name)
        if mine is None:
            missing.append(name)
            continue
        members = theirs.members if theirs.kind == "class" else {}
        text = plain_definition(without_written(mine, members))
        wanted = plain_definition(theirs)
        is_built = text != wanted and _with_auto_models(text) == _with_auto_models(wanted)
        if text != wanted and not is_built:
            differ.append(name)
        elif is_built or (is_placed(mine) and "__init__" not in members):
            heads.append(name)
        if [*map(ast.dump, mine.nodes)] == [*map(ast.dump, theirs.nodes)]:
            strict.add(name)
    # The converter writes a decorator of this name.
    more = [name for name in made if name not in there and name != "auto_docstring"]
    return Proof(
        output,
        (),
        strict=frozenset(strict),
        differ=tuple(differ),
        missing=tuple(missing),
        more=tuple(more),
        heads=tuple(sorted(heads)),
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

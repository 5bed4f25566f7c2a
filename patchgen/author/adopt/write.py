"""Write the declaration of a fork in the fork's order, with imports and header."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.adopt.classes import DeclaredDefinition, Doubts, declare_class
from patchgen.author.adopt.fit import homes
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.proof import without_written
from patchgen.author.adopt.words import Names, Words
from patchgen.author.align.file import Definition, File, plain_definition
from patchgen.compiler.plan.bindings import KEPT
from patchgen.syntax.same import is_documenting, plain_text

# The words of patchgen.edits, and how each is used.
_EDIT_WORDS = {
    "edit": "",
    **{word: rf"\n +with {word}:\n" for word in ("new", "old", "before", "after")},
    **{word: rf": {word}\b" for word in ("New", "Old")},
}


@dataclass(frozen=True)
class Declaration:
    """A modular file: its text, not yet formatted, and the declaration of each definition."""

    text: str
    definitions: tuple[DeclaredDefinition, ...]


def declare(forked: ForkedModel, doubts: Doubts) -> Declaration:
    """The declaration of a fork; whatever is in doubt is written in full."""
    declared = _declared(forked, doubts)
    while True:
        names = Names(
            forked.parent,
            forked.fork,
            forked.alias,
            forked.pairs,
            frozenset(declared),
            forked.mixins,
            forked.borrowed,
        )
        words = Words(names)
        parts = [_part(forked, forked.fork.definitions[name], words, doubts) for name in declared]
        bare = {node.lineno: words.statements([node], 0) for node in doubts.statements}
        lacking = [n for n in _lacking(forked, words) if n not in declared]
        lacking = lacking or _beside_guarded(forked, declared) or _anchor(forked, parts)
        if not lacking:
            return Declaration(_text(forked, parts, bare, words), tuple(parts))
        order = list(forked.fork.definitions)
        declared = sorted({*declared, *lacking}, key=order.index)


def differing(forked: ForkedModel) -> list[str]:
    """The definitions of the fork that are not the parent's."""
    read = _read_by_code(forked.fork)
    return [
        name
        for name, definition in forked.fork.definitions.items()
        if definition.kind in ("class", "def")
        and name not in forked.borrowed
        and not _is_of_parent(forked, definition)
        or definition.kind == "assign"
        and name in read
        and not _is_of_parent(forked, definition)
    ]


def _is_of_parent(forked: ForkedModel, definition: Definition) -> bool:
    """Whether a definition is the parent's, apart from documentation."""
    if definition.name not in forked.pairs:
        return False
    # The converter puts heads on the file's own model, and will again.
    theirs = plain_definition(forked.parent.definitions[definition.name])
    return theirs in (plain_definition(definition), plain_definition(without_written(definition)))


def _declared(forked: ForkedModel, doubts: Doubts) -> list[str]:
    """What differs from the parent, and what has to be named for the rest to come along."""
    fork = forked.fork
    found = [*differing(forked), *forked.mixins, *doubts.definitions]
    paired = [name for name in fork.classes if name in forked.pairs]
    if forked.renames:
        # Nothing of the fork would bring along a class that no other class names.
        used: set[str] = set()
        for definition in fork.definitions.values():
            if definition.kind == "class":
                used |= set(_reads(definition))
        found += [name for name in paired if name not in used]
    # Without a class that has a parent, the file would have no parent.
    if not any(fork.definitions[name].kind == "class" and name in paired for name in found):
        found += paired[-1:]
    order = list(fork.definitions)
    return sorted(set(found), key=order.index)


def _beside_guarded(forked: ForkedModel, declared: Sequence[str]) -> list[str]:
    """What the fork defines of a parent's guarded import of which it declares a name.

    The converter replaces such a statement as a whole, or not at all.
    """
    guarded = forked.parent.guarded
    replaced = {guarded[name] for name in declared if name in guarded}
    return [
        name
        for name in forked.fork.definitions
        if name not in declared and name in guarded and guarded[name] in replaced
    ]


def _anchor(forked: ForkedModel, parts: Iterable[DeclaredDefinition]) -> list[str]:
    """A class that derives from the parent's, where none does.

    It says whose variant the file is.
    """
    declared = {part.name for part in parts}
    if any(part.state in ("edited", "named") for part in parts):
        return []
    return [name for name in forked.fork.classes if name in forked.pairs and name not in declared][
        -1:
    ]


def _reads(definition: Definition) -> set[str]:
    nodes = [inner for node in definition.nodes for inner in ast.walk(node)]
    return {n.id for n in nodes if isinstance(n, ast.Name)} - {definition.name}


def _read_by_code(file: File) -> set[str]:
    """The names that something reads beside documenting decorators."""
    found: set[str] = set()
    stack: list[ast.AST] = [file.tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        stack += [
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.expr) and _documents(node, child))
        ]
    return found


def _documents(node: ast.AST, decorator: ast.expr) -> bool:
    """Whether `decorator` is one of `node`, and nothing but documentation."""
    return decorator in getattr(node, "decorator_list", ()) and is_documenting(decorator)


def _lacking(forked: ForkedModel, words: Words) -> Iterable[str]:
    """What the declared code reads and neither file nor parent has: the fork's own definitions."""
    for name in words.read:
        definition = forked.fork.definitions.get(name)
        known = name in forked.pairs or name in forked.borrowed
        if definition is not None and definition.kind != "other" and not known:
            yield name


def _part(
    forked: ForkedModel, definition: Definition, words: Words, doubts: Doubts
) -> DeclaredDefinition:
    old = (
        forked.parent.definitions.get(definition.name) if definition.name in forked.pairs else None
    )
    if definition.kind == "class":
        return declare_class(definition, old, words, doubts)
    lines = [line for node in definition.nodes for line in words.statements([node], 0)]
    return DeclaredDefinition(definition.name, "new" if old is None else "replaced", tuple(lines))


def _text(
    forked: ForkedModel,
    parts: Iterable[DeclaredDefinition],
    bare: Mapping[int, Sequence[str]],
    words: Words,
) -> str:
    package, _, module = forked.module.rpartition(".")
    own = f"from {package} import {module}" + (
        f" as {forked.alias}" if forked.alias != module else ""
    )
    places = {forked.fork.definitions[part.name].nodes[0].lineno: part.lines for part in parts}
    ordered = [lines for _, lines in sorted({**places, **bare}.items())]
    body = "\n\n\n".join("\n".join(lines).rstrip() for lines in ordered)
    guards = _guards(forked, words)
    imports = [*_imports(forked, words), own]
    if "@edit(" in body:
        used = [word for word, pattern in _EDIT_WORDS.items() if re.search(pattern, body)]
        imports.append(f"from patchgen.edits import {', '.join(used)}")
    below = "\n\n".join(["\n".join(imports), *guards])
    return f'{_header(forked)}"""{forked.title}"""\n\n{below}\n\n\n{body}\n'


def _guards(forked: ForkedModel, words: Words) -> list[str]:
    """The imports and constants under `if` and `try` that the declared code reads.

    The fork's come first, then the parent's.
    """
    fork, parent = forked.fork, forked.parent
    texts: dict[ast.stmt, str] = {}
    waiting = sorted(words.read)
    while waiting:
        before = set(words.read)
        for name in waiting:
            for node in _guards_of(name, fork, words):
                texts[node] = texts.get(node) or "\n".join(words.statements([node], 0))
            theirs = _guard_of_parent(name, words.names)
            if theirs is not None:
                texts[theirs] = texts.get(theirs) or words.parent_code(theirs)
        waiting = sorted(words.read - before)
    needed = [node for node in (*fork.tree.body, *parent.tree.body) if node in texts]
    return [texts[node] for node in needed]


def _guards_of(name: str, fork: File, words: Words) -> list[ast.stmt]:
    if words.names.of_fork(name) != name or name in fork.imports:
        return []
    definition = fork.definitions.get(name)
    if definition is not None:
        return list(definition.nodes) if definition.kind == "other" else []
    guard, theirs = fork.guarded.get(name), words.names.parent.guarded.get(name)
    if guard is None or (
        not words.names.renames and theirs is not None and plain_text(guard) == plain_text(theirs)
    ):
        return []
    return [guard]


def _guard_of_parent(name: str, names: Names) -> ast.stmt | None:
    """The parent's guarded import of a name that a new model reads and does not import.

    A fork has such names from `from transformers.models.llama.modeling_llama import *`.
    """
    fork, parent = names.fork, names.parent
    bound = name in fork.definitions or name in fork.imports or name in fork.guarded
    if not names.renames or bound or name in parent.imports:
        return None
    return parent.guarded.get(name)


def _header(forked: ForkedModel) -> str:
    """The comments at the top of the fork: its licence, its authors, where it came from."""
    found: list[str] = []
    for line in forked.fork.source.lines:
        if not line.startswith("#") and line.strip():
            break
        found.append(line)
    while found and not found[-1].strip():
        found.pop()
    return "".join(found) + "\n" if found else ""


def _imports(forked: ForkedModel, words: Words) -> list[str]:
    """The fork's imports of what the declared code reads, and all of its own package."""
    lines: list[str] = []
    used = {reference.name for reference in forked.fork.reads}
    own = {
        name
        for name, (node, _) in forked.fork.imports.items()
        if getattr(node, "level", 0) in (1, 2) and name in used
    }
    for name in sorted(words.read | own):
        if words.names.of_fork(name) != name:
            continue
        if name in forked.borrowed and name not in words.names.declared:
            lines.append(f"from {forked.borrowed[name]} import {name}")
        elif name in forked.fork.imports:
            node, alias = forked.fork.imports[name]
            lines.append(_import(node, alias, *_module_of(node, forked)))
        elif name in forked.parent.imports and name not in {
            *forked.fork.guarded,
            *forked.fork.definitions,
        }:
            node, alias = forked.parent.imports[name]
            lines.append(_import(node, alias, _absolute(node, forked), ""))
    lines += [f"from {module} import {name}" for name, module in homes(forked).items()]
    return list(dict.fromkeys(lines))


def _import(node: ast.Import | ast.ImportFrom, alias: ast.alias, module: str, mark: str) -> str:
    """The import of one name."""
    said_as = f" as {alias.asname}" if alias.asname else ""
    if isinstance(node, ast.ImportFrom):
        return f"from {module} import {alias.name}{said_as}{mark}"
    return f"import {alias.name}{said_as}"


def _module_of(node: ast.Import | ast.ImportFrom, forked: ForkedModel) -> tuple[str, str]:
    """The module that a fork imports from, and the mark of one of its own package.

    Three dots lead to the top of transformers: such a fork was copied inside it.
    """
    if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
        return "." * node.level + (node.module or ""), f"  {KEPT}"
    return _absolute(node, forked), ""


def _absolute(node: ast.Import | ast.ImportFrom, forked: ForkedModel) -> str:
    """The module that an import names, as seen from the parent's."""
    if isinstance(node, ast.Import):
        return ""
    above = forked.module.split(".")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])

"""Port the files of one repository: rewrite each text, then see to its names."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
import libcst.matchers as m

from patchgen.author.align.file import imported_names
from patchgen.rescuing.classes import CONFIGS, Classes, with_lines
from patchgen.rescuing.names import Copied, Names, Resolver, absolute, is_there
from patchgen.rescuing.rewrite import Note, rewrite
from patchgen.rescuing.sources import PACKAGE, Module, Sources, imports_of, source_of
from patchgen.syntax.same import plain_text
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import names_within

# Methods by the class that calls them, each with its module.
_Methods = dict[str, list[tuple[Module, ast.FunctionDef]]]
TUPLES = re.compile(r"\bpast_key_value\[0\]")
UPDATED = re.compile(r"DynamicCache|(?:past|cache)\w*\.update\(")
DOCUMENTED = m.IndentedBlock(
    [m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())]), m.AtLeastN(n=1)]
)


@dataclass
class Ported:
    """One file: its new text, and what was done."""

    text: str
    notes: list[Note] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    copied: list[tuple[str, str]] = field(default_factory=list)


def port(
    texts: Mapping[str, str], old: Sources, new: Sources, settings: Mapping[str, Any] | None = None
) -> dict[str, Ported]:
    """The files by name, ported; `settings` are those of config.json."""
    pending = dict(texts)
    ported = {}
    while pending:
        everything = {**texts, **pending}
        file, text = pending.popitem()
        names = Names()
        resolver = Resolver(old, new, _clean)
        resolver.defaults = _lost_defaults("\n".join(everything.values()), old, settings or {})
        ported[file] = _port(text, everything, resolver, names)
        for module in names.configurations:
            target = module.rpartition(".")[2] + ".py"
            read = old.module(module)
            if read is not None and target not in ported and target not in pending:
                pending[target] = read.text
    return ported


def _port(text: str, texts: Mapping[str, str], resolver: Resolver, names: Names) -> Ported:
    classes = Classes(files={*texts})
    for part in texts.values():
        classes.read(cst.parse_module(part))
    knows_caches = "cache_utils" in text or "DynamicCache" in text
    # A file may know of caches, and keep tuples in its layers all the same.
    has_tuples = bool(TUPLES.search(text)) and not UPDATED.search(text)
    keeps_tuples = has_tuples or not knows_caches
    changed, notes = rewrite(text, classes, keeps_tuples=keeps_tuples)
    bound = Module("", changed, False).bindings
    defined = set(bound)
    resolver.own_code = {name: plain_text(node) for name, node in bound.items()}
    module = cst.parse_module(changed)
    if resolver.defaults:
        lost = ", ".join(resolver.defaults)
        members = "\n".join(resolver.defaults)
        for name in sorted(defined & classes.bases.keys()):
            # A configuration that derives from one of transformers.
            is_derived = not CONFIGS.isdisjoint(classes.bases[name])
            if is_derived and classes.is_config(name):
                module = _with_members(module, name, members, first=True)
                note = Note(0, name, f"configurations lost: {lost}")
                names.notes.append(note)
    text = _with_imports(module.code, resolver, names, defined)
    tree = ast.parse(text)
    bound_names = defined | imported_names(tree)
    resolver.need(names, tree, bound_names)
    for copied in [*names.copied.values()]:
        resolver.need(names, ast.parse(copied.text), defined)
    text = _assembled(text, names, resolver.old)
    text = _with_lost_methods(text, resolver, names)
    copies = []
    for copied in names.copied.values():
        copies.append((copied.name, copied.module))
    return Ported(text, [*notes, *names.notes], names.left, copies)


def _with_lost_methods(text: str, resolver: Resolver, names: Names) -> str:
    """The text whose models have again what their base classes have lost."""
    module = cst.parse_module(text)
    classes = Classes()
    classes.read(module)
    more = Names()
    tree = ast.parse(text)
    old = resolver.old
    defined = {*Module("", text, False).bindings, *imported_names(tree)}
    for owner, methods in _lost_methods(classes, tree, old).items():
        for source, method in methods:
            added = _clean(absolute(source, _dedented(source, method)))
            module = _with_members(module, owner, added)
            why = f"copied from {source.name} of {old.version}"
            names.notes.append(Note(0, f"{owner}.{method.name}", why))
            resolver.follow(more, source, ast.parse(added), defined)
    for name in classes.bases:  # a copied head did not know its model when it was copied
        line = classes.tied_line(name) if classes.is_model(name) else None
        if line is not None and "_tied_weights_keys" not in classes.values[name]:
            module = _with_members(module, name, line, first=True)
    names.copied |= more.copied
    names.left += more.left
    return _assembled(module.code, more, old)


def _clean(text: str) -> str:
    """A copied definition, rewritten, without its docstrings."""

    def rest(node: cst.CSTNode, _: object) -> cst.CSTNode:
        return node.with_changes(body=cst.ensure_type(node, cst.IndentedBlock).body[1:])

    changed = m.replace(cst.parse_module(text), DOCUMENTED, rest)
    tree = cst.ensure_type(changed, cst.Module)
    classes = Classes()
    classes.read(tree)
    rewritten, _ = rewrite(tree.code, classes, keeps_tuples="Cache" not in text, is_copy=True)
    return rewritten


def _dedented(module: Module, node: ast.FunctionDef) -> str:
    """A method of a base class, which finds others of that class by `self`."""
    return textwrap.dedent(module.source(node)).replace("ModuleUtilsMixin.", "self.")


def _lost_methods(classes: Classes, tree: ast.Module, old: Sources) -> _Methods:
    """By class of the file: methods of its base classes that it calls and that are gone."""
    from transformers import GenerationMixin, PreTrainedModel

    usual = [*dir(PreTrainedModel), *dir(GenerationMixin)]
    theirs = {}
    for base in ("modeling_utils.PreTrainedModel", "modeling_utils.ModuleUtilsMixin",
                 "generation.utils.GenerationMixin"):  # fmt: skip
        home, _, name = base.rpartition(".")
        base_class = old.find(f"{PACKAGE}.{home}", name)
        if base_class is not None:
            for method in getattr(base_class[1], "body", ()):
                if isinstance(method, ast.FunctionDef) and method.name not in usual:
                    theirs[method.name] = (base_class[0], method)
    lost: _Methods = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or not classes.is_model(node.name):
            continue
        ancestors = classes.ancestors(node.name)
        place = node.name  # or the ancestor that derives from a class of transformers
        for ancestor in reversed(ancestors):
            for base in classes.bases.get(ancestor, ()):
                if base.endswith("PreTrainedModel") and base not in classes.bases:
                    place = ancestor
        wanted = [_called_on_self(node)]
        for called in wanted:
            for name in sorted(called & theirs.keys()):
                has = any(name in classes.methods.get(ancestor, ()) for ancestor in ancestors)
                entries = lost.setdefault(place, [])
                if not has and theirs[name] not in entries:
                    entries.append(theirs[name])
                    wanted.append(_called_on_self(ast.parse(_dedented(*theirs[name]))))
    return lost


def _called_on_self(node: ast.AST) -> set[str]:
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return {part.attr for part in parts if ast.unparse(part.value) == "self"}


def _lost_defaults(everything: str, old: Sources, given: Mapping[str, Any]) -> list[str]:
    """What every configuration had by default, or this one has, is dropped now, and is read."""
    from transformers import GenerationConfig, PreTrainedConfig

    old_class = old.find("transformers.configuration_utils", "PretrainedConfig")
    usual = PreTrainedConfig()
    settings = GenerationConfig()
    lost: dict[str, ast.expr] = {}
    inside = ast.walk(old_class[1]) if old_class is not None else ()
    for node in inside:
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(func=ast.Attribute(attr="pop"), args=[_, default]),
            ) if isinstance(default, ast.Constant | ast.Dict):
                lost[name] = default
            # Releases from 4.54 on name them as parameters.
            case ast.FunctionDef(name="__init__", args=arguments):
                parameters = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                for argument, constant in parameters:
                    if isinstance(constant, ast.Constant):
                        lost[argument.arg] = constant
            # What `generate` takes by default; what has a value belongs to its configuration.
            case ast.Return(value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and ast.unparse(value) == "None":
                        lost.setdefault(str(key.value), value)
    if "rope_scaling" in everything:
        lost["rope_scaling"] = ast.Constant(None)
    for name, stated in given.items():
        if hasattr(settings, name) and not isinstance(stated, list | dict):
            lost[name] = ast.Constant(stated)
    lines = []
    for name, value in lost.items():
        is_read = f".{name}" in everything or name in ("tie_word_embeddings", "rope_scaling")
        if is_read and not hasattr(usual, name):
            # A setting of `generate` is written to no configuration, unless it is annotated.
            annotation = ": object" if hasattr(settings, name) else ""
            lines.append(f"{name}{annotation} = {ast.unparse(value)}")
    return lines


def _with_members(module: cst.Module, owner: str, text: str, *, first: bool = False) -> cst.Module:
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for node in module.body:
        if isinstance(node, cst.ClassDef) and node.name.value == owner:
            node = with_lines(node, text, first=first)
        body.append(node)
    return module.with_changes(body=body)


def _with_imports(text: str, resolver: Resolver, names: Names, defined: set[str]) -> str:
    """The text with each import from transformers as it has to be now."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    read = {part.id for part in names_within(tree)}
    for node in sorted(imports_of(tree), key=lambda statement: -statement.lineno):
        source = source_of(node)
        module = resolver.old.module(source)
        kept: list[str] = []
        for alias in node.names:
            bound = alias.asname or alias.name
            wanted: list[tuple[str, str]] = []
            if alias.name == "*" and module is not None:
                there = module.bindings.keys() | module.imports.keys()
                wanted = [(name, name) for name in sorted((read - defined) & there)]
            elif bound in read or is_there(source, alias.name):
                wanted = [(alias.name, bound)]
            for name, bound in wanted:
                line = None
                if module is not None and _comes_from_elsewhere(name, module):
                    line = resolver.line(names, module, name, bound, defined)
                line = line or resolver.decide(names, source, name, bound, defined)
                if line:
                    kept.append(line)
        new = "".join(f"{line}\n" for line in _joined(kept))
        if not new and node.col_offset:
            new = "pass\n"
        first = node.lineno - 1
        before = "".join(lines[first : node.end_lineno])
        is_same = ast.dump(ast.parse(before.strip())) == ast.dump(ast.parse(new))
        if not is_same:
            changed = textwrap.indent(new, " " * node.col_offset)
            lines[first : node.end_lineno] = [changed]
    return "".join(lines)


def _comes_from_elsewhere(name: str, module: Module) -> bool:
    """Whether a module of transformers has it from another package: `torch` by `import *`."""
    home, _ = module.imports.get(name, (PACKAGE, ""))
    return name not in module.bindings and home.split(".")[0] != PACKAGE


def _joined(lines: list[str]) -> list[str]:
    """One line for each module."""
    by_module: dict[str, list[str]] = defaultdict(list)
    plain = []
    for line in dict.fromkeys(lines):
        if line.startswith("from "):
            module, _, name = line.removeprefix("from ").partition(" import ")
            by_module[module].append(name)
        else:
            plain.append(line)
    return plain + [f"from {module} import {', '.join(n)}" for module, n in by_module.items()]


def _assembled(text: str, names: Names, old: Sources) -> str:
    """The text with the copied definitions after its imports."""
    end = 0
    here: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            end = node.end_lineno or 0
            start = ""
            if isinstance(node, ast.ImportFrom):
                start = f"from {'.' * node.level}{node.module or ''} "
            here.update(f"{start}import {ast.unparse(alias)}" for alias in node.names)
    block = _joined([line for line in names.imports if line not in here])
    for definition in _in_order(names.copied):
        origin = "patchgen"
        if not definition.module.startswith("patchgen."):
            licence = "by the HuggingFace team under the Apache License 2.0"
            origin = f"{definition.module} of transformers {old.version}, {licence}"
        block += ["", "", f"# Copied from {origin}", definition.text.rstrip()]
    if not block:
        return text
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:end], *(f"{line}\n" for line in block), "\n", *lines[end:]])


def _in_order(copied: Mapping[str, Copied]) -> list[Copied]:
    """The definitions, each below those that it reads at import."""
    placed: dict[str, Copied] = {}

    def put(name: str, above: tuple[str, ...]) -> None:
        tree = ast.parse(copied[name].text)
        for read in references(tree.body):
            other = read.name
            is_waiting = other in copied and other not in placed and other not in above
            if read.eager and is_waiting:
                put(other, (*above, other))
        placed.setdefault(name, copied[name])

    for name in copied:
        put(name, (name,))
    return [*placed.values()]

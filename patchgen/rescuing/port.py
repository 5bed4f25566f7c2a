"""Port the files of one repository: rewrite each text, then see to its names."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from patchgen.rescuing.names import (
    Names,
    Resolver,
    absolute,
    imports_of,
    is_there,
    source_of,
)
from patchgen.rescuing.rewrite import CONFIGS, Classes, Note, rewrite, tied_line
from patchgen.rescuing.sources import Module, Sources, without_docstrings

# Values that every configuration had without being asked.
PROPERTIES = ("use_return_dict", "output_attentions", "name_or_path", "num_labels")


LICENCE = "by the HuggingFace team under the Apache License 2.0"


@dataclass
class Ported:
    """One file: its new text, and what was done."""

    text: str
    notes: list[Note] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    copied: list[tuple[str, str]] = field(default_factory=list)


def port(texts: Mapping[str, str], old: Sources, new: Sources) -> dict[str, Ported]:
    """The files by name, ported; with those of configurations that had to be copied."""
    pending = dict(texts)
    ported: dict[str, Ported] = {}
    while pending:
        classes = Classes()
        for text in [*texts.values(), *pending.values()]:
            classes.read(cst.parse_module(text))
        everything = "\n".join([*texts.values(), *pending.values()])
        file, text = pending.popitem()
        names = Names()
        ported[file] = _port(file, text, classes, everything, old, new, names)
        for module in names.configurations:
            target = module.rpartition(".")[2] + ".py"
            if target not in ported and target not in pending:
                read = old.module(module)
                assert read is not None
                pending[target] = read.text
    return ported


def _port(
    file: str,
    text: str,
    classes: Classes,
    everything: str,
    old: Sources,
    new: Sources,
    names: Names,
) -> Ported:
    has_caches = "cache_utils" in text or "DynamicCache" in text
    tree = ast.parse(text)
    changed, notes = rewrite(text, classes, keeps_tuples=not has_caches)
    defaults = _lost_defaults(everything, old)
    resolver = Resolver(old, new, _clean)
    module = cst.parse_module(changed)
    bound = Module("", changed, False).bindings
    own = set(bound)
    resolver.own_code = {name: without_docstrings(node) for name, node in bound.items()}
    for name in classes.bases:
        if classes.is_config(name) and any(base in CONFIGS for base in classes.bases[name]):
            values = [f"{key} = {value}" for key, value in defaults.items()]
            if "rope_scaling" in everything:
                values.append("rope_scaling = None")
            members = [cst.parse_module(line).body[0] for line in values]
            if name in own:
                module = _with_members(module, name, members, first=True)
                names.notes.append(
                    (0, name, f"defaults that configurations lost: {', '.join(values)}")
                )
    changed = module.code
    tree = ast.parse(changed)
    text = _with_imports(changed, tree, resolver, names, own, old)
    resolver.need(names, ast.parse(text), own | _imported(ast.parse(text)))
    for one in [*names.copied.values()]:
        resolver.need(names, ast.parse(one.text), own)
    text = _assembled(text, names, old)
    text = _with_lost_methods(text, resolver, names, old)
    notes += [Note(*note) for note in names.notes]
    return Ported(
        text, notes, names.left, [(one.name, one.module) for one in names.copied.values()]
    )


def _with_lost_methods(text: str, resolver: Resolver, names: Names, old: Sources) -> str:
    """The text whose models have again what their base classes have lost."""
    module, classes = cst.parse_module(text), Classes()
    classes.read(module)
    more, tree = Names(), ast.parse(text)
    own = {*Module("", text, False).bindings, *_imported(tree)}
    for owner, methods in _lost_methods(classes, tree, old).items():
        for source, method in methods:
            body = cst.parse_module(_clean(absolute(source, _dedented(source, method)))).body
            module = _with_members(module, owner, body)
            why = f"copied from {source.name} of {old.version}"
            names.notes.append((0, f"{owner}.{method.name}", why))
            resolver.follow(more, source, ast.parse(cst.Module(body=list(body)).code), own)
    for name in classes.bases:  # a copied head did not know its model when it was copied
        line = tied_line(classes, name) if classes.is_model(name) else None
        if line is not None and "_tied_weights_keys" not in classes.values[name]:
            module = _with_members(module, name, [cst.parse_statement(line)], first=True)
    names.copied |= more.copied
    names.left += more.left
    return _assembled(module.code, more, old)


def _clean(text: str) -> str:
    """A copied definition, rewritten, without its docstrings."""
    tree = cst.ensure_type(cst.parse_module(text).visit(_Undocumented()), cst.Module)
    inner = Classes()
    inner.read(tree)
    return rewrite(tree.code, inner, keeps_tuples="Cache" not in text, is_copy=True)[0]


class _Undocumented(cst.CSTTransformer):
    def leave_IndentedBlock(self, old: cst.IndentedBlock, new: cst.IndentedBlock) -> cst.BaseSuite:
        first = new.body[0]
        small = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
        text = small.value if isinstance(small, cst.Expr) else None
        is_text = isinstance(text, cst.SimpleString | cst.ConcatenatedString)
        return new.with_changes(body=new.body[1:]) if is_text and len(new.body) > 1 else new


def _imported(tree: ast.Module) -> set[str]:
    found = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom | ast.Import))
    return {alias.asname or alias.name for node in found for alias in node.names}


def _dedented(module: Module, node: ast.FunctionDef) -> str:
    """A method of a base class, which finds others of that class by `self`."""
    return textwrap.dedent(module.source(node)).replace("ModuleUtilsMixin.", "self.")


def _lost_methods(
    classes: Classes, tree: ast.Module, old: Sources
) -> dict[str, list[tuple[Module, ast.FunctionDef]]]:
    """By class of the file: methods of its base classes that it calls and that are gone."""
    from transformers import GenerationMixin, PreTrainedModel

    bases = [
        found
        for module, name in (
            ("transformers.modeling_utils", "PreTrainedModel"),
            ("transformers.modeling_utils", "ModuleUtilsMixin"),
            ("transformers.generation.utils", "GenerationMixin"),
        )
        if (found := old.find(module, name)) is not None
    ]
    theirs = {
        method.name: (module, method)
        for module, node in bases
        for method in getattr(node, "body", ())
        if isinstance(method, ast.FunctionDef)
    }
    lost: dict[str, list[tuple[Module, ast.FunctionDef]]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or not classes.is_model(node.name):
            continue
        root = next(
            (
                one
                for one in classes.ancestors(node.name)
                if one in classes.bases
                and any(
                    b.endswith("PreTrainedModel") and b not in classes.bases
                    for b in classes.bases[one]
                )
            ),
            node.name,
        )
        wanted = [_called_on_self(node)]
        for called in wanted:
            for name in sorted(called):
                if hasattr(PreTrainedModel, name) or hasattr(GenerationMixin, name):
                    continue
                if name not in theirs or classes.method(node.name, name) is not None:
                    continue
                entries = lost.setdefault(root, [])
                if theirs[name] not in entries:
                    entries.append(theirs[name])
                    wanted.append(_called_on_self(ast.parse(_dedented(*theirs[name]))))
    return lost


def _called_on_self(node: ast.AST) -> set[str]:
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
    }


def _lost_defaults(everything: str, old: Sources) -> dict[str, str]:
    """What every configuration had by default, does not have now, and the files read."""
    from transformers import PreTrainedConfig

    found = old.find("transformers.configuration_utils", "PretrainedConfig")
    usual = PreTrainedConfig()
    lost: dict[str, str] = {}
    for node in ast.walk(found[1]) if found else ():
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(func=ast.Attribute(attr="pop"), args=[_, default]),
            ):
                is_read = f".{name}" in everything or name == "tie_word_embeddings"
                if (
                    is_read
                    and not hasattr(usual, name)
                    and isinstance(default, ast.Constant | ast.Dict)
                ):
                    lost[name] = ast.unparse(default)
            # What `generate` takes by default; those with a value belong to its own configuration.
            case ast.Return(value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    name = str(key.value) if isinstance(key, ast.Constant) else ""
                    is_none = isinstance(value, ast.Constant) and value.value is None
                    if is_none and f".{name}" in everything and not hasattr(usual, name):
                        lost.setdefault(name, "None")
    return lost


def _with_members(
    module: cst.Module, owner: str, members: object, *, first: bool = False
) -> cst.Module:
    body = []
    for node in module.body:
        if isinstance(node, cst.ClassDef) and node.name.value == owner:
            inner = list(node.body.body)
            at = (
                1
                if first
                and isinstance(inner[0], cst.SimpleStatementLine)
                and isinstance(inner[0].body[0], cst.Expr)
                else 0
            )
            at = at if first else len(inner)
            inner = [*inner[:at], *members, *inner[at:]]  # type: ignore[misc]
            node = node.with_changes(body=node.body.with_changes(body=inner))
        body.append(node)
    return module.with_changes(body=body)


def _with_imports(
    text: str, tree: ast.Module, resolver: Resolver, names: Names, own: set[str], old: Sources
) -> str:
    """The text with each import from transformers as it has to be now."""
    lines = text.splitlines(keepends=True)
    read = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    for node in sorted(imports_of(tree), key=lambda one: -one.lineno):
        source = source_of(node)
        kept: list[str] = []
        for alias in node.names:
            if alias.name == "*":
                module = old.module(source)
                wanted = sorted(read - own) if module else []
                for name in wanted:
                    if module and (name in module.bindings or name in module.imports):
                        kept += _line(resolver, names, source, name, name, own)
                continue
            bound = alias.asname or alias.name
            if bound not in read and not is_there(source, alias.name):
                continue
            kept += _line(resolver, names, source, alias.name, bound, own)
        indent = " " * node.col_offset
        new = "".join(f"{indent}{line}\n" for line in _joined(kept)) or f"{indent}pass\n" * bool(
            indent
        )
        before = "".join(lines[node.lineno - 1 : node.end_lineno])
        if ast.dump(ast.parse(before.strip())) != ast.dump(ast.parse(new.strip())):
            lines[node.lineno - 1 : node.end_lineno] = [new]
    return "".join(lines)


def _line(
    resolver: Resolver, names: Names, source: str, name: str, bound: str, own: set[str]
) -> list[str]:
    module = resolver.old.module(source)
    if module is not None and name not in module.bindings and name in module.imports:
        inner, original = module.imports[name]
        if not original:  # `torch` by way of `import *`
            return [f"import {inner}" + (f" as {name}" if name != inner.split(".")[0] else "")]
        if inner.split(".")[0] != "transformers":
            return [f"from {inner} import {original}" + (f" as {name}" if name != original else "")]
    line = resolver.decide(names, source, name, bound, own)
    return [line] if line else []


def _joined(lines: list[str]) -> list[str]:
    """One line for each module."""
    by_module: dict[str, list[str]] = {}
    plain = []
    for line in dict.fromkeys(lines):
        if line.startswith("from "):
            module, _, name = line[5:].partition(" import ")
            by_module.setdefault(module, []).append(name)
        else:
            plain.append(line)
    return plain + [f"from {module} import {', '.join(n)}" for module, n in by_module.items()]


def _single(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """The import of one name alone."""
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _assembled(text: str, names: Names, old: Sources) -> str:
    """The text with the copied definitions after its imports."""
    tree = ast.parse(text)
    here = {
        line
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        for line in [ast.unparse(_single(node, alias))]
    }
    imports = "".join(f"{line}\n" for line in _joined([o for o in names.imports if o not in here]))
    parts = []
    for one in names.copied.values():
        origin = f"{one.module} of transformers {old.version}, {LICENCE}"
        if one.module.startswith("patchgen."):
            origin = "patchgen"
        parts.append(f"# Copied from {origin}\n{one.text.rstrip()}\n")
    if not imports and not parts:
        return text
    at = max(
        (one.end_lineno or 0 for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)),
        default=0,
    )
    lines = text.splitlines(keepends=True)
    block = imports + "".join(f"\n\n{part}" for part in parts)
    return "".join([*lines[:at], block, "\n", *lines[at:]])

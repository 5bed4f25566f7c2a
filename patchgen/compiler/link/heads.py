"""The heads that transformers has for any model, put on the base model of the flat file.

`GenericForSequenceClassification` and its like build `AutoModel.from_config(config)`: transformers' own class for the
model type, whatever file derives from them.  A classifier of a variant would then be the parent's, without a word.  So
such a head gets the `__init__` of its generic class written out, with the file's own base model in AutoModel's place.
What stays as it was: the order in which modules are made and drawn, and all of the head that is not `__init__`.

In: the content of an output.  Out: the same, with those heads changed; nothing is changed where the base model is the
parent's, as in the parent made comparable.

A model that asks AutoModel itself, for the parts that it is composed of, gets a note: which class its configuration
names is not known before it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import parent_model_types
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.scopes import references

GENERIC = "transformers.modeling_layers"
_AUTO = "transformers.models.auto.modeling_auto"
_TABLE = "MODEL_MAPPING_NAMES"
_ASKED = "AutoModel.from_config(config)"
_UP = "super().__init__(config)"


def rebind_heads(gathered: Gathered, builder: Builder) -> Gathered:
    """`gathered` with every generic head on the base model of the file, where that differs from the parent's."""
    layers = {layer.source.module for layer in builder.naming.plan.layers}
    if any(block.pieces[0].symbol.module in layers for block in gathered.blocks):
        gathered = replace(gathered, blocks=tuple(map(_noted, gathered.blocks)))
    heads = {block.name: generic for block in gathered.blocks for generic in _generics(block)}
    models = _base_models(gathered.blocks, builder) if heads else ()
    if not any(_differs(model, gathered.blocks, builder) for model in models):
        return gathered
    imports = {need.name: need for need in gathered.imports}
    blocks = []
    for block in gathered.blocks:
        if block.name in heads:
            generic = heads[block.name]
            own = _on(models[0].name, block, generic, builder) if len(models) == 1 else None
            imports = {**{need.name: need for need in own[1]}, **imports} if own else imports
            block = (
                own[0]
                if own
                else _with_note(block, f"its base model from AutoModel, by {generic.name}")
            )
        blocks.append(block)
    return replace(gathered, blocks=tuple(blocks), imports=tuple(imports.values()))


def _noted(block: FlatBlock) -> FlatBlock:
    """With a note where the code of a class asks AutoModel for a model."""
    if block.kind != "class" or "AutoModel" not in block.text:
        return block
    calls = (node for node in ast.walk(_class(block)) if isinstance(node, ast.Call))
    asked = sorted(
        {name for call in calls if (name := ast.unparse(call.func)).startswith("AutoModel")}
    )
    return _with_note(block, f"a model from {asked[0]}") if asked else block


def _with_note(block: FlatBlock, what: str) -> FlatBlock:
    note = (
        f"{block.name} takes {what}, which knows transformers' own classes: what this file changes in such a model "
        "runs there only while the variant stands behind the auto classes (patchgen.register)"
    )
    return replace(block, notes=(*block.notes, note))


def _class(block: FlatBlock) -> ast.ClassDef:
    return next(node for node in ast.parse(block.text).body if isinstance(node, ast.ClassDef))


def _generics(block: FlatBlock) -> Iterator[Symbol]:
    """The generic head among the bases of a class."""
    if block.kind != "class" or not any(need.symbol.module == GENERIC for need in block.needs):
        return
    names = {base.id for base in _class(block).bases if isinstance(base, ast.Name)}
    for need in block.needs:
        if (
            need.name in names
            and need.symbol.module == GENERIC
            and need.symbol.name.startswith("GenericFor")
        ):
            yield need.symbol


def _base_models(blocks: tuple[FlatBlock, ...], builder: Builder) -> tuple[FlatBlock, ...]:
    """The classes of the file that AutoModel would take for one of the parent's configurations."""
    if builder.naming.bindings.env.path(_AUTO) is None:
        return ()
    known = _auto_models(builder.index(_AUTO).source.text)
    wanted = {known[name] for name in parent_model_types(builder) if name in known}
    classes = (block for block in blocks if block.kind == "class" and not block.aside)
    return tuple(block for block in classes if block.origin.name in wanted)


def _auto_models(text: str) -> dict[str, str]:
    """Model type and base model, from the table in the text of transformers' auto classes."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [
            _TABLE
        ]:
            pairs = [
                pair.elts
                for pair in ast.walk(node.value)
                if isinstance(pair, ast.Tuple) and len(pair.elts) == 2
            ]
            return {
                str(key.value): str(value.value)
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
                if isinstance(key.value, str) and isinstance(value.value, str)
            }
    return {}


def _differs(own: FlatBlock, blocks: tuple[FlatBlock, ...], builder: Builder) -> bool:
    """Whether the base model, or what it uses, is not the parent's."""
    layers = {layer.source.module for layer in builder.naming.plan.layers}
    by_name = {name: block for block in blocks for name in block.defines}
    waiting, seen = [own], {own.unit}
    while waiting:
        block = waiting.pop()
        if block.pieces[-1].symbol.module in layers or _code(block.text) != _code(
            block.pieces[-1].text
        ):
            return True
        for need in block.needs:
            used = by_name.get(need.name)
            if used is not None and used.unit not in seen:
                seen.add(used.unit)
                waiting.append(used)
    return own.name != own.pieces[-1].symbol.name


def _code(text: str) -> str:
    """What is run of a block: a docstring makes no other model."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def _on(
    own: str, block: FlatBlock, generic: Symbol, builder: Builder
) -> tuple[FlatBlock, tuple[Dependency, ...]] | None:
    """The head with an `__init__` of its own, and what that needs to have imported; None where it has one already."""
    if any(
        isinstance(node, ast.FunctionDef) and node.name == "__init__" for node in _class(block).body
    ):
        return None
    index = builder.index(GENERIC)
    source = index.definition(generic.name)
    assert source is not None
    piece = qualify_names(index, source, generic, builder.naming)
    method = _init_of(piece.text)
    if method is None or method.count(_UP) != 1 or _calls(method) != 1:
        return None
    base = next(need.name for need in block.needs if need.symbol == generic)
    made = f"{own}._from_config(config)"
    lines = [line if "#" in line else line.replace(_ASKED, made) for line in method.split("\n")]
    method = "\n".join(lines).replace(_UP, f"super({base}, self).__init__(config)")
    read = {reference.name for reference in references(ast.parse(_dedented(method)).body, True)}
    needs = tuple(
        Dependency(name, symbol, GENERIC, False)
        for name, symbol in piece.dependencies.items()
        if name in read and name != own
    )
    return replace(block, text=_with_method(block.text, method)), needs


def _init_of(text: str) -> str | None:
    """The lines of `__init__` in the text of a class, as they are indented there."""
    node = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return "\n".join(text.split("\n")[each.lineno - 1 : each.end_lineno])
    return None


def _calls(method: str) -> int:
    return sum(ast.unparse(node) == _ASKED for node in ast.walk(ast.parse(_dedented(method))))


def _dedented(method: str) -> str:
    return f"if True:\n{method}\n"


def _with_method(text: str, method: str) -> str:
    """The text of a class with one more method, in the place of a `pass` or `...` that says that there is nothing."""
    node = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    last = node.body[-1]
    lines = text.split("\n")
    if ast.unparse(last) in ("pass", "..."):
        line = lines[last.lineno - 1].encode()[: last.col_offset].decode().rstrip()
        kept = [*lines[: last.lineno - 1], *([line] if line else [])]
        return "\n".join([*kept, method, *lines[last.end_lineno or last.lineno :]])
    end = last.end_lineno or last.lineno
    return "\n".join([*lines[:end], "", method, *lines[end:]])

"""Let the models of a flat file be built of the models of that file.

    class LlamaForTokenClassification(GenericForTokenClassification, LlamaPreTrainedModel):
        def __init__(self, config):
            super(GenericForTokenClassification, self).__init__(config)
            self.model = LlamaModel._from_config(config)         # was AutoModel.from_config(config)

    class Qwen3VLModel(Qwen3VLPreTrainedModel):
        def __init__(self, config):
            self.language_model = Qwen3VLTextModel._from_config(config.text_config)

    class Sam2Model(Sam2PreTrainedModel):
        def __init__(self, config):
            self.vision_encoder = (
                Sam2VisionModel._from_config(config.vision_config)
                if config.vision_config.model_type == "sam2_vision_model"
                else AutoModel.from_config(config.vision_config)
            )

`AutoModel` builds transformers' own class for the type of a configuration, and no variant: the
classifier of a variant would silently train the parent's model.  Where the file has the class that
AutoModel would take, and changes it or its configuration, that class is named.  A new model has its
own ones (`models.py`).

- The generic heads of transformers ask AutoModel in their own `__init__`.  Its statements become
  the `__init__` of the head, or take the place of `super().__init__(config)` in the one it has.
- A model of several models asks AutoModel for the parts of its configuration.  The class of a part
  is known where the parent's configuration says it (`sub_configs_defaults`).  A part of any type
  is built of the file's model where it has the type that the parent's configuration gives it.

What stays with AutoModel gets a note.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import add_method
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.models import (
    ASKED,
    Part,
    find_asked_parts,
    find_generic_bases,
    select_base_models,
)
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.decorators import KERNELIZED
from patchgen.facts.modules import GENERIC_HEADS
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import find_method, names_within, parse_class, walk

_SUPER_CALL = "super().__init__(config)"
_HEAD_MODEL = "AutoModel.from_config(config)"
_REGISTRATION = re.compile(rf"^(@{KERNELIZED}\((\w+)\)\n)", re.MULTILINE)


def rebind_heads(gathered: Gathered, builder: Builder) -> Gathered:
    """Put every generic head on the base model of the file; PG415 where it asks in another way."""
    blocks = gathered.blocks
    # A diff base declares nothing, and is transformers' own file.
    if any(block.symbol.module in builder.layers for block in blocks):
        blocks = tuple(map(_note_auto_model, blocks))
        gathered = replace(gathered, blocks=blocks)
    heads = {}
    names = {}
    for block in blocks:
        for base in find_generic_bases(block):
            heads[block.name] = base
            names[block.name] = select_base_models(block, blocks, builder)
    if not heads:
        return gathered
    models = _find_models(set().union(*names.values()), blocks)
    # With an equal base model, or with nothing but heads, AutoModel's answer is right.
    others = [block for block in blocks if block.name not in heads]
    if not any(_differs(model, blocks, builder) for model in models or others):
        return gathered
    imports = {dependency.name: dependency for dependency in gathered.imports}
    rebound = []
    for block in blocks:
        if block.name in heads:
            possible = _find_models(names[block.name], blocks)
            block, needed = _rebind_head(block, heads[block.name], possible, builder)
            for dependency in needed:
                imports.setdefault(dependency.name, dependency)
        rebound.append(block)
    return replace(gathered, blocks=tuple(rebound), imports=tuple(imports.values()))


def rebind_submodels(gathered: Gathered, builder: Builder) -> Gathered:
    """Name the models of the file where AutoModel is asked for the parts of a model.

    Raises PatchgenError PG416 where AutoModel cannot build a part.
    """
    declared = builder.plan.declarations
    # AutoModel knows no configuration that the output has itself.
    has_own = any(declaration.kind == "configuration" for declaration in declared)
    parts: dict[str, tuple[Part, Dependency]] = {}
    for name, part in find_asked_parts(gathered.blocks, builder).items():
        models = _find_models({part.model}, gathered.blocks)
        if part.is_own and not models:
            _refuse_unknown(name, part, gathered.blocks)
        if len(models) != 1:
            continue
        (model,) = models
        if has_own or _differs(model, gathered.blocks, builder):
            symbol = model.symbol
            needed = Dependency(model.name, symbol, symbol.module, eager=False)
            parts[name] = part, needed
    blocks = tuple(_name_parts(block, parts) for block in gathered.blocks)
    read = set[str]().union(*(block.reads for block in blocks))
    imports = _drop_auto_model(gathered.imports, read)
    return replace(gathered, blocks=blocks, imports=imports)


def _refuse_unknown(name: str, part: Part, blocks: tuple[FlatBlock, ...]) -> None:
    """Raise PG416 where AutoModel is asked for a part whose configuration it does not know."""
    call = f"config.{name}"
    for block in blocks:
        if name in ASKED.findall(block.text):
            what = (
                f"{block.name} asks AutoModel for the model of {call}, whose class is of this file"
            )
            hint = f"write `{part.model}._from_config({call})` in its `__init__`"
            raise PatchgenError("PG416", block.place, what, hint)


def drop_kernels(gathered: Gathered, builder: Builder) -> Gathered:
    """Drop the registration of a hub kernel for a function that the modular file replaces.

    `@use_kernelized_func(apply_rotary_pos_emb)` would let a kernel compute what the parent did.
    Where the modular file says it above its class, it stays.
    """
    other_imports = tuple(item for item in gathered.imports if item.name != KERNELIZED)
    if other_imports == gathered.imports:
        return gathered
    written = "".join(layer.source.text for layer in builder.plan.layers)
    own = {block.name for block in gathered.blocks if block.block_id.module in builder.layers}
    blocks: list[FlatBlock] = []
    for block in gathered.blocks:
        for line, function in _REGISTRATION.findall(block.text):
            if function in own and f"{line}class {block.name}(" not in written:
                note = f"{line.strip()} of {block.name} is dropped: this file has its own function"
                text = block.text.replace(line, "", 1)
                notes = (*block.notes, note)
                block = replace(block, text=text, notes=notes)
        blocks.append(block)
    gathered = replace(gathered, blocks=tuple(blocks))
    is_used = any(f"@{KERNELIZED}(" in block.text for block in blocks)
    return gathered if is_used else replace(gathered, imports=other_imports)


def _drop_auto_model(
    dependencies: tuple[Dependency, ...], read: Collection[str]
) -> tuple[Dependency, ...]:
    """`dependencies` without AutoModel, where it is not among the names that are `read`."""
    if "AutoModel" in read:
        return dependencies
    return tuple(dependency for dependency in dependencies if dependency.name != "AutoModel")


def _note_auto_model(block: FlatBlock) -> FlatBlock:
    """Add a note where the code of a class asks AutoModel for a model."""
    if block.kind != "class" or "AutoModel" not in block.text:
        return block
    others: list[ast.expr] = []
    asked: list[str] = []
    for node in walk(parse_class(block.text)):
        # Where the file has the model of a type, AutoModel builds the others.
        if isinstance(node, ast.IfExp):
            others.append(node.orelse)
        elif isinstance(node, ast.Call) and node not in others:
            name = ast.unparse(node.func)
            if name.startswith("AutoModel"):
                asked.append(name)
    return _add_note(block, f"a model from {min(asked)}") if asked else block


def _add_note(block: FlatBlock, what: str) -> FlatBlock:
    note = (
        f"{block.name} takes {what}, which knows transformers' own classes: "
        "what this file changes in such a model runs there only while the variant stands behind "
        "the auto classes (patchgen.register)"
    )
    return replace(block, notes=(*block.notes, note))


def _find_models(names: Collection[str], blocks: tuple[FlatBlock, ...]) -> tuple[FlatBlock, ...]:
    """The classes of the file that stand for transformers' classes of these names."""
    # A parent that was put aside is not the model of this file.
    classes = [block for block in blocks if block.kind == "class" and not block.aside]
    return tuple(block for block in classes if block.origin.name in names)


def _differs(model: FlatBlock, blocks: tuple[FlatBlock, ...], builder: Builder) -> bool:
    """Whether a model of the file, or anything that it uses, is not the parent's."""
    by_name: dict[str, FlatBlock] = {}
    for block in blocks:
        by_name |= dict.fromkeys(block.defines, block)
    reached = [model]
    for block in reached:
        source = block.rewritten[-1]
        if source.symbol.module in builder.layers:
            return True
        if block.text != source.text:
            return True
        for name in block.reads:
            used = by_name.get(name)
            if used is not None and used not in reached:
                reached.append(used)
    return model.name != model.rewritten[-1].symbol.name


def _rebind_head(
    block: FlatBlock, generic: Symbol, models: tuple[FlatBlock, ...], builder: Builder
) -> tuple[FlatBlock, tuple[Dependency, ...]]:
    """The head on the base model of the file, and what it imports for that."""
    index = builder.index(GENERIC_HEADS)
    source = index.definition(generic.name)
    if source is None:
        # What the release lacks is refused with the imports.
        return block, ()
    # In the names of the flat file, whose imports may have other aliases.
    rewritten = qualify_names(index, source, generic, builder.naming)
    generic_init = find_method(rewritten.text, "__init__")
    lines = rewritten.text.split("\n")
    lines = lines[generic_init.lineno - 1 : generic_init.end_lineno] if generic_init else []
    # The comments explain the call of AutoModel.
    method = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    method = textwrap.dedent(method)
    # Another release may build the model in another way.
    is_expected = method.count(_SUPER_CALL) == method.count(_HEAD_MODEL) == 1
    if not is_expected or len(models) != 1:
        return _add_note(block, f"its base model from AutoModel, by {generic.name}"), ()
    model = models[0].name
    base = next(each.name for each in block.dependencies if each.symbol == generic)
    method = method.replace(_HEAD_MODEL, f"{model}._from_config(config)")
    # The head comes before its generic class in the MRO, so that `super()` would call that one.
    method = method.replace(_SUPER_CALL, f"super({base}, self).__init__(config)")
    init = find_method(block.text, "__init__")
    if init is None:
        text = add_method(block.text, method)
    else:
        functions = ("super().__init__", f"{base}.__init__")
        asking = []
        for node in walk(init):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in functions:
                asking.append(ast.unparse(node))
        if not asking:
            return block, ()
        text = _insert_statements(block, init, asking, method)
    read = {name.id for name in names_within(ast.parse(method))}
    needed = []
    for name, symbol in rewritten.dependencies.items():
        # The model is a class of this file.
        if name in read and name != model:
            needed.append(Dependency(name, symbol, GENERIC_HEADS, False))
    return replace(block, text=text), tuple(needed)


def _insert_statements(
    block: FlatBlock, init: ast.FunctionDef, asking: list[str], method: str
) -> str:
    """The head with the statements of `method` in place of `asking`, the one `super().__init__`."""
    (inherited,) = ast.parse(method).body
    assert isinstance(inherited, ast.FunctionDef)
    stored = {name.id for name in names_within(inherited) if isinstance(name.ctx, ast.Store)}
    shared = stored & {name.id for name in names_within(init)}
    lines = block.text.split("\n")
    for statement in init.body:
        if shared or [ast.unparse(statement)] != asking:
            continue
        first = statement.lineno - 1
        last = (statement.end_lineno or statement.lineno) - 1
        first_line = lines[first].encode()
        before = first_line[: statement.col_offset].decode()
        last_line = lines[last].encode()
        after = last_line[statement.end_col_offset :].decode()
        if not before.strip() and after.lstrip()[:1] in ("", "#"):
            body_lines = method.split("\n")[inherited.body[0].lineno - 1 :]
            body = textwrap.dedent("\n".join(body_lines))
            new = textwrap.indent(body, before).split("\n")
            new[0] += after
            return "\n".join([*lines[:first], *new, *lines[last + 1 :]])
    places: list[Location] = []
    for rewritten in block.rewritten:
        written = find_method(rewritten.text, "__init__")
        if written is not None:
            places.append(rewritten.at(written.lineno, written.col_offset))
    what = f"{block.name}.__init__ leaves it to transformers which base model is built"
    hint = f"write `{_SUPER_CALL}` once, on a line of its own outside any other statement"
    if shared:
        hint += f", and rename {min(shared)}"
    raise PatchgenError("PG415", places[0], what, hint)


def _name_parts(block: FlatBlock, parts: Mapping[str, tuple[Part, Dependency]]) -> FlatBlock:
    """The class, with its models named where its `__init__` asks AutoModel for `parts`."""
    if block.kind != "class" or not ASKED.search(block.text):
        return block
    init = find_method(block.text, "__init__")
    if init is None or "config" not in [argument.arg for argument in init.args.args]:
        return block
    calls: dict[str, str] = {}
    named: dict[str, Dependency] = {}
    for call in (node for node in walk(init) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) != "AutoModel.from_config":
            continue
        written = ast.get_source_segment(block.text, call) or ""
        asked = ASKED.match(written)
        if asked and asked[1] in parts:
            part, model = parts[asked[1]]
            built = written.replace("AutoModel.from_config", f"{model.name}._from_config")
            if part.default:
                is_default = f'config.{asked[1]}.model_type == "{part.default}"'
                built = f"({built} if {is_default} else {written})"
            calls[written] = built
            named[model.name] = model
    text = block.text
    for written, built in calls.items():
        text = text.replace(written, built)
    read = {name.id for name in names_within(parse_class(text))}
    dependencies = (*_drop_auto_model(block.dependencies, read), *named.values())
    return replace(block, text=text, dependencies=dependencies)

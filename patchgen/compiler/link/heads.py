"""Let the models of a flat file be built of the models of that file.

    class LlamaForTokenClassification(GenericForTokenClassification, LlamaPreTrainedModel):
        def __init__(self, config):
            super(GenericForTokenClassification, self).__init__(config)
            self.model = LlamaModel._from_config(config)         # was AutoModel.from_config(config)

    class Qwen3VLModel(Qwen3VLPreTrainedModel):
        def __init__(self, config):
            self.language_model = Qwen3VLTextModel._from_config(config.text_config)

`AutoModel` builds transformers' own class for the type of a configuration, and no variant: the
classifier of a variant would silently train the parent's model.  Where the file has the class that
AutoModel would take, and the variant changes it, that class is named.

- The generic heads of transformers ask AutoModel in their own `__init__`.  Its statements become
  the `__init__` of the head, or take the place of `super().__init__(config)` in the one it has.
- A model of several models asks AutoModel for the parts of its configuration.  The class of a part
  is known where the parent's configuration says it (`sub_configs_defaults`).

What may be of any type stays with AutoModel and gets a note, as everything does in a variant with a
configuration of its own.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import add_method, find_configurations, map_model_types
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.decorators import KERNELIZED
from patchgen.facts.modules import AUTO_MODELS, AUTO_MODELS_TABLE, GENERIC_HEADS, SUB_CONFIGS
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import names_within, parse_class, walk

# The name of a configuration class, its model type, and its parts with their classes.
_Configuration = tuple[str, str, tuple[tuple[str, str], ...]]

_SUPER_CALL = "super().__init__(config)"
_HEAD_MODEL = "AutoModel.from_config(config)"
_PART_MODEL = re.compile(r"\bAutoModel\.from_config(?=\(config\.(\w+)\))")


def rebind_heads(gathered: Gathered, builder: Builder) -> Gathered:
    """Put every generic head on the base model of the file; PG415 where it asks in another way."""
    # A diff base declares nothing, and is transformers' own file.
    if any(block.rewritten[0].symbol.module in builder.layers for block in gathered.blocks):
        blocks = tuple(_note_auto_model(block) for block in gathered.blocks)
        gathered = replace(gathered, blocks=blocks)
    heads = {block.name: base for block in gathered.blocks for base in _find_generic_bases(block)}
    if not heads:
        return gathered
    types = _read_base_models(builder)
    names = {types[name] for name in map_model_types(builder).values() if name in types}
    models = _find_models(names, gathered.blocks)
    # With an equal base model, or with nothing but heads, AutoModel's answer is right.
    others = [block for block in gathered.blocks if block.name not in heads and types]
    if not any(_differs(model, gathered.blocks, builder) for model in models or others):
        return gathered
    imports = {dependency.name: dependency for dependency in gathered.imports}
    rebound = []
    for block in gathered.blocks:
        if block.name in heads:
            possible = _select_models(block, models, gathered.blocks, builder)
            block, needed = _rebind_head(block, heads[block.name], possible, builder)
            for dependency in needed:
                imports.setdefault(dependency.name, dependency)
        rebound.append(block)
    return replace(gathered, blocks=tuple(rebound), imports=tuple(imports.values()))


def rebind_submodels(gathered: Gathered, builder: Builder) -> Gathered:
    """Name the changed models of the file where AutoModel is asked for the parts of a model."""
    if not any(_PART_MODEL.search(block.text) for block in gathered.blocks):
        return gathered
    declared = builder.naming.plan.declarations
    if not declared or any(declaration.kind == "configuration" for declaration in declared):
        return gathered
    models: dict[str, str] = {}
    for part, name in _map_parts(builder).items():
        classes = _find_models({name}, gathered.blocks)
        if len(classes) == 1 and _differs(classes[0], gathered.blocks, builder):
            models[part] = classes[0].name
    blocks = tuple(_name_parts(block, models) for block in gathered.blocks)
    read = {dependency.name for block in blocks for dependency in block.dependencies}
    return replace(gathered, blocks=blocks, imports=_drop_auto_model(gathered.imports, read))


def drop_kernels(gathered: Gathered, builder: Builder) -> Gathered:
    """Drop the registration of a hub kernel for a function that the modular file replaces.

    `@use_kernelized_func(apply_rotary_pos_emb)` would let a kernel compute what the parent did.
    Where the modular file says it above its class, it stays.
    """
    written = "".join(layer.source.text for layer in builder.naming.plan.layers)
    layer_names = {
        block.name for block in gathered.blocks if block.block_id.module in builder.layers
    }
    blocks: list[FlatBlock] = []
    for block in gathered.blocks:
        for line, function in re.findall(rf"^(@{KERNELIZED}\((\w+)\)\n)", block.text, re.MULTILINE):
            if function in layer_names and f"{line}class {block.name}(" not in written:
                note = f"{line.strip()} of {block.name} is dropped: this file has its own function"
                text = block.text.replace(line, "", 1)
                block = replace(block, text=text, notes=(*block.notes, note))
        blocks.append(block)
    is_used = any(f"@{KERNELIZED}(" in block.text for block in blocks)
    imports = tuple(item for item in gathered.imports if is_used or item.name != KERNELIZED)
    return replace(gathered, blocks=tuple(blocks), imports=imports)


def _drop_auto_model(
    dependencies: tuple[Dependency, ...], read: Collection[str]
) -> tuple[Dependency, ...]:
    """`dependencies` without AutoModel, where it is not among the names that are `read`."""
    return tuple(
        dependency
        for dependency in dependencies
        if dependency.name != "AutoModel" or dependency.name in read
    )


def _note_auto_model(block: FlatBlock) -> FlatBlock:
    """Add a note where the code of a class asks AutoModel for a model."""
    if block.kind != "class" or "AutoModel" not in block.text:
        return block
    calls = [node for node in walk(parse_class(block.text)) if isinstance(node, ast.Call)]
    names = sorted(ast.unparse(call.func) for call in calls)
    asked = [name for name in names if name.startswith("AutoModel")]
    return _add_note(block, f"a model from {asked[0]}") if asked else block


def _add_note(block: FlatBlock, what: str) -> FlatBlock:
    note = (
        f"{block.name} takes {what}, which knows transformers' own classes: "
        "what this file changes in such a model runs there only while the variant stands behind "
        "the auto classes (patchgen.register)"
    )
    return replace(block, notes=(*block.notes, note))


# The models that AutoModel would build


def _read_base_models(builder: Builder) -> Mapping[str, str]:
    """Model type and base model, from transformers' table; empty where a release has none.

    MODEL_MAPPING_NAMES = OrderedDict([("llama", "LlamaModel"), ...])
    """
    if builder.naming.bindings.env.path(AUTO_MODELS) is not None:
        for block in builder.index(AUTO_MODELS).blocks_that_bind(AUTO_MODELS_TABLE):
            if f"{AUTO_MODELS_TABLE} = " in block.text:
                return _read_pairs(block.text)
    return {}


@functools.lru_cache(maxsize=4)  # of one release, for every variant
def _read_pairs(table: str) -> Mapping[str, str]:
    pairs = {}
    for node in ast.walk(ast.parse(table)):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(kind)), ast.Constant(value=str(model))]):
                pairs[kind] = model
    return pairs


def _find_models(names: Collection[str], blocks: tuple[FlatBlock, ...]) -> tuple[FlatBlock, ...]:
    """The classes of the file that stand for transformers' classes of these names."""
    # A parent that was put aside is not the model of this file.
    classes = [block for block in blocks if block.kind == "class" and not block.aside]
    return tuple(block for block in classes if block.origin.name in names)


def _differs(model: FlatBlock, blocks: tuple[FlatBlock, ...], builder: Builder) -> bool:
    """Whether a model of the file, or anything that it uses, is not the parent's."""
    by_name = {name: block for block in blocks for name in block.defines}
    reached = [model]
    for block in reached:
        source = block.rewritten[-1]
        if source.symbol.module in builder.layers:
            return True
        # Comments and docstrings may differ.
        if block.text != source.text and not is_same_code(_parse(block.text), _parse(source.text)):
            return True
        for name in dict.fromkeys(dependency.name for dependency in block.dependencies):
            if name in by_name and by_name[name] not in reached:
                reached.append(by_name[name])
    return model.name != model.rewritten[-1].symbol.name


def _parse(text: str) -> ast.Module:
    """The code without docstrings, which change nothing of a model."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node):
                node.body = node.body[1:]
    return tree


def _select_models(
    head: FlatBlock, models: tuple[FlatBlock, ...], blocks: tuple[FlatBlock, ...], builder: Builder
) -> tuple[FlatBlock, ...]:
    """Those of `models` that AutoModel would build for the configuration that a head states.

    class Gemma3TextForSequenceClassification(GenericForSequenceClassification, ...):
        config: Gemma3TextConfig
    """
    if len(models) == 1:
        return models
    types = {name: kind for name, kind, _ in _read_all_configurations(builder)}
    for declaration in builder.naming.plan.declarations:
        if declaration.parents:
            types[declaration.symbol.name] = types.get(declaration.parents[-1].name, "")
    classes = {block.name: block for block in blocks if block.kind == "class"}
    waiting = [head.name]
    for name in waiting:
        text = classes[name].text if name in classes else ""
        stated = re.search(r"^ +config: (\w+)$", text, re.MULTILINE)
        if stated:
            model = _read_base_models(builder).get(types.get(stated[1], ""))
            return tuple(model_class for model_class in models if model_class.origin.name == model)
        waiting += [ast.unparse(base) for base in parse_class(text).bases] if text else []
    return ()


def _find_generic_bases(block: FlatBlock) -> Iterator[Symbol]:
    generics = {
        dependency.name: dependency.symbol
        for dependency in block.dependencies
        if dependency.symbol.module == GENERIC_HEADS
    }
    # Parsing takes longer than the look at the names.
    if block.kind == "class" and generics:
        for base in parse_class(block.text).bases:
            symbol = generics.get(ast.unparse(base))
            if symbol is not None and symbol.name.startswith("GenericFor"):
                yield symbol


def _rebind_head(
    block: FlatBlock, generic: Symbol, models: tuple[FlatBlock, ...], builder: Builder
) -> tuple[FlatBlock, tuple[Dependency, ...]]:
    """The head on the base model of the file, and what it imports for that."""
    index = builder.index(GENERIC_HEADS)
    source = index.definition(generic.name)
    assert source is not None
    # In the names of the flat file, whose imports may have other aliases.
    rewritten = qualify_names(index, source, generic, builder.naming)
    generic_init = _find_init(rewritten.text)
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
    init = _find_init(block.text)
    if init is None:
        text = add_method(block.text, method)
    else:
        functions = ("super().__init__", f"{base}.__init__")
        calls = [node for node in walk(init) if isinstance(node, ast.Call)]
        asking = [ast.unparse(call) for call in calls if ast.unparse(call.func) in functions]
        if not asking:
            return block, ()
        text = _insert_statements(block, init, asking, method)
    read = {name.id for name in names_within(ast.parse(method))}
    # The model is a class of this file.
    return replace(block, text=text), tuple(
        Dependency(name, symbol, GENERIC_HEADS, False)
        for name, symbol in rewritten.dependencies.items()
        if name in read and name != model
    )


def _find_init(text: str) -> ast.FunctionDef | None:
    for node in parse_class(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return node
    return None


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
        last = (statement.end_lineno or statement.lineno) - 1
        before = lines[statement.lineno - 1].encode()[: statement.col_offset].decode()
        after = lines[last].encode()[statement.end_col_offset :].decode()
        is_alone = not before.strip() and after.lstrip()[:1] in ("", "#")
        if is_alone and not shared and [ast.unparse(statement)] == asking:
            body = "\n".join(method.split("\n")[inherited.body[0].lineno - 1 :])
            new = textwrap.indent(textwrap.dedent(body), before).split("\n")
            new[0] += after
            return "\n".join([*lines[: statement.lineno - 1], *new, *lines[last + 1 :]])
    inits = [(rewritten, _find_init(rewritten.text)) for rewritten in block.rewritten]
    at = next(code.at(own.lineno, own.col_offset) for code, own in inits if own is not None)
    what = f"{block.name}.__init__ leaves it to transformers which base model is built"
    hint = f"write `{_SUPER_CALL}` once, on a line of its own outside any other statement"
    if shared:
        hint += f", and rename {min(shared)}"
    raise PatchgenError("PG415", at, what, hint)


def _map_parts(builder: Builder) -> dict[str, str]:
    """Each part of a configuration with the model that AutoModel builds of it.

        sub_configs_defaults = {"text_config": Qwen3VLTextConfig, ...}

    A part that has different classes in two configurations is left out.
    """
    types: dict[str, str] = {}
    classes: dict[str, set[str]] = {}
    for name, model_type, parts in _read_all_configurations(builder):
        types[name] = model_type
        for part, part_class in parts:
            classes.setdefault(part, set()).add(part_class)
    models = _read_base_models(builder)
    alone = {part: names.pop() for part, names in classes.items() if len(names) == 1}
    typed = {part: types.get(name, "") for part, name in alone.items()}
    return {part: models[name] for part, name in typed.items() if name in models}


def _read_all_configurations(builder: Builder) -> list[_Configuration]:
    return [
        configuration
        for text in find_configurations(builder)
        for configuration in _read_configurations(text)
    ]


@functools.lru_cache(maxsize=64)  # The variants of a model have one configuration.
def _read_configurations(text: str) -> tuple[_Configuration, ...]:
    configurations = []
    for owner in ast.parse(text).body:
        if isinstance(owner, ast.ClassDef):
            values: dict[str, ast.expr] = {}
            for node in owner.body:
                match node:
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    ):
                        values[name] = value
            stated = values.get("model_type")
            model_type = str(stated.value) if isinstance(stated, ast.Constant) else ""
            parts = [part for key in SUB_CONFIGS for part in _find_parts(values.get(key))]
            configurations.append((owner.name, model_type, tuple(parts)))
    return tuple(configurations)


def _find_parts(table: ast.expr | None) -> Iterator[tuple[str, str]]:
    """The parts in a table, with the names of their classes.

    {"text_config": ToyTextConfig, "vision_config": SubConfigSpec(config_class=ToyVisionConfig)}
    """
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(value, ast.Call):
            stated = [keyword.value for keyword in value.keywords if keyword.arg == "config_class"]
            value = stated[0] if stated else value
        if isinstance(key, ast.Constant):
            # An unknown form makes the part ambiguous, and it is left to AutoModel.
            yield str(key.value), ast.unparse(value)


def _name_parts(block: FlatBlock, models: Mapping[str, str]) -> FlatBlock:
    """The class, with its models named where its `__init__` asks AutoModel for them."""
    if block.kind != "class" or not _PART_MODEL.search(block.text):
        return block
    init = _find_init(block.text)
    if init is None or "config" not in [argument.arg for argument in init.args.args]:
        return block
    lines = block.text.split("\n")
    for number in range(init.lineno - 1, init.end_lineno or init.lineno):
        lines[number] = _PART_MODEL.sub(
            lambda asked: f"{models[asked[1]]}._from_config" if asked[1] in models else asked[0],
            lines[number],
        )
    text = "\n".join(lines)
    read = {name.id for name in names_within(parse_class(text))}
    return replace(block, text=text, dependencies=_drop_auto_model(block.dependencies, read))

"""Let a model that is made of other models use those of the flat file.

    class Qwen3VLModel(Qwen3VLPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.language_model = AutoModel.from_config(config.text_config)

            self.language_model = Qwen3VLTextModel._from_config(config.text_config)

`AutoModel` builds transformers' own class for the type of a configuration, and no variant.  The
configuration of the parent fixes the type of some of its parts, and with it the class:

    class Qwen3VLConfig(PreTrainedConfig):
        sub_configs_defaults = {"text_config": Qwen3VLTextConfig, ...}

Where the flat file has that class, and the variant changes it, the class is named in place of
AutoModel.  What may be of any type (`AutoConfig`) stays with AutoModel, and gets a note.  So does
everything in a variant with a configuration of its own.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from patchgen.compiler.link.dependencies import Dependency
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.footer import find_configurations
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.own_models import differs, find_models, read_base_models
from patchgen.compiler.link.strings import TextChange, apply_changes
from patchgen.facts.modules import SUB_CONFIGS
from patchgen.syntax.trees import parse_class

_AUTO_MODEL = "AutoModel"
_ASKS = f"{_AUTO_MODEL}.from_config(config."


@dataclass(frozen=True, slots=True)
class _Configuration:
    """A class of a configuration module: its model type, and the class of each part."""

    model_type: str
    parts: Mapping[str, str]


def rebind_submodels(gathered: Gathered, builder: Builder) -> Gathered:
    """Name the changed models of the file where AutoModel is asked for what they stand for."""
    if not any(_ASKS in block.text for block in gathered.blocks):
        return gathered
    declared = builder.naming.plan.declarations
    if not declared or any(one.kind == "configuration" for one in declared):
        return gathered
    configurations: dict[str, _Configuration] = {}
    for module in find_configurations(builder):
        configurations |= _read_configurations(builder.index(module).source.text)
    own: dict[str, str] = {}
    for part, model in _map_parts(configurations, read_base_models(builder)).items():
        models = find_models({model}, gathered.blocks)
        if len(models) == 1 and differs(models[0], gathered.blocks, builder):
            own[part] = models[0].name
    blocks = tuple(_rebind(block, own) for block in gathered.blocks)
    return replace(gathered, blocks=blocks, imports=_keep_read(gathered.imports, blocks))


def _map_parts(
    configurations: Mapping[str, _Configuration], base_models: Mapping[str, str]
) -> dict[str, str]:
    """Each part of a configuration with the model that AutoModel builds of it.

    A part that has different classes in two configurations is left out.
    """
    classes: dict[str, set[str]] = {}
    for configuration in configurations.values():
        for part, name in configuration.parts.items():
            classes.setdefault(part, set()).add(name)
    found: dict[str, str] = {}
    for part, names in classes.items():
        types = {configurations[name].model_type for name in names if name in configurations}
        if len(names) == 1 and types <= base_models.keys():
            found.update((part, base_models[each]) for each in types)
    return found


@functools.lru_cache(maxsize=64)  # The variants of a model have one configuration.
def _read_configurations(text: str) -> Mapping[str, _Configuration]:
    """The classes of a configuration module, by name."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            values = dict(_find_values(node))
            stated = values.get("model_type")
            model_type = stated.value if isinstance(stated, ast.Constant) else ""
            parts = {
                part: name for key in SUB_CONFIGS for part, name in _find_parts(values.get(key))
            }
            found[node.name] = _Configuration(str(model_type), parts)
    return found


def _find_values(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The names that the body of a class assigns, with their values."""
    for node in owner.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _find_parts(table: ast.expr | None) -> Iterator[tuple[str, str]]:
    """The parts in a table, with the names of their classes.

    {"text_config": ToyTextConfig, "vision_config": SubConfigSpec(config_class=ToyVisionConfig)}
    """
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(value, ast.Call):
            stated = [each.value for each in value.keywords if each.arg == "config_class"]
            value = stated[0] if stated else value
        if isinstance(key, ast.Constant):
            # An unknown form makes the part ambiguous, and it is left to AutoModel.
            yield str(key.value), ast.unparse(value)


def _rebind(block: FlatBlock, own: Mapping[str, str]) -> FlatBlock:
    """The class, with the models in `own` named where its `__init__` asks AutoModel for them."""
    if block.kind != "class" or _ASKS not in block.text:
        return block
    changes, named = set(), set()
    for call, part in _find_calls(parse_class(block.text)):
        function = call.func
        is_on_one_line = function.end_lineno == function.lineno
        if part in own and is_on_one_line:
            end = function.end_col_offset or 0
            new = f"{own[part]}._from_config"
            changes.add(TextChange(function.lineno, function.col_offset, end, new))
            named.add(own[part])
    if not changes:
        return block
    text, _ = apply_changes(block.text.split("\n"), changes)
    return replace(block, text=text, dependencies=_replace_auto_model(block, text))


def _find_calls(owner: ast.ClassDef) -> Iterator[tuple[ast.Call, str]]:
    """The calls `AutoModel.from_config(config.PART)` in `__init__`, with the part."""
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        if "config" not in [argument.arg for argument in method.args.args]:
            continue
        for node in ast.walk(method):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="AutoModel"), attr="from_config"),
                    args=[ast.Attribute(value=ast.Name(id="config"), attr=part)],
                    keywords=[],
                ):
                    yield node, part


def _replace_auto_model(block: FlatBlock, text: str) -> tuple[Dependency, ...]:
    """The dependencies of a block whose text is now `text`: AutoModel only if it is still read."""
    read = {node.id for node in ast.walk(parse_class(text)) if isinstance(node, ast.Name)}
    return tuple(
        each for each in block.dependencies if each.name in read or each.name != _AUTO_MODEL
    )


def _keep_read(
    imports: tuple[Dependency, ...], blocks: tuple[FlatBlock, ...]
) -> tuple[Dependency, ...]:
    """The imports without AutoModel, if no block reads it any more."""
    read = {dependency.name for block in blocks for dependency in block.dependencies}
    return tuple(each for each in imports if each.name in read or each.name != _AUTO_MODEL)

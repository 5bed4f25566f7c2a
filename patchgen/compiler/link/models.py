"""Say which models transformers' AutoModel builds for the classes of a flat file.

    self.language_model = AutoModel.from_config(config.text_config)

    class Qwen3VLConfig(PreTrainedConfig):                      the part `text_config`
        sub_configs_defaults = {"text_config": Qwen3VLTextConfig}
    class Qwen3VLTextConfig(PreTrainedConfig):
        model_type = "qwen3_vl_text"
    MODEL_MAPPING_NAMES = OrderedDict([("qwen3_vl_text", "Qwen3VLTextModel"), ...])

A part may also be of any type, and of `model_type` where nothing else is said:

    sub_configs_defaults = {
        "vision_config": SubConfigSpec(config_class=AutoConfig, model_type="sam2_vision_model")
    }

Or it is made when it is asked for:

    @property
    def encoder_config(self):
        return MimiEncoderConfig(**self.to_dict())

A new model has such models of its parents' files as well: `gather` takes them along.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from patchgen.compiler.link.flatblock import Builder, FlatBlock, list_bases
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import kind_of_module
from patchgen.facts.modules import AUTO_MODELS, AUTO_MODELS_TABLE, GENERIC_HEADS, SUB_CONFIGS
from patchgen.syntax.errors import Location
from patchgen.syntax.trees import assigned_values, parse_class, walk

# A pattern that begins with a word is looked for ten times faster.
ASKED = re.compile(r"AutoModel(?<!\wAutoModel)\.from_config\((?:config=)?config\.(\w+)")


@dataclass(frozen=True, slots=True)
class Part:
    """The model of a part of a configuration.

    `default` is its model type where the part may have any other; "" where it is always this one.
    `is_own`: the output has its configuration, which AutoModel then does not know.
    """

    model: str
    default: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class _Configuration:
    name: str
    model_type: str
    parts: tuple[tuple[str, str, str], ...]  # name, class and stated model type


def find_asked_models(blocks: tuple[FlatBlock, ...], builder: Builder) -> set[str]:
    """The models of transformers that AutoModel builds for classes among `blocks`."""
    names = {part.model for part in find_asked_parts(blocks, builder).values()}
    for block in blocks:
        if find_generic_bases(block):
            names |= select_base_models(block, blocks, builder)
    return names


def find_asked_parts(blocks: tuple[FlatBlock, ...], builder: Builder) -> dict[str, Part]:
    """The parts for which classes ask AutoModel, where their models are known."""
    asked: set[str] = set()
    for block in blocks:
        # The search takes long where nothing is found.
        if "AutoModel" in block.text:
            asked.update(ASKED.findall(block.text))
    parts = _map_parts(builder) if asked else {}
    return {name: part for name, part in parts.items() if name in asked}


def find_generic_bases(block: FlatBlock) -> list[Symbol]:
    """The generic heads of transformers that a class derives from."""
    bases = list_bases(block, lambda each: each.symbol.module == GENERIC_HEADS)
    return [symbol for symbol in bases if symbol.name.startswith("GenericFor")]


def select_base_models(
    head: FlatBlock, blocks: tuple[FlatBlock, ...], builder: Builder
) -> set[str]:
    """The one model that AutoModel builds for the configuration that a head states, if it is known.

    class Gemma3TextForSequenceClassification(GenericForSequenceClassification, ...):
        config: Gemma3TextConfig
    """
    models = _read_base_models(builder)
    known = {models[name] for name in map_model_types(builder).values() if name in models}
    defined = set[str]().union(*(builder.index(each).classes for each in builder.plan.parents))
    if len(known & defined) == 1:
        return known & defined
    types = _read_model_types(builder)
    classes = {block.name: block for block in blocks if block.kind == "class"}
    waiting = [head.name]
    for name in waiting:
        text = classes[name].text if name in classes else ""
        stated = re.search(r"^ +config: (\w+)$", text, re.MULTILINE)
        if stated:
            return {models.get(types.get(stated[1], ""), "")} & known
        if text:
            waiting += [ast.unparse(base) for base in parse_class(text).bases]
    return set()


def _read_model_types(builder: Builder) -> dict[str, str]:
    """The model type of each configuration class by its name in the flat files."""
    naming = builder.naming
    types = {}
    for module, configuration in _list_configurations(builder):
        symbol = Symbol(module, configuration.name)
        types[configuration.name] = configuration.model_type
        types[naming.resolve(symbol, module).name] = configuration.model_type
    for declaration in naming.plan.declarations:
        if declaration.parents:
            types[declaration.symbol.name] = types.get(declaration.parents[-1].name, "")
    return types


def _map_parts(builder: Builder) -> dict[str, Part]:
    """Each part of a configuration with its model.

    One that has different classes in two configurations is left out.
    """
    types: dict[str, str] = {}
    stated: dict[str, set[tuple[str, str]]] = {}
    own: set[str] = set()
    for module, configuration in _list_configurations(builder):
        types[configuration.name] = configuration.model_type
        if module in builder.plan.parents:
            own.add(configuration.name)
        for part, part_class, default in configuration.parts:
            stated.setdefault(part, set()).add((part_class, default))
    models = _read_base_models(builder)
    parts: dict[str, Part] = {}
    for part, classes in stated.items():
        name, default = classes.pop()
        model = models.get(default or types.get(name, ""))
        if model and not classes:
            parts[part] = Part(model, default, name in own)
    return parts


def _read_base_models(builder: Builder) -> Mapping[str, str]:
    """Model type and base model, from transformers' table; empty where a release has none.

    MODEL_MAPPING_NAMES = OrderedDict([("llama", "LlamaModel"), ...])
    """
    if builder.bindings.env.path(AUTO_MODELS) is not None:
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


def _list_configurations(builder: Builder) -> Iterator[tuple[str, _Configuration]]:
    """The configurations that the parents of the modeling output import, with their modules."""
    bindings = builder.bindings
    for parent in builder.plan.parents:
        index = builder.index(parent)
        for item in index.imports:
            module = bindings.absolute(index, item.module, item.level, Location(parent))
            if kind_of_module(module) == "configuration":
                for block in builder.index(module).blocks:
                    if block.kind == "class":
                        yield module, _read_configuration(block.text)


def map_model_types(builder: Builder) -> dict[str, str]:
    """Each model type of the output with the one of its parent."""
    listed = [configuration.model_type for _, configuration in _list_configurations(builder)]
    sources = {name: name for name in listed if name}
    for declaration in builder.plan.declarations:
        if declaration.kind == "configuration" and declaration.parents:
            stated: list[str] = []
            for symbol in (declaration.symbol, *declaration.parents):
                block = builder.index(symbol.module).definition(symbol.name)
                if block:
                    stated.append(_read_configuration(block.text).model_type)
            # The first is the variant's, the last the one that transformers knows.
            stated = list(filter(None, stated))
            if stated:
                sources[stated[0]] = stated[-1]
    return sources


@functools.lru_cache(maxsize=256)  # The variants of a model have one configuration.
def _read_configuration(text: str) -> _Configuration:
    owner = parse_class(text)
    values = assigned_values(owner.body)
    stated = values.get("model_type")
    model_type = str(stated.value) if isinstance(stated, ast.Constant) else ""
    parts = chain.from_iterable(_find_parts(values.get(key)) for key in SUB_CONFIGS)
    return _Configuration(owner.name, model_type, (*parts, *_find_made_parts(owner)))


def _find_parts(table: ast.expr | None) -> Iterator[tuple[str, str, str]]:
    """The parts in a table, with the names of their classes and the types that are stated.

    {"text_config": ToyTextConfig, "vision_config": SubConfigSpec(AutoConfig, model_type="vit")}
    """
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        stated = {}
        if isinstance(value, ast.Call):
            stated = {keyword.arg: keyword.value for keyword in value.keywords}
        if isinstance(key, ast.Constant):
            # An unknown form makes the part ambiguous, and it is left to AutoModel.
            owner = ast.unparse(stated.get("config_class", value))
            default = stated.get("model_type")
            model_type = str(default.value) if isinstance(default, ast.Constant) else ""
            yield str(key.value), owner, model_type


def _find_made_parts(owner: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """The parts that are properties, with the configurations that they make."""
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        if [ast.unparse(decorator) for decorator in method.decorator_list] != ["property"]:
            continue
        made = {ast.unparse(node.func) for node in walk(method) if isinstance(node, ast.Call)}
        for name in sorted(made):
            if name.isidentifier() and name.endswith("Config"):
                yield method.name, name, ""

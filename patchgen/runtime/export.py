"""Export a variant as a folder that loads with `trust_remote_code=True`, without patchgen.

In: a variant and, if there is one, a checkpoint.  Out: the generated files with their diff, a
configuration whose `auto_map` names them, a model card, and of the checkpoint its tokenizer, its
settings and its weights.  The folder appears whole or not at all.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.runtime.card import model_card
from patchgen.runtime.classes import (
    ModelClass,
    auto_entries,
    has_own_configuration,
    model_classes,
    module_of,
)
from patchgen.runtime.load import chosen_class, load_into
from patchgen.runtime.release import release_check
from patchgen.runtime.variants import Variant, find_variant

CONFIG = "config.json"
WEIGHTS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "pytorch_model*.bin",
    "pytorch_model*.bin.index.json",
)
BESIDE = (
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "spiece.model",
    "sentencepiece*",
    "chat_template*",
    "*processor_config.json",
    "LICENSE*",
    "NOTICE*",
    "USE_POLICY*",
)
# Of an export without a checkpoint: the first of these that the variant has says what it is.
_MAIN = (
    "AutoModelForMaskedLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
)


def export(name: str, folder: Path, checkpoint: str | None = None) -> Variant:
    """Write the variant of that name into `folder`, which must be empty or absent; the variant.

    ValueError where there is no such variant, where no auto class could load it, where its files
    need others than transformers, torch and each other, and for a checkpoint of another kind of
    model or without weights.  OSError where the folder is in use.
    """
    variant = find_variant(name)
    folder = folder.resolve()  # "." has no name, and a link to a folder is none
    if folder == Path.cwd():
        raise FileExistsError(
            f"{folder} is the current folder, which would be replaced: name one that is not there"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already, and not an empty folder")
    source = _source(checkpoint) if checkpoint is not None else None
    with disk.new_folder(folder) as inner:
        _fill(inner, variant, source)
    return variant


def _source(checkpoint: str) -> Path:
    if os.path.isdir(checkpoint):
        return Path(checkpoint)
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(checkpoint, allow_patterns=[CONFIG, "README.md", *BESIDE, *WEIGHTS])
    )


def _fill(folder: Path, variant: Variant, source: Path | None) -> None:
    for path in code_files(variant):
        check = release_check(variant) if variant.transformers and path == variant.path else ""
        disk.write(folder / path.name, disk.text_of(path) + check, folder)
    diff = variant.path.with_suffix(".diff")
    if diff.exists():
        disk.copy(diff, folder / diff.name, folder)
    if source is None:
        configuration = _default_configuration(variant)
    else:
        configuration = _checkpoint_into(folder, variant, source)
    configuration["auto_map"] = auto_map(variant, configuration["model_type"])
    if not configuration["auto_map"]:
        raise ValueError(
            f"no auto class builds {variant.parent}, "
            f"and so none could load {variant.name} from a folder"
        )
    disk.write(folder / CONFIG, json.dumps(configuration, indent=2, sort_keys=True) + "\n", folder)
    card = model_card(variant, folder.name, configuration, source)
    disk.write(folder / "README.md", card, folder)


def code_files(variant: Variant) -> tuple[Path, ...]:
    """The modeling file and what it imports beside itself, directly or not.

    ValueError for an import that an exported folder could not answer.
    """
    paths: dict[Path, None] = {}
    waiting = [variant.path]
    while waiting:
        path = waiting.pop()
        if path not in paths:
            paths[path] = None
            waiting += _imported_files(path)
    return tuple(paths)


def _imported_files(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(disk.text_of(path))):
        at = f"{path}:{getattr(node, 'lineno', 0)}"
        names = []
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level > 1 or not node.module or "." in node.module:
                what = "imports from another folder, and the files of an export stand in one"
                raise ValueError(f"{at}: {what}")
            yield path.with_name(f"{node.module}.py")
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.partition(".")[0] in ("patchgen", "generated", "modular"):
                what = f"imports {name}, which is not where an export is loaded"
                raise ValueError(f"{at}: {what}")


def auto_map(variant: Variant, model_type: str) -> dict[str, str]:
    """What `auto_map` of a configuration of that type says.

    That is, for each auto class, the file and the class that it builds.
    Left out are classes that take the configuration of a part, such as the language model of a
    model of images and text: transformers hands custom code the whole.
    """
    entries: dict[str, str] = {}
    for auto, by_config in auto_entries(variant).items():
        for model in itertools.chain.from_iterable(by_config.values()):
            if model.config_class.model_type == model_type:
                entries.setdefault(auto.__name__, _reference(model))
                if has_own_configuration(model):
                    entries["AutoConfig"] = _reference(model.config_class)
    return entries


def _reference(item: Any) -> str:
    return f"{item.__module__.rpartition('.')[2]}.{item.__name__}"


def _default_configuration(variant: Variant) -> dict[str, Any]:
    model = _main_class(variant)
    configuration = model.config_class()
    configuration.architectures = [model.__name__]
    values: dict[str, Any] = json.loads(configuration.to_json_string(use_diff=True))
    return values


def _main_class(variant: Variant) -> ModelClass:
    entries = {auto.__name__: by_config for auto, by_config in auto_entries(variant).items()}
    for auto in _MAIN:
        if auto in entries:
            first, *_ = entries[auto].values()
            return first[0]
    classes = model_classes(module_of(variant))
    if not classes:
        raise ValueError(f"{variant.module} has no public model")
    return classes[0]


def _checkpoint_into(folder: Path, variant: Variant, source: Path) -> dict[str, Any]:
    """Copy what belongs to the checkpoint.

    Returns its configuration, with the variant's class for its architecture.
    """
    configuration = _configuration(source)
    if not any(any(source.glob(pattern)) for pattern in WEIGHTS):
        raise ValueError(f"{source} has no weights: {' or '.join(WEIGHTS[::2])}")
    model = chosen_class(variant, configuration)
    if configuration.get("model_type") == model.config_class.model_type:
        _copy(source, folder, (*BESIDE, *WEIGHTS))
    else:  # a dense checkpoint in a mixture: other weights, under other names
        load_into(variant, source, None, {}).save_pretrained(folder)
        _copy(source, folder, BESIDE)
        configuration = disk.read_json(folder / CONFIG)
    configuration.pop("auto_map", None)
    configuration["architectures"] = [model.__name__]
    return configuration


def _configuration(source: Path) -> dict[str, Any]:
    path = source / CONFIG
    disk.require_own(path, source)
    try:
        configuration: Any = disk.read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(configuration, dict) or "model_type" not in configuration:
        raise ValueError(f"{path} names no model_type")
    return configuration


def _copy(source: Path, folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in source.glob(pattern):
            target = folder / path.name
            if path.is_file() and not target.exists():
                disk.require_own(path, source)
                disk.copy(path, target, folder)

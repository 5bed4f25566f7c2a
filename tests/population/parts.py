"""Modular files about models of several models: AutoModel builds the parts of such a model.

The forms are in `parts.txt`.  The oracle is Python's inheritance, with AutoModel giving the classes of
the same file; the configuration has to make the changed part by itself, and a saved model to come back.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from string import Template
from types import ModuleType
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from patchgen.runtime.tiny import tiny_config
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.models.build import draw_weights
from patchgen.verify.parts.part_check import Scenario
from tests.population import judge
from tests.population.kinds import ROLES, Case, Facts, read_forms, state_argument
from tests.population.models import Model, find_models

FORMS = read_forms(Path(__file__).with_name("parts.txt"))
KINDS = tuple(dict.fromkeys(kind for kind, *_ in FORMS))
CALL = re.compile(r"AutoModel\w*\.from_config\((?:config=)?config\.(\w+)")
VALUE = 0.125  # of the field that a form gives another default


@cache
def find_askers() -> tuple[Model, ...]:
    """The models that ask AutoModel for parts of their configuration."""
    return tuple(model for model in find_models() if CALL.search(model.text))


@cache
def find_head(model: Model) -> str:
    """The public class that is built of what AutoModel gives, best one that people use."""
    asking = {name for name in model.classes if CALL.search(model.texts[name])}
    heads = [name for name in (model.head, *model.public) if model.reachable(name) & asking]
    return heads[0] if heads else ""


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a model whose class stands in the file of the model."""

    name: str  # text_config
    config: type[PreTrainedConfig]
    model: str
    field: str
    is_fixed: bool  # no other type is accepted


@cache
def find_parts(model: Model, head: str) -> list[Part]:
    """The parts for which the model asks, if they are of its own file."""
    asked = CALL.findall("\n".join(model.texts[name] for name in model.reachable(head)))
    whole = config_of(model, head)
    parts = []
    for name, config in whole.sub_configs.items():
        is_fixed = config is not AutoConfig
        config = config if is_fixed else type(getattr(whole(), name))
        built = MODEL_MAPPING_NAMES.get(getattr(config, "model_type", ""), "")
        if name in asked and built in model.classes:
            rates = [e.name for e in dataclasses.fields(config) if isinstance(e.default, float)]
            rates.sort(key=lambda rate: "eps" not in rate)  # No model refuses another one.
            if rates:
                parts.append(Part(name, config, built, rates[0], is_fixed))
    return parts


def config_of(model: Model, head: str) -> type[PreTrainedConfig]:
    config: type[PreTrainedConfig] = getattr(
        importlib.import_module(model.module), head
    ).config_class
    return config


@dataclasses.dataclass(frozen=True)
class PartCase(Case):
    """A modular file, and the part whose configuration or class it changes."""

    part: Part | None = None


def find_part_cases(model: Model) -> list[PartCase]:
    """The files of all forms that fit."""
    head, cases = find_head(model), []
    parts = find_parts(model, head) if head else []
    for kind, name, options, text in FORMS if head else ():
        random = Random(f"{kind} {name} {model.name}")
        # What any model may be has no configuration of this file.
        fitting = [part for part in parts if part.is_fixed or "part" not in options]
        if "part" in options and not fitting:
            continue
        part = random.choice(fitting) if fitting else None
        owner = part.model if part else head
        pool = [each for each in sorted(model.reachable(owner)) if state_argument(model, each)]
        pool = [each for each in pool if re.search("|".join(ROLES.values()), each)] or pool
        facts = Facts(model, random.choice(pool or [head]), random)
        try:
            cases.append(_fill(kind, name, text, facts, head, part))
        except LookupError:  # the form does not fit
            continue
    return cases


def _fill(kind: str, form: str, text: str, facts: Facts, head: str, part: Part | None) -> PartCase:
    model = facts.model
    whole = config_of(model, head)
    facts |= {"head": head, "config": whole.__name__}
    if part:
        facts |= {"part_config": part.config.__name__, "field": part.field}
    new = re.findall(r"\$new_(\w+)", text)
    renames = {facts[f"new_{word}"]: facts[word] for word in new}
    body = Template(text).substitute(facts)
    package, _, module = whole.__module__.rpartition(".")
    above = "from huggingface_hub.dataclasses import strict\n" if "@strict" in body else ""
    above += f"from {package} import {module} as cf\n" if "cf." in body else ""
    chosen = facts["new_head"] if "head" in new else head
    return PartCase(kind, form, model, above + body, renames, chosen, "", "", part)


def compare(case: PartCase, inherited: ModuleType, flat: ModuleType, is_partly_auto: bool) -> str:
    """What is equal; raises AssertionError or any error of the flat file alone."""
    name = case.renames.get(case.head, case.head)
    like = getattr(importlib.import_module(case.model.module), name)
    flat_class = getattr(flat, case.head)
    check_configuration(case, flat_class.config_class, flat)
    parent = importlib.import_module(case.model.module)
    try:
        config = tiny_config(like.config_class)
        if case.kind == "config":
            setattr(getattr(config, case.part.name), case.part.field, VALUE)
            config = type(config).from_dict(config.to_dict())  # what follows from it is set too
        with judge.of_auto(parent, inherited):
            model = judge.build(getattr(inherited, name), config)
    except Exception as error:
        return f"imported; not built: {judge.short(error)}"
    other = judge.build(flat_class, own_configuration(flat_class.config_class, config))
    judge.assert_equal(model.state_dict(), other.state_dict(), "initial state")
    for (place, module), theirs in zip(model.named_modules(), other.modules(), strict=True):
        is_changed = case.model.reachable(type(module).__name__) & case.changed.keys()
        if type(module).__module__ == inherited.__name__ and is_changed:
            assert type(theirs).__module__ == flat.__name__, f"{place} is of transformers"
    draw_weights(model)
    other.load_state_dict(model.state_dict())
    loaded = save_and_load(model, other)
    try:
        inputs = make_inputs(like, model.config, Scenario(labels=True)).to("cpu", torch.float32)
        outputs = judge.run(model, inputs)
    except Exception as error:
        return f"equal state; not run: {judge.short(error)}"
    judge.assert_equal(outputs, judge.run(other, inputs), "outputs")
    if loaded is None:
        return f"equal state and {len(outputs)} outputs; the parent is not saved"
    judge.assert_equal(outputs, judge.run(loaded, inputs), "outputs after loading")
    return f"equal state and {len(outputs)} outputs, also after loading"


def check_configuration(case: PartCase, config: type[PreTrainedConfig], flat: ModuleType) -> None:
    """The configuration makes the changed part, and knows its own type."""
    if "model_type = " in case.text:
        assert config.model_type == "tiny", f"{config} has the type {config.model_type}"
    if case.kind == "config":
        part = getattr(config(), case.part.name)
        value = getattr(part, case.part.field)
        assert value == VALUE, f"{case.part.name} is a {type(part)} with {case.part.field}={value}"


def own_configuration(config_class: type[PreTrainedConfig], like: PreTrainedConfig) -> Any:
    """The values of `like`, as a configuration of the flat file has them."""
    if isinstance(like, config_class):
        return like
    values = like.to_dict()
    del values["model_type"]
    return config_class.from_dict(values)


def save_and_load(model: Any, other: Any) -> Any:
    """`other`, saved and loaded again; None where `model`, its oracle, cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            model.save_pretrained(folder)
            like = type(model).config_class.from_pretrained(folder)
        except Exception:
            return None
    with tempfile.TemporaryDirectory() as folder:
        other.save_pretrained(folder)
        loaded = type(other).from_pretrained(folder).eval()
        assert type(loaded.config) is type(other.config)
        for name in like.sub_configs:
            kinds = type(getattr(other.config, name)), type(getattr(loaded.config, name))
            assert kinds[0] is kinds[1], f"{name} is loaded as {kinds[1]}"
        return loaded

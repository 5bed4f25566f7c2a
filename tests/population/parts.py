"""Modular files about models of several models: AutoModel builds the parts of such a model.

The forms are in `parts.txt`.  Beside what Python makes of the file, the configuration has to make the
changed part by itself, and a saved model to come back.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import tempfile
from collections.abc import Sequence
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
from patchgen.verifying.oracle.models import as_config_of, build
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
    return PartCase(kind, form, model, above + body, renames, chosen, "", part)


def find_wrong(case: PartCase, flats: Sequence[ModuleType]) -> list[str]:
    """What is wrong with the configurations of the flat files, and with a saved model."""
    (flat,) = [flat for flat in flats if hasattr(flat, case.head)]
    found: list[str] = []
    cls = getattr(flat, case.head)
    if "model_type = " in case.text and cls.config_class.model_type != "tiny":
        found.append(f"{cls.config_class} has the type {cls.config_class.model_type}")
    if case.kind == "config" and case.part:
        part = getattr(cls.config_class(), case.part.name)
        # A part may be missing by default.
        if part is not None and getattr(part, case.part.field) != VALUE:
            found.append(f"{case.part.name} is a {type(part)}, without {case.part.field}={VALUE}")
    like = getattr(
        importlib.import_module(case.model.module), case.renames.get(case.head, case.head)
    )
    try:
        values = tiny_config(like.config_class)
        whole = _save_and_load(build(like, as_config_of(like, values, like)))[1]
    except Exception:  # nor is transformers' own
        return found
    model, loaded = _save_and_load(build(cls, as_config_of(cls, values, like)))
    states = model.state_dict(), loaded.state_dict()
    found += [name for name in states[0] if not torch.equal(states[0][name], states[1][name])]
    for name in whole.config.sub_configs:
        kinds = type(getattr(model.config, name)), type(getattr(loaded.config, name))
        if kinds[0] is not kinds[1]:
            found.append(f"{name} is loaded as {kinds[1]}")
    return found


def _save_and_load(model: Any) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return model, type(model).from_pretrained(folder)

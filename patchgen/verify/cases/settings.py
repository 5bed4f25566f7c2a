"""Cases with other settings of the configuration: windows, decoders, published checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from patchgen.facts.published import Setting
from patchgen.verify.cases.case import DROPOUT, ROUTES, UNPACKED_ROWS, Case, compare_numbers
from patchgen.verify.configs.read import (
    changed_heads,
    find_settings,
    head_for,
    read_of,
)
from patchgen.verify.inputs.calls import WHOLE_ENCODER
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Scenario
from patchgen.verify.variants import Variant

PartChecks = tuple[PartCheck, ...]


def compare_settings(
    variant: Variant, checks: PartChecks, dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Cases with settings that the text of the module mentions: `Variant.settings`."""
    known = {
        "sliding_window": (variant.heads[0], (("sliding_window", 5),)),
        "add_cross_attention": (
            _decoder_of(variant),
            (("add_cross_attention", True), ("is_decoder", True)),
        ),
    }
    for setting in variant.settings:
        head, changes = known[setting]
        for dtype in dtypes[:2]:
            for rows in UNPACKED_ROWS:
                training = training_scenario(checks, rows)
                for route, called in enumerate(ROUTES):
                    label = f"{rows} {called}, {setting}"
                    case = compare_numbers(head, dtype, label, training, route)
                    yield replace(case, changes=changes)


def compare_lengths(variant: Variant, checks: PartChecks) -> Iterator[Case]:
    """Texts that are longer than each integer in the changed lines, such as that of a chunk."""
    for number in read_of(variant).lengths:
        scenario = replace(training_scenario(checks, "right"), length=number + 3)
        case = compare_numbers(variant.heads[0], "float64", f"longer than {number}", scenario)
        changes = (("max_position_embeddings", number + 8),)
        yield replace(case, changes=changes, whole=True)


def compare_published(
    variant: Variant, checks: PartChecks, dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Cases with configurations of checkpoints, and settings that parts and changed lines read."""
    for setting in find_settings(variant):
        makes_decoder = "is_decoder" in setting.changes
        head = _decoder_of(variant) if makes_decoder else head_for(variant, setting)
        for case in _cases_of(setting, head, checks, dtypes):
            changes = tuple(setting.changes.items())
            yield replace(case, changes=changes, whole=True, drawn=setting.drawn)


# By the ending of a head: what it may be trained for, and settings that no model has by default.
OF_HEADS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "SequenceClassification": {
        "trained for a number": {"problem_type": "regression", "num_labels": 1},
        "trained for several classes": {
            "problem_type": "multi_label_classification",
            "num_labels": 3,
        },
    },
    "TokenClassification": {
        "without a bias": {"token_classification_bias": False},
        "with a rate of its own": {"classifier_dropout": 0.4},
    },
}


def compare_heads(variant: Variant, checks: PartChecks) -> Iterator[Case]:
    """Changed heads with what they read of a configuration."""
    training = replace(training_scenario(checks, "right"), dropout=DROPOUT)
    for head in changed_heads(variant):
        for ending, settings in OF_HEADS.items():
            for name, changes in settings.items() if head.endswith(ending) else ():
                case = compare_numbers(head, "float64", name, training)
                yield replace(case, changes=tuple(changes.items()), whole=True)


def _cases_of(
    setting: Setting, head: str, checks: PartChecks, dtypes: tuple[str, ...]
) -> Iterator[Case]:
    last = setting.rows[-1]
    training = training_scenario(checks, last)
    for label, scenario in _scenarios_of(setting, checks).items():
        label = f"{label}: {setting.name}"
        yield compare_numbers(head, "float64", label, scenario, setting.route)
    if "bfloat16" in dtypes:
        yield compare_numbers(head, "bfloat16", f"{last} train: {setting.name}", training)
    # In float32 too: only there does GPT-2's upcast change anything.
    yield compare_numbers(head, "float32", f"{last} eager: {setting.name}", training, route=2)
    if setting.changes.get("is_decoder") or setting.changes.get("add_cross_attention"):
        generates = Case(f"{head} generates: {setting.name}", "generated", head, detail="greedy")
        prompt = Scenario(rows="left", labels=False)
        if "add_cross_attention" not in setting.changes:
            yield replace(generates, route=setting.route, scenario=prompt)
        cache = Case(f"{head} cache: {setting.name}", "cache", head, "float64")
        yield replace(cache, route=setting.route, scenario=Scenario(labels=False))


def _scenarios_of(setting: Setting, checks: PartChecks) -> dict[str, Scenario]:
    last = setting.rows[-1]
    scenarios = {f"{rows} train": training_scenario(checks, rows) for rows in setting.rows}
    if not setting.drawn:
        training = training_scenario(checks, last)
        scenarios[f"{last} eval, dropout set"] = Scenario(rows=last, dropout=DROPOUT)
        scenarios[f"{last} dropout"] = replace(training, dropout=DROPOUT)
    if "add_cross_attention" in setting.changes:
        scenarios[WHOLE_ENCODER] = replace(training_scenario(checks), ways=(WHOLE_ENCODER,))
    return scenarios


def _decoder_of(variant: Variant) -> str:
    """The head that generates text, or the main one if there is none."""
    for head in variant.heads:
        if head.endswith(("LMHeadModel", "ForCausalLM")):
            return head
    return variant.heads[0]

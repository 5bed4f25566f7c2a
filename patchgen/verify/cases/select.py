"""The matrix: what is run for a variant, decided from its text and its claims before any model is built.

A case that turns out to have nothing to compare (a head without a loss, a parent that mixes packed rows) is a result
of its own, `NONE` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchgen.verify.configs.published import Setting
from patchgen.verify.configs.settings import changed_heads, find_settings
from patchgen.verify.inputs.calls import BY_CONFIGURATION, WHOLE_ENCODER
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Rows, Scenario
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant

ROWS: tuple[Rows, ...] = ("full", "right", "left", "packed")
EVAL_ROWS: tuple[Rows, ...] = ("full", "left")
ROUTES = ("closest", "independent")
DROPOUT = 0.2
LONG = 37  # tokens: more than any window, and scores that are larger than what they are made of
RATES = ("attention_probs_dropout_prob", "hidden_dropout_prob", "attention_dropout")
# Names of attention that transformers has, and one that nobody has.
ATTENTIONS = (
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
    "misspelt",
)
# How a model that calls transformers' interface is run: `checks.interface`.
INTERFACE = ("eager", "flex_attention", "flash", "registered")


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to find out.  `kind` is the name of a function in `checks`."""

    name: str
    kind: str
    head: str
    dtype: str = "float32"
    route: int = 0  # 0: the closest, 1: the most independent, 2: both sides eager
    scenario: Scenario = Scenario()
    changes: tuple[
        tuple[str, Any], ...
    ] = ()  # of the configuration: the first it must have, others it may
    detail: str = ""  # of its kind: the name of a plant, of an attention, of a compiler
    whole: bool = (
        False  # all of `changes` are made, whether the configuration lists such names or not
    )
    drawn: bool = (
        False  # nobody says that the model takes `changes`: what is refused is not compared
    )


QUICK = Plan()
# Of a short plan: what a model of any kind is held against in every part.
SHORT_ROWS, SHORT_DTYPES = ROWS[:3], ("float64", "float32")


def cases(
    variant: Variant, part_checks: tuple[PartCheck, ...], plan: Plan = QUICK
) -> tuple[Case, ...]:
    """Every case of `variant`, the cheap ones that say most first.

    Raises LookupError where it has no class to run: nothing would be shown.
    """
    if not variant.heads:
        raise LookupError(f"{variant.module} has no public model class")
    main = variant.heads[0]
    if plan.short:
        return tuple(_without_states(_short(main, part_checks, plan), part_checks))
    made = [
        *_loading(main),
        *_effects(main, part_checks),
        *_numbers(main, part_checks, plan.dtypes),
        *_plants(main, part_checks, plan.dtypes),
        *_scenes(main, part_checks, plan.dtypes),
        *_ways(main, part_checks),
        *_interface(main, part_checks),
        *_pace(main, part_checks, plan),
        *_flash(variant, part_checks),
        *_settings(variant, part_checks, plan.dtypes),
        *_published(variant, part_checks),
        *_use(main, part_checks, plan),
    ]
    for head in _others(variant, plan):
        made += [*_loading(head), *_base(head, part_checks, plan.dtypes)]
    made += [
        Case(f"{head} plans", "plans", head) for head in variant.heads
    ]  # of no model that takes memory
    return (*_without_states(made, part_checks), *_states(main, part_checks))


def _without_states(made: Iterable[Case], part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """No hidden states are asked for where a part would not be at work."""
    at_work = all(part_check.works_with_hidden_states for part_check in part_checks)
    for case in made:
        yield case if at_work else replace(case, scenario=replace(case.scenario, states=False))


def _states(head: str, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """Hidden states, which other cases leave out."""
    if all(part_check.works_with_hidden_states for part_check in part_checks):
        return
    for rows in ROWS:
        yield Case(
            f"{head} float64 {rows}, all states",
            "numbers",
            head,
            "float64",
            scenario=training_scenario(part_checks, rows),
        )


def _others(variant: Variant, plan: Plan) -> tuple[str, ...]:
    """Heads beside the main one: the base model's, and those that a changed line stands in."""
    wanted = {*variant.heads[1:2], *changed_heads(variant)}
    return tuple(head for head in variant.heads[1:] if plan.full or head in wanted)


def _short(head: str, part_checks: tuple[PartCheck, ...], plan: Plan) -> Iterator[Case]:
    dtypes = tuple(dtype for dtype in plan.dtypes if dtype in SHORT_DTYPES)
    yield from _loading(head)
    yield from _effects(head, part_checks)
    for case in _numbers(head, part_checks, dtypes):
        if case.route == 0 and case.scenario.train and case.scenario.rows in SHORT_ROWS:
            yield case
    yield from _plants(head, part_checks, dtypes[-1:])


def _loading(head: str) -> Iterator[Case]:
    yield Case(f"{head} checkpoints", "checkpoints", head)
    yield Case(f"{head} begins as the parent", "fresh", head)


def _effects(head: str, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    for part_check in part_checks:
        yield Case(f"{head} effect of {part_check.part}", "effect", head, detail=part_check.part)
        for how in (how for how in part_check.checkpointing if "context_fn" in how):
            for length in (0, LONG):
                name = f"{head} keeps products{', long' if length else ''}"
                yield Case(
                    name,
                    "kept",
                    head,
                    scenario=Scenario(train=True, checkpointing=how, length=length),
                )


def _numbers(
    head: str, part_checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """All in training, where every part is at work; in eval, where some do nothing, a few."""
    for dtype in dtypes:
        for rows in ROWS:
            for route, called in enumerate(ROUTES):
                yield Case(
                    f"{head} {dtype} {rows} {called}",
                    "numbers",
                    head,
                    dtype,
                    route,
                    training_scenario(part_checks, rows),
                )
        for rows in EVAL_ROWS:
            yield Case(
                f"{head} {dtype} {rows} eval", "numbers", head, dtype, scenario=Scenario(rows=rows)
            )


def _plants(
    head: str, part_checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    for dtype in dtypes:
        for part_check in part_checks:
            for planted_error in part_check.planted_errors:
                name = f"{head} {dtype} planted: {planted_error.name} ({part_check.part})"
                yield Case(
                    name,
                    "planted",
                    head,
                    dtype,
                    detail=f"{part_check.part}:{planted_error.name}",
                    scenario=planted_error.scenario,
                )


def _scenes(
    head: str, part_checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Ways to train, each along the closest route."""
    scenarios = {
        "without labels": Scenario(labels=False),
        "without labels, padded": Scenario(labels=False, rows="right"),
        "dropout": Scenario(rows="right", train=True, dropout=DROPOUT),
        "accumulated": Scenario(rows="right", train=True, accumulate=2),
        "autocast": replace(training_scenario(part_checks), autocast=True),
        # With a mask, which autocast does not cast for everybody.
        "autocast, padded": replace(training_scenario(part_checks, "right"), autocast=True),
    }
    if training_scenario(part_checks).checkpointing is not None:
        scenarios["not checkpointed"] = Scenario(rows="right", train=True)
    ways = {_told(how): how for part_check in part_checks for how in part_check.checkpointing}
    for told, kwargs in ways.items():
        base = Scenario(rows="right", train=True, checkpointing=kwargs)
        scenarios[f"checkpointed {told}".strip()] = base
        scenarios[f"checkpointed with dropout {told}".strip()] = replace(base, dropout=DROPOUT)
    for name, scenario in scenarios.items():
        if scenario.autocast and "bfloat16" not in dtypes:
            continue
        yield Case(f"{head} float32 {name}", "numbers", head, scenario=scenario)
    yield Case(
        f"{head} float32 attention weights", "weights", head, scenario=Scenario(rows="right")
    )


def _told(how: Mapping[str, Any]) -> str:
    """The options of checkpointing in words."""
    return ", ".join(getattr(value, "__name__", f"{name}={value}") for name, value in how.items())


# By name: rows, whether in training, and the ways, each in the widest dtype.
WAYS: Mapping[str, Scenario] = {
    "typed": Scenario(rows="right", ways=("types of tokens",)),
    "embedded": Scenario(rows="right", ways=("embeddings",)),
    "placed": Scenario(ways=("positions",)),
    "placed, padded": Scenario(rows="left", ways=("positions",)),
    "typed, placed, embedded": Scenario(
        rows="left", ways=("types of tokens", "positions", "embeddings")
    ),
    "mask of floats": Scenario(rows="right", ways=("mask of floats",)),
    "mask of floats, left": Scenario(rows="left", ways=("mask of floats",)),
    "mask of bools": Scenario(rows="left", ways=("mask of bools",)),
    "mask of four axes": Scenario(rows="right", ways=("mask of four axes",)),
    "as a tuple": Scenario(rows="left", ways=("a tuple",)),
    "eval, dropout set": Scenario(rows="left", dropout=DROPOUT),
    "one token": Scenario(length=1, labels=False),
    "long": Scenario(length=LONG),
    "long, padded": Scenario(rows="left", length=LONG),
}
TRAINED_WAYS: Mapping[str, Scenario] = {
    "ignoring a label": Scenario(train=True, ways=("ignore_index",)),
    "counted": Scenario(rows="right", train=True, ways=("num_items_in_batch",)),
    "with a hook at its head": Scenario(rows="right", train=True, ways=("a head with a hook",)),
    "with a hook at its head, ignoring a label": Scenario(
        train=True, ways=("a head with a hook", "ignore_index")
    ),
    "with a bias at its head": Scenario(rows="right", train=True, ways=("a head with a bias",)),
    "as a tuple": Scenario(rows="right", train=True, ways=("a tuple",)),
    "long": Scenario(train=True, length=LONG),
}


def _ways(head: str, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """Other ways to call the model, those to train it with every part at work."""
    for name, scenario in WAYS.items():
        yield Case(f"{head} float64 {name}", "numbers", head, "float64", scenario=scenario)
    for name, scenario in TRAINED_WAYS.items():
        scenario = replace(scenario, checkpointing=training_scenario(part_checks).checkpointing)
        yield Case(f"{head} float64 trained {name}", "numbers", head, "float64", scenario=scenario)
    for rows in EVAL_ROWS:
        scenario = Scenario(rows=rows, dropout=DROPOUT)
        yield Case(
            f"{head} float64 {rows} eval, both eager", "numbers", head, "float64", 2, scenario
        )
        yield Case(
            f"{head} float64 {rows} train, both eager",
            "numbers",
            head,
            "float64",
            2,
            training_scenario(part_checks, rows),
        )
    asked = Scenario(rows="left", ways=(BY_CONFIGURATION,))
    yield Case(
        f"{head} float64 attention weights by configuration",
        "weights",
        head,
        "float64",
        scenario=asked,
    )
    yield Case(f"{head} float64 attention weights, full", "weights", head, "float64")


def _interface(head: str, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """By each function that a model may be asked for, where it calls transformers' interface."""
    if not any(part_check.by_flags for part_check in part_checks):
        return
    for how in INTERFACE:
        for rows in ROWS[:3]:
            scenario = training_scenario(part_checks, rows)
            yield Case(
                f"{head} float64 {rows} by {how}",
                "interface",
                head,
                "float64",
                scenario=scenario,
                detail=how,
            )
    scenario = Scenario(rows="left")
    yield Case(
        f"{head} float32 left by eager",
        "interface",
        head,
        "float32",
        scenario=scenario,
        detail="eager",
    )


def _pace(head: str, part_checks: tuple[PartCheck, ...], plan: Plan) -> Iterator[Case]:
    """Recipes of training, in each of which a variant is to keep to its fast path."""
    for rows in ROWS if "bfloat16" in plan.dtypes else ():
        scenario = training_scenario(part_checks, rows)
        recipes = {
            "autocast": ("float32", replace(scenario, autocast=True)),
            "bfloat16": ("bfloat16", scenario),
            "dropout": ("bfloat16", replace(scenario, dropout=DROPOUT)),
        }
        for recipe, (dtype, made) in recipes.items():
            yield Case(
                f"{head} pace of {recipe}, {rows}",
                "pace",
                head,
                dtype,
                scenario=made,
                detail=recipe,
            )
    if plan.full:  # it traces both sides
        yield Case(
            f"{head} compiled over lengths",
            "compiled over lengths",
            head,
            scenario=training_scenario(part_checks),
        )


def _flash(variant: Variant, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """Of layers without padding: what stands there, and rates of dropout, drawn in an order of its own."""
    if all(part_check.same_rng_order for part_check in part_checks):
        return
    head = variant.heads[0]
    for rows in ROWS[1:3] if any(part_check.part == "flash" for part_check in part_checks) else ():
        yield Case(
            f"{head} {rows} gives zeros at padding",
            "zeros",
            head,
            "float64",
            scenario=Scenario(rows=rows),
        )
    for rate in RATES:
        for rows in ("full", "right"):
            scenario = Scenario(rows=rows, labels=False)
            yield Case(
                f"{head} {rows} drops by {rate}", "drops", head, scenario=scenario, detail=rate
            )


def _settings(
    variant: Variant, part_checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Other settings of the same class, where its module knows of them."""
    main = variant.heads[0]
    decoder = next(
        (head for head in variant.heads if head.endswith(("LMHeadModel", "ForCausalLM"))), main
    )
    settings = {
        "sliding_window": (main, (("sliding_window", 5),)),
        "add_cross_attention": (decoder, (("add_cross_attention", True), ("is_decoder", True))),
    }
    for setting in variant.settings:
        head, changes = settings[setting]
        for dtype in dtypes[:2]:
            for rows in ROWS[:3]:
                for route, path in enumerate(ROUTES):
                    name = f"{head} {dtype} {rows} {path}, {setting}"
                    yield Case(
                        name,
                        "numbers",
                        head,
                        dtype,
                        route,
                        training_scenario(part_checks, rows),
                        changes,
                    )


def _published(variant: Variant, part_checks: tuple[PartCheck, ...]) -> Iterator[Case]:
    """Configurations of checkpoints, and what parts and changed lines read: in the widest dtype, which sees most."""
    for setting in find_settings(variant):
        head, last = _head_for(variant, setting), setting.rows[-1]
        made = Case(
            "",
            "numbers",
            head,
            "float64",
            setting.route,
            Scenario(),
            tuple(setting.changes.items()),
            whole=True,
        )
        made = replace(made, drawn=setting.drawn)
        scenarios = {f"{rows} train": training_scenario(part_checks, rows) for rows in setting.rows}
        if not setting.drawn:
            scenarios[f"{last} eval, dropout set"] = Scenario(rows=last, dropout=DROPOUT)
            scenarios[f"{last} dropout"] = replace(
                training_scenario(part_checks, last), dropout=DROPOUT
            )
        if "add_cross_attention" in setting.changes:
            scenarios[WHOLE_ENCODER] = replace(
                training_scenario(part_checks), ways=(WHOLE_ENCODER,)
            )
        for told, scenario in scenarios.items():
            yield replace(made, name=f"{head} float64 {told}: {setting.name}", scenario=scenario)
        # In float32, which some insist on (GPT-2's upcast).
        name, eager = (
            f"{head} float32 {last} eager: {setting.name}",
            training_scenario(part_checks, last),
        )
        yield replace(made, name=name, dtype="float32", route=2, scenario=eager)
        if setting.changes == {"is_decoder": True}:
            scenario = Scenario(rows="left", labels=False)
            name = f"{head} generates: {setting.name}"
            yield replace(
                made,
                name=name,
                kind="generated",
                dtype="float32",
                scenario=scenario,
                detail="greedy",
            )
            yield replace(
                made,
                name=f"{head} cache: {setting.name}",
                kind="cache",
                scenario=Scenario(labels=False),
            )


def _head_for(variant: Variant, setting: Setting) -> str:
    """Of a setting that makes a decoder of the model, the decoder's."""
    main = variant.heads[0]
    if "is_decoder" not in setting.changes:
        return main
    return next(
        (head for head in variant.heads if head.endswith(("LMHeadModel", "ForCausalLM"))), main
    )


def _use(head: str, part_checks: tuple[PartCheck, ...], plan: Plan) -> Iterator[Case]:
    yield Case(f"{head} cache", "cache", head, "float64", scenario=Scenario(labels=False))
    yield Case(
        f"{head} static cache",
        "cache",
        head,
        "float64",
        scenario=Scenario(labels=False),
        detail="static",
    )
    ways = ("greedy", "sampled", "beams", "static cache") if plan.full else ("greedy",)
    for way in ways:
        yield Case(
            f"{head} generates: {way}",
            "generated",
            head,
            scenario=Scenario(rows="left", labels=False),
            detail=way,
        )
    declared = any(part_check.attentions is not None for part_check in part_checks)
    for name in ATTENTIONS:
        if name == "flex_attention" and not declared and not plan.full:
            continue  # the parent's own, which is compiled for seconds to be refused on a CPU
        yield Case(f"{head} attn_implementation {name}", "attention", head, detail=name)
    for backend in ("aot_eager", "inductor") if plan.full else ("aot_eager",):
        yield Case(
            f"{head} compiled by {backend}",
            "compiled",
            head,
            detail=backend,
            scenario=training_scenario(part_checks),
        )
        if plan.full:
            packed = training_scenario(part_checks, "packed")
            yield Case(
                f"{head} compiled by {backend}, packed",
                "compiled",
                head,
                detail=backend,
                scenario=packed,
            )


def _base(head: str, part_checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    for dtype in dtypes:
        for rows in ROWS[:2]:
            yield Case(
                f"{head} {dtype} {rows}",
                "numbers",
                head,
                dtype,
                scenario=training_scenario(part_checks, rows),
            )
    left = {
        "train": training_scenario(part_checks, "left"),
        "eval, dropout set": Scenario(rows="left", dropout=DROPOUT),
    }
    for told, scenario in left.items():
        yield Case(f"{head} float64 left {told}", "numbers", head, "float64", scenario=scenario)
